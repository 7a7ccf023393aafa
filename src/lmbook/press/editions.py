"""Editions of one notebook: what a student and what a teacher receives.

| tag | on | student | teacher |
|---|---|---|---|
| solution markers | code | cut to a stub, outputs removed | kept |
| ``exercise`` | md | kept | kept |
| ``answer`` (``lines-N``) | md | blank | kept |
| ``teacher`` | any | removed | kept |
| ``student`` | any | kept | removed |
| ``hide-input``, ``remove-cell`` | code | kept, folded | kept |
"""

from __future__ import annotations

import ast
import copy
import re
from typing import Any, Literal

TAGS = {
    *("exercise", "answer", "teacher", "student"),
    *("hide-input", "remove-cell", "parameters"),
}
NUMBERED = re.compile(r"(lines|points|minutes)-[1-9][0-9]*")
BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
STUB = "raise NotImplementedError"


class EditionError(ValueError):
    """A tag or a marker that no edition can be made from; names chapter and cell."""


def split(
    notebook: Any, edition: Literal["student", "teacher"], name: str = "notebook"
) -> Any:
    """A copy of ``notebook`` as the ``edition``. Raises EditionError."""
    if edition not in ("student", "teacher"):
        raise ValueError(f"edition is 'student' or 'teacher', not {edition!r}")
    check(notebook, name)
    other = "teacher" if edition == "student" else "student"
    done = copy.deepcopy(notebook)
    done.cells = [cell for cell in done.cells if other not in tags(cell)]
    if edition == "student":
        for cell in done.cells:
            _for_student(cell, name)
    return done


def tags(cell: Any) -> list[str]:
    """The tags of a cell."""
    found: list[str] = cell.metadata.get("tags", [])
    return found


def check(notebook: Any, name: str) -> None:
    """Refuse unknown tags and markers that are unbalanced, nested or misplaced."""
    for cell in notebook.cells:
        where = f"{name}, cell {cell.get('id', '?')}"
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


def _for_student(cell: Any, name: str) -> None:
    if "answer" in tags(cell):
        cell.source = ""
    if cell.cell_type != "code":
        return
    stub = cut(cell.source, f"{name}, cell {cell.get('id', '?')}")
    if stub != cell.source:
        cell.source, cell.outputs = stub, []
    for part in (cell, *cell.outputs):
        if "execution_count" in part:
            part["execution_count"] = None
    if {"hide-input", "remove-cell"} & set(tags(cell)):
        cell.metadata["jupyter"] = {"source_hidden": True}


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
