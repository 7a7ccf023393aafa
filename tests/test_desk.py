"""The reader's copies, and where they leave the book."""

import copy
import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from helpers import cell, markdown, notebook, quick_run, save
from nbformat.v4 import new_code_cell

from lmbook import chapters
from lmbook.press import (
    cli,
    commands,
    compare,
    desk,
    diff,
    doctor,
    editions,
    run,
    suite,
)
from lmbook.press.doctor import Fault

CHAPTERS = [pytest.param(p, id=p.stem) for p in chapters.every()]
SOLVED = "# BEGIN SOLUTION\ntwice_ex = 4\n# END SOLUTION"
CHECK = "from lmbook.checks import Result\n"
CHECK += "r1 = Result('演習1', 'ok' if twice_ex == 4 else 'value', 'です。')\nr1"


def silent(text: str) -> None:
    """Progress that nobody reads."""


@functools.cache
def small() -> Any:
    """A committed chapter with an exercise, a text and two parameters."""
    made = notebook(
        markdown("title", "# 第1章 小さな本"),
        ("parameters", "n = 2\nquick = False", ["parameters"]),
        ("def", "def half(x):\n    return x / 2"),
        ("shown", "print('n =', n, 'half =', half(n) + 0.25)"),
        ("answer", SOLVED),
        ("check", CHECK),
        ("progress", "print(r1.ok)"),
        ("last", "print('end', n)"),
        ("record", "print('{}')", ["remove-cell"]),
    )
    return compare.clean(run.execute(made, Path.cwd()))


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """That chapter as a file of its own."""
    return save(tmp_path / "本 の 棚" / "01_small.ipynb", small())


def found(book: Path, change: Any = None, **how: Any) -> diff.Finding:
    """What `diff` says of a copy of ``book`` after ``change``."""
    folder = book.parent / "desk"
    desk.lay_out([book], folder)
    copy = folder / book.name
    if change:
        content = run.read(copy)
        change(content)
        save_raw(copy, content)
    return diff.diff(book, copy, say=silent, **how)


def save_raw(path: Path, content: Any) -> None:
    path.write_text(compare.text_of(content), encoding="utf-8")


def edited(name: str, source: str) -> Any:
    def change(content: Any) -> None:
        cell(content, name).source = source

    return change


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is the book's, wherever the tests run."""
    monkeypatch.setattr(doctor, "examine", list)
    monkeypatch.setattr(suite, "exact_platform", lambda: True)


# Copies


@pytest.mark.parametrize("path", CHAPTERS)
def test_a_copy_has_no_answer_and_no_output(path: Path) -> None:
    made = desk.student_copy(path)
    text = compare.text_of(made)
    assert "SOLUTION" not in "".join(c.source for c in made.cells if "outputs" in c)
    assert not any(c.get("outputs") for c in made.cells)
    assert made.cells[1].id == desk.GUIDE_ID
    assert "Shift" in made.cells[1].source
    assert made.metadata.kernelspec == compare.KERNELSPEC
    assert str(chapters.ROOT) not in text
    hidden = [c for c in made.cells if "remove-cell" in c.metadata.get("tags", [])]
    assert all(c.metadata["jupyter"]["source_hidden"] for c in hidden)


def test_copies_are_made_once(book: Path) -> None:
    folder = book.parent / "desk"
    assert desk.lay_out([book], folder) == [folder / book.name]
    (folder / book.name).write_text("mine", encoding="utf-8")
    assert desk.lay_out([book], folder) == []
    assert (folder / book.name).read_text(encoding="utf-8") == "mine"


def test_reset_keeps_every_old_copy(book: Path) -> None:
    folder = book.parent / "desk"
    assert desk.reset(book, folder) is None
    fresh = (folder / book.name).read_bytes()
    for text in ("one", "two"):
        (folder / book.name).write_text(text, encoding="utf-8")
        desk.reset(book, folder)
        assert (folder / book.name).read_bytes() == fresh
    kept = {p.name: p.read_text(encoding="utf-8") for p in (folder / "old").iterdir()}
    assert kept == {"01_small-1.ipynb": "one", "01_small-2.ipynb": "two"}


