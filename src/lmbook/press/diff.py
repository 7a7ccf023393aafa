"""Where does the reader's copy leave the book: at which cell, by how much, and why."""

from __future__ import annotations

import ast
import atexit
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from lmbook.press import compare, desk, doctor, editions, run, suite
from lmbook.press.compare import Difference
from lmbook.press.report import text_diff
from lmbook.repro import OK

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
#: What a difference of outputs is; sources and counts are judged here otherwise.
OUTPUT_KINDS = {"text", "outputs", "picture", "alt", "error", "stderr"}


@dataclass(frozen=True)
class Edit:
    """What the reader did to a code cell; ``at`` is its place in the copy."""

    cell: str
    at: float
    what: str
    shown: str = ""

    def __str__(self) -> str:
        return f"cell {self.cell} was {self.what}" + (
            f"\n{self.shown}" if self.shown else ""
        )


@dataclass(frozen=True)
class Finding:
    """The outcome for one chapter; ``cell`` is None where nothing leaves the book."""

    chapter: str
    compared: int
    solved: int
    exercises: int
    cell: str | None = None
    how: str = ""
    cause: str = ""
    why: str = ""

    def __str__(self) -> str:
        head = (
            f"{self.chapter}: {self.compared} code cells compared, "
            f"exercises solved: {self.solved} of {self.exercises}"
        )
        if self.cell is None:
            return f"{head}\nno output leaves the book"
        return (
            f"{head}\nthe first cell that leaves the book: {self.cell}\n"
            f"by how much: {self.how}\ncause: {self.cause}\n{self.why}"
        )


def diff(
    chapter: Path,
    copy: Path,
    *,
    cell_seconds: int = run.CELL_SECONDS,
    say: Callable[[str], None] = print,
) -> Finding:
    """Execute the ``copy`` of ``chapter`` and compare. Raises FileNotFoundError."""
    if not copy.is_file():
        raise FileNotFoundError(f"{copy} does not exist; `lmbook lab` makes it")
    read = run.read(copy)
    executed, stopped = execute(read, copy.parent, cell_seconds, say)
    return judge(chapter, executed, stopped)


