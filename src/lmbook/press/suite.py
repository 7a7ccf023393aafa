"""`lmbook test`: lint, types, tests, the regression and the other-CPU probe."""

from __future__ import annotations

import platform
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lmbook import chapters
from lmbook.press import faults, run
from lmbook.press.compare import PNG, Report, compare, count_faults
from lmbook.press.report import write_html

REPORT = run.BUILD / "regression.html"
CODE = ["src", "tests", "benchmarks", "notebooks"]
PYTEST = ["-X", "warn_default_encoding", "-m", "pytest"]
PARALLEL = ["-n", "2", "--dist", "loadfile"]  # a file keeps its kernels and caches
INEXACT = (
    "Exact outputs hold on Linux x86-64 with CPython 3.11; this is another platform, "
    "so the chapters are executed but not compared, and there is no probe."
)


def exact_platform() -> bool:
    """True where the committed outputs must come out exactly."""
    here = (sys.platform, platform.machine(), platform.python_implementation())
    return here == ("linux", "x86_64", "CPython") and sys.version_info[:2] == (3, 11)


@dataclass
class Steps:
    """The steps of a test run, each said with its verdict as it ends."""

    passed: int = 0
    failed: int = 0

    def add(self, name: str, good: bool) -> None:
        self.passed += good
        self.failed += not good
        print(f"== {name}: {'passed' if good else 'FAILED'}", flush=True)

    def python(
        self, name: str, arguments: Sequence[str], fine: tuple[int, ...]
    ) -> None:
        print(f"== {name}", flush=True)
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=chapters.ROOT, env=run.environment(), check=False
        )
        self.add(name, done.returncode in fine)

    def end(self) -> int:
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed else 0


def test() -> int:
    """Everything `make test` promises; the exit code."""
    steps, exact, notebooks = Steps(), exact_platform(), chapters.every()
    steps.python("ruff check", ["-m", "ruff", "check", *CODE], (0,))
    steps.python("ruff format", ["-m", "ruff", "format", "--check", *CODE], (0,))
    steps.python("mypy", ["-m", "mypy"], (0,))
    said: list[str] = []
    with ThreadPoolExecutor(max_workers=1) as pool:
        executing = pool.submit(
            run.run, notebooks, run.EXECUTED, workers=1, say=said.append
        )
        chosen = [*PYTEST, *PARALLEL, *_selection(exact)]
        steps.python("pytest with coverage", chosen, (0,))
        print("== execution\n" + "\n".join(said), flush=True)
        results = executing.result()
    good = bool(results) and all(r.error is None for r in results)
    if not results:
        print("there is no chapter in notebooks/")
    steps.add("execution", good)
    if exact:
        steps.add("comparison", comparison(notebooks, run.EXECUTED) and good)
        # A chapter that dies or never ends would do so again, 300 s a cell.
        steps.add("probe", good and probe(notebooks))
    else:
        print(INEXACT)
    return steps.end()


def _selection(exact: bool) -> list[str]:
    if exact:
        return ["-m", "not slow", "--cov"]
    return ["-m", "not regression and not slow", "--cov", "--cov-fail-under=0"]


def slow() -> int:
    """What takes longer; no test is marked slow at first, and that is said."""
    steps = Steps()
    chosen = "slow" if exact_platform() else "slow and not regression"
    steps.python("slow tests", [*PYTEST, *PARALLEL, "-m", chosen], (0, 5))
    return steps.end()


def comparison(
    notebooks: Iterable[Path],
    executed: Path = run.EXECUTED,
    html: Path = REPORT,
) -> bool:
    """Compare each executed chapter with the committed one; True if none differs.

    Differences are printed and shown with pictures in ``html``.
    """
    reports = [compare_file(path, executed / path.name) for path in notebooks]
    for report in reports:
        print(f"regression: {report}")
        for difference in report.differences:
            print(f"  {faults.plain(str(difference))}")
    html.unlink(missing_ok=True)
    if all(not r.differences for r in reports):
        return bool(reports)
    write_html(reports, html)
    print(f"differences with pictures: {html}")
    return False


def compare_file(committed: Path, executed: Path) -> Report:
    """The comparison of two files; a missing execution is one difference."""
    if not executed.is_file():
        report = Report(committed.stem)
        report.add("-", "cells", "was not executed (lmbook run)")
        return report
    return compare(run.read(committed), run.read(executed), committed.stem)


@dataclass(frozen=True)
class Probed:
    """The second execution of one chapter, under another CPU's arithmetic."""

    chapter: str
    cells: int
    outputs: int
    pictures: int
    differences: int
    log: str

    def __str__(self) -> str:
        return (
            f"{self.chapter}: {self.cells} cells, {self.outputs} outputs, "
            f"{self.pictures} picture descriptions compared, "
            f"{self.differences} differences"
        )


def probe(notebooks: Iterable[Path], build: Path = run.BUILD) -> bool:
    """nbval executes everything once more as another CPU would. True if all agree."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        probed = list(pool.map(lambda n: probe_one(n, build), notebooks))
    for one in probed:
        print(one.log if one.differences else "", end="")
        print(f"probe: {one}", flush=True)
    return bool(probed) and all(not one.differences for one in probed)


def probe_one(notebook: Path, build: Path = run.BUILD) -> Probed:
    """nbval on one notebook in the probe's environment."""
    results = build / "probe" / f"{notebook.stem}.xml"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    nbval = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
    quiet = ["-q", "--color=no", "-p", "no:cacheprovider", f"--junitxml={results}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *nbval, *quiet, str(notebook)],
        cwd=chapters.ROOT,
        env=run.environment(probe=True),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return _count(notebook, results, done.returncode, done.stdout)


def _count(notebook: Path, results: Path, code: int, log: str) -> Probed:
    """What nbval compared: cells from its own result file, the rest from them.

    nbval passes a cell whose reference was never executed; here that is a difference.
    """
    content = run.read(notebook)
    cells = [c for c in content.cells if c.cell_type == "code"]
    cases = list(ET.parse(results).iter("testcase")) if results.is_file() else []
    passed = sum(1 for case in cases if len(case) == 0)
    outputs = [o for cell in cells for o in cell.outputs]
    described = [o for o in outputs if {PNG, "text/plain"} <= set(o.get("data", {}))]
    differences = max(len(cells) - passed, 1 if code else 0)
    differences += len(count_faults(content))
    return Probed(
        notebook.stem, len(cases), len(outputs), len(described), differences, log
    )