# Differences


def test_an_untouched_copy_does_not_leave_the_book(book: Path) -> None:
    made = found(book)
    assert made.cell is None, made
    assert (made.compared, made.solved, made.exercises) == (5, 0, 1)
    assert "no output leaves the book" in str(made)
    assert found(book) == made


@pytest.mark.parametrize(
    ("answer", "solved"), [("twice_ex = 4", 1), ("twice_ex = 5", 0), ("1 / 0", 0)]
)
def test_answers_are_no_differences(book: Path, answer: str, solved: int) -> None:
    made = found(book, edited("answer", answer))
    assert (made.cell, made.solved) == (None, solved)


@pytest.mark.parametrize(
    ("name", "source", "cell_", "how", "cause"),
    [
        ("parameters", "n = 3\nquick = False", "shown", "at most 1;", "an earlier"),
        ("shown", "print('n =', n)", "shown", "line 1", "this cell"),
        (
            "def",
            "def half(x):\n    return x / 4",
            "shown",
            "at most 0.5;",
            "an earlier",
        ),
        ("def", "def half(x:\n    return", "def", "number, order or kind", "this cell"),
        ("last", "1 / 0", "last", "ZeroDivisionError", "this cell"),
        ("answer", "twice_ex = 4\nn = 9", "last", "at most 7;", "an earlier"),
    ],
)
def test_edits_are_found(
    book: Path, name: str, source: str, cell_: str, how: str, cause: str
) -> None:
    made = found(book, edited(name, source))
    assert str(made.cell).startswith(f"{cell_} (code cell ")
    assert how in made.how
    assert made.cause == f"{cause} cell was edited".replace(
        "this cell cell", "this cell"
    )
    assert f"cell {name} was" in made.why


def test_the_edit_is_shown(book: Path) -> None:
    made = found(book, edited("parameters", "n = 3\nquick = False"))
    assert "-n = 2\n+n = 3" in made.why
    assert "lmbook reset 01" in str(made)
    assert "cell last" not in made.why


def test_a_harmless_edit_is_no_difference(book: Path) -> None:
    assert found(book, edited("def", "def half(x):\n    return 0.5 * x")).cell is None


def test_deleted_added_and_moved_cells(book: Path) -> None:
    def delete(content: Any) -> None:
        content.cells = [c for c in content.cells if c.id != "shown"]

    def add(content: Any) -> None:
        content.cells.insert(3, new_code_cell("n = 5", id="mine"))

    def move(content: Any) -> None:
        content.cells.insert(2, content.cells.pop(4))

    for change, cell_, what in (
        (delete, "shown (deleted)", "cell shown was deleted"),
        (add, "shown (code cell 4", "cell mine was added"),
        (move, "shown (code cell 1", "cell shown was moved"),
    ):
        made = found(book, change)
        assert str(made.cell).startswith(cell_), change
        assert what in made.why, made
        desk.reset(book, book.parent / "desk")


