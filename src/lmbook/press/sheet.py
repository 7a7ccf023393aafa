"""Contact sheets of every committed figure, to be looked at."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from lmbook.press.compare import PNG
from lmbook.press.run import BUILD, read

FOLDER = BUILD / "sheet"
COLUMNS, ROWS = 2, 3
TILE = (780, 660)
CAPTION = 36


def figures(notebooks: Iterable[Path]) -> list[tuple[str, bytes]]:
    """``(chapter and cell id, PNG)`` of each figure in reading order."""
    found = []
    for path in notebooks:
        for cell in read(path).cells:
            pictures = [o.data[PNG] for o in cell.get("outputs", []) if PNG in _data(o)]
            for number, png in enumerate(pictures, 1):
                name = f"{path.stem[:2]} {cell.id}" + (f" {number}" * (number > 1))
                found.append((name, base64.b64decode(png)))
    return found


def _data(output: object) -> dict[str, str]:
    found: dict[str, str] = getattr(output, "data", {})
    return found


def sheet(notebooks: Iterable[Path], folder: Path = FOLDER) -> list[Path]:
    """Write each figure and the captioned pages of all into ``folder``; the pages.

    What an earlier call wrote there is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    found = figures(notebooks)
    for name, png in found:
        (folder / f"{name.replace(' ', '-')}.png").write_bytes(png)
    pages: list[Path] = []
    for start in range(0, len(found), COLUMNS * ROWS):
        path = folder / f"page-{len(pages) + 1:02}.png"
        _page(found[start : start + COLUMNS * ROWS]).save(path)
        pages.append(path)
    return pages


def _page(tiles: list[tuple[str, bytes]]) -> Image.Image:
    """Figures at their own size (shrunk only where one is larger than a tile)."""
    rows = -(-len(tiles) // COLUMNS)
    page = Image.new("RGB", (COLUMNS * TILE[0], rows * TILE[1]), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=24)
    for index, (name, png) in enumerate(tiles):
        x, y = index % COLUMNS * TILE[0] + 10, index // COLUMNS * TILE[1]
        draw.text((x, y + 4), name, fill="black", font=font)
        small = Image.open(io.BytesIO(png)).convert("RGB")
        small.thumbnail((TILE[0] - 20, TILE[1] - CAPTION - 10))
        page.paste(small, (x, y + CAPTION))
    return page
