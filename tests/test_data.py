"""Corpora, the strict line reader, the split, and the floors that a README gives."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import entropy_floors
from hypothesis import given
from hypothesis import strategies as st

import lmbook
from lmbook import data

ROOT = Path(__file__).parents[1]
CORPORA = ROOT / "src/lmbook/corpora"
PACKAGES = ROOT / "build/packages"  # derive.py --keep build/packages
FILES = ["mix12.txt", "names_en.txt", "names_ja.txt", "order6.txt", "roles.txt"]


@pytest.fixture
def write(tmp_path):
    """Write bytes to a file of ``tmp_path`` and return its path."""

    def write_bytes(content: bytes, name: str = "lines.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_bytes


# Lines


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"emma\nava\nanna\n", ["emma", "ava", "anna"]),
        (b"emma\nava\nanna", ["emma", "ava", "anna"]),
        (b"\xef\xbb\xbfemma\nava\n", ["emma", "ava"]),
        (b"emma\r\nava\r\n", ["emma", "ava"]),
        (b"emma\rava\r", ["emma", "ava"]),
        (b"\n  \n\temma \t\n\n\nava\n \n", ["emma", "ava"]),
        ("\u3000美咲\u3000\nJosé\n".encode(), ["美咲", "José"]),
        (b"b\na\nb\n", ["b", "a", "b"]),
        (b"<BOS>\na < b\n", ["<BOS>", "a < b"]),
        ("犬 が\u3000走る\n👩\u200d💻\n".encode(), ["犬 が\u3000走る", "👩\u200d💻"]),
        ("が\nか\u3099\nJose\u0301\n".encode(), ["が", "が", "José"]),
    ],
)
def test_lines_that_are_read(write, content, expected):
    path = write(content)
    assert data.load_lines(path) == expected
    assert data.load_lines(str(path)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("あ\n美咲\n".encode("cp932"), r"UTF-8 として読めません（0 バイト目に 0x82"),
        ("ava\n".encode("utf-16"), r"UTF-8 として読めません（0 バイト目に 0xff"),
        ("さくら\n".encode()[:-2], r"UTF-8 として読めません（6 バイト目に 0xe3"),
        (b"", "使える行が 1 行もありません"),
        (b"\xef\xbb\xbf", "使える行が 1 行もありません"),
        (" \r\n\t\n\u3000\n".encode(), "使える行が 1 行もありません"),
        (b"ok\nem\x00ma\n", r"2 行目に制御文字 U\+0000 があります（3 文字目）"),
        (b"em\tma\n", r"1 行目に制御文字 U\+0009 があります（3 文字目）"),
        (b"emma\x0c\n", r"制御文字 U\+000C"),
        ("em\u0085ma\n".encode(), r"制御文字 U\+0085"),
        ("em\u2028ma\n".encode(), r"制御文字 U\+2028"),
        ("ok\n\u200b\n".encode(), r"2 行目に制御文字 U\+200B があります（1 文字目）"),
        ("em\u202ema\n".encode(), r"制御文字 U\+202E"),
        ("em\u00adma\n".encode(), r"制御文字 U\+00AD"),
        ("emma\n".encode("utf-16-le"), r"制御文字 U\+0000"),
        ("a\n\ufeffb\n".encode(), r"2 行目に制御文字 U\+FEFF"),
        ("さ\ufffdら\n".encode(), r"1 行目に文字化けの印 U\+FFFD があります（2 文字目"),
        (b"<html><body>Proxy login</body></html>", "1 行目は Web ページ"),
        (b"\n <!DOCTYPE html>\n<p>", "2 行目は Web ページ"),
        (b"Loading\n</HTML>\n", "2 行目は Web ページ"),
    ],
)
def test_lines_that_are_refused(write, content, message):
    path = write(content)
    with pytest.raises(ValueError, match=message) as caught:
        data.load_lines(path)
    assert str(path) in str(caught.value)
    assert "UTF-8 のテキストファイルにします" in str(caught.value)


def test_missing_file_and_folder(tmp_path):
    missing = tmp_path / "ない.txt"
    with pytest.raises(FileNotFoundError, match=r"ない\.txt が見つかりません"):
        data.load_lines(missing)
    with pytest.raises(IsADirectoryError, match="はフォルダーです"):
        data.load_lines(tmp_path)


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in ("/dev/null", pipe):  # in this order: the other would hang
        with pytest.raises(
            ValueError, match=f"^{path} はふつうのファイルではありません"
        ):
            data.load_lines(path)


@pytest.mark.parametrize(
    ("error", "reason"), [(errno.EACCES, "Permission denied"), (errno.EIO, "Input")]
)
def test_a_file_that_cannot_be_opened_is_named(write, monkeypatch, error, reason):
    def fail(_):
        raise OSError(error, os.strerror(error))

    path = write(b"emma\n")
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(OSError, match=rf"lines\.txt を開けません（{reason}") as caught:
        data.load_lines(path)
    assert isinstance(caught.value, PermissionError) == (error == errno.EACCES)
    with pytest.raises(OSError, match="開けません（File name too long）"):
        data.load_lines("a" * 5000)


@pytest.mark.parametrize("path", [0, None, b"names.txt", ["names.txt"]])
def test_path_that_is_no_path(path):
    with pytest.raises(TypeError, match="path は"):
        data.load_lines(path)


LINE = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="<\ufffd"),
    min_size=1,
)


@given(st.lists(LINE, min_size=1), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_written_lines_come_back_composed(tmp_path_factory, lines, end, bom):
    path = tmp_path_factory.getbasetemp() / "round_trip.txt"
    text = ("\ufeff" if bom else "") + end.join(lines)
    path.write_bytes(text.encode("utf-8"))
    composed = [unicodedata.normalize("NFC", line) for line in lines]
    assert data.load_lines(path) == composed


@given(st.binary(max_size=60))
def test_any_bytes_give_clean_lines_or_a_clear_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(content)
    try:
        lines = data.load_lines(path)
    except ValueError as error:
        assert not isinstance(error, UnicodeError)
        assert str(path) in str(error)
    else:
        assert lines
        assert all(line and line == line.strip() for line in lines)
        assert not re.search(r"[\x00-\x1f\ufeff\ufffd]", "".join(lines))


# Corpora


@pytest.mark.parametrize("file", FILES)
def test_committed_bytes(file):
    content = (CORPORA / file).read_bytes()
    text = content.decode("utf-8").replace("\r\n", "\n")  # an autocrlf checkout
    assert hashlib.sha256(text.encode("utf-8")).hexdigest() == data.SHA256[file]
    readme = (CORPORA / "README.md").read_text(encoding="utf-8")
    row = next(r for r in readme.splitlines() if r.startswith(f"| `{file}` |"))
    lines = text.split("\n")
    assert lines.pop() == ""
    facts = f"{len(lines):,} | {len(text.encode('utf-8')):,} | `{data.SHA256[file]}`"
    assert facts in row
    assert len(set(lines)) == len(lines)
    assert all(line == line.strip() != "" for line in lines)


def test_every_corpus_file_has_a_checksum():
    files = {f.name for f in CORPORA.glob("*.txt")}
    assert {f for f in files if not f.startswith("LICENSE.")} == set(FILES)
    assert set(data.SHA256) == set(FILES)


def test_names():
    en, ja = data.names("en"), data.names("ja")
    assert (len(en), len(ja)) == (5163, 9208)
    assert en == sorted(en)
    assert ja == sorted(ja)
    assert {"emma", "anna", "mary", "james"} <= set(en)
    assert {"さくら", "はなこ", "たろう"} <= set(ja)
    assert "".join(sorted(set("".join(en)))) == "abcdefghijklmnopqrstuvwxyz"
    assert (len(set("".join(ja))), max(map(len, en)), max(map(len, ja))) == (74, 11, 8)
    assert all("ぁ" <= c <= "ん" for name in ja for c in name)


def test_each_call_gives_a_new_list():
    data.names("en").clear()
    assert len(data.names("en")) == 5163


def test_mix12_teaches_what_the_chapter_needs():
    lines = [line.split(" ") for line in data.sentences("MIX12")]
    assert len(lines) == 12
    assert lines[0] == ["合同", "违约金", "过高", "，", "它", "可能", "存在", "风险"]
    assert sum("契約" in line for line in lines) == 4
    after = {
        token: {line[i + 1] for line in lines for i, t in enumerate(line) if t == token}
        for token in ("可能", "それ", "は", "を")
    }
    assert after["それ"] == {"は", "を"}
    assert min(len(after[t]) for t in ("可能", "は", "を")) == 4
    # The first three tokens settle every ending.
    starts = {tuple(line[:3]) for line in lines}
    assert len(starts) == 12


def test_order6_is_three_reversed_pairs():
    lines = [line.split(" ") for line in data.sentences("ORDER6")]
    assert len(lines) == 6
    for a, b in zip(lines[::2], lines[1::2], strict=True):
        assert [a[0], a[2]] == [b[2], b[0]]
        assert a[1::2][:2] == b[1::2][:2] == ["が", "を"]
        assert a[4] != b[4]


def test_roles_is_three_full_grids():
    pairs = [tuple(line.split(" ")) for line in data.sentences("ROLES")]
    assert len(pairs) == 36
    assert pairs[0] == ("犬", "走る")
    nouns, verbs = [list(dict.fromkeys(column)) for column in zip(*pairs, strict=True)]
    assert (len(nouns), len(verbs), len({*nouns, *verbs})) == (12, 9, 21)
    grid = [(n, v) for i, n in enumerate(nouns) for v in verbs[i // 4 * 3 :][:3]]
    assert pairs == grid


@pytest.mark.parametrize(
    ("call", "value", "legal"),
    [
        (data.names, "de", ["'en'", "'ja'"]),
        (data.names, None, ["'en'", "'ja'"]),
        (data.names, ["en"], ["'en'", "'ja'"]),
        (data.names, np.array(["en", "ja"]), ["'en'", "'ja'"]),
        (data.sentences, "mix12", ["'MIX12'", "'ORDER6'", "'ROLES'"]),
    ],
)
def test_illegal_names_are_refused(call, value, legal):
    with pytest.raises(ValueError, match="のどれかで指定します") as caught:
        call(value)
    assert all(word in str(caught.value) for word in [*legal, repr(value)])


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Corpora in ``tmp_path``, each passed through ``change``."""

    def copy_with(change):
        for file in FILES:
            (tmp_path / file).write_bytes(change((CORPORA / file).read_bytes()))
        monkeypatch.setattr(data, "CORPORA", tmp_path)

    return copy_with


