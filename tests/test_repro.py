"""Numbers come out the same twice, and the words that state them keep their form."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from lmbook import chapters, repro

numbers = st.floats(allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e6, 1e6)


@st.composite
def matrices(draw, count=1):
    """``count`` matrices of one shape, as nested lists."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    row = st.lists(moderate, min_size=columns, max_size=columns)
    return tuple(
        draw(st.lists(row, min_size=rows, max_size=rows)) for _ in range(count)
    )


@pytest.fixture
def torch_settings():
    """Put torch's settings back."""
    before = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
    )
    yield before
    torch.set_default_dtype(before[0])
    torch.set_num_threads(before[1])
    torch.use_deterministic_algorithms(before[2])


# Imports


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import lmbook", {"torch", "matplotlib", "numpy", "nbformat"}),
        ("import lmbook.repro, lmbook.chapters, lmbook.checks", {"torch"}),
        ("from lmbook import repro; repro.setup(3)", {"torch", "matplotlib.pyplot"}),
        (
            "from lmbook import plots; plots.bars({'a': [1]}, ['あ'], alt='図。')",
            {"torch", "matplotlib.pyplot", "lmbook.press"},
        ),
    ],
)
def test_imports_stay_thin(code, absent, tmp_path):
    script = f"{code}\nimport sys\nprint(sorted({absent!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout == "[]\n"
    assert done.stderr == ""


# Seeds


def test_setup_seeds_random_and_registers_the_font():
    from matplotlib import font_manager

    repro.setup(7)
    assert random.random() == random.Random(7).random()
    names = {f.name for f in font_manager.fontManager.ttflist}
    assert "Noto Sans CJK JP" in names


BAD_SEEDS = [
    (True, TypeError, "整数.*True"),
    (1.0, TypeError, r"整数.*1\.0"),
    ("1", TypeError, "整数.*'1'"),
    (None, TypeError, "整数.*None"),
    (torch.tensor(1), TypeError, r"整数.*tensor\(1\)"),
    (-1, ValueError, r"0 以上 2\*\*64 未満.*-1"),
    (2**64, ValueError, r"0 以上 2\*\*64 未満.*18446744073709551616"),
]


@pytest.mark.parametrize("setup", [repro.setup, repro.setup_torch])
@pytest.mark.parametrize(("seed", "error", "message"), BAD_SEEDS)
def test_bad_seed_is_refused_before_anything_changes(
    setup, seed, error, message, torch_settings
):
    state, torch_state = random.getstate(), torch.get_rng_state()
    torch.set_default_dtype(torch.float32)
    with pytest.raises(error, match=f"seed は ?{message}"):
        setup(seed)
    assert random.getstate() == state
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    "dtype", ["float16", "double", torch.float64, None, ["float32"]]
)
def test_bad_dtype_is_refused_before_anything_changes(dtype, torch_settings):
    state, torch_state = random.getstate(), torch.get_rng_state()
    torch.set_default_dtype(torch.float32)
    with pytest.raises(ValueError, match='dtype は "float32" か "float64"') as caught:
        repro.setup_torch(1, dtype)
    assert repr(dtype) in str(caught.value)
    assert random.getstate() == state
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert torch.get_default_dtype() == torch.float32


def test_setup_torch(torch_settings):
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(False)
    repro.setup_torch(5)
    assert torch.get_default_dtype() == torch.float64
    assert torch.get_num_threads() == 1
    assert torch.are_deterministic_algorithms_enabled()
    expected = torch.rand(3, generator=torch.Generator().manual_seed(5))
    assert torch.equal(torch.rand(3), expected)
    assert random.random() == random.Random(5).random()
    repro.setup_torch(2**64 - 1, "float32")
    assert torch.ones(1).dtype == torch.float32


# Parameters


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (True, bool),
        (3, int),
        ("en", str),
        (0, range(3)),
        (2, range(3)),
        (4, range(0, 6, 2)),
        (0.0001, (0.0001, 0.01)),
        (0.01, (0.0001, 0.01)),
        (1, (0.0, 2.0)),
        ("en", ["en", "ja"]),
        (2, [1, 2, 4]),
        (None, [None, "x"]),
    ],
)
def test_legal_parameters(value, allowed):
    assert repro.legal("x", value, allowed) is None


