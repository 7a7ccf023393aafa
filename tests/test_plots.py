"""Figures: what is drawn, that it is drawn twice alike, and that it says so itself.

The description is held against the values that were given; the drawing against the
axes, images and ticks of the figure, and against its pixels.
"""

from __future__ import annotations

import functools
import inspect
import io
import math
import re
import subprocess
import sys
import zlib
from collections import deque
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from fontTools.ttLib import TTFont
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from lmbook import plots
from lmbook.repro import fmt

ALT = "図の説明です。"
NAN, INF = math.nan, math.inf
ANNA = ["<BOS>", "a", "n", "n", "a"]
WEIGHTS = [[1.0], [0.5, 0.5], [0.2, 0.3, 0.5]]


def heat(**changed):
    made = {"values": [[0.1, 0.9], [0.6, 0.4]], "title": "重み", "rows": ["契約", "が"]}
    made |= {"columns": ["a", "b"], "xlabel": "列", "ylabel": "行", "alt": ALT}
    made |= changed
    return plots.heatmap(made.pop("values"), **made)


def several(**changed):
    made = {"matrices": {"一": [[1, 0], [0, 1]], "二": [[0.5, 0.5], [0.4, 0.6]]}}
    made |= {"rows": ["あ", "い"], "columns": ["う", "え"], "alt": ALT}
    made |= changed
    return plots.panels(made.pop("matrices"), **made)


def cosine(**changed):
    made = {"vectors": [[1, 0], [1, 1], [0, 2]], "labels": ["犬", "猫", "桃"]}
    made |= {"title": "向き", "alt": ALT}
    made |= changed
    made["rows"] = made["columns"] = made.pop("labels")
    return plots.heatmap(plots.cosines(made.pop("vectors")), scale="cosine", **made)


def lines(**changed):
    made = {"lines": {"学習": [3.0, 2.0, 1.5], "検証": ([0, 2], [3.1, 2.2])}}
    made |= {"title": "損失", "xlabel": "回", "ylabel": "nat", "alt": ALT}
    made |= {"floors": {"下限": 1.25}, "marks": {"交点": 1}}
    made |= {"bands": {"学習": ([2.0, 1.0, 1.0], [4.0, 3.0, 2.0])}}
    made |= changed
    return plots.curves(made.pop("lines"), **made)


def losses(**changed):
    made = {"losses": {"ADD": [3.0, 2.0, 1.0]}, "title": "損失", "alt": ALT}
    made |= {"floors": {"log V": math.log(12)}}
    made |= changed
    return plots.loss_curves(made.pop("losses"), **made)


def barred(**changed):
    made = {"groups": {"前": [1.0, 2.0, 3.0], "後": [0.5, -0.5, 2.5]}}
    made |= {"labels": ["a", "n", "a"], "title": "棒", "ylabel": "割合", "alt": ALT}
    made |= {"floors": {"基準": 1.0}}
    made |= changed
    return plots.bars(made.pop("groups"), made.pop("labels"), **made)


def flow(**changed):
    made = {"boxes": {"a": "入力\nx", "b": "足す", "c": "出力"}, "title": "流れ"}
    made |= {"arrows": [("a", "b"), ("b", "c"), ("a", "c")], "alt": ALT}
    made |= changed
    return plots.diagram(made.pop("boxes"), made.pop("arrows"), **made)


KINDS = (heat, several, cosine, lines, losses, barred, flow)
DRAWN = {f.__name__: f for f in KINDS}
every_kind = pytest.mark.parametrize("kind", DRAWN)
undrawn = pytest.mark.usefixtures("no_pixels")


@pytest.fixture
def no_pixels(monkeypatch):
    """Build figures without drawing them, which takes most of the time."""
    monkeypatch.setattr(plots.Picture, "savefig", lambda *_, **__: None)


@functools.cache
def plain(kind):
    """The picture of a kind as it is; not to be changed."""
    return DRAWN[kind]()


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture.png)))


