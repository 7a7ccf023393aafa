"""Broken files, full disks, missing rights, interruptions: a sentence, no loss."""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest
from helpers import cell, markdown, notebook, save

from lmbook import chapters, data, plots, repro
from lmbook.press import (
    cli,
    compare,
    desk,
    diff,
    doctor,
    experiment,
    faults,
    handouts,
    run,
)

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals and limits")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one small chapter and its fresh execution."""
    monkeypatch.setattr(chapters, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(desk, "DESK", tmp_path / "desk")
    monkeypatch.setattr(run, "BUILD", tmp_path / "build")
    monkeypatch.setattr(run, "EXECUTED", tmp_path / "build" / "executed")
    made = notebook(markdown("title", "# 題"), ("one", "n = 1\nprint(n)"))
    save(tmp_path / "notebooks" / "01_x.ipynb", made)
    cell(made, "one").execution_count = 1
    text = nbformat.v4.new_output("stream", name="stdout", text="1\n")
    cell(made, "one").outputs = [text]
    save(tmp_path / "build" / "executed" / "01_x.ipynb", made)
    return tmp_path


# Notebooks that are none


def changed(**parts: Any) -> Any:
    return lambda text: json.dumps({**json.loads(text), **parts}).encode("utf-8")


def doubled(text: str) -> bytes:
    content = json.loads(text)
    content["cells"][0]["id"] = content["cells"][1]["id"]
    return json.dumps(content).encode("utf-8")


CONFLICT = "<<<<<<< HEAD\n=======\n>>>>>>> other\n"
BROKEN = {
    "its JSON breaks at line 8": lambda text: text.encode("utf-8")[:99],
    "its JSON breaks at line 1": lambda text: b"",
    "its format is 3.5; 4.5 is needed": changed(nbformat=3),
    "its format is 4.4; 4.5 is needed": changed(nbformat_minor=4),
    "it holds no list of cells": changed(cells={"one": 1}),
    "cell one: this id stands more than once": doubled,
    "line 2 is a merge conflict's mark (<<<<<<< HEAD); take one side whole": (
        lambda text: text.replace("\n", f"\n{CONFLICT}", 1).encode("utf-8")
    ),
    "it is not UTF-8 (byte 0)": lambda text: text.encode("utf-16"),
    "'source' is a required property": changed(
        cells=[{"cell_type": "markdown", "id": "a", "metadata": {}}]
    ),
    "'<b>' does not match": changed(
        cells=[{"cell_type": "markdown", "id": "<b>", "metadata": {}, "source": ""}]
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_notebook_is_named_with_fault_and_remedy(
    fault: str, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = house / "notebooks" / "01_x.ipynb"
    path.write_bytes(BROKEN[fault](path.read_text(encoding="utf-8")))
    before = path.read_bytes()
    for words in (["compare"], ["accept", "--executed"], ["experiment", "01"], ["lab"]):
        assert cli.main(words) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"lmbook: {path} is not a whole notebook: {fault}")
        assert said.endswith(f"git checkout -- {path}\n")
    assert path.read_bytes() == before


def test_the_remedy_hangs_on_the_place(house: Path) -> None:
    for name, remedy in (("desk", "lmbook reset 01"), ("build/executed", "delete it")):
        path = house / name / "01_x.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
        with pytest.raises(run.NotebookError, match=remedy):
            run.read(path)
    assert desk.reset(house / "notebooks" / "01_x.ipynb", house / "desk")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"cells": []', "\x00"])
def test_definitions_of_a_broken_notebook_are_refused(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "01_x.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"01_x.*読めません.*git checkout -- "):
        chapters.load("01", path)
    good = compare.text_of(notebook(("one", "A = 1")))
    path.write_text(good, encoding="utf-8-sig", newline="\r\n")
    assert chapters.load("01", path).A == 1


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_bom_and_line_ends_change_nothing(end: str, mark: bytes, house: Path) -> None:
    path = house / "notebooks" / "01_x.ipynb"
    text, before = path.read_text(encoding="utf-8"), run.read(path)
    path.write_bytes(mark + text.replace("\n", end).encode("utf-8"))
    assert run.read(path) == before
    assert cli.main(["accept", "--executed"]) == 0
    assert path.read_bytes() == (run.EXECUTED / "01_x.ipynb").read_bytes()


def test_a_broken_run_of_an_experiment_is_made_again(tmp_path: Path) -> None:
    chapter = notebook(("p", "n = 1", ["parameters"]))
    ran = notebook(("p", "n = 1", ["parameters"]), ("i", "n = 2", []))
    ran.cells[1].metadata["tags"] = ["injected-parameters"]
    path = save(tmp_path / "01_x.ipynb", ran)
    assert experiment._is_run_of(path, chapter, {"n": 2})
    assert not experiment._is_run_of(path, chapter, {"n": 3})  # n=A, n=a: one folder
    path.write_text("{", encoding="utf-8")
    assert not experiment._is_run_of(path, chapter, {"n": 2})


# Fonts, corpora, the lock


def flipped(source: Path, target: Path) -> Path:
    content = bytearray(source.read_bytes())
    content[len(content) // 2] ^= 1
    target.write_bytes(bytes(content))
    return target


def test_a_changed_byte_of_a_font_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import noto_cjk_sans_jp_bold as bold

    spoilt = flipped(Path(str(bold.FONT_PATH)), tmp_path / "bold.otf")
    monkeypatch.setattr(bold, "FONT_PATH", spoilt)
    plots.fonts.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"bold\.otf.*SHA-256.*入れ直します"):
            plots.register_fonts()
        (fault,) = doctor.fonts(tmp_path)
        assert "not the published one" in fault.sentence
        assert "--force-reinstall" in fault.remedy
    finally:
        plots.fonts.cache_clear()


@pytest.mark.parametrize("name", data.SHA256)
def test_a_changed_byte_of_a_corpus_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (data.CORPORA / name).read_text(encoding="utf-8")
    (tmp_path / name).write_text(f"{text[:-2]}x\n", encoding="utf-8", newline="\n")
    monkeypatch.setattr(data, "CORPORA", tmp_path)
    read = {v: (data.names, k) for k, v in data.NAMES.items()}
    read |= {v: (data.sentences, k) for k, v in data.SENTENCES.items()}
    function, key = read[name]
    with pytest.raises(ValueError, match=rf"{name}.*SHA-256.*git checkout"):
        function(key)


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff", b"<<<<<<< HEAD\n{}"])
def test_a_damaged_measurement_is_named(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    file = tmp_path / "benchmarks" / "results" / "ladder.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"ladder\.json が壊れています.*git checkout"):
        repro.measured("ladder")


def test_a_font_that_was_copied_in_part_is_copied_again(tmp_path: Path) -> None:
    from lmbook.press import lab

    lab._fonts(tmp_path)
    whole = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(whole) == {"regular.otf", "bold.otf"}
    (tmp_path / "bold.otf").write_bytes(whole["bold.otf"][:9])
    lab._fonts(tmp_path)
    assert (tmp_path / "bold.otf").read_bytes() == whole["bold.otf"]


def test_threads_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    """Two chapters that start at once both write the network guard."""
    path = tmp_path / "one.txt"
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda i: run.write_text(path, str(i) * 4000), range(400)))
    assert len(set(path.read_text(encoding="utf-8"))) in (1, 2, 3)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("lock", "fault"),
    [
        ("numpy==2.4.6\n<<<<<<< HEAD\n", "line 2 is not name==version: '<<<<<<< HEAD'"),
        ("numpy==2.4.6\ntor", "line 2 is not name==version: 'tor'"),
        ("numpy>=2\n", "line 1 is not name==version: 'numpy>=2'"),
        (None, "No such file"),
    ],
)
def test_a_damaged_lock_is_a_fault(
    lock: str | None, fault: str, tmp_path: Path
) -> None:
    if lock is not None:
        (tmp_path / "requirements.lock").write_text(lock, encoding="utf-8")
    (found,) = doctor.versions(tmp_path)
    assert "requirements.lock" in found.sentence
    assert fault in found.sentence
    assert found.remedy == "git checkout -- requirements.lock"


# What the system refuses


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space", "/a"), "/a: No space\nmake room on"),
        (OSError(errno.EFBIG, "Too large"), "Too large\nmake room on"),
        (PermissionError(errno.EACCES, "No", "/a"), "/a: No\ngive yourself perm"),
        (OSError(errno.EROFS, "Read-only", "/a"), "/a: Read-only\ngive yourself perm"),
        (OSError(errno.EIO, "I/O error", "/a"), "/a: I/O error"),
        (FileNotFoundError("desk/01 does not exist"), "desk/01 does not exist"),
        (ModuleNotFoundError("no", name="papermill"), "papermill is not installed"),
    ],
)
def test_what_the_system_refuses_is_a_sentence(
    error: Exception,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused() -> Any:
        raise error

    monkeypatch.setattr(doctor, "examine", refused)
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().err.startswith(f"lmbook: {said}")


def test_a_module_of_ours_that_is_missing_is_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> Any:
        raise ModuleNotFoundError("no", name="lmbook.press.nothing")

    monkeypatch.setattr(doctor, "examine", refused)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["doctor"])


