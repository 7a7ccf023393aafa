"""What a committed chapter must be. Each check takes a notebook, returns its faults."""

import ast
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import nbformat

from lmbook import chapters
from lmbook.press import compare, editions

FRAME = [
    *("この章の問い", "作るもの・わかること・前提と時間", "概念カードと形の約束"),
    *("小さな例", "最小実装", "実験", "失敗の標本", "受け入れ確認", "演習", "まとめ"),
    "次の章",
]
MIMES = {"text/plain", "text/markdown", "text/html", "text/latex", "image/png"}
#: A top-level call of one of these leaves an output.
SPEAKERS = {"print", "display", "claim", "within", "record"}
MAX_COLUMNS, MAX_LINES, MAX_DEF_LINES, MAX_FUNCTION = 88, 15, 20, 25
MAX_BYTES = 1_500_000


def code(notebook: Any) -> list[Any]:
    return [c for c in notebook.cells if c.cell_type == "code"]


def prose(notebook: Any) -> list[Any]:
    return [c for c in notebook.cells if c.cell_type == "markdown"]


def outputs(notebook: Any) -> Iterator[tuple[str, Any]]:
    for cell in code(notebook):
        for output in cell.outputs:
            yield cell.id, output


def output_text(output: Any) -> str:
    """Everything an output says in text; pictures left out."""
    texts = {k: v for k, v in output.get("data", {}).items() if k != "image/png"}
    return "\n".join([output.get("text", ""), *map(str, texts.values())])


# The file


def ids(notebook: Any) -> list[str]:
    """Cell ids exist and are unique: the comparison matches cells by them."""
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        return [f"nbformat {notebook.nbformat}.{notebook.nbformat_minor}, 4.5 needed"]
    counted = Counter(c.id for c in notebook.cells)
    return [f"cell id {name} stands {n} times" for name, n in counted.items() if n > 1]


def metadata(notebook: Any) -> list[str]:
    """Nothing but the fixed metadata, tags and alternative texts."""
    cleaned = compare.clean(notebook)
    if nbformat.writes(notebook) == nbformat.writes(cleaned):
        return []
    if notebook.metadata != cleaned.metadata:
        return [f"notebook metadata {dict(notebook.metadata)}"]
    pairs = zip(notebook.cells, cleaned.cells, strict=True)
    return [f"cell {a.id}: more than lmbook accept writes" for a, b in pairs if a != b]


def size(notebook: Any) -> list[str]:
    """A chapter stays light enough for a repository."""
    found = len(compare.text_of(notebook).encode("utf-8"))
    return [f"{found} bytes, at most {MAX_BYTES}"] if found > MAX_BYTES else []


def tags(notebook: Any) -> list[str]:
    """Known tags and balanced solution markers only."""
    try:
        editions.check(notebook, "chapter")
        editions.split(notebook, "student")
    except editions.EditionError as error:
        return [str(error)]
    return []


# Outputs


def counts(notebook: Any) -> list[str]:
    """Every code cell was executed, in order, from a fresh kernel."""
    return [f"cell {cell}: {fault}" for cell, fault in compare.count_faults(notebook)]


def outputs_present(notebook: Any) -> list[str]:
    """A cell that prints at its top level has an output."""
    faults = []
    for cell in code(notebook):
        body = ast.parse(cell.source).body
        calls = [s.value for s in body if isinstance(s, ast.Expr)]
        names = {getattr(getattr(c, "func", None), "id", "") for c in calls}
        if names & SPEAKERS and not cell.outputs:
            faults.append(f"cell {cell.id}: its output is missing")
    return faults


def outputs_good(notebook: Any) -> list[str]:
    """No error, no stderr, no failed claim, no kind that cannot be compared."""
    faults = []
    for cell, output in outputs(notebook):
        if output.output_type == "error":
            faults.append(f"cell {cell}: error {output.ename}")
        if output.get("name") == "stderr":
            faults.append(f"cell {cell}: stderr")
        if "✗" in output_text(output):
            faults.append(f"cell {cell}: a failed claim")
        strange = set(output.get("data", {})) - MIMES
        if strange:
            faults.append(f"cell {cell}: output of kind {', '.join(strange)}")
    return faults


def machine_free(notebook: Any) -> list[str]:
    """No address, no folder of a machine, no marker that hides a comparison."""
    pattern = re.compile(r"0x[0-9a-f]{6,}|/(?:tmp|home|root|Users)/|NBVAL_\w+", re.I)
    faults = []
    for cell in notebook.cells:
        said = [output_text(o) for o in cell.get("outputs", [])]
        for text in (cell.source, *said):
            faults += [f"cell {cell.id}: {found}" for found in pattern.findall(text)]
    return faults


