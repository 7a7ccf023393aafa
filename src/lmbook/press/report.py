"""One HTML file that shows every difference: text diffs and pictures, nothing else."""

from __future__ import annotations

import base64
import difflib
import html
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from lmbook.press.compare import Difference, Report, pixels
from lmbook.press.run import write_text

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Notebook differences</title><style>
body { font-family: sans-serif; margin: 2em; } pre { background: #f4f4f4; padding: 1em }
img { border: 1px solid #888; max-width: 32% } h3 { margin-top: 2em }
</style></head><body><h1>Notebook differences</h1>
"""


def write_html(reports: Iterable[Report], path: Path) -> None:
    """Write all ``reports`` with their differences to ``path``."""
    parts = [HEAD]
    for report in reports:
        parts.append(f"<h2>{html.escape(str(report))}</h2>\n")
        parts += [_section(d) for d in report.differences]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(parts) + "</body></html>\n")


def _section(difference: Difference) -> str:
    head = f"<h3>{html.escape(str(difference))}</h3>\n"
    expected, actual = difference.expected, difference.actual
    if isinstance(expected, bytes) and isinstance(actual, bytes):
        return head + _pictures(expected, actual)
    if isinstance(expected, str) and isinstance(actual, str) and expected != actual:
        return head + f"<pre>{html.escape(text_diff(expected, actual))}</pre>\n"
    return head


def text_diff(expected: str, actual: str) -> str:
    """A unified diff of two texts."""
    lines = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm=""
    )
    return "\n".join(lines)


def _pictures(expected: bytes, actual: bytes) -> str:
    shown = [("expected", expected), ("actual", actual)]
    difference = _difference(expected, actual)
    if difference:
        shown.append(("difference", difference))
    return "".join(
        f'<img alt="{name}" title="{name}" '
        f'src="data:image/png;base64,{base64.b64encode(png).decode("ascii")}">\n'
        for name, png in shown
    )


def _difference(expected: bytes, actual: bytes) -> bytes | None:
    """Where two pictures of one size differ, black on white; None where they cannot."""
    try:
        a, b = pixels(expected), pixels(actual)
    except OSError:
        return None
    if a.shape != b.shape:
        return None
    off = np.abs(a - b).max(axis=2)
    shade = np.where(off > 0, np.clip(160 - 4 * off, 0, 160), 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(shade).save(buffer, "PNG")
    return buffer.getvalue()
