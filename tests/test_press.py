"""Run, compare, accept, experiment, report and sheet on small notebooks."""

import base64
import copy
import http.server
import io
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import cell, markdown, notebook, save
from nbformat.v4 import new_output
from PIL import Image

from lmbook import chapters
from lmbook.press import compare, experiment, guard, run
from lmbook.press.accept import AcceptError, accept, refusals
from lmbook.press.report import text_diff, write_html
from lmbook.press.sheet import sheet


def silent(text: str) -> None:
    """Progress that nobody reads."""


def png(
    shade: int = 255, size: tuple[int, int] = (100, 80), dot: int | None = None
) -> str:
    image = Image.new("RGB", size, (shade, shade, shade))
    if dot is not None:
        image.putpixel((3, 3), (dot, dot, dot))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def executed(*outputs: Any, source: str = "1") -> Any:
    made = notebook(markdown("text", "文です。"), ("one", source))
    cell(made, "one").execution_count = 1
    cell(made, "one").outputs = list(outputs)
    return made


def stream(text: str, name: str = "stdout") -> Any:
    return new_output("stream", name=name, text=text)


def picture(data: str, **metadata: Any) -> Any:
    return new_output("display_data", {"image/png": data}, metadata=metadata)


# Environment


def test_one_environment_for_kernels_and_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MPLBACKEND", "JPY_SESSION_NAME", "PYTHONWARNINGS", "GLIBC_TUNABLES"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    found = run.environment(tmp_path)
    assert found.items() >= run.FIXED.items()
    for name in ("MPLBACKEND", "JPY_SESSION_NAME", "PYTHONWARNINGS", "GLIBC_TUNABLES"):
        assert name not in found
    for name in ("MPLCONFIGDIR", "IPYTHONDIR", "JUPYTER_DATA_DIR"):
        assert Path(found[name]).is_relative_to(tmp_path)
    assert found["PATH"] == os.environ["PATH"]


def test_the_probe_differs_in_arithmetic_only(tmp_path: Path) -> None:
    plain, probe = run.environment(tmp_path), run.environment(tmp_path, probe=True)
    assert {k for k in probe if probe[k] != plain.get(k)} == set(run.PROBE)
    assert set(plain) <= set(probe)


