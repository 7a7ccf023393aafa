"""Small notebooks, quick runs of chapters, and the judge of a source mutation."""

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from lmbook import chapters
from lmbook.press import compare, run


def notebook(*cells: Any) -> Any:
    """A notebook of ``(id, source)``, ``(id, source, tags)`` or ready cells."""
    made = []
    for cell in cells:
        if isinstance(cell, tuple):
            name, source, *tags = cell
            cell = new_code_cell(source, id=name)
            if tags:
                cell.metadata["tags"] = list(tags[0])
        made.append(cell)
    return compare.clean(new_notebook(cells=made))


def markdown(name: str, source: str, *tags: str) -> Any:
    """A Markdown cell."""
    cell = new_markdown_cell(source, id=name)
    if tags:
        cell.metadata["tags"] = list(tags)
    return cell


def save(path: Path, content: Any) -> Path:
    """Write ``content`` as a committed notebook."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(compare.text_of(content), encoding="utf-8", newline="\n")
    return path


def cell(content: Any, name: str) -> Any:
    """The cell with id ``name``."""
    return next(c for c in content.cells if c.id == name)


def quick_run(
    path: Path, mutate: Callable[[Any], None] | None = None, seconds: int = 120
) -> Any:
    """The chapter at ``path``, changed by ``mutate``, executed with ``quick=True``.

    Equal sources are executed once a session. Raises run.CellError.
    """
    content = run.read(path)
    if mutate:
        mutate(content)
    return copy.deepcopy(_quick(nbformat.writes(content), seconds))


@functools.cache
def _quick(text: str, seconds: int) -> Any:
    done = run.execute(
        nbformat.reads(text, as_version=4),
        chapters.NOTEBOOKS,
        parameters={"quick": True},
        cell_seconds=seconds,
    )
    return compare.without_injected(done)


def first_difference(one: Any, other: Any) -> str | None:
    """The id of the first cell whose outputs differ, in reading order."""
    report = compare.compare(one, other)
    found = {d.cell for d in report.differences if d.kind != "source"}
    return next((c.id for c in one.cells if c.id in found), None)


def replace(name: str, old: str, new: str) -> Callable[[Any], None]:
    """A mutation: ``old``, which must stand once in cell ``name``, becomes ``new``."""

    def mutate(content: Any) -> None:
        found = cell(content, name)
        assert found.source.count(old) == 1, f"{old!r} in cell {name}"
        found.source = found.source.replace(old, new)

    return mutate


def caught_at(path: Path, mutate: Callable[[Any], None]) -> str | None:
    """The cell where a quick run shows a mutation of the chapter; None: nowhere."""
    healthy = quick_run(path)
    try:
        return first_difference(healthy, quick_run(path, mutate))
    except run.CellError as error:
        return error.cell
