"""The gate's self-test: every output fault of regression.md 5 is caught, no more."""

import base64
import copy
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from helpers import caught_at, cell, notebook, replace, save
from nbformat.v4 import new_output
from PIL import Image, PngImagePlugin

from lmbook.press import compare, editions, run
from lmbook.press.accept import AcceptError, accept

SETUP = """
import io, os, sys, time, warnings
from IPython.display import display
from matplotlib.figure import Figure
def show(figure, text):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    data = {"image/png": buffer.getvalue(), "text/plain": text}
    display(data, raw=True, metadata={"image/png": {"alt": text}})
"""
TRAIN = """
w, lr = 1.0, 0.1
for step in range(50):
    w -= lr * 2 * (w - 0.3)
print(f"{w:.4f}")
"""
LINE = """
print("before")
figure = Figure(figsize=(3, 2))
ax = figure.subplots()
drift = 0.0
ys = [0.31 + 2.3 * 2.7 ** (-i / 6) * (1 + drift * (-1) ** i) for i in range(60)]
ax.plot(ys, color="C0")
ax.set_title("loss")
show(figure, "a line")
"""
HEAT = """
figure = Figure(figsize=(3, 2))
scale, bump = 1.0, 0.0
grid = [[scale * (i + j) / 22 for j in range(12)] for i in range(12)]
grid[3][5] += bump
figure.subplots().imshow(grid, vmin=0, vmax=1)
show(figure, "a map")
"""
CELLS = [
    ("setup", SETUP),
    ("number", "print(0.1234)"),
    ("train", TRAIN),
    ("lines", 'print("first")\nprint("second")'),
    ("line", LINE),
    ("heat", HEAT),
    ("result", "1 + 1"),
    ("progress", 'print("1 of 2", end="\\r")\nprint("2 of 2")'),
]


def execute(content: Any, folder: Path, seconds: int = 60) -> Any:
    return compare.clean(run.execute(content, folder, cell_seconds=seconds))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return execute(notebook(*CELLS), tmp_path_factory.mktemp("gate"))


def changed(
    healthy: Any, folder: Path, mutate: Callable[[Any], None]
) -> compare.Report:
    """Compare stale outputs under a mutated source with that source executed."""
    committed = copy.deepcopy(healthy)
    mutate(committed)
    return compare.compare(committed, execute(committed, folder))


# What a changed source does to the outputs: cell, old text, new text, how it shows.
PRINTED = 'print("first")\nprint("second")'
AFTER = ('print("before")', 'show(figure, "a line")')
SOURCE_FAULTS = {
    "fourth decimal": ("number", "0.1234", "0.1235", "text"),
    "plot missing": ("line", AFTER[1], "", "outputs"),
    "axes gone": ("line", "ax.set_title", "ax.axis('off')#", "picture"),
    "plot colour": ("line", '"C0"', '"C1"', "picture"),
    "heatmap x 0.9": ("heat", "bump = 1.0, 0.0", "bump = 0.9, 0.0", "picture"),
    "one heatmap cell": ("heat", "bump = 1.0, 0.0", "bump = 1.0, 0.1", "picture"),
    "title": ("line", '"loss"', '"lass"', "picture"),
    "print missing": ("number", "print(0.1234)", "0", "outputs"),
    "warning": ("number", "print", "warnings.warn('w'); print", "stderr"),
    "stdout to stderr": ("number", "0.1234", "0.1234, file=sys.stderr", "stderr"),
    "order of lines": ("lines", PRINTED, 'print("second")\nprint("first")', "text"),
    "text after plot": (
        "line",
        LINE.strip(),
        "\n".join([LINE.replace(AFTER[0], "").strip(), AFTER[0]]),
        "outputs",
    ),
    "output type": ("result", "1 + 1", "display(1 + 1)", "outputs"),
}
# Measured at 150 dpi: a relative drift of 1e-4 passes on a curve that falls early, as
# here (RMS below 0.15); on a slower one it gives 0.25, on a noisy one 0.6, and 1e-5
# gives 0.08. The smallest real fault (a heatmap cell +0.05) has 0.37.
BENIGN = {
    "edit": ("number", "print(", "# a comment\nprint("),
    "plot drift 1e-5": ("line", "drift = 0.0", "drift = 1e-5"),
    "plot drift 1e-4": ("line", "drift = 0.0", "drift = 1e-4"),
    "learning rate drift": ("train", "lr = 1.0, 0.1", "lr = 1.0, 0.1 * (1 + 1e-6)"),
    "progress in pieces": (
        "progress",
        'end="\\r")',
        'end="\\r"); sys.stdout.flush(); time.sleep(0.3)',
    ),
}


