"""The commands: `lmbook run`, `compare`, `accept`, `test` and the others."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lmbook import chapters
from lmbook.press import (
    desk,
    doctor,
    experiment,
    faults,
    handouts,
    release,
    run,
    sheet,
    site,
    suite,
)
from lmbook.press.accept import AcceptError, accept
from lmbook.press.editions import EditionError

BENCHMARKS = chapters.ROOT / "benchmarks"
#: What a command refuses, with a sentence.
REFUSALS = (
    *(AcceptError, EditionError, handouts.HandoutError, site.SiteError),
    *(run.CellError, run.NotebookError),
)
INTERRUPTIONS = signal.SIGINT, signal.SIGTERM


class UsageError(ValueError):
    """A name on the command line that does not exist; lists those that do."""


def call(arguments: Sequence[str] | None) -> tuple[int, str]:
    """The exit code of one command, and why it refused. Raises OSError.

    Ctrl-C and SIGTERM raise KeyboardInterrupt, with all chapters' processes ended.
    """
    given = parser().parse_args(arguments)
    os.environ.update(run.folders())
    ours = {name: signal.signal(name, _interrupted) for name in INTERRUPTIONS}
    try:
        return given.command(given), ""
    except (UsageError, experiment.ParameterError) as error:
        return 2, faults.plain(str(error))
    except REFUSALS as error:
        where = error.where if isinstance(error, run.CellError) else ""
        return 1, faults.plain(f"{where}{error}")
    finally:
        for name, handler in ours.items():
            signal.signal(name, handler)


def _interrupted(*_: object) -> None:
    run.let_go()
    raise KeyboardInterrupt


def parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    top = argparse.ArgumentParser(prog="lmbook", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    made = {}
    for name, command in COMMANDS.items():
        made[name] = commands.add_parser(name, help=command.__doc__)
        made[name].set_defaults(command=command)
    for name in ("run", "compare", "accept", "diff"):
        made[name].add_argument("chapters", nargs="*", metavar="CH")
    for name in ("run", "book", "experiment", "accept", "diff"):
        made[name].add_argument(
            "--cell-seconds", type=_whole(86400), default=run.CELL_SECONDS, metavar="N"
        )
    made["accept"].add_argument(
        "--executed", action="store_true", help="take build/executed as it is"
    )
    for name in ("book", "site", "release"):
        made[name].add_argument(
            "--no-answers", action="store_true", help="a site without any answer"
        )
    made["experiment"].add_argument("chapter", metavar="CH")
    made["experiment"].add_argument("parameters", nargs="*", metavar="name=value")
    made["lab"].add_argument(
        "--full", action="store_true", help="the executed chapters, which are kept"
    )
    made["lab"].add_argument("--port", type=_whole(65535), default=8888, metavar="N")
    made["lab"].add_argument("--no-browser", action="store_true")
    made["reset"].add_argument("chapters", nargs="+", metavar="CH")
    made["bench"].add_argument("names", nargs="*", metavar="NAME")
    return top


def _whole(most: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number from 1 to ``most``."""

    def read(text: str) -> int:
        if re.fullmatch("[0-9]{1,9}", text) and 1 <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 to {most}")

    return read


def chosen(names: Sequence[str]) -> list[Path]:
    """The chapters of these numbers (all for none). Raises UsageError."""
    every = {path.stem[:2]: path for path in chapters.every()}
    if not every:
        raise UsageError(f"there is no chapter in {chapters.NOTEBOOKS}")
    for name in names:
        if name not in every:
            raise UsageError(f"no chapter {name!r}; there are {', '.join(every)}")
    return [every[name] for name in dict.fromkeys(names)] or list(every.values())


def _run(paths: list[Path], given: argparse.Namespace) -> list[run.Result]:
    return run.run(paths, run.EXECUTED, cell_seconds=given.cell_seconds)


