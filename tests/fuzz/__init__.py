"""What every definition takes, gives and refuses, and the properties held against it.

A table maps a name (``repro.fmt``, ``02.rope``, ``03.Adam.step``) to a :class:`Case`.
"""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import io
import math
import numbers
import os
import pkgutil
import random
import re
import signal
import tempfile
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn

import lmbook
from lmbook import chapters

SECONDS = 5.0  # of CPU that one call may take
FOLDER = tempfile.TemporaryDirectory(prefix="lmbook-fuzz-")
REFUSALS = (TypeError, ValueError)
#: What Python and torch themselves raise for a stray value, always with a message.
NATURAL = (
    *(TypeError, ValueError, AttributeError, LookupError, ArithmeticError),
    *(RuntimeError, OSError, NameError, SyntaxError, ImportError),
)
#: Stray values: what a slip of the reader's may put in the place of any argument.
STRAY = [None, True, -1, 0, 1.5, math.nan, math.inf, "あ", "", [], [[1.0], []], {}, b""]


@dataclasses.dataclass(frozen=True)
class Wrong:
    """Values that an argument may not have; the message must match ``names``.

    ``values`` is a strategy, or a list whose every value is tried, or a function of
    the legal arguments that gives one of them.
    An empty ``names`` stands for the argument's own name.
    """

    values: Any
    names: str = ""
    errors: tuple[type[BaseException], ...] = REFUSALS


def directly(function: Callable[..., Any], **given: Any) -> Any:
    """The call of most cases."""
    return function(**given)


@dataclasses.dataclass(frozen=True)
class Case:
    """The arguments of one definition, what it returns, and what it refuses.

    ``legal``: a strategy for each argument, or one for all of them. ``check`` is
    true of what is returned and the arguments. ``mutates`` names the arguments that
    are there to be changed. ``nan``: why a NaN may come out. ``cost`` divides the
    number of examples. ``stray``: whether any value may be put in any place.
    """

    legal: Any
    check: Callable[[Any, Any], object] | None
    wrong: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    call: Callable[..., Any] = directly
    mutates: Collection[str] = ()
    nan: str = ""
    cost: int = 1
    stray: bool = True

    @property
    def arguments(self) -> st.SearchStrategy[dict[str, Any]]:
        if isinstance(self.legal, dict):
            return st.fixed_dictionaries(self.legal)
        return self.legal


# What there is


def modules() -> Iterator[tuple[str, ModuleType]]:
    """The package's modules and the chapters, each with its name in a table."""
    for found in pkgutil.walk_packages(lmbook.__path__, "lmbook."):
        # A namespace package (corpora) holds no code of ours; its module does.
        yield found.name.removeprefix("lmbook."), importlib.import_module(found.name)
    yield "corpora.derive", importlib.import_module("lmbook.corpora.derive")
    for path in chapters.every():
        yield path.stem[:2], chapters.load(path.stem[:2])


def definitions() -> dict[str, Any]:
    """Every public function, class and method, and every constant made of lambdas."""
    found: dict[str, Any] = {}
    for place, module in dict(modules()).items():
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            if _is_ours(value, module):
                found[f"{place}.{name}"] = value
                if inspect.isclass(value):
                    found |= {f"{place}.{name}.{m}": f for m, f in _methods(value)}
            elif isinstance(value, dict) and any(map(_is_lambda, value.values())):
                found[f"{place}.{name}"] = value
    return found


def _is_ours(value: Any, module: ModuleType) -> bool:
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        value = inspect.unwrap(value) if callable(value) else None
    if getattr(value, "__module__", None) != module.__name__:
        return False
    plain_error = inspect.isclass(value) and issubclass(value, BaseException)
    return not (plain_error and "__init__" not in vars(value))