def test_another_environment_is_the_cause(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = run.read(book)
    cell(content, "shown").outputs[0].text = "n = 2 half = 1.26\n"
    save(book, content)
    monkeypatch.setattr(doctor, "examine", lambda: [Fault("torch is 1.", "install it")])
    monkeypatch.setattr(suite, "exact_platform", lambda: False)
    made = found(book)
    assert made.cause == "the environment differs"
    assert suite.INEXACT in made.why
    assert "torch is 1.\n  remedy: install it" in made.why


@pytest.mark.parametrize(
    ("theirs", "cause"),
    [
        ("n = 2 half = 1.26\n", "the numbers differ by at most 0.01"),
        ("n = 2 halb = 1.25\n", "the outputs differ, not in numbers alone"),
    ],
)
def test_numbers_alone(book: Path, theirs: str, cause: str, well: None) -> None:
    content = run.read(book)
    cell(content, "shown").outputs[0].text = theirs
    save(book, content)
    made = found(book)
    assert made.cause == cause
    assert str(made.cell).startswith("shown")


def test_a_kernel_that_dies_or_never_ends(book: Path) -> None:
    """C36."""
    made = found(book, edited("last", "import os\nos._exit(1)"))
    assert str(made.cell).startswith("last")
    assert "the kernel dies here" in made.how
    made = found(book, edited("last", "while True:\n    pass"), cell_seconds=2)
    assert str(made.cell).startswith("last")
    assert "it does not end within 2 s" in made.how


def test_a_strange_kernel_name_does_not_matter(book: Path) -> None:
    """C35."""

    def rename(content: Any) -> None:
        content.metadata.kernelspec = {"name": "conda-env-llm-py", "display_name": "x"}

    assert found(book, rename).cell is None


def test_what_hangs_on_an_exercise() -> None:
    made = notebook(
        ("answer", "def f_ex(x):\n    # BEGIN SOLUTION\n    y = x\n    # END SOLUTION"),
        ("check", "r = check(f_ex)"),
        ("progress", "progress(globals(), 1)"),
        ("solved", "f = chapters.solved('01', 'f_ex', f_ex)"),
        ("free", "f(1)"),
        ("y", "y = 1; y"),
        ("again", "r = [1]"),
        ("after", "r"),
    )
    assert diff.exercise_cells(made) == {"answer", "check", "progress"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a = [b for b in c]", {"a"}),
        ("import os.path, sys as s\nfrom x import y as z", {"os", "s", "z"}),
        ("for i in x:\n    j = 1\nwith o as w:\n    pass", {"i", "j", "w"}),
        ("def f(a):\n    b = 1\nclass C:\n    d = 1", {"f", "C"}),
        ("not python", set()),
    ],
)
def test_bound_names(source: str, names: set[str]) -> None:
    assert diff.bound(source) == names


def exercises(path: Path) -> int:
    cells = run.read(path).cells
    return sum("exercise" in editions.tags(c) for c in cells)


@pytest.mark.slow
@pytest.mark.parametrize("path", CHAPTERS)
def test_the_untouched_copy_of_each_chapter_is_the_book(path: Path) -> None:
    """Unsolved exercises are no differences."""

    def cut(content: Any) -> None:
        content.cells = editions.split(content, "student", path.name).cells

    made = diff.judge(path, quick_run(path, cut), book=quick_run(path))
    assert made.cell is None, made
    assert (made.solved, made.exercises) == (0, exercises(path))


@pytest.mark.parametrize("path", CHAPTERS)
def test_each_chapter_shows_progress_and_has_a_slider(path: Path) -> None:
    codes = [c for c in run.read(path).cells if c.cell_type == "code"]
    count, hanging = exercises(path), diff.exercise_cells(run.read(path))
    found = [c for c in codes if c.id in hanging]
    assert len(found) == 2 * count + 1  # an answer and a check each, the progress
    lines = found[-1].outputs[0].text.splitlines()
    assert lines == [
        *(f"✓ 演習{n}: できた" for n in range(1, count + 1)),
        f"{count} 問のうち {count} 問",
    ]
    assert any(re.search(r"^interact\(", c.source, re.M) for c in codes)


@pytest.mark.slow
@pytest.mark.parametrize("path", CHAPTERS)
def test_every_cell_can_be_run_twice(path: Path) -> None:
    """C41: each cell once more right after itself; the definitions stay the same."""

    def again(content: Any) -> None:
        doubled = []
        for c in content.cells:
            doubled.append(c)
            if c.cell_type == "code" and "parameters" not in editions.tags(c):
                doubled.append({**copy.deepcopy(c), "id": f"again-{c.id}"[:64]})
        content.cells = list(map(nbformat.from_dict, doubled))

    done = quick_run(path, again, seconds=300)  # raises for the first error
    assert len(done.cells) > len(run.read(path).cells) * 1.3


# Commands


