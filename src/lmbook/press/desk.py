"""The reader's copies of the chapters: made once, kept, set back on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbformat.v4 import new_markdown_cell

from lmbook import chapters
from lmbook.press import compare, editions, run

DESK = chapters.ROOT / "desk"
GUIDE = chapters.ROOT / "lab" / "guide.md"
GUIDE_ID = "desk-guide"


def student_copy(chapter: Path, book: Any = None) -> Any:
    """The chapter with its answers cut, no outputs, and a guide under the title.

    ``book`` is the chapter's content, where it is read already. No outputs: a copy
    must not show ✓ before its reader has run anything.
    """
    made = editions.split(book or run.read(chapter), "student", chapter.name)
    folded = [c.metadata.get("jupyter") for c in made.cells]
    made = compare.clean(made)
    for cell, jupyter in zip(made.cells, folded, strict=True):
        if jupyter:
            cell.metadata["jupyter"] = jupyter
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    guide = GUIDE.read_text(encoding="utf-8").strip()
    made.cells.insert(1, new_markdown_cell(guide, id=GUIDE_ID))
    return made


def lay_out(paths: list[Path], desk: Path) -> list[Path]:
    """Put a copy of each chapter on the desk where there is none; the new ones."""
    desk.mkdir(parents=True, exist_ok=True)
    missing = [path for path in paths if not (desk / path.name).exists()]
    for path in missing:
        run.write_text(desk / path.name, compare.text_of(student_copy(path)))
    return [desk / path.name for path in missing]


def reset(path: Path, desk: Path) -> Path | None:
    """A new copy of the chapter at ``path``; where the old one is now, if any."""
    copy, kept = desk / path.name, None
    if copy.exists():
        old = desk / "old"
        old.mkdir(exist_ok=True)
        taken = [p.name for p in old.iterdir()]
        names = (f"{path.stem}-{n}.ipynb" for n in range(1, len(taken) + 2))
        kept = old / next(name for name in names if name not in taken)
        copy.rename(kept)
    lay_out([path], desk)
    return kept
