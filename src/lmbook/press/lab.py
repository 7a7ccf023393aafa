"""JupyterLab as the reader's desk: on loopback, in Japanese, with our own settings."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager
from tornado.web import HTTPError

from lmbook import chapters
from lmbook.press import run

SETTINGS = chapters.ROOT / "lab"
REFUSED = "ここは読むための教材です。書きこむときは make lab の写しを使います。"


class Kernel(run.Kernel, ServerKernelManager):
    """The book's kernel, which is this interpreter, as the server wants it."""


class ReadOnly(AsyncLargeFileManager):
    """Contents that can be opened and executed, but not saved over."""

    async def save(self, model: Any, path: str = "") -> Any:
        raise HTTPError(403, REFUSED)

    async def delete_file(self, path: str) -> Any:
        raise HTTPError(403, REFUSED)

    async def rename_file(self, old_path: str, new_path: str) -> Any:
        raise HTTPError(403, REFUSED)

    def _base_model(self, path: str) -> Any:
        model = super()._base_model(path)  # type: ignore[no-untyped-call]
        return {**model, "writable": False}


def environment(build: Path) -> dict[str, str]:
    """The kernels' environment, but the reader's own language and clock."""
    made = run.environment(build)
    for name in ("LC_ALL", "TZ"):
        made.pop(name)
        if name in os.environ:
            made[name] = os.environ[name]
    return made


def prepare(folder: Path, build: Path, *, full: bool) -> list[str]:
    """Write JupyterLab's settings under ``build``; its arguments for ``folder``.

    The workspace (what is open, and where) is written once: afterwards it is as the
    reader left it.
    """
    name = "full" if full else "desk"
    lab = build / "lab"
    settings, workspaces = lab / name, lab / "workspaces"
    custom = build / "jupyter" / "config" / "custom"
    for made in (settings, workspaces, custom):
        made.mkdir(parents=True, exist_ok=True)
    overrides = json.loads((SETTINGS / "overrides.json").read_text(encoding="utf-8"))
    overrides["@jupyterlab/docmanager-extension:plugin"]["autosave"] = not full
    run.write_text(settings / "overrides.json", json.dumps(overrides))
    shutil.copy(SETTINGS / "custom.css", custom)
    _fonts(custom)
    _workspace(name, folder, workspaces)
    arguments = {
        "ServerApp.root_dir": folder,
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.answer_yes": True,  # Ctrl-C asks nothing
        "ServerApp.allow_root": True,
        # It would wrap the contents manager, and our refusals with it.
        "ServerApp.jpserver_extensions": "jupyterlab_jupytext=False",
        "Application.log_level": "ERROR",
        "AsyncMappingKernelManager.kernel_manager_class": f"{__name__}.Kernel",
        "LabApp.app_settings_dir": settings,
        "LabApp.workspaces_dir": workspaces,
        "LabApp.custom_css": True,
        "LabApp.extension_manager": "readonly",
        "LabApp.default_url": f"/lab/workspaces/{name}",
    }
    if full:
        arguments["ServerApp.contents_manager_class"] = f"{__name__}.ReadOnly"
    return [f"--{key}={value}" for key, value in arguments.items()]


def _fonts(custom: Path) -> None:
    from lmbook import plots

    for file in plots.fonts():
        font = custom / f"{file.stem.partition('-')[2].lower()}.otf"
        if not font.is_file() or font.stat().st_size != file.stat().st_size:
            shutil.copy(file, font)


def _workspace(name: str, folder: Path, workspaces: Path) -> None:
    """Contents open at the left, the first notebook of ``folder`` in the middle."""
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    manager = WorkspacesManager(str(workspaces))
    if manager.load(name)["data"]:
        return
    made = json.loads((SETTINGS / "workspace.json").read_text(encoding="utf-8"))
    made["metadata"]["id"] = name
    first = min((p.name for p in folder.glob("*.ipynb")), default=None)
    if first:
        widget = f"notebook:{first}"
        tabs = {"type": "tab-area", "currentIndex": 0, "widgets": [widget]}
        made["data"]["layout-restorer:data"]["main"] = {"dock": tabs, "current": widget}
        made["data"][widget] = {"data": {"path": first, "factory": "Notebook"}}
    manager.save(name, json.dumps(made))


def serve(
    folder: Path,
    build: Path = run.BUILD,
    *,
    full: bool = False,
    port: int = 8888,
    browser: bool = True,
) -> None:
    """Run JupyterLab over ``folder`` until Ctrl-C; print its address with the token."""
    ours = environment(build)
    for name in set(os.environ) - set(ours):
        del os.environ[name]
    os.environ.update(ours)
    from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]

    arguments = prepare(folder, build, full=full)
    arguments += [f"--ServerApp.port={port}", f"--ServerApp.open_browser={browser}"]
    server = LabApp.initialize_server(argv=arguments)
    banner = "To access the server"  # said once, below
    server.log.addFilter(lambda record: banner not in record.getMessage())
    print(f"JupyterLab: {server.display_url.split()[0]}")
    print("Leave this window open while you read; Ctrl-C ends it.", flush=True)
    server.start()
    print("JupyterLab has ended.", flush=True)