def every_corpus():
    corpora = {name: data.names(name) for name in data.NAMES}
    return corpora | {name: data.sentences(name) for name in data.SENTENCES}


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.replace(b"\n", b"\r\n"),
        lambda b: b"\xef\xbb\xbf" + b,
    ],
    ids=["crlf", "bom"],
)
def test_windows_checkout_reads_the_same(copy, change):
    original = every_corpus()
    copy(change)
    assert every_corpus() == original


def test_a_windows_clone_changes_no_byte(tmp_path):
    def git(*command):
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        quiet = ["-c", "core.safecrlf=false", "-c", "core.autocrlf=true"]
        subprocess.run(["git", *who, *quiet, *command], check=True, capture_output=True)

    kept = [".gitattributes", *(f"src/lmbook/corpora/{file}" for file in FILES)]
    source, clone = tmp_path / "source", tmp_path / "clone"
    for file in kept:
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        (source / file).write_bytes((ROOT / file).read_bytes())
    git("init", str(source))
    git("-C", str(source), "add", ".")
    git("-C", str(source), "commit", "-m", "all")
    git("clone", str(source), str(clone))
    for file in kept:
        assert (clone / file).read_bytes() == (ROOT / file).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b[: b.rindex(b"\n", 0, len(b) // 2) + 1],  # half, cut at a line
        lambda b: b[:-1],
        lambda b: b + b"x\n",
        lambda b: b.replace(b"\n", b"\n\n", 1),
        lambda b: b"<html></html>",
        lambda b: b"",
    ],
    ids=["half", "last byte", "one more", "blank line", "html", "empty"],
)
def test_damaged_corpus_is_never_used(copy, change):
    copy(change)
    for call, table in ((data.names, data.NAMES), (data.sentences, data.SENTENCES)):
        for name, file in table.items():
            with pytest.raises(ValueError, match="教材のものと違います") as caught:
                call(name)
            assert file in str(caught.value)


