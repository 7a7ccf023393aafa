"""Definitions out of a notebook, so that what is read is what is tested."""

from __future__ import annotations

import ast
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"


def path(chapter: str) -> Path:
    """The notebook of ``chapter`` (``"01"``). Raises FileNotFoundError in Japanese."""
    if not NOTEBOOKS.is_dir():
        raise FileNotFoundError(
            f"教材のフォルダ {NOTEBOOKS} が見つかりません。"
            "プロジェクトのフォルダで make book を実行してください。"
        )
    found = [p for p in every() if p.name[:2] == chapter]
    if len(found) != 1:
        legal = "・".join(p.name[:2] for p in every())
        raise FileNotFoundError(
            f"章 {chapter!r} がありません。指定できる章は {legal} です。"
        )
    return found[0]


def every() -> list[Path]:
    """All chapters in reading order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def definitions(source: str) -> str:
    """``source`` with every statement blanked that is not a definition.

    Kept: imports, functions, classes, UPPER_CASE constants and exercise answers
    (``name_ex = …``), with the comments of the lines they have alone. Line numbers
    stay. IPython's own statements (``%time``, ``!ls``, a whole ``%%cell``) are no
    definitions. Raises SyntaxError.
    """
    try:
        body = ast.parse(source).body
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        source = TransformerManager().transform_cell(source)
        body = ast.parse(source).body
    lines = source.split("\n")  # not splitlines: Python's lines end only here
    kept = [""] * len(lines)
    ends = [line for node in body for line in {node.lineno, node.end_lineno}]
    for node in body:
        if not _defines(node):
            continue
        first = min([node.lineno, *(d.lineno for d in _decorators(node))])
        last = node.end_lineno or first
        part = lines[first - 1 : last]
        if ends.count(last) > 1:  # another statement on this line; columns are bytes
            part[-1] = part[-1].encode()[: node.end_col_offset].decode()
        if ends.count(first) > 1:
            part[0] = part[0].encode()[node.col_offset :].decode()
        for i, line in enumerate(part, first - 1):
            kept[i] = f"{kept[i]}; {line}" if kept[i] else line
    return "\n".join(kept)


def _decorators(node: ast.stmt) -> list[ast.expr]:
    return getattr(node, "decorator_list", [])


def _defines(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return all(_constant(target) for target in node.targets)
    if isinstance(node, ast.AnnAssign):
        return _constant(node.target)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return isinstance(node, (ast.Import, ast.ImportFrom, *functions))


def _constant(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and (
        target.id.isupper() or target.id.endswith("_ex")
    )


def source(notebook: Path) -> str:
    """The definitions of all code cells of ``notebook``, as one module's text.

    Raises, in Japanese, SyntaxError for a cell that is not Python and ValueError for
    a file that is no notebook.
    """
    import nbformat

    try:
        text = notebook.read_text(encoding="utf-8-sig")
        cells = nbformat.reads(text, as_version=4).cells
    except (ValueError, AttributeError, KeyError) as error:
        raise ValueError(
            f"{notebook} はノートブックとして読めません。"
            f"もとに戻します: git checkout -- {notebook}"
        ) from error
    parts = []
    for cell in cells:
        if cell.cell_type == "code":
            try:
                parts.append(definitions(cell.source))
            except SyntaxError as error:
                raise SyntaxError(
                    f"{notebook.name} のセル {cell.get('id')} の {error.lineno} 行目が"
                    f" Python として読めません: {error.msg}"
                ) from error
    return "\n\n".join(parts)


def load(chapter: str, notebook: Path | None = None) -> ModuleType:
    """The definitions of ``chapter`` as a module; no other statement runs.

    ``notebook`` reads another file of the same chapter (a reader's copy). The
    module is made anew when the file's definitions have changed.
    """
    file = notebook or path(chapter)
    text = source(file)
    name = f"lmbook_chapter_{file.stem}"
    module = sys.modules.get(name)
    if module is not None and module.__dict__["__text__"] == text:
        return module
    module = ModuleType(name)
    module.__file__ = f"<{file.name}>"
    module.__dict__["__text__"] = text
    lines = [f"{line}\n" for line in text.split("\n")]
    linecache.cache[module.__file__] = (len(text), None, lines, module.__file__)
    sys.modules[name] = module
    try:
        exec(compile(text, module.__file__, "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def solved(chapter: str, name: str, value: Any) -> Any:
    """The reader's ``value`` if its check passes, else the chapter's own answer.

    ``name`` is the exercise's name in the chapter; its check is the function of
    ``lmbook.checks.ch<chapter>`` with that name less a trailing ``_ex``.
    """
    import importlib

    checks = importlib.import_module(f"lmbook.checks.ch{chapter}")
    check = getattr(checks, name.removesuffix("_ex"))
    return value if check(value).ok else getattr(load(chapter), name)
