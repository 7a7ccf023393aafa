"""Definitions come out of a notebook, and nothing else of it runs."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pickle
import subprocess
import sys
import textwrap
import traceback
from types import SimpleNamespace

import pytest
from helpers import markdown, notebook, save
from hypothesis import given
from hypothesis import strategies as st

from lmbook import chapters
from lmbook.checks import Mistake, Result, check, value


@pytest.fixture
def book(monkeypatch, tmp_path):
    """A folder of chapters of its own; returns a writer of one chapter."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    monkeypatch.setattr(chapters, "NOTEBOOKS", folder)
    before = set(sys.modules)

    def write(name, *cells):
        cells = [(f"c{i}", source) for i, source in enumerate(cells)]
        return save(folder / f"{name}.ipynb", notebook(*cells))

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("lmbook_chapter_"):
            del sys.modules[name]


# Which statements are definitions


@pytest.mark.parametrize(
    "source",
    [
        "import math",
        "import os.path as p, sys",
        "from math import (\n    pi,\n    e,\n)",
        "def f(x):\n    return x",
        "async def f(x):\n    return x",
        "class A:\n    x = 1\n\n    def f(self):\n        return 2",
        "@decorated\n@again(\n    1,\n)\ndef f():\n    pass",
        "@decorated\nclass A: ...",
        "X = 1",
        "B = 2",
        "X: int = 3",
        "X = Y = 3",
        "MAX_2 = (\n    1,  # one\n\n    2,\n)",
        "_PRIVATE = 1",
        'TEXT = """\nprint(1)\n"""',
        "X = 1  # noqa: E1",
        "X = 1;",
        "rows_ex = {1, 2}",
        "f_ex = None",
    ],
)
def test_definitions_are_kept_as_they_stand(source):
    assert chapters.definitions(source) == source


@pytest.mark.parametrize(
    "source",
    [
        "x = 1",
        "Xy = 1",
        "x: int = 1",
        "X, Y = 1, 2",
        "[X] = [1]",
        "X = y = 1",
        "X += 1",
        "X[0] = 1",
        "X.y = 1",
        "del X",
        "print(1)",
        "'text'",
        "(X := 1)",
        "if True:\n    X = 1",
        "for X in []:\n    def f(): ...",
        "with open('x') as X:\n    import math",
        "try:\n    import math\nfinally:\n    X = 1",
        "while False: X = 1",
        "assert True",
        "raise ValueError",
        "await f()",
        "# X = 1",
        "",
        "定数 = 1",
    ],
)
def test_other_statements_are_blanked(source):
    assert chapters.definitions(source) == "\n" * source.count("\n")


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("X = 1; print(2)", "X = 1"),
        ("print(2); X = 1", "X = 1"),
        ("print(1); X = 1; y = 2; Y = 3  # c", "X = 1; Y = 3"),
        ("import math; math.pi; Y = 3", "import math; Y = 3"),
        ("print('違約'); X = '契約'; print('金'); Y = 1", "X = '契約'; Y = 1"),
        ("X = [\n    1,\n]; print(2)", "X = [\n    1,\n]"),
        ("X = [\n    1,\n]; Y = [\n    2]; f()", "X = [\n    1,\n]; Y = [\n    2]"),
        ("f(\n    1); X = '違'; g(\n    2)", "\nX = '違'\n"),
        ("def f(): return 1; print(2)", "def f(): return 1; print(2)"),
    ],
)
def test_statements_on_one_line_are_told_apart(source, kept):
    assert chapters.definitions(source) == kept


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("%time f()\nX = 1", "\nX = 1"),
        ("%matplotlib inline\n\nimport math", "\n\nimport math"),
        ("!ls -l\nX = 1", "\nX = 1"),
        ("files = !ls\nX = 1", "\nX = 1"),
        ("f?\nX = 1", "\nX = 1"),
        ("for i in x:\n    %time f(i)\nX = 1", "\n\nX = 1"),
        ("%%time\nX = 1", ""),
        ("%%bash\necho 'not python", ""),
    ],
)
def test_ipython_statements_are_no_definitions(source, kept):
    assert chapters.definitions(source).rstrip("\n") == kept


STATEMENTS = [
    "import math",
    "X = [\n  1,\n  2]",
    "Y = '契約'",
    "print('違約金')",
    "z = (1,\n2)",
    "name_ex = 3",
    "W = '''\n%time\n'''",
    "S = 'a\u2028b\x0cc\x1dd'",
]
COMPOUND = [
    "def f():\n    a = 1; return a",
    "@d\nclass A:\n    X = 2",
    "if 1:\n    Q = 1",
]


