"""The commands, the test suite's steps, the doctor and the Makefile."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import cell, markdown, notebook, save
from nbformat.v4 import new_output

from lmbook import chapters
from lmbook.press import (
    cli,
    commands,
    compare,
    doctor,
    experiment,
    handouts,
    release,
    run,
    sheet,
    site,
    suite,
)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with one small chapter, not yet executed."""
    monkeypatch.setattr(chapters, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(run, "EXECUTED", tmp_path / "build" / "executed")
    monkeypatch.setattr(experiment, "FOLDER", tmp_path / "build" / "experiments")
    for part in (sheet, handouts, site, release):
        name = part.__name__.rpartition(".")[2]
        monkeypatch.setattr(part, "FOLDER", tmp_path / "build" / name)
    made = notebook(
        ("parameters", "n = 1", ["parameters"]),
        ("shown", "print(2 * n)"),
        ("record", "print('{\"twice\": 2.0}')"),
    )
    save(tmp_path / "notebooks" / "01_x.ipynb", made)
    return tmp_path


def test_accept_then_compare_then_experiment(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare"]) == 1
    assert "was not executed" in capsys.readouterr().out
    assert cli.main(["accept", "01"]) == 0
    assert "01_x: accepted" in capsys.readouterr().out
    assert cli.main(["accept", "--executed"]) == 0
    assert "01_x: unchanged" in capsys.readouterr().out
    assert cli.main(["compare", "01"]) == 0
    said = capsys.readouterr().out
    assert "3 cells, 2 outputs, 0 pictures compared, 0 differences" in said
    assert cli.main(["experiment", "01", "n=3"]) == 0
    said = capsys.readouterr().out
    assert "twice=2.0\ncells that differ from the book: shown\n" in said
    assert cli.main(["experiment", "01", "n=3"]) == 0
    assert "nothing was executed" in capsys.readouterr().out


def with_title(house: Path) -> None:
    """The site needs a title on each page."""
    path = house / "notebooks" / "01_x.ipynb"
    made = run.read(path)
    made.cells.insert(0, markdown("title", "# 題"))
    save(path, made)


def test_book_says_where_and_how_long(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_title(house)
    assert cli.main(["book"]) == 0
    said = capsys.readouterr().out
    assert str(house / "build" / "executed" / "01_x.ipynb") in said
    assert "all chapters: " in said
    for name in ("handouts/01_x_teacher.pdf", "site/01_x.html"):
        assert (house / "build" / name).is_file()
    assert "handouts of 01_x: student 1 pages, teacher 1 pages, " in said
    assert str(house / "build" / "site" / "index.html") in said


def test_release_is_made_of_committed_chapters(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_title(house)
    assert cli.main(["release"]) == 1
    said = capsys.readouterr()
    assert "01_x.ipynb, cell parameters: was not executed" in said.err
    assert not (house / "build").exists()
    assert cli.main(["accept"]) == 0
    assert cli.main(["release", "--no-answers"]) == 0
    said = capsys.readouterr()
    assert f"{house / 'build' / 'release' / 'SHA256SUMS'}  0.0 MB" in said.out
    assert cli.main(["handouts"]) == 0


def test_a_chapter_that_fails(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(house / "notebooks" / "02_y.ipynb", notebook(("bad", "1 / 0")))
    before = (house / "notebooks" / "01_x.ipynb").read_bytes()
    assert cli.main(["accept"]) == 1
    said = capsys.readouterr()
    assert "02_y: FAILED in cell bad" in said.out
    assert "nothing was accepted" in said.err
    assert (house / "notebooks" / "01_x.ipynb").read_bytes() == before
    assert cli.main(["experiment", "02"]) == 1
    assert "lmbook: cell bad: ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "07"], "no chapter '07'; there are 01"),
        (["experiment", "01", "m=3"], "no parameter 'm'; legal"),
        (["bench", "nothing"], "no benchmark 'nothing'; there are"),
    ],
)
def test_wrong_names_are_refused(
    house: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not (house / "build").exists()


def test_no_chapter_at_all(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (house / "notebooks" / "01_x.ipynb").unlink()
    assert cli.main(["run"]) == 2
    assert "there is no chapter in" in capsys.readouterr().err


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    said = capsys.readouterr().out
    for name, command in commands.COMMANDS.items():
        assert name in said
        assert command.__doc__


@pytest.mark.parametrize("encoding", ["cp932", "ascii"])
def test_a_stream_that_cannot_encode(
    encoding: str, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding=encoding))
    assert cli.main(["run", "违✗"]) == 2
    sys.stderr.flush()
    assert r"\u2717" in raw.getvalue().decode(encoding)


def test_sheet_command(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sheet"]) == 0
    assert "0 pages" in capsys.readouterr().out


def test_benchmarks_are_found_and_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    body = 'if __name__ == "__main__":\n    raise SystemExit({})\n'
    for name, code in (("good", "0"), ("bad", "3")):
        (tmp_path / f"{name}.py").write_text(body.format(code), encoding="utf-8")
    (tmp_path / "_part.py").write_text("x = 1\n", encoding="utf-8")
    assert [p.stem for p in commands.benchmarks([], tmp_path)] == ["bad", "good"]
    found = commands.benchmarks
    monkeypatch.setattr(commands, "benchmarks", lambda names: found(names, tmp_path))
    assert cli.main(["bench", "good"]) == 0
    assert "good: done in" in capsys.readouterr().out
    assert cli.main(["bench"]) == 1
    assert "failed: bad" in capsys.readouterr().out


# The suite


def quiet_steps(monkeypatch: pytest.MonkeyPatch, failing: str = "") -> list[str]:
    """Replace the steps that are commands of their own; their names as they run."""
    names: list[str] = []

    def python(self: Any, name: str, arguments: list[str], fine: Any) -> None:
        names.append(f"{name}: {' '.join(arguments)}")
        self.add(name, name != failing)

    monkeypatch.setattr(suite.Steps, "python", python)
    return names


@pytest.mark.skipif(not suite.exact_platform(), reason="exact outputs hold elsewhere")
def test_the_suite_executes_twice_and_counts(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = quiet_steps(monkeypatch)
    assert cli.main(["accept"]) == 0
    capsys.readouterr()
    assert cli.main(["test"]) == 0
    said = capsys.readouterr().out
    assert "regression: 01_x: 3 cells, 2 outputs, 0 pictures compared, 0 diff" in said
    assert "probe: 01_x: 3 cells, 2 outputs, 0 picture descriptions compared, 0" in said
    assert said.splitlines()[-1] == "7 passed, 0 failed"
    assert [n.partition(":")[0] for n in names] == [
        *("ruff check", "ruff format", "mypy", "pytest with coverage")
    ]
    assert "not slow --cov" in names[-1]


@pytest.mark.skipif(not suite.exact_platform(), reason="exact outputs hold elsewhere")
def test_the_suite_fails_for_one_stale_output(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet_steps(monkeypatch)
    monkeypatch.setattr(suite, "REPORT", house / "report.html")
    assert cli.main(["accept"]) == 0
    path = house / "notebooks" / "01_x.ipynb"
    made = run.read(path)
    cell(made, "shown").outputs[0].text = "3\n"
    save(path, made)
    assert cli.main(["test"]) == 1
    said = capsys.readouterr().out
    assert "[text] cell shown: line 1: expected '3', got '2'" in said
    assert "probe: 01_x: 3 cells, 2 outputs" in said
    assert said.splitlines()[-1] == "5 passed, 2 failed"


def test_elsewhere_the_comparison_is_skipped_with_a_sentence(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = quiet_steps(monkeypatch, failing="mypy")
    monkeypatch.setattr(suite, "exact_platform", lambda: False)
    assert cli.main(["test"]) == 1
    said = capsys.readouterr().out
    assert suite.INEXACT in said
    assert (run.EXECUTED / "01_x.ipynb").is_file()
    assert "not regression and not slow" in names[-1]
    assert said.splitlines()[-1] == "4 passed, 1 failed"


def test_a_suite_without_chapters_fails(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet_steps(monkeypatch)
    (house / "notebooks" / "01_x.ipynb").unlink()
    assert cli.main(["test"]) == 1
    assert "there is no chapter" in capsys.readouterr().out


def test_slow_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = quiet_steps(monkeypatch)
    assert cli.main(["test-slow"]) == 0
    assert "-m slow" in names[0]
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"


def test_a_step_is_judged_by_its_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    steps = suite.Steps()
    steps.python("fine", ["-c", "raise SystemExit(5)"], (0, 5))
    steps.python("bad", ["-c", "raise SystemExit(1)"], (0, 5))
    assert (steps.passed, steps.failed, steps.end()) == (1, 1, 1)
    assert capfd.readouterr().out.splitlines()[-1] == "1 passed, 1 failed"


@pytest.mark.skipif(not suite.exact_platform(), reason="no probe elsewhere")
def test_the_probe_is_another_cpu_and_sees_descriptions(tmp_path: Path) -> None:
    source = "import os\nprint(os.environ['PYTHONHASHSEED'])"
    draw = "from IPython.display import display\ndisplay({'image/png': '', 'text/plain'"
    made = notebook(("seed", source), ("draw", draw + ": 'red'}, raw=True)"))
    for number, found in enumerate(made.cells, 1):
        found.execution_count = number
    cell(made, "seed").outputs = [new_output("stream", name="stdout", text="7\n")]
    data = {"image/png": "", "text/plain": "red"}
    cell(made, "draw").outputs = [new_output("display_data", data)]
    good = suite.probe_one(save(tmp_path / "01_x.ipynb", made), tmp_path)
    assert (good.cells, good.outputs, good.pictures, good.differences) == (2, 2, 1, 0)
    cell(made, "draw").outputs[0].data["text/plain"] = "blue"
    bad = suite.probe_one(save(tmp_path / "01_x.ipynb", made), tmp_path)
    assert bad.differences == 1
    assert "blue" in bad.log
    for found in made.cells:
        found.outputs, found.execution_count = [], None
    stripped = suite.probe_one(save(tmp_path / "01_x.ipynb", made), tmp_path)
    assert stripped.differences == 2


# The doctor


def test_the_doctor_finds_nothing_here() -> None:
    here = Path(sys.prefix).resolve() == (chapters.ROOT / ".venv").resolve()
    found = [str(f) for f in doctor.examine() if here or ".venv" not in f.sentence]
    assert found == []


def test_the_doctor_finds_faults(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lock = "numpy==0.0.1\nnot-there==1.0\ntorch==2.13.0\n"
    (tmp_path / "requirements.lock").write_text(lock, encoding="utf-8")
    monkeypatch.setattr(doctor, "FREE_GB", 1e9)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    monkeypatch.setattr(doctor, "threads", lambda root: iter(()))
    faults = doctor.examine(tmp_path)
    text = "\n".join(map(str, faults))
    for part in (
        *("is not the project's .venv", "numpy is 2", "the lock says 0.0.1"),
        *("noto_cjk_sans_jp_bold is missing", "cannot be written to", "GB are free"),
    ):
        assert part in text
    assert "torch" not in text
    assert all(f.remedy for f in faults)
    monkeypatch.setattr(doctor, "examine", lambda: faults)
    assert cli.main(["doctor"]) == 1
    assert f"{len(faults)} faults" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "output", "sentence"),
    [(1, "", "torch does not start"), (0, "1 2", "would use 2 threads")],
)
def test_the_doctor_looks_at_torch(
    code: int, output: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], code, output, "")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *a, **k: done)
    (fault,) = doctor.threads(Path())
    assert sentence in fault.sentence


def test_the_measured_versions_are_installed() -> None:
    locked = doctor.locked(chapters.ROOT)
    assert locked["nbval"] == "0.11.0"
    assert locked["papermill"].startswith("2.7.")
    assert not list(doctor.versions(chapters.ROOT))
    assert compare.MAX_RMS == 0.15


# The Makefile

FAKE = """#!/bin/sh
echo "$@" >> "$LOG"
case "$*" in
  *version_info*) exit 0 ;;
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python
    printf '#!/bin/sh\\necho lmbook "$@" >> "$LOG"\\n' > .venv/bin/lmbook
    chmod +x .venv/bin/lmbook ;;
  *"pip install"*) exit "${FAIL:-0}" ;;
esac
"""


@pytest.mark.skipif(os.name != "posix" or not shutil.which("make"), reason="needs make")
def test_make_installs_once_and_again_after_an_interruption(tmp_path: Path) -> None:
    folder, tools, log = tmp_path / "本 の フォルダ", tmp_path / "bin", tmp_path / "log"
    folder.mkdir()
    tools.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(chapters.ROOT / name, folder)
    (tools / "python3.11").write_text(FAKE, encoding="utf-8")
    (tools / "python3.11").chmod(0o755)

    def make(where: Path, *words: str, **more: str) -> tuple[int, list[str]]:
        log.write_text("", encoding="utf-8")
        env = {"PATH": f"{tools}:/usr/bin:/bin", "LOG": str(log), **more}
        done = subprocess.run(
            ["make", *words], cwd=where, env=env, capture_output=True, check=False
        )
        lines = log.read_text(encoding="utf-8").splitlines()
        kept = [x for x in lines if x.startswith("lmbook") or "pip install" in x]
        return done.returncode, [x.partition(" -c")[0] for x in kept]

    install = "-m pip install"
    assert make(folder, "doctor", FAIL="1") == (2, [install])
    assert make(folder, "doctor") == (0, [install, "lmbook doctor"])
    assert make(folder) == (0, ["lmbook book"])
    assert make(folder, "accept", "CH=03") == (0, ["lmbook accept 03"])
    assert make(folder, "lab") == (0, ["lmbook lab"])
    assert make(folder, "reset", "CH=03") == (0, ["lmbook reset 03"])
    assert make(folder, "diff") == (0, ["lmbook diff"])
    said = ["lmbook experiment 03 n=1 seed=2"]
    assert make(folder, "experiment", "CH=03", "P=n=1 seed=2") == (0, said)
    folder = folder.rename(tmp_path / "moved")
    assert make(folder, "sheet") == (0, [install, "lmbook sheet"])
    os.utime(folder / "requirements.lock", (2e9, 2e9))
    assert make(folder, "bench")[1][0] == install


@pytest.mark.skipif(os.name != "posix" or not shutil.which("make"), reason="needs make")
def test_make_says_in_a_sentence_what_is_missing(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(chapters.ROOT / name, tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "rm", "cat", "pwd"):
        (tools / name).symlink_to(shutil.which(name) or "")
    make = shutil.which("make") or ""

    def said() -> str:
        done = subprocess.run(
            [make, "book"],
            cwd=tmp_path,
            env={"PATH": str(tools)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 2
        return done.stderr

    assert "Python 3.11 or newer is not on the path" in said()
    fake = '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\n'
    (tools / "python3").write_text(fake, encoding="utf-8")
    (tools / "python3").chmod(0o755)
    assert "has no venv module" in said()
