"""Accuracy of every way to give positions, on four tasks, over seeds.

Trains chapter 2's own models (its definitions come out of the notebook) at length 16
and measures them at 16, 32 and 64. Writes ``benchmarks/results/positions.json``.

    python benchmarks/positions.py              the whole table (about 15 CPU minutes)
    python benchmarks/positions.py --only ADD   prints one run, writes nothing

Rows already in the result file are kept, so an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
from pathlib import Path

import torch

from lmbook import chapters
from lmbook.repro import setup_torch

RESULTS = Path(__file__).parent / "results" / "positions.json"
LENGTHS = (16, 32, 64)
METHODS = ["none", "add", "learned", "split", "concat", "project", "rope", "alibi"]
# (task, methods, heads, layers, steps, seeds)
PLAN = [
    ("三つ前", [*METHODS, "learned-long"], 2, 1, 400, 5),
    ("3番目", [*METHODS, "learned-long"], 2, 1, 400, 5),
    ("直近", METHODS, 2, 1, 400, 5),
    ("直近", ["add", "rope", "alibi"], 8, 1, 400, 5),
    ("続き", METHODS, 2, 2, 800, 3),
]


def runs():
    """Every run of the plan as the keys of its row; all seeds 0 first."""
    for seed in range(5):
        for task, methods, heads, layers, steps, seeds in PLAN:
            for method in methods if seed < seeds else []:
                yield {
                    "task": task,
                    "method": method,
                    "heads": heads,
                    "layers": layers,
                    "steps": steps,
                    "seed": seed,
                }


def measure(task, method, heads, layers, steps, seed):
    """Accuracy at each of LENGTHS; None where the model cannot run."""
    ch = chapters.load("02")
    setup_torch(seed)
    kind, _, long = method.partition("-")
    model = ch.make_model(
        kind, heads=heads, layers=layers, max_len=64 if long else LENGTHS[0]
    )
    ch.train(model, ch.TASKS[task], steps=steps, seed=seed)
    found = []
    for length in LENGTHS:
        try:
            found.append(round(ch.accuracy(model, ch.TASKS[task], length), 4))
        except ValueError:
            found.append(None)
    return found


def machine() -> str:
    """CPU model and number of cores; no host name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} cores"
    return f"{platform.machine()}, {os.cpu_count()} cores"


def save(rows, seconds):
    """Write the table, whole, under its final name."""
    table = {
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "dtype": "float64",
        "lengths": LENGTHS,
        "cpu_seconds": round(seconds),
        "rows": "ROWS",
    }
    text = json.dumps(table, ensure_ascii=False, indent=1)
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    part = RESULTS.with_suffix(".part")
    part.write_text(
        text.replace('"ROWS"', f"[\n  {lines}\n ]") + "\n", encoding="utf-8"
    )
    part.replace(RESULTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="method to run once on every task")
    only = parser.parse_args().only
    if only:
        for run in runs():
            if run["method"] == only.lower() and run["seed"] == 0:
                print(run["task"], run["heads"], measure(**run))
        return
    old = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    rows, spent = old.get("rows", []), old.get("cpu_seconds", 0)
    known = [{k: v for k, v in row.items() if k != "accuracy"} for row in rows]
    for run in runs():
        if run in known:
            continue
        start = time.process_time()
        row = {**run, "accuracy": measure(**run)}
        spent += time.process_time() - start
        rows.append(row)
        print(row, flush=True)
        save(rows, spent)


if __name__ == "__main__":
    main()