@pytest.mark.parametrize(
    ("value", "allowed", "text"),
    [
        (1, bool, "bool"),
        (True, int, "int"),
        (1.0, int, "int"),
        (3, range(3), "0 から 2 までの整数"),
        (-1, range(3), "0 から 2 までの整数"),
        (1.0, range(3), "0 から 2 までの整数"),
        (True, range(3), "0 から 2 までの整数"),
        (3, range(0, 6, 2), "0 から 4 までの 2 おきの整数"),
        (0.02, (0.0001, 0.01), "0.0001 から 0.01 までの数"),
        (math.nan, (0.0, 1.0), "0.0 から 1.0 までの数"),
        (math.inf, (0.0, 1.0), "0.0 から 1.0 までの数"),
        (True, (0.0, 1.0), "0.0 から 1.0 までの数"),
        ("0.5", (0.0, 1.0), "0.0 から 1.0 までの数"),
        ("fr", ["en", "ja"], r"['en', 'ja'] のどれか"),
        (True, [1, 2], "[1, 2] のどれか"),
        (1.0, [1, 2], "[1, 2] のどれか"),
        (["en"], ["en"], "['en'] のどれか"),
    ],
)
def test_illegal_parameters_are_named(value, allowed, text):
    with pytest.raises(ValueError) as caught:
        repro.legal("n_head", value, allowed)
    assert str(caught.value) == (
        f"パラメータ n_head は {text} で指定します（受け取った値: {value!r}）。"
    )


# fmt


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [
        (0.123456, 4, "0.1235"),
        (-0.00001, 4, "0.0000"),
        (-0.0, 0, "0"),
        (-0.4, 0, "0"),
        (-0.00006, 4, "-0.0001"),
        (1e6, 2, "1000000.00"),
        (9999999999999998.0, 1, "9999999999999998.0"),
        (1e16, 2, "1.00e+16"),
        (-1e300, 4, "-1.0000e+300"),
        (3, 4, "3"),
        (-3, 4, "-3"),
        (10**30, 4, "1" + "0" * 30),
        (True, 4, "True"),
        ("契約", 4, "契約"),
        (math.nan, 4, "nan"),
        (math.inf, 4, "inf"),
        (-math.inf, 2, "-inf"),
        ([], 4, "[]"),
        ([1, 2.0, "a"], 1, "[1, 2.0, a]"),
        ((1.0, -0.0), 1, "[1.0, 0.0]"),
        ([[1.0, 2.0], [3.0, -1e-9]], 1, "[[1.0, 2.0],\n [3.0, 0.0]]"),
        (torch.tensor(2), 4, "2"),
        (torch.tensor([True, False]), 4, "[True, False]"),
        (torch.tensor([1.0, -0.0], requires_grad=True), 2, "[1.00, 0.00]"),
        (torch.tensor([[0.5]], dtype=torch.bfloat16), 2, "[[0.50]]"),
        (torch.nn.Parameter(torch.tensor(0.25)), 2, "0.25"),
    ],
)
def test_fmt(x, digits, text):
    assert repro.fmt(x, digits) == text


@given(numbers, st.integers(0, 8))
@example(-5e-324, 4)
@example(-0.5, 0)
def test_fmt_rounds_and_never_shows_a_negative_zero(x, digits):
    text = repro.fmt(x, digits)
    kind = "f" if abs(x) < 1e16 else "e"
    assert float(text) == float(f"{x:.{digits}{kind}}")
    assert math.copysign(1, float(text)) == 1 or float(text) != 0
    _, _, decimals = text.partition("e")[0].partition(".")
    assert len(decimals) == digits


@pytest.mark.parametrize("digits", [-1, 1.5, True, "2", None])
def test_fmt_refuses_other_digits(digits):
    with pytest.raises(ValueError, match=f"digits は 0 以上の整数.*{digits!r}"):
        repro.fmt(1.0, digits)


