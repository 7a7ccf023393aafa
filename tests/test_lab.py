"""JupyterLab as the reader's desk, seen in a browser."""

import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import browser
import pytest

from lmbook import chapters
from lmbook.press import compare, desk, diff, editions, lab, run

CHAPTERS = chapters.every()
MENUS = ["ファイル", "編集", "表示", "実行", "カーネル", "タブ", "設定", "ヘルプ"]


def quick_desk(folder: Path, path: Path) -> Path:
    """A desk with a copy of one chapter, ``quick`` switched on in it."""
    desk.lay_out([path], folder)
    copy = folder / path.name
    content = run.read(copy)
    for cell in content.cells:
        if "parameters" in editions.tags(cell):
            assert "quick = False" in cell.source
            cell.source = cell.source.replace("quick = False", "quick = True")
    run.write_text(copy, compare.text_of(content))
    return copy


# Settings


@pytest.mark.parametrize("full", [False, True])
def test_settings(full: bool, tmp_path: Path) -> None:
    folder, build = tmp_path / "机 の 上", tmp_path / "build"
    desk.lay_out(CHAPTERS, folder)
    said = lab.prepare(folder, build, full=full)
    given = dict(a.removeprefix("--").split("=", 1) for a in said)
    assert given["ServerApp.root_dir"] == str(folder)
    assert given["ServerApp.ip"] == "127.0.0.1"
    assert ("ServerApp.contents_manager_class" in given) == full
    settings = Path(given["LabApp.app_settings_dir"]) / "overrides.json"
    found = json.loads(settings.read_text(encoding="utf-8"))
    assert found["@jupyterlab/docmanager-extension:plugin"]["autosave"] is not full
    news = found["@jupyterlab/apputils-extension:notification"]
    assert news == {"checkForUpdates": False, "fetchNews": "false"}
    custom = build / "jupyter" / "config" / "custom"
    names = {p.name for p in custom.iterdir()}
    assert names == {"custom.css", "regular.otf", "bold.otf"}
    (workspace,) = Path(given["LabApp.workspaces_dir"]).iterdir()
    made = json.loads(workspace.read_text(encoding="utf-8"))
    layout = made["data"]["layout-restorer:data"]
    assert layout["left"]["current"] == "@jupyterlab/toc:plugin"
    assert layout["main"]["current"] == f"notebook:{CHAPTERS[0].name}"
    assert str(tmp_path) not in workspace.read_text(encoding="utf-8")


def test_the_workspace_stays_as_the_reader_left_it(tmp_path: Path) -> None:
    lab.prepare(tmp_path, tmp_path / "build", full=False)
    (workspace,) = (tmp_path / "build" / "lab" / "workspaces").iterdir()
    mine = workspace.read_text(encoding="utf-8").replace("0.22", "0.33")
    workspace.write_text(mine, encoding="utf-8")
    lab.prepare(tmp_path, tmp_path / "build", full=False)
    assert workspace.read_text(encoding="utf-8") == mine


def test_the_reader_keeps_language_and_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LC_ALL")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    made = lab.environment(tmp_path)
    assert "LC_ALL" not in made
    assert made["TZ"] == "Asia/Tokyo"
    assert made["OMP_NUM_THREADS"] == "1"


def test_what_stands_in_the_repository_is_offline() -> None:
    for path in lab.SETTINGS.iterdir():
        assert "http" not in path.read_text(encoding="utf-8"), path


# In the browser


def first_hour(path: Path, folder: Path, shots: Path | None = None) -> None:
    """Open, Run All, slider, one exercise right and one wrong, all by hand."""
    copy = quick_desk(folder / "机 の 上", path)
    with (
        browser.served(copy.parent, folder / "build", cwd=Path(copy.anchor)) as served,
        browser.page() as (page, outside),
    ):
        reader = browser.Desk(page, outside)
        reader.open(served[0])
        assert reader.menus() == MENUS
        guide = desk.GUIDE.read_text(encoding="utf-8")
        for menu, entry in re.findall("メニューの「(.+?)」から「(.+?)」", guide):
            assert entry in reader.entries(menu)
        assert page.locator(".jp-tocItem").count() >= 10
        assert page.locator(".jp-Dialog").count() == 0
        assert page.evaluate("document.fonts.check('15px \"Lesson JP\"', 'あ')")
        code = "getComputedStyle(document.querySelector('.cm-content')).fontFamily"
        assert "Lesson JP" in page.evaluate(code)
        width = page.locator(".jp-RenderedMarkdown").first.bounding_box()["width"]
        assert width <= 46 * 15 + 40
        reader.run_all(300)
        assert reader.errors() == []
        move_a_slider(reader)
        solve_two(reader, path)
        assert outside == []
        page.keyboard.press("Control+s")
        wait_for(lambda: "✗" in str(run.read(copy)))
    assert served[1].returncode == 0
    assert not any(c.get("name") == "error" for c in run.read(copy).cells)


