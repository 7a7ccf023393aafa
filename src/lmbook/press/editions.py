"""Editions of one notebook: who receives what, and how it stands on which medium.

An edition says who reads (``student``, ``teacher``, or ``self``: a learner alone), a
medium where (``ipynb``, ``paper``, ``web``). This module alone decides what stands
where; the makers of paper and site only draw what :func:`split` gives them.

| tag | student | teacher | self |
|---|---|---|---|
| solution markers | a stub, no outputs | whole | on the web stub and folded answer |
| cell that uses an answer | outputs cut | whole | whole |
| ``exercise`` | kept | kept | kept |
| ``answer`` (``lines-N``) | blank | kept | on the web folded |
| ``teacher`` | removed | kept | removed |
| ``student`` | kept | removed | kept |

| tag | ipynb | paper | web |
|---|---|---|---|
| ``hide-input`` | a student's is folded | output only | folded by MyST-NB |
| ``remove-cell`` | a student's is folded | dropped | dropped |

On paper a cell bears ``box`` (the word on its frame), ``note`` (points and minutes)
and ``lines`` (how many ruled ones follow it) as its metadata, and nothing else. A box
stands in place of solution markers.
"""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Literal

import nbformat

from lmbook import chapters

TAGS = {
    *("exercise", "answer", "teacher", "student"),
    *("hide-input", "remove-cell", "parameters"),
}
NUMBERED = re.compile(r"(lines|points|minutes)-[1-9][0-9]*")
BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
STUB = "raise NotImplementedError"
Edition = Literal["student", "teacher", "self"]
Medium = Literal["ipynb", "paper", "web"]
#: What every chapter takes for known, with a number for each.
PREPARATION = chapters.ROOT / "handouts" / "preparation.md"
#: IPython shows an error as it says itself, here as one sentence.
NEEDS_LMBOOK = """\
import importlib.util


class Away(Exception):
    def _render_traceback_(self):
        return [str(self)]


if importlib.util.find_spec("lmbook") is None:
    raise Away(
        "このノートブックを動かすには、教材のフォルダで "
        "make book を実行したあとの環境（.venv）が必要です。"
    )"""
#: Ruled lines under a question that does not say how many.
LINES = 3
#: Answers with fewer characters may stand elsewhere by chance.
SHORT_VALUE, SHORT_CODE = 8, 30


class EditionError(ValueError):
    """A tag or a marker that no edition can be made from; names chapter and cell."""


def split(
    notebook: Any,
    edition: Edition,
    name: str = "notebook",
    medium: Medium = "ipynb",
) -> Any:
    """A copy of ``notebook`` as the ``edition`` on the ``medium``.

    Raises EditionError, also for a student's edition that would show an answer.
    """
    if edition not in ("student", "teacher", "self"):
        raise ValueError(f"edition is student, teacher or self, not {edition!r}")
    if medium not in ("ipynb", "paper", "web"):
        raise ValueError(f"medium is ipynb, paper or web, not {medium!r}")
    check(notebook, name)
    done = copy.deepcopy(notebook)
    kept = [cell for cell in done.cells if _stands(cell, edition, medium)]
    if edition == "student":
        using = _using_answers(notebook)
        blank = {cell.id: _lines(cell) for cell in kept}
        for cell in kept:
            _for_student(cell, name, cell.id in using)
        _refuse_leaks(notebook, kept, name)
    elif edition == "self" and medium == "web":
        kept = [part for cell in kept for part in _folded(cell, name)]
    for cell in kept:
        if medium == "paper":
            _for_paper(cell, edition, blank[cell.id] if edition == "student" else 0)
        elif medium == "web":
            _for_web(cell)
    done.cells = kept
    return done


def _stands(cell: Any, edition: Edition, medium: Medium) -> bool:
    other = "student" if edition == "teacher" else "teacher"
    gone = {other} if medium == "ipynb" else {other, "remove-cell"}
    return not gone & set(tags(cell))


def tags(cell: Any) -> list[str]:
    """The tags of a cell."""
    found: list[str] = cell.metadata.get("tags", [])
    return found