ACCEPT = (
    "import sys; from pathlib import Path; from lmbook import chapters;"
    "from lmbook.press import cli, run;"
    "chapters.NOTEBOOKS = Path(sys.argv[1]) / 'notebooks';"
    "run.EXECUTED = Path(sys.argv[1]) / 'build' / 'executed';"
    "sys.exit(cli.main(['accept', '--executed']))"
)
#: Root without any capability: file modes hold for it, too.
POWERLESS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


def accepting(house: Path, *before: str, **how: Any) -> str:
    """What `accept --executed` says in a process of its own, where it must fail."""
    done = subprocess.run(
        [*before, sys.executable, "-B", "-c", ACCEPT, str(house)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        **how,
    )
    assert done.returncode == 1, done.stdout
    return done.stdout


@posix
def test_accept_without_room_changes_nothing(house: Path) -> None:
    import resource

    path = house / "notebooks" / "01_x.ipynb"
    before = path.read_bytes()
    limit = (300, 300)  # bytes of a file
    said = accepting(
        house, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    assert said.startswith("lmbook: File too large\nmake room")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@posix
def test_accept_without_permission_changes_nothing(house: Path) -> None:
    path = house / "notebooks" / "01_x.ipynb"
    before = path.read_bytes()
    root = os.geteuid() == 0
    if root and not shutil.which("setpriv"):
        pytest.skip("root without setpriv may write everywhere")
    path.parent.chmod(0o555)
    try:
        said = accepting(house, *(POWERLESS if root else []))
    finally:
        path.parent.chmod(0o755)
    assert f"{path.parent}" in said
    assert "Permission denied\ngive yourself permission" in said
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@posix
def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    """As in `lmbook doctor | head -0`."""
    script = "from lmbook.press import cli, doctor; doctor.examine = list;"
    script += "raise SystemExit(cli.main(['doctor']))"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


# Terminals


HOSTILE = "a\x1b[2J\x1b]0;t\x07\r\x00\u202eb\ud800c\td\ne✗"
HARMLESS = r"a\x1b[2J\x1b]0;t\x07\r\x00\u202eb\ud800c" + "\td\ne✗"


def test_nothing_steers_the_terminal(
    house: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control characters of a desk copy, an output or a message are written out."""
    assert faults.plain(HOSTILE) == HARMLESS
    content = run.read(run.EXECUTED / "01_x.ipynb")
    cell(content, "one").outputs[0].text = "\x1b[31m1\n"
    cell(content, "one").outputs.append(
        nbformat.v4.new_output(
            "error", ename="E", evalue="\x1b[2Jgone", traceback=["\x1b[2J"]
        )
    )
    save(run.EXECUTED / "01_x.ipynb", content)
    assert cli.main(["compare"]) == 1
    assert cli.main(["accept", "--executed"]) == 1
    desk.lay_out(chapters.every(), desk.DESK)
    found = diff.Finding("01", 1, 0, 0, "one", "\x1b[2J", "\x9b2J", "+\x1b[2J")
    monkeypatch.setattr(diff, "diff", lambda *_, **__: found)
    assert cli.main(["diff"]) == 1
    said = capsys.readouterr()
    assert r"E: \x1b[2Jgone" in said.out + said.err
    assert r"+\x1b[2J" in said.out
    assert not {c for c in said.out + said.err if faults.plain(c) != c}


def test_what_a_cell_raises_is_written_out(tmp_path: Path) -> None:
    content = notebook(("bad", r"raise ValueError('\x1b[2J\r')"))
    with pytest.raises(run.CellError) as caught:
        run.execute(content, tmp_path)
    assert str(caught.value) == r"ValueError: \x1b[2J\r"


# Interruptions


HOUSE = """
import sys
from pathlib import Path
from lmbook import chapters
from lmbook.press import cli, commands, desk, experiment, handouts, run, site
house = Path(sys.argv[1])
chapters.NOTEBOOKS, desk.DESK = house / "notebooks", house / "desk"
run.EXECUTED, experiment.FOLDER = house / "build" / "executed", house / "build" / "e"
handouts.FOLDER, site.FOLDER = house / "build" / "handouts", house / "build" / "site"
print("ready", flush=True)
sys.exit(cli.main(sys.argv[2:]))
"""


def sums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def left_over(mark: str) -> list[str]:
    """The command lines of all living processes that bear ``mark``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            there = mark.encode() in (folder / "environ").read_bytes()
            state = (folder / "stat").read_text(encoding="utf-8").rpartition(") ")[2]
            if there and state[0] != "Z":
                found.append((folder / "cmdline").read_text(encoding="utf-8"))
        except OSError:  # it has just ended
            continue
    return found


def start(house: Path, words: list[str], mark: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOUSE, str(house), *words],
        env={**os.environ, "LMBOOK_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def nothing_left(mark: str) -> bool:
    end = time.monotonic() + 15
    while left_over(mark) and time.monotonic() < end:
        time.sleep(0.2)
    return left_over(mark) == []


INTERRUPTED = {
    "book": ["book"],
    "accept": ["accept"],
    "write": ["accept", "--executed"],
    "experiment": ["experiment", "01", "n=2"],
    "grid": ["experiment", "01", "n=3,4"],
    "lab": ["lab", "--no-browser"],
    "diff": ["diff", "01"],
}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a chapter that waits, accepted, and a copy of it on the desk."""
    house = tmp_path_factory.mktemp("accepted")
    made = notebook(
        markdown("title", "# 題"),
        ("p", "n = 1", ["parameters"]),
        ("wait", "import time\ntime.sleep(1)"),
        ("one", "print(n)"),
    )
    chapter = save(house / "notebooks" / "01_x.ipynb", made)
    said, _ = start(house, ["accept"], house.name).communicate()
    assert "01_x: accepted" in said
    desk.lay_out([chapter], house / "desk")
    save(house / "blank" / "01_x.ipynb", made)
    return house


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("command", INTERRUPTED)
def test_an_interruption_loses_nothing(
    command: str, name: str, accepted: Path, tmp_path: Path
) -> None:
    """At a random moment: whole files, no process left, and the next run succeeds."""
    house = shutil.copytree(accepted, tmp_path / "house")
    whole = [sums(house / "notebooks")]
    if command in ("accept", "write"):
        shutil.copy(house / "blank" / "01_x.ipynb", house / "notebooks")
        whole.append(sums(house / "notebooks"))
    mark = str(tmp_path)
    process = start(house, INTERRUPTED[command], mark)
    moment = random.uniform(0, 0.3 if command == "write" else 6)
    time.sleep(moment)
    process.send_signal(signal.Signals[name])
    said, _ = process.communicate(timeout=60)
    assert "Traceback" not in said, moment
    # Before and after the command, a signal does what it always does.
    expected = (0, 130, -signal.Signals[name])
    assert process.returncode in expected, (moment, said)
    assert nothing_left(mark), (moment, left_over(mark))
    assert sums(house / "notebooks") in whole, moment
    if command != "lab":
        again = start(house, INTERRUPTED[command], mark)
        said, _ = again.communicate(timeout=120)
        assert again.returncode == 0, said


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_a_chapter_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Killed without a chance to tidy: neither the chapter nor its kernel goes on."""
    source = "import time\nprint('x')\ntime.sleep(60)"
    path = save(tmp_path / "01_x.ipynb", notebook(("a", "1"), ("wait", source)))
    script = "import sys; from pathlib import Path; from lmbook.press import run;"
    script += "run.run([Path(sys.argv[1])], Path(sys.argv[2]))"
    mark = str(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-uc", script, str(path), str(tmp_path / "out")],
        env={**os.environ, "LMBOOK_MARK": mark},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("01_x: cell 1 of 2")
    assert len(left_over(mark)) == 3
    process.kill()
    process.communicate()
    assert nothing_left(mark), left_over(mark)
    assert not (tmp_path / "out" / "01_x.ipynb").exists()


# Other machines


@posix
def test_handouts_under_a_c_locale_in_a_japanese_folder(
    house: Path, tmp_path: Path
) -> None:
    """pandoc and Python both take the locale for what names are made of."""
    chapter = run.EXECUTED / "01_x.ipynb"
    script = "import sys; from pathlib import Path; from lmbook.press import handouts;"
    script += "chapter, handouts.TEMPLATES, out = map(Path, sys.argv[1:]);"
    script += "print(*handouts.build([chapter], out))"
    japanese = shutil.copytree(handouts.TEMPLATES, tmp_path / "配る 紙" / "型")
    for folder, more in ((japanese, {}), (handouts.TEMPLATES, {"PYTHONUTF8": "0"})):
        out = tmp_path / ("out" if more else "配る 紙")
        done = subprocess.run(
            [sys.executable, "-c", script, str(chapter), str(folder), str(out)],
            env={**os.environ, "LC_ALL": "C", **more},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.stderr == ""
        assert (out / "01_x_student.pdf").read_bytes().startswith(b"%PDF")


def test_parameters_are_values_and_nothing_else() -> None:
    """Quotes, line ends and paths in a value neither run nor leave the folder."""
    from papermill.translators import PythonTranslator

    hostile = {
        "a": "'; import os; os.abort()  # ../../x",
        "b": '"""\nraise SystemExit\n',
        "c": "\\",
        "d": "{}\u2028あ",
        "e": -0.0,
        "f": [1, "]"],
    }
    cell_ = nbformat.v4.new_code_cell(PythonTranslator.codify(hostile))
    cell_.metadata["tags"] = ["injected-parameters"]
    assert experiment.injected(nbformat.v4.new_notebook(cells=[cell_])) == hostile
    for value in (
        "..",
        "../../x",
        "/etc",
        "C:\\x",
        "\0",
        "a\nb",
        "-rf",
        ".",
        "x" * 400,
    ):
        name = experiment.slug({"name": value})
        assert Path(name).name == name
        assert name.isascii()
        assert not {"/", "\\", ":", "\0", "\n"} & set(name)
        assert len(name) < 120


@posix
def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    chapter = save(tmp_path / "01_x.ipynb", notebook(("p", "n = 1", ["parameters"])))
    (tmp_path / "e" / "01").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "e" / "01" / "n=2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(experiment.ParameterError, match="a link that leaves"):
        experiment.experiment(chapter, ["n=2"], tmp_path / "e")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("value", ["1e999", "-1e999", "nan", "inf"])
def test_numbers_that_are_none_are_refused(value: str) -> None:
    with pytest.raises(experiment.ParameterError, match="not a value of type float"):
        experiment.parse([f"lr={value}"], {"lr": 0.1})
