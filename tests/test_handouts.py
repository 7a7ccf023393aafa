"""Handouts: editions on paper, the PDFs as a reader sees them, bad input, nbgrader."""

import base64
import hashlib
import io
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from helpers import cell, markdown, notebook, quick_run, save
from nbformat.v4 import new_output
from PIL import Image

import lmbook
from lmbook import chapters, repro
from lmbook.press import compare, editions, handouts, release, run, suite

CHAPTERS = chapters.every()
EDITIONS = list(handouts.EDITIONS)
#: A lesson fits about eight pages, its plan or the room to write included.
MOST_PAGES = 10


def poppler(*command, **how):
    """A program of poppler-utils; missing, it fails in the main CI job."""
    if not shutil.which(command[0]):
        if os.environ.get("CI") and suite.exact_platform():
            pytest.fail(f"{command[0]} (poppler-utils) is missing")
        pytest.skip("needs poppler-utils")
    done = subprocess.run(command, capture_output=True, check=True, **how)
    return done.stdout


def body(pdf):
    """The text between header and footer, page by page."""
    area = ["-x", "0", "-y", "60", "-W", "600", "-H", "732"]
    text = poppler("pdftotext", "-raw", *area, str(pdf), "-").decode("utf-8")
    return text.split("\f")[:-1]