def test_tests_run_in_that_environment() -> None:
    assert os.environ["PYTHONHASHSEED"] == "0"
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_cold_caches_and_a_contributor_s_settings_leave_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing on stderr: no font cache, no folder that cannot be written to."""
    for name, value in {
        "MPLCONFIGDIR": "/nonexistent/mpl",
        "MPLBACKEND": "no-such-backend",
        "PYTHONWARNINGS": "error",
        "PYTHONVERBOSE": "1",
        "IPYTHONDIR": "/nonexistent/ipython",
        "HOME": "/nonexistent",
    }.items():
        monkeypatch.setenv(name, value)
    found = run.environment(tmp_path / "build")
    for name in set(os.environ) - set(found):
        monkeypatch.delenv(name)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    source = "from lmbook import plots, repro\nrepro.setup(0)\n"
    source += "plots.curves({'a': [1, 2]}, alt='上がる線です。', title='図')"
    done = run.execute(notebook(("figure", source)), tmp_path)
    assert [o.output_type for o in cell(done, "figure").outputs] == ["execute_result"]
    assert list((tmp_path / "build" / "mpl").iterdir())  # the cache was made here


def test_what_is_printed_in_pieces_is_one_output(tmp_path) -> None:
    """Paper and site are made of executions, too, and must not depend on the hour."""
    source = "import time\nfor i in range(3):\n    print(i, flush=True)\n"
    source += "    time.sleep(0.4)"
    done = run.execute(notebook(("slow", source)), tmp_path)
    assert [o.text for o in cell(done, "slow").outputs] == ["0\n1\n2\n"]


# The network guard


@pytest.mark.parametrize(
    ("family", "address", "local"),
    [
        (socket.AF_INET, ("127.0.0.1", 80), True),
        (socket.AF_INET, ("localhost", 80), True),
        (socket.AF_INET6, ("::1", 80, 0, 0), True),
        (socket.AF_INET, ("192.0.2.1", 80), False),
        (socket.AF_INET6, ("fe80::1%eth0", 80), False),
        (socket.AF_INET, ("somewhere.invalid", 80), False),
        (socket.AF_INET, ("127.0.0.1.invalid", 80), False),
        (getattr(socket, "AF_UNIX", -1), "/a/socket", True),
    ],
)
def test_what_is_local(family: int, address: Any, local: bool) -> None:
    assert guard.is_local(family, address) is local


def test_the_guard_refuses_both_ways_to_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket.socket, "connect", socket.socket.connect)
    monkeypatch.setattr(socket.socket, "connect_ex", socket.socket.connect_ex)
    guard.install()
    with socket.socket() as sock:
        with pytest.raises(guard.NetworkError, match="no network at run time"):
            sock.connect(("192.0.2.1", 80))
        with pytest.raises(guard.NetworkError, match=r"192\.0\.2\.1"):
            sock.connect_ex(("192.0.2.1", 80))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
        sock.connect(server.getsockname())
        with socket.socket() as other:
            assert other.connect_ex(server.getsockname()) == 0


def test_a_kernel_reaches_loopback_and_nothing_else(tmp_path: Path) -> None:
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        near = f"socket.create_connection(('127.0.0.1', {server.server_port})).close()"
        far = "socket.create_connection(('192.0.2.1', 80), timeout=5)"
        made = notebook(("near", f"import socket\n{near}\n'near'"), ("far", far))
        with pytest.raises(run.CellError, match="no network at run time") as caught:
            run.execute(made, tmp_path)
        server.shutdown()
    assert caught.value.cell == "far"


# Run


def test_chapters_run_in_their_folder_each_in_a_process(tmp_path: Path) -> None:
    source = (
        "import os\nprint(os.getcwd(), os.getppid(), 'JPY_SESSION_NAME' in os.environ)"
    )
    paths = [
        save(tmp_path / "動 く" / f"0{i}_x.ipynb", notebook(("one", source)))
        for i in (1, 2)
    ]
    said: list[str] = []
    results = run.run(paths, tmp_path / "out", say=said.append)
    assert [r.error for r in results] == [None, None]
    assert [r.chapter for r in results] == ["01_x", "02_x"]
    texts = [cell(run.read(r.output), "one").outputs[0].text.split() for r in results]
    assert [t[0:2] for t in texts] == [str(paths[0].parent).split()[-2:]] * 2
    assert texts[0][2] != texts[1][2]
    assert all(t[3] == "False" for t in texts)
    assert sum("executed in" in line for line in said) == 2


def test_progress_and_parameters(tmp_path: Path) -> None:
    cells = [("p", "n = 1", ["parameters"]), *((f"c{i}", "n") for i in range(9))]
    seen: list[tuple[int, int]] = []
    source = save(tmp_path / "01_x.ipynb", notebook(*cells))
    run.execute_file(
        source,
        tmp_path / "out" / "01_x.ipynb",
        parameters={"n": 5},
        progress=lambda at, of: seen.append((at, of)),
    )
    done = run.read(tmp_path / "out" / "01_x.ipynb")
    assert cell(done, "c8").outputs[0].data["text/plain"] == "5"
    assert seen[-1] == (10, 10)
    assert "papermill" not in str(done)


def test_the_chapter_process_tells_its_parent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = save(tmp_path / "01_x.ipynb", notebook(("a", "1"), ("b", "2")))
    bad = save(tmp_path / "02_x.ipynb", notebook(("a", "1"), ("b", "1 / 0")))
    out = str(tmp_path / "out.ipynb")

    def told() -> Any:
        last = capsys.readouterr().out.splitlines()[-1]
        return json.loads(last.removeprefix(run.EVENT))

    assert run.main([str(good), out, "{}"]) == 0
    assert told() == {}
    assert run.main([str(bad), out, "{}"]) == 1
    assert told() == {"cell": "b", "error": "ZeroDivisionError: division by zero"}
    assert not Path(out).exists()
    bad.write_text("{", encoding="utf-8")
    assert run.main([str(bad), out, "{}"]) == 1
    assert (
        "is not a whole notebook: its JSON breaks at line 1" in capsys.readouterr().out
    )


@pytest.mark.skipif(os.name != "posix", reason="needs a shell script")
def test_a_process_that_ends_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho a stray line\nexit 7\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(run.sys, "executable", str(script))
    path = save(tmp_path / "01_x.ipynb", notebook(("a", "1")))
    said: list[str] = []
    (result,) = run.run([path], tmp_path / "out", say=said.append)
    assert result.error == "the process ended without a result"
    assert said[0] == "a stray line"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        run.write_text(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


# Compare


def test_counts_of_what_was_compared() -> None:
    made = executed(stream("a\n"), picture(png()))
    report = compare.compare(made, made, "01")
    found = (report.cells, report.outputs, report.pictures, report.differences)
    assert found == (2, 2, 1, [])
    assert str(report) == "01: 2 cells, 2 outputs, 1 pictures compared, 0 differences"


def test_the_message_names_the_line() -> None:
    first, second = executed(stream("a\nb\n")), executed(stream("a\nc\n"))
    (found,) = compare.compare(first, second).differences
    assert str(found) == "[text] cell one: line 2: expected 'b', got 'c'"


def test_sources_and_kinds_of_cells_are_compared() -> None:
    other = executed(source="2")
    kinds = {d.kind for d in compare.compare(executed(), other).differences}
    assert kinds == {"source"}
    changed = executed()
    changed.cells[1] = markdown("one", "1")
    assert [d.kind for d in compare.compare(executed(), changed).differences] == [
        "cells"
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "fault"),
    [
        (png(), png(), None),
        (png(200, dot=208), png(200, dot=200), None),
        (png(200, dot=209), png(200, dot=200), "largest channel difference 9"),
        (png(200), png(201), "RMS 1.000"),
        (png(), png(size=(101, 80)), "expected 100x80, got 101x80"),
    ],
)
def test_picture_bounds(expected: str, actual: str, fault: str | None) -> None:
    both = base64.b64decode(expected), base64.b64decode(actual)
    found = compare.picture_fault(*both)
    assert found is None if fault is None else fault in (found or "")


def test_a_picture_that_is_none() -> None:
    assert "cannot be read" in (compare.picture_fault(b"x", b"y") or "")


def test_clean_leaves_fixed_metadata_and_is_idempotent() -> None:
    alt = {"image/png": {"alt": "図です。", "width": 3}, "alt": "図", "other": 1}
    made = executed(stream("a"), stream("b\n"), stream("c", "stderr"))
    cell(made, "one").outputs.append(picture(png(), **alt))
    cell(made, "one").metadata = copy.deepcopy(made.metadata) | {"tags": ["teacher"]}
    made.metadata["papermill"] = {}
    done = compare.clean(made)
    assert done.metadata == {
        "kernelspec": compare.KERNELSPEC,
        "language_info": {"name": "python"},
    }
    found = cell(done, "one")
    assert found.metadata == {"tags": ["teacher"]}
    assert cell(done, "text").metadata == {}
    assert [o.get("text") for o in found.outputs] == ["ab\n", "c", None]
    assert found.outputs[2].metadata == {"image/png": {"alt": "図です。"}, "alt": "図"}
    once = compare.text_of(done)
    assert compare.text_of(compare.clean(done)) == once
    assert once.endswith("}\n")


def test_the_report_is_one_file_with_diff_and_pictures(tmp_path: Path) -> None:
    first = executed(stream("a\nb\n"), picture(png(200)), picture(png()))
    second = executed(stream("a\n<c>\n"), picture(png(220)), picture(png(size=(9, 9))))
    report = compare.compare(first, second, "01")
    path = tmp_path / "new" / "report.html"
    write_html([report], path)
    text = path.read_text(encoding="utf-8")
    assert text.count("<img ") == 5
    assert "-b\n+&lt;c&gt;" in text
    assert "http" not in text
    assert "-b\n+c" in text_diff("a\nb", "a\nc")


def test_the_report_escapes_everything(tmp_path: Path) -> None:
    hostile = "</pre><script>alert(1)</script>\x1b[2J\"'&"
    alt = {"image/png": {"alt": hostile}}
    first, second = executed(stream(hostile)), executed(stream("b"), source=hostile)
    for made, shade in ((first, 200), (second, 220)):
        cell(made, "one").outputs.append(picture(png(shade), **alt))
    cell(second, "one").outputs += [
        new_output("display_data", {"text/html": hostile, hostile: "x"}),
        new_output("error", ename=hostile, evalue=hostile, traceback=[]),
    ]
    report = compare.compare(first, second, hostile)
    write_html([report], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert {d.kind for d in report.differences} >= {"source", "text", "error"}
    assert text.count("&lt;script&gt;alert(1)") >= 4
    assert "<script" not in text
    assert "alert(1)</" not in text


# Accept


def committed(tmp_path: Path, made: Any, name: str = "01_x.ipynb") -> Path:
    """A committed notebook without outputs, and ``made`` as its execution."""
    blank = copy.deepcopy(made)
    for found in blank.cells:
        if found.cell_type == "code":
            found.outputs, found.execution_count = [], None
    save(tmp_path / "out" / name, made)
    return save(tmp_path / "notebooks" / name, blank)


def test_accept_writes_and_is_idempotent(tmp_path: Path) -> None:
    path = committed(tmp_path, executed(stream("a ✓\n")))
    assert accept([path], tmp_path / "out") == [path]
    once = path.read_bytes()
    assert b"a \xe2\x9c\x93" in once
    assert accept([path], tmp_path / "out") == []
    assert path.read_bytes() == once


def tagged(tag: str) -> Any:
    made = executed()
    cell(made, "one").metadata["tags"] = [tag]
    return made


def uncounted() -> Any:
    made = executed()
    cell(made, "one").execution_count = None
    return made


REFUSED = {
    "was not executed": uncounted(),
    "ValueError: no": executed(
        new_output("error", ename="ValueError", evalue="no", traceback=[])
    ),
    "stderr: careful": executed(stream("careful\n", "stderr")),
    "an output holds ✗": executed(stream("悪い ✗\n")),
    "injected parameters": tagged("injected-parameters"),
    "papermill's error banner": tagged("papermill-error-cell-tag"),
    "unknown tag 'raises-exception'": tagged("raises-exception"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_accept_refuses_all_or_nothing(reason: str, tmp_path: Path) -> None:
    good = committed(tmp_path, executed(stream("a\n")))
    bad = committed(tmp_path, REFUSED[reason], "02_x.ipynb")
    before = good.read_bytes(), bad.read_bytes()
    with pytest.raises(AcceptError, match=r"nothing was accepted") as caught:
        accept([good, bad], tmp_path / "out")
    assert reason in str(caught.value)
    assert "02_x.ipynb" in str(caught.value)
    assert (good.read_bytes(), bad.read_bytes()) == before


def test_accept_writes_nothing_when_a_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        committed(tmp_path, executed(stream("a\n")), f"0{i}_x.ipynb") for i in (1, 2)
    ]
    before = [p.read_bytes() for p in paths]
    write = Path.write_text

    def full(self: Path, *given: Any, **how: Any) -> int:
        if "02_x" in self.name:
            raise OSError("no space left")
        return write(self, *given, **how)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space left"):
        accept(paths, tmp_path / "out")
    assert [p.read_bytes() for p in paths] == before
    assert sorted(paths[0].parent.iterdir()) == paths


def test_accept_refuses_what_is_missing_or_stale(tmp_path: Path) -> None:
    path = committed(tmp_path, executed(result("1")))
    assert refusals(run.read(tmp_path / "out" / path.name), path) == []
    tagged = executed(result("1"))
    cell(tagged, "one").metadata["tags"] = ["exercise"]
    for stale in (executed(source="2"), tagged):
        (found,) = refusals(stale, path)
        assert "run it again" in found
    with pytest.raises(AcceptError, match="not executed"):
        accept([path], tmp_path / "nowhere")


def result(text: str) -> Any:
    made = new_output("execute_result", {"text/plain": text})
    made.execution_count = 1
    return made


# Experiments

LEGAL = {"n": 1, "lr": 0.1, "quick": False, "name": "a", "sizes": [1, 2]}


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (["n=3"], {"n": 3}),
        (["lr=0.5", "n=-1"], {"lr": 0.5, "n": -1}),
        (["lr=1"], {"lr": 1.0}),
        (["quick=True"], {"quick": True}),
        (["name=b=c"], {"name": "b=c"}),
        (["sizes=[3]"], {"sizes": [3]}),
        ([], {}),
    ],
)
def test_parameters_take_the_defaults_type(
    given: list[str], values: dict[str, Any]
) -> None:
    found = experiment.parse(given, LEGAL)
    assert found == values
    assert {k: type(v) for k, v in found.items()} == {k: type(LEGAL[k]) for k in values}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["m=3"], r"no parameter 'm'.*n=1 \(int\), lr=0.1 \(float\)"),
        (["n=0.5"], "not a value of type int"),
        (["n=True"], "not a value of type int"),
        (["n=abc"], "not a value of type int"),
        (["n="], "not a value of type int"),
        (["n=0,1"], "not a value of type int"),
        (["n={[]}"], "not a value of type int"),
        (["quick=1"], "not a value of type bool"),
        (["lr=fast"], "not a value of type float"),
        (["n=３"], "not a value of type int"),
        (["n=1e3"], "not a value of type int"),
        (["quick=true"], "not a value of type bool"),
        (["N=3"], "no parameter 'N'"),
        (["n =3"], "no parameter 'n '"),
        (["n"], "'n' is not name=value"),
        (["n=1", "n=2"], "given twice"),
    ],
)
def test_parameters_are_refused(given: list[str], message: str) -> None:
    with pytest.raises(experiment.ParameterError, match=message):
        experiment.parse(given, LEGAL)


def test_slugs_are_folder_names() -> None:
    assert experiment.slug({"n": 1, "lr": 0.1}) == "lr=0.1,n=1"
    assert experiment.slug({}) == "defaults"
    strange = [experiment.slug({"name": n}) for n in ("a/b", "a b", "x" * 300)]
    assert len(set(strange)) == 3
    assert all("/" not in s and len(s) < 120 for s in strange)


def book(tmp_path: Path) -> Path:
    """A committed, executed chapter with two parameters."""
    made = notebook(
        ("parameters", "n = 1\nquick = False", ["parameters"]),
        ("shown", "print(2 * n)"),
        ("fixed", "print('same')"),
        ("record", "from lmbook.repro import record\nrecord(twice=2 * n)"),
    )
    done = compare.clean(run.execute(made, tmp_path))
    return save(tmp_path / "01_x.ipynb", done)


def test_an_experiment_runs_once(tmp_path: Path) -> None:
    path, folder = book(tmp_path), tmp_path / "experiments"
    first = experiment.experiment(path, ["n=4"], folder, silent)
    assert first.output == folder / "01" / "n=4" / path.name
    assert (first.results, first.changed) == ({"twice": 8.0}, ["shown", "record"])
    written = first.output.stat().st_mtime_ns
    again = experiment.experiment(path, ["n=4"], folder, silent)
    assert again.was_there
    assert not first.was_there
    assert again.output.stat().st_mtime_ns == written
    same = experiment.experiment(path, ["n=1"], folder, silent)
    assert same.changed == []


def test_an_experiment_is_made_again_for_another_text(tmp_path: Path) -> None:
    path, folder = book(tmp_path), tmp_path / "experiments"
    experiment.experiment(path, ["n=4"], folder, silent)
    made = run.read(path)
    cell(made, "shown").source = "print(3 * n)"
    save(path, made)
    assert not experiment.experiment(path, ["n=4"], folder, silent).was_there


def test_an_experiment_that_fails_names_the_cell(tmp_path: Path) -> None:
    made = notebook(("parameters", "n = 1", ["parameters"]), ("check", "assert n < 5"))
    path = save(tmp_path / "01_x.ipynb", made)
    with pytest.raises(run.CellError, match="AssertionError") as caught:
        experiment.experiment(path, ["n=9"], tmp_path / "experiments", silent)
    assert caught.value.cell == "check"


def test_results_are_the_last_json_line() -> None:
    assert experiment.results_of(executed(stream('x\n{"a": 1}\n'))) == {"a": 1}
    assert experiment.results_of(executed(stream("3\nplain\n"))) == {}
    assert experiment.results_of(notebook()) == {}


# Sheets


def test_sheets_show_every_figure(tmp_path: Path) -> None:
    shades = range(0, 70, 10)
    made = executed(*(picture(png(shade, (750, 600))) for shade in shades))
    path = save(tmp_path / "01_x.ipynb", made)
    pages = sheet([path], tmp_path / "sheet")
    assert [p.name for p in pages] == ["page-01.png", "page-02.png"]
    singles = sorted(p.name for p in (tmp_path / "sheet").glob("01-*.png"))
    assert len(singles) == 7
    assert {"01-one.png", "01-one-7.png"} <= set(singles)
    with Image.open(pages[0]) as page:
        grey = np.asarray(page)[..., 0]
    assert grey.shape == (3 * 660, 2 * 780)
    assert grey[300, 300] == 0
    assert grey[300, 1100] == 10
    assert (grey[:36, :300] < 128).any()
    assert sheet([path], tmp_path / "sheet") == pages


def test_a_test_run_and_torch_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "test_torch.py").write_text(
        "import torch\ndef test(): torch.optim.Adam([torch.zeros(1)])\n", "utf-8"
    )
    (tmp_path / "empty").mkdir()
    run_tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ours = [f"--rootdir={tmp_path}", "--confcutdir=/", "-p", "conftest"]
    subprocess.run(
        [*run_tests, *ours, "test_torch.py"],
        cwd=tmp_path,
        env=os.environ
        | {
            "TMPDIR": str(tmp_path / "empty"),
            "PYTHONPATH": str(chapters.ROOT / "tests"),
        },
        capture_output=True,
        check=True,
    )
    assert not list((tmp_path / "empty").iterdir())


def test_nothing_outside_press_imports_press() -> None:
    for path in (chapters.ROOT / "src" / "lmbook").rglob("*.py"):
        if path.parent.name != "press":
            assert "lmbook.press" not in path.read_text(encoding="utf-8"), path


def test_a_command_starts_at_once() -> None:
    """Nothing heavy on the way to every command, and to every chapter's process."""
    code = "import sys; from lmbook.press import commands;"
    code += "print({'torch', 'matplotlib', 'lark', 'papermill'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "set()\n"


def test_importing_lmbook_is_light() -> None:
    code = "import sys, lmbook; print({'torch', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "set()\n"
