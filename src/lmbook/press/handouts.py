"""Handouts on paper: pandoc reads an edition, typst sets it as A4, black and white.

Everything comes from wheels: both programs, both fonts. No browser, no TeX.
"""

from __future__ import annotations

import base64
import copy
import functools
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell
from PIL import Image, ImageChops

import lmbook
from lmbook import chapters
from lmbook.press import compare, editions
from lmbook.press.compare import PNG
from lmbook.press.run import BUILD, environment, read

FOLDER = BUILD / "handouts"
TEMPLATES = chapters.ROOT / "handouts"
COURSE = "動かして読む言語モデル"
EDITIONS: dict[editions.Edition, str] = {"student": "生徒用", "teacher": "教師用"}
#: More lines than this in one output are no page for a class.
MAX_LINES = 120
#: Dots to an inch of a figure that does not say.
DPI = 150
#: Dots to an inch of the pages that are looked through for overflow.
PPI = 36
#: JupyterLab's Markdown, less what is lost on paper or altered without a word.
READER = "ipynb-raw_html-smart"


class HandoutError(RuntimeError):
    """A chapter that cannot be printed as it is; names chapter and cell."""


@dataclass(frozen=True)
class Made:
    """One chapter's handouts."""

    chapter: str
    files: list[Path]
    pages: dict[str, int]
    seconds: float

    def __str__(self) -> str:
        pages = ", ".join(f"{name} {n} pages" for name, n in self.pages.items())
        return f"{self.chapter}: {pages}, {self.seconds:.1f} s"


def build(notebooks: Iterable[Path], folder: Path = FOLDER) -> list[Made]:
    """Both PDFs, the student and the nbgrader notebook of each chapter.

    A file is replaced only by a whole new one. Raises HandoutError, EditionError.
    """
    return [_chapter(path, folder) for path in notebooks]


def _chapter(path: Path, folder: Path) -> Made:
    start, notebook = time.monotonic(), read(path)
    made: dict[str, bytes] = {}
    pages: dict[str, int] = {}
    for edition in EDITIONS:
        made[f"{path.stem}_{edition}.pdf"], pages[edition] = pdf(
            notebook, edition, path.name
        )
    same = compare.clean(notebook)  # an execution adds its Python's version
    for name, content in {
        f"{path.stem}_student.ipynb": student_notebook(same, path.name),
        f"nbgrader/{path.stem}.ipynb": editions.nbgrader(same, path.name),
    }.items():
        made[name] = compare.text_of(content).encode("utf-8")
    for name, content in made.items():
        write_bytes(folder / name, content)
    files = [folder / name for name in made]
    return Made(path.stem, files, pages, time.monotonic() - start)


