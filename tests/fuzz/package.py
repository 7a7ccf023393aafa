"""What a notebook may import: ``lmbook`` without ``press``."""

import ast
import importlib
import inspect
import math
import random
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fuzz import (
    FINITE,
    NOT_INT,
    NOT_POSITIVE,
    SEEDS,
    WHOLE,
    WORDS,
    Case,
    Wrong,
    floats,
    folder,
    near,
    said,
    shaped,
    tensors,
)
from lmbook import chapters, checks, data, plots
from lmbook.repro import NG, OK

CHAPTERS = [path.stem[:2] for path in chapters.every()]
NUMBERS = st.lists(FINITE, min_size=1, max_size=6)
ANYTHING = st.one_of(FINITE, st.integers(), WORDS, NUMBERS, st.none(), st.booleans())
NO_NUMBER = st.sampled_from([None, "x", object(), [], {}])


def written(text: bytes) -> Any:
    path = folder() / "lines.txt"
    path.write_bytes(text)
    return path


# chapters

STATEMENTS = [
    "import math",
    "X = 1",
    "x = 2",
    "def f(a):\n    return a + X",
    "class C:\n    y = 1",
    "%time 1",
    "print(X); Y_ex = {1}",
    "",
    "# 注",
]
PROGRAMS = st.lists(st.sampled_from(STATEMENTS), max_size=6).map("\n".join)
BROKEN = st.sampled_from(["def f(", "x = = 1", "return (", "  x\n y", "あ い"])


def blanked(got: str, g: Any) -> bool:
    kept = set(got.split("\n")) - {""}
    names = {type(node).__name__ for node in ast.parse(got).body}
    return (
        got.count("\n") - g.source.count("\n") in (0, 1)  # IPython ends a cell
        and kept <= {"Y_ex = {1}", *g.source.split("\n")}
        and names <= {"Import", "Assign", "FunctionDef", "ClassDef"}
        and "print" not in got
    )


def notebook_file(source: str) -> Any:
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    path = folder() / "01_fuzz.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source, id="only")]), path)
    return path


NO_CHAPTER = Wrong(
    ["", "1", "00", "99", "embeddings", 1, None],
    "章",
    (FileNotFoundError,),
)
OF_CHAPTERS = {
    "chapters.path": Case(
        {"chapter": st.sampled_from(CHAPTERS)},
        lambda got, g: got.is_file() and got.name.startswith(g.chapter),
        {"chapter": NO_CHAPTER},
    ),
    "chapters.every": Case(
        {}, lambda got, g: [path.stem[:2] for path in got] == CHAPTERS
    ),
    "chapters.definitions": Case(
        {"source": PROGRAMS},
        blanked,
        {"source": Wrong(BROKEN, ".", (SyntaxError,))},
    ),
    "chapters.source": Case(
        {"notebook": PROGRAMS.map(notebook_file)},
        lambda got, g: "print" not in got,
        {
            "notebook": Wrong(
                BROKEN.map(notebook_file) | st.builds(lambda: folder() / "01_no.ipynb"),
                "01_fuzz.ipynb のセル only の|01_no.ipynb",
                (SyntaxError, FileNotFoundError),
            )
        },
    ),
    "chapters.load": Case(
        {
            "chapter": st.sampled_from(CHAPTERS),
            "notebook": PROGRAMS.map(notebook_file),
        },
        lambda got, g: inspect.ismodule(got) and not hasattr(got, "x"),
        {"notebook": Wrong(BROKEN.map(notebook_file), "only", (SyntaxError,))},
    ),
    "chapters.solved": Case(
        {
            "chapter": st.just("01"),
            "name": st.just("rows_ex"),
            "value": st.sampled_from([{1, 4, 7}, {1}, None, "x", 3]),
        },
        lambda got, g: got == {1, 4, 7},
        {
            "chapter": Wrong(st.just("99"), "ch99", (ImportError,)),
            "name": Wrong(WORDS, "has no attribute", (AttributeError,)),
        },
    ),
}

# data

