"""Chapter 2: accuracy of every way to give positions, on four tasks, over seeds.

Trains the chapter's own models (through the loader) at length 16 and measures them at
16, 32 and 64. float64, one thread, Adam 3e-3 falling to 0, batches of 64. None stands
where a model cannot run: a learned table is shorter than the sequence.
``learned-long`` is a learned table of 64 rows of which training sees 16.

    python benchmarks/positions.py              the whole table (about 20 CPU minutes)
    python benchmarks/positions.py --part 2     the first two seeds only, printed
"""

import argparse
import datetime
import json
from collections.abc import Iterator
from typing import Any

from _save import RESULTS, machine

from lmbook.chapters import load
from lmbook.repro import setup_torch

FILE = RESULTS / "positions.json"
LENGTHS = (16, 32, 64)
METHODS = ["none", "add", "learned", "split", "concat", "project", "rope", "alibi"]
SEEDS = 5
# (task, methods, heads, layers, steps, seeds)
PLAN = [
    ("三つ前", [*METHODS, "learned-long"], 2, 1, 400, SEEDS),
    ("3番目", [*METHODS, "learned-long"], 2, 1, 400, SEEDS),
    ("直近", METHODS, 2, 1, 400, SEEDS),
    ("直近", ["add", "rope", "alibi"], 8, 1, 400, SEEDS),
    ("続き", METHODS, 2, 2, 800, 3),
]


def runs(part: int = SEEDS) -> Iterator[dict[str, Any]]:
    """The settings of every run with a seed below ``part``; all seeds 0 first."""
    for seed in range(part):
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


def measure(
    task: str, method: str, heads: int, layers: int, steps: int, seed: int
) -> list[float | None]:
    """Accuracy at each of LENGTHS; None where the model cannot run."""
    lesson = load("02")
    setup_torch(seed)
    kind, _, long = method.partition("-")
    rows = LENGTHS[-1] if long else LENGTHS[0]
    model = lesson.make_model(kind, heads=heads, layers=layers, max_len=rows)
    lesson.train(model, lesson.TASKS[task], steps=steps, seed=seed)
    found: list[float | None] = []
    for length in LENGTHS:
        if method == "learned" and length > rows:
            found.append(None)
        else:
            found.append(round(lesson.accuracy(model, lesson.TASKS[task], length), 4))
    return found


def write(rows: list[dict[str, Any]]) -> None:
    """The whole table under its final name, one row a line."""
    head = {
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "lengths": LENGTHS,
    }
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    start = json.dumps(head, ensure_ascii=False).removesuffix("}")
    part = FILE.with_suffix(".part")
    part.write_text(f'{start}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    part.replace(FILE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", type=int, metavar="SEEDS")
    part = parser.parse_args().part
    if part is not None:
        for run in runs(part):
            print(json.dumps({**run, "accuracy": measure(**run)}, ensure_ascii=False))
        return
    rows = []
    for run in runs():
        rows.append({**run, "accuracy": measure(**run)})
        print(rows[-1], flush=True)
    write(rows)


if __name__ == "__main__":
    main()
