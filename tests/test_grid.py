"""Grids of experiments: refused, run, interrupted, gone on with, shown."""

import csv
import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import browser
import pytest
from helpers import markdown, notebook, save
from nbformat.v4 import new_output

from lmbook import chapters
from lmbook.press import cli, compare, experiment, grid, page, run
from lmbook.repro import fmt

LEGAL = {"n": 1, "lr": 0.1, "quick": False, "name": "a", "sizes": [1, 2]}
DRAW = (
    "from lmbook import plots\n"
    "plots.curves({'a': [n, 1, 2]}, alt='上がる線です。', title='図')"
)


def silent(text: str) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed chapter with a seed, a curve, a text sample and a claim."""
    made = notebook(
        markdown("title", "# 第1章 小さな実験"),
        ("imports", "import os, time\nfrom lmbook import repro"),
        ("parameters", "n = 1\nseed = 0\nslow = 0\nquick = False", ["parameters"]),
        (
            "parameters-check",
            "repro.legal('n', n, range(1, 6))\nif n + seed > 7:\n"
            "    raise ValueError(f'n + seed は 7 までです（{n + seed}）。')",
        ),
        ("wait", "time.sleep(slow)"),
        ("sample", "print('<見本>', 'ab' * n)"),
        ("figure", DRAW),
        ("claim", "repro.claim('n は 3 より小さい', n < 3)\nassert n != 4"),
        (
            "record",
            "repro.record(twice=2 * n + seed, curve=[n * t + seed for t in range(5)])",
            ["remove-cell"],
        ),
    )
    folder = tmp_path_factory.mktemp("実験 の 本")
    done = compare.clean(run.execute(made, folder))
    return save(folder / "01_small.ipynb", done)


@pytest.fixture(scope="module")
def done(book: Path) -> grid.Grid:
    """A finished grid: n = 3 with two seeds, and a run that fails."""
    runs = [{"n": n, "seed": s} for n, s in ((1, 0), (3, 0), (3, 2), (4, 0))]
    return grid.grid(book, runs, book.parent / "e", say=silent)


def parameters(book: Path) -> dict[str, Any]:
    return experiment.parameters_of(run.read(book))


# Which runs


def test_combinations() -> None:
    found = experiment.combinations(["n=1,2", "quick=True,False"], LEGAL)
    assert found == [
        {"n": 1, "quick": True},
        {"n": 1, "quick": False},
        {"n": 2, "quick": True},
        {"n": 2, "quick": False},
    ]
    assert experiment.combinations([], LEGAL) == [{}]
    assert experiment.combinations(["n=2,2"], LEGAL) == [{"n": 2}]
    assert experiment.combinations(["sizes=[3,4]"], LEGAL) == [{"sizes": [3, 4]}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["m=1,2"], "no parameter 'm'; legal, with their defaults: n=1"),
        (["n=1,x"], "n=x: not a value of type int"),
        (["n=1,"], "n=: not a value of type int"),
        (["n=1,2", "n=3"], "'n' is given twice"),
        (["n"], "'n' is not name=value"),
    ],
)
def test_combinations_are_refused(given: list[str], message: str) -> None:
    with pytest.raises(experiment.ParameterError, match=re.escape(message)):
        experiment.combinations(given, LEGAL)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["n=1,9"], "n は 1 から 5 までの整数で指定します（受け取った値: 9）。"),
        (["n=5", "seed=0,3"], "n + seed は 7 までです（8）。"),
    ],
)
def test_illegal_values_are_refused_before_anything_runs(
    given: list[str], message: str, book: Path
) -> None:
    """C40, for values: the chapter's own check, its legal values in the message."""
    runs = experiment.combinations(given, parameters(book))
    with pytest.raises(experiment.ParameterError) as caught:
        grid.grid(book, runs, book.parent / "refused", say=silent)
    text = str(caught.value).replace(" で指定", "で指定")
    assert message in text
    assert "n=1 (int), seed=0 (int)" in text
    assert not (book.parent / "refused").exists()


def test_a_notebook_without_parameters_has_none(tmp_path: Path) -> None:
    """C40: the right name, but no cell that takes it."""
    path = save(tmp_path / "01_x.ipynb", notebook(("n", "n = 3")))
    experiment.refuse(path, [{}])
    with pytest.raises(experiment.ParameterError, match=r"legal.*: none"):
        experiment.combinations(["n=1"], parameters(path))