def execute(
    notebook: Any, folder: Path, cell_seconds: int, say: Callable[[str], None]
) -> tuple[Any, Difference | None]:
    """The copy executed past its errors, and where it came to a halt, if it did."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    last = ""
    codes = [c.id for c in notebook.cells if c.cell_type == "code"]

    def started(cell: Any, cell_index: int) -> None:
        nonlocal last
        last = cell.id
        at = codes.index(last) + 1 if last in codes else 0
        if at and at % max(1, len(codes) // 5) == 0:
            say(f"cell {at} of {len(codes)}")

    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook,
        kernel_manager_class=run.Kernel,
        allow_errors=True,
        timeout=cell_seconds,
        startup_timeout=run.START_SECONDS,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=started,
    )
    try:
        _beside(lambda: client.execute(env=run.environment()))
    except CellTimeoutError:
        message = f"it does not end within {cell_seconds} s"
        return client.nb, Difference(last, "halt", message)
    except DeadKernelError:
        return client.nb, Difference(last, "halt", "the kernel dies here")
    except RuntimeError as error:
        raise run.CellError(last, str(error)) from error
    finally:
        atexit.unregister(client._cleanup_kernel)
    return client.nb, None


def _beside(work: Callable[[], Any]) -> None:
    """Do ``work`` in a thread that ends with this process, as its kernel does.

    In the main thread nbclient would take Ctrl-C for itself.
    """
    done: Future[Any] = Future()

    def run_it() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run_it, daemon=True).start()
    done.result()


def judge(
    chapter: Path,
    executed: Any,
    stopped: Difference | None = None,
    book: Any = None,
) -> Finding:
    """What the executed copy says, against ``book`` (the committed chapter)."""
    book = book or run.read(chapter)
    exercises = exercise_cells(book)
    order = {cell.id: at for at, cell in enumerate(executed.cells)}
    edits = list(_edits(book, chapter, executed))
    found = [*_outputs_gone(book, order, edits), *([stopped] if stopped else [])]
    found += [
        d
        for d in compare.compare(book, executed).differences
        if d.kind in OUTPUT_KINDS and d.cell in order
    ]
    found = [d for d in found if d.cell not in exercises or d.kind == "halt"]
    place = {**{e.cell: e.at for e in edits}, **order}
    solved, asked = _solved(book, executed, exercises)
    codes = [c.id for c in book.cells if c.cell_type == "code" and c.id in order]
    counted = len(set(codes) - exercises), solved, asked
    if not found:
        return Finding(chapter.stem, *counted)
    first = min(found, key=lambda d: place[d.cell])
    here = [d for d in found if d.cell == first.cell]
    before = [e for e in edits if e.at <= place[first.cell]]
    cause, why = _cause(first.cell, before, found, chapter.stem[:2])
    name = _name(book, executed, first.cell)
    return Finding(chapter.stem, *counted, name, _how(here), cause, why)


def _cause(
    cell: str, edits: list[Edit], found: list[Difference], chapter: str
) -> tuple[str, str]:
    if edits:
        own = any(e.cell == cell for e in edits)
        which = "this cell" if own else "an earlier cell"
        undo = f"if you did not edit it, the book has changed: lmbook reset {chapter}"
        return f"{which} was edited", "\n".join([*map(str, edits), f"({undo})"])
    faults = [str(fault) for fault in doctor.examine()]
    if not suite.exact_platform():
        faults.insert(0, suite.INEXACT)
    if faults:
        return "the environment differs", "\n".join(faults)
    most = _largest(found)
    if most is None:
        return "the outputs differ, not in numbers alone", "nothing was edited"
    return f"the numbers differ by at most {most:.3g}", "nothing was edited"


def _name(book: Any, executed: Any, cell: str) -> str:
    """A cell's id, its number in the copy and its first line."""
    codes = [c for c in executed.cells if c.cell_type == "code"]
    for number, found in enumerate(codes, 1):
        if found.id == cell:
            line = (found.source.strip().splitlines() or ["(empty)"])[0]
            return f"{cell} (code cell {number}: {line})"
    return f"{cell} (deleted)"


def _how(differences: list[Difference]) -> str:
    said = list(
        dict.fromkeys(re.sub("^text/[a-z]+: ", "", d.message) for d in differences)
    )
    most = _largest(differences)
    return "; ".join(said) if most is None else f"at most {most:.3g}; {'; '.join(said)}"


def _largest(differences: list[Difference]) -> float | None:
    """The largest difference of two numbers, None where other things differ, too."""
    worst = 0.0
    for d in differences:
        if d.kind != "text":
            if d.kind not in ("picture", "alt"):
                return None
            continue
        a, b = str(d.expected), str(d.actual)
        if NUMBER.sub("#", a) != NUMBER.sub("#", b):
            return None
        pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
        worst = max([worst, *(abs(float(x) - float(y)) for x, y in pairs)])
    return worst or None


# --- what the reader did --------------------------------------------------------


