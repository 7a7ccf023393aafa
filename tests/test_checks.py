"""A check names the mistake, and never raises whatever the answer does."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmbook import checks
from lmbook.checks import Known, Mistake, Result, against, check, progress, show, value

NAN = math.nan


def mean(numbers):
    """The right answer of most tests."""
    return sum(numbers) / len(numbers)


def judged(answer, reference=mean, *cases, **options):
    """The result of ``answer`` held against ``reference``."""
    cases = cases or (([1.0, 2.0, 6.0],), ([4.0],))
    return check("演習", answer, against(reference, *cases, **options))


# Results


def test_a_right_answer():
    result = judged(lambda xs: sum(xs) / len(xs))
    assert result == Result("演習", "ok", "正解です。")
    assert result.ok
    assert repr(result) == "✓ 演習: 正解です。"


def test_a_wrong_answer_shows_input_expected_and_received():
    result = judged(sum)
    assert not result.ok
    assert repr(result) == (
        "✗ 演習: 値がちがいます。入力 [1, 2, 6] の正しい値は 3、受け取った値は 9 です。"
    )


def test_results_cannot_be_changed():
    with pytest.raises(AttributeError):
        judged(sum).hint = "ok"


def test_progress(capsys):
    names = {"r2": Result("演習2", "leak", "b"), "first": Result("演習1", "ok", "a")}
    # An older result that IPython keeps, and what is no result at all.
    names |= {
        "_5": Result("演習2", "ok", "a"),
        "x": 3,
        "r9": Result("演習9", "ok", "a"),
    }
    progress(names, 3)
    assert capsys.readouterr().out == (
        "✓ 演習1: できた\n・ 演習2: まだ\n・ 演習3: まだ\n3 問のうち 1 問\n"
    )


def test_probes_run_in_order_and_the_first_mistake_counts():
    seen = []

    def probe(number, fails=False):
        def run(answer):
            seen.append((number, answer))
            if fails:
                raise Mistake(f"kind{number}", f"{number} 番目です。")

        return run

    result = check("演習", "x", probe(1), probe(2, True), probe(3, True))
    assert result == Result("演習", "kind2", "2 番目です。")
    assert seen == [(1, "x"), (2, "x")]
    assert check("演習", "x").ok


# Unfinished answers


def test_no_answer_is_unfinished():
    result = check("演習", None, lambda _: pytest.fail("not to be run"))
    assert result.hint == "unfinished"
    assert result.message == "未完成です。答えを書いてから実行します。"


def bare(_):
    raise NotImplementedError


def called(_):
    raise NotImplementedError()


@pytest.mark.parametrize("stub", [bare, called])
def test_a_cut_body_is_unfinished(stub):
    result = judged(stub)
    assert result.hint == "unfinished"
    assert result.message.startswith("未完成です。raise NotImplementedError を")


def test_what_torch_has_not_implemented_is_no_unfinished_answer():
    """torch raises NotImplementedError for a wrong dtype."""
    with pytest.raises(NotImplementedError):
        torch.arange(3).softmax(0)
    result = judged(lambda x: x.softmax(0), lambda x: x, (torch.arange(3),))
    assert result.hint == "error"
    assert "NotImplementedError が起きました" in result.message
    assert "not implemented for 'Long'" in result.message


# Answers held against a reference


def no_return(xs):
    xs[0] + 1


def test_nothing_returned():
    result = judged(no_return)
    assert result.hint == "no-return"
    assert result.message == "値が返っていません。return を書きます（入力 [1, 2, 6]）。"


def first_zeroed(xs):
    xs[0] = 0


def appended(xs):
    xs.append(1.0)


def inner_zeroed(xs):
    xs[1][0] = 0


def to_nan(xs):
    xs[0] = NAN


def keyed(xs):
    xs["b"] = 2


def deep(xs):
    xs["a"][0] = 9


def added(xs):
    xs.add(9)


def emptied(xs):
    xs.clear()


@pytest.mark.parametrize(
    ("given_", "change"),
    [
        ([1.0, 2.0], first_zeroed),
        ([1.0, 2.0], appended),
        ([1.0, 2.0], emptied),
        ([1.0, 2.0], to_nan),
        ([1.0, "a"], first_zeroed),
        (["a", "b"], lambda xs: xs.reverse()),
        ([[1.0], [2.0]], inner_zeroed),
        ([[1.0], []], lambda xs: xs[1].append(3)),
        ([torch.ones(2), torch.ones(2)], lambda xs: xs[1].zero_()),
        ((1, [2]), lambda xs: xs[1].append(3)),
        (torch.tensor([1.0, 2.0]), lambda xs: xs.add_(1)),
        (torch.tensor([1.0, 2.0]), to_nan),
        (torch.tensor([1, 2]), lambda xs: xs.unsqueeze_(0)),
        (torch.tensor([True, True]), lambda xs: xs.logical_not_()),
        (np.ones(2), first_zeroed),
        ({"a": [1]}, keyed),
        ({"a": [1]}, deep),
        ({1, 2}, added),
    ],
)
def test_inputs_changed_in_place(given_, change):
    def answer(flag, xs):
        change(xs)
        return flag

    result = judged(answer, lambda flag, xs: flag, (1.0, given_))
    assert result.hint == "in-place"
    assert result.message == (
        "2 番目の引数を書きかえています。新しい値を作って返します。"
    )


class Plain:
    """An object without equality, as a node of chapter 3."""


@pytest.mark.parametrize(
    "given_",
    [
        [NAN, 1.0],
        torch.tensor([NAN, math.inf]),
        [Plain(), Plain()],
        {"a": Plain()},
        Plain(),
        torch.nn.Linear(2, 2),
        len,
        "text",
        None,
        (),
        [[], [1]],
        torch.ones(0, 3),
        [torch.ones(2), [1, "a", None]],
    ],
)
def test_inputs_left_alone(given_):
    assert judged(lambda xs: 1.0, lambda xs: 1.0, (given_,)).ok


def test_every_case_gets_fresh_inputs():
    shared = [1.0, 2.0]
    seen = []

    def answer(xs):
        seen.append(xs)
        return mean(xs)

    assert judged(answer, mean, (shared,), (shared,)).ok
    assert all(xs is not shared for xs in seen)
    assert seen[0] is not seen[1]


@pytest.mark.parametrize(
    ("got", "expected", "names"),
    [
        ([1.0], torch.ones(1), ("Tensor", "list")),
        (1.0, torch.ones(1), ("Tensor", "float")),
        (torch.ones(1), [1.0], ("list", "Tensor")),
        (torch.ones(()), 1.0, ("float", "Tensor")),
        (True, 1, ("int", "bool")),
        (1, True, ("bool", "int")),
        ("1.5", 1.5, ("float", "str")),
        ("abc", 1.5, ("float", "str")),
        (1.5, "1.5", ("str", "float")),
        ({1.5}, 1.5, ("float", "set")),
        ({"a": 1}, [1], ("list", "dict")),
        ((x for x in [1]), [1], ("list", "generator")),
        (len, 3, ("int", "builtin_function_or_method")),
        (NotImplemented, 3, ("int", "NotImplementedType")),
    ],
)
def test_wrong_type(got, expected, names):
    result = judged(lambda: got, lambda: expected, ())
    assert result.hint == "type"
    assert result.message == (f"返す型は {names[0]} です（受け取った型: {names[1]}）。")


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (3, 3.0),
        ((1, 2), [1.0, 2.0]),
        ([torch.ones(2)], [[1.0, 1.0]]),
        ("契約", "契約"),
        (["a", "b"], ["a", "b"]),
        ({1, 2}, {2, 1}),
        ({"a": [1]}, {"a": [1]}),
        (True, True),
        ([], []),
        ([[]], [[]]),
        (math.inf, math.inf),
        (1.0 + 1e-7, 1.0),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
        (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
        (torch.tensor([True]), torch.tensor([True])),
        (torch.tensor([1, 2]), torch.tensor([1, 2])),
        (torch.ones(1, dtype=torch.bfloat16), torch.ones(1, dtype=torch.bfloat16)),
    ],
)
def test_equal_answers(got, expected):
    assert judged(lambda: got, lambda: expected, ()).ok


@pytest.mark.parametrize(
    ("got", "expected", "shapes"),
    [
        (torch.ones(2, 3), torch.ones(3, 2), ("(3, 2)", "(2, 3)")),
        (torch.ones(3), torch.ones(1, 3), ("(1, 3)", "(3,)")),
        (torch.ones(()), torch.ones(1), ("(1,)", "()")),
        ([1.0, 2.0], [1.0], ("(1,)", "(2,)")),
        ([[1.0], [2.0]], [1.0, 2.0], ("(2,)", "(2, 1)")),
        (1.0, [1.0], ("(1,)", "()")),
        ([1.0], 1.0, ("()", "(1,)")),
    ],
)
def test_wrong_shape(got, expected, shapes):
    result = judged(lambda x: got, lambda x: expected, (2,))
    assert result.hint == "shape"
    assert result.message == (
        f"形は {shapes[0]} です（受け取った形: {shapes[1]}、入力 2）。"
    )


def test_wrong_dtype():
    result = judged(lambda: torch.ones(2).double(), lambda: torch.ones(2), ())
    assert result.hint == "dtype"
    assert result.message == (
        "dtype は torch.float32 です（受け取った dtype: torch.float64）。"
    )


@pytest.mark.parametrize("got", [NAN, torch.tensor([1.0, NAN]), [1.0, NAN]])
def test_nan(got):
    expected = got * 0 + 1 if not isinstance(got, list) else [1.0, 1.0]
    expected = torch.ones(2) if isinstance(got, torch.Tensor) else expected
    expected = 1.0 if isinstance(got, float) else expected
    result = judged(lambda: got, lambda: expected, ())
    assert result.hint == "nan"
    assert result.message.startswith("NaN が出ました。入力  の正しい値は ")


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (1.1, 1.0),
        (math.inf, 1.0),
        (-math.inf, math.inf),
        ([1.0, 2.0], [2.0, 1.0]),
        (torch.zeros(2), torch.ones(2)),
        (torch.tensor([True]), torch.tensor([False])),
        (True, False),
        ("契約", "違約金"),
        (["a", "b"], ["b", "a"]),
        ([[1, 2], [3]], [[1, 2], [3, 4]]),
        ({1}, {2}),
        (Plain(), Plain()),
    ],
)
def test_another_value(got, expected):
    result = judged(lambda: got, lambda: expected, ())
    assert result.hint == "value"
    assert result.message.startswith("値がちがいます。")
    assert show(expected) in result.message
    assert show(got) in result.message


def test_tolerance():
    assert judged(lambda: 1.0 + 1e-7, lambda: 1.0, ()).ok
    assert judged(lambda: 1.0 + 1e-5, lambda: 1.0, ()).hint == "value"
    assert judged(lambda: 1.0 + 1e-7, lambda: 1.0, (), tol=1e-9).hint == "value"


def test_the_case_that_fails_is_shown():
    result = judged(lambda xs: xs[0], mean, ([4.0],), ([5.0, 5.0],), ([1.0, 3.0],))
    assert "入力 [1, 3] の正しい値は 2、受け取った値は 1" in result.message


KNOWN = [
    Known("no-count", "個数で割ります。", sum),
    Known("median", "並べかえは要りません。", lambda xs: sorted(xs)[len(xs) // 2]),
]


@pytest.mark.parametrize(
    ("answer", "hint", "text"),
    [
        (sum, "no-count", "個数で割ります。"),
        (lambda xs: sorted(xs)[len(xs) // 2], "median", "並べかえは要りません。"),
        (max, "value", "値がちがいます。"),
    ],
)
def test_known_mistakes_are_named(answer, hint, text):
    result = judged(answer, mean, ([4.0],), ([1.0, 2.0, 6.0],), known=KNOWN)
    assert result.hint == hint
    assert result.message.startswith(f"{text}入力 [1, 2, 6] の正しい値は 3、")


def test_a_known_mistake_that_is_right_here_is_none():
    """On one number, the sum is the mean."""
    assert judged(mean, mean, ([4.0],), ([0.0, 0.0],), known=KNOWN).ok


def test_known_mistakes_of_another_shape_or_dtype_are_named():
    known = [
        Known("row", "行です。", lambda x: x.sum(0)),
        Known("count", "個数です。", lambda x: len(x)),
    ]
    inputs = (torch.arange(6.0).view(2, 3),)
    for hint, answer in {"row": lambda x: x.sum(0), "count": len}.items():
        assert judged(answer, lambda x: x.sum(1), inputs, known=known).hint == hint


def test_functions_among_the_inputs_are_not_shown():
    result = judged(lambda f, x: 0, lambda f, x: f(x), (abs, -2))
    assert "入力 -2 の正しい値は 2" in result.message


@pytest.mark.parametrize("answer", [3, "f", [1], torch.ones(1), ...])
def test_what_is_no_function_is_refused(answer):
    result = judged(answer)
    assert result.hint == "type"
    assert result.message == (
        f"関数を渡します（受け取ったもの: {type(answer).__name__}）。"
    )


# Values


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ({1, 4}, "ok"),
        ({1.0, 4.0}, "ok"),
        ({1, 2}, "pad"),
        ({9}, "value"),
        ([1, 4], "type"),
        ("14", "type"),
        (None, "unfinished"),
        (len, "type"),
        (torch.tensor([1, 4]), "type"),
    ],
)
def test_value_of_a_set(answer, hint):
    known = [({1, 2}, "pad", "0 は数えません。")]
    result = check("演習", answer, value({1, 4}, known=known, form="集合 {1, 2}"))
    assert result.hint == hint
    expected = {
        "ok": "正解です。",
        "pad": "0 は数えません。",
        "value": "ちがいます（受け取ったもの: {9}）。もう一度予想します。",
        "type": f"答えは集合 {{1, 2}}で書きます（受け取ったもの: {answer!r}）。",
        "unfinished": "未完成です。答えを書いてから実行します。",
    }
    assert result.message == expected[hint]


@pytest.mark.parametrize(
    ("answer", "expected", "hint"),
    [
        (2, 2, "ok"),
        (2, 2.0, "ok"),
        (3, 2.0, "value"),
        (2.0, 2, "type"),
        (True, 1, "type"),
        (1, True, "type"),
        (1.0, True, "type"),
        (True, 1.0, "type"),
        (False, False, "ok"),
        ("は", "は", "ok"),
        ("", "は", "value"),
        ([1, "a"], [1, "a"], "ok"),
        ((1, "a"), [1, "a"], "type"),
        (NAN, 1.0, "value"),
    ],
)
def test_values_of_other_types(answer, expected, hint):
    assert check("演習", answer, value(expected, form="値")).hint == hint


# Whatever the answer does


def test_an_error_is_told():
    result = judged(lambda xs: xs[10])
    assert result.hint == "error"
    assert result.message == (
        "実行中に IndexError が起きました: list index out of range"
    )


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


class Odd:
    """An object that fails at everything it is asked."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("repr")

    def __eq__(self, other):
        raise RuntimeError("eq")

    __hash__ = None