def alternative_texts(notebook: Any) -> list[str]:
    """Every picture says in words what it shows."""
    faults = []
    for cell, output in outputs(notebook):
        if "image/png" in output.get("data", {}):
            kept = output.metadata
            alt = kept.get("image/png", kept).get("alt", "")
            if not alt.strip():
                faults.append(f"cell {cell}: picture without alt text")
            if not output.data.get("text/plain", "").strip():
                faults.append(f"cell {cell}: picture without description")
    return faults


# Code


def columns(line: str) -> int:
    """Width of a line; a full-width character takes two columns."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in line)


def cell_size(notebook: Any) -> list[str]:
    """Cells and functions that fit on a screen, lines that fit on paper."""
    faults = []
    for cell in code(notebook):
        lines = [x for x in cell.source.split("\n") if x.strip()]
        nodes = list(ast.walk(ast.parse(cell.source)))
        defs = [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        limit = MAX_DEF_LINES if defs else MAX_LINES
        filled = sum(1 for line in lines if line.strip())
        if filled > limit:
            faults.append(f"cell {cell.id}: {filled} filled lines, at most {limit}")
        for line in lines:
            if columns(line) > MAX_COLUMNS:
                faults.append(f"cell {cell.id}: {columns(line)} columns: {line}")
        for node in defs:
            length = (node.end_lineno or 0) - node.lineno + 1
            if isinstance(node, ast.FunctionDef) and length > MAX_FUNCTION:
                faults.append(f"cell {cell.id}: {node.name} has {length} lines")
    return faults


def unique_names(notebook: Any) -> list[str]:
    """A function, class or constant is defined in one place of a chapter."""
    places: dict[str, list[str]] = {}
    for cell in code(notebook):
        for node in ast.parse(chapters.definitions(cell.source)).body:
            for name in _defined(node):
                places.setdefault(name, []).append(cell.id)
    several = {name: found for name, found in places.items() if len(found) > 1}
    return [f"{name} is defined in {', '.join(f)}" for name, f in several.items()]


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [t.id for t in targets if isinstance(t, ast.Name)]


def free_definitions(notebook: Any) -> list[str]:
    """No definition leans on a variable of a cell that runs (ruff's F821)."""
    text = "\n\n".join(chapters.definitions(c.source) for c in code(notebook))
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821"]
    command += ["--output-format=concise", "--stdin-filename=chapter.py", "-"]
    done = subprocess.run(
        command, input=text, capture_output=True, encoding="utf-8", check=False
    )
    return [line for line in done.stdout.splitlines() if "F821" in line]


def sums(notebook: Any) -> list[str]:
    """Chapter 3 adds floats in explicit loops: `sum` changed in Python 3.12."""
    faults = []
    for cell in code(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in {"sum", "fsum", "sumprod"}:
                    faults.append(f"cell {cell.id}: {name}, line {node.lineno}")
    return faults


# Text


def headings(notebook: Any) -> list[tuple[int, str]]:
    """Level and text of each heading."""
    found = []
    for cell in prose(notebook):
        for line in without_code(cell.source).split("\n"):
            match = re.match(r"(#+)\s+(.*)", line)
            if match:
                found.append((len(match[1]), match[2].strip()))
    return found


def without_code(text: str) -> str:
    """Markdown less its fenced code and code spans."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "`", text)


def frame(notebook: Any) -> list[str]:
    """One title, numbered lessons, and style.md's frame inside them, in its order."""
    found = headings(notebook)
    titles = [text for level, text in found if level == 1]
    lessons = [text for level, text in found if level == 2]
    inside = [text for level, text in found if level == 3]
    faults = []
    if len(titles) != 1 or found[:1] != [(1, titles[0] if titles else "")]:
        faults.append(f"one title at the top, not {titles}")
    for number, text in enumerate(lessons, 1):
        if not re.match(rf"第{number}時\s\S", text):
            faults.append(f"lesson {number} is called {text!r}")
    if not 2 <= len(lessons) <= 4:
        faults.append(f"{len(lessons)} lessons, 2 to 4 allowed")
    # A part that runs over a lesson's end goes on under 「…のつづき」.
    again = [
        a for a in inside if a.removesuffix("のつづき") in inside[: inside.index(a)]
    ]
    if [text for text in inside if text not in again] != FRAME:
        faults.append(f"the frame is {inside}, should be {FRAME}")
    return faults


def markdown_rules(notebook: Any) -> list[str]:
    """Only what every renderer shows alike."""
    rules = {
        r"<[A-Za-z/!][^>\n]*>": "raw HTML",
        r"\\[!;]": "a space command that pandoc loses",
        r"\\tag\b": "\\tag",
        r"^\s*>\s*\|": "a table in a block quote",
    }
    faults = []
    for cell in prose(notebook):
        text = without_code(cell.source)
        for pattern, what in rules.items():
            if re.search(pattern, text, re.MULTILINE):
                faults.append(f"cell {cell.id}: {what}")
        for row in _rows(text):
            if row.count("&") > 1 and "\\quad" not in row:
                faults.append(
                    f"cell {cell.id}: no \\quad between columns: {row.strip()}"
                )
    return faults


def _rows(text: str) -> list[str]:
    """The rows of every aligned and cases environment."""
    pattern = r"\\begin\{(aligned|cases)\}(.*?)\\end\{\1\}"
    inside = re.findall(pattern, text, re.DOTALL)
    return [row for _, body in inside for row in body.split(r"\\")]


def paragraphs(text: str) -> list[list[str]]:
    """The lines of each plain paragraph: no heading, list, table, quote, formula."""
    text = re.sub(r"\$\$.*?\$\$", "", without_code(text), flags=re.DOTALL)
    found = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.split("\n") if line.strip()]
        plain = [x for x in lines if not re.match(r"\s*([-*+]\s|\d+[.)]\s|[|>#])", x)]
        if plain:
            found.append(plain)
    return found


def one_line_paragraphs(notebook: Any) -> list[str]:
    """A line break inside a Japanese paragraph would become a space."""
    return [
        f"cell {cell.id}: paragraph over {len(lines)} lines: {lines[0][:20]}"
        for cell in prose(notebook)
        for lines in paragraphs(cell.source)
        if len(lines) > 1
    ]


POLITE = re.compile(
    r"(です|ます|でした|ました|ません|ませんでした|でしょう|ましょう|ください)$"
)


def sentences(text: str) -> list[str]:
    """Sentences that end in 。, less what stands in brackets and bold lead-ins."""
    found = []
    for lines in paragraphs(text):
        line = re.sub(r"\*\*[^*]*。\*\*", "", " ".join(lines)).replace("*", "")
        for brackets in ("「」", "『』", "（）", "()"):
            left, right = map(re.escape, brackets)
            line = re.sub(f"{left}[^{left}{right}]*{right}", "", line)
        found += [s.strip() for s in re.findall(r"([^。！？?]+)。", line)]
    return found


def polite(notebook: Any) -> list[str]:
    """Prose is in です・ます; headings, lists, chains of →, questions are free."""
    return [
        f"cell {cell.id}: {sentence}。"
        for cell in prose(notebook)
        for sentence in sentences(cell.source)
        if not POLITE.search(sentence)
        and not sentence.endswith("か")
        and "→" not in sentence
    ]


DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")
VERSION = re.compile(r"(Python|PyTorch|torch|matplotlib)\s*\d+\.\d+(\.\d+)?")


def numbers(notebook: Any) -> list[str]:
    """A decimal number in prose stands in the code or an output of its lesson."""
    faults = []
    for lesson in _lessons(notebook):
        shown = {
            number
            for cell in lesson
            if cell.cell_type == "code"
            for text in (cell.source, *map(output_text, cell.outputs))
            for number in re.findall(r"\d+\.\d+", text)
        }
        for cell in lesson:
            if cell.cell_type == "markdown":
                said = DECIMAL.findall(VERSION.sub("", cell.source))
                faults += [f"cell {cell.id}: {n}" for n in said if n not in shown]
    return faults


def _lessons(notebook: Any) -> list[list[Any]]:
    """The cells of each ## section; those above the first are one more."""
    found: list[list[Any]] = [[]]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and re.search(r"^## ", cell.source, re.M):
            found.append([])
        found[-1].append(cell)
    return found


CHECKS: list[Callable[[Any], list[str]]] = [
    *(ids, metadata, size, tags, counts, outputs_present, outputs_good, machine_free),
    *(alternative_texts, cell_size, unique_names, free_definitions, frame),
    *(markdown_rules, one_line_paragraphs, polite, numbers),
]