LINES = st.lists(WORDS, min_size=1, max_size=5)
BAD_FILES = [
    b"",
    b" \n\n",
    "あ".encode("cp932"),
    b"<!DOCTYPE html>",
    b"a\x00b",
    b"a\tb",
    "�".encode(),
    b"\xe3\x81",
]


def fixed(argument: str, values: list[str]) -> Case:
    return Case(
        {argument: st.sampled_from(values)},
        lambda got, g: got and all(x == x.strip() != "" for x in got),
        {argument: Wrong(WORDS | NO_NUMBER, argument, (ValueError,))},
    )


OF_DATA = {
    "data.load_lines": Case(
        {"path": LINES.map(lambda xs: written("\r\n".join(xs).encode("utf-8-sig")))},
        lambda got, g: got == g.path.read_text("utf-8-sig").split("\n"),
        {
            "path": Wrong(
                st.sampled_from(BAD_FILES).map(written)
                | st.sampled_from([None, 1, [], b"x", "", "ない.txt", folder()]),
                r"path|lines\.txt|ない\.txt|フォルダー",
                (TypeError, ValueError, FileNotFoundError, IsADirectoryError),
            )
        },
    ),
    "data.names": fixed("language", list(data.NAMES)),
    "data.sentences": fixed("name", list(data.SENTENCES)),
    "data.split": Case(
        shaped(
            lambda n: {
                "lines": st.lists(WORDS, min_size=n + 1, unique=True),
                "held_out": st.just(n),
                "seed": SEEDS,
            },
            WHOLE,
        ),
        lambda got, g: (
            sorted(got[0] + got[1]) == sorted(g.lines) and len(got[1]) == g.held_out
        ),
        {
            "lines": WORDS | st.sampled_from([[], ["a"], ["a", "a"]]),
            "held_out": lambda g: [
                0,
                -1,
                len(g.lines),
                len(g.lines) + 9,
                True,
                1.5,
                None,
            ],
            "seed": NOT_INT | st.integers(max_value=-1),
        },
    ),
}

# interact


def drawing(a: int = 1, b: float = 2.0) -> tuple[int, float]:
    return a, b


OF_INTERACT = {
    "interact.live": Case({}, lambda got, g: got is False),
    "interact.interact": Case(
        {
            "draw": st.just(drawing),
            "controls": st.fixed_dictionaries(
                {}, optional={"a": st.just((0, 3)), "b": st.just([1.0, 2.0])}
            ),
        },
        lambda got, g: got == (1, 2.0),
        {
            "controls": Wrong(
                st.dictionaries(
                    st.sampled_from(["x", "c"]), st.just((0, 1)), min_size=1
                ),
                "drawing",
                (ValueError,),
            ),
            "draw": Wrong([None, 1, "x"], "callable", (TypeError,)),
        },
        call=lambda f, draw, controls: f(draw, **controls),
        stray=False,
    ),
}

# repro

LEGAL = st.sampled_from(
    [
        ("steps", 3, range(1, 5)),
        ("steps", 4, range(0, 9, 2)),
        ("rate", 0.5, (0.0, 1.0)),
        ("rate", 1, (0, 1)),
        ("quick", True, bool),
        ("way", "add", ["add", "concat"]),
    ]
)
NESTED = st.recursive(FINITE | st.integers(-9, 9), lambda x: st.lists(x, max_size=3))
PAIRS = shaped(
    lambda n: {
        "a": st.lists(FINITE, min_size=n, max_size=n),
        "b": st.lists(FINITE, min_size=n, max_size=n),
    },
    st.integers(0, 4),
)


def largest(g: Any) -> float:
    return max((abs(x - y) for x, y in zip(g.a, g.b, strict=True)), default=0.0)


def shown(got: str, g: Any) -> bool:
    """fmt loses no number and rounds each by at most half a last digit."""
    read = ast.literal_eval(got)
    wanted, found = list(floats(g.x)), list(floats(read))
    half = 0.51 * 10.0**-g.digits
    return not re.search(r"-0(\.0*)?([],]|$)", got) and all(
        abs(a - b) <= half + 1e-9 * abs(a) for a, b in zip(wanted, found, strict=True)
    )