class Shapeless:
    shape = None
    dtype = "float"

    def tolist(self):
        return self


def raising(error):
    def answer(*_):
        raise error

    return answer


def printing(xs):
    print("途中の値", xs)
    sys.stdout.write("もっと\n")
    return mean(xs)


def circular(_):
    made = []
    made.append(made)
    return made


def endless_recursion(x):
    return endless_recursion(x)


def closing(xs):
    sys.stdout.close()
    return mean(xs)


def replacing(xs):
    sys.stdout = None
    return mean(xs)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (raising(SystemExit(3)), "SystemExit が起きました: 3"),
        (raising(GeneratorExit()), "GeneratorExit が起きました: "),
        (raising(BaseException("底")), "BaseException が起きました: 底"),
        (raising(Unspeakable()), "Unspeakable が起きました: （内容を表示できません）"),
        (
            raising(NotImplementedError("あとで")),
            "NotImplementedError が起きました: あ",
        ),
        (lambda: 1, "TypeError が起きました: "),
        (lambda xs, more: 1, "TypeError が起きました: "),
        (endless_recursion, "RecursionError が起きました: "),
        (circular, "RecursionError が起きました: "),
        (exit, "SystemExit が起きました"),
        (lambda xs: Odd(), "RuntimeError が起きました: "),
    ],
)
def test_errors_of_every_kind_are_told(answer, text):
    result = judged(answer)
    assert result.hint == "error"
    assert text in result.message