def chunks(png):
    """The chunks of a PNG, by type."""
    found, at = [], 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        found.append((png[at + 4 : at + 8].decode(), png[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def maps(picture):
    """The axes that hold a matrix, without the colour bar."""
    return [ax for ax in picture.axes if ax.get_images()]


def ticks(axis):
    return [t.get_text() for t in axis.get_ticklabels()]


# The picture


@every_kind
def test_png_has_its_size_and_no_software_text(kind):
    picture = plain(kind)
    assert picture.png.startswith(b"\x89PNG\r\n\x1a\n")
    parts = chunks(picture.png)
    header = dict(parts)["IHDR"]
    size = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    assert size[0] == (510 if kind == "flow" else 750)
    assert 250 <= size[1] <= 600
    assert size == tuple(round(150 * s) for s in picture.get_size_inches())
    per_metre = int.from_bytes(dict(parts)["pHYs"][:4], "big")
    assert round(per_metre * 0.0254) == 150
    assert {name for name, _ in parts} == {"IHDR", "pHYs", "IDAT", "IEND"}
    assert pixels(picture).std() > 10  # something stands on it


def test_software_text_would_be_seen():
    buffer = io.BytesIO()
    Figure().savefig(buffer, format="png")
    assert "tEXt" in {name for name, _ in chunks(buffer.getvalue())}


@every_kind
def test_two_drawings_are_the_same(kind):
    with mpl.rc_context():
        mpl.rcParams["font.size"] = 20  # a reader's own settings
        mpl.rcParams["lines.linewidth"] = 5
        mpl.rcParams["axes.grid"] = True
        other = DRAWN[kind]()
    assert other.png == plain(kind).png
    assert other.description == plain(kind).description


def test_two_processes_draw_the_same():
    kinds = ("several", "lines", "barred")
    code = [
        "import math, zlib",
        "from lmbook import plots",
        f"ALT = {ALT!r}",
        *(inspect.getsource(DRAWN[kind]) for kind in kinds),
        f"print([zlib.crc32(f().png) for f in ({', '.join(kinds)})])",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.strip() == str([zlib.crc32(plain(k).png) for k in kinds])


@every_kind
@pytest.mark.parametrize("alt", ["", "  \n", None, 3])
def test_empty_alt_is_refused(kind, alt):
    with pytest.raises(ValueError, match="alt には図の説明を1文で") as caught:
        DRAWN[kind](alt=alt)
    assert repr(alt) in str(caught.value)


def test_alt_must_be_given():
    with pytest.raises(TypeError, match="alt"):
        plots.heatmap([[1.0]])
    with pytest.raises(TypeError, match="alt"):
        plots.bars({"a": [1]}, ["x"])


@every_kind
def test_notebook_gets_picture_alt_and_description(kind):
    picture = plain(kind)
    data, metadata = picture._repr_mimebundle_(include=None, exclude=None)
    assert data == {"image/png": picture.png, "text/plain": picture.description}
    assert metadata == {"image/png": {"alt": ALT}}
    assert picture.description == plots.describe(picture)


@undrawn
def test_alt_is_trimmed():
    assert heat(alt=f" {ALT}\n").alt == ALT


def test_ipython_shows_exactly_that():
    from IPython.core.formatters import DisplayFormatter

    picture = plain("heat")
    data, metadata = DisplayFormatter().format(picture)
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == picture.description
    assert metadata["image/png"] == {"alt": ALT}


@undrawn
def test_pyplot_knows_no_figure_of_ours():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    for draw in DRAWN.values():
        draw()
    assert plt.get_fignums() == before


def test_settings_of_the_process_are_left_alone():
    before = dict(mpl.rcParams)
    barred()
    assert dict(mpl.rcParams) == before


# Fonts


@pytest.mark.parametrize("weight", ["regular", "bold"])
def test_the_font_holds_what_the_course_writes(weight):
    module = __import__(f"noto_cjk_sans_jp_{weight}")
    font = TTFont(str(module.FONT_PATH))
    assert font["name"].getDebugName(1).startswith("Noto Sans CJK JP")
    held = font.getBestCmap()
    text = "契約合同違約金违约金硯箱过风险高すぎるカタカナ、。「」▁▂▃▄▅▆▇█√±①≤×🄐"
    text += "αβγΣ−→…％（）｜"
    missing = {c for c in text if ord(c) not in held}
    assert missing <= {"🄐"}  # outside of the course, to see that a gap shows


@pytest.mark.parametrize(
    "text", ["合同 违约金 風 过 险", "▁▂▃▄▅▆▇█", "QKᵀ", "𠮷", "√d_h ≤ ±1 −1", "<BOS>"]
)
def test_labels_without_a_gap(text):
    picture = heat(title=text, rows=[text, "a"])  # a gap would be an error
    assert text in picture.description


@pytest.mark.parametrize(
    ("kind", "character"),
    [*((kind, "\ue000") for kind in DRAWN), ("heat", "🫠"), ("barred", "\t")],
)
def test_missing_glyph_is_an_error(kind, character):
    where = "title" if kind != "several" else "rows"
    value = f"語{character}" if where == "title" else [f"語{character}", "a"]
    with pytest.raises(ValueError, match="図に書けない文字") as caught:
        DRAWN[kind](**{where: value})
    assert repr(character) in str(caught.value)
    assert f"U+{ord(character):04X}" in str(caught.value)


def test_dollar_signs_stand_as_they_are():
    """Set as mathematics, the title would be an error."""
    picture = barred(labels=["$x^2$", "$", "\\alpha"], title="$\\nosuch$")
    assert "[$x^2$ $ \\alpha]" in picture.description
    assert picture.description.startswith("図: $\\nosuch$ |")


def test_a_font_of_the_machine_does_not_come_first(tmp_path):
    """Another copy of the family, known before ours, is passed over."""
    import noto_cjk_sans_jp_regular as ours

    copy = tmp_path / "Copy.otf"
    copy.write_bytes(Path(ours.FONT_PATH).read_bytes())
    code = (
        "from matplotlib import font_manager as f; from lmbook import plots;"
        f"f.fontManager.addfont({str(copy)!r}); plots.register_fonts();"
        "print(f.findfont(f.FontProperties(family=plots.FAMILY)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout.strip() == str(ours.FONT_PATH)


def test_bare_figures_find_the_family():
    from matplotlib import font_manager

    plots.register_fonts()
    count = len(font_manager.fontManager.ttflist)
    plots.register_fonts()
    assert len(font_manager.fontManager.ttflist) == count
    for weight, name in (("normal", "regular"), ("bold", "bold")):
        found = font_manager.findfont(
            font_manager.FontProperties(family=plots.FAMILY, weight=weight),
            fallback_to_default=False,
        )
        module = __import__(f"noto_cjk_sans_jp_{name}")
        assert found == str(module.FONT_PATH)


# The description


@undrawn
def test_description_of_a_map():
    assert heat(values=WEIGHTS, rows=list("あいう"), columns=None).description == (
        "図: 重み | 横 列 | 縦 行[あ い う]\n"
        "  地図 Blues 0.00..1.00: [[1.0000, ×, ×], [0.5000, 0.5000, ×],"
        " [0.2000, 0.3000, 0.5000]]"
    )


@undrawn
def test_description_of_curves():
    assert lines().description == (
        "図: 損失 | 横 回 | 縦 nat\n"
        "  線「学習」#0072b2 - 太さ 1.6: [3.0000, 2.0000, 1.5000]\n"
        "  線「検証」#d55e00 -- 太さ 1.6: x=[0.0000, 2.0000] y=[3.1000, 2.2000]\n"
        "  線「下限 = 1.2500」#0072b2 : 太さ 1.3: [1.2500, 1.2500]\n"
        "  線「交点 1」#666666 : 太さ 1.0: x=[1.0000, 1.0000] y=[0.0000, 1.0000]\n"
        "  帯「学習」: 下 [2.0000, 1.0000, 1.0000] 上 [4.0000, 3.0000, 2.0000]\n"
        "  凡例: 学習、検証、下限 = 1.2500、交点 1"
    )


@undrawn
def test_description_of_bars():
    assert barred().description == (
        "図: 棒 | 横 [a n a] | 縦 割合\n"
        "  線「基準 = 1.0000」#0072b2 : 太さ 1.3: [1.0000, 1.0000]\n"
        "  棒「前」#3b6ea5: [1.0000, 2.0000, 3.0000]\n"
        "  棒「後」#e9a87c: [0.5000, -0.5000, 2.5000]\n"
        "  凡例: 基準 = 1.0000、前、後"
    )


@undrawn
def test_description_of_lying_bars():
    given = {"labels": ["a b\n消した", "n", "a"], "ylog": True, "xlabel": "段"}
    assert barred(**given, horizontal=True).description == (
        "図: 棒 | 横 割合（対数） | 縦 段[a b 消した、n、a]\n"
        "  線「基準 1」#666666 : 太さ 1.0: x=[1.0000, 1.0000] y=[0.0000, 1.0000]\n"
        "  棒「前」#3b6ea5: [1.0000, 2.0000, 3.0000]\n"
        "  棒「後」#e9a87c: [0.5000, -0.5000, 2.5000]\n"
        "  凡例: 基準 1、前、後"
    )


@undrawn
def test_lying_bars_go_down_from_the_first_label():
    ax = plots.bars(
        {"前": [10.0, 1000.0], "後": [20.0, 5.0]},
        ["初", "次"],
        alt=ALT,
        ylog=True,
        horizontal=True,
        digits=0,
    ).axes[0]
    assert ax.get_xscale() == "log"
    assert ax.get_yscale() == "linear"
    down = sorted(ax.patches, key=lambda p: p.get_y())
    assert [p.get_width() for p in down] == [10.0, 20.0, 1000.0, 5.0]
    assert ticks(ax.yaxis) == ["初", "次"]
    assert ax.yaxis_inverted()
    assert [t.get_text() for t in ax.texts] == ["10", "1000", "20", "5"]


def test_long_labels_of_lying_bars_are_inside_the_picture():
    labels = [f"{n} 名前ごとの呼び出し\n三十二個で一回" for n in range(8)]
    picture = plots.bars(
        {"a": [10.0**n for n in range(8)]},
        labels,
        alt=ALT,
        title="図",
        ylog=True,
        horizontal=True,
    )
    ax = picture.axes[0]
    boxes = [t.get_window_extent() for t in (*ax.get_yticklabels(), *ax.texts)]
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= picture.bbox.width
    named = boxes[:8]
    assert all(a.y0 > b.y1 for a, b in pairwise(named))
    assert "1e+" not in "".join(ticks(ax.xaxis))


@undrawn
def test_description_of_panels_and_log_axes():
    assert several().description == (
        "図1: 一 | 横 [う え] | 縦 [あ い]\n"
        "  地図 Blues 0.00..1.00: [[1.0000, 0.0000], [0.0000, 1.0000]]\n"
        "図2: 二 | 横 [う え] | 縦 -\n"
        "  地図 Blues 0.00..1.00: [[0.5000, 0.5000], [0.4000, 0.6000]]"
    )
    text = lines(xlog=True, ylog=True, lines={"学習": ([16.5, 64], [1, 5])}, bands=None)
    assert text.description.startswith("図: 損失 | 横 回（対数） | 縦 nat（対数）\n")


@undrawn
def test_description_of_a_diagram():
    assert flow().description == (
        "図: 流れ | 横 - | 縦 -\n  箱: 入力 x、足す、出力\n  矢印: a→b、b→c、a→c"
    )


@undrawn
@pytest.mark.parametrize("across", [False, True])
def test_boxes_stand_after_all_that_point_at_them(across):
    boxes = dict.fromkeys("dcbae", "箱")
    arrows = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("e", "d")]
    (ax,) = flow(boxes=boxes, arrows=arrows, across=across).axes
    at = {t.get_gid(): t.get_position() for t in ax.texts if t.get_text()}
    assert len(set(at.values())) == 5
    for start, end in arrows:
        (x0, y0), (x1, y1) = at[start], at[end]
        assert x1 > x0 if across else y1 < y0
    low, high = sorted(ax.get_xlim())
    assert all(low < x < high for x, _ in at.values())


@undrawn
def test_wrong_arrows_are_refused():
    with pytest.raises(ValueError, match="boxes が空です"):
        flow(boxes={}, arrows=[])
    with pytest.raises(ValueError, match="矢印の端 'z' という箱がありません"):
        flow(arrows=[("a", "z")])
    for arrows in ([("a", "b"), ("b", "a")], [("a", "a")]):
        with pytest.raises(ValueError, match="矢印が輪になっています"):
            flow(arrows=arrows)
    for arrow in (("a",), ("a", "b", "c")):
        with pytest.raises(ValueError, match="矢印は 2 つの箱の組です"):
            flow(arrows=[arrow])
    for text in ("", " ", None, 5):
        with pytest.raises(ValueError, match=f"箱 'b' に文字がありません.*{text!r}"):
            flow(boxes={"a": "x", "b": text, "c": "y"})


@undrawn
def test_arrows_may_come_one_by_one():
    arrows = [("a", "b"), ("b", "c"), ("a", "c")]
    assert flow(arrows=iter(arrows)).description == flow(arrows=arrows).description


def test_description_of_a_scatter():
    ax = (figure := Figure()).subplots()
    ax.scatter([1, 2], [3, 4], label="語")
    assert plots.describe(figure) == (
        "図: (無題) | 横 - | 縦 -\n  点「語」: [[1.0000, 3.0000], [2.0000, 4.0000]]"
    )


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("heat", {"values": [[0.1, 0.9], [0.6, 0.4001]]}),
        ("heat", {"values": [[0.1, NAN], [0.6, 0.4]]}),
        ("heat", {"title": "重さ"}),
        ("heat", {"rows": ["契約", "を"]}),
        ("heat", {"rows": ["0", "1"]}),
        ("heat", {"rows": ["16", "32"]}),
        ("heat", {"columns": ["b", "a"]}),
        ("heat", {"xlabel": "行"}),
        ("heat", {"ylabel": ""}),
        ("heat", {"scale": "cosine"}),
        ("heat", {"causal": True}),
        ("several", {"matrices": {"一": [[1, 0], [0, 1]], "三": [[0.5] * 2] * 2}}),
        ("cosine", {"vectors": [[1, 0], [1, 1], [0.1, 2]]}),
        ("cosine", {"labels": ["犬", "猫", "梨"]}),
        ("lines", {"lines": {"学習": [3.0, 2.0, 1.5], "検証": ([0, 2], [3.1, 2.3])}}),
        ("lines", {"lines": {"学習": [3.0, 2.0, 1.5], "検証": ([0, 1], [3.1, 2.2])}}),
        ("lines", {"lines": {"学習": [3.0, 2.0, 1.5], "試験": ([0, 2], [3.1, 2.2])}}),
        ("lines", {"floors": {"下限": 1.2501}}),
        ("lines", {"floors": {"床": 1.25}}),
        ("lines", {"floors": None}),
        ("lines", {"marks": {"交点": 2}}),
        ("lines", {"bands": {"学習": ([2.0, 1.0, 1.0], [4.0, 3.0, 2.1])}}),
        ("lines", {"bands": {"検証": ([2.0, 1.0], [4.0, 3.0])}}),
        ("lines", {"xlog": True}),
        ("lines", {"ylog": True}),
        ("losses", {"losses": {"ADD": [3.0, 2.0, 1.0001]}}),
        ("losses", {"ylabel": "損失"}),
        ("losses", {"ylog": True}),
        ("barred", {"groups": {"前": [1.0, 2.0, 3.0], "後": [0.5, -0.5, 2.6]}}),
        ("barred", {"labels": ["a", "n", "n"]}),
        ("barred", {"labels": ["1", "2", "4"]}),
        ("barred", {"floors": {"基準": 1.5}}),
        ("barred", {"title": ""}),
        ("barred", {"ylog": True}),
        ("flow", {"boxes": {"a": "入力\ny", "b": "足す", "c": "出力"}}),
        ("flow", {"arrows": [("a", "b"), ("b", "c")]}),
        ("flow", {"title": "図"}),
    ],
)
@undrawn
def test_description_changes_with_what_is_shown(kind, changed):
    assert DRAWN[kind](**changed).description != DRAWN[kind]().description


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("heat", {"values": [[0.1, 0.9], [0.6, 0.45]], "numbers": False}),
        ("heat", {"values": [[0.1, NAN], [0.6, 0.4]]}),
        ("lines", {"floors": {"下限": 1.4}}),
        ("lines", {"bands": None}),
        ("barred", {"labels": ["a", "n", "n"]}),
    ],
)
def test_picture_changes_with_what_is_shown(kind, changed):
    other = pixels(DRAWN[kind](**changed))
    same = {k: v for k, v in changed.items() if k == "numbers"}
    before = pixels(DRAWN[kind](**same) if same else plain(kind))
    assert other.shape == before.shape
    assert (np.abs(other.astype(int) - before) > 8).any()