@pytest.mark.parametrize("x", [None, 1j, b"a", {}, torch.tensor(1j)])
def test_fmt_refuses_what_is_neither_number_nor_text(x):
    with pytest.raises(TypeError, match="x は数か文字列です"):
        repro.fmt([1.0, x])


@given(matrices(), st.integers(1, 6))
def test_fmt_of_a_tensor_is_that_of_its_numbers(made, digits):
    (rows,) = made
    text = repro.fmt(torch.tensor(rows, dtype=torch.float64), digits)
    assert text == repro.fmt(rows, digits)
    assert [len(json.loads(line)) for line in text[1:-1].split(",\n ")] == [
        len(row) for row in rows
    ]


# Differences


@given(matrices(count=2))
def test_max_difference_is_the_largest(made):
    a, b = (torch.tensor(m, dtype=torch.float64) for m in made)
    expected = (a - b).abs().max().item()
    assert repro.max_difference(*made) == expected
    assert repro.max_difference(a.requires_grad_(), made[1]) == expected
    assert repro.max_difference(list(a), b) == expected  # a list of tensors
    assert repro.max_difference(made[0], made[0]) == 0


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_max_difference_of_other_shapes_is_refused(a, b, c, d):
    one, other = torch.zeros(a, b), torch.zeros(c, d)
    if one.tolist() == other.tolist():
        assert repro.max_difference(one, other) == 0
    else:
        with pytest.raises(ValueError, match="形がちがいます"):
            repro.max_difference(one, other)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1.0], 1.0, r"形がちがいます: \(1,\) と \(\)"),
        ([], 1.0, r"形がちがいます: \(0,\) と \(\)"),
        ([[1, 2], [3, 4]], [[1, 2]], r"\(2, 2\) と \(1, 2\)"),
        ([[1, 2], [3], [4, 5, 6]], [[1, 2], [3, 4], [5, 6]], "形がちがいます"),
        ([[1, 2], [3]], [[1, 2], [3, 4]], "形がちがいます"),
    ],
)
def test_shapes_that_differ(a, b, message):
    for pair in ((a, b), (b, a)):
        with pytest.raises(ValueError, match="形がちがいます"):
            repro.max_difference(*pair)
    with pytest.raises(ValueError, match=message):
        repro.max_difference(a, b)


@pytest.mark.parametrize("odd", ["1.0", b"1", None, {}, ["1.0"], object()])
def test_max_difference_takes_only_numbers(odd):
    other = [1.0] if isinstance(odd, list) else 1.0
    with pytest.raises(TypeError):
        repro.max_difference(odd, other)


def test_max_difference_of_nan_and_infinity():
    inf, nan = math.inf, math.nan
    assert repro.max_difference([inf, -inf], [inf, -inf]) == 0
    assert repro.max_difference([inf], [-inf]) == inf
    assert repro.max_difference([inf, 1], [1e300, 1]) == inf
    assert math.isnan(repro.max_difference([9, nan], [1, nan]))
    assert math.isnan(repro.max_difference([nan, 9], [1, 1]))


@pytest.mark.parametrize(
    ("a", "b", "tol", "what", "text"),
    [
        (1.0, 1.0, 1e-12, "", "差 < 1e-12 ✓"),
        (1.0, 1.0 + 1e-13, 1e-12, "和", "和: 差 < 1e-12 ✓"),
        (0.0, 0.5, 0.5, "", "差 = 5.0e-01（許す差 0.5） ✗"),
        (2.0, 2.0, 0, "", "完全に一致 ✓"),
        (1.0, 1.0 + 2**-52, 0, "", "差 = 2.2e-16（許す差 0） ✗"),
        (math.nan, math.nan, 1, "", "差 = nan（許す差 1） ✗"),
        (math.inf, math.inf, 1e-9, "", "差 < 1e-09 ✓"),
        ([1], [1, 2], 1, "行", "行: 形がちがいます: (1,) と (2,)。 ✗"),
        ("a", 1, 1, "", "数ではありません: 'a'。 ✗"),
    ],
)
def test_within(a, b, tol, what, text, capsys):
    repro.within(a, b, tol, what)
    assert capsys.readouterr().out == f"{text}\n"


