"""Compare two executed notebooks cell by cell: text exactly, pictures within a bound.

Serves the regression, ``accept`` and ``experiment``. Nothing is ignored except
metadata that :func:`clean` removes (alternative texts are compared).
"""

from __future__ import annotations

import base64
import copy
import io
from dataclasses import dataclass, field
from typing import Any

import nbformat
import numpy as np
from PIL import Image

from lmbook.press.run import joined

#: The one place of the picture bounds (regression.md 2): measured drift stays below
#: them, the smallest real fault (RMS 0.36) above.
MAX_RMS = 0.15
MAX_CHANNEL = 8

KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}
LANGUAGE = {"name": "python"}
PNG = "image/png"


@dataclass(frozen=True)
class Difference:
    """One finding: a cell's id (or ``-``), what kind, and a sentence.

    ``expected`` and ``actual`` are texts or PNG bytes, for the report.
    """

    cell: str
    kind: str
    message: str
    expected: str | bytes = ""
    actual: str | bytes = ""

    def __str__(self) -> str:
        return f"[{self.kind}] cell {self.cell}: {self.message}"


@dataclass
class Report:
    """What was compared and what differed."""

    name: str
    cells: int = 0
    outputs: int = 0
    pictures: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, cell: str, kind: str, message: str, *both: str | bytes) -> None:
        self.differences.append(Difference(cell, kind, message, *both))

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.cells} cells, {self.outputs} outputs, "
            f"{self.pictures} pictures compared, {len(self.differences)} differences"
        )


def clean(notebook: Any) -> Any:
    """A copy with the fixed metadata of a committed chapter, and nothing else.

    Neighbouring pieces of one stream are joined: how they were split is chance.
    """
    done = copy.deepcopy(notebook)
    done.metadata = nbformat.from_dict(
        {"kernelspec": dict(KERNELSPEC), "language_info": dict(LANGUAGE)}
    )
    for cell in done.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
            for output in cell.outputs:
                if "metadata" in output:
                    output.metadata = nbformat.from_dict(_alt_only(output.metadata))
    return done


def text_of(notebook: Any) -> str:
    """The bytes of a committed notebook, as text."""
    return str(nbformat.writes(notebook, indent=1)) + "\n"


def _alt_only(metadata: Any) -> dict[str, Any]:
    kept = {k: v for k, v in metadata.items() if k == "alt"}
    picture = metadata.get(PNG)
    if isinstance(picture, dict) and "alt" in picture:
        kept[PNG] = {"alt": picture["alt"]}
    return kept


def compare(expected: Any, actual: Any, name: str = "notebook") -> Report:
    """Every difference of two executed notebooks, and how much was compared."""
    report = Report(name)
    by_id = {cell.id: cell for cell in actual.cells}
    _compare_order([c.id for c in expected.cells], [c.id for c in actual.cells], report)
    for side, notebook in (("expected", expected), ("executed", actual)):
        for cell, message in count_faults(notebook):
            report.add(cell, "counts", f"{side}: {message}")
    for cell in expected.cells:
        if cell.id in by_id:
            report.cells += 1
            _compare_cells(cell, by_id[cell.id], report)
    return report


def _compare_order(expected: list[str], actual: list[str], report: Report) -> None:
    for cell in expected:
        if cell not in actual:
            report.add(cell, "cells", "this cell is missing from the execution")
    for cell in actual:
        if cell not in expected:
            report.add(cell, "cells", "this cell is not in the committed notebook")
    both = set(expected) & set(actual)
    if [c for c in expected if c in both] != [c for c in actual if c in both]:
        report.add("-", "cells", "the cells stand in another order")
    if len(set(expected)) < len(expected):
        report.add("-", "cells", "a cell id stands twice")


def count_faults(notebook: Any) -> list[tuple[str, str]]:
    """``(cell id, sentence)`` for each code cell whose count is not the next of 1..n.

    An empty code cell is never executed and has no count.
    """
    faults = []
    due = 1
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        count, wanted = cell.execution_count, due if cell.source.strip() else None
        if count is None and wanted is not None:
            faults.append((cell.id, "was not executed"))
        elif count != wanted:
            faults.append((cell.id, f"execution count {count}, should be {wanted}"))
        due += wanted is not None
    return faults


