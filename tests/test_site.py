"""The reading site: built with and without answers, read as files and in a browser."""

import base64
import html
import io
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from fontTools.ttLib import TTFont
from helpers import cell, markdown, notebook, save
from nbformat.v4 import new_output
from PIL import Image

import lmbook
from lmbook import chapters, plots, repro
from lmbook.press import compare, editions, handouts, run, site, suite

CHAPTERS = chapters.every()
#: Planted in every answer, so that a search for it finds any answer.
SECRET = "himitsukotoba"


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The chapters with SECRET in each answer."""
    folder = tmp_path_factory.mktemp("planted")
    for path in CHAPTERS:
        content = run.read(path)
        for found in content.cells:
            if editions.solutions(found):
                marks = rf"\1\n\g<indent># {SECRET}"
                pattern = rf"^((?P<indent> *){editions.BEGIN})$"
                found.source = re.sub(pattern, marks, found.source, flags=re.MULTILINE)
            elif "answer" in editions.tags(found):
                found.source += f" {SECRET}"
        save(folder / path.name, content)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the site offers: the notebooks, and in place of each PDF a few bytes."""
    folder = tmp_path_factory.mktemp("printed")
    for path in CHAPTERS:
        pdf, notebook = (folder / name for name in site.student_files(path))
        pdf.write_bytes(path.stem.encode())
        made = handouts.student_notebook(run.read(path), path.name)
        notebook.write_text(compare.text_of(made), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def full(printed, planted, tmp_path_factory):
    """The self-learner's site."""
    place = tmp_path_factory.mktemp("full") / "site"
    return site.build(planted, place, printed=printed).parent


@pytest.fixture(scope="module")
def bare(printed, planted, tmp_path_factory):
    """The site without answers."""
    place = tmp_path_factory.mktemp("bare") / "site"
    return site.build(planted, place, printed=printed, answers=False).parent


class Page(HTMLParser):
    """Links, ids, pictures and visible text outside code of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.alts: list[str] = []
        self.labels: list[str] = []
        self.text: list[str] = []
        self.hidden = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.links += [found[k] for k in ("href", "src") if found.get(k)]
        self.ids |= {found["id"]} if "id" in found else set()
        self.alts += [found.get("alt", "")] if tag == "img" else []
        words = ("title", "aria-label", "placeholder")
        self.labels += [found[k] for k in words if found.get(k)]
        self.hidden += tag in ("pre", "code", "script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("pre", "code", "script", "style")

    def handle_data(self, data):
        if not self.hidden:
            self.text.append(data)


def pages(folder):
    return {path: Page(path) for path in folder.glob("*.html")}


def squeezed(text):
    return re.sub(r"\s+", "", text)


def visible(path):
    """The whole text of a page, code included."""
    raw = re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8"))
    return squeezed(html.unescape(raw))


def test_labels_are_japanese_and_the_version_is_on_every_page(full):
    for path, page in pages(full).items():
        assert len(page.labels) > 5
        assert f"v{lmbook.__version__}" in visible(path)
        assert not [label for label in page.labels if label.isascii()], path.name


def test_every_link_resolves(full):
    found = pages(full)
    assert {p.name for p in found} >= {"index.html", "glossary.html", "search.html"}
    for path, page in found.items():
        for link in page.links:
            target, anchor = urldefrag(link)
            if re.match(r"(https?:)?//", link):
                assert path.name == "index.html" or "sphinx" in link or "ebp" in link
                continue
            there = (path.parent / unquote(target).partition("?")[0]).resolve()
            there = path if not target else there
            assert there.is_file(), (path.name, link)
            if anchor and there.suffix == ".html" and path.name != "search.html":
                assert unquote(anchor) in found[there].ids, (path.name, link)


def test_every_picture_has_words(full):
    for path, page in pages(full).items():
        assert all(alt.strip() for alt in page.alts), path.name
    for path in CHAPTERS:
        text = (full / f"{path.stem}.html").read_text(encoding="utf-8")
        outputs = [o for c in run.read(path).cells for o in c.get("outputs", [])]
        for alt in filter(None, map(editions._alt, outputs)):
            assert html.escape(alt) in text


def test_no_markup_is_left_raw(full):
    for path, page in pages(full).items():
        text = "".join(page.text)
        for markup in (":::", "**", "](", "{admonition", "| ---", "```", "{chapters}"):
            assert markup not in text, (path.name, markup)


def test_the_landing_page(full):
    text = visible(full / "index.html")
    assert (full / "_static" / "overfit-figure.png").is_file()
    links = Page(full / "index.html").links
    for path in CHAPTERS:
        assert f"{path.stem}.html" in links
        assert any(link.endswith(f"{path.stem}_student.pdf") for link in links)
    assert "実行の時間" in text


def test_downloads_are_the_student_s_only(full, printed):
    given = [p for p in (full / "_downloads").rglob("*") if p.is_file()]
    wanted = {name for path in CHAPTERS for name in site.student_files(path)}
    assert {p.name for p in given} == wanted
    for path in given:
        assert path.read_bytes() == (printed / path.name).read_bytes()
    assert not list(full.rglob("*teacher*"))
    plans = [
        squeezed(c.source.split("\n")[0].strip("*"))
        for path in CHAPTERS
        for c in run.read(path).cells
        if "teacher" in editions.tags(c)
    ]
    for path in full.glob("*.html"):
        assert not any(plan in visible(path) for plan in plans)


@pytest.mark.parametrize(
    ("font", "whole"), [*zip(site.FONTS, plots.fonts(), strict=True)]
)
def test_every_character_is_in_the_fonts_that_come_along(full, font, whole):
    text = "".join(p.read_text(encoding="utf-8") for p in full.glob("*.html"))
    asked = {ord(c) for c in html.unescape(text) if not c.isascii()}
    known = set(TTFont(whole, lazy=True).getBestCmap())
    file = full / "_static" / font
    assert asked & known == asked & set(TTFont(file).getBestCmap())
    assert len(asked & known) > 500
    assert file.stat().st_size < 300_000
    assert f"url({font})" in (full / "_static" / "site.css").read_text("utf-8")


def test_mathjax_comes_with_its_licence(full):
    assert (full / "_static" / "tex-svg.js").stat().st_size > 1e6
    assert "Apache License" in (full / "_static/tex-svg.LICENSE.txt").read_text("utf-8")


def code(text):
    """Squeezed and less its comments, formulas and code bare of their marks."""
    return re.sub(r"\\[()]|[$`]", "", editions.squeezed(text))


def test_answers_are_folded_or_gone(full, bare):
    for path in CHAPTERS:
        source = run.read(path)
        hidden = [a for c in source.cells for a in editions.answers(c)]
        assert len(hidden) >= 3
        name = f"{path.stem}.html"
        raw = (full / name).read_text(encoding="utf-8")
        folds = "".join(re.findall(r"<details.*?</details>", raw, re.DOTALL))
        assert folds.count("解答例を見る") == sum(
            1 for c in source.cells if editions.solutions(c)
        )
        texts = {
            "folds": code(html.unescape(re.sub(r"<[^>]+>", "", folds))),
            "bare": code(
                html.unescape(re.sub(r"<[^>]+>", "", (bare / name).read_text("utf-8")))
            ),
        }
        for answer in hidden:
            assert code(answer) in texts["folds"], answer
            assert code(answer) not in texts["bare"], answer


def test_no_file_of_the_bare_site_holds_an_answer(full, bare):
    def holders(folder):
        files = [p for p in folder.rglob("*") if p.is_file()]
        return {p.name for p in files if SECRET.encode() in p.read_bytes()}

    assert holders(bare) == set()
    assert holders(full) == {"searchindex.js", *(f"{p.stem}.html" for p in CHAPTERS)}


def test_a_bad_page_is_refused_and_the_old_site_stays(tmp_path, printed):
    good = tmp_path / "site"
    good.mkdir()
    (good / "index.html").write_text("old", encoding="utf-8")
    made = notebook(markdown("title", "# 題\n\n[どこか](#nowhere)"))
    path = save(tmp_path / "01_x.ipynb", made)
    for name in site.student_files(path):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(site.SiteError, match="nowhere"):
        site.build([path], good, printed=tmp_path)
    assert (good / "index.html").read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".site")] == []


def test_the_old_site_comes_back_when_the_new_one_cannot_stand(tmp_path):
    (tmp_path / "site").mkdir()
    with pytest.raises(FileNotFoundError):
        site._replace(tmp_path / "site", tmp_path / "missing", tmp_path / "old")
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


#: What HTML, Markdown or TeX would take for its own.
HOSTILE = "<script>alert(1)</script> & &lt; $x$ *y* `z` \\\\ | [a](b) {m}`n` <b> \"'"


def test_what_a_corpus_holds_is_only_text_and_the_same_twice(tmp_path):
    table = repro.Table([HOSTILE], [[HOSTILE]]).text
    buffer = io.BytesIO()
    Image.new("L", (9, 9)).save(buffer, "PNG")
    png = base64.b64encode(buffer.getvalue()).decode("ascii")
    alt = {"image/png": {"alt": HOSTILE}}
    made = notebook(markdown("title", "# 題"), ("code", f"text = r{HOSTILE!r}"))
    cell(made, "code").outputs = [
        new_output("stream", name="stdout", text=HOSTILE),
        new_output("display_data", {"text/plain": HOSTILE}),
        new_output("display_data", {"text/markdown": table, "text/plain": table}),
        new_output("display_data", {"image/png": png}, metadata=alt),
    ]
    path = save(tmp_path / "01_x.ipynb", made)
    for name in site.student_files(path):
        (tmp_path / name).write_bytes(b"x")
    page = site.build([path], tmp_path / "site", printed=tmp_path).parent / "01_x.html"
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    assert visible(page).count(squeezed(HOSTILE)) == 4
    assert Page(page).alts == [HOSTILE]
    site.build([path], tmp_path / "again", printed=tmp_path)
    assert content(tmp_path / "again") == content(tmp_path / "site")


def content(folder):
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder): p.read_bytes() for p in files}


# In a browser


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if not chromium:
        if os.environ.get("CI") and suite.exact_platform():
            pytest.fail("chromium is missing")
        pytest.skip("needs chromium")
    with sync_playwright() as play:
        flags = ["--no-sandbox", "--disable-gpu"]
        started = play.chromium.launch(executable_path=chromium, args=flags)
        yield started
        started.close()


#: Text nodes outside code, as a reader sees them.
PROSE = """() => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node; (node = walk.nextNode());)
    if (!node.parentElement.closest('pre, code, script, style, mjx-container'))
      found.push(node.textContent);
  return found.join(' ');
}"""
CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => {
      v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const worst = {};
  for (const node of document.querySelectorAll(
    ['p', 'h2', 'td', 'pre span', 'summary'].map((x) => '.bd-article ' + x).join()
  )) {
    if (!node.innerText || !node.innerText.trim()) continue;
    const [a, b] = [getComputedStyle(node).color, ground(node)].map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = node.tagName + ' ' + node.className;
    worst[name] = Math.min(worst[name] ?? 99, ratio);
  }
  return worst;
}"""


