"""The reading site: Sphinx and MyST-NB make a folder that opens from a stick.

Nothing in it asks the network. MathJax is copied out of a wheel at build time.
"""

from __future__ import annotations

import html
import importlib.metadata
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lmbook import chapters
from lmbook.press import compare, editions, handouts
from lmbook.press.run import BUILD, environment, read

FOLDER = BUILD / "site"
SOURCE = chapters.ROOT / "site"
#: From its wheel, with the licence under which it may be passed on.
MATHJAX = {"es5/tex-svg.js": "tex-svg.js", "LICENSE": "tex-svg.LICENSE.txt"}

#: Regular and bold, as site.css names them.
FONTS = ("lesson-jp.woff", "lesson-jp-bold.woff")
#: What the theme leaves in English, in titles and labels.
LABELS = {
    "Link to this heading": "この見出しへのリンク",
    "Toggle hidden content": "開く、閉じる",
    "Toggle primary sidebar": "章の一覧を出す、しまう",
    "Toggle secondary sidebar": "このページの内容を出す、しまう",
    "System Settings": "端末の設定",
    "Color mode": "明るさ",
    "Main": "章の一覧",
    "Page": "このページの内容",
}
LABELLED = rf'(title|aria-label)="({"|".join(LABELS)})"'


class Splitter:
    """The words of Sphinx's search index, for Japanese and for names of code.

    A reader's word of two characters is looked up as it is, a longer one as a part
    of any word of the index. So a run of letters is one word, and each two characters
    of a Japanese run are another.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """Sphinx passes ``html_search_options``."""

    def split(self, text: str) -> list[str]:
        words = re.findall(r"[A-Za-z0-9_]+|[^\W\dA-Za-z_]+", text)
        pairs = (w[i : i + 2] for w in words if ord(w[0]) > 127 for i in range(len(w)))
        return [*words, *pairs]


class SiteError(RuntimeError):
    """Sphinx failed or warned; holds what it said."""


def build(
    notebooks: Sequence[Path],
    folder: Path = FOLDER,
    *,
    printed: Path = handouts.FOLDER,
    answers: bool = True,
) -> Path:
    """The site of ``notebooks`` in ``folder``; the page to open.

    ``printed`` holds the handouts, whose student files are offered. Without
    ``answers`` none is in any file. ``folder`` is replaced by a whole site only.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site-", dir=folder.parent) as place:
        source, made = Path(place) / "source", Path(place) / "site"
        write_source(notebooks, source, printed, answers=answers)
        _sphinx(source, made, Path(place) / "doctrees")
        _replace(folder, made, Path(place) / "old")
    return folder / "index.html"


def _replace(folder: Path, made: Path, old: Path) -> None:
    """``made`` becomes ``folder``; what was there goes to ``old``, or stays."""
    if folder.exists():
        folder.replace(old)
    try:
        made.replace(folder)
    except BaseException:
        if old.exists():
            old.replace(folder)
        raise


def write_source(
    notebooks: Sequence[Path], source: Path, printed: Path, *, answers: bool
) -> None:
    """All that Sphinx reads: settings, pages, chapters, MathJax and downloads."""
    shutil.copytree(SOURCE, source)
    static = source / "_static"
    shutil.copy(SOURCE / "overfit-figure.png", static)
    wheel = importlib.metadata.distribution("django-static-mathjax")
    for name, target in MATHJAX.items():
        file = wheel.locate_file(f"mathjax/static/mathjax/{name}")
        shutil.copy(str(file), static / target)
    edition: editions.Edition = "self" if answers else "student"
    for path in notebooks:
        page = editions.split(read(path), edition, path.name, "web")
        page = editions.prepared(page, "web")
        (source / path.name).write_text(compare.text_of(page), encoding="utf-8")
        for name in student_files(path):
            (source / "files").mkdir(exist_ok=True)
            shutil.copy(printed / name, source / "files")
    index = (source / "index.md").read_text(encoding="utf-8")
    for name, text in {
        "chapters": chapter_table(notebooks),
        "downloads": "\n".join(map(_downloads, notebooks)),
        "pages": "\n".join(path.stem for path in notebooks),
    }.items():
        index = index.replace(f"{{{name}}}", text)
    (source / "index.md").write_text(index, encoding="utf-8")


def student_files(path: Path) -> list[str]:
    """Names of the handouts of a chapter that anyone may have."""
    return [f"{path.stem}_student.pdf", f"{path.stem}_student.ipynb"]


def chapter_table(notebooks: Sequence[Path]) -> str:
    """README.ja.md's first table, that of chapters, with links to the site's pages."""
    readme = (chapters.ROOT / "README.ja.md").read_text(encoding="utf-8")
    table = re.search(r"(?:^\|.*\|\n)+", readme, re.MULTILINE)
    rows = table[0].splitlines() if table else []
    here = {path.name for path in notebooks}

    def link(match: re.Match[str]) -> str:
        return f"[{match[1]}]({match[2]})" if match[2] in here else match[1]

    return "\n".join(re.sub(r"\[(.+?)\]\(notebooks/(.+?)\)", link, row) for row in rows)


def _downloads(path: Path) -> str:
    words = ("印刷用（PDF）", "ノートブック")
    links = [
        f"{{download}}`{word} <files/{name}>`"
        for word, name in zip(words, student_files(path), strict=True)
    ]
    return f"- 第{int(path.stem[:2])}章　生徒用 {'、'.join(links)}"


def _sphinx(source: Path, made: Path, doctrees: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    command += ["-b", "html", "-d", str(doctrees), str(source), str(made)]
    done = subprocess.run(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode or done.stdout.strip():
        raise SiteError(f"the site was not built: {done.stdout.strip()}")
    texts = []
    for page in sorted(made.glob("*.html")):
        texts.append(re.sub(LABELLED, _in_japanese, page.read_text(encoding="utf-8")))
        page.write_text(texts[-1], encoding="utf-8")
    _write_fonts(html.unescape("".join(texts)), made / "_static")
    (made / ".buildinfo").unlink(missing_ok=True)
    for file in made.rglob("*.map"):  # for debuggers of the theme
        file.unlink()


def _in_japanese(label: re.Match[str]) -> str:
    return f'{label[1]}="{LABELS[label[2]]}"'


def _write_fonts(text: str, static: Path) -> None:
    """The gothic of plots and paper, cut to ``text``, for readers who have none."""
    from fontTools import subset

    from lmbook import plots

    messages = (static / "translations.js").read_text(encoding="utf-8")
    wanted = {int(code, 16) for code in re.findall(r"\\u([0-9a-f]{4})", messages)}
    wanted |= {ord(c) for c in text if not c.isascii()}
    options = subset.Options(
        flavor="woff", layout_features=[], hinting=False, name_IDs=[0, 13, 14]
    )
    for path, name in zip(plots.fonts(), FONTS, strict=True):
        font = subset.load_font(str(path), options)
        font.recalcTimestamp = False
        cutter = subset.Subsetter(options)
        cutter.populate(unicodes=wanted)
        cutter.subset(font)
        buffer = io.BytesIO()
        subset.save_font(font, buffer, options)
        (static / name).write_bytes(buffer.getvalue())