@undrawn
def test_description_follows_colours_widths_and_the_legend():
    for change in (
        lambda ax: ax.get_lines()[0].set_color("#d55e01"),
        lambda ax: ax.get_lines()[1].set_linestyle("-"),
        lambda ax: ax.get_lines()[1].set_linewidth(1.5),
        lambda ax: ax.get_legend().get_texts()[0].set_text("他"),
        lambda ax: ax.get_legend().remove(),
        lambda ax: ax.get_lines()[2].remove(),
    ):
        picture = lines()
        change(picture.axes[0])
        assert plots.describe(picture) != picture.description
    picture = barred()
    picture.axes[0].containers[0].patches[0].set_facecolor("#3b6ea6")
    assert plots.describe(picture) != picture.description
    for change in (
        lambda image: image.set_cmap("viridis"),
        lambda image: image.set_clim(0, 0.9),
    ):
        picture = heat()
        change(picture.axes[0].get_images()[0])
        assert plots.describe(picture) != picture.description


@undrawn
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.lists(st.floats(0, 1) | st.just(NAN), min_size=3, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_description_holds_the_numbers_that_were_given(rows):
    (line,) = plots.heatmap(rows, alt=ALT).description.split("\n")[1:]
    _, _, text = line.partition(": ")
    shown = [part.split(", ") for part in text.strip("[]").split("], [")]
    given_ = [["×" if math.isnan(v) else fmt(v) for v in row] for row in rows]
    assert shown == given_


@undrawn
def test_long_arrays_are_described_by_shape_extremes_and_ends():
    line = plots.curves({"a": [*range(64), 0.5]}, alt=ALT).description.split("\n")[1]
    assert line.endswith(": 形 65 最小 0.0000 最大 63.0000 端 0.0000 0.5000")
    line = plots.curves({"a": list(range(64))}, alt=ALT).description.split("\n")[1]
    assert line.endswith(", 63.0000]")
    big = torch.arange(90.0).view(9, 10) / 100
    big[8, 9] = NAN
    line = plots.heatmap(big, alt=ALT).description.split("\n")[1]
    assert line.endswith(": 形 9x10 最小 0.0000 最大 0.8800 端 0.0000 ×")


@undrawn
@pytest.mark.parametrize("count", [6, 7, 12])
def test_at_most_twelve_lines(count):
    many = {f"図{i}": [[i / 20]] for i in range(count)}
    text = plots.panels(many, alt=ALT).description
    assert text.count("\n") <= 11
    assert text.startswith("図1: 図0")
    assert all(f"図{i}" in text for i in range(count))
    assert ("ほか:" in text) == (count > 6)


@undrawn
def test_newlines_in_labels_do_not_break_the_lines():
    picture = barred(title="一\n二", labels=["a\nb", "\n", "c"], xlabel="x\ny")
    assert picture.description.count("\n") == barred().description.count("\n")
    assert picture.description.startswith("図: 一 二 | 横 x y[a b、 、c] |")


# Labels


@undrawn
def test_repeated_labels_are_kept_in_order():
    picture = plots.heatmap(torch.eye(5), alt=ALT, rows=ANNA, columns=ANNA)
    (ax,) = maps(picture)
    assert ticks(ax.xaxis) == ticks(ax.yaxis) == ANNA
    assert list(ax.get_xticks()) == list(ax.get_yticks()) == [0, 1, 2, 3, 4]
    assert ax.get_images()[0].get_array().shape == (5, 5)
    assert ax.yaxis_inverted()  # row 0 on top, as the sentence is read
    assert "横 [<BOS> a n n a] | 縦 [<BOS> a n n a]" in picture.description


@undrawn
def test_bars_with_equal_labels_stay_apart():
    picture = plots.bars({"重み": [1, 2, 3], "他": [3, 2, 1]}, ["a", "a", "a"], alt=ALT)
    ax = picture.axes[0]
    spans = sorted((p.get_x(), p.get_x() + p.get_width()) for p in ax.patches)
    assert len(spans) == 6
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert ticks(ax.xaxis) == ["a", "a", "a"]
    for i, tick in enumerate(ax.get_xticks()):
        assert spans[2 * i][0] < tick < spans[2 * i + 1][1]


@undrawn
@pytest.mark.parametrize("wrong", [[], ["a"], ["a", "b", "c"]])
@pytest.mark.parametrize("name", ["rows", "columns"])
def test_wrong_label_count_of_a_map(name, wrong):
    with pytest.raises(
        ValueError, match=rf"{name} は 2 個必要です（受け取った数: {len(wrong)}）"
    ):
        heat(**{name: wrong})


@undrawn
def test_whole_name_with_a_matrix_cut_at_the_block():
    with pytest.raises(ValueError, match="rows は 3 個必要です（受け取った数: 5）"):
        plots.heatmap(WEIGHTS, alt=ALT, rows=ANNA, columns=ANNA)


@undrawn
@pytest.mark.parametrize("wrong", [[], ["a", "b"], list("abcd")])
def test_wrong_label_count_of_bars(wrong):
    with pytest.raises(ValueError, match="labels は 3 個必要です"):
        barred(labels=wrong)


@undrawn
def test_groups_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="labels は 2 個必要です（受け取った数: 3）"):
        barred(groups={"前": [1, 2, 3], "後": [1, 2]})


