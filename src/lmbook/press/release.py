"""Zips for people who do not clone: a student kit, a teacher kit, the site."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import lmbook
from lmbook.press import handouts, site
from lmbook.press.handouts import write_bytes
from lmbook.press.run import BUILD

FOLDER = BUILD / "release"
SUMS = "SHA256SUMS"
STUDENT = """動かして読む言語モデル（版 {version}）

- PDF は印刷して使います。
- ノートブック（.ipynb）を動かすには、教材のフォルダで make book を
  実行した環境が必要です。教材のフォルダは git clone で手に入れます。

文章と図は CC BY 4.0、コードは MIT ライセンスです。The lmbook authors.
"""
TEACHER = """動かして読む言語モデル　教師用（版 {version}）

- *_teacher.pdf に、授業案・解答例・つまずき・観点別があります。
  生徒に配らないでください。
- nbgrader/ は、答えの入った nbgrader 用のノートブックです。
  課題を作ると答えは消えます。

文章と図は CC BY 4.0、コードは MIT ライセンスです。The lmbook authors.
"""


def release(
    notebooks: Iterable[Path],
    folder: Path,
    printed: Path = handouts.FOLDER,
    pages: Path = site.FOLDER,
) -> list[Path]:
    """Three zips and their SHA-256 in ``folder``, from handouts and site as built."""
    paths = list(notebooks)
    kits = {
        "student": _kit([n for p in paths for n in site.student_files(p)], printed)
        | {"README.txt": STUDENT.format(version=lmbook.__version__).encode("utf-8")},
        "teacher": _kit([n for p in paths for n in _teacher_files(p)], printed)
        | {"README.txt": TEACHER.format(version=lmbook.__version__).encode("utf-8")},
        "site": _kit(
            [f.relative_to(pages).as_posix() for f in pages.rglob("*") if f.is_file()],
            pages,
        ),
    }
    made = []
    for kit, files in kits.items():
        name = f"lmbook-{lmbook.__version__}-{kit}"
        made.append(folder / f"{name}.zip")
        write_bytes(made[-1], zipped(name, files))
    sums = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in made]
    write_bytes(folder / SUMS, "".join(sums).encode("ascii"))
    return [*made, folder / SUMS]


def _teacher_files(path: Path) -> list[str]:
    return [
        f"{path.stem}_teacher.pdf",
        f"{path.stem}_student.pdf",
        f"nbgrader/{path.name}",
    ]


def _kit(names: Sequence[str], folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


def zipped(top: str, files: Mapping[str, bytes]) -> bytes:
    """A zip of ``files`` below the folder ``top``; equal files give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{top}/{name}", (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
