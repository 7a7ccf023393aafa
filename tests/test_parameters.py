"""Any legal parameters run a chapter to its end; illegal ones are refused first."""

import pytest

from lmbook import chapters
from lmbook.press import run

#: chapter -> sets of legal parameters beside ``quick``
LEGAL = {
    "01": [
        {"seed": 7, "hidden_dim": 1, "steps": 1, "lr": 0.0001},
        {"hidden_dim": 64, "steps": 400},
        {"hidden_dim": 3, "lr": 0.005},
    ],
    "02": [{"seed": 9999, "steps": 1}, {"seed": 3, "steps": 400}],
    "03": [{"corpus": "ja", "n_layer": 2}, {"n_embd": 12, "n_head": 3, "top_k": 2}],
    "04": [
        {"corpus": "ja", "n_layer": 2, "batch": 1, "seed": 0},
        {"n_embd": 4, "n_head": 2, "block_size": 12, "steps": 1, "seed": 9999},
        {"n_embd": 64, "n_head": 8, "n_layer": 3, "block_size": 64, "batch": 128},
    ],
}
#: chapter -> (parameter, illegal value, what the message must hold)
ILLEGAL = {
    "01": [
        ("seed", -1, "0 から 9999 までの整数"),
        ("hidden_dim", 0, "1 から 128 までの整数"),
        ("hidden_dim", 2.5, "1 から 128 までの整数"),
        ("steps", 401, "1 から 400 までの整数"),
        ("lr", 0.5, "0.0001 から 0.01 までの数"),
        ("quick", 1, "bool"),
    ],
    "02": [
        ("seed", 10_000, "0 から 9999 までの整数"),
        ("steps", 0, "1 から 400 までの整数"),
        ("steps", "abc", "1 から 400 までの整数"),
        ("quick", 1, "bool"),
    ],
    "03": [
        ("n_head", 3, "[1, 2, 4, 8, 16]"),
        ("activation", "tanh", "relu"),
        ("quick", 1, "bool"),
    ],
    "04": [
        ("corpus", "fr", "['en', 'ja'] のどれか"),
        ("n_head", 3, "[1, 2, 4, 8] のどれか"),
        ("block_size", 8, "12 から 64 までの整数"),
        ("steps", 401, "1 から 400 までの整数"),
        ("quick", 1, "bool"),
    ],
}


def execute(chapter, parameters):
    notebook = run.read(chapters.path(chapter))
    return run.execute(notebook, chapters.NOTEBOOKS, parameters=parameters)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chapter", "parameters"), [(c, p) for c, sets in LEGAL.items() for p in sets]
)
def test_legal_parameters_run_to_the_end(chapter, parameters):
    done = execute(chapter, {"quick": True, **parameters})
    assert all(c.execution_count for c in done.cells if c.cell_type == "code")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chapter", "name", "value", "told"),
    [(c, *row) for c, rows in ILLEGAL.items() for row in rows],
)
def test_illegal_parameters_are_refused_first(chapter, name, value, told):
    with pytest.raises(run.CellError) as caught:
        execute(chapter, {name: value})
    cells = [c for c in run.read(chapters.path(chapter)).cells if c.cell_type == "code"]
    given = [
        i for i, c in enumerate(cells) if "parameters" in c.metadata.get("tags", [])
    ]
    assert caught.value.cell == cells[given[0] + 1].id
    for text in (name, told, repr(value)):
        assert text in str(caught.value)


def test_every_chapter_has_sets():
    numbers = {p.name[:2] for p in chapters.every()}
    assert numbers == set(LEGAL) == set(ILLEGAL)
