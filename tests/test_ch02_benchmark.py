"""The stored table of chapter 2: complete, and re-made in part."""

import sys

import pytest
import torch

from lmbook import chapters
from lmbook.repro import measured

sys.path.insert(0, str(chapters.ROOT / "benchmarks"))
import positions

ROWS = measured("positions")["rows"]


@pytest.fixture(autouse=True)
def _default_dtype():
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)
    torch.use_deterministic_algorithms(False)


def stored(task, method, heads=2, seed=0):
    asked = {"task": task, "method": method, "heads": heads, "seed": seed}
    (row,) = [r for r in ROWS if asked.items() <= r.items()]
    return row


def test_every_run_of_the_plan_is_stored_once():
    kept = [{k: v for k, v in row.items() if k != "accuracy"} for row in ROWS]
    for run in positions.runs():
        assert kept.count(run) == 1
    assert len(kept) == len(list(positions.runs()))


def test_only_a_short_learned_table_cannot_run():
    for row in ROWS:
        assert (row["accuracy"][1:] == [None, None]) == (row["method"] == "learned")
        assert row["accuracy"][0] is not None


def test_head_names_machine_and_date():
    head = measured("positions")
    assert set(head) == {"machine", "date", "lengths", "rows"}
    assert head["lengths"] == list(positions.LENGTHS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "method", "heads"),
    [
        ("三つ前", "add", 2),
        ("三つ前", "rope", 2),
        ("3番目", "learned", 2),
        ("3番目", "alibi", 2),
        ("直近", "split", 2),
        ("直近", "alibi", 8),
        ("続き", "project", 2),
    ],
)
def test_a_run_made_again(task, method, heads):
    row = stored(task, method, heads)
    run = {k: v for k, v in row.items() if k != "accuracy"}
    assert positions.measure(**run) == pytest.approx(row["accuracy"], abs=0.005)
