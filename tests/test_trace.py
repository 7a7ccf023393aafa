"""What ran, as seen from outside; the graph that a result hangs on."""

import sys
from types import SimpleNamespace

import pytest

from lmbook import trace


def part(x):
    return [x]


def both(a, b):
    return a + b, [b]


def alone():
    return part(0)


def whole():
    first = part(1)
    second = part(2)
    joined, last = both(first, second)
    alone()
    return part(joined) + last


def test_calls_in_order_and_where_their_data_went():
    names, flow = trace.calls(whole, "whole", ["part", "both"])
    assert names == ["part", "part", "both", "part"]
    assert flow == [("0", "2"), ("1", "2"), ("2", "3")]


def test_the_profiler_before_is_on_again_after_an_error():
    def before(*_):
        return None

    sys.setprofile(before)
    try:
        with pytest.raises(ZeroDivisionError):
            trace.calls(lambda: 1 / 0, "whole", [])
        assert sys.getprofile() is before
    finally:
        sys.setprofile(None)


def node(value, grad, *children):
    return SimpleNamespace(data=value, grad=grad, _children=children)


def test_graph_shows_value_gradient_and_what_a_node_was_made_of():
    a, b = node(2.0, -24.0), node(-3.0, 16.0)
    ab = node(-6.0, 8.0, a, b)
    named = {"a": a, "b": b, "ab": ab}
    picture = trace.graph(named, title="図", alt="積の図。")
    assert (
        "箱: a 値 2 勾配 -24、b 値 -3 勾配 16、ab 値 -6 勾配 8" in picture.description
    )
    assert "矢印: a→ab、b→ab" in picture.description
    with pytest.raises(ValueError, match=r"ab の材料 .* に名前がありません"):
        trace.graph({"a": a, "ab": ab}, title="図", alt="積の図。")