def test_prints_are_swallowed(capsys):
    assert judged(printing).ok
    assert judged(closing).ok
    assert capsys.readouterr() == ("", "")
    with contextlib.redirect_stdout(sys.stdout):
        assert judged(replacing).ok
    print("まだ聞こえる")
    assert capsys.readouterr().out == "まだ聞こえる\n"


def test_keyboard_interrupt_goes_through():
    with pytest.raises(KeyboardInterrupt):
        judged(raising(KeyboardInterrupt()))
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def for_ever(_):
    end = time.monotonic() + 10  # so that a broken limit fails instead of hanging
    while time.monotonic() < end:
        pass


def asleep(_):
    time.sleep(10)


def stubborn(_):
    for _ in range(2):
        with contextlib.suppress(Exception):
            time.sleep(5)


@pytest.mark.parametrize("answer", [for_ever, asleep, stubborn])
def test_endless_loops_are_stopped(answer, monkeypatch):
    monkeypatch.setattr(checks, "TIMEOUT", 0.1)
    before = signal.getsignal(signal.SIGALRM)
    start = time.monotonic()
    result = judged(answer)
    assert time.monotonic() - start < 5
    assert result.hint == "timeout"
    assert result.message == "0.1 秒たっても終わりません。くり返しの条件を確かめます。"
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_the_limit_counts_computing_not_waiting(monkeypatch):
    """An answer that waits for a busy machine is no endless loop."""
    monkeypatch.setattr(checks, "TIMEOUT", 0.1)
    monkeypatch.setattr(checks, "PATIENCE", 100)

    def waits(xs):
        time.sleep(0.15)
        return mean(xs)

    assert judged(waits).ok
    monkeypatch.setattr(checks, "PATIENCE", 2)
    assert judged(waits).hint == "timeout"


