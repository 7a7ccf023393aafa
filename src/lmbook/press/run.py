"""Execute chapters with papermill: one process a chapter, one environment for all.

papermill changes the working folder of its whole process, so chapters never share
one. Threads here only wait for those processes.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.paths import jupyter_runtime_dir
from traitlets import default

from lmbook import chapters
from lmbook.press import faults, guard

BUILD = chapters.ROOT / "build"
EXECUTED = BUILD / "executed"
CELL_SECONDS = 300
START_SECONDS = 120
#: Begins each line by which a chapter's process speaks to its parent.
EVENT = "lmbook-event "

FIXED = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
}
#: Another CPU's arithmetic, and another order of sets (regression.md 0.3).
PROBE = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2",
    "PYTHONHASHSEED": "7",
}
#: A contributor's own settings, which must not reach an output. Among them
#: MPLBACKEND and JPY_SESSION_NAME (a live slider's mark).
DROPPED = (
    *("PYTHON", "IPYTHON", "JUPYTER", "JPY_", "MPL"),
    *("OMP_", "MKL_", "ATEN_", "ONEDNN_", "GLIBC_"),
)


def folders(build: Path = BUILD) -> dict[str, str]:
    """Where others' programs keep what is theirs: in no home, and not in /tmp."""
    places = {
        "MPLCONFIGDIR": build / "mpl",
        "IPYTHONDIR": build / "ipython",
        "JUPYTER_DATA_DIR": build / "jupyter",
        "JUPYTER_CONFIG_DIR": build / "jupyter" / "config",
        "TORCHINDUCTOR_CACHE_DIR": build / "torch",
    }
    return {name: str(place) for name, place in places.items()}


def environment(build: Path = BUILD, *, probe: bool = False) -> dict[str, str]:
    """The environment of every kernel and every test; installs the network guard.

    ``probe`` gives the same with another CPU's arithmetic. Writes ``build`` folders
    for matplotlib, IPython and Jupyter, so that nobody's own settings are read.
    """
    own = folders(build)
    profile = Path(own["IPYTHONDIR"]) / "profile_default"
    startup = profile / "startup" / "00-no-network.py"
    if not startup.is_file() or startup.read_text("utf-8") != guard.STARTUP:
        startup.parent.mkdir(parents=True, exist_ok=True)
        write_text(startup, guard.STARTUP)
    for folder in own.values():
        Path(folder).mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(DROPPED)}
    return kept | FIXED | own | (PROBE if probe else {})