def _is_lambda(value: Any) -> bool:
    return getattr(value, "__name__", "") == "<lambda>"


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, and the operators that a class defines."""
    others = {*dir(object), "__post_init__", "__replace__"}
    for name, value in vars(cls).items():
        value = value.fget if isinstance(value, property) else value
        public = name not in others if name.startswith("__") else name[0] != "_"
        # matplotlib and dataclasses put functions of theirs into a class.
        ours = inspect.isfunction(value) and value.__module__ == cls.__module__
        if public and ours and value.__qualname__.startswith(f"{cls.__qualname__}."):
            yield name, value


# What is held against it


def fuzz(case: Case, thing: Any, examples: int) -> int:
    """Call ``thing`` legally, illegally and astray; the number of calls."""
    calls = 0
    many = max(2, examples // case.cost)

    def run(some: int, strategy: Any, judge: Callable[[Any], None]) -> None:
        @settings(
            max_examples=some,
            derandomize=True,
            database=None,
            deadline=None,  # it counts the clock; _limit counts the CPU
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
        )
        @given(strategy)
        def example(drawn: Any) -> None:
            nonlocal calls
            calls += 1
            judge(drawn)

        example()

    if case.check:
        run(many, case.arguments, lambda drawn: _legal(case, thing, drawn))
    for name, wrong in case.wrong.items():
        wrong = wrong if isinstance(wrong, Wrong) else Wrong(wrong)
        illegal = case.arguments.flatmap(functools.partial(_put, name, wrong))
        run(
            max(2, many // 2),
            illegal,
            lambda drawn, n=name, w=wrong: _refused(case, thing, *drawn, n, w),
        )
    if case.stray and case.check:
        stray = case.arguments.flatmap(_astray)
        run(many, stray, lambda drawn: _survives(case, thing, *drawn))
    return calls


def _put(name: str, wrong: Wrong, drawn: dict[str, Any]) -> Any:
    """Legal arguments, and the values to be put in the place of one."""
    values = wrong.values
    if callable(values):
        values = values(SimpleNamespace(**drawn))
    if isinstance(values, list):
        return st.just((drawn, values))
    return st.tuples(st.just(drawn), values.map(lambda value: [value]))


def _astray(drawn: dict[str, Any]) -> Any:
    if not drawn:
        return st.just(("", drawn))
    names = st.sampled_from([n for n in drawn if n != "self"] or list(drawn))
    return st.tuples(names, st.sampled_from(STRAY)).map(
        lambda pair: (pair[0], drawn | {pair[0]: pair[1]})
    )


def _called(case: Case, thing: Any, given: dict[str, Any], spoilt: str = "") -> Any:
    """The result of one call, which changed no argument it may not change."""
    before = {name: frozen(value) for name, value in given.items()}
    torch.default_generator.manual_seed(0)  # the CPU's: fifty times as fast as all
    random.seed(0)
    try:
        with _limit(SECONDS):
            return case.call(thing, **given)
    finally:
        for name in set(given) - {*case.mutates, spoilt}:
            assert frozen(given[name]) == before[name], f"{name} was changed"


def _legal(case: Case, thing: Any, given: dict[str, Any]) -> None:
    got = _called(case, thing, given)
    if isinstance(thing, types.FunctionType) and case.call is directly:
        missing = set(inspect.signature(thing).parameters) - set(given)
        assert not missing, f"no strategy for {missing}"
    assert case.check(got, SimpleNamespace(**given)), f"returned {got!r}"
    _no_new_nan(case, got, given)


def _refused(
    case: Case, thing: Any, drawn: dict[str, Any], values: list[Any], *what: Any
) -> None:
    name, wrong = what
    pattern = wrong.names or re.escape(name)
    for value in values:
        try:
            got = _called(case, thing, drawn | {name: value}, name)
        except wrong.errors as error:
            named = re.search(pattern, str(error), re.IGNORECASE)
            assert named, f"{error!r} of {name}={value!r} does not name {pattern}"
        else:
            raise AssertionError(f"{name}={value!r} was accepted: {got!r}")


def _survives(case: Case, thing: Any, name: str, given: dict[str, Any]) -> None:
    """A stray value may be fine; else it ends in a natural error that says so."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            got = _called(case, thing, given, name)
    except NATURAL as error:
        assert str(error), f"{error!r} says nothing"
        return
    _no_new_nan(case, got, given)


def _no_new_nan(case: Case, got: Any, given: dict[str, Any]) -> None:
    if not case.nan and all(map(math.isfinite, floats(list(given.values())))):
        assert not any(map(math.isnan, floats(got))), f"NaN out of finite: {got!r}"


class Hang(BaseException):
    """A call took more CPU than it may."""


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise Hang(f"no end after {seconds:g} s of CPU")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# What values are made of