def run_command(given: argparse.Namespace) -> int:
    """execute chapters into build/executed"""
    results = _run(chosen(given.chapters), given)
    return 1 if any(r.error for r in results) else 0


def compare_command(given: argparse.Namespace) -> int:
    """compare build/executed with the committed chapters"""
    return 0 if suite.comparison(chosen(given.chapters), run.EXECUTED) else 1


def accept_command(given: argparse.Namespace) -> int:
    """execute chapters; their outputs become the committed ones, all or nothing"""
    paths = chosen(given.chapters)
    if not given.executed and run_command(given):
        raise AcceptError("nothing was accepted: a chapter did not run to its end")
    changed = accept(paths, run.EXECUTED)
    for path in paths:
        print(f"{path.stem}: {'accepted' if path in changed else 'unchanged'}")
    return 0


def experiment_command(given: argparse.Namespace) -> int:
    """execute one chapter with other parameters, once; name=1,2 makes a grid"""
    (path,) = chosen([given.chapter])
    legal = experiment.parameters_of(run.read(path))
    runs = experiment.combinations(given.parameters, legal)
    if len(runs) > 1:
        return _grid(path, runs, given.cell_seconds)
    experiment.refuse(path, runs)
    done = experiment.experiment(
        path, given.parameters, experiment.FOLDER, cell_seconds=given.cell_seconds
    )
    if done.was_there:
        print("this run was there already; nothing was executed")
    for name, value in done.results.items():
        print(faults.plain(f"{name}={value}"))
    print(f"cells that differ from the book: {' '.join(done.changed) or 'none'}")
    print(f"notebook: {done.output}")
    return 0


def _grid(path: Path, runs: list[dict[str, Any]], cell_seconds: int) -> int:
    from lmbook.press import grid

    done = grid.grid(path, runs, experiment.FOLDER, cell_seconds=cell_seconds)
    there = sum(row.done is not None and row.done.was_there for row in done.runs)
    failed = [row for row in done.runs if row.error]
    print(f"{len(runs)} runs: {there} were there already, {len(failed)} failed")
    for row in failed:
        print(f"  {row.values}: {faults.plain(row.error)}")
    print(f"table: {done.csv}\npage: {done.html}")
    return 1 if failed else 0


def lab_command(given: argparse.Namespace) -> int:
    """read: JupyterLab over your own copies of the chapters, in desk/"""
    from lmbook.press import lab

    for copy in [] if given.full else desk.lay_out(chosen([]), desk.DESK):
        print(f"new copy: {copy}")
    folder = chapters.NOTEBOOKS if given.full else desk.DESK
    browser = not given.no_browser
    lab.serve(folder, full=given.full, port=given.port, browser=browser)
    return 0


def reset_command(given: argparse.Namespace) -> int:
    """put a fresh copy of a chapter into desk/; the old one goes to desk/old/"""
    for path in chosen(given.chapters):
        kept = desk.reset(path, desk.DESK)
        print(f"{path.stem}: fresh copy" + (f"; the old one is {kept}" if kept else ""))
    print("if JupyterLab is open, close the chapter there and open it again")
    return 0


def diff_command(given: argparse.Namespace) -> int:
    """execute your copies in desk/ and say where the first leaves the book, and why"""
    from lmbook.press import diff

    paths = chosen(given.chapters)
    if not given.chapters:
        paths = [path for path in paths if (desk.DESK / path.name).is_file()]
    if not paths:
        raise UsageError("there is no copy in desk/; `lmbook lab` makes them")
    away = 0
    for path in paths:
        copy, seconds = desk.DESK / path.name, given.cell_seconds
        found = diff.diff(path, copy, cell_seconds=seconds)
        print(faults.plain(str(found)))
        away += found.cell is not None
    return 1 if away else 0


def doctor_command(given: argparse.Namespace) -> int:
    """examine this environment: one sentence and one remedy per fault"""
    faults = doctor.examine()
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults" if faults else "no fault found")
    return 1 if faults else 0