def write_text(path: Path, text: str) -> None:
    """Write ``text`` so that ``path`` holds the old or the new text, never a part."""
    mark = f"{os.getpid()}-{threading.get_ident()}"
    part = path.with_name(f".{path.name}.{mark}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class CellError(RuntimeError):
    """A chapter did not run to its end: ``cell`` is the id of the cell that failed."""

    def __init__(self, cell: str, message: str) -> None:
        super().__init__(message)
        self.cell = cell

    @property
    def where(self) -> str:
        return f"cell {self.cell}: " if self.cell else ""


class Kernel(AsyncKernelManager):
    """This interpreter as the kernel, whatever the notebook or the machine says."""

    @property
    def kernel_spec(self) -> KernelSpec:
        from ipykernel.kernelspec import get_kernel_dict

        return KernelSpec(**get_kernel_dict())

    @default("transport")
    def _local_transport(self) -> str:
        """Files instead of ports (ipykernel warns of ports), where they can be."""
        # A socket's path has 107 bytes at most.
        fits = os.name == "posix" and len(os.fsencode(self._socket)) < 100
        return "ipc" if fits else "tcp"

    @default("ip")
    def _own_address(self) -> str:
        # jupyter_client's own default is one relative path for all kernels.
        return self._socket if self.transport == "ipc" else "127.0.0.1"

    @cached_property
    def _socket(self) -> str:
        folder = Path(jupyter_runtime_dir())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(folder / uuid.uuid4().hex[:8])


def execute(
    notebook: Any,
    folder: Path,
    *,
    parameters: Mapping[str, Any] | None = None,
    cell_seconds: int = CELL_SECONDS,
    start_seconds: int = START_SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """A copy of ``notebook`` executed in this process with ``folder`` as its folder.

    Raises CellError for an exception in a cell, a cell over ``cell_seconds``, a
    kernel that dies and one that does not start within ``start_seconds``.
    """
    import papermill

    last = "(kernel start)"

    def started(cell: Any, cell_index: int) -> None:
        nonlocal last
        last = cell.id
        if progress:
            progress(cell_index, len(notebook.cells))

    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    try:
        done = papermill.execute_notebook(
            notebook,
            None,
            parameters=dict(parameters or {}),
            kernel_name="python3",
            language="python",
            cwd=folder,
            progress_bar=False,
            start_timeout=start_seconds,
            execution_timeout=cell_seconds,
            autosave_cell_every=0,
            record_timing=False,
            store_widget_state=False,
            kernel_manager_class=Kernel,
            on_cell_start=started,
        )
    except Exception as error:
        raise CellError(last, _explain(error, cell_seconds)) from error
    # papermill keeps times, and the whole input once more.
    for part in (done, *done.cells):
        part.metadata.pop("papermill", None)
    for cell in done.cells:
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    return done


def joined(outputs: Iterable[Any]) -> list[Any]:
    """Outputs with neighbouring pieces of one stream as one: the split is chance."""
    whole: list[Any] = []
    for output in outputs:
        stream = output.output_type == "stream"
        if stream and whole and whole[-1].get("name") == output.name:
            whole[-1].text += output.text
        else:
            whole.append(copy.deepcopy(output))
    return whole


def _explain(error: Exception, cell_seconds: int) -> str:
    if type(error).__name__ == "CellTimeoutError":
        return f"no end after {cell_seconds} s"
    if type(error).__name__ == "DeadKernelError":
        return "the kernel died"
    name = getattr(error, "ename", type(error).__name__)
    return faults.plain(f"{name}: {getattr(error, 'evalue', error)}")


class NotebookError(ValueError):
    """A file is no whole notebook: which, what is wrong, what to do."""


def read(path: Path) -> Any:
    """The notebook at ``path`` (a BOM and CRLF are harmless). Raises NotebookError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        fault = next(_unwhole(text), None)
    except UnicodeDecodeError as error:
        fault = f"it is not UTF-8 (byte {error.start})"
    if fault:
        raise NotebookError(f"{path} is not a whole notebook: {fault}\n{_remedy(path)}")
    return nbformat.reads(text, as_version=4)


def _unwhole(text: str) -> Iterator[str]:
    """What is wrong with a notebook's ``text``, the cause before what follows."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("<<<<<<<", "=======", ">>>>>>>")):
            mark = f"a merge conflict's mark ({line[:20]}); take one side whole"
            yield f"line {number} is {mark}"
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        yield f"its JSON breaks at line {error.lineno} ({error.msg})"
        return
    found = content if isinstance(content, dict) else {}
    version = found.get("nbformat"), found.get("nbformat_minor")
    if version[0] != 4 or version[1] not in range(5, 100):
        yield f"its format is {version[0]}.{version[1]}; 4.5 is needed"
        return
    cells = found.get("cells")
    if not isinstance(cells, list) or not all(isinstance(c, dict) for c in cells):
        yield "it holds no list of cells"
        return
    ids = [cell.get("id") for cell in cells]
    for name in ids:
        if ids.count(name) > 1:
            yield f"cell {name}: this id stands more than once"
    try:
        nbformat.validate(content)
    except nbformat.ValidationError as error:
        yield str(error).splitlines()[0]


def _remedy(path: Path) -> str:
    if path.is_relative_to(BUILD):
        return "delete it: it is made anew"
    if path.is_relative_to(chapters.NOTEBOOKS):
        return f"bring the committed one back: git checkout -- {path}"
    return f"take a fresh copy, the old one is kept: lmbook reset {path.name[:2]}"


def execute_file(source: Path, output: Path, **how: Any) -> None:
    """Execute ``source`` in its own folder into ``output``; see :func:`execute`.

    ``output`` is gone from the start until the run has ended well.
    """
    output.unlink(missing_ok=True)
    done = execute(read(source), source.parent, **how)
    output.parent.mkdir(parents=True, exist_ok=True)
    write_text(output, nbformat.writes(done) + "\n")


@dataclass(frozen=True)
class Result:
    """How the run of one chapter ended; ``error`` is None after a good end."""

    chapter: str
    output: Path
    seconds: float
    cell: str | None = None
    error: str | None = None

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.chapter}: executed in {self.seconds:.1f} s"
        where = f" in cell {self.cell}" if self.cell else ""
        return f"{self.chapter}: FAILED{where} after {self.seconds:.1f} s: {self.error}"


def run(
    notebooks: Iterable[Path],
    output: Path = EXECUTED,
    *,
    parameters: Mapping[str, Any] | None = None,
    cell_seconds: int = CELL_SECONDS,
    start_seconds: int = START_SECONDS,
    workers: int = 2,
    say: Callable[[str], None] = print,
) -> list[Result]:
    """Execute each notebook in a process of its own, into ``output`` by its name.

    ``say`` receives the progress. The results stand in the order of ``notebooks``.
    """
    job = {
        "parameters": dict(parameters or {}),
        "cell_seconds": cell_seconds,
        "start_seconds": start_seconds,
    }
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(lambda n: _one(n, output / n.name, job, say), notebooks))