def squeezed(text):
    """Less white space, and less the invisible breaks inside long words."""
    return re.sub(r"[\s\u200b]+", "", text)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of the handouts of every chapter."""
    folder = tmp_path_factory.mktemp("handouts")
    handouts.build(CHAPTERS, folder)
    return folder


@pytest.fixture(scope="module")
def texts(made):
    """The pages of each PDF, by chapter and edition."""
    return {
        (path, edition): body(made / f"{path.stem}_{edition}.pdf")
        for path in CHAPTERS
        for edition in EDITIONS
    }


each_pdf = pytest.mark.parametrize(
    ("path", "edition"),
    [(p, e) for p in CHAPTERS for e in EDITIONS],
    ids=lambda x: getattr(x, "stem", x),
)
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)


# The chapters as printed


def lesson_titles(path):
    source = "\n".join(c.source for c in run.read(path).cells)
    return re.findall(r"^## (.+)$", source, re.MULTILINE)


@each_pdf
def test_a4_with_bounded_lessons(made, texts, path, edition):
    file = str(made / f"{path.stem}_{edition}.pdf")
    info = poppler("pdfinfo", file).decode("utf-8")
    assert "(A4)" in info
    assert re.search(r"Tagged: +yes", info)
    pages = texts[path, edition]
    assert f"Pages:           {len(pages)}\n" in info
    lessons = lesson_titles(path)
    starts = [
        next(n for n, page in enumerate(pages) if squeezed(title) in squeezed(page))
        for title in lessons
    ]
    for start, title in list(zip(starts, lessons, strict=True))[1:]:
        head = squeezed(pages[start]).removeprefix("年組番氏名")
        assert head.startswith(squeezed(title))
    lengths = [b - a for a, b in zip(starts, [*starts[1:], len(pages)], strict=True)]
    assert max(lengths) <= MOST_PAGES, lengths


@each_pdf
def test_every_word_of_code_and_every_output_is_there(texts, path, edition):
    text = squeezed("".join(texts[path, edition]))
    page = editions.split(run.read(path), edition, path.name, "paper")
    for found in page.cells:
        if found.cell_type != "code":
            continue
        for line in found.source.split("\n"):
            assert squeezed(line) in text, (found.id, line)
        for output in found.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                continue
            shown = output.get("text", data.get("text/plain", ""))
            if "text/markdown" in data:  # the rule below the header is drawn
                rows = data["text/markdown"].replace("\\|", "|").split("\n")
                shown = "\n".join(r.strip("|").replace(" | ", " ") for r in rows[2:])
            for line in shown.split("\n"):
                assert squeezed(line) in text, (found.id, line)


@each_chapter
def test_no_answer_in_what_a_student_gets(made, texts, path):
    source = run.read(path)
    hidden = [a for c in source.cells for a in editions.answers(c)]
    plans = [c for c in source.cells if "teacher" in editions.tags(c)]
    assert len(hidden) >= 3
    printed = {e: squeezed("".join(texts[path, e])) for e in EDITIONS}
    given = squeezed((made / f"{path.stem}_student.ipynb").read_text("utf-8"))
    given = given.replace('\\n",""', "").replace('\\"', '"')
    for answer in hidden:
        assert answer not in printed["student"]
        assert answer not in given
    # The same search finds them where they belong (comments stand between lines).
    seen = [a for a in hidden if a in re.sub(r"#\[[^]]*\]", "", printed["teacher"])]
    assert len(seen) >= len(hidden) - 1
    for plan in plans:
        first = squeezed(re.sub(r"[*|-]", "", plan.source.split("\n")[0]))
        assert first in printed["teacher"]
        assert first not in printed["student"]
        assert first not in given


@each_chapter
def test_teachers_read_minutes_points_and_plans(texts, path):
    source = run.read(path)
    text = squeezed("".join(texts[path, "teacher"]))
    for found in source.cells:
        points = editions.number(found, "points")
        minutes = editions.number(found, "minutes")
        if points and minutes:
            assert f"演習{points}点・{minutes}分" in text
    plans = [c.source for c in source.cells if "teacher" in editions.tags(c)]
    for plan in (p for p in plans if "授業案" in p):
        assert "観点別" in plan
        assert "つまずき" in plan
        rows = re.findall(r"^\| (?!段階)[^|]+\| (\d+) 分 \| (\d+) 分 \|", plan, re.M)
        assert [sum(map(int, column)) for column in zip(*rows, strict=True)] == [50, 90]


@each_pdf
def test_no_colour_and_no_markup(made, texts, path, edition):
    file = str(made / f"{path.stem}_{edition}.pdf")
    stream = io.BytesIO(poppler("pdftoppm", "-r", "40", file))
    while header := stream.readline():
        assert header == b"P6\n"
        width, height = map(int, stream.readline().split())
        stream.readline()
        pixels = np.frombuffer(stream.read(3 * width * height), np.uint8)
        shades = pixels.reshape(-1, 3)
        assert (shades == shades[:, :1]).all()
        assert (shades < 128).any()  # no page is empty
    page = editions.split(run.read(path), edition, path.name, "paper")
    text = squeezed("".join(texts[path, edition]))
    for found in page.cells:
        if found.cell_type == "code":
            for line in found.source.split("\n"):
                text = text.replace(squeezed(line), "") if len(line) > 8 else text
    prose = "\n".join(c.source for c in page.cells if c.cell_type == "markdown")
    named = "".join(re.findall(r"`([^`\n]+)`", prose))  # as code in a sentence
    for markup in ("](#", ":::", "\\frac", "$", "##", "<b>", "|---", "NotoSans"):
        assert text.count(markup) == named.count(markup)


@each_pdf
def test_figures_and_formulas_speak(made, path, edition):
    """Alternative texts of figures and the TeX of formulas are in the PDF."""
    content = (made / f"{path.stem}_{edition}.pdf").read_bytes()
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.S)
    told = content + b"".join(map(inflated, streams))
    assert b"/Lang(ja-JP)" in told
    page = editions.split(run.read(path), edition, path.name, "paper")
    alts = [editions._alt(o) for c in page.cells for o in c.get("outputs", [])]
    assert any(alts)
    for alt in filter(None, alts):
        assert alt.encode("utf-16-be").hex().encode() in told.lower(), alt
    formulas = sum(c.source.count("$") // 2 for c in page.cells)
    assert told.count(b"/Alt") >= formulas // 2 > 0


def inflated(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


@each_chapter
def test_bytes_are_the_same_twice(made, path):
    again, pages = handouts.pdf(run.read(path), "student", path.name)
    assert again == (made / f"{path.stem}_student.pdf").read_bytes()
    assert pages == len(body(made / f"{path.stem}_student.pdf"))
    assert b"/tmp" not in again


# The notebooks that are given out


@each_chapter
def test_filled_in_student_notebook_passes_every_check(made, path):
    """Filled in, its code is the chapter's own; the chapter's checks show ✓."""
    given, source = run.read(made / f"{path.stem}_student.ipynb"), run.read(path)
    whole = {c.id: c.source for c in source.cells if editions.solutions(c)}
    assert whole
    filled = [whole.get(c.id, c.source) for c in given.cells if c.cell_type == "code"]
    assert filled[0] == editions.needs_lmbook().source
    assert filled[1:] == [c.source for c in source.cells if c.cell_type == "code"]
    done = quick_run(path)
    results = [c for c in done.cells if editions._check_result(c)]
    assert results
    for found in results:
        assert "✓" in str(found.outputs), found.id


AWAY = """
import sys
from IPython.core.interactiveshell import InteractiveShell
sys.modules["lmbook"] = None  # as if it were not installed
InteractiveShell.instance().run_cell(sys.argv[1])
"""


def test_away_from_home_it_says_in_one_sentence_what_it_needs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", AWAY, editions.needs_lmbook().source],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == ""
    (sentence,) = done.stdout.splitlines()
    assert sentence == (
        "このノートブックを動かすには、教材のフォルダで "
        "make book を実行したあとの環境（.venv）が必要です。"
    )


@each_chapter
def test_nbgrader_metadata_is_derived(made, path):
    source, given = run.read(path), run.read(made / "nbgrader" / path.name)
    graded = {
        c.metadata.nbgrader.grade_id: c for c in given.cells if "nbgrader" in c.metadata
    }
    assert all(c.id == name for name, c in graded.items())
    answers = [c for c in source.cells if editions.solutions(c)]
    tests = [c for c in graded.values() if c.source.startswith("assert ")]
    assert answers
    assert {c.id for c in answers} <= set(graded)
    points = [
        editions.number(c, "points") or 0
        for c in source.cells
        if "exercise" in editions.tags(c)
    ]
    assert [c.metadata.nbgrader.points for c in tests] == points
    for test in tests:
        meta = test.metadata.nbgrader
        assert (meta.grade, meta.locked, meta.solution) == (True, True, False)
        assert re.fullmatch(r"assert \w+\.ok", test.source)
    assert "teacher" not in {t for c in given.cells for t in editions.tags(c)}
    prose = [c.source for c in given.cells if c.cell_type != "code"]
    assert not any("BEGIN SOLUTION" in text for text in prose)


# Editions on paper and on the web


EXERCISE = (
    "def double_ex(x):\n    # BEGIN SOLUTION\n    y = x + x\n    return y\n"
    "    # END SOLUTION"
)


def lesson(*cells):
    """An executed notebook that begins as a chapter does."""
    made = notebook(markdown("title", "# 題\n\n## 第1時 はじめ"), *cells)
    code = [c for c in made.cells if c.cell_type == "code"]
    for count, found in enumerate(code, 1):
        found.execution_count = count
    return made


def printing(name, source, text):
    return lesson((name, source)), new_output("stream", name="stdout", text=text)


def small():
    made = lesson(
        markdown("task", "演習です。", "exercise", "points-2", "minutes-5"),
        ("double", EXERCISE),
        ("check", "r1 = ch01.double(double_ex)\nr1"),
        ("later", "double_2 = chapters.solved('01', 'double_ex', double_ex)\nprint(1)"),
        ("after", "print(double_2(2))"),
        ("progress", "print(r1)"),
        markdown("why", "足すからです。とても簡単です。", "answer", "lines-2"),
        markdown("plan", "授業案です。", "teacher"),
        ("fold", "print(5)", ["hide-input"]),
        ("record", "print(6)", ["remove-cell"]),
    )
    for found in made.cells:
        if found.cell_type == "code":
            found.outputs = [new_output("stream", name="stdout", text="出力\n")]
    return made


def test_a_student_s_paper():
    page = editions.split(small(), "student", "x", "paper")
    assert [c.id for c in page.cells] == [
        *("title", "task", "double", "check", "later", "after", "progress", "why"),
        "fold",
    ]
    task = {"box": "演習", "note": "2 点・5 分"}
    assert cell(page, "task").metadata == task
    assert cell(page, "double").metadata == {"lines": 3}
    assert cell(page, "why").metadata == {"box": "記入欄", "lines": 2}
    assert (cell(page, "why").source, cell(page, "fold").source) == ("", "")
    shown = [c.id for c in page.cells if c.get("outputs")]
    assert shown == ["later", "after", "fold"]


def test_a_teacher_s_paper():
    page = editions.split(small(), "teacher", "x", "paper")
    assert cell(page, "plan").metadata == {"box": "教師用"}
    assert cell(page, "why").metadata == {"box": "解答例"}
    assert cell(page, "double").metadata == {"box": "解答例"}
    assert cell(page, "double").source == (
        "def double_ex(x):\n    y = x + x\n    return y"
    )
    assert cell(page, "progress").outputs
    assert "record" not in [c.id for c in page.cells]


def test_the_web_folds_answers_or_has_none():
    page = editions.split(small(), "self", "x", "web")
    assert "NotImplementedError" in cell(page, "double").source
    folded = cell(page, "double-answer")
    assert "y = x + x" in folded.source
    assert "SOLUTION" not in folded.source
    assert folded.metadata.tags == ["hide-cell"]
    assert "\n:collapsible: closed\n" in cell(page, "why").source
    assert "{admonition} 演習（2 点・5 分）" in cell(page, "task").source
    assert not {"plan", "record"} & {c.id for c in page.cells}
    bare = editions.split(small(), "student", "x", "web")
    assert cell(bare, "why").source == ""
    assert "y = x + x" not in str(bare)


@pytest.mark.parametrize("edition", ["self", "student"])
def test_preparation_stands_after_the_title(edition):
    for medium in ("ipynb", "paper", "web"):
        page = editions.split(small(), edition, "x", medium)
        assert [c.id for c in editions.prepared(page, medium).cells][1] == "preparation"


def test_preparation_is_true():
    text = editions.PREPARATION.read_text(encoding="utf-8")
    for number in (
        *(f"{math.e:.3f}", f"{math.log(2):.3f}", f"{3.01**2:.4f}"),
        *(
            f"={sum(range(1, 5))}$",
            f"{1 * 5 + 2 * 6}\\\\{3 * 5 + 4 * 6}",
            str(2 * 3 * 4),
        ),
    ):
        assert number in text
    for word in ("対数", "和の記号", "傾き", "行列", "テンソルと形"):
        assert f"**{word}" in text


@pytest.mark.parametrize(
    ("shown", "where"),
    [
        (("shown", "# leak_ex は何でしょう\nwinner = {'mixer_b'}"), "shown"),
        (markdown("shown", "答えは `{'mixer_b'}` です。"), "shown"),
        (markdown("shown", "漏れるのは、全体を見るものです。"), "shown"),
    ],
)
def test_a_leak_is_refused_by_chapter_and_cell(shown, where):
    made = notebook(
        ("leak", "# BEGIN SOLUTION\nleak_ex = {'mixer_b'}\n# END SOLUTION"),
        markdown("why", "漏れるのは、全体を見るものです。", "answer"),
        shown,
    )
    with pytest.raises(editions.EditionError, match=f"01_x, cell {where}: shows the"):
        editions.split(made, "student", "01_x")
    editions.split(made, "teacher", "01_x")


def test_a_leak_in_an_output_is_refused():
    made = notebook(
        ("leak", "# BEGIN SOLUTION\nleak_ex = {'mixer_b'}\n# END SOLUTION"),
        ("shown", "print(set(names))"),
    )
    cell(made, "shown").outputs = [
        new_output("stream", name="stdout", text="{'mixer_b'}\n")
    ]
    with pytest.raises(editions.EditionError, match="cell shown: shows the answer"):
        editions.split(made, "student", "01_x")


# Bad input


def pages_of(content, edition="student"):
    folder = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    file = folder / "page.pdf"
    file.write_bytes(handouts.pdf(content, edition, "01_x.ipynb")[0])
    return [squeezed(page) for page in body(file)]


def text_of(content, edition="student"):
    return "".join(pages_of(content, edition))


def test_long_lines_wrap_and_lose_nothing():  # C47
    unbroken = f"word = '{'a' * 190}Z'"
    sentence = "x = 1  # " + " ".join(f"word{i}" for i in range(27))
    wide = "# " + "漢" * 78 + "終"
    made = lesson(("long", "\n".join([unbroken, sentence, wide])))
    cell(made, "long").outputs = [
        new_output(
            "stream", name="stdout", text="b" * 400 + "END\n" + "幅" * 200 + "終"
        )
    ]
    text = text_of(made)
    for line in (unbroken, sentence, wide, "b" * 400 + "END", "幅" * 200 + "終"):
        assert squeezed(line) in text


#: What typst, HTML, Markdown or TeX would take for its own.
HOSTILE = (
    "<script>alert(1)</script> #panic() @ref <x> // y /* */ ] } \\\\ \\n ~ | ::: '"
)


def test_what_looks_like_markup_is_only_text():
    made = lesson(
        markdown("prose", "#set page() @ref <x> // y <script>1</script> &lt; です。"),
        ("code", f's = "{HOSTILE}" + "$x$ `*_"'),
        ("table", "Table()"),
    )
    made.cells[0].source = '# 題 "#panic()" \\\\ $ ]\n\n## 第1時 #x <y>'
    text = repro.Table([HOSTILE], [["<bos> $x$ `y` *z* #panic()"]]).text
    cell(made, "code").outputs = [
        new_output("stream", name="stdout", text=HOSTILE + " $x$ `*_\n")
    ]
    cell(made, "table").outputs = [
        new_output("display_data", {"text/markdown": text, "text/plain": text})
    ]
    text = text_of(made)
    assert '題"#panic()"\\$]' in text
    assert "第1時#x<y>" in text
    assert "#setpage()@ref<x>//y<script>1</script><です。" in text
    assert text.count(squeezed(HOSTILE)) == 3
    assert squeezed("$x$ `*_") in text
    assert squeezed("<bos> $x$ `y` *z* #panic()") in text


@pytest.mark.parametrize(
    ("edition", "box"), [("student", "記入欄"), ("teacher", "解答例")]
)
def test_a_question_stays_with_the_room_for_its_answer(edition, box):
    made = lesson(
        markdown("text", "文です。\n\n" * 33 + "考えよう"),
        markdown("answer", "足すからです。とても簡単です。", "answer", "lines-2"),
    )
    first, second = pages_of(made, edition)
    assert "考えよう" not in first
    assert "考えよう" + box in second


def test_the_next_cell_survives_an_open_fence():
    made = lesson(
        markdown("open", "```python\nprint(1)"), markdown("next", "次の文です。")
    )
    assert "次の文です。" in text_of(made)


def shown(data, **metadata):
    made = lesson(("bad", "1"))
    cell(made, "bad").outputs = [new_output("display_data", data, metadata=metadata)]
    return made


def picture(png, **metadata):
    return shown({"image/png": png, "text/plain": "図"}, **metadata)


WIDE = "$$" + "+".join([r"\frac{a}{b}"] * 60) + "$$"
TALL = r"$$\begin{pmatrix}" + r"\\".join("a" * 80) + r"\end{pmatrix}$$"


def tiny_png():
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def huge():
    made, output = printing("bad", "print()", "x\n" * 5000)
    cell(made, "bad").outputs = [output]
    return made


def unexecuted():
    made = lesson(("bad", "1"))
    cell(made, "bad").execution_count = None
    return made


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            lesson(markdown("good", "$x$ です。"), markdown("bad", r"$$x\tag{1}$$")),
            "TeX",
        ),
        (lesson(("code", "1"), markdown("bad", r"$\nosuchmacro{1}$")), "TeX"),
        (lesson(markdown("bad", "絵文字は 😀 です。")), "no glyph for 😀"),
        (lesson(markdown("bad", "![図](nothing.png)")), "nothing.png"),
        (lesson(markdown("bad", "![図](https://x.invalid/a.png)")), "x.invalid"),
        (lesson(markdown("bad", "[ここ](#どこにもない)")), "どこにもない"),
        (lesson(markdown("bad", WIDE)), "does not fit on page 1"),
        (lesson(markdown("bad", f"`{'x' * 200}` です。")), "does not fit on page 1"),
        (lesson(markdown("bad", TALL)), "does not fit on page 2"),
        (shown({"text/html": "<b>x</b>"}), "cannot show: {'text/html'}"),
        (picture("aGVsbG8="), "a figure is missing"),
        (picture(tiny_png()), "missing alt text"),
        (huge(), "an output of 5001 lines"),
        (unexecuted(), "was not executed"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_bad_chapter_is_refused_by_cell(content, message):
    with pytest.raises(
        handouts.HandoutError, match=r"01_x\.ipynb, cell bad: "
    ) as found:
        handouts.pdf(content, "student", "01_x.ipynb")
    assert message in str(found.value)


def test_a_good_picture_is_grey(tmp_path):
    made = picture(tiny_png(), **{"image/png": {"alt": "赤い四角です。"}})
    content, pages = handouts.pdf(made, "teacher", "01_x.ipynb")
    (tmp_path / "x.pdf").write_bytes(content)
    pixels = poppler("pdftoppm", "-r", "40", str(tmp_path / "x.pdf"))[15:]
    shades = np.frombuffer(pixels[-3 * 100 * 100 :], np.uint8).reshape(-1, 3)
    assert (shades == shades[:, :1]).all()
    assert pages == 1
    assert "図" not in squeezed("".join(body(tmp_path / "x.pdf"))[-20:])


def test_an_id_that_stands_twice(tmp_path):
    text = compare.text_of(lesson(("one", "1"), ("two", "2")))
    path = tmp_path / "01_x.ipynb"
    path.write_text(text.replace('"id": "two"', '"id": "one"'), encoding="utf-8")
    with pytest.raises(run.NotebookError, match=r"01_x\.ipynb .* cell one: this id"):
        handouts.build([path], tmp_path)


def test_notebooks_do_not_tell_which_python_executed_the_chapter(tmp_path, monkeypatch):
    monkeypatch.setattr(handouts, "pdf", lambda *given: (b"", 1))
    chapter = notebook(markdown("title", "# 題"), ("one", "x = 1"))
    executed = compare.clean(chapter)
    executed.metadata.language_info["version"] = "3.11.7"
    for part in executed.cells:
        part.metadata["tags"] = []
    found = []
    for name, content in (("first", chapter), ("second", executed)):
        save(tmp_path / name / "01_made.ipynb", content)
        handouts.build([tmp_path / name / "01_made.ipynb"], tmp_path / name / "out")
        files = sorted((tmp_path / name / "out").rglob("*.ipynb"))
        found.append([file.read_bytes() for file in files])
    assert len(found[0]) == 2
    assert found[0] == found[1]


def test_an_interrupted_build_leaves_the_last_good_file(tmp_path, monkeypatch):
    path = save(tmp_path / "01_x.ipynb", lesson(("code", "print(1)")))
    (made,) = handouts.build([path], tmp_path / "out")
    before = {f: f.read_bytes() for f in made.files}
    assert str(made).startswith("01_x: student 1 pages, teacher 1 pages, ")

    def killed(*_):
        raise KeyboardInterrupt

    save(path, lesson(("code", "print(2)")))
    monkeypatch.setattr(handouts, "_typst", killed)
    with pytest.raises(KeyboardInterrupt):
        handouts.build([path], tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        handouts.build([path], tmp_path / "out")
    assert {f: f.read_bytes() for f in made.files} == before
    everything = {f for f in (tmp_path / "out").rglob("*") if f.is_file()}
    assert everything == set(before)


KILLED = """
import os, sys
from pathlib import Path
from lmbook.press import handouts
whole = Path.write_bytes
def half(path, content):
    whole(path, content[: len(content) // 2])
    os.kill(os.getpid(), int(sys.argv[3]))
Path.write_bytes = half
handouts.build([Path(sys.argv[1])], Path(sys.argv[2]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_build_leaves_the_last_good_file(tmp_path, number):
    path = save(tmp_path / "01_x.ipynb", lesson(("code", "print(1)")))
    (made,) = handouts.build([path], tmp_path / "out")
    before = {f: f.read_bytes() for f in made.files}
    save(path, lesson(("code", "print(2)")))
    command = [sys.executable, "-c", KILLED, str(path), str(tmp_path / "out")]
    done = subprocess.run([*command, str(int(number))], check=False)
    assert done.returncode == -number
    assert {f: f.read_bytes() for f in made.files} == before
    handouts.build([path], tmp_path / "out")
    assert all(f.read_bytes() != before[f] for f in made.files)


# The release


def test_zips_hold_the_kits_and_their_sums(made, tmp_path):
    pages = tmp_path / "site"
    (pages / "_static").mkdir(parents=True)
    (pages / "index.html").write_text("<p>site</p>", encoding="utf-8")
    (pages / "_static" / "a.css").write_text("p{}", encoding="utf-8")
    zips = release.release(CHAPTERS, tmp_path / "one", made, pages)
    again = release.release(CHAPTERS, tmp_path / "two", made, pages)
    assert [p.read_bytes() for p in zips] == [p.read_bytes() for p in again]
    names = [p.name for p in zips]
    version = lmbook.__version__
    assert names == [
        *(f"lmbook-{version}-{kit}.zip" for kit in ("student", "teacher", "site")),
        "SHA256SUMS",
    ]
    for line in zips[3].read_text("ascii").splitlines():
        digest, name = line.split("  ")
        content = (tmp_path / "one" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
    for kit in zips[:3]:
        shutil.unpack_archive(kit, tmp_path / "x")
    student = tmp_path / "x" / f"lmbook-{version}-student"
    found = {p.name for p in student.iterdir()}
    assert found == {"README.txt"} | {
        f"{p.stem}_student.{kind}" for p in CHAPTERS for kind in ("pdf", "ipynb")
    }
    assert (tmp_path / "x" / f"lmbook-{version}-site" / "_static" / "a.css").is_file()
    teacher = tmp_path / "x" / f"lmbook-{version}-teacher"
    assert {p.name for p in (teacher / "nbgrader").iterdir()} == {
        p.name for p in CHAPTERS
    }


@each_pdf
def test_the_version_is_on_every_page(made, texts, path, edition):
    area = ["-x", "0", "-y", "792", "-W", "600", "-H", "50"]
    file = str(made / f"{path.stem}_{edition}.pdf")
    footers = poppler("pdftotext", *area, file, "-").decode("utf-8").split("\f")[:-1]
    pages = len(texts[path, edition])
    for number, footer in enumerate(footers, 1):
        assert f"v{lmbook.__version__}" in footer
        assert squeezed(footer).find(f"{number}/{pages}") >= 0
        assert handouts.EDITIONS[edition] in footer
    assert len(footers) == pages