#: Japanese letters of formulas that are no letters, or lie on each other.
SQUEEZED = """() => [...document.querySelectorAll('svg text[data-variant]')]
  .filter((text) => /[぀-鿿]/.test(text.textContent))
  .filter((text) => {
    const wide = 0.9 * parseFloat(text.getAttribute('font-size'));
    const [a, b] = [text, text.nextElementSibling || text].map((t) => t.getCTM());
    return text.getBBox().width < wide || (b.e > a.e && b.e - a.e < wide * a.a);
  }).length"""


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)]
)
def test_it_reads_from_a_stick(browser, full, scheme, width):  # C48
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page = context.new_page()
    asked, failed = [], []
    page.on("request", lambda r: asked.append(r.url))
    page.on("requestfailed", lambda r: failed.append(r.url))
    page.on("pageerror", lambda e: failed.append(str(e)))
    for name in ("index", "glossary", *(p.stem for p in CHAPTERS)):
        page.goto((full / f"{name}.html").as_uri())
        if name not in ("index", "glossary"):
            page.wait_for_selector("mjx-container svg", state="attached")
            page.wait_for_function("MathJax.startup.promise.then(() => true)")
            assert (
                page.locator("mjx-merror, mjx-container [data-mjx-error]").count() == 0
            )
            assert page.evaluate(SQUEEZED) == 0
        text = page.evaluate(PROSE)
        assert "$" not in text
        assert "\\(" not in text
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.documentElement.lang") == "ja"
        low = {k: v for k, v in page.evaluate(CONTRAST).items() if v < 4.5}
        assert not low, (name, low)
    assert asked
    assert [url for url in asked if not url.startswith("file:")] == []
    assert failed == []
    context.close()


def test_answers_open_and_search_finds(browser, full):
    page = browser.new_page()
    page.goto((full / f"{CHAPTERS[0].stem}.html").as_uri())
    fold = page.locator("details", has_text="解答例を見る").first
    answer = fold.locator("pre").first
    assert not answer.is_visible()
    fold.locator("summary").click()
    assert answer.is_visible()
    failed = []
    page.on("pageerror", lambda e: failed.append(str(e)))
    for word in ("勾配", "埋め込み", "因果平均", "causal_mean", "CurrentTokenLM"):
        page.goto((full / "search.html").as_uri() + f"?q={word}")
        page.wait_for_selector("#search-results li a", timeout=20_000)
        hits = page.locator("#search-results li a").all_inner_texts()
        assert any("第1章" in hit for hit in hits), word
    assert failed == []
    page.close()


def test_the_landing_page_lists_the_chapters_and_nothing_else() -> None:
    rows = site.chapter_table(chapters.every()).splitlines()
    assert len(rows) == 2 + len(chapters.every())
    assert "make lab" not in "\n".join(rows)
    for path in chapters.every():
        assert f"({path.name})" in "\n".join(rows)
