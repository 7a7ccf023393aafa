"""Every definition of the package and of the chapters, with any arguments at all."""

import pytest
from fuzz import Case, ch01, ch02, ch03, ch04, definitions, fuzz, package, press

#: Read when tests are collected: another file's test may load a chapter anew.
FOUND = definitions()
TABLE: dict[str, Case] = {
    **package.TABLE,
    **press.TABLE,
    **ch01.TABLE,
    **ch02.TABLE,
    **ch03.TABLE,
    **ch04.TABLE,
}
#: What cannot be called by itself, and why.
EXEMPT: dict[str, str] = press.EXEMPT
EXAMPLES, MANY = 4, 24


@pytest.fixture(autouse=True)
def apart(float64, monkeypatch, tmp_path):
    """A chapter's arithmetic, and a folder in which a stray path does no harm."""
    monkeypatch.chdir(tmp_path)


def test_every_definition_has_a_strategy():
    """A new function, class or method needs a row; a row needs what it is about."""
    named = {*TABLE, *EXEMPT}
    assert sorted(FOUND.keys() - named) == [], "these have no strategy"
    assert sorted(named - FOUND.keys()) == [], "these are gone"
    assert TABLE.keys() & EXEMPT.keys() == set()


@pytest.mark.parametrize("name", sorted(TABLE))
def test_the_value_or_a_refusal(name):
    assert fuzz(TABLE[name], FOUND[name], EXAMPLES) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TABLE))
def test_the_value_or_a_refusal_many_times(name):
    assert fuzz(TABLE[name], FOUND[name], MANY) > 0
