"""The gate's self-test on the chapters: five faults planted in each one's source.

Each is judged by two quick runs, without it and with it, and must show first in the
expected cell.
"""

import pytest
from helpers import caught_at, replace

from lmbook import chapters

#: chapter -> (cell, old text, new text, the cell where the change must show)
MUTATIONS = {
    "01": [
        (
            "causal-mean-def",
            "torch.tril(hidden.new_ones(T, T))",
            "hidden.new_ones(T, T)",
            "model-shapes",
        ),
        ("train-def", "optimizer.zero_grad()", "pass", "overfit-run"),
        ("current-def", "padding_idx)", "None)", "optimisers-claims"),
        (
            "no-future-def",
            "hidden[:, t + 1 :], generator",
            "0 * hidden",
            "no-future-run",
        ),
        ("entropy-def", "/ len(pairs)", "/ len(contexts)", "entropy-coin"),
    ],
    "02": [
        ("def-rope", "a * cos - b * sin", "a * cos + b * sin", "rope-check"),
        ("def-alibi", "range(1, power + 1)", "range(power)", "alibi-check"),
        (
            "def-transformer-input",
            "if max_len < T:",
            "if max_len + 1 < T:",
            "failures-loud",
        ),
        ("def-fold", "@ left)", "@ right)", "fold-trained"),
        ("def-normalised", "correction=0, ", "", "terms-mend"),
    ],
    "03": [
        ("scalar-ops", "(0.0 if off else 1.0,)", "(1.0,)", "op-check"),
        ("small-parts-definition", "q + p", "p + q", "gradient-check"),
        ("gpt-definition", "x = add(x, mixed)", "x = mixed", "gpt-run"),
        ("loss-definition", "local[target] -= 1.0", "pass", "gradient-check"),
        ("adam-definition", "p.grad = 0.0", "pass", "adam-run"),
    ],
    "04": [
        ("mask-definition", ".triu(T - t + 1)", ".triu(T - t + 2)", "mask-figure"),
        ("layer", "x = x + self.attn_wo", "x = self.attn_wo", "twin-check"),
        ("tools-definition", "1 - step / steps", "1 - step / steps / 2", "adam-run"),
        ("mean-definition", "(1) / sizes)", "(1) / sizes.max())", "batch-run"),
        ("write-definition", "logits < floor", "logits <= floor", "topk-example"),
    ],
}
#: One chapter's faults are planted by `make test`, all others' by `make test-slow`.
ROWS = [
    pytest.param(chapter, *row, marks=[] if chapter == "01" else pytest.mark.slow)
    for chapter, rows in MUTATIONS.items()
    for row in rows
]


@pytest.mark.parametrize(("chapter", "cell", "old", "new", "where"), ROWS)
def test_mutation_is_caught_where_it_shows(chapter, cell, old, new, where):
    assert caught_at(chapters.path(chapter), replace(cell, old, new)) == where


def test_every_chapter_has_five():
    assert {p.name[:2] for p in chapters.every()} == set(MUTATIONS)
    assert all(len(rows) == 5 for rows in MUTATIONS.values())