@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4).map(
                "; ".join
            ),
            st.sampled_from([*COMPOUND, "", "# X = 1"]),
        ),
        max_size=6,
    )
)
def test_kept_statements_are_those_of_the_parser_at_their_lines(lines):
    """Oracle: the syntax tree of the whole, filtered, against that of the rest."""

    def wanted(node):
        if isinstance(node, ast.Assign):
            return node.targets[0].id in {*"XYWS", "name_ex"}
        return isinstance(node, (ast.Import, ast.FunctionDef, ast.ClassDef))

    source = "\n".join(lines)
    kept = chapters.definitions(source)
    assert kept.count("\n") == source.count("\n")
    before = [n for n in ast.parse(source).body if wanted(n)]
    after = ast.parse(kept).body
    assert [ast.dump(n) for n in before] == [ast.dump(n) for n in after]
    assert [(n.lineno, n.end_lineno) for n in before] == [
        (n.lineno, n.end_lineno) for n in after
    ]


@pytest.mark.filterwarnings("ignore:.*make_tokens_by_line")  # IPython's own
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        kept = chapters.definitions(text)
    except (SyntaxError, ValueError):  # ValueError: a null byte
        return
    ast.parse(kept)


def test_a_cell_that_is_not_python_is_named(book):
    file = book("01_a", "X = 1", "Y = 2\ndef f(:\n    pass")
    with pytest.raises(
        SyntaxError, match=r"01_a\.ipynb のセル c1 の 2 行目が Python として読めません"
    ):
        chapters.source(file)


def test_source_takes_code_cells_only(tmp_path):
    content = notebook(markdown("m", "X = 1"), ("a", "Y = 2\nprint()"), ("b", "Z = 3"))
    file = save(tmp_path / "x.ipynb", content)
    assert chapters.source(file) == "Y = 2\n\n\nZ = 3"


# The module


LESSON = '''
"""A lesson."""
import dataclasses

print("never printed"); LOUD = 2

@dataclasses.dataclass
class Pair:
    """二つの数。"""
    a: int
    b: int = LOUD


def outer(x):
    """二つの文字の\u2028あいだ。"""
    def inner():
        return 1 / x
    return inner()
'''


def test_only_definitions_run(book, capsys):
    book("01_lesson", "x = 1\nX = 1\nraise ValueError", "def f():\n    return x")
    module = chapters.load("01")
    assert not hasattr(module, "x")
    assert module.X == 1
    with pytest.raises(NameError):  # a definition that leans on a run cell
        module.f()
    book("02_lesson", LESSON)
    chapters.load("02")
    assert capsys.readouterr().out == ""


def test_module_is_registered(book):
    book("01_lesson", LESSON)
    module = chapters.load("01")
    assert sys.modules["lmbook_chapter_01_lesson"] is module
    assert module.__name__ == module.Pair.__module__ == "lmbook_chapter_01_lesson"
    assert module.Pair(1) == module.Pair(1, 2)
    assert dataclasses.asdict(pickle.loads(pickle.dumps(module.Pair(3)))) == {
        "a": 3,
        "b": 2,
    }
    assert importlib.import_module("lmbook_chapter_01_lesson") is module


def test_source_and_tracebacks_show_the_lines_of_the_notebook(book):
    book("01_lesson", "print('a')\nX = 1\n", "y = 2", LESSON)
    module = chapters.load("01")
    _, _, start = LESSON.partition("def outer")
    assert inspect.getsource(module.outer) == f"def outer{start}"
    assert inspect.getsource(module.Pair).startswith("@dataclasses.dataclass\nclass P")
    with pytest.raises(ZeroDivisionError) as caught:
        module.outer(0)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.line == "return 1 / x"
    assert last.filename == "<01_lesson.ipynb>"
    text = chapters.source(chapters.path("01")).split("\n")
    assert text[last.lineno - 1].strip() == "return 1 / x"
    assert "return 1 / x" in "".join(traceback.format_exception(caught.value))


def test_module_is_made_anew_only_when_its_definitions_change(book):
    book("01_lesson", "X = 1\nprint(1)")
    first = chapters.load("01")
    assert chapters.load("01") is first
    book("01_lesson", "X = 1\nprint(2)", "y = 3")  # no definition changed but lines
    assert chapters.load("01").X == 1
    book("01_lesson", "X = 2\n\ndef f():\n    return 5")
    second = chapters.load("01")
    assert second is not first
    assert (first.X, second.X) == (1, 2)
    assert inspect.getsource(second.f) == "def f():\n    return 5\n"
    assert sys.modules["lmbook_chapter_01_lesson"] is second


def test_a_run_cell_changed_in_place_keeps_the_module(book):
    book("01_lesson", "X = 1\nprint(1)")
    first = chapters.load("01")
    book("01_lesson", "X = 1\nprint(2)")
    assert chapters.load("01") is first


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("X = 1 / 0", ZeroDivisionError),
        ("X = undefined", NameError),
        ("import no_such_module_of_ours", ModuleNotFoundError),
        ("X = exit()", SystemExit),
        ("import sys\nX = sys.modules.pop(__name__)\nY = 1 / 0", ZeroDivisionError),
    ],
)
def test_a_failing_notebook_leaves_no_half_module(book, source, error):
    book("01_lesson", f"A = 1\n\n{source}")
    for _ in range(2):
        with pytest.raises(error):
            chapters.load("01")
        assert "lmbook_chapter_01_lesson" not in sys.modules
    book("01_lesson", "A = 1")
    assert chapters.load("01").A == 1
    book("01_lesson", f"A = 2\n{source}")
    with pytest.raises(error):
        chapters.load("01")
    assert "lmbook_chapter_01_lesson" not in sys.modules