def test_the_alarm_is_off_after_a_check(monkeypatch):
    monkeypatch.setattr(checks, "TIMEOUT", 0.05)
    assert judged(mean).ok
    time.sleep(0.1)  # an alarm left on would end this test
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_checks_run_where_no_alarm_can(monkeypatch):
    results = []
    thread = threading.Thread(target=lambda: results.append(judged(mean)))
    thread.start()
    thread.join()
    assert results[0].ok
    monkeypatch.delattr(signal, "setitimer")  # as on Windows
    assert judged(mean).ok
    assert judged(sum).hint == "value"


odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.recursive(
        st.floats() | st.text(max_size=2) | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
        max_leaves=6,
    ),
    st.dictionaries(st.integers(), st.floats(), max_size=2),
    st.sets(st.integers(), max_size=2),
    st.builds(lambda v: (x for x in [v]), st.integers()),
    st.builds(torch.zeros, st.integers(0, 3)),
    st.builds(lambda n: torch.ones(n, dtype=torch.int64), st.integers(0, 3)),
    st.builds(lambda n: torch.eye(n).to_sparse(), st.integers(1, 3)),
    st.builds(lambda n: torch.ones(n, device="meta"), st.integers(1, 3)),
    st.builds(np.ones, st.integers(0, 3)),
    st.sampled_from(
        [
            int,
            list,
            Odd,
            Plain,
            Exception,
            len,
            print,
            ...,
            NotImplemented,
            torch.nn.Linear,
        ]
    ),
    st.builds(Odd),
    st.builds(Shapeless),
    st.builds(Unspeakable),
    st.complex_numbers(),
    st.fractions(),
    st.decimals(),
)
odd_functions = st.one_of(
    odd_values.map(lambda v: lambda *_: v),
    odd_values.map(lambda v: lambda: v),
    odd_values.map(lambda v: lambda a, b, c, d: v),
    st.sampled_from(
        [
            ValueError("x"),
            Unspeakable(),
            SystemExit(1),
            StopIteration(),
            GeneratorExit(),
        ]
    ).map(raising),
    st.sampled_from([circular, endless_recursion, no_return, bare, exec, type, vars]),
)
EXPECTED = [
    3.0,
    2,
    True,
    "語",
    [1.0, 2.0],
    [["a"], ["b"]],
    {1, 2},
    {"a": 1},
    None,
    torch.ones(2),
    torch.tensor(3),
    np.ones(2),
    Plain(),
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(odd_values | odd_functions, st.sampled_from(EXPECTED))
def test_a_check_never_raises(answer, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = [Known("known", "", lambda x: [x])]
        results = [
            check("演習", answer, against(lambda x: expected, ([1.0],), known=known)),
            check("演習", answer, value(expected, known=[(0, "a", "b")], form="値")),
        ]
    for result in results:
        assert isinstance(result, Result)
        assert isinstance(result.message, str)
        assert repr(result).startswith(("✓ 演習: ", "✗ 演習: "))
        assert result.ok == (result.hint == "ok")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5), st.floats(-10, 10))