def test_missing_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "CORPORA", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"names_ja\.txt が見つかりません"):
        data.names("ja")


VOCABULARY = """
import json, sys
from lmbook import data
out = {}
for name in ("en", "ja"):
    lines = data.names(name)
    chars = sorted(set("".join(lines)))
    out[name] = [chars, [[chars.index(c) for c in line] for line in lines[::50]]]
for name in ("MIX12", "ORDER6", "ROLES"):
    lines = [line.split() for line in data.sentences(name)]
    tokens = sorted({t for line in lines for t in line})
    out[name] = [tokens, [[tokens.index(t) for t in line] for line in lines]]
assert not {"torch", "matplotlib"} & set(sys.modules), "heavy import"
print(json.dumps(out))
"""


def vocabulary(tmp_path, **environment):
    python = [sys.executable, "-X", "warn_default_encoding", "-W"]
    run = subprocess.run(
        [*python, "error::EncodingWarning", "-c", VOCABULARY],
        env={**os.environ, **environment},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")
    return json.loads(run.stdout)


@pytest.mark.skipif(
    not str(data.CORPORA).isascii(),
    reason="in the C locale Python cannot even start from such a folder",
)
def test_same_ids_under_any_locale_from_any_folder(tmp_path):
    bare = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ascii_only = vocabulary(tmp_path, LC_ALL="C", **bare)
    assert ascii_only == vocabulary(tmp_path, PYTHONUTF8="1", PYTHONHASHSEED="7")
    assert [len(ascii_only[n][0]) for n in ("en", "ja")] == [26, 74]
    assert [len(ascii_only[n][0]) for n in data.SENTENCES] == [57, 15, 21]


# Derivation


@pytest.fixture(scope="module")
def derive():
    spec = importlib.util.spec_from_file_location("derive", CORPORA / "derive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def archives(tmp_path, derive, monkeypatch):
    """Two small archives of the packages' form, known to ``derive``."""
    names, dataset = tmp_path / "names.tar.gz", tmp_path / "ja.whl"
    tables = [b"MARY 2.6 2.6 1\nANNA 1.0 3.6 2\n", b"JAMES 3.3 3.3 1\nMARY .1 1 2\n"]
    with tarfile.open(names, "w:gz") as tar:
        for member, content in zip(derive.EN_MEMBERS, tables, strict=True):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    rows = ["たろう,tarou,太郎\nいろは\nあい,ai,藍\n", "はな,hana,花\nあい,ai,愛\n"]
    with zipfile.ZipFile(dataset, "w") as wheel:
        for member, content in zip(derive.JA_MEMBERS, rows, strict=True):
            wheel.writestr(member, content)
    for requirement, path in ((derive.NAMES, names), (derive.JAPANESE, dataset)):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        monkeypatch.setitem(derive.ARCHIVES, requirement, digest)
    return names, dataset


def test_derivation_of_a_small_case(archives, derive, tmp_path):
    derive.main([*map(str, archives), "--out", str(tmp_path)])
    assert (tmp_path / "names_en.txt").read_bytes() == b"anna\njames\nmary\n"
    ja = (tmp_path / "names_ja.txt").read_bytes()
    assert ja == "あい\nたろう\nはな\n".encode()


def test_derivation_fetches_with_pip(archives, derive, tmp_path, monkeypatch):
    calls = []

    def pip(command, check):
        calls.append(command)
        stem, source = (
            ("names-0.3.0.tar.gz", archives[0])
            if command[-1] == derive.NAMES
            else ("japanese_personal_name_dataset-0.4.0-py3.whl", archives[1])
        )
        folder = Path(command[command.index("--dest") + 1])
        (folder / stem).write_bytes(source.read_bytes())

    monkeypatch.setattr(derive.subprocess, "run", pip)
    keep = tmp_path / "keep"
    derive.main(["--keep", str(keep), "--out", str(tmp_path)])
    assert (tmp_path / "names_en.txt").read_bytes() == b"anna\njames\nmary\n"
    assert len(list(keep.iterdir())) == 2
    assert ["--no-binary" in c for c in calls] == [True, False]
    assert all({"download", "--no-deps"} <= set(c) for c in calls)


def test_derivation_refuses_other_archives(archives, derive, tmp_path):
    names, dataset = archives
    with pytest.raises(ValueError, match=r"is not names==0\.3\.0: SHA-256"):
        derive.main([str(dataset), str(names), "--out", str(tmp_path)])
    assert not (tmp_path / "names_en.txt").exists()
    with pytest.raises(SystemExit):
        derive.main([str(names)])


def test_a_failed_derivation_writes_nothing(
    archives, derive, tmp_path, monkeypatch, capsys
):
    def no_network(command, check):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(derive.subprocess, "run", no_network)
    with pytest.raises(SystemExit):
        derive.main(["--out", str(tmp_path)])
    assert "pip could not fetch the packages" in capsys.readouterr().err
    monkeypatch.setattr(derive, "JA_MEMBERS", ("missing.csv",))
    with pytest.raises(KeyError, match="missing"):
        derive.derive(*archives, tmp_path)
    assert not list(tmp_path.glob("*.txt"))


@pytest.mark.skipif(
    len(list(PACKAGES.glob("*[0-9].*"))) < 2,
    reason="needs both packages: derive.py --keep build/packages",
)
def test_committed_names_are_what_the_packages_give(derive, tmp_path):
    names = next(PACKAGES.glob("names-*"))
    dataset = next(PACKAGES.glob("japanese_*"))
    derive.derive(names, dataset, tmp_path)
    for file in ("names_en.txt", "names_ja.txt"):
        committed = (CORPORA / file).read_bytes().replace(b"\r\n", b"\n")
        assert (tmp_path / file).read_bytes() == committed


# Split


@given(st.lists(st.text(), min_size=2), st.data(), st.integers(0, 9))
def test_split_keeps_every_line_once(lines, draw, seed):
    distinct = set(lines)
    if len(distinct) < 2:
        return
    n = draw.draw(st.integers(1, len(distinct) - 1))
    train, held_out = data.split(lines, n, seed)
    assert len(held_out) == n
    assert sorted([*train, *held_out]) == sorted(distinct)


def test_split_is_fixed_by_its_seed_alone():
    lines = [str(i) for i in range(6)] * 2
    random.seed(1)
    state = random.getstate()
    assert data.split(lines, 2, 0) == (["4", "2", "1", "0"], ["5", "3"])
    assert random.getstate() == state
    assert data.split(lines, 2, 1) != data.split(lines, 2, 0)
    assert lines == [str(i) for i in range(6)] * 2


@pytest.mark.parametrize("held_out", [0, 3, -1])
def test_split_refuses_empty_sides(held_out):
    message = rf"held_out は 1 から 2 までの整数.*{held_out}、異なる行は 3 行"
    with pytest.raises(ValueError, match=message):
        data.split(["a", "b", "c", "a"], held_out, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("abc", 1, 0), TypeError, "lines は文字列のリスト.*'abc'"),
        ((None, 1, 0), TypeError, "lines は文字列のリスト.*None"),
        ((b"abc", 1, 0), TypeError, "lines は文字列のリスト.*b'abc'"),
        (([["a"], ["b"]], 1, 0), TypeError, "lines は文字列のリスト.*'a'"),
        ((["a", "a"], 1, 0), ValueError, r"異なる行が 2 行以上.*1 行"),
        (([], 1, 0), ValueError, "異なる行が 2 行以上"),
        ((["a", "b"], 1.0, 0), TypeError, r"held_out は整数.*1\.0"),
        ((["a", "b"], True, 0), TypeError, "held_out は整数"),
        ((["a", "b"], 1, None), TypeError, "seed は整数"),
        ((["a", "b"], 1, -1), ValueError, "seed は 0 以上"),
    ],
)
def test_split_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        data.split(*arguments)


# Entropy floors


@pytest.mark.parametrize("name", data.SENTENCES)
def test_readme_gives_the_floors_of_each_corpus(name):
    lines = [line.split() for line in data.sentences(name)]
    found = entropy_floors(lines, "<bos>", "<eos>").values()
    row = " | ".join(f"{x:.4f}" for x in found)
    readme = (CORPORA / "README.md").read_text(encoding="utf-8")
    assert f"| {name} | {row} |" in readme


# What names the package


def test_citation_and_changelog_name_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {lmbook.__version__}\n" in citation
    assert "\ntitle: 動かして読む言語モデル\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{lmbook.__version__}]" in changelog