@pytest.mark.parametrize("name", SOURCE_FAULTS)
def test_a_changed_output_is_caught(name: str, healthy: Any, tmp_path: Path) -> None:
    where, old, new, kind = SOURCE_FAULTS[name]
    report = changed(healthy, tmp_path, replace(where, old, new))
    assert (where, kind) in {(d.cell, d.kind) for d in report.differences}
    assert {d.cell for d in report.differences} == {where}


@pytest.mark.parametrize("name", BENIGN)
def test_a_benign_change_passes(name: str, healthy: Any, tmp_path: Path) -> None:
    report = changed(healthy, tmp_path, replace(*BENIGN[name]))
    assert report.differences == []
    assert (report.cells, report.outputs, report.pictures) == (8, 8, 2)


def test_png_metadata_of_another_matplotlib_passes(healthy: Any) -> None:
    other = copy.deepcopy(healthy)
    data = cell(other, "line").outputs[1].data
    software = PngImagePlugin.PngInfo()
    software.add_text("Software", "Matplotlib version 3.11.1")
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as image:
        image.save(buffer, "PNG", pnginfo=software)
    data["image/png"] = base64.b64encode(buffer.getvalue()).decode("ascii")
    assert data != cell(healthy, "line").outputs[1].data
    assert compare.compare(healthy, other).differences == []


# Faults of the committed file: what to do to it, and the cell where it shows.
def delete_picture(content: Any) -> str:
    del cell(content, "heat").outputs[0].data["image/png"]
    return "heat"


def delete_output(content: Any) -> str:
    cell(content, "number").outputs = []
    return "number"


def one_not_run(content: Any) -> str:
    found = cell(content, "train")
    found.outputs, found.execution_count = [], None
    return "train"


def all_stripped(content: Any) -> str:
    for found in content.cells:
        found.outputs, found.execution_count = [], None
    return "setup"


def unrun_appended(content: Any) -> str:
    added = copy.deepcopy(cell(content, "number"))
    added.update(id="added", outputs=[], execution_count=None)
    content.cells.append(added)
    return "added"


def stale_counts(content: Any) -> str:
    for found in content.cells:
        found.execution_count += 7
    return "setup"


def cell_deleted(content: Any) -> str:
    del content.cells[1]
    return "train"


def cells_swapped(content: Any) -> str:
    content.cells[1:3] = reversed(content.cells[1:3])
    return "-"


def result_count(content: Any) -> str:
    cell(content, "result").outputs[0].execution_count = 1
    return "result"


def picture_size(content: Any) -> str:
    data = cell(content, "heat").outputs[0].data
    data["image/png"] = cell_of_size(10, 10)
    return "heat"


def alternative_text(content: Any) -> str:
    cell(content, "heat").outputs[0].metadata["image/png"]["alt"] = "other"
    return "heat"


def cell_of_size(width: int, height: int) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


FILE_FAULTS = [
    *(delete_picture, delete_output, one_not_run, all_stripped, unrun_appended),
    *(stale_counts, cell_deleted, cells_swapped, result_count, picture_size),
    alternative_text,
]