def failing(f: Any, errors: list[type], raised: Any) -> Any:
    """expects() around a block that raises ``raised``."""
    with f(*errors):
        if raised:
            raise raised
    return True


OF_REPRO = {
    "repro.setup": Case(
        {"seed": st.integers(0, 2**64 - 1)},
        lambda got, g: random.random() == random.Random(g.seed).random(),
        {"seed": NOT_INT | st.integers(max_value=-1) | st.integers(min_value=2**64)},
    ),
    "repro.setup_torch": Case(
        {"seed": st.integers(0, 2**64 - 1), "dtype": st.just("float64")},
        lambda got, g: random.random() == random.Random(g.seed).random(),
        {
            "seed": NOT_INT | st.integers(max_value=-1) | st.integers(min_value=2**64),
            "dtype": WORDS | NO_NUMBER,
        },
    ),
    "repro.legal": Case(
        LEGAL.map(lambda x: dict(zip(("name", "value", "allowed"), x, strict=True))),
        lambda got, g: got is None,
        {
            "value": Wrong(
                [-1, 7, "x", None, math.nan, 2.5],
                "steps|rate|quick|way",
            )
        },
    ),
    "repro.fmt": Case(
        {"x": NESTED | st.floats(-1e-6, 0), "digits": st.integers(0, 8)},
        shown,
        {
            "x": Wrong([None, object(), {}, [None]], "x は数か"),
            "digits": st.sampled_from([-1, 1.5, None, True]),
        },
    ),
    "repro.max_difference": Case(
        PAIRS,
        lambda got, g: got == largest(g),
        {
            "a": Wrong(
                [None, "x", [[[[]]]], [1.0] * 9],
                "形がちがいます|数ではありません|number",
            )
        },
    ),
    "repro.mean_and_deviation": Case(
        {"values": NUMBERS},
        lambda got, g: (
            near(got[0], np.mean(g.values)) and near(got[1], np.std(g.values), 1e-6)
        ),
        {"values": Wrong(st.just([]))},
    ),
    "repro.within": Case(
        PAIRS.map(lambda d: d | {"tol": 1.0, "what": "差"}),
        lambda got, g: (OK in got) == (largest(g) < 1.0) and (OK in got) != (NG in got),
        call=said,
    ),
    "repro.claim": Case(
        {"text": WORDS, "condition": ANYTHING | st.just(np.ones(2))},
        lambda got, g: got.startswith(g.text) and (OK in got) != (NG in got),
        call=said,
    ),
    "repro.expects": Case(
        {
            "errors": st.just([ValueError, KeyError]),
            "raised": st.sampled_from([ValueError("a"), KeyError("b")]),
        },
        lambda got, g: got,
        {
            "raised": Wrong(
                [None, TypeError("other")],
                "ValueError・KeyError|other",
                (AssertionError, TypeError),
            )
        },
        call=failing,
        stray=False,
    ),
    "repro.Table": Case(
        shaped(
            lambda n: {
                "header": st.lists(WORDS, min_size=n, max_size=n),
                "rows": st.lists(
                    st.lists(
                        ANYTHING.filter(lambda x: x is not None), min_size=n, max_size=n
                    ),
                    max_size=3,
                ),
                "digits": st.integers(0, 6),
            },
            WHOLE,
        ),
        lambda got, g: (
            got.text.count("\n") == len(g.rows) + 1
            and all(
                line.count("|") == len(g.header) + 1 for line in got.text.split("\n")
            )
        ),
        {"rows": Wrong(lambda g: st.just([[1] * (len(g.header) + 1)]), "表の列は")},
    ),
    "repro.record": Case(
        {"results": st.dictionaries(st.sampled_from("ab"), FINITE | NUMBERS)},
        lambda got, g: ast.literal_eval(got).keys() == g.results.keys(),
        {
            "results": Wrong(
                st.dictionaries(st.just("a"), st.just("x"), min_size=1),
                "数ではありません",
            )
        },
        call=lambda f, results: said(lambda: f(**results)),
        stray=False,
    ),
    "repro.measured": Case(
        {
            "name": st.sampled_from(
                sorted(
                    p.stem
                    for p in (chapters.ROOT / "benchmarks/results").glob("*.json")
                )
            )
        },
        lambda got, g: got,
        {
            "name": Wrong(
                WORDS | st.sampled_from(["../../pyproject", ""]),
                "測定の結果",
                (FileNotFoundError,),
            )
        },
    ),
}