def wait_for(condition: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def move_a_slider(reader: browser.Desk) -> None:
    """Arrow keys change the number beside the slider, and the picture or text."""
    cell = reader.page.locator(".jp-CodeCell", has=reader.page.locator(".noUi-handle"))
    cell = cell.first
    shown = cell.locator(".widget-interact .jp-OutputArea-output").first
    for again in (False, True):  # a cell may be run twice
        if again:
            reader.run(cell)
        before = shown.inner_html(), cell.locator(".widget-readout").first.inner_text()
        handle = cell.locator(".noUi-handle").first
        handle.focus()
        number = cell.locator(".widget-readout").first
        for key in ("ArrowLeft", "ArrowRight"):  # it may stand at its left end
            for _ in range(5):
                reader.page.keyboard.press(key)
            if number.inner_text() != before[1]:
                break
        wait_for(lambda before=before: shown.inner_html() != before[0])
        assert number.inner_text() != before[1]
        assert cell.locator(".widget-interact").count() == 1


def solve_two(reader: browser.Desk, path: Path) -> None:
    """Type the right answer of the first exercise, a wrong one into the second."""
    book = run.read(path)
    hanging = diff.exercise_cells(book)
    cells = [c.source for c in book.cells if c.id in hanging]
    stubs = [editions.cut(source, "") for source in (cells[0], cells[2])]
    wrong = stubs[1].replace(editions.STUB, "return 0.5").replace("= None", "= -99")
    assert wrong != stubs[1]
    for typed, stub in ((cells[0], stubs[0]), (wrong, stubs[1])):
        reader.type_in(reader.cell(stub.split("\n")[0]), typed)
    firsts = [source.split("\n")[0] for source in (cells[1], cells[3], cells[-1])]
    right, mistake, progress = (reader.run(reader.cell(first)) for first in firsts)
    assert "✓ 演習1: 正解です。" in right
    assert "✗ 演習2: " in mistake
    assert "未完成" not in mistake
    assert "✓ 演習1: できた\n・ 演習2: まだ" in progress


def test_the_first_hour_of_the_first_chapter(tmp_path: Path) -> None:
    first_hour(CHAPTERS[0], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("path", CHAPTERS[1:], ids=lambda p: p.stem)
def test_the_first_hour_of_each_chapter(path: Path, tmp_path: Path) -> None:
    first_hour(path, tmp_path)


@pytest.fixture(scope="module")
def full_book(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The server of the book itself: its address without a path, and its token."""
    build = tmp_path_factory.mktemp("book") / "build"
    with browser.served(chapters.NOTEBOOKS, build, full=True) as served:
        address, token = served[0].partition("/lab")[0], served[0].split("token=")[1]
        yield address, token
    assert served[1].returncode == 0


def ask(
    server: tuple[str, str], method: str = "GET", body: Any = None, token: str = ""
) -> tuple[int, Any]:
    """The status and the answer of a request for the first chapter."""
    request = urllib.request.Request(
        f"{server[0]}/api/contents/{CHAPTERS[0].name}",
        json.dumps(body).encode() if body else None,
        {"Authorization": f"token {token or server[1]}"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_book_itself_cannot_be_saved_over(full_book: tuple[str, str]) -> None:
    before = {p: p.read_bytes() for p in CHAPTERS}
    status, model = ask(full_book)
    assert status == 200
    assert model["writable"] is False
    body = {"type": "notebook", "content": model["content"]}
    code, said = ask(full_book, "PUT", body)
    assert code == 403
    assert lab.REFUSED in said["message"]
    assert ask(full_book, "PATCH", {"path": "x.ipynb"})[0] == 403
    assert ask(full_book, "DELETE")[0] == 403
    assert {p: p.read_bytes() for p in CHAPTERS} == before


def test_the_server_is_for_who_has_the_token(full_book: tuple[str, str]) -> None:
    address, token = full_book
    assert len(token) >= 40
    assert ask(full_book, token=f"x{token}")[0] == 403
    with urllib.request.urlopen(f"{address}/lab?token=x{token}") as page:
        assert "/login" in page.url


@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="needs /proc")
def test_the_server_listens_on_loopback_alone(full_book: tuple[str, str]) -> None:
    port = f"{int(full_book[0].rpartition(':')[2]):04X}"
    heard = [
        line.split()[1].partition(":")[0]
        for file in (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
        for line in (file.read_text("ascii").splitlines() if file.is_file() else [])
        if line.split()[1].endswith(f":{port}") and line.split()[3] == "0A"
    ]
    assert heard == ["0100007F"]  # 127.0.0.1


def test_a_missing_browser_fails_in_ci_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="Chromium is not installed"):
        browser.executable()
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="Chromium is not installed"):
        browser.executable()