@undrawn
@pytest.mark.parametrize(
    "labels", ["an", np.array(["a", "n"]), {"a": 1, "n": 2}, iter(["a", "n"])]
)
def test_labels_may_be_anything_in_order(labels):
    assert "縦 [a n]" in plots.heatmap(np.eye(2), alt=ALT, rows=labels).description


@undrawn
def test_labels_of_numbers_and_other_labels():
    ids = torch.tensor([26, 0])
    assert "縦 [26 0]" in plots.heatmap(np.eye(2), alt=ALT, rows=ids).description
    bars = plots.bars({"a": [1, 2], "b": [2, 1]}, (c for c in "xy"), alt=ALT)
    assert "横 [x y]" in bars.description
    with pytest.raises(TypeError, match=r"rows は名前の並びです（受け取った値: 5）"):
        plots.heatmap(np.eye(2), alt=ALT, rows=5)


def test_labels_without_room_for_the_figure_are_refused():
    long = ["長い名前" * 60, "b"]
    with pytest.raises(ValueError, match="ラベルが長すぎて"):
        plots.heatmap(np.eye(2), alt=ALT, rows=long, columns=long)


@undrawn
def test_series_that_begin_with_an_underscore_stand_in_the_legend():
    both = {"_": [1.0, 2.0], "b": [2.0, 1.0]}
    text = plots.curves(both, alt=ALT, floors={"_f": 1.0}).description
    assert text.endswith("凡例: _、b、_f = 1.0000")
    text = plots.bars(both, ["_x", "$y$"], alt=ALT, floors={"_f": 1.0}).description
    assert text.endswith("凡例: _f = 1.0000、_、b")


