"""Small notebooks, quick runs of chapters, judges and oracles."""

import copy
import functools
import math
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


def entropy_floors(sentences: Any, bos: Any, eos: Any) -> dict[str, float]:
    """The smallest mean loss, in nats, of models that know so much of the past.

    -log p summed step by step, p counted anew by a scan of every other step; it
    shares nothing with the lesson's way of counting. ``bag``: two prefixes are alike
    if their means are; ``within``: which sentence, but no position.
    """
    rows = [(i, [bos, *s, eos]) for i, s in enumerate(sentences)]
    steps = [(i, r[:t], r[t]) for i, r in rows for t in range(1, len(r))]

    def same_mean(p: list[Any], q: list[Any]) -> bool:
        return all(p.count(x) * len(q) == q.count(x) * len(p) for x in {*p, *q})

    alike: dict[str, Callable[[Any, Any], bool]] = {
        "unigram": lambda a, b: True,
        "current": lambda a, b: a[1][-1] == b[1][-1],
        "bag": lambda a, b: same_mean(a[1], b[1]),
        "prefix": lambda a, b: a[1] == b[1],
        "within": lambda a, b: a[0] == b[0],
    }
    return {
        kind: math.fsum(
            -math.log(
                sum(like(a, b) and a[2] == b[2] for b in steps)
                / sum(like(a, b) for b in steps)
            )
            for a in steps
        )
        / len(steps)
        for kind, like in alike.items()
    }
