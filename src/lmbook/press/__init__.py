"""Makes, compares and prints the notebooks. Nothing outside imports it."""