@undrawn
def test_one_token():
    picture = plots.heatmap([[1.0]], alt=ALT, rows=["<BOS>"], columns=["<BOS>"])
    (ax,) = maps(picture)
    assert ticks(ax.xaxis) == ["<BOS>"]
    assert picture.description.endswith("[[1.0000]]")
    assert plots.bars({"a": [1]}, ["b"], alt=ALT).description.endswith("[1.0000]")
    assert plots.curves({"a": [1]}, alt=ALT).description.endswith("[1.0000]")


@undrawn
def test_sixty_four_tokens():
    labels = [f"{'abcdefgh'[i % 8]}" for i in range(64)]
    picture = plots.heatmap(
        torch.ones(64, 64) / 64, alt=ALT, rows=labels, columns=labels, causal=True
    )
    (ax,) = maps(picture)
    places = [int(p) for p in ax.get_xticks()]
    assert places == list(range(0, 64, 3))  # thinned, so that they can be read
    assert ticks(ax.xaxis) == ticks(ax.yaxis) == [labels[i] for i in places]
    assert np.ma.getmaskarray(ax.get_images()[0].get_array()).sum() == 64 * 63 / 2
    assert not ax.texts


@undrawn
def test_outer_panels_carry_the_labels():
    picture = several(
        matrices={str(i): [[0.1, 0.2], [0.3, 0.4]] for i in range(5)},
        xlabel="入力",
        ylabel="出力",
        per_row=2,
    )
    axes = maps(picture)
    assert [bool(ticks(ax.yaxis)) for ax in axes] == [True, False, True, False, True]
    assert [ax.get_ylabel() for ax in axes] == ["出力", "", "出力", "", "出力"]
    assert [bool(ticks(ax.xaxis)) for ax in axes] == [False, False, False, True, True]
    assert [ax.get_xlabel() for ax in axes] == ["", "", "", "入力", "入力"]
    assert [ax.get_title() for ax in axes] == list("01234")
    assert len(picture.axes) == 6  # five maps and one bar


# Values


