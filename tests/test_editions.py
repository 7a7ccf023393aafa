"""Student and teacher editions: what is cut, what is kept, what is refused."""

from typing import Any

import pytest
from helpers import cell, markdown, notebook, quick_run
from nbformat.v4 import new_output, new_raw_cell

from lmbook import chapters
from lmbook.press import run
from lmbook.press.editions import EditionError, check, cut, split

INSIDE = '''def double_ex(x):
    """二倍。"""
    # BEGIN SOLUTION
    y = x + x
    return y
    # END SOLUTION


def other(x):
    return x'''

WHOLE = '''# BEGIN SOLUTION
@staticmethod
def f_ex(
    x,
    y=(1, 2),
):
    """説明。"""
    secret = 1
    return secret


def g_ex(x): return x + 1


def h_ex(x):

    # why it works
    @staticmethod
    def inner():
        return 3
    return inner()
# END SOLUTION
after = 1'''

STUBS = '''@staticmethod
def f_ex(
    x,
    y=(1, 2),
):
    """説明。"""
    raise NotImplementedError


def g_ex(x):
    raise NotImplementedError


def h_ex(x):
    raise NotImplementedError
after = 1'''


def chapter() -> Any:
    made = notebook(
        markdown("task", "演習です。", "exercise", "points-2", "minutes-5"),
        ("double", INSIDE),
        (
            "values",
            "# BEGIN SOLUTION\na_ex = {4}\nb_ex: int = 2\n# END SOLUTION\nc = 3",
        ),
        ("show", "c"),
        markdown("reason", "わけです。", "answer", "lines-4"),
        markdown("timing", "10 分です。", "teacher"),
        markdown("hint", "ヒントです。", "student"),
        ("fold", "1", ["hide-input"]),
        ("record", "2", ["remove-cell"]),
    )
    for number, name in enumerate(("double", "values", "show", "fold", "record"), 1):
        found = cell(made, name)
        found.execution_count = number
        result = new_output("execute_result", {"text/plain": "4"})
        result.execution_count = number
        found.outputs = [result]
    return made


def test_a_student_receives_stubs() -> None:
    done = split(chapter(), "student")
    assert [c.id for c in done.cells] == [
        *("task", "double", "values", "show", "reason", "hint", "fold", "record")
    ]
    double, values = cell(done, "double"), cell(done, "values")
    assert double.source == INSIDE.replace(
        "    # BEGIN SOLUTION\n    y = x + x\n    return y\n    # END SOLUTION",
        "    raise NotImplementedError",
    )
    assert values.source == "a_ex = None\nb_ex = None\nc = 3"
    assert double.outputs == values.outputs == []
    assert cell(done, "reason").source == ""
    assert cell(done, "reason").metadata["tags"] == ["answer", "lines-4"]


def test_a_student_keeps_other_outputs_without_counts() -> None:
    show = cell(split(chapter(), "student"), "show")
    assert show.outputs[0].data["text/plain"] == "4"
    assert show.execution_count is None
    assert show.outputs[0].execution_count is None


def test_set_up_cells_are_folded_for_a_student() -> None:
    done = split(chapter(), "student")
    assert cell(done, "fold").metadata["jupyter"] == {"source_hidden": True}
    assert cell(done, "record").metadata["jupyter"] == {"source_hidden": True}
    assert "jupyter" not in cell(done, "show").metadata


def test_a_teacher_receives_answers_and_outputs() -> None:
    original = chapter()
    done = split(original, "teacher")
    assert list(done.cells) == [c for c in original.cells if c.id != "hint"]


def test_no_answer_is_left_anywhere() -> None:
    text = str(split(chapter(), "student"))
    for answer in ("x + x", "{4}", "わけです", "10 分です"):
        assert answer not in text


def test_the_original_is_not_touched() -> None:
    original = chapter()
    split(original, "student")
    assert original == chapter()


def test_whole_functions_keep_head_and_docstring() -> None:
    assert cut(WHOLE, "here") == STUBS
    compile(STUBS, "stubs", "exec")


