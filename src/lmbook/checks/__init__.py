"""Checks that name the mistake.

A check is a function of the reader's answer that returns a :class:`Result` and
never raises. It is a list of probes: functions of the answer that return None, or
raise :class:`Mistake`. The probes here are generic; ``ch01.py`` and its fellows are
the only files that know a chapter. Nothing here imports torch: arrays are nested
lists or anything with ``shape`` and ``tolist``.
"""

from __future__ import annotations

import contextlib
import copy
import io
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmbook.repro import NG, OK, max_difference

Probe = Callable[[Any], None]
TIMEOUT = 5.0  # seconds a reader's function may compute
PATIENCE = 6  # times as long may pass on the clock: a busy machine is no mistake


class Mistake(Exception):
    """A recognised mistake: ``hint`` names its kind, ``message`` explains it."""

    def __init__(self, hint: str, message: str) -> None:
        super().__init__(message)
        self.hint, self.message = hint, message


class _Stopped(BaseException):
    """The answer ran too long; no ``except Exception`` of an answer catches it."""


@dataclass(frozen=True)
class Result:
    """Outcome of one check; shown by its ``repr``. ``hint`` is ``"ok"`` or a kind."""

    exercise: str
    hint: str
    message: str

    @property
    def ok(self) -> bool:
        return self.hint == "ok"

    def __repr__(self) -> str:
        return f"{OK if self.ok else NG} {self.exercise}: {self.message}"


@dataclass(frozen=True)
class Known:
    """A plausible wrong answer: when the received value equals ``wrong(*inputs)``,
    the reader is told ``message``."""

    hint: str
    message: str
    wrong: Callable[..., Any]