@undrawn
@pytest.mark.parametrize(
    "values",
    [
        WEIGHTS,
        [tuple(row) for row in WEIGHTS],
        [torch.tensor(row, requires_grad=True) for row in WEIGHTS],
        [[torch.tensor(v, requires_grad=True) for v in row] for row in WEIGHTS],
        torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], requires_grad=True),
        np.array([[1, NAN, NAN], [0.5, 0.5, NAN], [0.2, 0.3, 0.5]]),
        torch.tensor([[1, 9, 9], [0.5, 0.5, 9], [0.2, 0.3, 0.5]]),
        [[1, -INF, -INF], [0.5, 0.5, INF], [0.2, 0.3, 0.5]],
        deque(WEIGHTS),
    ],
)
def test_the_upper_triangle_is_not_allowed_and_not_zero(values):
    picture = plots.heatmap(values, alt=ALT, causal=True)
    (ax,) = maps(picture)
    shown = ax.get_images()[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown), np.triu(np.ones((3, 3)), 1) > 0)
    numbers = [t.get_text() for t in ax.texts]
    assert numbers == ["1.00", "0.50", "0.50", "0.20", "0.30", "0.50"]
    (hatched,) = ax.patches
    corners = hatched.get_path().to_polygons()
    assert sorted(tuple(np.mean(c[:4], axis=0)) for c in corners) == [
        (1, 0),
        (2, 0),
        (2, 1),
    ]
    assert "[[1.0000, ×, ×], [0.5000, 0.5000, ×]" in picture.description
    zero = plots.heatmap([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], alt=ALT)
    assert not maps(zero)[0].patches


@undrawn
def test_infinite_scores_are_not_allowed_either():
    picture = plots.heatmap([[1, -INF], [INF, 0.5]], alt=ALT, scale="signed")
    (ax,) = maps(picture)
    assert [t.get_text() for t in ax.texts] == ["1.00", "0.50"]
    assert len(ax.patches[0].get_path().to_polygons()) == 2
    assert picture.description.endswith("-1.00..1.00: [[1.0000, ×], [×, 0.5000]]")


@undrawn
def test_values_given_are_not_written_on():
    given_ = np.ones((3, 3))
    plots.heatmap(given_, alt=ALT, causal=True)
    assert given_.sum() == 9


@undrawn
def test_bfloat16_and_integers():
    half = torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16, requires_grad=True)
    assert plots.heatmap(half, alt=ALT).description.endswith("[[0.5000, 0.2500]]")
    assert plots.heatmap([[1, 0]], alt=ALT).description.endswith("[[1.0000, 0.0000]]")
    ones = torch.tensor([2.0, 1.0], dtype=torch.bfloat16, requires_grad=True)
    assert plots.curves({"a": ones}, alt=ALT).description.endswith("[2.0000, 1.0000]")
    text = plots.bars({"a": ones}, ["x", "y"], alt=ALT).description
    assert text.endswith("[2.0000, 1.0000]")


@undrawn
def test_everything_may_require_grad():
    one = torch.tensor(1.5, requires_grad=True)
    many = torch.tensor([1.0, 2.0], requires_grad=True)
    text = plots.curves(
        {"a": (many, many), "b": [one, one]},
        alt=ALT,
        floors={"床": one},
        marks={"印": one},
        bands={"a": (many, many + 1)},
    ).description
    assert "「床 = 1.5000」" in text
    assert "「印 1.5」" in text
    assert "上 [2.0000, 3.0000]" in text


@undrawn
@pytest.mark.parametrize(
    "values",
    [
        [],
        [[]],
        [[], []],
        5,
        None,
        [1.0, 2.0],
        "ab",
        [["a"]],
        [[[1.0]]],
        [[1.0, 2.0], [1.0]],
        [[1.0], [1.0]][:0],
        [[1.0], [1.0, 2.0, 3.0]],
        [["1", "2"]],
        [[1.0, "2"]],
        [[1j, 0]],
        [[10**400, 0]],
        [[1.1e300, 0]],
        torch.eye(2).to_sparse(),
        torch.ones(0, 3),
        torch.ones(2, 2, 2),
        {"a": 1},
    ],
)
def test_what_is_no_matrix_is_refused(values):
    with pytest.raises(ValueError, match="matrices は"):
        plots.heatmap(values, alt=ALT)


@undrawn
@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda x: plots.panels(x, alt=ALT), "matrices"),
        (lambda x: plots.curves(x, alt=ALT), "lines"),
        (lambda x: plots.bars(x, ["a"], alt=ALT), "groups"),
        (lambda x: plots.diagram(x, [], alt=ALT), "boxes"),
        (lambda x: plots.curves({"a": [1]}, alt=ALT, bands=x), "bands"),
        (lambda x: plots.curves({"a": [1]}, alt=ALT, floors=x), "floors"),
        (lambda x: plots.curves({"a": [1]}, alt=ALT, marks=x), "marks"),
    ],
)
def test_values_without_names_are_refused(draw, name):
    for given_ in ([1.0], 5, "ab", [("a", [1.0])]):
        with pytest.raises(TypeError, match=rf"^{name} は {{名前: 値}} の形で"):
            draw(given_)


@undrawn
@pytest.mark.parametrize("value", ["1", None, 1j, True, [1.0, 2.0], torch.ones(1)])
def test_rulers_that_are_no_number_are_refused(value):
    for kind in ("floors", "marks"):
        with pytest.raises(TypeError, match=f"^{kind} の 床 は数で指定します"):
            plots.curves({"a": [1.0]}, alt=ALT, **{kind: {"床": value}})


@undrawn
def test_a_log_axis_with_nothing_to_show_is_refused():
    for draw in (
        lambda x: plots.curves({"b": [1.0], "a": x}, alt=ALT, ylog=True),
        lambda x: plots.curves({"a": (x, x)}, alt=ALT, xlog=True),
        lambda x: plots.bars({"a": x}, ["x", "y"], alt=ALT, ylog=True),
    ):
        for nothing in ([0.0, 0.0], [-1.0, NAN]):
            with pytest.raises(ValueError, match=r"^a に、対数の軸で描ける正の数が"):
                draw(nothing)
        assert "[0.0000, 2.0000]" in draw([0.0, 2.0]).description


