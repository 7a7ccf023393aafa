"""Every exercise of every chapter: answers, their hints, and the reader's ways in."""

import importlib
import re

import pytest
from exercises import __path__ as FOLDERS

from lmbook import chapters, checks
from lmbook.press import run

CHAPTERS = [p.name[:2] for p in chapters.every()]


pytestmark = pytest.mark.usefixtures("float64")


def rows(chapter):
    return importlib.import_module(f"exercises.ch{chapter}").ROWS


def checked(chapter):
    """Names of the checks that the chapter's cells call, less the acceptance."""
    source = "\n".join(
        c.source
        for c in run.read(chapters.path(chapter)).cells
        if c.cell_type == "code"
    )
    return set(re.findall(rf"= (?:checks\.)?ch{chapter}\.(\w+)\(", source))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_exercise_has_its_rows(chapter):
    assert FOLDERS
    names = checked(chapter)
    assert names == {name for name, _, _ in rows(chapter)}
    cells = run.read(chapters.path(chapter)).cells
    tagged = [c for c in cells if "exercise" in c.metadata.get("tags", [])]
    assert len(tagged) == len(names)
    for name in names:
        hints = [hint for found, _, hint in rows(chapter) if found == name]
        wrong = [h for h in hints if h not in ("ok", "unfinished")]
        assert "ok" in hints, name
        assert len(wrong) >= 2, name
        assert len(set(wrong)) == len(wrong), name


@pytest.mark.parametrize(
    ("chapter", "row"), [(c, i) for c in CHAPTERS for i in range(len(rows(c)))]
)
def test_answer_gets_its_hint(chapter, row, monkeypatch):
    name, answer, hint = rows(chapter)[row]
    # A busy machine must not turn a right answer into an endless loop.
    monkeypatch.setattr(checks, "TIMEOUT", 1.0 if hint == "timeout" else 60.0)
    check = getattr(importlib.import_module(f"lmbook.checks.ch{chapter}"), name)
    result = check(answer)
    assert result.hint == hint, result
    assert result.ok == (hint == "ok")
    assert re.search(r"です|ます|ません|ました", result.message)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_odd_answers_never_raise(chapter):
    functions = importlib.import_module(f"lmbook.checks.ch{chapter}")

    def wrong_arity(a, b, c, d, e, f):
        return None

    def raises(*_, **__):
        raise KeyError("x")

    for name in checked(chapter):
        for answer in (0, "x", [], print, int, wrong_arity, raises, lambda *_: "x"):
            assert not getattr(functions, name)(answer).ok