def check(exercise: str, answer: Any, *probes: Probe) -> Result:
    """Run ``probes`` on ``answer`` in order; the first mistake is the result.

    Nothing an answer does comes out of here but KeyboardInterrupt.
    """
    if answer is None:
        return Result(
            exercise, "unfinished", "未完成です。答えを書いてから実行します。"
        )
    try:
        out = io.StringIO()
        quiet = contextlib.redirect_stdout(out), contextlib.redirect_stderr(out)
        with quiet[0], quiet[1], _time_limit(TIMEOUT):
            for probe in probes:
                probe(answer)
    except Mistake as mistake:
        return Result(exercise, mistake.hint, mistake.message)
    except _Stopped:
        text = f"{TIMEOUT:g} 秒たっても終わりません。くり返しの条件を確かめます。"
        return Result(exercise, "timeout", text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, NotImplementedError) and not error.args:
            text = "未完成です。raise NotImplementedError を答えに置きかえます。"
            return Result(exercise, "unfinished", text)
        text = f"実行中に {type(error).__name__} が起きました: {_message(error)}"
        return Result(exercise, "error", text)
    return Result(exercise, "ok", "正解です。")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "（内容を表示できません）"


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Stop the block after ``seconds`` of CPU time, or ``PATIENCE`` times as many
    on the clock, where Python can be interrupted."""
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or not hasattr(signal, "setitimer"):
        yield
        return
    end, last = time.process_time() + seconds, time.monotonic() + PATIENCE * seconds

    def stop(*_: object) -> None:
        left = min(end - time.process_time(), last - time.monotonic())
        if left <= 0:
            raise _Stopped
        signal.setitimer(signal.ITIMER_REAL, left)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def progress(names: Mapping[str, Any], count: int) -> None:
    """Print which of the exercises 1 to ``count`` are solved.

    ``names`` is the notebook's ``globals()``. An exercise whose check has not run
    counts as not solved; what IPython keeps under ``_`` does not count.
    """
    kept = [v for k, v in names.items() if not k.startswith("_")]
    solved = {v.exercise for v in kept if isinstance(v, Result) and v.ok}
    exercises = [f"演習{n}" for n in range(1, count + 1)]
    for exercise in exercises:
        mark, state = (OK, "できた") if exercise in solved else ("・", "まだ")
        print(f"{mark} {exercise}: {state}")
    print(f"{count} 問のうち {len(solved.intersection(exercises))} 問")


# --- generic probes -----------------------------------------------------------


def shape(x: Any) -> tuple[int, ...]:
    """Shape of a tensor, a nested list or a number."""
    if hasattr(x, "shape"):
        return tuple(x.shape)
    return (len(x), *shape(x[0])) if isinstance(x, (list, tuple)) and x else ()


def against(
    reference: Callable[..., Any],
    *cases: tuple[Any, ...],
    known: Sequence[Known] = (),
    tol: float = 1e-6,
) -> Probe:
    """The answer must return what ``reference`` returns, for every case of inputs.

    Told apart: nothing returned, inputs changed in place, wrong type, shape or
    dtype, NaN, the ``known`` wrong answers, and any other value.
    """

    def probe(answer: Callable[..., Any]) -> None:
        callable_(answer)
        for inputs in cases:
            mine = copy.deepcopy(inputs)
            got = answer(*mine)
            _unchanged(inputs, mine)
            _compare(got, reference(*inputs), inputs, known, tol)

    return probe


def causal(*inputs: Any, axis: int = 0, tol: float = 1e-9) -> Probe:
    """What the answer returns for a position must not hang on later ones.

    ``inputs[0]`` holds the positions along ``axis`` (a nested list: 0), and so does
    what the answer returns. From each position on, the numbers are replaced.
    """

    def probe(answer: Callable[..., Any]) -> None:
        callable_(answer)
        before = answer(*copy.deepcopy(inputs))
        for start in range(1, shape(inputs[0])[axis]):
            other = _replaced(copy.deepcopy(inputs[0]), start, axis)
            after = answer(other, *copy.deepcopy(inputs[1:]))
            for place in range(start):
                a, b = (_at(x, place, axis) for x in (before, after))
                if not _agree(a, b, tol):
                    raise Mistake(
                        "leak",
                        f"未来が漏れています。入力 {show(inputs[0])} の位置 {start} "
                        f"から先を変えると、位置 {place} の値が {show(a)} から "
                        f"{show(b)} に変わりました。",
                    )

    return probe


def _at(x: Any, place: int, axis: int) -> Any:
    return x[(slice(None),) * axis + (place,)] if axis else x[place]


def _replaced(x: Any, start: int, axis: int) -> Any:
    """``x`` with 7 added to every number from ``start`` on."""
    if hasattr(x, "shape"):
        x[(slice(None),) * axis + (slice(start, None),)] += 7
        return x
    return [*x[:start], *(_plus(part, 7) for part in x[start:])]


def _plus(x: Any, number: float) -> Any:
    return [_plus(v, number) for v in x] if isinstance(x, (list, tuple)) else x + number


def value(
    expected: Any, *, known: Sequence[tuple[Any, str, str]] = (), form: str
) -> Probe:
    """The answer must equal ``expected``; ``known`` = (wrong value, hint, message).

    ``form`` tells, in Japanese, what an answer looks like.
    """

    def probe(answer: Any) -> None:
        if not _same_type(answer, expected):
            raise Mistake(
                "type", f"答えは{form}で書きます（受け取ったもの: {answer!r}）。"
            )
        for wrong, hint, message in known:
            if answer == wrong:
                raise Mistake(hint, message)
        if answer != expected:
            raise Mistake(
                "value",
                f"ちがいます（受け取ったもの: {show(answer)}）。もう一度予想します。",
            )

    return probe


def _same_type(answer: Any, expected: Any) -> bool:
    if isinstance(answer, bool) or isinstance(expected, bool):
        return type(answer) is type(expected)
    whole = isinstance(answer, int) and isinstance(expected, float)
    return whole or isinstance(answer, type(expected))


def callable_(answer: Any) -> None:
    """Refuse an answer that is not a function."""
    if not callable(answer):
        text = f"関数を渡します（受け取ったもの: {type(answer).__name__}）。"
        raise Mistake("type", text)


def _unchanged(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    for number, (a, b) in enumerate(zip(before, after, strict=True), 1):
        if not _equal(a, b):
            raise Mistake(
                "in-place",
                f"{number} 番目の引数を書きかえています。新しい値を作って返します。",
            )


def _equal(a: Any, b: Any) -> bool:
    """Whether plain values are the same; objects without any are taken to be."""
    if hasattr(a, "tolist") and hasattr(b, "tolist"):
        a, b = a.tolist(), b.tolist()
    if isinstance(a, (list, tuple)):
        return (
            isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(_equal, a, b))
        )
    if isinstance(a, dict):
        return (
            isinstance(b, dict)
            and list(a) == list(b)
            and all(map(_equal, a.values(), b.values()))
        )
    if isinstance(a, (int, float, str, set)):
        return bool(a == b or (a != a and b != b))
    return True


def _compare(
    got: Any,
    expected: Any,
    inputs: tuple[Any, ...],
    known: Sequence[Known],
    tol: float,
) -> None:
    shown = "、".join(show(x) for x in inputs if not callable(x))
    given = f"、入力 {shown}" if shown else ""
    if got is None:
        raise Mistake(
            "no-return", f"値が返っていません。return を書きます（入力 {shown}）。"
        )
    for wrong in known:
        mistaken = wrong.wrong(*copy.deepcopy(inputs))
        if _agree(got, mistaken, tol) and not _agree(mistaken, expected, tol):
            raise Mistake(wrong.hint, f"{wrong.message}{_values(shown, expected, got)}")
    if _kind(got) != _kind(expected):
        names = type(expected).__name__, type(got).__name__
        text = f"返す型は {names[0]} です（受け取った型: {names[1]}{given}）。"
        raise Mistake("type", text)
    if shape(got) != shape(expected):
        text = f"形は {shape(expected)} です（受け取った形: {shape(got)}{given}）。"
        raise Mistake("shape", text)
    if hasattr(expected, "dtype") and got.dtype != expected.dtype:
        text = (
            f"dtype は {expected.dtype} です（受け取った dtype: {got.dtype}{given}）。"
        )
        raise Mistake("dtype", text)
    if not _agree(got, expected, tol):
        hint, what = "value", "値がちがいます。"
        if _has_nan(got, expected):
            hint, what = "nan", "NaN が出ました。"
        elif _shifted(_plain(got), _plain(expected), tol):
            hint, what = "off-by-one", "1 つずれています。"
        raise Mistake(hint, what + _values(shown, expected, got))


def _values(shown: str, expected: Any, got: Any) -> str:
    return (
        f"入力 {shown} の正しい値は {show(expected)}、受け取った値は {show(got)} です。"
    )


def _kind(x: Any) -> object:
    if hasattr(x, "dtype"):
        return "tensor"
    plain = isinstance(x, (int, float, list, tuple)) and not isinstance(x, bool)
    return "plain" if plain else type(x)


def _agree(a: Any, b: Any, tol: float) -> bool:
    try:
        return max_difference(a, b) <= tol
    except ValueError:  # another shape
        return False
    except TypeError:  # not numbers
        return type(a) is type(b) and bool(a == b)


def _plain(x: Any) -> Any:
    return x.tolist() if hasattr(x, "tolist") else x


def _shifted(a: Any, b: Any, tol: float) -> bool:
    """Whether values stand one place off, in every row or along the first axis."""
    if not isinstance(a, (list, tuple)) or not isinstance(b, (list, tuple)):
        return False
    for x, y in ((a[1:], b[:-1]), (a[:-1], b[1:])):
        if len(set(map(repr, x))) > 1 and _agree(x, y, tol):
            return True
    rows = list(zip(a, b, strict=False))
    return bool(rows) and len(a) == len(b) and all(_shifted(*r, tol) for r in rows)


def _has_nan(a: Any, b: Any) -> bool:
    try:
        return math.isnan(max_difference(a, b))
    except (TypeError, ValueError):
        return False


def show(x: Any, most: int = 120) -> str:
    """A value in one short line: numbers to four significant digits."""
    text = _shown(x.tolist() if hasattr(x, "tolist") else x)
    return text if len(text) <= most else text[:most] + "…"


def _shown(x: Any) -> str:
    if isinstance(x, (list, tuple)):
        return f"[{', '.join(map(_shown, x))}]"
    return f"{x + 0.0:.4g}" if isinstance(x, float) else repr(x)