def test_bars_of_infinity_are_left_out_quietly(recwarn):
    text = plots.bars({"a": [1.0, INF, NAN, -INF]}, list("wxyz"), alt=ALT).description
    assert text.endswith("[1.0000, nan, nan, nan]")
    assert not recwarn.list


@undrawn
def test_other_empty_or_odd_values_are_refused():
    for draw in (plots.curves, plots.loss_curves, plots.panels):
        with pytest.raises(ValueError, match="が空です"):
            draw({}, alt=ALT)
    with pytest.raises(ValueError, match="groups が空です"):
        plots.bars({}, [], alt=ALT)
    with pytest.raises(ValueError, match="損失 は空でない 1 次元"):
        plots.curves({"損失": []}, alt=ALT)
    with pytest.raises(ValueError, match="前 は空でない 1 次元"):
        plots.bars({"前": [[1.0]]}, ["a"], alt=ALT)
    with pytest.raises(ValueError, match=r"そろっていません: .*2, 2.*1, 2"):
        several(matrices={"一": [[1, 0], [0, 1]], "二": [[1, 0]]})
    with pytest.raises(ValueError, match="a は長さのそろった数の並びです"):
        plots.curves({"a": [1, [2]]}, alt=ALT)


@undrawn
@pytest.mark.parametrize(
    ("line", "sizes"), [(([1, 2], [1]), (2, 1)), (([1], [1, 2, 3]), (1, 3))]
)
def test_x_and_y_of_other_lengths_are_refused(line, sizes):
    text = "a の横 {} 個と縦 {} 個がそろいません".format(*sizes)
    with pytest.raises(ValueError, match=text):
        plots.curves({"a": line}, alt=ALT)


@undrawn
def test_bands_are_checked():
    with pytest.raises(ValueError, match="bands の '他' に対応する曲線がありません"):
        lines(bands={"他": ([1], [2])})
    for band in (([1.0], [2.0]), ([1, 2, 3], [1, 2]), ([1, 2], [1, 2, 3])):
        with pytest.raises(ValueError, match="学習 の帯は、上下とも 3 個の数です"):
            lines(bands={"学習": band})


@undrawn
def test_band_with_a_gap():
    text = plots.curves(
        {"a": [1, 2, 3, 4, 5]},
        bands={"a": ([0, 1, NAN, 3, 4], [2, 3, NAN, 5, 6])},
        alt=ALT,
    ).description
    assert "下 [0.0000, 1.0000, 3.0000, 4.0000] 上 [2.0000, 3.0000, 5.0000" in text


@undrawn
def test_two_numbers_are_a_curve_and_two_lists_are_x_and_y():
    text = plots.curves({"a": (1.0, 2.0), "b": ([3, 4], [5, 6])}, alt=ALT).description
    assert "「a」#0072b2 - 太さ 1.6: [1.0000, 2.0000]" in text
    assert "x=[3.0000, 4.0000] y=[5.0000, 6.0000]" in text
    assert (
        "[1.0000, 2.0000]" in plots.curves({"a": np.array([1, 2])}, alt=ALT).description
    )


# Scales


def limits(picture):
    return {ax.get_images()[0].get_clim() for ax in maps(picture)}


FLAT, SHARP = [[0.49, 0.51], [0.51, 0.49]], [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("scale", "matrices", "expected"),
    [
        ("weight", [FLAT, SHARP], (0, 1)),
        ("weight", [FLAT], (0, 1)),
        ("weight", [[[NAN]]], (0, 1)),
        ("cosine", [FLAT, SHARP], (-1, 1)),
        ("cosine", [[[0.1]]], (-1, 1)),
        ("amount", [FLAT, [[0, 4], [2, 3]]], (0, 4)),
        ("amount", [[[0, 0]]], (0, 1)),
        ("amount", [[[INF, 2]]], (0, 2)),
        ("signed", [FLAT, [[-3, 1], [0, 2]]], (-3, 3)),
        ("signed", [[[-INF, 2], [1, NAN]]], (-2, 2)),
        ("signed", [[[NAN]]], (-1, 1)),
    ],
)
def test_one_scale_for_all_panels_and_one_bar(scale, matrices, expected, recwarn):
    picture = plots.panels(
        {str(i): m for i, m in enumerate(matrices)}, alt=ALT, scale=scale
    )
    assert limits(picture) == {expected}
    bars = [ax for ax in picture.axes if not ax.get_images()]
    assert [ax.get_label() for ax in bars] == ["<colorbar>"]
    assert bars[0].get_ylim() == pytest.approx(expected)
    low, high = (fmt(float(v), 2) for v in expected)
    heads = re.findall(r"地図 (\w+) (\S+): ", picture.description)
    assert heads == [(plots.SCALES[scale][0], f"{low}..{high}")] * len(matrices)
    assert not recwarn.list


@undrawn
@pytest.mark.parametrize(
    ("scale", "value", "legal"),
    [
        ("weight", 1.1, "0 以上 1 以下"),
        ("weight", -0.1, "0 以上 1 以下"),
        ("cosine", -1.5, "-1 以上 1 以下"),
        ("amount", -2.0, "0 以上"),
    ],
)
def test_values_outside_the_scale_are_refused(scale, value, legal):
    text = rf"scale='{scale}' の地図の数は {legal}です（受け取った値: {value:.4f}）"
    with pytest.raises(ValueError, match=text):
        plots.heatmap([[0.5, value]], alt=ALT, scale=scale)
    edge = [[1 + 1e-9, -1e-9]]  # rounding is no mistake
    assert "[[1.0000, 0.0000]]" in plots.heatmap(edge, alt=ALT, scale=scale).description
    hidden = plots.heatmap([[0.5, value], [0, 1]], alt=ALT, scale=scale, causal=True)
    assert "[[0.5000, ×]" in hidden.description


@undrawn
@pytest.mark.parametrize("shape", [(2, 4), (4, 2)])
def test_a_causal_map_is_square(shape):
    with pytest.raises(ValueError, match=rf"causal の地図は正方形.*{shape[0]}, "):
        plots.heatmap(np.ones(shape), alt=ALT, causal=True)