def write_bytes(path: Path, content: bytes) -> None:
    """``path`` holds the old or the new bytes, never a part of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def pdf(notebook: Any, edition: editions.Edition, name: str) -> tuple[bytes, int]:
    """The edition as a PDF, and its number of pages. Raises HandoutError."""
    for cell, fault in compare.count_faults(notebook):
        raise HandoutError(f"{name}, cell {cell}: {fault}")
    page = editions.split(notebook, edition, name, "paper")
    page = editions.prepared(page, "paper")
    page.cells = [part for cell in page.cells for part in _printable(cell, name)]
    for cell in page.cells:
        _refuse_tofu(cell, name)
    title = next((c.source for c in page.cells if c.source.startswith("# ")), name)
    variables = {
        "title": _quoted(title.split("\n")[0].removeprefix("# ")),
        "course": COURSE,
        "edition": edition,
        "edition-name": EDITIONS[edition],
        "version": f"v{lmbook.__version__}",
    }
    try:
        return _print(page, variables)
    except HandoutError as error:
        where = _culprit(page, variables, str(error))
        raise HandoutError(f"{name}, cell {where}: {error}") from error


def _quoted(text: str) -> str:
    """``text`` as it stands between the quotes of a string of typst."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _culprit(page: Any, variables: dict[str, str], message: str) -> str:
    """The id of the cell to which a message of pandoc or typst belongs."""
    label = re.search(r"label `<(.+)>`", message)
    if label:
        return next((c.id for c in page.cells if f"(#{label[1]})" in c.source), "?")
    suspects = page.cells
    while len(suspects) > 1:
        part = copy.copy(page)
        part.cells = suspects[: len(suspects) // 2]
        try:
            _print(part, variables)
            failed = False
        except HandoutError as error:
            failed = "label `<" not in str(error)
        suspects = part.cells if failed else suspects[len(part.cells) :]
    return str(suspects[0].id)


def _print(page: Any, variables: dict[str, str]) -> tuple[bytes, int]:
    with tempfile.TemporaryDirectory(prefix="lmbook-") as place:
        folder = Path(place)
        shutil.copy(TEMPLATES / "bw.tmTheme", folder)
        text = _pandoc(page, variables, folder)
        (folder / "page.typ").write_text(text, encoding="utf-8")
        return _typst(folder / "page.typ")


def student_notebook(notebook: Any, name: str) -> Any:
    """The student's notebook to hand out; without lmbook it says what it needs."""
    done = editions.prepared(editions.split(notebook, "student", name), "ipynb")
    done.cells.insert(0, editions.needs_lmbook())
    return done


def _printable(cell: Any, name: str) -> Iterator[Any]:
    """A cell as pandoc shows it whole: tables as Markdown, figures grey.

    pandoc takes an output's plain text where there is Markdown, so an output that is
    Markdown becomes a Markdown cell, and what follows it another code cell.
    """
    if cell.cell_type != "code":
        short = len(cell.source) < 900 and cell.source.count("\n") < 30
        cell.metadata["whole"] = short and cell.metadata.get("lines", 0) <= 15
        yield cell
        return
    outputs, now = cell.outputs, cell
    now.outputs = []
    for number, output in enumerate(outputs, 1):
        data = output.get("data", {})
        _refuse_output(output, f"{name}, cell {cell.id}")
        if PNG in data:  # its description would be printed below it
            data.pop("text/plain", None)
            data[PNG] = _grey(data[PNG], f"{name}, cell {cell.id}")
        if output.output_type == "execute_result":  # pandoc wants its count
            output = nbformat.v4.new_output(
                "display_data", data, metadata=output.metadata
            )
        if "text/markdown" not in data:
            now.outputs.append(output)
            continue
        yield now
        yield new_markdown_cell(data["text/markdown"], id=f"{cell.id}-table-{number}")
        now = new_code_cell(id=f"{cell.id}-rest-{number}")
    if now is cell or now.outputs:
        yield now


def _refuse_output(output: Any, where: str) -> None:
    data = output.get("data", {})
    if strange := set(data) - {PNG, "text/markdown", "text/plain"}:
        raise HandoutError(f"{where}: an output that paper cannot show: {strange}")
    shown = output.get("text", data.get("text/markdown", data.get("text/plain", "")))
    lines = shown.count("\n") + 1
    if PNG not in data and lines > MAX_LINES:
        raise HandoutError(f"{where}: an output of {lines} lines, {MAX_LINES} fit")


def _grey(png: str, where: str) -> str:
    """A PNG in base64 without its colours."""
    buffer = io.BytesIO()
    try:
        with Image.open(io.BytesIO(base64.b64decode(png))) as image:
            size = image.info.get("dpi", (DPI, DPI))
            flat = Image.new("RGB", image.size, "white")
            flat.paste(image, mask=image.convert("RGBA").getchannel("A"))
            flat.convert("L").save(buffer, "PNG", dpi=size)
    except (OSError, ValueError) as error:
        raise HandoutError(f"{where}: a figure is missing: {error}") from error
    return base64.b64encode(buffer.getvalue()).decode("ascii")


@functools.cache
def glyphs() -> frozenset[int]:
    """Every character that the gothic and the mono font can draw.

    typst's wheel carries DejaVu Sans Mono inside; matplotlib has the same one.
    """
    import matplotlib
    from fontTools.ttLib import TTFont

    from lmbook import plots

    mono = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"
    fonts = (TTFont(path, lazy=True) for path in (*plots.fonts(), mono))
    return frozenset().union(*(font.getBestCmap() for font in fonts))


def _refuse_tofu(cell: Any, name: str) -> None:
    """typst draws an empty box for a missing glyph and says nothing."""
    texts = [cell.source]
    for output in cell.get("outputs", []):  # a figure has lost its text/plain
        texts += [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
    missing = sorted(
        {c for c in "".join(texts) if ord(c) not in glyphs()} - set("\n\t")
    )
    if missing:
        named = ", ".join(f"{c} (U+{ord(c):04X})" for c in missing)
        raise HandoutError(f"{name}, cell {cell.id}: no glyph for {named}")


def _pandoc(page: Any, variables: dict[str, str], folder: Path) -> str:
    import pypandoc

    command = [pypandoc.get_pandoc_path(), f"--from={READER}", "--to=typst"]
    command += ["--wrap=preserve", "--fail-if-warnings", "--sandbox"]
    command += [f"--lua-filter={TEMPLATES / 'handout.lua'}"]
    command += [f"--template={TEMPLATES / 'handout.typ'}"]
    # Not as arguments: a C locale has no Japanese ones.
    defaults = json.dumps({"variables": variables})
    (folder / "defaults.yaml").write_text(defaults, encoding="ascii")
    command += ["--defaults=defaults.yaml"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        input=nbformat.writes(page),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode or done.stderr.strip():
        raise HandoutError(
            done.stderr.strip() or f"pandoc ended with {done.returncode}"
        )
    return str(done.stdout)


def _typst(source: Path) -> tuple[bytes, int]:
    import typst

    from lmbook import plots

    folders = sorted({font.parent for font in plots.fonts()})
    fonts = typst.Fonts(include_system_fonts=False, font_paths=folders)
    try:
        compiler = typst.Compiler(source, font_paths=fonts)
        made, warnings = compiler.compile_with_warnings(
            format="pdf", timestamp=0, pdf_standards="ua-1"
        )
        pages = compiler.query("<last>", field="value", one=True)
        drawn = compiler.compile(format="png", ppi=PPI)
    except typst.TypstError as error:
        raise HandoutError(f"typst: {error.message}") from error
    if warnings:
        raise HandoutError(f"typst: {warnings[0].message}")
    assert isinstance(made, bytes)
    for number, page in enumerate(drawn if isinstance(drawn, list) else [drawn], 1):
        if _overflows(page):
            raise HandoutError(f"something does not fit on page {number}")
    return made, int(pages)


def _overflows(png: Any) -> bool:
    """Whether there is ink outside the frame of header, body and footer.

    typst says nothing of what is wider than a line or taller than a page.
    """
    with Image.open(io.BytesIO(png)) as image:
        ink = ImageChops.invert(image.convert("L"))
    left, _, right, bottom = ink.getbbox() or (0, 0, 0, 0)
    above_footer = ink.crop((0, _dots(280), ink.width, _dots(283)))
    return (
        left < _dots(19)
        or right > _dots(191)
        or bottom > _dots(290)
        or above_footer.getbbox() is not None
    )


def _dots(millimetres: float) -> int:
    return round(millimetres / 25.4 * PPI)