def _edits(book: Any, chapter: Path, copy: Any) -> Iterator[Edit]:
    """The reader's edits of code cells, in the copy's order; answers are none."""
    given = desk.student_copy(chapter, book)
    codes = [c for c in given.cells if c.cell_type == "code"]
    source = {c.id: c.source.strip() for c in codes}
    order = {cell.id: at for at, cell in enumerate(copy.cells)}
    answers = {
        c.id: c
        for c in book.cells
        if c.cell_type == "code" and editions.BEGIN in c.source
    }
    ids = list(source)
    moved = _moved([x for x in ids if x in order], [x for x in order if x in source])
    for at, cell in enumerate(copy.cells):
        if cell.cell_type != "code":
            continue
        if cell.id not in source:
            if cell.source.strip():
                yield Edit(cell.id, at, "added", text_diff("", cell.source))
        elif cell.id in answers:
            taken = _taken(book, answers[cell.id], cell.source)
            if taken:
                yield Edit(cell.id, at, f"used to change {', '.join(sorted(taken))}")
        elif cell.source.strip() != source[cell.id]:
            shown = text_diff(source[cell.id], cell.source.strip())
            yield Edit(cell.id, at, "edited", shown)
    for number, name in enumerate(ids):
        if name not in order or name in moved:
            later = [order[x] for x in ids[number + 1 :] if x in order]
            away = min(later, default=len(order)) - 0.5
            if name in moved:
                yield Edit(name, min(away, order[name]), "moved")
            else:
                yield Edit(name, away, "deleted")


def _moved(book: list[str], copy: list[str]) -> set[str]:
    """The cells of ``copy`` that do not stand in the order of ``book``."""
    blocks = SequenceMatcher(None, book, copy, autojunk=False).get_matching_blocks()
    return set(book) - {x for b in blocks for x in book[b.a : b.a + b.size]}


def _taken(book: Any, answer: Any, source: str) -> set[str]:
    """Names of the book's other cells that an answer defines anew."""
    others = [c for c in book.cells if c.cell_type == "code" and c.id != answer.id]
    theirs = {name for c in others for name in bound(c.source)}
    return (bound(source) - bound(answer.source)) & theirs


def _outputs_gone(
    book: Any, order: dict[str, int], edits: list[Edit]
) -> list[Difference]:
    speaking = {c.id for c in book.cells if c.cell_type == "code" and c.outputs}
    gone = [e.cell for e in edits if e.what == "deleted" and e.cell not in order]
    return [
        Difference(cell, "outputs", "its output is not there")
        for cell in gone
        if cell in speaking
    ]


# --- exercises ------------------------------------------------------------------


def exercise_cells(book: Any) -> set[str]:
    """Cells with a solution, and those whose output hangs on one.

    ``chapters.solved`` gives the book's own answer for a wrong one: what it returns
    does not hang on the reader.
    """
    found: set[str] = set()
    hanging: set[str] = set()
    for cell in book.cells:
        if cell.cell_type != "code":
            continue
        names = bound(cell.source)
        if editions.BEGIN in cell.source or used(cell.source) & hanging:
            found.add(cell.id)
            hanging |= names | {"globals"}  # it reads them all
        else:
            hanging -= names
    return found


def _solved(book: Any, executed: Any, exercises: set[str]) -> tuple[int, int]:
    """How many checks say what they say in the book, and how many there are."""
    theirs = {c.id: c for c in executed.cells}

    def said(cell: Any) -> list[str]:
        outputs = cell.get("outputs", []) if cell else []
        return [str(o.get("data", {}).get("text/plain", "")) for o in outputs]

    checks = [
        (said(c), said(theirs.get(c.id)))
        for c in book.cells
        if c.id in exercises and any(text.startswith(OK) for text in said(c))
    ]
    return sum(ours == got for ours, got in checks), len(checks)


def _tree(source: str) -> ast.AST:
    try:
        return ast.parse(source)
    except SyntaxError:  # a reader's cell, or IPython's own statements
        return ast.Module([], [])


def bound(source: str) -> set[str]:
    """The names that the source binds at its top level."""
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    inner = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, scopes):
                names.add(child.name)
            elif isinstance(child, ast.alias):
                names.add((child.asname or child.name).partition(".")[0])
            elif not isinstance(child, inner):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    names.add(child.id)
                visit(child)

    visit(_tree(source))
    return names


def used(source: str) -> set[str]:
    """The names that the source reads, less what it hands to ``solved``."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                called = getattr(child.func, "attr", getattr(child.func, "id", ""))
                if called == "solved":
                    continue
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                names.add(child.id)
            visit(child)

    visit(_tree(source))
    return names