def test_answers_are_right_when_they_are_near(numbers, off):
    """Oracle: the distance itself."""
    result = judged(lambda xs: mean(xs) + off, mean, (numbers,), tol=0.5)
    assert result.ok == (abs(mean(numbers) + off - mean(numbers)) <= 0.5)


# Shapes and texts


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (1.0, ()),
        ("abc", ()),
        ([], ()),
        ([1, 2], (2,)),
        (((1, 2), (3, 4)), (2, 2)),
        ([[[1]]], (1, 1, 1)),
        (torch.ones(2, 0, 3), (2, 0, 3)),
        (np.ones((1, 2)), (1, 2)),
    ],
)
def test_shape(x, expected):
    assert checks.shape(x) == expected


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.123456, "0.1235"),
        (-0.0, "0"),
        (3.0, "3"),
        (1e-9, "1e-09"),
        (NAN, "nan"),
        (7, "7"),
        ("語", "'語'"),
        (None, "None"),
        ([1.0, [2.5, "a"]], "[1, [2.5, 'a']]"),
        ((1,), "[1]"),
        (torch.tensor([0.5, -0.0], requires_grad=True), "[0.5, 0]"),
        ({1}, "{1}"),
    ],
)
def test_show(x, text):
    assert show(x) == text


@given(st.lists(st.floats(), max_size=60), st.integers(1, 200))
def test_shown_values_are_short(numbers, most):
    text = show(numbers, most)
    assert "\n" not in text
    assert len(text) <= most + 1
    assert text.endswith("…") == (len(show(numbers, 10**6)) > most)


