"""Numbers that come out the same twice, and the few words that state them.

Every printed float of the course goes through :func:`fmt`. Residues are never
printed: :func:`within` states a bound, :func:`claim` a fact. Neither raises, so a
chapter runs to its end under any legal parameters; a committed chapter holds no ✗.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

OK, NG = "✓", "✗"


def setup(seed: int = 0) -> None:
    """Seed Python's ``random`` and register the course's fonts.

    Never imports torch. Raises TypeError or ValueError for a seed that is not an
    int from 0 to 2**64 - 1 (torch takes no larger one).
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed は整数で指定します（受け取った値: {seed!r}）。")
    if not 0 <= seed < 2**64:
        raise ValueError(
            f"seed は 0 以上 2**64 未満で指定します（受け取った値: {seed}）。"
        )
    random.seed(seed)
    from lmbook import plots

    plots.register_fonts()


def setup_torch(seed: int = 0, dtype: str = "float64") -> None:
    """Seed torch, use one thread, deterministic algorithms and ``dtype``.

    ``dtype`` is ``"float64"`` (the default: trained numbers then agree on other
    CPUs to far more digits than are printed) or ``"float32"``.
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(
            f'dtype は "float32" か "float64" です（受け取った値: {dtype!r}）。'
        )
    setup(seed)
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(getattr(torch, dtype))
    torch.manual_seed(seed)


def legal(name: str, value: object, allowed: Collection[object] | type) -> None:
    """Refuse an illegal chapter parameter by name, value and what is allowed.

    ``allowed`` is a type (``bool``), a ``range`` of ints, a tuple ``(low, high)``
    of floats (both ends legal), or a list of the legal values (1 is not True).
    """
    if isinstance(allowed, type):
        good, text = type(value) is allowed, allowed.__name__
    elif isinstance(allowed, range):
        good = type(value) is int and value in allowed
        step = f" {allowed.step} おきの" if allowed.step != 1 else ""
        text = f"{allowed[0]} から {allowed[-1]} までの{step}整数"
    elif isinstance(allowed, tuple):
        low, high = allowed
        good = type(value) in (int, float) and low <= value <= high
        text = f"{low} から {high} までの数"
    else:
        same = [a for a in allowed if type(a) is type(value) and a == value]
        good, text = bool(same), f"{allowed} のどれか"
    if not good:
        raise ValueError(
            f"パラメータ {name} は {text} で指定します（受け取った値: {value!r}）。"
        )


def fmt(x: Any, digits: int = 4) -> str:
    """``x`` as text with ``digits`` decimals: never ``-0.0000``, ints stay ints.

    Sequences and tensors become ``[a, b]``; two dimensions one row a line. From 1e16
    on, where a float has no decimals, the power of ten is written out. Raises
    ValueError for ``digits`` below 0, TypeError for what is neither number nor text.
    """
    if type(digits) is not int or digits < 0:
        raise ValueError(f"digits は 0 以上の整数です（受け取った値: {digits!r}）。")
    if hasattr(x, "tolist"):
        x = x.tolist()
    if isinstance(x, (list, tuple)):
        nested = bool(x) and isinstance(x[0], (list, tuple))
        between = ",\n " if nested else ", "
        return f"[{between.join(fmt(v, digits) for v in x)}]"
    if isinstance(x, (bool, int, str)):
        return str(x)
    try:
        number = float(x)
    except (TypeError, ValueError):
        raise TypeError(f"x は数か文字列です（受け取った値: {x!r}）。") from None
    if 1e16 <= abs(number) < math.inf:
        return f"{number:.{digits}e}"
    text = f"{number:.{digits}f}"
    return text.lstrip("-") if not text.strip("-0.") else text


def _flat(x: Any) -> tuple[list[float], tuple[Any, ...] | None]:
    """The numbers of ``x`` in order, and its shape: one None a number."""
    if hasattr(x, "tolist"):
        x = x.tolist()
    if isinstance(x, (list, tuple)):
        parts = [_flat(part) for part in x]
        return [v for part, _ in parts for v in part], tuple(s for _, s in parts)
    if isinstance(x, (str, bytes)):
        raise TypeError(f"数ではありません: {x!r}。")
    return [float(x)], None


def _size(shape: tuple[Any, ...] | None) -> tuple[int, ...]:
    """``(None, None, None)`` as ``(3,)``; ragged parts count as the first one."""
    return () if shape is None else (len(shape), *(_size(shape[0]) if shape else ()))


def max_difference(a: Any, b: Any) -> float:
    """Largest ``|a - b|`` of two numbers, nested lists or tensors of one shape.

    NaN where either holds a NaN; equal infinities differ by 0. Raises ValueError
    when the shapes differ, TypeError for what is not a number.
    """
    (xs, one), (ys, other) = _flat(a), _flat(b)
    if one != other:
        raise ValueError(f"形がちがいます: {_size(one)} と {_size(other)}。")
    worst = 0.0
    for x, y in zip(xs, ys, strict=True):
        if math.isnan(x) or math.isnan(y):
            return math.nan
        if x != y:
            worst = max(worst, abs(x - y))
    return worst


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and population standard deviation, added from the left: same bits anywhere.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("values が空です。1 個以上の数が必要です。")
    mean = square = 0.0
    for v in values:
        mean += v / len(values)
    for v in values:
        square += (v - mean) ** 2 / len(values)
    return mean, math.sqrt(square)


def within(a: Any, b: Any, tol: float, what: str = "") -> None:
    """Print that ``a`` and ``b`` differ by less than ``tol`` (0: not at all)."""
    head = f"{what}: " if what else ""
    try:
        difference = max_difference(a, b)
    except (TypeError, ValueError) as error:
        print(f"{head}{error} {NG}")
        return
    if difference < tol or difference == 0.0:
        bound = f"差 < {tol:g}" if tol else "完全に一致"
        print(f"{head}{bound} {OK}")
    else:
        print(f"{head}差 = {difference:.1e}（許す差 {tol:g}） {NG}")


def claim(text: str, condition: Any) -> None:
    """Print ``text`` with ✓ or ✗. Never raises."""
    try:
        holds = bool(condition)
    except Exception:
        holds = False
    print(f"{text} {OK if holds else NG}")


@contextmanager
def expects(*errors: type[BaseException]) -> Iterator[None]:
    """Run a block that must fail with one of ``errors``; print its message."""
    try:
        yield
    except errors as error:
        print(f"{type(error).__name__}: {error}")
        return
    names = "・".join(e.__name__ for e in errors)
    raise AssertionError(f"{names} が起きるはずでしたが、何も起きませんでした。")


class Table:
    """A table shown as Markdown; floats go through :func:`fmt`.

    Raises ValueError, in Japanese, when a row is not as long as the header.
    """

    def __init__(
        self, header: Sequence[str], rows: Sequence[Sequence[Any]], digits: int = 4
    ) -> None:
        for row in rows:
            if len(row) != len(header):
                raise ValueError(
                    f"表の列は {len(header)} 個です（受け取った行: {list(row)}）。"
                )
        lines = [list(header), ["---"] * len(header), *rows]
        self.text = "\n".join(
            "| " + " | ".join(_cell(cell, digits) for cell in line) + " |"
            for line in lines
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/markdown": self.text, "text/plain": self.text}


def _cell(value: Any, digits: int) -> str:
    """The value's text as it is: what Markdown or HTML would read is escaped."""
    text = re.sub(r"[\r\n]+", " ", fmt(value, digits))
    return re.sub(r"[\\`*$<&~|]|(?<!\w)_|_(?!\w)|(?<=\])\(", r"\\\g<0>", text)


def record(**results: Any) -> None:
    """Print a chapter's results as one JSON line, for experiments to read.

    A result is a number, or a list or tensor of numbers.
    """
    rounded = {}
    for name, value in results.items():
        numbers, shape = _flat(value)
        four = [round(v, 4) + 0.0 for v in numbers]
        rounded[name] = four[0] if shape is None else four
    print(json.dumps(rounded))


def measured(name: str) -> Any:
    """The committed results of ``benchmarks/<name>.py``.

    Raises, in Japanese, FileNotFoundError when there are none and ValueError when
    the file is damaged.
    """
    from lmbook.chapters import ROOT

    file = ROOT / "benchmarks" / "results" / f"{name}.json"
    if not file.is_file():
        raise FileNotFoundError(
            f"測定の結果 {name} がありません。make bench を実行すると作られます。"
        )
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"測定の結果 {file} が壊れています。もとに戻します: git checkout -- {file}"
        ) from error
