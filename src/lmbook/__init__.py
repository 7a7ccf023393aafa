"""動かして読む言語モデル: what the chapters import, and what keeps them true.

Importing this package imports neither torch nor matplotlib.
"""

__version__ = "0.1.0"