# The files


def test_the_table(done: grid.Grid) -> None:
    assert done.csv.name == "n=1,3,4,seed=0,2.csv"
    with done.csv.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["n"], r["seed"], r["twice"]) for r in rows] == [
        *(("1", "0", "2.0"), ("3", "0", "6.0"), ("3", "2", "8.0"), ("4", "0", "")),
    ]
    assert rows[2]["curve"] == "[2.0, 5.0, 8.0, 11.0, 14.0]"
    assert [r["failed_claims"] for r in rows] == ["0", "1", "1", "0"]
    assert rows[0]["changed_cells"] == ""
    assert rows[1]["changed_cells"] == "sample figure claim record"
    assert "cell claim: AssertionError" in rows[3]["error"]


def test_the_page(done: grid.Grid) -> None:
    text = done.html.read_text(encoding="utf-8")
    heads = re.findall("<h2>(.*?)</h2>", text)
    assert heads == [
        *("値と結果", "くり返しの平均と幅", "曲線を重ねる", "本とちがうところ"),
        "並べて見る",
    ]
    assert "<td>7.0000 [6.0000, 8.0000]</td>" in text  # n = 3, two seeds
    assert "n は 3 より小さい ✗" in text
    assert "&lt;見本&gt; abab" in text
    assert "<見本>" not in text
    assert text.count('alt="curve の曲線を、値ごとに重ねた図です。') == 1
    side = text[text.index("並べて見る") :]
    assert "<h3>本 / n=1, seed=0</h3>" in side
    assert side.count("<img") == 2
    assert "record" not in side


def test_the_page_escapes_everything(tmp_path: Path) -> None:
    """What comes from a parameter, a result, a claim, an error, a cell's output."""
    bad = "</pre><script>alert(1)</script>\"'&"
    attribute = '" onerror="alert(2)'

    def chapter(folder: str, text: str) -> Path:
        made = notebook(markdown("title", f"# 第1章 {bad}"), ("one", bad), ("two", "2"))
        for found in made.cells[1:]:
            found.execution_count = 1
            output = new_output("stream", name="stdout", text=text)
            data = {"image/png": attribute, "text/plain": bad}
            found.outputs = [output, new_output("display_data", data)]
        return save(tmp_path / folder / "01_x.ipynb", made)

    path, output = chapter("book", "book"), chapter("run", bad)
    done = experiment.Experiment(output, {bad: 1.0, "text": bad}, ["one", "two"], False)
    values = {"corpus": bad, "seed": 0}
    rows = [
        grid.Run(values, done, failed_claims=[bad]),
        grid.Run({**values, "seed": 1}, error=bad),
    ]
    text = page.page(path, rows)
    assert text.count("&lt;script&gt;alert(1)") >= 10
    assert "<script" not in text
    assert "alert(1)</" not in text
    assert attribute not in text
    written = list(csv.DictReader(io.StringIO(grid.table(rows))))
    assert [row["corpus"] for row in written] == [bad, bad]


def test_bands_hold_the_least_and_the_most(done: grid.Grid) -> None:
    finished = [r for r in done.runs if r.values["n"] == 3]
    drawn = page._curve("curve", {"n=3": page._numbers(finished, "curve")})
    for numbers in ((1, 4, 7, 10, 13), (0, 3, 6, 9, 12), (2, 5, 8, 11, 14)):
        assert fmt([float(x) for x in numbers]) in drawn.description


def test_one_seed_has_no_spread(book: Path, done: grid.Grid) -> None:
    rows = [r for r in done.runs if r.values["seed"] == 0 and r.done]
    text = page.page(book, rows)
    assert "くり返しの平均と幅" not in text
    assert "曲線を重ねる" in text


def test_the_page_asks_for_nothing(done: grid.Grid) -> None:
    text = done.html.read_text(encoding="utf-8")
    assert not re.findall(r"https?:|(?:src|href)=[\"'](?!data:)|@import|url\(", text)
    with browser.page() as (shown, outside):
        asked: list[str] = []
        shown.on("request", lambda request: asked.append(request.url))
        shown.goto(done.html.as_uri())
        widths = shown.locator("img").evaluate_all("i => i.map(x => x.naturalWidth)")
        assert [u for u in asked if not u.startswith("data:")] == [done.html.as_uri()]
    assert outside == []
    assert len(widths) == 3
    assert min(widths) > 100