def test_tuples_and_loops_at_the_top() -> None:
    source = "# BEGIN SOLUTION\na_ex, (b_ex, c_ex) = f()\nfor i in x:\n    pass\n"
    stub = cut(source + "# END SOLUTION", "here")
    assert stub == "a_ex = None\nb_ex = None\nc_ex = None"


def test_two_regions_in_one_cell() -> None:
    region = "# BEGIN SOLUTION\n{}_ex = 1\n# END SOLUTION\n"
    assert cut(region.format("a") + region.format("b"), "here") == (
        "a_ex = None\nb_ex = None\n"
    )


def test_a_stub_runs_and_raises_only_when_called(tmp_path: Any) -> None:
    made = chapter()
    cell(
        made, "record"
    ).source = (
        "try:\n    double_ex(1)\nexcept NotImplementedError:\n    print('未完成')"
    )
    done = run.execute(split(made, "student"), tmp_path)
    assert cell(done, "record").outputs[0].text == "未完成\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("# BEGIN SOLUTION\nx_ex = 1", "without # END"),
        ("x = 1\n# END SOLUTION", "without # BEGIN"),
        ("# BEGIN SOLUTION\n# BEGIN SOLUTION\nx=1\n# END SOLUTION", "inside a sol"),
        ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION", "exactly"),
        ("# BEGIN SOLUTION\nprint(1)\n# END SOLUTION", "no name and has no def"),
        ("# BEGIN SOLUTION\nx_ex = (\n# END SOLUTION", "not Python"),
        ("# BEGIN SOLUTION\nclass A_ex:\n    x = 1\n# END SOLUTION", "methods"),
    ],
)
def test_markers_are_refused_by_chapter_and_cell(source: str, message: str) -> None:
    made = notebook(("good", "1"), ("bad", source))
    for edition in ("student", "teacher"):
        with pytest.raises(EditionError, match=f"01_x.ipynb, cell bad: .*{message}"):
            split(made, edition, "01_x.ipynb")


def tagged(kind: str, *tags: str) -> Any:
    if kind == "markdown":
        return markdown("bad", "文です。", *tags)
    return ("bad", "1", list(tags))


@pytest.mark.parametrize(
    "bad",
    [
        *(tagged("code", "raises-exception"), tagged("code", "answer")),
        *(tagged("markdown", "lines-0"), tagged("markdown", "lines")),
        *(tagged("code", "nbval-skip"), tagged("code", "injected-parameters")),
        *(tagged("markdown", "teacher", "student"), tagged("markdown", "Exercise")),
    ],
)
def test_tags_are_refused(bad: Any) -> None:
    with pytest.raises(EditionError, match=r"01_x.ipynb, cell bad: "):
        check(notebook(bad), "01_x.ipynb")


def test_raw_cells_are_refused() -> None:
    with pytest.raises(EditionError, match=r"x, cell bad: no edition shows a raw cell"):
        split(notebook(new_raw_cell("<b>x</b>", id="bad")), "student", "x")


def test_markers_in_markdown() -> None:
    with pytest.raises(EditionError, match="outside a code cell"):
        check(notebook(markdown("bad", "# BEGIN SOLUTION\n文です。")), "x")
    check(notebook(markdown("fine", "`# BEGIN SOLUTION` の下に書きます。")), "x")


def test_another_edition_is_refused() -> None:
    with pytest.raises(ValueError, match="not 'web'"):
        split(chapter(), "web")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", chapters.every(), ids=lambda p: p.stem)
def test_a_student_can_run_all(path: Any) -> None:
    def cut_answers(content: Any) -> None:
        content.cells = split(content, "student", path.name).cells

    done = quick_run(path, cut_answers)  # raises for the first cell with an error
    assert "未完成" in str(done)
    assert "# BEGIN SOLUTION\n" not in "".join(c.source for c in done.cells)
    streams = [o for c in done.cells for o in c.get("outputs", []) if "name" in o]
    assert {o.name for o in streams} == {"stdout"}
