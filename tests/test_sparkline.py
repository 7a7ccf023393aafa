"""One line of blocks: values by hand, and what must hold for any series."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmbook.sparkline import BLOCKS, GAP, sparkline

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (range(8), "▁▂▃▄▅▆▇█"),
        (range(7, -1, -1), "█▇▆▅▄▃▂▁"),
        ([], ""),
        ([3.5], "▁"),
        ([2.0] * 5, "▁▁▁▁▁"),
        ([-1.0, 1.0], "▁█"),
        ([0.0, 0.95, 1.0], "▁██"),
        ([1.0, math.nan, 2.0], "▁ █"),
        ([math.inf, 1.0, -math.inf, 2.0], " ▁ █"),
        ([math.nan, math.inf], "  "),
        ([1.7e308, -1.7e308, 0.0], "█▁▅"),
        ([5e-324, 0.0], "█▁"),
        ((x for x in (0, 1)), "▁█"),
    ],
)
def test_values(values, expected):
    assert sparkline(values) == expected


def test_default_width_is_80():
    assert len(sparkline(range(80))) == 80
    assert len(sparkline(range(81))) == 80


def test_groups_are_averaged_never_skipped():
    # Every second value alone (0, 0, 8, 8) would draw ▁▁██.
    assert sparkline([0, 8, 0, 8, 8, 0, 8, 8], width=4) == "▁▁▁█"
    assert sparkline([0, 0, 0, 7, 0, 0, 0, 0, 0], width=3) == "▁█▁"
    assert sparkline([1, 2, 3, 4, 5], width=1) == "▁"
    # [0] [1, 2] [3, 4] [5, 6]: means 0, 1.5, 3.5, 5.5.
    assert sparkline(range(7), width=4) == "▁▃▆█"


def test_group_with_a_gap_is_a_gap():
    assert sparkline([1, math.nan, 2, 2, 3, 3], width=3) == " ▁█"
    assert sparkline([math.inf, -math.inf, 2, 2, 3, 3], width=3) == " ▁█"


def test_huge_values_are_averaged_without_overflow():
    big = 1.7e308
    assert sparkline([big, big, -big, -big], width=2) == "█▁"
    assert sparkline([big, -big, big, big], width=2) == "▁█"


@given(finite, st.integers(1, 300), st.integers(1, 90))
def test_constant_stays_flat_in_any_grouping(value, n, width):
    assert sparkline([value] * n, width) == "▁" * min(n, width)


@given(st.lists(st.floats(), max_size=200), st.integers(1, 90))
def test_length_and_alphabet(values, width):
    line = sparkline(values, width)
    assert len(line) == min(len(values), width)
    assert set(line) <= set(BLOCKS + GAP)


@given(st.lists(st.floats(), max_size=80))
def test_gaps_stand_where_the_values_are_not_finite(values):
    line = sparkline(values)
    assert [c == GAP for c in line] == [not math.isfinite(x) for x in values]


@given(st.lists(finite, min_size=2, max_size=80))
def test_order_of_the_values_is_kept(values):
    line = sparkline(values)
    ranked = sorted(zip(values, line, strict=True))
    levels = [BLOCKS.index(block) for _, block in ranked]
    assert levels == sorted(levels)
    if min(values) < max(values):
        assert (levels[0], levels[-1]) == (0, 7)


@given(st.lists(st.integers(-999, 999), min_size=1, max_size=80))
def test_shift_and_power_of_two_scale_change_nothing(values):
    assert sparkline(values) == sparkline([4 * x + 64 for x in values])


@pytest.mark.parametrize("width", [0, -1])
def test_width_below_one_is_refused(width):
    with pytest.raises(ValueError, match=rf"width は 1 以上で.*{width}"):
        sparkline([1.0], width)


@pytest.mark.parametrize("width", [2.0, "3", None, True])
def test_width_that_is_no_int_is_refused(width):
    with pytest.raises(TypeError, match=rf"width は 1 以上の整数.*{width!r}"):
        sparkline([1.0], width)


@pytest.mark.parametrize("value", ["1", None, 1j, [1.0], 10**400])
def test_value_that_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match=r"values\[1\] は float で表せる数"):
        sparkline([0.0, value])


@pytest.mark.parametrize("values", [None, 5, torch.tensor(1.0), np.float64(2)])
def test_values_that_are_no_sequence_are_refused(values):
    with pytest.raises(TypeError, match="values は数の並びで指定します"):
        sparkline(values)


def test_a_tensor_that_requires_grad_is_drawn_without_a_warning(recwarn):
    assert sparkline(torch.tensor([1.0, math.nan, 2.0], requires_grad=True)) == "▁ █"
    assert not recwarn.list