def _one(
    notebook: Path, output: Path, job: dict[str, Any], say: Callable[[str], None]
) -> Result:
    """One chapter's process, started from a foreign folder, watched to its end."""
    start = time.monotonic()
    ended: dict[str, str] = {"error": "the process ended without a result"}
    with tempfile.TemporaryDirectory(prefix="lmbook-") as foreign:
        command = [sys.executable, "-m", "lmbook.press.run"]
        command += [str(notebook.resolve()), str(output.resolve()), json.dumps(job)]
        process = subprocess.Popen(
            command,
            cwd=foreign,
            env=environment() | {"JUPYTER_RUNTIME_DIR": foreign},
            stdin=_LEASH[0],
            stdout=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C reaches this process alone
        )
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith(EVENT):
                say(line.rstrip("\n"))
                continue
            event = json.loads(line.removeprefix(EVENT))
            if "of" in event:
                passed = f"{time.monotonic() - start:.0f} s"
                say(f"{notebook.stem}: cell {event['at']} of {event['of']}, {passed}")
            else:
                ended = event
        process.wait()
    result = Result(notebook.stem, output, time.monotonic() - start, **ended)
    if result.error is not None:
        output.unlink(missing_ok=True)
    if len(_LEASH) == 2:
        say(str(result))
    return result


#: A pipe: every chapter's process waits for the end of what it reads from the first
#: part, and so it ends however this process ends, which alone holds the other.
_LEASH = list(os.pipe())


def let_go() -> None:
    """End every chapter's process, those running and those to come."""
    if len(_LEASH) == 2:
        os.close(_LEASH.pop())


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(130)  # the kernel notices within a second


def main(arguments: Sequence[str] | None = None) -> int:
    """The chapter's process: execute one file and tell its parent, a JSON a line."""
    parser = argparse.ArgumentParser(prog="lmbook.press.run")
    parser.add_argument("source", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("job", type=json.loads)
    given = parser.parse_args(arguments)

    def tell(event: dict[str, Any]) -> None:
        print(EVENT + json.dumps(event), flush=True)

    def progress(at: int, of: int) -> None:
        tenth = max(1, of // 10)
        if at and at % tenth == 0:
            tell({"at": at, "of": of})

    try:
        execute_file(given.source, given.output, progress=progress, **given.job)
    except CellError as error:
        tell({"cell": error.cell, "error": str(error)})
        return 1
    except NotebookError as error:
        tell({"error": str(error)})
        return 1
    except OSError as error:
        tell({"error": faults.sentence(error)})
        return 1
    except Exception as error:
        tell({"error": f"{type(error).__name__}: {error}"})
        return 1
    tell({})
    return 0


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.exit(main())
