"""Committed chapters keep the house's rules; and each rule can be broken."""

import copy
from collections.abc import Callable
from typing import Any

import hygiene
import nbformat
import pytest
from helpers import cell, markdown, notebook
from nbformat.v4 import new_output

from lmbook import chapters
from lmbook.press import run

CHAPTERS = chapters.every()


@pytest.mark.skipif(bool(CHAPTERS), reason="there are chapters")
def test_there_are_chapters() -> None:
    pytest.skip("NO CHAPTER IN notebooks/: hygiene was not looked at")


@pytest.mark.parametrize("check", hygiene.CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_chapter(path: Any, check: Callable[[Any], list[str]]) -> None:
    faults = check(run.read(path))
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_chapter_is_written_as_accept_writes_it(path: Any) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == hygiene.compare.text_of(hygiene.compare.clean(run.read(path)))


@pytest.mark.parametrize("path", [p for p in CHAPTERS if p.stem.startswith("03")])
def test_chapter_3_adds_in_loops(path: Any) -> None:
    assert hygiene.sums(run.read(path)) == []


def good() -> Any:
    """The smallest chapter that keeps every rule."""
    heads = [f"### {name}" for name in hygiene.FRAME]
    made = notebook(
        markdown(
            "title", "# 第1章 題\n\nこれは例です。**標本。** 「ここは自由。」です。"
        ),
        markdown("one", "## 第1時 はじめ\n\n" + "\n\n".join(heads[:5])),
        ("def", 'SIZE = 2\n\n\ndef f(x):\n    """二倍。"""\n    return SIZE * x'),
        ("run", "print(f(0.25))"),
        markdown("formula", r"$$\begin{aligned}a &= b \quad & c &= d\end{aligned}$$"),
        markdown("note", "値は 0.5 です。なぜでしょうか。それは何か。\n\n- 箇条書き"),
        markdown("two", "## 第2時 つぎ\n\n" + "\n\n".join(heads[5:])),
        ("draw", "show()"),
    )
    for number, found in enumerate(hygiene.code(made), 1):
        found.execution_count = number
    cell(made, "run").outputs = [new_output("stream", name="stdout", text="0.5\n")]
    picture = {"image/png": "AAAA", "text/plain": "折れ線"}
    alt = {"image/png": {"alt": "図の説明です。"}}
    cell(made, "draw").outputs = [new_output("display_data", picture, metadata=alt)]
    return made


@pytest.mark.parametrize(
    "check", [*hygiene.CHECKS, hygiene.sums], ids=lambda c: c.__name__
)
def test_a_good_chapter_passes(check: Callable[[Any], list[str]]) -> None:
    assert check(good()) == []


def said(text: str) -> Callable[[Any], None]:
    """A spoiler: one more Markdown cell at the end of the first lesson."""
    return lambda made: made.cells.insert(4, markdown("bad", text))


def source(text: str) -> Callable[[Any], None]:
    """A spoiler: another source of the cell that runs."""
    return lambda made: cell(made, "run").update(source=text)


def output(**what: Any) -> Callable[[Any], None]:
    """A spoiler: one more output of the cell that runs."""
    return lambda made: cell(made, "run").outputs.append(nbformat.from_dict(what))


def drop_alt(made: Any) -> None:
    cell(made, "draw").outputs[0].metadata = nbformat.from_dict({})


def drop_description(made: Any) -> None:
    del cell(made, "draw").outputs[0].data["text/plain"]


def drop_output(made: Any) -> None:
    cell(made, "run").outputs = []


def old_format(made: Any) -> None:
    made.nbformat_minor = 4


def same_id(made: Any) -> None:
    made.cells[0].id = made.cells[1].id


def private_kernel(made: Any) -> None:
    made.metadata.kernelspec.name = "mine"


def folded(made: Any) -> None:
    cell(made, "run").metadata["collapsed"] = True


def unknown_tag(made: Any) -> None:
    cell(made, "run").metadata["tags"] = ["raises-exception"]


def huge(made: Any) -> None:
    cell(made, "draw").outputs[0].data["image/png"] = "A" * 1_600_000


def lesson_number(made: Any) -> None:
    cell(made, "two").source = cell(made, "two").source.replace("第2時", "第3時")


def frame_order(made: Any) -> None:
    found = cell(made, "two")
    found.source = found.source.replace("まとめ", "仮").replace("演習", "まとめ")


def frame_twice(made: Any) -> None:
    cell(made, "two").source += "\n\n### 演習"


def second_title(made: Any) -> None:
    cell(made, "two").source += "\n\n# もう一つ"


LONG = "def g():\n" + "    print(1)\n" * 25
BAD = [
    (hygiene.ids, old_format),
    (hygiene.ids, same_id),
    (hygiene.metadata, private_kernel),
    (hygiene.metadata, folded),
    (hygiene.size, huge),
    (hygiene.tags, unknown_tag),
    (hygiene.tags, source("# BEGIN SOLUTION\nx_ex = 1")),
    (hygiene.counts, lambda made: cell(made, "run").update(execution_count=None)),
    (hygiene.counts, lambda made: cell(made, "run").update(execution_count=5)),
    (hygiene.outputs_present, drop_output),
    (
        hygiene.outputs_good,
        output(output_type="error", ename="E", evalue="e", traceback=[]),
    ),
    (hygiene.outputs_good, output(output_type="stream", name="stderr", text="w")),
    (hygiene.outputs_good, output(output_type="stream", name="stdout", text="ある ✗")),
    (
        hygiene.outputs_good,
        output(output_type="display_data", data={"image/svg+xml": ""}, metadata={}),
    ),
    (
        hygiene.machine_free,
        output(output_type="stream", name="stdout", text="<f at 0x7f00aa00>"),
    ),
    (hygiene.machine_free, output(output_type="stream", name="stdout", text="/tmp/x")),
    (hygiene.machine_free, said("`/home/someone` です。".replace("someone", "a/b"))),
    (hygiene.machine_free, source("# NBVAL_IGNORE_OUTPUT\nprint(1)")),
    (hygiene.alternative_texts, drop_alt),
    (hygiene.alternative_texts, drop_description),
    (hygiene.cell_size, source("\n".join(["print(1)"] * 16))),
    (hygiene.cell_size, source(f'print("{"長" * 45}")')),
    (hygiene.cell_size, source(LONG)),
    (hygiene.unique_names, source("SIZE = 3")),
    (hygiene.unique_names, source("def f(y):\n    return y")),
    (hygiene.free_definitions, source("late = 1\n\n\ndef g():\n    return late")),
    (hygiene.sums, source("print(sum([0.1]))")),
    (hygiene.sums, source("import math\nprint(math.fsum([0.1]))")),
    (hygiene.frame, lesson_number),
    (hygiene.frame, frame_order),
    (hygiene.frame, frame_twice),
    (hygiene.frame, second_title),
    (hygiene.markdown_rules, said("<b>太字</b>です。")),
    (hygiene.markdown_rules, said(r"$a\!b$ です。")),
    (hygiene.markdown_rules, said(r"$a\;b$ です。")),
    (hygiene.markdown_rules, said("$$a \\tag{1}$$")),
    (
        hygiene.markdown_rules,
        said(r"$$\begin{aligned}a &= b & c &= d\end{aligned}$$"),
    ),
    (hygiene.markdown_rules, said("> | a | b |\n> | --- | --- |")),
    (hygiene.one_line_paragraphs, said("一行めです。\n二行めです。")),
    (hygiene.polite, said("これは例だ。")),
    (hygiene.polite, said("文です。「引用です。」と書いてある。つぎです。")),
    (hygiene.numbers, said("値は 0.75 です。")),
    (hygiene.numbers, said("| 値 |\n| --- |\n| 0.52 |")),
]


@pytest.mark.parametrize(("check", "spoil"), BAD)
def test_a_bad_chapter_is_refused(
    check: Callable[[Any], list[str]], spoil: Callable[[Any], None]
) -> None:
    made = copy.deepcopy(good())
    spoil(made)
    assert check(made)


def test_every_check_has_a_bad_example() -> None:
    assert {*hygiene.CHECKS, hygiene.sums} == {check for check, _ in BAD}