def _compare_cells(expected: Any, actual: Any, report: Report) -> None:
    if expected.cell_type != actual.cell_type:
        report.add(expected.id, "cells", f"is now a {actual.cell_type} cell")
        return
    if expected.source != actual.source:
        report.add(
            expected.id, "source", "source differs", expected.source, actual.source
        )
    tags = [str(c.metadata.get("tags", [])) for c in (expected, actual)]
    if tags[0] != tags[1]:
        report.add(expected.id, "tags", "tags differ", *tags)
    if expected.cell_type != "code":
        return
    first, second = joined(expected.outputs), joined(actual.outputs)
    shapes = [_shape(o) for o in first], [_shape(o) for o in second]
    if shapes[0] != shapes[1]:
        message = "number, order or kind of outputs differs"
        report.add(expected.id, "outputs", message, *("\n".join(s) for s in shapes))
    for cell, outputs in ((expected, first), (actual, second)):
        _refuse(cell, outputs, report)
    for a, b in zip(first, second, strict=False):
        report.outputs += 1
        _compare_outputs(expected.id, a, b, report)


def _shape(output: Any) -> str:
    kind = output.output_type
    if kind == "stream":
        return f"{kind} {output.name}"
    return " ".join([kind, *sorted(output.get("data", {}))])


def _refuse(cell: Any, outputs: list[Any], report: Report) -> None:
    """A committed or fresh chapter holds no error and nothing on stderr."""
    for output in outputs:
        count = output.get("execution_count", cell.execution_count)
        if output.output_type == "error":
            report.add(cell.id, "error", f"{output.ename}: {output.evalue}")
        elif output.output_type == "stream" and output.name == "stderr":
            report.add(cell.id, "stderr", output.text.strip())
        elif count != cell.execution_count:
            report.add(cell.id, "counts", "a result bears another count")


def _compare_outputs(cell: str, first: Any, second: Any, report: Report) -> None:
    both = first.get("text", ""), second.get("text", "")
    if both[0] != both[1]:
        report.add(cell, "text", _where(*both), *both)
    ours, theirs = first.get("data", {}), second.get("data", {})
    for mime in sorted(set(ours) & set(theirs)):
        a, b = (_text(data[mime]) for data in (ours, theirs))
        if mime == PNG:
            report.pictures += 1
            _compare_pictures(cell, a, b, report)
        elif a != b:
            report.add(cell, "text", f"{mime}: {_where(a, b)}", a, b)
    alts = [str(_alt_only(o.get("metadata", {}))) for o in (first, second)]
    if alts[0] != alts[1]:
        report.add(cell, "alt", "alternative text differs", *alts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _where(expected: str, actual: str) -> str:
    """The first pair of lines that differ, in a sentence."""
    ours, theirs = expected.split("\n"), actual.split("\n")
    for number, (a, b) in enumerate(zip(ours, theirs, strict=False), 1):
        if a != b:
            return f"line {number}: expected {a!r}, got {b!r}"
    return f"{len(ours)} lines expected, got {len(theirs)}"


def pixels(png: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A PNG as an array [height, width, 4] of 0..255."""
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGBA"), dtype=np.float64)


def picture_fault(expected: bytes, actual: bytes) -> str | None:
    """A sentence when two PNGs differ by more than the bounds, else None."""
    try:
        a, b = pixels(expected), pixels(actual)
    except OSError as error:
        return f"a picture cannot be read: {error}"
    if a.shape != b.shape:
        sizes = [f"{s[1]}x{s[0]}" for s in (a.shape, b.shape)]
        return f"picture size: expected {sizes[0]}, got {sizes[1]}"
    off = np.abs(a - b)
    rms, worst = float(np.sqrt(np.mean(off[..., :3] ** 2))), float(off.max())
    if rms <= MAX_RMS and worst <= MAX_CHANNEL:
        return None
    share = float(np.mean(off.max(axis=2) > 0))
    return (
        f"picture: largest channel difference {worst:.0f} (bound {MAX_CHANNEL}), "
        f"RMS {rms:.3f} (bound {MAX_RMS}), {share:.2%} of the pixels differ"
    )


def _compare_pictures(cell: str, expected: str, actual: str, report: Report) -> None:
    both = base64.b64decode(expected), base64.b64decode(actual)
    fault = picture_fault(*both)
    if fault:
        report.add(cell, "picture", fault, *both)


def without_injected(notebook: Any) -> Any:
    """A copy without papermill's parameter cell, the later counts one less."""
    done = copy.deepcopy(notebook)
    injected = [c for c in done.cells if is_injected(c)]
    counts = [c.execution_count for c in injected if c.execution_count]
    done.cells = [c for c in done.cells if not is_injected(c)]
    for cell in done.cells:
        for part in (cell, *cell.get("outputs", [])):
            count = part.get("execution_count")
            if count is not None:
                part["execution_count"] = count - sum(1 for n in counts if n < count)
    return done


def is_injected(cell: Any) -> bool:
    """True for the cell that papermill adds for given parameters."""
    return "injected-parameters" in cell.metadata.get("tags", [])
