"""Freshly executed outputs become the committed ones: cleaned, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmbook.press import compare, editions
from lmbook.press.run import EXECUTED, read
from lmbook.repro import NG


class AcceptError(RuntimeError):
    """The executed chapters cannot become the committed ones; says why, per cell."""


def accept(notebooks: Iterable[Path], executed: Path = EXECUTED) -> list[Path]:
    """Write the executed outputs of all ``notebooks`` over them; those that changed.

    Raises AcceptError, with nothing written, for any refusal of any chapter.
    """
    texts: dict[Path, str] = {}
    faults: list[str] = []
    for path in notebooks:
        fresh = executed / path.name
        if not fresh.is_file():
            faults.append(f"{path.name}: not executed (run it first)")
            continue
        done = read(fresh)
        faults += [f"{path.name}: {fault}" for fault in refusals(done, path)]
        texts[path] = compare.text_of(compare.clean(done))
    if faults:
        raise AcceptError("nothing was accepted\n" + "\n".join(faults))
    changed = [p for p, t in texts.items() if p.read_text(encoding="utf-8") != t]
    parts = {path: path.with_name(f".{path.name}.accept") for path in changed}
    try:
        for path, part in parts.items():
            part.write_text(texts[path], encoding="utf-8", newline="\n")
        for path, part in parts.items():
            part.replace(path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    return changed


def refusals(executed: Any, path: Path) -> list[str]:
    """Why ``executed`` may not replace the notebook at ``path``; empty if it may."""
    found = [f"cell {cell}: {fault}" for cell, fault in compare.count_faults(executed)]
    try:
        editions.check(executed, path.name)
    except editions.EditionError as error:
        found.append(str(error))
    for cell in executed.cells:
        found += [f"cell {cell.id}: {fault}" for fault in _cell_faults(cell)]
    cells = [
        [(c.id, c.cell_type, c.source, editions.tags(c)) for c in notebook.cells]
        for notebook in (executed, read(path))
    ]
    if cells[0] != cells[1]:
        found.append("its cells are not those of the committed file (run it again)")
    return found


def _cell_faults(cell: Any) -> list[str]:
    faults = []
    if compare.is_injected(cell):
        faults.append("holds injected parameters")
    if "papermill-error-cell-tag" in editions.tags(cell):
        faults.append("is papermill's error banner")
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            faults.append(f"{output.ename}: {output.evalue}")
        elif output.get("name") == "stderr":
            faults.append(f"stderr: {output.text.strip()}")
        elif NG in str(output.get("text", output.get("data", ""))):
            faults.append(f"an output holds {NG}")
    return faults