def parts(x: Any) -> list[Any] | None:
    """What a value holds, for the two walks below; None: it is no container."""
    if isinstance(x, (torch.Tensor, np.ndarray)):
        return [str(x.dtype), tuple(x.shape), x.tolist()]
    if isinstance(x, nn.Module):
        return [list(x.state_dict().items())]
    if isinstance(x, Mapping):
        return [*x, *x.values()]
    if isinstance(x, (list, tuple)):
        return list(x)
    if isinstance(x, (set, frozenset)):
        return sorted(x, key=repr)
    if hasattr(x, "data") and hasattr(x, "grad"):  # a scalar of chapter 3
        return [x.data, x.grad]
    if dataclasses.is_dataclass(x) or type(x).__name__ in ("Model", "Adam"):
        return list(vars(x).values()) if not isinstance(x, type) else None
    return None


def frozen(x: Any) -> str:
    """A value as text that changes when it does; drawing from a generator may."""
    if isinstance(x, (random.Random, torch.Generator)):
        return ""
    held = parts(x)
    if held is None:
        return repr(x)
    return f"{type(x).__name__}({', '.join(map(frozen, held))})"


def floats(x: Any) -> Iterator[float]:
    """Every number of a value."""
    if isinstance(x, numbers.Real):
        with contextlib.suppress(OverflowError):
            yield float(x)
    for part in parts(x) or []:
        yield from floats(part)


# Arguments that many definitions take

WHOLE = st.integers(1, 5)
SEVERAL = st.integers(2, 5)  # torch repeats what has a size of 1
NOT_INT = st.sampled_from([None, True, 1.5, "1", [1]])
NOT_POSITIVE = st.integers(-5, 0)
FINITE = st.floats(-1e6, 1e6)
WORDS = st.text("abcあいう", min_size=1, max_size=4)
SEEDS = st.integers(0, 2**32)


def tensors(*shape: int, scale: Any = None, dtype: Any = None) -> st.SearchStrategy:
    """Random tensors of one shape: small, all zero, large."""

    def made(seed: int, scale: float) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        found = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
        return found.to(dtype or torch.get_default_dtype())

    if scale is None:
        scale = st.sampled_from([1.0, 0.0, 1e-6, 1e4])
    return st.builds(made, SEEDS, scale)


def ids(*shape: int, low: int = 0, high: int = 5) -> st.SearchStrategy:
    """Random token ids of one shape, ``low <= id < high``."""

    def made(seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(low, high, shape, generator=generator)

    return st.builds(made, SEEDS)


def shaped(make: Callable[..., Any], *sizes: Any) -> st.SearchStrategy:
    """Arguments that hang on common sizes: ``make(B, T, D)`` gives their strategies."""
    drawn = st.tuples(*(sizes or (WHOLE, WHOLE, WHOLE)))
    return drawn.flatmap(lambda found: st.fixed_dictionaries(make(*found)))


def shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape)


def near(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Whether numbers, lists or tensors agree to ``tolerance`` of their size."""
    a, b = (torch.tensor(x.tolist() if hasattr(x, "tolist") else x) for x in (a, b))
    return a.shape == b.shape and torch.allclose(
        a.double(), b.double(), tolerance, tolerance, equal_nan=True
    )


def said(function: Any, **given: Any) -> str:
    """What a call prints (a ``call`` of a Case)."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        function(**given)
    return out.getvalue()


def usage(function: Any, **given: Any) -> Any:
    """A command; what it refuses on stderr becomes a ValueError (a ``call``)."""
    out, err = io.StringIO(), io.StringIO()
    quiet = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with quiet[0], quiet[1], mock.patch.dict(os.environ):
        try:
            code = function(**given)
        except SystemExit as stop:
            code = stop.code
    if code:
        raise ValueError(err.getvalue() or out.getvalue())
    return out.getvalue()


#: What a wrong tensor is called in torch's own words.
TORCH = (
    "size|shape|dim|expand|dtype|index|tensor|type|attribute|unpack|argument|range"
    "|empty|bound|subscript|callable|iter|integer|negative|sequence|number"
)


def folder() -> Path:
    """A new empty folder, gone at the end."""
    return Path(tempfile.mkdtemp(dir=FOLDER.name))