OF_SPARKLINE = {
    "sparkline.sparkline": Case(
        {"values": st.lists(FINITE), "width": st.integers(1, 20)},
        lambda got, g: (
            len(got) == min(len(g.values), g.width)
            and set(got) <= set("▁▂▃▄▅▆▇█")
            and (not got or "▁" in got)
        ),
        {
            "width": NOT_INT | NOT_POSITIVE,
            "values": st.lists(NO_NUMBER, min_size=1),
        },
    )
}

# plots

ALT = st.just("図です。")
NO_ALT = st.sampled_from(["", "  ", None, 1])
TITLES = st.sampled_from(["", "題 <b> $x$", "a|b"])


def as_map(r: int, c: int) -> dict[str, Any]:
    """A matrix of shares, which every scale takes, and its labels."""
    share = st.floats(0, 1)
    return {
        "values": st.lists(
            st.lists(share, min_size=c, max_size=c), min_size=r, max_size=r
        ),
        "rows": st.none() | st.just(list("同同上下左"[:r])),
        "columns": st.none() | st.just([f"列{i}" for i in range(c)]),
        "causal": st.booleans() if r == c else st.just(False),
    }


MATRIX = shaped(as_map, WHOLE, WHOLE)
NO_MATRIX = st.sampled_from(
    [None, 1, [], [[]], [1.0], [[1.0], [1.0, 2.0, 3.0]], "x", [["x"]]]
)
LOOKS = {
    "alt": ALT,
    "title": TITLES,
    "xlabel": TITLES,
    "ylabel": TITLES,
}
MAP_LOOKS = LOOKS | {
    "scale": st.sampled_from(list(plots.SCALES)),
    "numbers": st.sampled_from([None, True, False]),
}
NAMED_CURVES = st.dictionaries(WORDS, NUMBERS, min_size=1, max_size=3)
RULERS = st.none() | st.dictionaries(WORDS, FINITE, max_size=2)


def together(one: Any, **more: Any) -> Any:
    return st.builds(lambda a, b: a | b, one, st.fixed_dictionaries(more))


def picture(got: Any, g: Any) -> bool:
    """A PNG, the given alternative text, a description of at most twelve lines."""
    lines = got.description.split("\n")
    return (
        isinstance(got, plots.Picture)
        and got.png.startswith(b"\x89PNG")
        and got.alt == g.alt
        and lines[0].startswith("図")
        and len(lines) <= plots.MAX_LINES
        and (got.get_figwidth(), got.get_figheight()) <= (5.0, 4.0)
        and "nan" not in got.description
    )


def as_panels(drawn: dict[str, Any]) -> dict[str, Any]:
    given = {k: v for k, v in drawn.items() if k not in ("values", "title")}
    return given | {"matrices": {"一": drawn["values"], "二": drawn["values"]}}


def one_more(name: str) -> Any:
    """One label more than there is room for."""
    return lambda g: st.just(["x"] * (len(getattr(g, "values", [0] * 9)) + 9))


def as_bars(n: int) -> dict[str, Any]:
    values = st.lists(FINITE, min_size=n, max_size=n)
    return LOOKS | {
        "groups": st.dictionaries(WORDS, values, min_size=1, max_size=2),
        "labels": st.just(list("同同上下左"[:n])),
        "floors": RULERS,
        "digits": st.integers(0, 4),
        "ylog": st.just(False),
        "numbers": st.booleans(),
        "horizontal": st.booleans(),
    }