@given(moderate, moderate, st.floats(0, 10))
def test_within_holds_below_the_bound_only(a, b, tol):
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("builtins.print", printed.append)
        repro.within(a, b, tol)
    assert printed[0].endswith("✓") == (abs(a - b) < tol or a == b)


def test_within_never_raises_on_odd_values(capsys):
    repro.within(None, 1, 1e-3)
    assert capsys.readouterr().out.endswith("✗\n")


# Claims


def test_claim(capsys):
    claims = [True, False, 1, [], torch.tensor(True), torch.tensor([True, True])]
    for condition in claims:
        repro.claim("主張", condition)
    marks = [line.removeprefix("主張 ") for line in capsys.readouterr().out.split("\n")]
    assert marks == ["✓", "✗", "✓", "✗", "✓", "✗", ""]


def test_expects_prints_what_was_raised(capsys):
    with repro.expects(IndexError, KeyError):
        [][1]
    assert capsys.readouterr().out == "IndexError: list index out of range\n"


def test_expects_fails_when_nothing_or_another_thing_is_raised(capsys):
    with (
        pytest.raises(AssertionError, match="IndexError・KeyError が起きるはず"),
        repro.expects(IndexError, KeyError),
    ):
        pass
    with pytest.raises(ZeroDivisionError), repro.expects(IndexError):
        1 / 0  # noqa: B018
    with (
        pytest.raises(AssertionError, match="AssertionError が起きるはず"),
        repro.expects(AssertionError),
    ):
        pass
    assert capsys.readouterr().out == ""


# Tables and results


def test_table():
    rows = [["a|b", 0.12345, 3], ["二\n行", -0.0, torch.tensor(1.0)]]
    table = repro.Table(["名前", "値", "数"], rows, digits=2)
    assert table.text == (
        "| 名前 | 値 | 数 |\n"
        "| --- | --- | --- |\n"
        "| a\\|b | 0.12 | 3 |\n"
        "| 二 行 | 0.00 | 1.00 |"
    )
    bundle = table._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/markdown": table.text, "text/plain": table.text}


def test_a_cell_of_a_table_is_text_and_no_markup():
    rows = [["<bos> & *x* `y` $z$ ~~w~~", r"_a_ a_b \n [t](u) [1]", "x\r\n\ny"]]
    (row,) = repro.Table(["a", "b", "c"], rows).text.split("\n")[2:]
    assert row == (
        r"| \<bos> \& \*x\* \`y\` \$z\$ \~\~w\~\~ "
        r"| \_a\_ a_b \\n [t]\(u) [1] | x y |"
    )


@pytest.mark.parametrize("row", [[], [1], [1, 2, 3]])
def test_table_refuses_rows_of_another_length(row):
    with pytest.raises(ValueError, match="表の列は 2 個です") as caught:
        repro.Table(["a", "b"], [[1, 2], row])
    assert str(row) in str(caught.value)


def test_record(capsys):
    repro.record(
        loss=0.123456,
        zero=-0.00001,
        many=[1, 2.00004],
        pair=(0.5, -0.0),
        tensor=torch.tensor([1.0, 2.0], requires_grad=True),
        count=3,
    )
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "-0.0" not in out
    assert json.loads(out) == {
        "loss": 0.1235,
        "zero": 0.0,
        "many": [1.0, 2.0],
        "pair": [0.5, 0.0],
        "tensor": [1.0, 2.0],
        "count": 3.0,
    }


def test_measured(monkeypatch, tmp_path):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    (folder / "speed.json").write_text('{"名": [1, 2.5]}', encoding="utf-8")
    assert repro.measured("speed") == {"名": [1, 2.5]}
    with pytest.raises(
        FileNotFoundError, match=r"測定の結果 slow がありません.*make bench"
    ):
        repro.measured("slow")


def test_measured_reads_the_committed_results():
    assert repro.measured("causal_mean")["rows"]


# Means


def test_mean_and_deviation_are_those_of_the_population():
    assert repro.mean_and_deviation([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) == (5, 2)
    assert repro.mean_and_deviation([3.5]) == (3.5, 0.0)
    with pytest.raises(ValueError, match="values"):
        repro.mean_and_deviation([])
