"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress

BLOCKS = "▁▂▃▄▅▆▇█"
GAP = " "


def sparkline(values: Iterable[float], width: int = 80) -> str:
    """``values`` as at most ``width`` blocks, lowest ``▁``, highest ``█``.

    The range min..max of what is drawn is cut into eight equal steps; a constant
    series is ``▁`` throughout, an empty one ``""``. More values than ``width`` are
    averaged in ``width`` neighbouring groups, so that no value is skipped. NaN and
    infinities are drawn as a gap, and so is a group that holds one: they are never
    averaged away.

    Raises TypeError or ValueError for a ``width`` that is not an int >= 1, and
    TypeError for values that are no sequence and for one that is not a number.
    """
    if isinstance(width, bool) or not isinstance(width, int):
        raise TypeError(
            f"width は 1 以上の整数で指定します（受け取った値: {width!r}）。"
        )
    if width < 1:
        raise ValueError(f"width は 1 以上で指定します（受け取った値: {width}）。")
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Iterable):
        raise TypeError(f"values は数の並びで指定します（受け取った値: {values!r}）。")
    numbers = _numbers(values)
    if len(numbers) > width:
        numbers = _group_means(numbers, width)
    finite = [x for x in numbers if math.isfinite(x)]
    if not finite:
        return GAP * len(numbers)
    low, high = min(finite), max(finite)
    return "".join(_block(x, low, high) for x in numbers)


def _block(x: float, low: float, high: float) -> str:
    if not math.isfinite(x):
        return GAP
    if low == high:
        return BLOCKS[0]
    step = int((x - low) / (high - low) * len(BLOCKS))
    return BLOCKS[min(step, len(BLOCKS) - 1)]


def _numbers(values: Iterable[float]) -> list[float]:
    """Floats, made smaller together where their range would overflow."""
    numbers = [_number(value, i) for i, value in enumerate(values)]
    peak = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    return [x / 4 for x in numbers] if peak > 1e300 else numbers


def _number(value: float, i: int) -> float:
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, str):
            return float(value)
    raise TypeError(
        f"values[{i}] は float で表せる数で指定します（受け取った値: {value!r}）。"
    )


def _group_means(numbers: Sequence[float], groups: int) -> list[float]:
    """Means of ``groups`` neighbouring groups whose sizes differ by at most one.

    A mean is taken as ``first + sum(x - first) / n``, which keeps a constant series
    exactly constant whatever the size of the group.
    """
    means = []
    for i in range(groups):
        start, end = (len(numbers) * j // groups for j in (i, i + 1))
        first, total = numbers[start], 0.0
        for x in numbers[start:end]:
            total += (x - first) / (end - start)
        means.append(first + total)
    return means
