"""The corpora of the course and a strict line reader.

Everything is read from the package's own folder, in UTF-8, without a network.
Nothing here needs torch.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

CORPORA = Path(__file__).parent / "corpora"
NAMES = {"en": "names_en.txt", "ja": "names_ja.txt"}
SENTENCES = {"MIX12": "mix12.txt", "ORDER6": "order6.txt", "ROLES": "roles.txt"}
# Over the text without BOM and with LF, so that a CRLF checkout has the same sums.
SHA256 = {
    "mix12.txt": "a34044cc016d8bbd0ec92c9d806cf0b9c98820a60afc62ecad074c6056153816",
    "names_en.txt": "cba14f452b7768bd7fe093035a67491d4a334061634ccfd51522fb796910e75e",
    "names_ja.txt": "a83b3fb619211bfeec20d2c16cb8d0c1294cf90fad9cb23ece692dee4cfa63a6",
    "order6.txt": "a2f63f72f5fa5f950dd933750229cf145830ce8312f5ed14e8312357f3c1c9b9",
    "roles.txt": "f1495851b5fa8cd53b625f82e04c152bf05d777c791a132e88f3180f337d645c",
}

_ALLOWED = "1 行に 1 件を書いた UTF-8 のテキストファイルにします"
_HTML = re.compile(r"<(!doctype|!--|\?xml|html|head|body|title|script|meta)\b|</html>")
# Nobody sees these in a line, but each would be a symbol; joiners (U+200C, U+200D)
# and variation selectors stay: scripts and emoji need them.
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ufffe\uffff]"
)


# Lines


def load_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a UTF-8 text file, stripped, blank ones dropped, in order.

    A BOM at the start and CRLF or CR line ends are accepted. Letters come composed
    (NFC), however the file spells them. Repeated lines stay.

    Raises (in Japanese, naming the file, what was found and what is allowed):
    TypeError for a ``path`` that is no path; FileNotFoundError; IsADirectoryError;
    another OSError for a file that cannot be opened; ValueError for a pipe or a
    device, bytes that are not UTF-8, a web page instead of data, a character that
    cannot be seen (a tab inside a line, NUL, a BOM in the middle, a zero-width
    space), U+FFFD, or no usable line.
    """
    return _lines(_read(path), Path(path))


