"""Sliders: the still twin everywhere, the live ones only in JupyterLab."""

from __future__ import annotations

import functools
import sys
from types import SimpleNamespace

import pytest

from lmbook import plots
from lmbook.interact import interact, live


def draw(length=3, *, scale=1.0, name="重み"):
    return plots.bars(
        {name: [scale] * length}, ["語"] * length, alt=f"{length} 本の棒です。"
    )


@pytest.fixture
def widgets(monkeypatch):
    """JupyterLab, with ipywidgets replaced by a list of its calls."""
    calls = []

    def record(function, **controls):
        calls.append((function, controls))
        return "a widget"

    monkeypatch.setenv("JPY_SESSION_NAME", "/desk/01_embeddings.ipynb")
    monkeypatch.setitem(sys.modules, "ipywidgets", SimpleNamespace(interact=record))
    return calls


def test_still_twin_is_the_drawing_of_the_defaults(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # importing it would fail
    assert not live()
    twin = interact(draw, length=(1, 8), scale=(0.0, 2.0, 0.1))
    plain = draw()
    assert (twin.png, twin.description, twin.alt) == (
        plain.png,
        plain.description,
        plain.alt,
    )
    assert "[1.0000, 1.0000, 1.0000]" in twin.description


def test_the_drawing_is_called_once_with_the_controls_only(monkeypatch):
    calls = []

    def show(a=1, b=2, c=3):
        calls.append((a, b, c))
        return "drawn"

    assert interact(show, b=(0, 9)) == "drawn"
    assert interact(show) == "drawn"
    assert calls == [(1, 2, 3), (1, 2, 3)]


def test_live_sliders_in_jupyterlab(widgets):
    assert live()
    assert interact(draw, length=(1, 8), name=["重み", "値"]) is None
    assert widgets == [(draw, {"length": (1, 8), "name": ["重み", "値"]})]


@pytest.mark.parametrize("function", [draw, functools.partial(draw)])
@pytest.mark.parametrize("here", [False, True])
def test_unknown_control_is_refused(function, here, request):
    calls = request.getfixturevalue("widgets") if here else []
    with pytest.raises(ValueError) as caught:
        interact(function, length=(1, 8), width=(1, 2))
    name = "draw" if function is draw else "partial"
    assert str(caught.value) == (
        f"'width' は {name} の既定値つき引数ではありません。"
        "使えるのは ['length', 'name', 'scale'] です。"
    )
    assert calls == []


def test_control_without_a_default_is_refused():
    def show(n, m=1):
        raise AssertionError("never drawn")

    with pytest.raises(ValueError, match=r"'n' は show の既定値つき引数では"):
        interact(show, n=(1, 2))


def test_real_widgets_start_at_the_defaults(monkeypatch):
    import ipywidgets

    made = []
    original = ipywidgets.interactive.__init__

    def keep(self, *args, **kwargs):
        original(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(ipywidgets.interactive, "__init__", keep)
    monkeypatch.setattr("ipywidgets.widgets.interaction.display", lambda *_: None)
    monkeypatch.setenv("JPY_SESSION_NAME", "x")
    interact(draw, length=(1, 8), scale=(0.0, 2.0, 0.5), name=["値", "重み"])
    (widget,) = made
    assert {w.description: w.value for w in widget.kwargs_widgets} == {
        "length": 3,
        "scale": 1.0,
        "name": "重み",
    }