def test_another_notebook_of_the_chapter(book, tmp_path):
    book("01_lesson", "X = 1")
    mine = save(tmp_path / "desk" / "01_lesson.ipynb", notebook(("a", "X = 5")))
    assert chapters.load("01", mine).X == 5
    assert chapters.load("01").X == 1


# Finding chapters


def test_chapters_in_reading_order(book):
    for name in ("02_b", "10_c", "01_a", "notes", "03-d"):
        book(name, "X = 1")
    assert [p.name for p in chapters.every()] == [
        "01_a.ipynb",
        "02_b.ipynb",
        "10_c.ipynb",
    ]
    assert chapters.path("10").name == "10_c.ipynb"


@pytest.mark.parametrize("wrong", ["03", "1", "", "*", "0?", "[0-9]1", "01_a", "../01"])
def test_unknown_chapter_lists_the_legal_ones(book, wrong):
    book("01_a", "X = 1")
    book("02_b", "X = 1")
    for find in (chapters.path, chapters.load):
        with pytest.raises(FileNotFoundError) as caught:
            find(wrong)
        assert str(caught.value) == (
            f"章 {wrong!r} がありません。指定できる章は 01・02 です。"
        )


def test_no_notebooks_at_all(monkeypatch, tmp_path):
    monkeypatch.setattr(chapters, "NOTEBOOKS", tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"nowhere が見つかりません.*make book"):
        chapters.path("01")


@pytest.mark.parametrize("folder", ["", "a", "src", "notebooks"])
def test_any_start_folder_works(folder, tmp_path):
    """C42: also where another ``src`` and ``notebooks`` lie about."""
    for name in ("src", "notebooks", "a"):
        (tmp_path / name).mkdir()
    (tmp_path / "notebooks" / "01_other.ipynb").write_text("{}", encoding="utf-8")
    script = "from lmbook import chapters; print(chapters.path('01'))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.strip() == str(chapters.path("01"))


# The reader's answer or the book's


@pytest.fixture
def exercise(book, monkeypatch):
    """A chapter 91 with an exercise ``double``, its check, and the reference."""
    book(
        "91_lesson",
        "def double(x):\n    return 2 * x",
        "def triple_ex(x):\n    return 3 * x\n\n\nanswer_ex = 42",
    )

    def doubles(answer):
        if answer(4) != 8:
            raise Mistake("value", "ちがいます。")

    def triples(answer):
        if answer(4) != 12:
            raise Mistake("value", "ちがいます。")

    module = SimpleNamespace(
        double=lambda answer: check("演習1", answer, doubles),
        triple=lambda answer: check("演習2", answer, triples),
        answer=lambda answer: check("演習3", answer, value(42, form="整数")),
    )
    monkeypatch.setitem(sys.modules, "lmbook.checks.ch91", module)
    return module


def stub(x):
    raise NotImplementedError


def test_solved_takes_a_right_answer(exercise):
    def mine(x):
        return x + x

    assert chapters.solved("91", "double", mine) is mine
    assert chapters.solved("91", "answer_ex", 42) == 42


@pytest.mark.parametrize(
    "wrong", [None, stub, lambda x: x, lambda: 1, 3, lambda x: exit()]
)
def test_solved_falls_back_on_the_book(exercise, wrong):
    assert chapters.solved("91", "double", wrong)(10) == 20
    assert chapters.solved("91", "triple_ex", wrong)(10) == 30
    assert chapters.solved("91", "answer_ex", wrong) == 42


def test_solved_asks_the_check_of_that_name(exercise):
    asked = []
    exercise.double = lambda answer: asked.append(answer) or Result("演習1", "ok", "")
    assert chapters.solved("91", "double", "anything") == "anything"
    assert asked == ["anything"]
    with pytest.raises(AttributeError, match="missing"):
        chapters.solved("91", "missing", 1)


def test_committed_chapters_load():
    for file in chapters.every():
        module = chapters.load(file.name[:2])
        assert module.__dict__["__text__"] == chapters.source(file)
        names = [n for n in vars(module) if not n.startswith("__")]
        functions = [n for n in names if inspect.isfunction(getattr(module, n))]
        own = [f for f in functions if getattr(module, f).__module__ == module.__name__]
        assert own
        for name in own:
            shown = inspect.getsource(getattr(module, name))
            assert f"def {name}(" in textwrap.dedent(shown) or "lambda" in shown
