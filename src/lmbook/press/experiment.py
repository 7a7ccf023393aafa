"""One run of a chapter with other parameters, kept under build/experiments."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmbook.press import compare, run

FOLDER = run.BUILD / "experiments"


class ParameterError(ValueError):
    """An unknown parameter or a value of the wrong type; lists the legal ones."""


@dataclass(frozen=True)
class Experiment:
    """A finished experiment: where it is, its results, the cells that left the book."""

    output: Path
    results: dict[str, Any]
    changed: list[str]
    was_there: bool


def parameters_of(notebook: Any) -> dict[str, Any]:
    """Name and default of each parameter: the literals of the ``parameters`` cell."""
    tagged = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    return _literals("\n".join(c.source for c in tagged))


def parse(given: Iterable[str], legal: Mapping[str, Any]) -> dict[str, Any]:
    """``["seed=1", ...]`` as values of the types of ``legal``'s defaults.

    Raises ParameterError for what is not ``name=value``, an unknown or repeated
    name and a value of another type.
    """
    values: dict[str, Any] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            raise ParameterError(f"{item!r} is not name=value")
        if name not in legal:
            raise ParameterError(f"no parameter {name!r}; {_listed(legal)}")
        if name in values:
            raise ParameterError(f"{name!r} is given twice")
        try:
            values[name] = _value(text, legal[name])
        except (ValueError, SyntaxError, TypeError, MemoryError) as error:
            # MemoryError: brackets or signs nested too deep for Python's parser.
            wanted = type(legal[name]).__name__
            raise ParameterError(
                f"{name}={text}: not a value of type {wanted}; {_listed(legal)}"
            ) from error
    return values


def _listed(legal: Mapping[str, Any]) -> str:
    names = [f"{k}={v!r} ({type(v).__name__})" for k, v in legal.items()]
    return f"legal, with their defaults: {', '.join(names) or 'none'}"


def _value(text: str, standard: Any) -> Any:
    if isinstance(standard, str):
        return text
    value = ast.literal_eval(text)
    if isinstance(standard, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(standard):
        raise ValueError(f"{text} is a {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{text} is {value}")
    return value


def combinations(
    given: Iterable[str], legal: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """``["n=1,2", "seed=0,1"]`` as the values of each run, the last name fastest.

    A comma separates, unless the parameter itself is a list. Raises ParameterError
    as :func:`parse` does.
    """
    choices: list[list[str]] = []
    for item in given:
        name, equals, text = item.partition("=")
        several = not isinstance(legal.get(name), (list, tuple))
        values = list(dict.fromkeys(text.split(","))) if several else [text]
        choices.append([f"{name}{equals}{value}" for value in values])
    return [parse(one, legal) for one in itertools.product(*choices)]


def refuse(path: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Raise ParameterError if the chapter itself finds a value illegal.

    Only its cells down to the one after ``parameters`` are executed, in a process of
    their own, once for each of ``runs``.
    """
    cells = [c for c in run.read(path).cells if c.cell_type == "code"]
    tagged = [
        i for i, c in enumerate(cells) if "parameters" in c.metadata.get("tags", [])
    ]
    if not tagged:
        return
    done = subprocess.run(
        [sys.executable, "-c", _LEGAL],
        input=json.dumps([[c.source for c in cells[: tagged[0] + 2]], list(runs)]),
        cwd=path.parent,
        env=run.environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        defaults = _listed(parameters_of(run.read(path)))
        raise ParameterError(f"{last.partition(': ')[2] or last}\n{defaults}")


#: What :func:`refuse` runs: the values go in between the last two cells.
_LEGAL = """
import json, sys
cells, runs = json.load(sys.stdin)
for values in runs:
    names = {"__name__": "__main__"}
    for cell in cells[:-1]:
        exec(cell, names)
    names.update(values)
    exec(cells[-1], names)
"""


def slug(values: Mapping[str, Any]) -> str:
    """A folder name for a set of parameters, the same for any order of them."""
    text = ",".join(f"{name}={values[name]}" for name in sorted(values)) or "defaults"
    safe = re.sub(r"[^A-Za-z0-9_.,=+-]", "_", text)
    if safe == text and len(safe) < 120:
        return safe
    return f"{safe[:100]}-{hashlib.sha256(text.encode('utf-8')).hexdigest()[:8]}"


def experiment(
    path: Path,
    given: Iterable[str],
    folder: Path = FOLDER,
    say: Callable[[str], None] = print,
    cell_seconds: int = run.CELL_SECONDS,
) -> Experiment:
    """Run the chapter at ``path`` with ``given`` (``name=value``), once.

    A run that is there for the chapter's present text is read, not made again.
    Raises ParameterError before anything runs, CellError if the run fails.
    """
    committed = run.read(path)
    values = parse(given, parameters_of(committed))
    target = folder / path.stem[:2] / slug(values)
    output = target / path.name
    if not target.resolve().is_relative_to(folder.resolve()):
        raise ParameterError(f"{target} is a link that leaves {folder}; delete it")
    there = output.is_file() and _is_run_of(output, committed, values)
    if not there:
        (result,) = run.run(
            [path], target, parameters=values, say=say, cell_seconds=cell_seconds
        )
        if result.error is not None:
            raise run.CellError(result.cell or "", result.error)
    executed = compare.without_injected(run.read(output))
    report = compare.compare(committed, executed, path.stem)
    changed = list(dict.fromkeys(d.cell for d in report.differences))
    return Experiment(output, results_of(executed), changed, there)


def _is_run_of(output: Path, chapter: Any, values: dict[str, Any]) -> bool:
    """Whether a whole run of ``chapter`` with ``values`` is at ``output``.

    A disk may hold ``name=A`` and ``name=a`` for one.
    """
    try:
        found = run.read(output)
    except run.NotebookError:
        return False
    return _sources(found) == _sources(chapter) and injected(found) == values


def injected(notebook: Any) -> dict[str, Any]:
    """The parameters with which a notebook was executed."""
    cells = [c for c in notebook.cells if compare.is_injected(c)]
    return _literals("\n".join(c.source for c in cells))


def _literals(source: str) -> dict[str, Any]:
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def _sources(notebook: Any) -> list[str]:
    return [c.source for c in notebook.cells if not compare.is_injected(c)]


def results_of(notebook: Any) -> dict[str, Any]:
    """The JSON line that ``repro.record`` printed in the last code cell, or nothing."""
    code = [c for c in notebook.cells if c.cell_type == "code"]
    text = "".join(o.get("text", "") for c in code[-1:] for o in c.outputs)
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            return found
    return {}
