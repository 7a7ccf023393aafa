"""JupyterLab in headless Chromium, as a reader uses it."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

LOCAL = re.compile(r"(https?|wss?)://127\.0\.0\.1[:/]|(data|blob|about|file):")
SERVE = (
    "import sys; from pathlib import Path; from lmbook.press import lab;"
    "lab.serve(Path(sys.argv[1]), Path(sys.argv[2]), full=sys.argv[3] == 'full',"
    " port=int(sys.argv[4]), browser=False)"
)


def executable() -> str:
    """Debian's Chromium. Where there is none the test is skipped, but not in CI."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    sentence = "Chromium is not installed (Debian, Ubuntu: apt-get install chromium)."
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


@contextlib.contextmanager
def page() -> Iterator[tuple[Any, list[str]]]:
    """A page, and the addresses outside this machine that it asks for."""
    from playwright.sync_api import sync_playwright

    outside: list[str] = []

    def seen(request: Any) -> None:
        if not LOCAL.match(request.url):
            outside.append(request.url)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), args=["--no-sandbox", "--disable-gpu"]
        )
        made = browser.new_page(viewport={"width": 1280, "height": 900})
        made.on("request", seen)
        made.set_default_timeout(60_000)
        yield made, outside
        browser.close()


@contextlib.contextmanager
def served(
    folder: Path, build: Path, *, full: bool = False, cwd: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`lab.serve` in a process of its own, ended by Ctrl-C; its address."""
    command = [sys.executable, "-c", SERVE, str(folder), str(build)]
    command += ["full" if full else "desk", "0"]
    log = build.with_name("lab.log")
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8"
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("JupyterLab: "):
                break
        else:
            pytest.fail(log.read_text(encoding="utf-8"))
        address = line.removeprefix("JupyterLab: ").strip()
        _listening(int(address.split(":")[2].partition("/")[0]))
        yield address, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _listening(port: int, seconds: float = 30) -> None:
    """Wait until the server takes a connection: it says its address just before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)


@dataclass
class Desk:
    """One notebook open in JupyterLab."""

    page: Any
    outside: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        self.page.goto(address)
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.page.wait_for_selector(".jp-Toolbar-kernelName:has-text('Python 3')")
        self.page.wait_for_selector(".jp-tocItem")
        self.idle()

    def idle(self, seconds: float = 120) -> None:
        """Wait until the kernel has nothing left to do."""
        self.page.wait_for_function(
            "() => { const i = document.querySelector("
            "'.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-ExecutionIndicator');"
            " const p = [...document.querySelectorAll('.jp-InputPrompt')];"
            " return i && i.dataset.status === 'idle'"
            " && !p.some(x => x.textContent.includes('*')); }",
            timeout=seconds * 1000,
        )

    def menus(self) -> list[str]:
        found = self.page.locator(".lm-MenuBar-itemLabel").all_inner_texts()
        return [text for text in found if text]

    def entries(self, menu: str) -> list[str]:
        """What stands in a menu."""
        self.page.locator(".lm-MenuBar-item", has_text=menu).click()
        self.page.wait_for_selector(".lm-Menu-itemLabel")
        found = self.page.locator(".lm-Menu-itemLabel").all_inner_texts()
        self.page.keyboard.press("Escape")
        return [text for text in found if text]

    def run_all(self, seconds: float = 120) -> None:
        self.page.locator(".lm-MenuBar-item").nth(3).click()
        self.page.locator('.lm-Menu-item[data-command="runmenu:run-all"]').click()
        self.page.wait_for_timeout(500)
        self.idle(seconds)

    def cell(self, text: str) -> Any:
        """The code cell whose source begins with ``text``."""
        cells = self.page.locator(".jp-Notebook .jp-CodeCell")
        find = (
            "(cells, text) => cells.findIndex(c =>"
            " c.querySelector('.cm-content')?.textContent.startsWith(text))"
        )
        end = time.monotonic() + 30
        while (index := cells.evaluate_all(find, text)) < 0:  # drawn little by little
            assert time.monotonic() < end, text
            self.page.wait_for_timeout(200)
        return cells.nth(index)

    def type_in(self, cell: Any, source: str) -> None:
        """Replace a cell's source by typing, and run it."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Shift+Enter")

    def run(self, cell: Any) -> str:
        """Run a cell; the text of its output."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        self.page.wait_for_timeout(300)
        self.idle()
        return str(cell.locator(".jp-OutputArea").first.inner_text())

    def errors(self) -> list[str]:
        found = ".jp-OutputArea-output[data-mime-type*='error'],"
        found += ".jp-OutputArea-output[data-mime-type*='stderr']"
        texts: list[str] = self.page.locator(found).all_inner_texts()
        return texts
