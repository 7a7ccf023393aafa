"""Five faults planted in chapter 3's source; each must show first in its cell.

``ROWS`` = (cell, old text, new text, the cell where the change must show).
"""

import pytest
from helpers import caught_at, replace

from lmbook import chapters

ROWS = [
    ("scalar-ops", "(0.0 if off else 1.0,)", "(1.0,)", "op-check"),
    ("one-head-definition", "len(query) ** -0.5", "1.0", "loss-run"),
    ("gpt-definition", "x = add(x, mixed)", "x = mixed", "causal-check"),
    ("cross-entropy-definition", "local[target] -= 1.0", "pass", "unlikely"),
    ("adam-definition", "p.grad = 0.0", "pass", "train-step-run"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "old", "new", "where"), ROWS)
def test_mutation_is_caught_where_it_shows(cell, old, new, where):
    assert caught_at(chapters.path("03"), replace(cell, old, new)) == where