def sheet_command(given: argparse.Namespace) -> int:
    """draw contact sheets of every committed figure into build/sheet"""
    pages = sheet.sheet(chosen([]), sheet.FOLDER)
    for page in pages:
        print(page)
    print(f"{len(pages)} pages")
    return 0


def book_command(given: argparse.Namespace) -> int:
    """execute every chapter, print them, make the site; say where everything is"""
    start = time.monotonic()
    results = _run(chosen([]), given)
    print()
    for result in results:
        print(f"{result}\n  {result.output if result.error is None else 'no output'}")
    print(f"all chapters: {time.monotonic() - start:.1f} s")
    if any(r.error for r in results):
        return 1
    _print(r.output for r in results)
    _site([r.output for r in results], given)
    print("to read and run them: make lab, or .venv/bin/lmbook lab")
    return 0


def handouts_command(given: argparse.Namespace) -> int:
    """make the PDFs and notebooks of students and teachers in build/handouts"""
    _print(chosen([]))
    return 0


def site_command(given: argparse.Namespace) -> int:
    """make the reading site in build/site (and the handouts that it offers)"""
    _print(chosen([]))
    _site(chosen([]), given)
    return 0


def release_command(given: argparse.Namespace) -> int:
    """zip handouts and site, made afresh, into build/release"""
    site_command(given)
    folders = release.FOLDER, handouts.FOLDER, site.FOLDER
    for path in release.release(chosen([]), *folders):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    return 0


def _print(paths: Iterable[Path]) -> None:
    for made in handouts.build(paths, handouts.FOLDER):
        print(f"handouts of {made}")
    print(f"  {handouts.FOLDER}")


def _site(paths: list[Path], given: argparse.Namespace) -> None:
    start, answers = time.monotonic(), not given.no_answers
    page = site.build(paths, site.FOLDER, printed=handouts.FOLDER, answers=answers)
    print(f"site: {time.monotonic() - start:.1f} s\n  {page}")


def test_command(given: argparse.Namespace) -> int:
    """lint, types, tests, regression and probe"""
    return suite.test()


def slow_command(given: argparse.Namespace) -> int:
    """the tests that take longer"""
    return suite.slow()


def bench_command(given: argparse.Namespace) -> int:
    """run benchmarks; each writes its file in benchmarks/results"""
    failed = [p.stem for p in benchmarks(given.names) if not _bench(p)]
    print(f"failed: {' '.join(failed)}" if failed else "all benchmarks ran")
    return 1 if failed else 0


def benchmarks(names: Sequence[str], folder: Path = BENCHMARKS) -> list[Path]:
    """The benchmark scripts that have a main part (all for no ``names``)."""
    found = {
        path.stem: path
        for path in sorted(folder.glob("*.py"))
        if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    for name in names:
        if name not in found:
            listed = ", ".join(found) or "none"
            raise UsageError(f"no benchmark {name!r}; there are {listed}")
    return [found[name] for name in names] or list(found.values())


def _bench(path: Path) -> bool:
    print(f"== {path.stem}", flush=True)
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=chapters.ROOT,
        env=run.environment(),
        check=False,
    )
    verdict = "done" if done.returncode == 0 else "FAILED"
    print(f"== {path.stem}: {verdict} in {time.monotonic() - start:.1f} s", flush=True)
    return done.returncode == 0


COMMANDS = {
    "run": run_command,
    "compare": compare_command,
    "accept": accept_command,
    "experiment": experiment_command,
    "lab": lab_command,
    "reset": reset_command,
    "diff": diff_command,
    "doctor": doctor_command,
    "sheet": sheet_command,
    "book": book_command,
    "handouts": handouts_command,
    "site": site_command,
    "release": release_command,
    "test": test_command,
    "test-slow": slow_command,
    "bench": bench_command,
}
