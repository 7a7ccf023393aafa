"""The doctor's looks at the kernel, at JupyterLab and at folders."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel

from lmbook.press import doctor


def sentences(look: Any, root: Path = Path()) -> str:
    return "\n".join(map(str, look(root)))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python", ""),
        (sys.executable, ""),
        ("/elsewhere/bin/python", "The kernel python3 is another Python (/elsewhere"),
        (None, "There is no kernel called python3."),
    ],
)
def test_the_kernel(
    command: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C35: a kernel of that name from somebody's other environment."""

    def spec(self: Any, name: str) -> KernelSpec:
        if command is None:
            raise NoSuchKernel(name)
        return KernelSpec(argv=[command, "-m", "ipykernel_launcher"])

    monkeypatch.setattr(KernelSpecManager, "get_kernel_spec", spec)
    found = list(doctor.kernel(Path()))
    assert len(found) == bool(said)
    assert all(
        f.sentence.startswith(said) and doctor.INSTALL in f.remedy for f in found
    )


def test_jupyterlab_is_whole_here() -> None:
    assert sentences(doctor.jupyterlab) == ""


def test_jupyterlab_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    config = tmp_path / "etc" / "jupyter" / "labconfig" / "page_config.json"
    config.parent.mkdir(parents=True)
    off = {"disabledExtensions": {doctor.SLIDERS: True, "other": True}}
    config.write_text(json.dumps(off), encoding="utf-8")
    found = list(doctor.jupyterlab(tmp_path))
    assert [f.sentence.partition(" ")[0] for f in found] == [
        *("JupyterLab", doctor.SLIDERS, "JupyterLab's", doctor.SLIDERS)
    ]
    assert found[-1].remedy == f"jupyter labextension enable {doctor.SLIDERS}"
    off["disabledExtensions"][doctor.SLIDERS] = False
    config.write_text(json.dumps(off), encoding="utf-8")
    assert len(list(doctor.jupyterlab(tmp_path))) == 3


def test_folders_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "desk").mkdir()
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    said = sentences(doctor.writable, tmp_path)
    assert f"{tmp_path / 'desk'} cannot be written to." in said
    assert str(tmp_path / "notebooks") not in said