def check(notebook: Any, name: str) -> None:
    """Refuse unknown tags and markers that are unbalanced, nested or misplaced."""
    for cell in notebook.cells:
        where = f"{name}, cell {cell.get('id', '?')}"
        if cell.cell_type not in ("code", "markdown"):
            raise EditionError(f"{where}: no edition shows a {cell.cell_type} cell")
        for tag in tags(cell):
            if tag not in TAGS and not NUMBERED.fullmatch(tag):
                raise EditionError(f"{where}: unknown tag {tag!r}")
        if {"teacher", "student"} <= set(tags(cell)):
            raise EditionError(f"{where}: tagged both teacher and student")
        if "answer" in tags(cell) and cell.cell_type == "code":
            raise EditionError(f"{where}: 'answer' is a tag of Markdown cells")
        if cell.cell_type == "code":
            cut(cell.source, where)
        elif {BEGIN, END} & {line.strip() for line in cell.source.split("\n")}:
            raise EditionError(f"{where}: solution markers outside a code cell")


def number(cell: Any, what: str) -> int | None:
    """N of the cell's tag ``what-N``, if it bears one."""
    found = [t for t in tags(cell) if t.startswith(f"{what}-")]
    return int(found[0].partition("-")[2]) if found else None


def solutions(cell: Any) -> list[str]:
    """The lines between each pair of markers of a code cell, as one text a pair."""
    if cell.cell_type != "code":
        return []
    found = re.findall(
        rf"^[ \t]*{BEGIN}[ \t]*\n(.*?)^[ \t]*{END}[ \t]*$", cell.source, re.M | re.S
    )
    return [str(text).rstrip("\n") for text in found]


def _lines(cell: Any) -> int:
    """How many ruled lines a student needs: one more than the answer has."""
    if "answer" in tags(cell):
        return number(cell, "lines") or LINES
    return sum(text.count("\n") + 2 for text in solutions(cell))


def _for_student(cell: Any, name: str, uses_answer: bool) -> None:
    if "answer" in tags(cell):
        cell.source = ""
    if cell.cell_type != "code":
        return
    stub = cut(cell.source, f"{name}, cell {cell.get('id', '?')}")
    if stub != cell.source or uses_answer:
        cell.source, cell.outputs = stub, []
    for part in (cell, *cell.outputs):
        if "execution_count" in part:
            part["execution_count"] = None
    if {"hide-input", "remove-cell"} & set(tags(cell)):
        cell.metadata["jupyter"] = {"source_hidden": True}


def _using_answers(notebook: Any) -> set[str]:
    """Ids of the cells whose outputs come out of an answer, directly or not.

    ``chapters.solved`` gives the book's answer where the reader's fails, so what
    follows from it is no answer of the reader's.
    """
    found: set[str] = set()
    names: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        try:
            body = ast.parse(cell.source).body
        except SyntaxError:  # IPython's own statements
            continue
        if solutions(cell):
            names |= {name for name in _bound(body) if name.endswith("_ex")}
            names.add("globals")  # it reads them all
            continue
        for node in body:
            inside = list(ast.walk(node))
            loaded = {
                n.id for n in inside if isinstance(n, ast.Name) and not _stores(n)
            }
            if loaded & names and not any(_is_solved(n) for n in inside):
                found.add(cell.id)
                names |= set(_bound([node]))
    return found


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """Names that statements bind at the top level of a cell."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        else:
            inside = ast.walk(node)
            yield from (n.id for n in inside if isinstance(n, ast.Name) and _stores(n))


def _is_solved(node: ast.AST) -> bool:
    call = node.func if isinstance(node, ast.Call) else None
    return getattr(call, "attr", getattr(call, "id", "")) == "solved"


def _refuse_leaks(notebook: Any, kept: list[Any], name: str) -> None:
    """A student's cell must not show an answer that was cut somewhere."""
    texts = [(cell.id, squeezed(text)) for cell in kept for text in _texts(cell)]
    for cell in notebook.cells:
        for answer in answers(cell):
            for place, text in texts:
                if answer in text:
                    where = f"{name}, cell {place}"
                    raise EditionError(f"{where}: shows the answer of cell {cell.id}")


def answers(cell: Any) -> Iterator[str]:
    """What no student must read, squeezed: answers, and the values they assign.

    Short ones are left out: they may stand elsewhere by chance.
    """
    found = [(cell.source, SHORT_VALUE)] if "answer" in tags(cell) else []
    for text in map(textwrap.dedent, solutions(cell)):
        found.append((text, SHORT_CODE))
        for node in ast.parse(text).body:
            value = getattr(node, "value", None)
            if isinstance(value, (ast.Set, ast.List, ast.Dict, ast.Tuple)):
                found.append((ast.get_source_segment(text, value) or "", SHORT_VALUE))
    for text, short in found:
        if len(squeezed(text)) >= short:
            yield squeezed(text)