def test_a_picture_of_another_kind_is_compared_exactly() -> None:
    """SVG has no bound; a change of the alpha channel alone is one."""

    def shown(data: dict[str, str]) -> Any:
        made = notebook(("one", "1"))
        made.cells[0].execution_count = 1
        made.cells[0].outputs = [new_output("display_data", data)]
        return made

    def png(alpha: int) -> dict[str, str]:
        buffer = io.BytesIO()
        Image.new("RGBA", (9, 9), (0, 0, 0, alpha)).save(buffer, "PNG")
        return {"image/png": base64.b64encode(buffer.getvalue()).decode("ascii")}

    svg = [shown({"image/svg+xml": f"<svg id='{i}'/>"}) for i in range(2)]
    assert [d.kind for d in compare.compare(*svg).differences] == ["text"]
    seen = [shown(png(alpha)) for alpha in (255, 246)]
    assert [d.kind for d in compare.compare(*seen).differences] == ["picture"]
    assert compare.compare(svg[0], svg[0]).differences == []


@pytest.mark.parametrize("spoil", FILE_FAULTS, ids=lambda f: f.__name__)
def test_a_spoilt_file_is_caught(spoil: Callable[[Any], str], healthy: Any) -> None:
    committed = copy.deepcopy(healthy)
    where = spoil(committed)
    report = compare.compare(committed, healthy)
    assert where in {d.cell for d in report.differences}
    assert compare.compare(healthy, healthy).differences == []


DEAF = """
while True:
    try:
        while True: pass
    except KeyboardInterrupt: pass
"""


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("while True: pass", "no end after 3 s"),
        ("import os; os._exit(1)", "the kernel died"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "the kernel died"),
        (DEAF, "no end after 3 s"),
    ],
)
def test_a_run_that_fails_leaves_nothing(
    source: str, error: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "01_x.ipynb", notebook(("good", "1"), ("bad", source)))
    out = tmp_path / "out"
    out.mkdir()
    (out / path.name).write_text("from an earlier run", encoding="utf-8")
    start = time.monotonic()
    (result,) = run.run([path], out, cell_seconds=3, say=lambda text: None)
    assert time.monotonic() - start < 120
    assert result.cell == "bad"
    assert error in (result.error or "")
    assert list(out.iterdir()) == []


def test_a_tag_that_hides_an_error_is_refused(tmp_path: Path) -> None:
    spoilt = notebook(("bad", "1", ["raises-exception"]))
    spoilt.cells[0].execution_count = 1
    path = save(tmp_path / "01_x.ipynb", spoilt)
    with pytest.raises(
        editions.EditionError, match=r"01_x.*cell bad.*raises-exception"
    ):
        editions.check(spoilt, path.name)
    save(tmp_path / "out" / path.name, spoilt)
    with pytest.raises(AcceptError, match="raises-exception"):
        accept([path], tmp_path / "out")


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"name": "conda-env-mine-py", "display_name": "Mine"}},
        {"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}},
        {},
    ],
)
def test_a_private_kernel_name_neither_stops_the_run_nor_stays(
    metadata: dict[str, Any], tmp_path: Path
) -> None:
    content = notebook(("one", "1"))
    content.metadata = nbformat.from_dict(metadata)
    done = execute(content, tmp_path)
    assert done.metadata["kernelspec"] == compare.KERNELSPEC
    assert cell(done, "one").execution_count == 1


def test_a_mutation_is_judged_by_two_quick_runs(tmp_path: Path) -> None:
    content = notebook(
        ("parameters", "quick = False", ["parameters"]),
        ("early", "x = 2\nprint(quick)"),
        ("late", "print(x * 2)"),
    )
    path = save(tmp_path / "01_x.ipynb", content)
    assert caught_at(path, replace("early", "x = 2", "x = 3")) == "late"
    assert caught_at(path, replace("early", "x = 2", "x = [0")) == "early"
    assert caught_at(path, replace("early", "x = 2", "x = 2.0 // 1 == 2 and 2")) is None


# The five source mutations of chapter 1 stand in tests/test_mutations.py, each
# `assert caught_at(chapters.path("01"), replace(cell, old, new)) == expected`.
