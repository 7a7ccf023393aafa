"""Is this Python the project's environment? A sentence and a remedy for each fault."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lmbook import chapters
from lmbook.press.faults import INSTALL
from lmbook.press.run import environment

FREE_GB = 1


@dataclass(frozen=True)
class Fault:
    """What is wrong, and what to do about it."""

    sentence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.sentence}\n  remedy: {self.remedy}"


def examine(root: Path = chapters.ROOT) -> list[Fault]:
    """Every fault found; an empty list means that all is well."""
    looks = (
        *(interpreter, kernel, versions, fonts, threads),
        *(writable, space, jupyterlab),
    )
    return [fault for look in looks for fault in look(root)]


def interpreter(root: Path) -> Iterator[Fault]:
    """This Python must be the one of the project's ``.venv``."""
    if Path(sys.prefix).resolve() != (root / ".venv").resolve():
        yield Fault(
            f"This Python ({sys.executable}) is not the project's .venv.",
            f"use {root / '.venv' / 'bin' / 'lmbook'} (on Windows: Scripts)",
        )


def kernel(root: Path) -> Iterator[Fault]:
    """The kernel called python3 must be there and be this Python."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        yield Fault("There is no kernel called python3.", INSTALL)
        return
    # A bare "python" is replaced by the starting interpreter.
    if Path(command).name != command and Path(command) != Path(sys.executable):
        yield Fault(
            f"The kernel python3 is another Python ({command}).",
            "delete that kernel: jupyter kernelspec remove python3; then " + INSTALL,
        )


def locked(root: Path) -> dict[str, str]:
    """Name and version of each line of requirements.lock. Raises ValueError."""
    path, found = root / "requirements.lock", {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        parts = re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)", line)
        if not parts:
            raise ValueError(f"{path}, line {number} is not name==version: {line!r}.")
        found[parts[1]] = parts[2]
    return found


def versions(root: Path) -> Iterator[Fault]:
    """Installed versions must be the locked ones (a local part, +cpu, is free)."""
    try:
        lock = locked(root)
    except (OSError, ValueError) as error:
        yield Fault(str(error), "git checkout -- requirements.lock")
        return
    for name, wanted in lock.items():
        try:
            found = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            if name in needed():
                yield Fault(f"{name} {wanted} is not installed.", INSTALL)
            continue
        if found != wanted:
            yield Fault(f"{name} is {found}, the lock says {wanted}.", INSTALL)


def needed() -> set[str]:
    """The packages that lmbook itself names for reading (no extra)."""
    lines = importlib.metadata.requires("lmbook") or []
    core = [line for line in lines if "extra ==" not in line]
    return {re.split(r"[^A-Za-z0-9._-]", line)[0] for line in core}


def fonts(root: Path) -> Iterator[Fault]:
    """Both weights of Noto Sans CJK JP must be there, as they were published."""
    packages = [f"noto_cjk_sans_jp_{weight}" for weight in ("regular", "bold")]
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    for package in missing:
        yield Fault(f"The font package {package} is missing.", INSTALL)
    if missing:
        return
    from lmbook import plots

    try:
        plots.fonts()
    except ValueError as error:
        yield Fault("A font file is not the published one.", str(error))


def threads(root: Path) -> Iterator[Fault]:
    """A kernel of ours must see one thread, in its variables and in torch."""
    code = (
        "import os, torch; from lmbook import repro; repro.setup_torch(0);"
        "print(os.environ['OMP_NUM_THREADS'], torch.get_num_threads())"
    )
    try:
        ours = environment()
    except OSError as error:
        yield Fault(f"build/ cannot be made: {error}.", "see what is said of folders")
        return
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=ours,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        yield Fault(f"torch does not start: {last}.", INSTALL)
    elif done.stdout.split() != ["1", "1"]:
        yield Fault(
            f"torch would use {done.stdout.split()[-1]} threads.",
            "call repro.setup_torch() first in the notebook",
        )


def writable(root: Path) -> Iterator[Fault]:
    """The project's folder and the temporary folder must take a file."""
    folders = (root, root / "notebooks", root / "desk", root / "build")
    for folder in (*folders, Path(tempfile.gettempdir())):
        if folder.exists() and not os.access(folder, os.W_OK):
            yield Fault(
                f"{folder} cannot be written to.",
                "give yourself write permission there, or copy the project elsewhere",
            )


def space(root: Path) -> Iterator[Fault]:
    """Builds need some room."""
    free = shutil.disk_usage(root).free / 1e9
    if free < FREE_GB:
        yield Fault(
            f"Only {free:.1f} GB are free on this disk.",
            f"free {FREE_GB} GB; build/ may be deleted (make clean)",
        )


SLIDERS = "@jupyter-widgets/jupyterlab-manager"
#: Where each part of JupyterLab that the desk needs lies, under share/jupyter.
EXTENSIONS = {
    "JupyterLab": "lab/static/index.html",
    SLIDERS: f"labextensions/{SLIDERS}/package.json",
}


def jupyterlab(root: Path) -> Iterator[Fault]:
    """JupyterLab, its extension for sliders and its Japanese menus must be there."""
    share = Path(sys.prefix) / "share" / "jupyter"
    for what, place in EXTENSIONS.items():
        if not (share / place).is_file():
            yield Fault(f"{what} is not in {share}.", INSTALL)
    if importlib.util.find_spec("jupyterlab_language_pack_ja_JP") is None:
        yield Fault("JupyterLab's Japanese language pack is missing.", INSTALL)
    config = Path(sys.prefix) / "etc" / "jupyter" / "labconfig" / "page_config.json"
    if config.is_file():
        disabled = json.loads(config.read_text("utf-8")).get("disabledExtensions", {})
        for name in (SLIDERS, f"{SLIDERS}:plugin"):
            if disabled.get(name):
                yield Fault(
                    f"{name} is disabled.", f"jupyter labextension enable {name}"
                )