def test_readme_names_every_command_without_make() -> None:
    """C44: who has no make finds each target as a plain command."""
    makefile = (chapters.ROOT / "Makefile").read_text(encoding="utf-8")
    phony = " ".join(re.findall(r"^\.PHONY: (\w.*)", makefile, re.M)).split()
    readme = (chapters.ROOT / "README.md").read_text(encoding="utf-8")
    plain = readme.partition("## Without make")[2].partition("\n## ")[0]
    missing = {name for name in phony if not re.search(rf"\b{name}\b", plain)}
    assert missing <= {"clean"}
    assert set(phony) - {"clean"} <= set(commands.COMMANDS)


def test_environment_yml_has_one_source_for_each_part() -> None:
    """C43: no torch of conda's, no build of one system, the same lock as pip."""
    text = (chapters.ROOT / "environment.yml").read_text(encoding="utf-8")
    lines = [x.strip("- ").strip() for x in text.splitlines() if "#" not in x]
    assert not [x for x in lines if re.search(r"torch|defaults|=.*=", x)]
    assert "-c requirements.lock" in text
    assert "-e .[press,test]" in text


def test_commands_work_from_a_foreign_folder(tmp_path: Path) -> None:
    """C42: the package is found, not a folder called src."""
    foreign = tmp_path / "よその 場所"
    foreign.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "lmbook.press.cli", "reset", "99"],
        cwd=foreign,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("lmbook: no chapter '99'; there are 01")
    assert list(foreign.iterdir()) == []


def test_a_chapter_sees_no_module_of_the_start_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C42: a random.py where the command was given is none of ours; nor is a folder
    that is gone."""
    path = save(tmp_path / "book" / "01_x.ipynb", notebook(("a", "import random")))
    start = tmp_path / "start"
    start.mkdir()
    (start / "random.py").write_text("raise SystemExit('mine')", encoding="utf-8")
    monkeypatch.chdir(start)
    (result,) = run.run([path], tmp_path / "out", say=silent)
    assert result.error is None
    shutil.rmtree(start)
    (result,) = run.run([path], tmp_path / "out", say=silent)
    assert result.error is None


def test_the_commands(
    book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lmbook.press import lab

    folder = book.parent / "my desk"
    monkeypatch.setattr(chapters, "NOTEBOOKS", book.parent)
    monkeypatch.setattr(desk, "DESK", folder)
    served: list[Any] = []
    monkeypatch.setattr(lab, "serve", lambda where, **how: served.append((where, how)))
    assert cli.main(["diff"]) == 2
    assert "`lmbook lab` makes them" in capsys.readouterr().err
    assert cli.main(["diff", "01"]) == 1
    assert cli.main(["lab", "--port", "9", "--no-browser"]) == 0
    assert served == [(folder, {"full": False, "port": 9, "browser": False})]
    assert f"new copy: {folder / book.name}" in capsys.readouterr().out
    assert cli.main(["lab", "--full"]) == 0
    assert served[1] == (book.parent, {"full": True, "port": 8888, "browser": True})
    assert "new copy" not in capsys.readouterr().out
    assert cli.main(["diff"]) == 0
    assert "no output leaves the book" in capsys.readouterr().out
    save_raw(folder / book.name, json_changed(folder / book.name))
    assert cli.main(["diff"]) == 1
    assert "this cell was edited" in capsys.readouterr().out
    assert cli.main(["reset", "01"]) == 0
    assert str(folder / "old" / "01_small-1.ipynb") in capsys.readouterr().out
    assert cli.main(["reset", "07"]) == 2


def json_changed(path: Path) -> Any:
    content = run.read(path)
    cell(content, "last").source = "print('END')"
    assert json.loads(compare.text_of(content))
    return content


def test_ctrl_c_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "examine", interrupted)
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err.strip() == (
        "lmbook: interrupted; what was finished is kept"
    )


def test_a_kernel_needs_no_folder_that_was_there(
    book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that never had Jupyter; and a kernel that does not start."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "new" / "runtime"))
    assert found(book).cell is None
    monkeypatch.setattr(run.sys, "executable", "/bin/false")
    with pytest.raises(run.CellError, match="Kernel died before replying"):
        found(book)
