"""What stands outside the notebooks agrees with them."""

import base64
import re
import subprocess
import tomllib

import pytest

import lmbook
from lmbook import chapters
from lmbook.press import doctor, run

ROOT = chapters.ROOT
TEXTS = ["README.md", "README.ja.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def glossary():
    """term -> ways of saying it that are not used."""
    rows = re.findall(
        r"^\| (.+?) \| .+? \| .+? \| (.+?) \|$", read("site/glossary.md"), re.M
    )
    return {term: avoided.split("、") for term, avoided in rows[2:]}


def learner_texts():
    for path in chapters.every():
        for cell in run.read(path).cells:
            yield f"{path.name} {cell.id}", cell.source
    yield "README.ja.md", read("README.ja.md")


def test_one_term_per_concept():
    terms = glossary()
    assert len(terms) >= 15
    faults = [
        (place, word, term)
        for place, text in learner_texts()
        for term, avoided in terms.items()
        for word in avoided
        if word in text
    ]
    assert not faults


def test_one_version_number():
    project = tomllib.loads(read("pyproject.toml"))
    assert "version" in project["project"]["dynamic"]
    assert f"version: {lmbook.__version__}\n" in read("CITATION.cff")
    assert f"## [{lmbook.__version__}]" in read("CHANGELOG.md")


def test_readme_figure_is_the_chapter_s():
    cells = {c.id: c for c in run.read(chapters.path("01")).cells}
    png = cells["overfit-figure"].outputs[0].data["image/png"]
    committed = (ROOT / "site/overfit-figure.png").read_bytes()
    assert committed == base64.b64decode(png), "see CONTRIBUTING.md, Edit a cell"


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_to_files(name):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)\)", read(name)):
        assert (ROOT / target).exists(), target


def test_readme_lists_every_chapter():
    for path in chapters.every():
        for name in ("README.md", "README.ja.md"):
            assert f"(notebooks/{path.name})" in read(name)


def test_no_registry_is_named():
    hosts = re.compile(
        r"pypi\.org|pythonhosted|download\.pytorch|index-url|anaconda\.org"
    )
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, check=True
    )
    for name in done.stdout.decode().splitlines():
        if name != "tests/test_docs.py" and (ROOT / name).is_file():
            text = (ROOT / name).read_bytes().decode(errors="replace")
            assert not hosts.search(text), name


def test_every_requirement_is_locked_within_its_bounds():
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts = project["project"]
    extras = [x for extra in parts["optional-dependencies"].values() for x in extra]
    locked = {
        re.sub("[-_.]+", "-", name).lower(): version
        for name, version in doctor.locked(ROOT).items()
    }
    for text in [*parts["dependencies"], *extras]:
        wanted = Requirement(text)
        name = re.sub("[-_.]+", "-", wanted.name).lower()
        assert wanted.specifier.contains(locked[name]), text


def test_names_of_files_hold_on_every_system():
    """Windows has reserved names and characters, and one case for both."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a clone")
    names = listed.stdout.decode("utf-8").split("\0")[:-1]
    assert len({name.lower() for name in names}) == len(names) > 50
    for name in names:
        for part in name.split("/"):
            assert re.fullmatch(r"[A-Za-z0-9._-]*[A-Za-z0-9_-]", part), name
            assert not re.fullmatch(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?", part)
        assert len(name) < 100


def test_lock_has_plain_versions():
    lines = read("requirements.lock").split()
    assert len(lines) > 100
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