def _texts(cell: Any) -> Iterator[str]:
    yield cell.source
    for output in cell.get("outputs", []):
        yield output.get("text", "")
        yield from (v for k, v in output.get("data", {}).items() if "image" not in k)


def squeezed(text: str) -> str:
    """``text`` less comments and white space."""
    return re.sub(r"#[^\n]*|\s+", "", text)


def _for_paper(cell: Any, edition: Edition, lines: int) -> None:
    if "hide-input" in tags(cell):
        cell.source = ""
    boxes = {"exercise": "演習", "teacher": "教師用", "answer": "解答例"}
    if edition == "student":
        boxes["answer"] = "記入欄"
    box = next((boxes[tag] for tag in tags(cell) if tag in boxes), "")
    if solutions(cell):  # a student's are cut
        box, cell.source = boxes["answer"], _unmarked(cell.source)
    points, minutes = number(cell, "points"), number(cell, "minutes")
    note = [f"{points} 点"] if points else []
    note += [f"{minutes} 分"] if minutes else []
    found = {"box": box, "note": "・".join(note), "lines": lines}
    cell.metadata = nbformat.from_dict({k: v for k, v in found.items() if v})


def _unmarked(source: str) -> str:
    """``source`` less the lines that bear a marker."""
    lines = source.split("\n")
    return "\n".join(line for line in lines if line.strip() not in (BEGIN, END))


def _folded(cell: Any, name: str) -> list[Any]:
    """A code cell with an answer as two: the stub, and the whole of it folded."""
    if not solutions(cell):
        return [cell]
    stub = copy.deepcopy(cell)
    stub.source, stub.outputs = cut(cell.source, f"{name}, cell {cell.id}"), []
    cell.id += "-answer"
    cell.source = _unmarked(cell.source)
    cell.metadata["tags"] = ["hide-cell"]
    cell.metadata["mystnb"] = {
        "code_prompt_show": "解答例を見る",
        "code_prompt_hide": "解答例を隠す",
    }
    return [stub, cell]


def _for_web(cell: Any) -> None:
    alts = [alt for o in cell.get("outputs", []) if (alt := _alt(o))]
    if alts:  # MyST-NB reads it from the cell
        cell.metadata.setdefault("mystnb", {})["image"] = {"alt": " ".join(alts)}
    points, minutes = number(cell, "points"), number(cell, "minutes")
    if "exercise" in tags(cell):
        note = f"（{points} 点・{minutes} 分）" if points and minutes else ""
        cell.source = _admonition(f"演習{note}", cell.source)
    if "answer" in tags(cell) and cell.source:
        cell.source = _admonition("解答例", cell.source, ":collapsible: closed")


def cut(source: str, where: str) -> str:
    """``source`` with each solution region replaced by a stub.

    Raises EditionError, beginning with ``where``, for markers that do not pair.
    """
    kept: list[str] = []
    region: list[str] | None = None
    indent = ""
    for line in source.split("\n"):
        mark = line.strip()
        if mark == BEGIN:
            if region is not None:
                raise EditionError(f"{where}: {BEGIN} inside a solution")
            region, indent = [], line[: len(line) - len(line.lstrip())]
        elif mark == END:
            if region is None:
                raise EditionError(f"{where}: {END} without {BEGIN}")
            kept += _stub(region, indent, where)
            region = None
        elif re.search(r"(BEGIN|END) SOLUTION", line):
            raise EditionError(f"{where}: a marker is exactly {BEGIN!r} or {END!r}")
        else:
            (kept if region is None else region).append(line)
    if region is not None:
        raise EditionError(f"{where}: {BEGIN} without {END}")
    return "\n".join(kept)