CURVES = LOOKS | {"floors": RULERS, "marks": RULERS, "ylog": st.just(False)}
UNEVEN = st.just({"a": ([1.0, 2.0], [1.0, 2.0, 3.0])})
NO_CURVES = st.sampled_from([{}, {"a": []}, {"a": ["x"]}, {"a": [[1.0]]}]) | UNEVEN
DRAW = 3  # a figure costs 0.1 s

OF_PLOTS = {
    "plots.fonts": Case({}, lambda got, g: all(file.is_file() for file in got)),
    "plots.register_fonts": Case({}, lambda got, g: got is None),
    "plots.heatmap": Case(
        together(MATRIX, **MAP_LOOKS),
        picture,
        {
            "values": Wrong(NO_MATRIX, "matrices"),
            "alt": NO_ALT,
            "scale": WORDS | st.none(),
            "rows": one_more("rows"),
            "columns": one_more("columns"),
        },
        cost=DRAW,
    ),
    "plots.panels": Case(
        together(MATRIX, per_row=st.integers(1, 3), **MAP_LOOKS).map(as_panels),
        picture,
        {
            "matrices": st.just({}) | NO_MATRIX.map(lambda m: {"a": m}),
            "alt": NO_ALT,
            "scale": WORDS | st.none(),
            "per_row": NOT_POSITIVE | st.sampled_from([None, 1.5]),
        },
        cost=DRAW,
    ),
    "plots.cosines": Case(
        shaped(
            lambda n, d: {
                "vectors": tensors(
                    n, d, scale=st.sampled_from([1.0, 1e-6, 1e6, 1e-200, 1e200])
                )
            },
            WHOLE,
            WHOLE,
        ),
        lambda got, g: (
            got.shape == (len(g.vectors),) * 2
            and near(np.diag(got), np.ones(len(got)))
            and (abs(got) <= 1).all()
        ),
        {
            "vectors": NO_MATRIX
            | st.sampled_from([[[0.0], [1.0]], [[math.nan]], [[math.inf]]])
        },
    ),
    "plots.curves": Case(
        CURVES
        | {
            "lines": NAMED_CURVES,
            "bands": st.none(),
            "xlog": st.just(False),
            "points": st.booleans(),
        },
        picture,
        {
            "lines": Wrong(NO_CURVES, "lines|a の横|^a は"),
            "alt": NO_ALT,
            "bands": Wrong(
                lambda g: st.sampled_from(
                    [
                        {"ない曲線": ([1.0], [2.0])},
                        {next(iter(g.lines)): ([1.0] * 9, [2.0] * 8)},
                    ]
                ),
                "bands|の帯は",
            ),
        },
        cost=DRAW,
    ),
    "plots.loss_curves": Case(
        CURVES | {"losses": NAMED_CURVES},
        picture,
        {"losses": Wrong(NO_CURVES, "losses|lines|a の横|^a は"), "alt": NO_ALT},
        cost=DRAW,
    ),
    "plots.bars": Case(
        shaped(as_bars, WHOLE),
        picture,
        {
            "groups": Wrong(NO_CURVES, "groups|labels|^a は"),
            "labels": st.sampled_from([[], ["x"] * 9]),
            "alt": NO_ALT,
        },
        cost=DRAW,
    ),
    "plots.diagram": Case(
        {
            "boxes": st.just({"a": "入力", "b": "計算", "c": "出力"}),
            "arrows": st.lists(st.sampled_from([("a", "b"), ("b", "c"), ("a", "c")])),
            "alt": ALT,
            "title": TITLES,
            "across": st.booleans(),
        },
        picture,
        {
            "boxes": Wrong(st.just({}), "boxes"),
            "arrows": Wrong([[("a", "x")], [("a", "b"), ("b", "a")]], "矢印"),
            "alt": NO_ALT,
        },
        cost=DRAW,
    ),
    "plots.smooth": Case(
        shaped(
            lambda n: {
                "values": st.lists(FINITE, min_size=n),
                "width": st.integers(1, n),
            },
            WHOLE,
        ),
        lambda got, g: len(got[0]) == len(got[1]) == len(g.values) // g.width,
        {"width": lambda g: NOT_POSITIVE | st.just(len(g.values) + 1)},
    ),
    "plots.describe": Case(
        {"figure": NUMBERS.map(lambda ys: plots.curves({"線": ys}, alt="図です。"))},
        lambda got, g: got == g.figure.description and "線「線」" in got,
        cost=DRAW,
    ),
    "plots.Picture": Case({}, lambda got, g: got.png == b"" and got.description == ""),
}