# One place off, and the future


@pytest.mark.parametrize(
    ("got", "expected", "hint"),
    [
        ([0, 1, 3], [1, 3, 6], "off-by-one"),
        ([3, 6, 0], [1, 3, 6], "off-by-one"),
        ([[0, 1, 3], [0, 2, 5]], [[1, 3, 6], [2, 5, 9]], "off-by-one"),
        (torch.tensor([0.0, 1.0, 3.0]), torch.tensor([1.0, 3.0, 6.0]), "off-by-one"),
        ([1, 3, 7], [1, 3, 6], "value"),
        ([0, 0, 0], [0, 0, 1], "value"),
        ([[0, 1, 3], [2, 5, 8]], [[1, 3, 6], [2, 5, 9]], "value"),
        (4, 5, "value"),
    ],
)
def test_one_place_off(got, expected, hint):
    result = judged(lambda _: got, lambda _: expected, (0,))
    assert result.hint == hint
    if hint == "off-by-one":
        assert "1 つずれています" in result.message


def running(rows, ahead=0):
    """Running sums of a list of rows, ``ahead`` places too far."""
    return [sum(map(sum, rows[: i + 1 + ahead])) for i in range(len(rows))]


@pytest.mark.parametrize("rows", [[[1.0], [2.0], [4.0]], [[1, 2], [3, 4]]])
def test_the_future_leaks_from_lists(rows):
    assert check("演習", running, checks.causal(rows)).ok
    result = check("演習", lambda x: running(x, 1), checks.causal(rows))
    assert result.hint == "leak"
    assert "位置 1 から先を変えると、位置 0 の値が" in result.message


def test_the_future_leaks_from_tensors():
    probe = checks.causal(torch.arange(12.0).view(2, 3, 2), axis=1)
    assert check("演習", lambda x: x.cumsum(dim=1), probe).ok
    leaky = check("演習", lambda x: x.flip(1).cumsum(dim=1).flip(1), probe)
    assert leaky.hint == "leak"
    assert check("演習", lambda x: 1 / 0, probe).hint == "error"


@pytest.mark.parametrize(
    ("got", "expected"),
    [("x", 3), (torch.ones(2), torch.ones(2).double())],
)
def test_type_and_dtype_show_the_input(got, expected):
    assert "入力 5" in judged(lambda _: got, lambda _: expected, (5,)).message


def test_warnings_are_swallowed(capsys):
    judged(lambda _: print("x", file=sys.stderr), mean)
    assert capsys.readouterr().err == ""