def _stub(region: list[str], indent: str, where: str) -> list[str]:
    """What stands in the place of ``region``, which is indented by ``indent``."""
    if indent:
        return [indent + STUB]
    try:
        body = ast.parse("\n".join(region)).body
    except SyntaxError as error:
        raise EditionError(f"{where}: the solution is not Python: {error}") from error
    lines: list[str] = []
    for node in body:
        if isinstance(node, ast.FunctionDef):
            lines += ["", ""] if lines else []
            lines += _signature(node, region)
        elif isinstance(node, ast.ClassDef):
            raise EditionError(f"{where}: put the markers inside the class's methods")
        else:
            lines += [f"{name} = None" for name in _names(node)]
    if not lines:
        raise EditionError(f"{where}: the solution assigns no name and has no def")
    return lines


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    else:
        return []
    inside = [n for t in targets for n in ast.walk(t)]
    return [n.id for n in inside if isinstance(n, ast.Name) and _stores(n)]


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _signature(node: ast.FunctionDef, region: list[str]) -> list[str]:
    """The head and the docstring of a function, and the stub as its body."""
    first = min([node.lineno, *(d.lineno for d in _decorators(node))])
    body = node.body[0]
    if body.lineno == node.lineno:
        head = region[body.lineno - 1].encode("utf-8")[: body.col_offset]
        return [head.decode("utf-8").rstrip(), "    " + STUB]
    if ast.get_docstring(node, clean=False) is not None:
        last = body.end_lineno or body.lineno
    else:  # comments above the body go with it
        last = min([body.lineno, *(d.lineno for d in _decorators(body))]) - 1
        while region[last - 1].lstrip()[:1] in ("", "#"):
            last -= 1
    return [*region[first - 1 : last], " " * body.col_offset + STUB]


def _decorators(node: ast.stmt) -> list[ast.expr]:
    return getattr(node, "decorator_list", [])


def _admonition(title: str, text: str, option: str = "") -> str:
    return f"::::::{{admonition}} {title}\n{option}\n\n{text}\n::::::"


def prepared(notebook: Any, medium: Medium) -> Any:
    """``notebook``, its first cell followed by what a reader should recall."""
    text = PREPARATION.read_text(encoding="utf-8").rstrip("\n")
    cell = nbformat.v4.new_markdown_cell(text, id="preparation")
    if medium == "paper":
        cell.metadata["box"] = "準備"
    elif medium == "web":
        cell.source = (
            f"::::::{{admonition}} 準備\n:collapsible: closed\n\n{text}\n::::::"
        )
    else:
        folded = "<details><summary><b>準備</b>（押すと開きます）</summary>"
        cell.source = f"{folded}\n\n{text}\n\n</details>"
    notebook.cells.insert(1, cell)
    return notebook


def needs_lmbook() -> Any:
    """The first cell of a notebook that leaves the house: what it needs."""
    metadata = {"tags": ["remove-cell"], "jupyter": {"source_hidden": True}}
    return nbformat.v4.new_code_cell(NEEDS_LMBOOK, id="needs-lmbook", metadata=metadata)


def _alt(output: Any) -> str:
    kept = output.get("metadata", {})
    return str(kept.get("image/png", kept).get("alt", ""))


def nbgrader(notebook: Any, name: str = "notebook") -> Any:
    """The chapter as nbgrader's source: its metadata is derived from tags and markers.

    A cell with markers is a solution, what follows a check cell a test with the
    points of the exercise, and an ``answer`` a text that a teacher grades.
    """
    done, points = split(notebook, "self", name), 0
    cells = done.cells
    done.cells = []
    for cell in cells:
        points = number(cell, "points") or (0 if "exercise" in tags(cell) else points)
        if cell.cell_type != "code":  # nbgrader takes a marker in a sentence for one
            cell.source = re.sub(
                r"(BEGIN|END) SOLUTION", "\\1\u00a0SOLUTION", cell.source
            )
        done.cells.append(cell)
        if solutions(cell):
            _grade(cell, solution=True)
        elif "answer" in tags(cell):
            _grade(cell, solution=True, points=number(cell, "points") or 0)
        result = _check_result(cell)
        if result:
            test = nbformat.v4.new_code_cell(f"assert {result}.ok", id=f"{cell.id}-ok")
            _grade(test, points=points)
            done.cells.append(test)
    return done


def _grade(cell: Any, *, solution: bool = False, points: int | None = None) -> None:
    cell.metadata["nbgrader"] = {
        "schema_version": 3,
        "grade_id": cell.id,
        "grade": points is not None,
        "solution": solution,
        "locked": not solution,
        "task": False,
        **({} if points is None else {"points": points}),
    }


def _check_result(cell: Any) -> str | None:
    """``r1`` of a check cell: ``r1 = chNN.name(…)`` and a last line ``r1``."""
    found = re.match(r"(\w+) = (?:checks\.)?ch\d\d\.\w+\(", cell.source)
    last = cell.source.rstrip().split("\n")[-1]
    return found[1] if cell.cell_type == "code" and found and last == found[1] else None