# checks


def first(*given: Any) -> Any:
    return given[0] if given else None


def refuses(*given: Any) -> Any:
    raise LookupError("理由")


ANSWERS = st.sampled_from(
    [
        *(None, 0, 1.5, math.nan, "あ", [], {}, {"a"}, (1, 2), [[1.0], []], object()),
        *(int, first, refuses, print, lambda *x: math.nan, lambda *x: [], lambda: 1),
    ]
)


def exercise(chapter: str, name: str) -> Case:
    """A check takes any answer, never raises, and takes none but the right one."""
    rows = importlib.import_module(f"exercises.ch{chapter}").ROWS
    right = next(answer for row, answer, hint in rows if (row, hint) == (name, "ok"))
    return Case(
        {"answer": ANSWERS | st.just(right)},
        lambda got, g: (
            isinstance(got, checks.Result)
            and got.ok == (g.answer is right)
            and got.exercise.startswith("演習")
            and re.search(r"です|ます|ません|ました", got.message) is not None
        ),
        cost=2,
        stray=False,
    )


def exercises() -> dict[str, Case]:
    found = {}
    for chapter in CHAPTERS:
        module = importlib.import_module(f"lmbook.checks.ch{chapter}")
        for name, value in vars(module).items():
            if (
                inspect.isfunction(value)
                and value.__module__ == module.__name__
                and list(inspect.signature(value).parameters) == ["answer"]
                and not name.startswith("_")
            ):
                found[f"checks.ch{chapter}.{name}"] = exercise(chapter, name)
    return found


def double(xs: list[float]) -> list[float]:
    return [2 * x for x in xs]


def running(xs: list[float]) -> list[float]:
    return [sum(xs[: i + 1]) for i in range(len(xs))]


def leaking(xs: list[float]) -> list[float]:
    return [sum(xs)] * len(xs)


def probed(probe: Any, answer: Any) -> str:
    return checks.check("演習1", answer, probe).hint


