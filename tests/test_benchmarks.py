"""Committed many-seed results, made again in part by the scripts that wrote them."""

import json
import subprocess
import sys

import pytest

from lmbook import chapters, repro
from lmbook.press import run

BENCHMARKS = chapters.ROOT / "benchmarks"


@pytest.mark.parametrize(
    "path", sorted((BENCHMARKS / "results").glob("*.json")), ids=str
)
def test_results_name_their_machine_and_date(path):
    results = repro.measured(path.stem)
    assert {"machine", "date"} <= set(results)
    assert (BENCHMARKS / f"{path.stem}.py").is_file()


def test_causal_mean_is_above_its_bars():
    rows = {row["T"]: row for row in repro.measured("causal_mean")["rows"]}
    assert rows[1024]["time_ratio"] >= 10
    assert rows[4096]["time_ratio"] >= 50
    assert rows[1024]["matrix_KiB"] >= 10 * rows[1024]["running_KiB"]


@pytest.mark.slow
def test_chapter_1_seeds_in_part():
    command = [sys.executable, "benchmarks/ch01_seeds.py", "--part", "2"]
    done = subprocess.run(
        command,
        cwd=chapters.ROOT,
        env=run.environment(),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    again = json.loads(done.stdout.splitlines()[-1])
    committed = repro.measured("ch01_seeds")
    for new, old in zip(again["overfit"], committed["overfit"], strict=True):
        assert new["floor"] == pytest.approx(old["floor"], abs=1e-5)
        assert new["prefix_floor"] == pytest.approx(old["prefix_floor"], abs=1e-5)
        assert new["mean"] == pytest.approx(old["mean"], abs=max(5 * old["sd"], 2e-3))
    for new, old in zip(again["roles"], committed["roles"], strict=True):
        assert new["after"] == pytest.approx(old["after"], abs=0.25)
    for new, old in zip(again["names"], committed["names"], strict=True):
        assert new["teacher_forced"] == pytest.approx(old["teacher_forced"], abs=0.08)
    for label, rows in committed["widths"].items():
        by_width = {row["D"]: row["mean"] for row in again["widths"][label]}
        for row in rows:
            if row["D"] >= 8:
                assert by_width[row["D"]] == pytest.approx(row["mean"], abs=0.02)