def _read(path: str | os.PathLike[str]) -> str:
    """The file's text without BOM, all line ends ``\\n``."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            "path はファイルの場所を表す文字列か Path で指定します"
            f"（受け取った値: {path!r}）。"
        )
    file = Path(path)
    try:
        content = file.read_bytes() if file.is_file() else None
    except OSError as error:
        raise type(error)(f"{file} を開けません（{error.strerror}）。") from error
    if content is None and file.is_dir():
        raise IsADirectoryError(
            f"{file} はフォルダーです。読めるのはファイルです。{_ALLOWED}。"
        )
    if content is None and not file.exists():
        raise FileNotFoundError(
            f"{file} が見つかりません（今のフォルダー: {Path.cwd()}）。"
            "ファイル名と場所を確かめます。"
        )
    if content is None:  # a pipe, which would be waited for, or a device
        raise ValueError(f"{file} はふつうのファイルではありません。{_ALLOWED}。")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} は UTF-8 として読めません"
            f"（{error.start} バイト目に 0x{error.object[error.start]:02x}、"
            "先頭は 0 バイト目）。Shift_JIS（cp932）や UTF-16 で保存したか、"
            f"途中で切れたファイルかもしれません。{_ALLOWED}。"
        ) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _lines(text: str, file: Path) -> list[str]:
    lines: list[str] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip(" \t")
        _check(line, f"{file} の {number} 行目", first=not lines)
        if line.strip():
            lines.append(unicodedata.normalize("NFC", line.strip()))
    if not lines:
        raise ValueError(f"{file} には使える行が 1 行もありません。{_ALLOWED}。")
    return lines


def _check(line: str, where: str, first: bool) -> None:
    """Refuse a line of a broken file, or of something that is no corpus at all."""
    html = _HTML.search(line.lower())
    if html and ((html.start() == 0 and first) or html.group() == "</html>"):
        raise ValueError(
            f"{where}は Web ページ（HTML）のようです: {line[:40]!r}。"
            f"ダウンロードに失敗したファイルかもしれません。{_ALLOWED}。"
        )
    if hidden := _HIDDEN.search(line):
        raise ValueError(
            f"{where}に制御文字 U+{ord(hidden.group()):04X} があります"
            f"（{hidden.start() + 1} 文字目）。"
            f"改行と、行の両端のタブのほかに制御文字は使えません。{_ALLOWED}。"
        )
    if "\ufffd" in line:
        raise ValueError(
            f"{where}に文字化けの印 U+FFFD があります"
            f"（{line.index(chr(0xFFFD)) + 1} 文字目）。"
            f"別の文字コードから変換しそこねたファイルです。{_ALLOWED}。"
        )


# Corpora


def names(language: str) -> list[str]:
    """First names: ``"en"`` 5,163 in a–z, ``"ja"`` 9,208 hiragana readings.

    Sorted by code point and distinct; origin and licence stand in
    ``corpora/README.md``. Raises ValueError for another ``language`` and for a
    file that differs from the published one.
    """
    return _corpus("language", language, NAMES)


def sentences(name: str) -> list[str]:
    """Sentences, tokens set apart by one half-width space, in the file's order.

    ``"MIX12"``: 12 sentences (4 Chinese, 8 Japanese) whose every ending follows
    from its beginning. ``"ORDER6"``: 6 in pairs that only the order of the words
    tells apart. ``"ROLES"``: 36 of the form ``noun verb``, 3 roles of 4 nouns with
    3 verbs each, without a particle. Raises like :func:`names`.
    """
    return _corpus("name", name, SENTENCES)


def _corpus(argument: str, value: str, files: dict[str, str]) -> list[str]:
    if not isinstance(value, str) or value not in files:
        legal = "、".join(repr(key) for key in files)
        raise ValueError(
            f"{argument} は {legal} のどれかで指定します（受け取った値: {value!r}）。"
        )
    file = CORPORA / files[value]
    text = _read(file)
    if hashlib.sha256(text.encode("utf-8")).hexdigest() != SHA256[file.name]:
        raise ValueError(
            f"{file} の中身が教材のものと違います（SHA-256 が一致しません）。"
            "途中で切れたか、書き換えられています。元のファイルに戻します: "
            f"git checkout -- src/lmbook/corpora/{file.name}"
        )
    return _lines(text, file)


def split(
    lines: Iterable[str], held_out: int, seed: int
) -> tuple[list[str], list[str]]:
    """Shuffle the distinct ``lines``; return ``(train, held_out lines)``.

    Repeated lines are dropped first, so that no line stands on both sides. The
    shuffle has its own ``random.Random(seed)`` and leaves the global one alone.
    Raises TypeError for lines that are not strings or for counts that are not ints,
    ValueError unless ``1 <= held_out <= (distinct lines) - 1`` and ``seed >= 0``.
    """
    wrong = isinstance(lines, str) or not isinstance(lines, Iterable)
    listed = [] if wrong else list(lines)
    if wrong or not all(isinstance(line, str) for line in listed):
        shown = repr(lines)[:60]
        raise TypeError(
            f"lines は文字列のリストで指定します（受け取った値: {shown}）。"
        )
    for name, value in (("held_out", held_out), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} は整数で指定します（受け取った値: {value!r}）。")
    distinct = list(dict.fromkeys(listed))
    if len(distinct) < 2:
        raise ValueError(
            "lines には異なる行が 2 行以上必要です"
            f"（受け取った異なる行: {len(distinct)} 行）。"
        )
    if not 1 <= held_out <= len(distinct) - 1:
        raise ValueError(
            f"held_out は 1 から {len(distinct) - 1} までの整数で指定します"
            f"（受け取った値: {held_out}、異なる行は {len(distinct)} 行）。"
        )
    if seed < 0:
        raise ValueError(f"seed は 0 以上で指定します（受け取った値: {seed}）。")
    random.Random(seed).shuffle(distinct)
    return distinct[:-held_out], distinct[-held_out:]