# Once each


def test_a_second_grid_runs_only_what_is_new(book: Path, done: grid.Grid) -> None:
    runs = experiment.combinations(["n=1,2", "seed=0"], parameters(book))
    said: list[str] = []
    again = grid.grid(book, runs, book.parent / "e", say=said.append)
    assert [row.done and row.done.was_there for row in again.runs] == [True, False]
    assert again.runs[0].results == done.runs[0].results
    assert said[-1].startswith(f"[{'#' * 30}] 2 of 2 runs, ")


@pytest.mark.slow
def test_two_processes_give_what_one_gives(book: Path, done: grid.Grid) -> None:
    """C38: runs beside each other do not disturb each other."""
    runs = [done.runs[2].values]
    alone = grid.grid(book, runs, book.parent / "one", say=silent, workers=1)
    assert alone.runs[0].results == done.runs[2].results


COMMAND = (
    "import sys; from pathlib import Path; from lmbook import chapters;"
    "from lmbook.press import cli, experiment;"
    "chapters.NOTEBOOKS = Path(sys.argv[1]);"
    "experiment.FOLDER = Path(sys.argv[2]);"
    "sys.exit(cli.main(['experiment', '01', 'slow=1', 'seed=0,1,2']))"
)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_an_interrupted_grid_goes_on(book: Path, tmp_path: Path) -> None:
    """Killed half-way with no chance to tidy, then finished."""

    def start() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(book.parent), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )

    def finished() -> list[str]:
        return sorted(p.parent.name for p in tmp_path.glob("01/*/01_small.ipynb"))

    def wait(count: int) -> None:
        end = time.monotonic() + 90
        while len(finished()) < count and time.monotonic() < end:
            time.sleep(0.1)

    one = start()
    wait(1)
    os.killpg(one.pid, signal.SIGKILL)
    one.communicate()
    there = {name: written(tmp_path, name) for name in finished()}
    assert 1 <= len(there) < 3
    two = start()
    out, _ = two.communicate(timeout=120)
    assert two.returncode == 0, out
    assert f"3 runs: {len(there)} were there already, 0 failed" in out
    assert len(finished()) == 3
    assert there == {name: written(tmp_path, name) for name in there}
    parts = [p.name for p in tmp_path.rglob(".*.part")]
    assert not [p for p in parts if "01_small" not in p]


def written(folder: Path, name: str) -> int:
    return (folder / "01" / name / "01_small.ipynb").stat().st_mtime_ns


def test_the_command(
    book: Path,
    done: grid.Grid,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(chapters, "NOTEBOOKS", book.parent)
    monkeypatch.setattr(experiment, "FOLDER", book.parent / "e")
    assert cli.main(["experiment", "01", "n=1,9"]) == 2
    assert "n は 1 から 5 まで" in capsys.readouterr().err
    assert cli.main(["experiment", "01", "n=9"]) == 2
    assert cli.main(["experiment", "01", "n=1,3", "seed=0"]) == 0
    said = capsys.readouterr().out
    assert "2 runs: 2 were there already, 0 failed" in said
    assert f"page: {book.parent / 'e' / '01' / 'n=1,3,seed=0.html'}" in said
    assert cli.main(["experiment", "01", "n=1,4", "seed=0"]) == 1
    assert "AssertionError" in capsys.readouterr().out


def test_the_bar() -> None:
    said: list[str] = []
    bar = grid.Bar(2, said.append)
    bar.cell(0, "01_small: cell 5 of 10, 3 s")
    bar.cell(0, "something else")
    assert said == []
    assert str(bar).startswith(f"[{'#' * 7:<30}] 0 of 2 runs")
    bar.at(0, 1.0)
    assert said[0].startswith(f"[{'#' * 15:<30}] 1 of 2 runs")


def test_the_bar_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    grid.draw("[##] 1 of 2")
    assert capsys.readouterr().out == "[##] 1 of 2\n"
