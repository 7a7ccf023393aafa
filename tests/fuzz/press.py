"""What makes, compares and prints the notebooks, and the commands."""

import ast
import asyncio
import base64
import copy
import csv
import io
import re
import socket
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import nbformat
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image
from tornado.web import HTTPError

from fuzz import WORDS, Case, Wrong, folder, said, usage
from fuzz.package import BROKEN, CHAPTERS
from lmbook import chapters
from lmbook.corpora import derive
from lmbook.press import (
    accept,
    cli,
    commands,
    compare,
    desk,
    editions,
    experiment,
    grid,
    handouts,
    lab,
    run,
    site,
    suite,
)

ROOT = st.just(chapters.ROOT)
TEXTS = st.text("ab<&あ\n", max_size=8)
PATHS = st.sampled_from(chapters.every())
GONE = st.builds(lambda: folder() / "01_gone.ipynb")
NO_PATH = GONE | st.builds(folder)
MISSING = (FileNotFoundError, IsADirectoryError)


def any_record(**fields: Any) -> Case:
    """A record keeps its fields and can be shown."""
    return Case(
        fields,
        lambda got, g: (
            all(getattr(got, k) == v for k, v in vars(g).items()) and str(got)
        ),
    )


# Notebooks


def png(size: tuple[int, int] = (3, 2), shade: int = 0) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (shade, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def picture_output(shade: int) -> Any:
    shown = base64.b64encode(png(shade=shade)).decode("ascii")
    data = {"image/png": shown, "text/plain": f"図: {shade}"}
    return new_output("display_data", data, metadata={"image/png": {"alt": "図です。"}})


SOLVED = "def f_ex(x):\n    # BEGIN SOLUTION\n    return x + 1\n    # END SOLUTION"
STUB = "def f_ex(x):\n    raise NotImplementedError"
PARAMETERS = "seed = 1\nrate = 0.5\nway = 'add'"
CODE = st.sampled_from(["x = 1", "print(x)", SOLVED, PARAMETERS, "r1 = f_ex(1)", ""])
OUTPUTS = st.lists(
    st.builds(lambda t: new_output("stream", name="stdout", text=t), TEXTS)
    | st.integers(0, 200).map(picture_output),
    max_size=2,
)
TAGS = st.sampled_from([[], [], ["exercise", "points-2"], ["teacher"], ["student"]])


def code_cell(source: str, outputs: list[Any]) -> Any:
    metadata = {"tags": ["parameters"]} if source == PARAMETERS else {}
    return new_code_cell(source, outputs=outputs, metadata=metadata)


CELLS = st.builds(code_cell, CODE, OUTPUTS) | st.builds(
    lambda text, tags: new_markdown_cell(text, metadata={"tags": tags} if tags else {}),
    st.sampled_from(["# 題", "文です。", "x_ex を書きます。"]),
    TAGS,
)


def numbered(cells: list[Any]) -> Any:
    """A notebook with ids and counts as an execution leaves them."""
    made, due = new_notebook(cells=cells), 1
    for number, cell in enumerate(made.cells):
        cell.id = f"c{number}"
        if cell.cell_type == "code" and cell.source:
            cell.execution_count, due = due, due + 1
    return compare.clean(made)


NOTEBOOKS = st.lists(CELLS, min_size=1, max_size=5).map(numbered)


def saved(notebook: Any, place: Path | None = None) -> Path:
    path = (place or folder()) / "01_fuzz.ipynb"
    path.write_text(compare.text_of(notebook), encoding="utf-8")
    return path


def spoilt(notebook: Any) -> Any:
    """One that was not executed to its end."""
    made = nbformat.from_dict(notebook)
    made.cells.append(new_code_cell("1 / 0", id="last"))
    return made


FILES = NOTEBOOKS.map(saved)
NO_NOTEBOOK = st.sampled_from([b"", b"{", b"\xff\xfe", b"<<<<<<< HEAD\n{}"])


def broken_file(content: bytes) -> Path:
    path = folder() / "01_fuzz.ipynb"
    path.write_bytes(content)
    return path


def ids_of(notebook: Any) -> list[str]:
    return [cell.id for cell in notebook.cells]


def same_but_clean(got: Any, g: Any) -> bool:
    return ids_of(got) == ids_of(g.notebook) and compare.clean(got) == got


# accept, compare


def accepted(f: Any, notebook: Any, executed: Any) -> Any:
    path, done = saved(notebook), folder()
    if executed is not None:
        saved(executed, done)
    return [p == path for p in f([path], done)]


ACCEPT = {
    "accept.accept": Case(
        NOTEBOOKS.map(lambda nb: {"notebook": nb, "executed": nb}),
        lambda got, g: got == [],
        {
            "executed": Wrong(
                lambda g: st.sampled_from([None, spoilt(g.notebook)]),
                r"01_fuzz\.ipynb: (not executed|.*cell last)",
                (accept.AcceptError,),
            )
        },
        call=accepted,
        stray=False,
    ),
    "accept.refusals": Case(
        NOTEBOOKS.map(lambda nb: {"executed": nb, "path": saved(nb)}),
        lambda got, g: got == [],
        {"path": Wrong(NO_PATH, "01_gone|lmbook-fuzz", MISSING)},
        stray=False,
    ),
}


def changed(notebook: Any, change: Any) -> Any:
    made = copy.deepcopy(notebook)
    change(made.cells[-1])
    return made


CHANGES = {
    "source": lambda nb: changed(nb, lambda cell: cell.update(source="#")),
    "tags": lambda nb: changed(nb, lambda cell: cell.metadata.update(tags=["answer"])),
    "id": lambda nb: changed(nb, lambda cell: cell.update(id="other")),
    "one more": spoilt,
}
DIFFERENCE = st.builds(compare.Difference, WORDS, WORDS, WORDS, TEXTS, TEXTS)


def reported(name: str, differences: list[Any]) -> compare.Report:
    return compare.Report(name, 1, 1, 0, differences)


REPORT = st.builds(reported, WORDS, st.lists(DIFFERENCE, max_size=3))
COMPARE = {
    "compare.Difference": any_record(cell=WORDS, kind=WORDS, message=WORDS),
    "compare.Report": any_record(name=WORDS),
    "compare.Report.add": Case(
        {"self": REPORT, "cell": WORDS, "kind": WORDS, "message": WORDS},
        lambda got, g: g.self.differences[-1].message == g.message,
        call=lambda f, self, cell, kind, message: f(
            self, cell, kind, message, "a", "b"
        ),
        mutates=["self"],
    ),
    "compare.clean": Case({"notebook": NOTEBOOKS}, same_but_clean),
    "compare.text_of": Case(
        {"notebook": NOTEBOOKS},
        lambda got, g: (
            nbformat.reads(got, as_version=4) == g.notebook and got.endswith("}\n")
        ),
    ),
    "compare.compare": Case(
        {"expected": NOTEBOOKS},
        lambda got, g: got == list(CHANGES),
        call=lambda f, expected: [
            name
            for name, change in CHANGES.items()
            if not f(expected, expected).differences
            and f(expected, change(expected)).differences
        ],
        stray=False,
    ),
    "compare.count_faults": Case(
        {"notebook": NOTEBOOKS | NOTEBOOKS.map(spoilt)},
        lambda got, g: (
            got == [("last", "was not executed")] * ("last" in ids_of(g.notebook))
        ),
    ),
    "compare.pixels": Case(
        {"png": st.builds(png, st.tuples(st.integers(1, 4), st.integers(1, 4)))},
        lambda got, g: got.shape[2] == 4 and 0 <= got.min() <= got.max() <= 255,
        {"png": Wrong([b"", b"x", png()[:20]], "(?i)image|file", (OSError,))},
    ),
    "compare.picture_fault": Case(
        {
            "expected": st.integers(0, 255).map(lambda s: png(shade=s)),
            "actual": st.integers(0, 255).map(lambda s: png(shade=s)) | st.just(b"x"),
        },
        lambda got, g: (got is None) == (g.expected == g.actual) or "x" not in got,
    ),
    "compare.without_injected": Case({"notebook": NOTEBOOKS}, same_but_clean),
    "compare.is_injected": Case(
        {"cell": CELLS},
        lambda got, g: got is False,
    ),
}

# desk, diff, editions


def on_desk(f: Any, notebook: Any, copies: int) -> Any:
    path, place = saved(notebook), folder() / "desk"
    return [f(path, place) for _ in range(copies)]


DESK = {
    "desk.student_copy": Case(
        {"chapter": FILES, "book": st.none()},
        lambda got, g: (
            desk.GUIDE_ID in ids_of(got)
            and all(not c.get("outputs") for c in got.cells)
            and editions.BEGIN not in str(got)
        ),
        {"chapter": Wrong(NO_PATH, "01_gone|lmbook-fuzz", MISSING)},
        stray=False,
    ),
    "desk.lay_out": Case(
        {"notebook": NOTEBOOKS, "copies": st.integers(1, 3)},
        lambda got, g: [len(new) for new in got] == [1, 0, 0][: g.copies],
        call=lambda f, **given: on_desk(lambda p, d: f([p], d), **given),
        stray=False,
    ),
    "desk.reset": Case(
        {"notebook": NOTEBOOKS, "copies": st.integers(1, 3)},
        lambda got, g: (
            [kept and kept.name for kept in got]
            == [None, "01_fuzz-1.ipynb", "01_fuzz-2.ipynb"][: g.copies]
        ),
        call=on_desk,
        stray=False,
    ),
}
NAMES = {"def g(a): b = a": {"g"}, "x, y = 1, 2": {"x", "y"}, "import a.b": {"a"}}
READS = {"f(x)": {"f", "x"}, "y = 1": set(), "solved('01', x)": set(), "a.b": {"a"}}
DIFF = {
    "diff.Edit": any_record(cell=WORDS, at=st.floats(0, 9), what=WORDS, shown=TEXTS),
    "diff.Finding": any_record(
        chapter=WORDS,
        compared=st.integers(0),
        solved=st.integers(0),
        exercises=st.integers(0),
        cell=st.none() | WORDS,
    ),
    "diff.diff": Case(
        {"chapter": FILES, "copy": FILES},
        None,
        {"copy": Wrong(NO_PATH, "does not exist", (FileNotFoundError,))},
    ),
    "diff.judge": Case(
        NOTEBOOKS.map(
            lambda nb: {
                "chapter": Path("01_fuzz.ipynb"),
                "executed": executed_copy(nb),
                "stopped": None,
                "book": nb,
            }
        ),
        lambda got, g: got.chapter == "01_fuzz" and got.cell is None,
        stray=False,
    ),
    "diff.exercise_cells": Case(
        {"book": NOTEBOOKS},
        lambda got, g: (
            got >= {c.id for c in g.book.cells if editions.BEGIN in c.source}
            and got <= set(ids_of(g.book))
        ),
    ),
    "diff.bound": Case(
        {"source": st.sampled_from(list(NAMES)) | BROKEN},
        lambda got, g: got == NAMES.get(g.source, set()),
    ),
    "diff.used": Case(
        {"source": st.sampled_from(list(READS)) | BROKEN},
        lambda got, g: got == READS.get(g.source, set()),
    ),
}


def executed_copy(book: Any) -> Any:
    """The reader's copy of ``book``, executed as the book was."""
    made = desk.student_copy(Path("01_fuzz.ipynb"), book)
    theirs = {cell.id: cell for cell in book.cells}
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = theirs[cell.id].outputs
            cell.execution_count = theirs[cell.id].execution_count
    return made


UNBALANCED = st.sampled_from(
    [
        "# BEGIN SOLUTION",
        "# END SOLUTION",
        "  ## BEGIN SOLUTION\nx = 1",
        "# begin\n# END SOLUTION",
    ]
)
BAD_CELLS = st.sampled_from(
    [
        new_code_cell("# BEGIN SOLUTION", id="bad"),
        new_markdown_cell("文", id="bad", metadata={"tags": ["unknown"]}),
        new_markdown_cell("文", id="bad", metadata={"tags": ["points-0"]}),
        new_code_cell("x", id="bad", metadata={"tags": ["answer"]}),
        new_markdown_cell("# BEGIN SOLUTION", id="bad"),
    ]
)
BAD = BAD_CELLS.map(lambda cell: new_notebook(cells=[cell]))
FAULTY = Wrong(BAD, "cell bad", (editions.EditionError,))
SQUEEZED = {"a b # c\n d": "abd", "\tx": "x", "# all": "", "": ""}


def stands(got: Any, g: Any) -> bool:
    """The cells of an edition, in order; a student's holds no answer."""
    gone = "student" if g.edition == "teacher" else "teacher"
    kept = [c.id for c in g.notebook.cells if gone not in editions.tags(c)]
    found = [i for i in ids_of(got) if not i.endswith("-answer")]
    answer = "return x + 1" in str(got)
    return found == kept and not (answer and g.edition == "student")


def twice() -> Path:
    """A file in which one id stands twice."""
    made = new_notebook(cells=[new_code_cell("x", id="one"), new_code_cell(id="two")])
    text = compare.text_of(made).replace('"one"', '"same"').replace('"two"', '"same"')
    return broken_file(text.encode("utf-8"))


EDITIONS = {
    "editions.split": Case(
        {
            "notebook": NOTEBOOKS,
            "edition": st.sampled_from(["student", "teacher", "self"]),
            "name": WORDS,
            "medium": st.just("ipynb"),
        },
        stands,
        {
            "notebook": FAULTY,
            "edition": WORDS | st.none(),
            "medium": WORDS | st.none(),
        },
    ),
    "editions.tags": Case({"cell": CELLS}, lambda got, g: isinstance(got, list)),
    "editions.check": Case(
        {"notebook": NOTEBOOKS, "name": WORDS},
        lambda got, g: got is None,
        {"notebook": FAULTY},
    ),
    "editions.number": Case(
        {"cell": CELLS, "what": st.sampled_from(["points", "lines"])},
        lambda got, g: (
            got
            == (
                2
                if g.what == "points" and "points-2" in editions.tags(g.cell)
                else None
            )
        ),
    ),
    "editions.solutions": Case(
        {"cell": CELLS},
        lambda got, g: got == ["    return x + 1"] * (g.cell.source == SOLVED),
    ),
    "editions.answers": Case(
        {"cell": CELLS},
        lambda got, g: list(got) == [],  # too short to be looked for
    ),
    "editions.squeezed": Case(
        {"text": st.sampled_from(list(SQUEEZED))},
        lambda got, g: got == SQUEEZED[g.text],
    ),
    "editions.cut": Case(
        {"source": CODE, "where": WORDS},
        lambda got, g: got == (STUB if g.source == SOLVED else g.source),
        {"source": Wrong(UNBALANCED, "SOLUTION", (editions.EditionError,))},
    ),
    "editions.prepared": Case(
        {"notebook": NOTEBOOKS, "medium": st.sampled_from(["ipynb", "paper", "web"])},
        lambda got, g: ids_of(got)[1] == "preparation",
        mutates=["notebook"],
    ),
    "editions.needs_lmbook": Case({}, lambda got, g: ast.parse(got.source).body),
    "editions.nbgrader": Case(
        {"notebook": NOTEBOOKS, "name": WORDS},
        lambda got, g: (
            [c.id for c in got.cells if "nbgrader" in c.metadata]
            == [c.id for c in g.notebook.cells if c.source == SOLVED]
        ),
        {"notebook": FAULTY},
    ),
}

# experiment, grid, page

DEFAULTS = {"seed": 1, "rate": 0.5, "way": "add", "quick": False, "sizes": [1]}
GIVEN = st.lists(
    st.sampled_from(["seed=3", "rate=2", "way=x=y", "quick=True", "sizes=[2,3]"]),
    unique=True,
)
NOT_GIVEN = st.sampled_from(
    [
        *(["seed"], ["nope=1"], ["seed=a"], ["seed=1.5"], ["rate=x"], ["quick=1"]),
        *(["seed=1", "seed=2"], ["sizes=3"], ["seed="], ["=1"], [""], ["seed=(1"]),
        *(["seed=" + "[" * 999], ["rate=" + "-" * 2000 + "1"], ["seed=" + "9" * 9999]),
    ]
)
REFUSED = Wrong(
    NOT_GIVEN,
    r"seed|nope|rate|quick|sizes|''|'=1'",
    (experiment.ParameterError,),
)
VALUES = st.dictionaries(
    st.sampled_from(["seed", "rate"]), st.integers(0, 99) | st.floats(0, 1)
)


def executed_run(notebook: Any, seed: int) -> grid.Run:
    done = experiment.Experiment(saved(notebook), {"loss": 0.5}, ["c0"], False)
    return grid.Run({"seed": seed}, done, failed_claims=["<b> ✗"])


RUN = st.builds(executed_run, NOTEBOOKS, st.integers(0, 3)) | st.builds(
    lambda seed, text: grid.Run({"seed": seed}, error=f"{text}<b>"),
    st.integers(0, 3),
    WORDS,
)
RUNS = st.lists(RUN, min_size=1, max_size=3)


def is_page(text: str) -> bool:
    return text.startswith("<!doctype html>") and text.endswith("</html>\n")


EXPERIMENT = {
    "experiment.Experiment": any_record(
        output=GONE,
        results=st.just({}),
        changed=st.lists(WORDS),
        was_there=st.booleans(),
    ),
    "experiment.parameters_of": Case(
        {"notebook": NOTEBOOKS},
        lambda got, g: got in ({}, {"seed": 1, "rate": 0.5, "way": "add"}),
    ),
    "experiment.parse": Case(
        {"given": GIVEN, "legal": st.just(DEFAULTS)},
        lambda got, g: (
            {k: type(v) for k, v in got.items()} == {k: type(DEFAULTS[k]) for k in got}
            and len(got) == len(g.given)
        ),
        {"given": REFUSED},
    ),
    "experiment.combinations": Case(
        {
            "given": st.just(["seed=1,2,1", "rate=1,2", "sizes=[1,2]"]),
            "legal": st.just(DEFAULTS),
        },
        lambda got, g: len(got) == 4 and all(r["sizes"] == [1, 2] for r in got),
        {"given": REFUSED},
    ),
    "experiment.refuse": Case(
        {"path": FILES, "runs": st.just([])},
        lambda got, g: got is None,
        {"path": Wrong(NO_PATH, "01_gone|lmbook-fuzz", MISSING)},
        cost=3,
        stray=False,
    ),
    "experiment.slug": Case(
        {"values": VALUES | st.just({"way": "../" * 60}) | st.just({"way": "あ/"})},
        lambda got, g: (
            re.fullmatch(r"[A-Za-z0-9_.,=+-]{1,128}", got)
            and got == experiment.slug(dict(reversed(g.values.items())))
        ),
    ),
    "experiment.experiment": Case(
        {"path": FILES, "given": st.just([]), "folder": st.builds(folder)},
        None,
        {
            "given": REFUSED,
            "path": Wrong(NO_PATH, "01_gone|lmbook-fuzz", MISSING),
        },
    ),
    "experiment.injected": Case({"notebook": NOTEBOOKS}, lambda got, g: got == {}),
    "experiment.results_of": Case(
        {"notebook": NOTEBOOKS},
        lambda got, g: got == {},
    ),
    "grid.Run": any_record(values=VALUES, error=TEXTS),
    "grid.Run.results": Case(
        {"self": RUN}, lambda got, g: got == ({"loss": 0.5} if g.self.done else {})
    ),
    "grid.Grid": any_record(runs=RUNS, csv=GONE, html=GONE),
    "grid.Bar": Case(
        {"count": st.integers(1, 9), "say": st.just(print)},
        lambda got, g: got.parts == [0.0] * g.count,
    ),
    "grid.Bar.cell": Case(
        {
            "self": st.builds(lambda: grid.Bar(2, print)),
            "index": st.integers(0, 1),
            "line": st.sampled_from(["03: cell 4 of 8, 1 s", "other", ""]),
        },
        lambda got, g: g.self.parts[g.index] == ("cell" in g.line) * 0.99 / 2,
        mutates=["self"],
    ),
    "grid.Bar.at": Case(
        {
            "self": st.builds(lambda: grid.Bar(2, print)),
            "index": st.integers(0, 1),
            "part": st.floats(0, 1),
        },
        lambda got, g: g.self.parts[g.index] == g.part,
        mutates=["self"],
    ),
    "grid.draw": Case({"line": WORDS}, lambda got, g: g.line in got, call=said),
    "grid.grid": Case(
        {"path": FILES, "runs": st.just([]), "folder": st.builds(folder)},
        None,
        {"path": Wrong(NO_PATH, "01_gone|lmbook-fuzz", MISSING)},
    ),
    "grid.table": Case(
        {"rows": RUNS},
        lambda got, g: (
            len({len(r) for r in csv.reader(io.StringIO(got))}) == 1
            and len(list(csv.reader(io.StringIO(got)))) == len(g.rows) + 1
        ),
    ),
    "page.page": Case(
        {"path": FILES, "rows": RUNS},
        lambda got, g: is_page(got) and "<b>" not in got and "&lt;b&gt;" in got,
        {"path": Wrong(NO_PATH, "01_gone|lmbook-fuzz", MISSING)},
        cost=2,
    ),
}

# run, report, sheet, handouts, site, release

CONTENT = st.binary(max_size=9)
WRITTEN = st.builds(lambda: folder() / "made" / "file.txt")


def unexecuted() -> Any:
    return new_notebook(cells=[new_code_cell("1", id="bad")])


def tofu() -> Any:
    return new_notebook(cells=[new_markdown_cell("\U0001f9ea", id="bad")])


RUN_ = {
    "run.folders": Case(
        {"build": st.builds(folder)},
        lambda got, g: all(Path(p).is_relative_to(g.build) for p in got.values()),
    ),
    "run.environment": Case(
        {"build": st.builds(folder), "probe": st.booleans()},
        lambda got, g: (
            got["OMP_NUM_THREADS"] == "1"
            and ("ATEN_CPU_CAPABILITY" in got) == g.probe
            and got["MPLCONFIGDIR"].startswith(str(g.build))
        ),
        stray=False,
    ),
    "run.write_text": Case(
        {"path": st.builds(lambda: folder() / "f"), "text": TEXTS},
        lambda got, g: (
            g.path.read_text("utf-8") == g.text
            and len(list(g.path.parent.iterdir())) == 1
        ),
        {"path": Wrong(WRITTEN, "file.txt", (FileNotFoundError,))},
        stray=False,
    ),
    "run.CellError": Case(
        {"cell": WORDS, "message": WORDS},
        lambda got, g: (got.cell, str(got)) == (g.cell, g.message),
    ),
    "run.CellError.where": Case(
        {"self": st.builds(run.CellError, WORDS | st.just(""), WORDS)},
        lambda got, g: g.self.cell in got and bool(got) == bool(g.self.cell),
    ),
    "run.Kernel": Case({}, lambda got, g: got.transport in ("ipc", "tcp")),
    "run.Kernel.kernel_spec": Case(
        {"self": st.builds(run.Kernel)}, lambda got, g: got.language == "python"
    ),
    "run.joined": Case(
        {"outputs": OUTPUTS},
        lambda got, g: (
            "".join(o.get("text", "") for o in got)
            == "".join(o.get("text", "") for o in g.outputs)
            and [o for o in got if "data" in o] == [o for o in g.outputs if "data" in o]
            and run.joined(got) == got
        ),
    ),
    "run.read": Case(
        {"path": FILES},
        lambda got, g: compare.text_of(got) == g.path.read_text("utf-8"),
        {
            "path": Wrong(
                NO_PATH | NO_NOTEBOOK.map(broken_file) | st.builds(twice),
                "01_gone|01_fuzz.ipynb is not a whole notebook|lmbook-fuzz",
                (run.NotebookError, *MISSING),
            )
        },
        stray=False,
    ),
    "run.Result": Case(
        {
            "chapter": WORDS,
            "output": GONE,
            "seconds": st.floats(0, 99),
            "error": st.none() | WORDS,
        },
        lambda got, g: ("FAILED" in str(got)) == (g.error is not None),
    ),
    "run.run": Case(
        {"notebooks": st.just([])},
        lambda got, g: got == [],
        call=lambda f, notebooks: f(notebooks),
    ),
    "run.main": Case(
        {"arguments": st.just([])},
        None,
        {
            "arguments": Wrong(
                st.sampled_from([[], ["a"], ["a", "b", "{"]]), "source|output|job"
            )
        },
        call=usage,
    ),
    "report.write_html": Case(
        {"reports": st.lists(REPORT, max_size=2), "path": WRITTEN},
        lambda got, g: is_page(g.path.read_text("utf-8")),
        stray=False,
    ),
    "report.text_diff": Case(
        {"expected": TEXTS, "actual": TEXTS},
        lambda got, g: bool(got) == (g.expected.splitlines() != g.actual.splitlines()),
    ),
    "sheet.figures": Case(
        {"notebooks": st.lists(FILES, max_size=2)},
        lambda got, g: all(
            n.startswith("01 c") and p[:4] == b"\x89PNG" for n, p in got
        ),
        {
            "notebooks": Wrong(
                NO_PATH.map(lambda p: [p]), "01_gone|lmbook-fuzz", MISSING
            )
        },
        stray=False,
    ),
    "sheet.sheet": Case(
        {"notebooks": st.lists(FILES, max_size=2), "folder": st.builds(folder)},
        lambda got, g: len(list(g.folder.glob("01-*.png"))) > 0 or got == [],
        cost=3,
        stray=False,
    ),
    "handouts.Made": any_record(
        chapter=WORDS,
        files=st.just([]),
        pages=st.dictionaries(WORDS, st.integers(1, 9)),
        seconds=st.floats(0, 9),
    ),
    "handouts.build": Case(
        {"notebooks": st.just([]), "folder": st.builds(folder)},
        lambda got, g: got == [],
        {
            "notebooks": Wrong(
                st.builds(twice).map(lambda p: [p]),
                "cell same",
                (run.NotebookError,),
            )
        },
        stray=False,
    ),
    "handouts.write_bytes": Case(
        {"path": WRITTEN, "content": CONTENT},
        lambda got, g: g.path.read_bytes() == g.content,
        stray=False,
    ),
    "handouts.pdf": Case(
        {
            "notebook": NOTEBOOKS,
            "edition": st.sampled_from(["student", "teacher"]),
            "name": WORDS,
        },
        None,
        {
            "notebook": Wrong(
                st.builds(unexecuted) | st.builds(tofu),
                "cell bad",
                (handouts.HandoutError,),
            ),
            "edition": WORDS,
        },
    ),
    "handouts.student_notebook": Case(
        {"notebook": NOTEBOOKS, "name": WORDS},
        lambda got, g: (
            ids_of(got)[0] == "needs-lmbook" and editions.BEGIN not in str(got)
        ),
        {"notebook": FAULTY},
    ),
    "handouts.glyphs": Case({}, lambda got, g: set(map(ord, "あ漢aᵀ▁✓")) <= got),
    "release.release": Case(
        {
            "notebooks": st.just([]),
            "folder": st.builds(folder),
            "printed": st.builds(folder),
            "pages": st.builds(folder),
        },
        lambda got, g: (
            [p.suffix for p in got] == [".zip"] * 3 + [""]
            and all(p.is_file() for p in got)
        ),
        {
            "notebooks": Wrong(
                PATHS.map(lambda p: [p]), "student.pdf", (FileNotFoundError,)
            )
        },
        stray=False,
    ),
    "release.zipped": Case(
        {"top": WORDS, "files": st.dictionaries(WORDS, CONTENT)},
        lambda got, g: (
            {
                n.partition("/")[2]: zipfile.ZipFile(io.BytesIO(got)).read(n)
                for n in zipfile.ZipFile(io.BytesIO(got)).namelist()
            }
            == g.files
        ),
    ),
    "site.write_source": Case(
        {
            "notebooks": FILES.map(lambda p: [p]),
            "source": st.builds(lambda: folder() / "source"),
            "printed": st.builds(folder),
            "answers": st.booleans(),
        },
        None,
        {"printed": Wrong(st.builds(folder), "student.pdf", (FileNotFoundError,))},
        stray=False,
    ),
    "site.Splitter": Case({"options": st.just({})}, lambda got, g: got),
    "site.Splitter.split": Case(
        {"self": st.just(site.Splitter({})), "text": st.text("ab_ あ漢。", max_size=9)},
        lambda got, g: (
            set(re.findall(r"\w+", g.text)) >= set()
            and "" not in got
            and all(word in g.text for word in got)
        ),
    ),
    "site.student_files": Case(
        {"path": PATHS}, lambda got, g: all(n.startswith(g.path.stem) for n in got)
    ),
    "site.chapter_table": Case(
        {"notebooks": st.lists(PATHS, unique=True)},
        lambda got, g: got.count(".ipynb)") == len(g.notebooks),
    ),
}
# doctor, guard, lab, suite

FAULTS = Case({"root": ROOT}, lambda got, g: all(str(fault) for fault in got))
READ_ONLY = Wrong(WORDS, "読むための教材", (HTTPError,))


def refused_by_server(f: Any, **given: Any) -> Any:
    return asyncio.run(f(lab.ReadOnly(), **given))


FAULTS_ = {
    "faults.sentence": Case(
        {
            "error": st.sampled_from(
                [
                    OSError("words"),
                    OSError(28, "full", "a/file"),
                    PermissionError(13, "no", "b"),
                ]
            )
        },
        lambda got, g: str(g.error.filename or g.error) in got,
    ),
    "faults.plain": Case(
        {"text": st.text("ab\x1b\u202e\n\tあ", max_size=9)},
        lambda got, g: (
            not set(got) & {"\x1b", "\u202e"} and got.count("\n") == g.text.count("\n")
        ),
    ),
}
DOCTOR = (
    FAULTS_
    | {
        f"doctor.{name}": FAULTS
        for name in (
            "interpreter",
            "kernel",
            "versions",
            "fonts",
            "space",
            "jupyterlab",
        )
    }
    | {
        "doctor.Fault": any_record(sentence=WORDS, remedy=WORDS),
        "doctor.writable": Case({"root": ROOT}, lambda got, g: list(got) == []),
        "doctor.locked": Case(
            {"root": ROOT},
            lambda got, g: {"torch", "matplotlib"} <= set(got),
            {
                "root": Wrong(
                    st.builds(folder), "requirements.lock", (FileNotFoundError,)
                )
            },
            stray=False,
        ),
        "doctor.needed": Case(
            {}, lambda got, g: "torch" in got and "pytest" not in got
        ),
        "guard.is_local": Case(
            {
                "family": st.sampled_from([socket.AF_INET, socket.AF_INET6]),
                "address": st.tuples(
                    st.ip_addresses().map(str)
                    | st.sampled_from(["localhost", "::1%lo", "a.b"]),
                    st.integers(1, 65535),
                ),
            },
            lambda got, g: (
                got == g.address[0].startswith(("127.", "localhost", "::1%"))
                or g.address[0].startswith(("::", "127."))
            ),
            stray=False,
        ),
        "lab.Kernel": Case({}, lambda got, g: isinstance(got, run.Kernel)),
        "lab.ReadOnly": Case({}, lambda got, g: got is not None),
        "lab.ReadOnly.save": Case(
            {"model": st.just({}), "path": WORDS},
            None,
            {"path": READ_ONLY},
            call=refused_by_server,
        ),
        "lab.ReadOnly.delete_file": Case(
            {"path": WORDS}, None, {"path": READ_ONLY}, call=refused_by_server
        ),
        "lab.ReadOnly.rename_file": Case(
            {"old_path": WORDS, "new_path": WORDS},
            None,
            {"new_path": READ_ONLY},
            call=refused_by_server,
        ),
        "lab.environment": Case(
            {"build": st.builds(folder)},
            lambda got, g: got["OMP_NUM_THREADS"] == "1",
            stray=False,
        ),
        "lab.prepare": Case(
            {
                "folder": st.builds(folder),
                "build": st.builds(folder),
                "full": st.booleans(),
            },
            lambda got, g: (
                "--ServerApp.ip=127.0.0.1" in got
                and any("ReadOnly" in a for a in got) == g.full
            ),
            cost=3,
            stray=False,
        ),
        "suite.exact_platform": Case({}, lambda got, g: isinstance(got, bool)),
        "suite.Steps": any_record(passed=st.integers(0, 9), failed=st.integers(0, 9)),
        "suite.Steps.add": Case(
            {"self": st.builds(suite.Steps), "name": WORDS, "good": st.booleans()},
            lambda got, g: (g.self.passed, g.self.failed) == (g.good, not g.good),
            mutates=["self"],
        ),
        "suite.Steps.python": Case(
            {
                "self": st.builds(suite.Steps),
                "name": WORDS,
                "arguments": st.just(["-S", "-c", "raise SystemExit(3)"]),
                "fine": st.sampled_from([(0,), (0, 3)]),
            },
            lambda got, g: g.self.passed == (3 in g.fine),
            mutates=["self"],
            cost=3,
            stray=False,
        ),
        "suite.Steps.end": Case(
            {"self": st.builds(suite.Steps, st.integers(0, 9), st.integers(0, 9))},
            lambda got, g: got == (g.self.failed > 0),
        ),
        "suite.comparison": Case(
            FILES.map(
                lambda p: {
                    "notebooks": [p],
                    "executed": p.parent,
                    "html": p.with_suffix(".html"),
                }
            ),
            lambda got, g: got is True and not g.html.exists(),
            stray=False,
        ),
        "suite.compare_file": Case(
            {"committed": FILES, "executed": FILES | GONE},
            lambda got, g: (
                got.name == "01_fuzz"
                and (
                    g.executed.exists() or "was not executed" in str(got.differences[0])
                )
            ),
            stray=False,
        ),
        "suite.Probed": any_record(
            chapter=WORDS,
            cells=st.integers(0, 9),
            outputs=st.integers(0, 9),
            pictures=st.integers(0, 9),
            differences=st.integers(0, 9),
            log=TEXTS,
        ),
        "suite.probe": Case(
            {"notebooks": st.just([]), "build": st.builds(folder)},
            lambda got, g: got is False,
            stray=False,
        ),
    }
)

# Commands

NO_CHAPTER = st.sampled_from([["99"], ["1"], ["embeddings"], ["01", "99"], [""]])
SECONDS = [
    "--cell-seconds=x",
    "--cell-seconds=0",
    "--cell-seconds=-1",
    "--cell-seconds=1.5",
]
PORTS = ["--port=x", "--port=-1", "--port=65536", "--port=1.5"]
TAKES_SECONDS = {"run": [], "book": [], "accept": [], "diff": [], "experiment": ["03"]}
NAMED = "argument|chapter '|unrecognized|benchmark '|parameter '|required|seed"


def command(name: str, *wrong: list[str]) -> Case:
    """What a command refuses, before any work; its work is tested elsewhere."""
    refused = st.sampled_from([["--nope"], ["--nope=1"], *wrong])
    return Case(
        {"arguments": st.just([])},
        None,
        {"arguments": Wrong(refused, NAMED)},
        call=lambda f, arguments: usage(cli.main, arguments=[name, *arguments]),
    )


WRONG_CHAPTER = [["99"], ["1"], ["embeddings"], ["01", "99"], [""]]
EXTRA = [["extra"]]
CLI = {
    "cli.main": Case(
        {"arguments": st.sampled_from([["--help"], ["run", "--help"]])},
        lambda got, g: "usage: lmbook" in got,
        {"arguments": Wrong([[], ["nope"], [""]], "COMMAND")},
        call=usage,
    ),
    "commands.call": Case(
        {"arguments": st.just(["compare", "--help"])},
        lambda got, g: "usage: lmbook compare" in got,
        {"arguments": Wrong([["run", "--nope"], []], "COMMAND|nope")},
        call=usage,
    ),
    "commands.parser": Case(
        {
            "arguments": st.sampled_from(
                [["lab", "--port=1"], ["run", "--cell-seconds=1"]]
            )
        },
        lambda got, g: got == "",
        {
            "arguments": Wrong(
                st.sampled_from([["lab", port] for port in PORTS])
                | st.sampled_from(
                    [
                        [c, *more, s]
                        for c, more in TAKES_SECONDS.items()
                        for s in SECONDS
                    ]
                ),
                "--port|--cell-seconds",
            )
        },
        call=lambda f, arguments: usage(lambda: f().parse_args(arguments) and 0),
        stray=False,
    ),
    "commands.chosen": Case(
        {"names": st.lists(st.sampled_from(CHAPTERS))},
        lambda got, g: (
            [p.stem[:2] for p in got] == (list(dict.fromkeys(g.names)) or CHAPTERS)
        ),
        {"names": Wrong(NO_CHAPTER, "no chapter", (commands.UsageError,))},
    ),
    "commands.benchmarks": Case(
        {"names": st.just([]), "folder": st.just(commands.BENCHMARKS)},
        lambda got, g: got and all(p.is_file() for p in got),
        {
            "names": Wrong(
                [["nope"], ["../x"], [""]],
                "no benchmark",
                (commands.UsageError,),
            )
        },
        stray=False,
    ),
    "commands.run_command": command("run", *WRONG_CHAPTER),
    "commands.compare_command": command("compare", *WRONG_CHAPTER),
    "commands.accept_command": command("accept", *WRONG_CHAPTER),
    "commands.experiment_command": command(
        "experiment",
        [],
        *WRONG_CHAPTER[:2],
        ["03", "nope=1"],
        ["03", "seed=x"],
        ["03", "seed"],
    ),
    "commands.lab_command": command("lab", *EXTRA, ["--port=x"]),
    "commands.reset_command": command("reset", [], *WRONG_CHAPTER),
    "commands.diff_command": command("diff", *WRONG_CHAPTER),
    "commands.doctor_command": command("doctor", *EXTRA),
    "commands.sheet_command": command("sheet", *EXTRA),
    "commands.book_command": command("book", *EXTRA),
    "commands.handouts_command": command("handouts", *EXTRA),
    "commands.site_command": command("site", *EXTRA),
    "commands.release_command": command("release", *EXTRA),
    "commands.test_command": command("test", *EXTRA),
    "commands.slow_command": command("test-slow", *EXTRA),
    "commands.bench_command": command("bench", ["nope"], ["../x"]),
}

# corpora.derive


def names_archive(lines: list[str]) -> Path:
    path = folder() / "names.tar.gz"
    content = "".join(f"{line.upper()} 1.0\n" for line in lines).encode("ascii")
    with tarfile.open(path, "w:gz") as tar:
        for member in derive.EN_MEMBERS:
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def dataset_archive(lines: list[str]) -> Path:
    path = folder() / "dataset.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member in derive.JA_MEMBERS:
            wheel.writestr(member, "".join(f"{line},x\n" for line in lines))
    return path


ENGLISH = st.lists(st.text("ab", min_size=1), min_size=1)
JAPANESE = st.lists(st.text("あい", min_size=1), min_size=1)
OTHER = "is not .*: SHA-256|names.tar.gz|dataset.whl"
DERIVE = {
    "english": Case(
        {"archive": ENGLISH.map(names_archive)},
        lambda got, g: all(n.islower() for n in got),
        stray=False,
    ),
    "japanese": Case(
        {"archive": JAPANESE.map(dataset_archive)},
        lambda got, g: got and "x" not in got,
        stray=False,
    ),
    "as_file": Case(
        {"lines": JAPANESE},
        lambda got, g: got.decode("utf-8").split("\n") == [*sorted(set(g.lines)), ""],
    ),
    "check": Case(
        {"archive": ENGLISH.map(names_archive), "requirement": st.just(derive.NAMES)},
        None,
        {"archive": Wrong(ENGLISH.map(names_archive), OTHER)},
    ),
    "derive": Case(
        {
            "names": ENGLISH.map(names_archive),
            "dataset": JAPANESE.map(dataset_archive),
            "out": st.builds(folder),
        },
        None,
        {"names": Wrong(ENGLISH.map(names_archive), OTHER)},
    ),
    "main": Case(
        {"arguments": st.just([])},
        None,
        {
            "arguments": Wrong(
                [["a"], ["a", "b", "c"], ["--nope"]],
                "archives|unrecognized",
            )
        },
        call=usage,
    ),
}

OF_PRESS = ACCEPT | COMPARE | DESK | DIFF | EDITIONS | EXPERIMENT | RUN_ | DOCTOR | CLI
TABLE = {f"press.{name}": case for name, case in OF_PRESS.items()} | {
    f"corpora.derive.{name}": case for name, case in DERIVE.items()
}
STARTS = "starts a kernel on a whole notebook"
EXEMPT = {
    "press.run.execute": STARTS,
    "press.run.execute_file": STARTS,
    "press.diff.execute": STARTS,
    "press.suite.probe_one": STARTS,
    "press.run.let_go": "ends every chapter's process, for good",
    "press.lab.serve": "serves until Ctrl-C",
    "press.guard.install": "shuts this process off from the network for good",
    "press.site.build": "runs Sphinx",
    "press.suite.test": "runs every test, this one too",
    "press.suite.slow": "runs every test, this one too",
    "press.doctor.threads": "starts another Python, with torch",
    "press.doctor.examine": "calls the looks above one after another, threads too",
    "corpora.derive.download": "asks the network",
}
