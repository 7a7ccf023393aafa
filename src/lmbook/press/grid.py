"""A grid of experiments: two at a time, once each, into one CSV and one HTML page."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmbook.press import compare, experiment, page, run
from lmbook.repro import NG

CELL = re.compile(r"cell (\d+) of (\d+)")


@dataclass(frozen=True)
class Run:
    """One run of a grid: its parameters and what came of it."""

    values: dict[str, Any]
    done: experiment.Experiment | None = None
    error: str = ""
    failed_claims: list[str] = field(default_factory=list)

    @property
    def results(self) -> dict[str, Any]:
        return self.done.results if self.done else {}


@dataclass(frozen=True)
class Grid:
    """A finished grid and its two files."""

    runs: list[Run]
    csv: Path
    html: Path


class Bar:
    """Progress of all runs in one line, drawn over itself on a terminal."""

    def __init__(self, count: int, say: Callable[[str], None]) -> None:
        self.parts, self.say = [0.0] * count, say
        self.start, self.lock = time.monotonic(), threading.Lock()

    def cell(self, index: int, line: str) -> None:
        """Take in one line that a run said."""
        found = CELL.search(line)
        if found:
            self.at(index, 0.99 * int(found[1]) / int(found[2]))

    def at(self, index: int, part: float) -> None:
        with self.lock:
            self.parts[index] = part
            if part == 1.0 or sys.stdout.isatty():
                self.say(str(self))

    def __str__(self) -> str:
        whole = sum(self.parts) / len(self.parts)
        ended = sum(part == 1.0 for part in self.parts)
        bar = "#" * round(30 * whole)
        passed = time.monotonic() - self.start
        return f"[{bar:<30}] {ended} of {len(self.parts)} runs, {passed:.0f} s"


def draw(line: str) -> None:
    """Print a bar; on a terminal over the last one."""
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if "[" + "#" * 30 in line else "", flush=True)
    else:
        print(line, flush=True)


def grid(
    path: Path,
    runs: Sequence[dict[str, Any]],
    folder: Path = experiment.FOLDER,
    *,
    say: Callable[[str], None] = draw,
    cell_seconds: int = run.CELL_SECONDS,
    workers: int = 2,
) -> Grid:
    """Run the chapter at ``path`` with each of ``runs``; those that are there are read.

    A run that fails is a row with its error; the others go on. An interruption leaves
    every finished run for the next time. Raises ParameterError before anything runs.
    """
    experiment.refuse(path, runs)
    bar = Bar(len(runs), say)

    def one(index: int) -> Run:
        given = [f"{name}={value}" for name, value in runs[index].items()]
        try:
            done = experiment.experiment(
                path, given, folder, lambda line: bar.cell(index, line), cell_seconds
            )
            made = Run(runs[index], done, failed_claims=_failed(done.output))
        except run.CellError as error:
            made = Run(runs[index], error=f"{error.where}{error}")
        bar.at(index, 1.0)
        return made

    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        rows = list(pool.map(one, range(len(runs))))
    finally:  # Ctrl-C: start no more
        pool.shutdown(cancel_futures=True)
    name = experiment.slug({k: _together(runs, k) for k in runs[0]})
    target = folder / path.stem[:2]
    made = Grid(rows, target / f"{name}.csv", target / f"{name}.html")
    target.mkdir(parents=True, exist_ok=True)
    run.write_text(made.csv, table(rows))
    run.write_text(made.html, page.page(path, rows))
    return made


def _together(runs: Sequence[dict[str, Any]], name: str) -> str:
    return ",".join(dict.fromkeys(str(values[name]) for values in runs))


def _failed(output: Path) -> list[str]:
    """The lines with ✗ of an executed chapter."""
    texts = [
        str(o.get("text") or o.get("data", {}).get("text/plain", ""))
        for cell in compare.without_injected(run.read(output)).cells
        for o in cell.get("outputs", [])
    ]
    return [line for text in texts for line in text.splitlines() if NG in line]


def table(rows: Sequence[Run]) -> str:
    """The CSV: a line a run, its parameters, its results, what left the book."""
    names = list(dict.fromkeys(n for row in rows for n in row.results))
    ours = list(rows[0].values)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*ours, *names, "failed_claims", "changed_cells", "error"])
    for row in rows:
        results = [_cell(row.results.get(name, "")) for name in names]
        changed = " ".join(row.done.changed) if row.done else ""
        given = [str(row.values[name]) for name in ours]
        writer.writerow([*given, *results, len(row.failed_claims), changed, row.error])
    return out.getvalue()


def _cell(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)