CHAPTER: Any = chapters.load("01")
RESULT = st.builds(checks.Result, WORDS, st.sampled_from(["ok", "leak"]), WORDS)
OF_CHECKS = exercises() | {
    "checks.Mistake": Case(
        {"hint": WORDS, "message": WORDS},
        lambda got, g: (got.hint, str(got)) == (g.hint, g.message),
    ),
    "checks.Result": Case(
        {"exercise": WORDS, "hint": WORDS, "message": WORDS},
        lambda got, g: repr(got) == f"{NG} {g.exercise}: {g.message}",
    ),
    "checks.Result.ok": Case(
        {"self": RESULT}, lambda got, g: got == (g.self.hint == "ok")
    ),
    "checks.Known": Case(
        {"hint": WORDS, "message": WORDS, "wrong": st.just(sum)},
        lambda got, g: got.wrong is sum,
    ),
    "checks.check": Case(
        {
            "exercise": WORDS,
            "answer": ANSWERS,
            "probe": st.sampled_from([first, refuses, lambda x: x()]),
        },
        lambda got, g: (
            isinstance(got, checks.Result)
            and got.exercise == g.exercise
            and (g.answer is not None or got.hint == "unfinished")
        ),
        call=lambda f, exercise, answer, probe: f(exercise, answer, probe),
    ),
    "checks.progress": Case(
        {
            "names": st.dictionaries(st.sampled_from(["r1", "r2", "_"]), RESULT),
            "count": st.integers(0, 4),
        },
        lambda got, g: (
            got.count("\n") == g.count + 1
            and got.endswith(f"{g.count} 問のうち {got.count(OK)} 問\n")
        ),
        call=said,
    ),
    "checks.shape": Case(
        shaped(
            lambda *s: {
                "x": tensors(*s).flatmap(lambda t: st.sampled_from([t, t.tolist()]))
            }
        ),
        lambda got, g: got == np.shape(g.x),
    ),
    "checks.against": Case(
        {"xs": NUMBERS, "answer": ANSWERS | st.just(double)},
        lambda got, g: (got == "ok") == (g.answer is double),
        call=lambda f, xs, answer: probed(f(double, (xs,)), answer),
        nan="the answer's own",
    ),
    "checks.causal": Case(
        {
            "xs": st.lists(FINITE, min_size=2, max_size=5),
            "answer": st.sampled_from([running, leaking]),
        },
        lambda got, g: got == ("ok" if g.answer is running else "leak"),
        call=lambda f, xs, answer: probed(f(xs), answer),
    ),
    "checks.value": Case(
        {"expected": ANYTHING.filter(lambda x: x is not None), "answer": ANSWERS},
        lambda got, g: (
            (got == "ok")
            == (type(g.answer) is type(g.expected) and g.answer == g.expected)
        ),
        call=lambda f, expected, answer: probed(f(expected, form="数"), answer),
    ),
    "checks.callable_": Case(
        {"answer": st.sampled_from([print, first, int])},
        lambda got, g: got is None,
        {"answer": Wrong(NO_NUMBER, "関数を渡します", (checks.Mistake,))},
        stray=False,
    ),
    "checks.show": Case(
        {"x": ANYTHING | NESTED | tensors(2, 2), "most": st.integers(1, 200)},
        lambda got, g: 0 < len(got) <= g.most + 1,
    ),
    "checks.ch01.acceptance": Case(
        {
            "current": st.just(CHAPTER.CurrentTokenLM),
            "causal": st.just(CHAPTER.CausalMeanLanguageModel),
            "causal_mean": st.sampled_from([CHAPTER.causal_mean, refuses]),
            "loss": st.just(CHAPTER.next_token_loss),
            "leaky": st.just([CHAPTER.leaky_mean]),
        },
        lambda got, g: (NG in got.text) == (g.causal_mean is refuses),
        cost=6,  # it trains
        stray=False,
    ),
}

# ngrams, trace

DOCUMENTS = st.lists(st.lists(st.integers(0, 3), min_size=2), min_size=1, max_size=3)


def outer(x: float) -> float:
    return inner(x) + inner(inner(x))


def inner(x: float) -> float:
    return x


NODES = {
    name: SimpleNamespace(data=2.0, grad=1.0, _children=())
    for name in ("一", "二", "三")
}
NODES["三"]._children = (NODES["一"], NODES["二"])

OF_COUNTING = {
    "ngrams.loss": Case(
        {
            "train": DOCUMENTS,
            "test": DOCUMENTS,
            "order": st.integers(0, 3),
            "size": st.just(4),
            "alphas": st.lists(st.floats(0.01, 2.0), min_size=1, max_size=2),
        },
        lambda got, g: 0 < got < 20,
        {
            "test": st.sampled_from([[], [[]], [[1]]]),
            "order": st.integers(max_value=-1),
            "size": NOT_POSITIVE,
            "alphas": st.sampled_from([[], [0.0], [-1.0], [1.0, 0.0]]),
        },
    ),
    "trace.calls": Case(
        {
            "run": st.just(lambda: outer(1.5)),
            "inside": st.sampled_from(["outer", "nowhere"]),
            "watched": st.sampled_from([["inner"], ["other"], []]),
        },
        lambda got, g: (
            got[0]
            == (g.watched * 3 if g.inside == "outer" and g.watched != ["other"] else [])
        ),
    ),
    "trace.graph": Case(
        {"nodes": st.just(NODES), "title": TITLES, "alt": ALT},
        picture,
        {"nodes": Wrong(st.just({"三": NODES["三"]}), "三 の材料")},
        cost=DRAW,
    ),
}

TABLE = (
    OF_COUNTING
    | OF_CHAPTERS
    | OF_DATA
    | OF_INTERACT
    | OF_REPRO
    | OF_SPARKLINE
    | OF_PLOTS
    | OF_CHECKS
)
