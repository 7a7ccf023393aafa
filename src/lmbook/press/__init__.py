"""Makes, compares and prints the notebooks. Nothing outside this package imports it."""

import sys

# nbformat's checker of schemas compiles a grammar of web addresses at every start: a
# second, for a kind of text ("iri") that no notebook has. Without it, it does not.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