@undrawn
def test_a_flat_head_looks_flat_beside_a_sharp_one():
    picture = plots.panels({"flat": FLAT, "sharp": SHARP}, alt=ALT)
    colours = []
    for ax in maps(picture):
        image = ax.get_images()[0]
        colours.append(image.to_rgba(image.get_array())[..., :3])
    assert np.ptp(colours[0], axis=(0, 1)).max() < 0.05
    assert np.ptp(colours[1], axis=(0, 1)).max() > 0.8


@undrawn
@pytest.mark.parametrize("scale", ["Weight", "", None, "viridis", ["weight"]])
def test_unknown_scale_lists_the_known(scale):
    with pytest.raises(ValueError) as caught:
        heat(scale=scale)
    assert str(caught.value) == (
        "scale は ['weight', 'cosine', 'amount', 'signed'] のどれかです"
        f"（受け取った値: {scale!r}）。"
    )


@undrawn
def test_maps_read_in_black_and_white():
    """All but the signed map rise in lightness; numbers stand in their contrast."""
    for name in ("weight", "cosine", "amount"):
        cmap = mpl.colormaps[plots.SCALES[name][0]]
        light = cmap(np.linspace(0, 1, 33))[:, :3] @ [0.299, 0.587, 0.114]
        steps = np.diff(light)
        assert (steps > 0).all() or (steps < 0).all()
    picture = plots.heatmap([[0.0, 1.0]], alt=ALT)
    inks = [t.get_color() for t in maps(picture)[0].texts]
    assert inks == ["black", "white"]


@undrawn
def test_numbers_are_written_where_they_fit():
    small = [t.get_text() for t in maps(plots.heatmap(torch.eye(12), alt=ALT))[0].texts]
    assert len(small) == 144
    assert set(small) == {"0.00", "1.00"}
    assert not maps(plots.heatmap(torch.eye(13), alt=ALT))[0].texts
    assert (
        len(maps(plots.heatmap(torch.eye(13), alt=ALT, numbers=True))[0].texts) == 169
    )
    assert not maps(plots.heatmap(torch.eye(2), alt=ALT, numbers=False))[0].texts


@undrawn
def test_bars_write_their_values_and_floors():
    ax = barred(digits=1).axes[0]
    assert [t.get_text() for t in ax.texts] == [
        "1.0",
        "2.0",
        "3.0",
        "0.5",
        "-0.5",
        "2.5",
    ]
    assert not barred(numbers=False).axes[0].texts
    many = plots.bars({"a": [1.0] * 25}, ["x"] * 25, alt=ALT)
    assert not many.axes[0].texts
    floor = ax.get_lines()[0]
    assert list(floor.get_ydata()) == [1.0, 1.0]
    assert floor.get_linestyle() == ":"


@undrawn
def test_legend_only_where_there_is_something_to_tell_apart():
    assert plots.curves({"a": [1, 2]}, alt=ALT).axes[0].get_legend() is None
    assert plots.bars({"a": [1]}, ["x"], alt=ALT).axes[0].get_legend() is None
    assert losses().axes[0].get_legend() is not None
    names = [t.get_text() for t in losses().axes[0].get_legend().get_texts()]
    assert names == ["ADD", "log V = 2.4849"]


@undrawn
def test_series_differ_without_colour():
    ax: Axes = plots.curves({str(i): [i, i + 1] for i in range(6)}, alt=ALT).axes[0]
    dashes = {str(line._dash_pattern) for line in ax.get_lines()}
    assert len(dashes) == 6
    ax = plots.bars({str(i): [1] for i in range(6)}, ["x"], alt=ALT).axes[0]
    assert len({p.get_hatch() for p in ax.patches}) == 6


@undrawn
def test_points_and_few_log_ticks():
    ax = plots.curves(
        {"a": ([16, 64, 0.5], [1, 2, 3])}, alt=ALT, points=True, xlog=True
    )
    line = ax.axes[0].get_lines()[0]
    assert line.get_marker() == "o"
    assert ticks(ax.axes[0].xaxis) == ["16", "64", "0.5"]
    assert lines().axes[0].get_lines()[0].get_marker() == ""


# Cosines


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 1000))
def test_cosines_against_torch(n, d, seed):
    rows = torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).double()
    expected = torch.nn.functional.cosine_similarity(rows[:, None], rows[None], dim=-1)
    found = plots.cosines(rows.requires_grad_())
    assert found == pytest.approx(expected.numpy(), abs=1e-12)
    assert np.abs(found).max() <= 1


@undrawn
def test_a_map_of_cosines_shows_them():
    picture = cosine()
    shown = maps(picture)[0].get_images()[0].get_array()
    root = 1 / math.sqrt(2)
    expected = [[1, root, 0], [root, 1, root], [0, root, 1]]
    assert np.asarray(shown) == pytest.approx(np.array(expected))
    assert "cividis -1.00..1.00" in picture.description


@pytest.mark.parametrize(
    ("vectors", "text"),
    [
        ([[1, 0], [0, 0]], "1 行目が零ベクトル"),
        ([[0], [1]], "0 行目が零ベクトル"),
        ([[1, 0], [NAN, 1]], "1 行目に、有限でない数"),
        ([[INF, 0], [1, 1]], "0 行目に、有限でない数"),
        ([[1], [1, 2]], "0 行目に、有限でない数"),
        ([[1, 2], [1]], "長さのそろった数の並び"),
    ],
)
def test_vectors_without_a_direction_are_refused(vectors, text):
    with pytest.raises(ValueError, match=f"vectors .*{text}"):
        plots.cosines(vectors)


def test_smooth_takes_means_of_equal_parts_at_their_middles():
    assert plots.smooth([1, 3, 5, 7, 100], 2) == ([1, 3], [2, 6])
    assert plots.smooth([1.0, 2.0], 1) == ([0.5, 1.5], [1, 2])
    for width in (0, 3, 1.5, True, "1", None):
        with pytest.raises(ValueError, match=rf"1 から 2 .*{width!r}"):
            plots.smooth([1.0, 2.0], width)
