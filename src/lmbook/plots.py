"""Figures that describe themselves.

Every function returns a :class:`Picture`: a bare matplotlib ``Figure`` (no pyplot)
that is drawn at once, so a missing glyph or a wrong label count fails in the cell
that asked for it. A notebook shows it as ``image/png`` with alternative text and as
``text/plain``: a description read back from what was really drawn.

Arrays are anything with ``tolist`` (tensors that require grad and bfloat16
included) or nested lists. ``alt`` is one Japanese sentence and is required.
"""

from __future__ import annotations

import functools
import hashlib
import io
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import FillBetweenPolyCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator

from lmbook.repro import fmt, mean_and_deviation

DPI = 150
WIDTH, HEIGHT = 5.0, 3.2  # inches; at most 5 x 4
FAMILY = "Noto Sans CJK JP"
# Blue, vermilion, green, purple, brown, black: told apart by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#7B4FA3", "#8C6D1F", "#222222")
DASHES = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (6, 2)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")
GREYS = ("#3b6ea5", "#e9a87c", "#a9cfa4", "#c9b7dd", "#dccb8f", "#bbbbbb")
FORBIDDEN = "#e4e4e4"  # a place that may not be looked at
# name -> (colour map, low, high); None: taken from the data. All but the signed
# map rise in lightness in one direction; a signed map has its values written in.
SCALES: dict[str, tuple[str, float | None, float | None]] = {
    "weight": ("Blues", 0.0, 1.0),
    "cosine": ("cividis", -1.0, 1.0),
    "amount": ("Blues", 0.0, None),
    "signed": ("RdBu_r", None, None),
}
MAX_NUMBERS = 64
LARGEST = 1e300  # a range of larger numbers overflows
MAX_LINES = 12

Curve = Sequence[float] | tuple[Sequence[float], Sequence[float]]


#: Of the Regular and the Bold font file, on every machine.
FONT_SHA256 = (
    "68a3fc98800b2a27b371f2fb79991daf3633bd89309d4ffaa6946fd587f375b5",
    "e53dcb0dcb2922e45d01aae1ebd2f382bb81d4229b18b6b883bd170678af1f76",
)


@functools.cache
def fonts() -> tuple[pathlib.Path, ...]:
    """The files of Noto Sans CJK JP, Regular and Bold, in their wheels.

    Raises ValueError, in Japanese, for a file that is not the published one.
    """
    import noto_cjk_sans_jp_bold
    import noto_cjk_sans_jp_regular

    wheels = (noto_cjk_sans_jp_regular, noto_cjk_sans_jp_bold)
    files = tuple(pathlib.Path(str(wheel.FONT_PATH)) for wheel in wheels)
    for file, wanted in zip(files, FONT_SHA256, strict=True):
        if hashlib.sha256(file.read_bytes()).hexdigest() != wanted:
            raise ValueError(
                f"フォント {file} の中身が配布されたものと違います"
                "（SHA-256 が一致しません）。入れ直します: python -m pip install "
                "--force-reinstall --no-deps noto-cjk-sans-jp-regular==0.0.1 "
                "noto-cjk-sans-jp-bold==0.0.1"
            )
    return files


def register_fonts() -> None:
    """Make Noto Sans CJK JP (Regular, Bold) known to matplotlib.

    The wheels' own files stand before any of the same family that the machine has,
    so that figures come out alike everywhere.
    """
    manager = font_manager.fontManager
    ours = {str(file) for file in fonts()}
    new = ours - {str(entry.fname) for entry in manager.ttflist}
    for path in sorted(new):
        manager.addfont(path)
    if new:
        manager.ttflist.sort(key=lambda entry: str(entry.fname) not in ours)


def _style() -> dict[str, Any]:
    """Our settings over matplotlib's own: nobody else's come through."""
    own = mpl.rcParamsDefault.items()
    names = [k for k, v in own if "backend" not in k and mpl.rcParams[k] != v]
    return {name: mpl.rcParamsDefault[name] for name in names} | {
        "font.family": [FAMILY, "DejaVu Sans"],
        "font.size": 9.0,
        "text.parse_math": False,  # a token may hold dollar signs
        "axes.titlesize": 10.0,
        "axes.titleweight": "bold",
        "axes.unicode_minus": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.labelsize": 9.0,
        "xtick.labelsize": 8.0,
        "ytick.labelsize": 8.0,
        "legend.fontsize": 8.0,
        "legend.frameon": False,
        "lines.linewidth": 1.6,
        "hatch.linewidth": 0.6,
    }


class Picture(Figure):
    """A drawn figure: ``png`` (bytes), ``alt`` and ``description`` (text)."""

    png: bytes = b""
    alt: str = ""
    description: str = ""

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data = {"image/png": self.png, "text/plain": self.description}
        return data, {"image/png": {"alt": self.alt}}


def _picture(
    alt: str, rows: int, columns: int, width: float, height: float
) -> tuple[Picture, list[Axes]]:
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt には図の説明を1文で書きます（受け取った値: {alt!r}）。")
    register_fonts()
    picture = Picture(
        figsize=(min(width, 5.0), min(height, 4.0)), dpi=DPI, layout="constrained"
    )
    FigureCanvasAgg(picture)
    picture.alt = alt.strip()
    axes = picture.subplots(rows, columns, squeeze=False)
    return picture, list(axes.flat)


@contextmanager
def _legible() -> Iterator[None]:
    """Draw in this block; a glyph that the fonts lack, and labels that leave no room
    for the figure, are a ValueError in Japanese."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Glyph .* missing")
        warnings.filterwarnings("error", message="constrained_layout not applied")
        try:
            yield
        except UserWarning as warning:
            if "layout" in str(warning):
                raise ValueError(
                    "ラベルが長すぎて、図の入る場所がありません。短くします。"
                ) from warning
            code = int(str(warning).split()[1])
            raise ValueError(
                f"図に書けない文字 {chr(code)!r}（U+{code:04X}）があります。"
            ) from warning


def _finish(picture: Picture) -> Picture:
    buffer = io.BytesIO()
    with _legible():
        picture.savefig(buffer, format="png", metadata={"Software": None})
    picture.png = buffer.getvalue()
    picture.description = describe(picture)
    return picture


def _array(name: str, values: Any, dimensions: int) -> np.ndarray[Any, Any]:
    """``values`` as float64. A triangle (row t of t+1 numbers) is filled with NaN."""
    try:
        rows = _plain(values)
        if dimensions == 2 and isinstance(rows, list):
            wide = [len(r) if isinstance(r, list) else 0 for r in rows]
            if wide == list(range(1, len(rows) + 1)):
                rows = [[*r, *[np.nan] * (len(rows) - len(r))] for r in rows]
        if np.array(rows).dtype.kind in "US":
            raise TypeError("text")
        array = np.array(rows, dtype=float)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        shown = " ".join(repr(values).split())[:60]
        raise ValueError(
            f"{name} は長さのそろった数の並びです（受け取った値: {shown}）。"
        ) from error
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(
            f"{name} は空でない {dimensions} 次元の数です"
            f"（受け取った形: {array.shape}）。"
        )
    far = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    if far > LARGEST:
        raise ValueError(
            f"{name} は大きさが {LARGEST:g} までの数です（受け取った値: {far:g}）。"
        )
    return array


def _mapping(name: str, given: Any, least: int = 1) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{name} は {{名前: 値}} の形で指定します（受け取った値: {given!r:.60}）。"
        )
    if len(given) < least:
        raise ValueError(f"{name} が空です。1 つ以上必要です。")
    return given


def _number(name: str, value: Any) -> float:
    plain = _plain(value)
    if not isinstance(plain, (int, float, Fraction)) or isinstance(plain, bool):
        raise TypeError(f"{name} は数で指定します（受け取った値: {value!r}）。")
    return float(plain)


def _plain(values: Any) -> Any:
    """Arrays, tuples and lists, however nested, as lists; a number as it is."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, Iterable) and not isinstance(values, str):
        return [_plain(v) for v in values]
    return values


def _labels(name: str, labels: Sequence[str] | None, count: int) -> list[str]:
    if labels is None:
        return [str(i) for i in range(count)]
    if not isinstance(labels, Iterable):
        raise TypeError(f"{name} は名前の並びです（受け取った値: {labels!r}）。")
    names = [str(label) for label in _plain(labels)]
    if len(names) != count:
        raise ValueError(
            f"{name} は {count} 個必要です（受け取った数: {len(names)}）。"
        )
    return names


# --- maps ---------------------------------------------------------------------


def heatmap(
    values: Any,
    *,
    alt: str,
    title: str = "",
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    xlabel: str = "",
    ylabel: str = "",
    scale: str = "weight",
    causal: bool = False,
    numbers: bool | None = None,
) -> Picture:
    """One matrix [R, C] as a map; see :func:`panels` for the arguments."""
    return panels(
        {title: values},
        alt=alt,
        rows=rows,
        columns=columns,
        xlabel=xlabel,
        ylabel=ylabel,
        scale=scale,
        causal=causal,
        numbers=numbers,
    )


def cosines(vectors: Any) -> np.ndarray[Any, Any]:
    """Cosine similarity [N, N] of the rows of ``vectors`` [N, D].

    Raises ValueError for a row of zeros, whose direction is not defined.
    """
    rows = _array("vectors", vectors, 2)
    peaks = np.abs(rows).max(axis=1, keepdims=True)
    if not np.isfinite(peaks).all():
        bad = int(np.argmin(np.isfinite(peaks)))
        raise ValueError(f"vectors の {bad} 行目に、有限でない数があります。")
    if not np.all(peaks > 0):
        bad = int(np.argmin(peaks))
        raise ValueError(f"vectors の {bad} 行目が零ベクトルで、向きがありません。")
    rows = np.ldexp(rows, -np.frexp(peaks)[1])  # by a power of two: squares stay finite
    unit = rows / np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.asarray(np.clip(unit @ unit.T, -1.0, 1.0))


def panels(
    matrices: Mapping[str, Any],
    *,
    alt: str,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    xlabel: str = "",
    ylabel: str = "",
    scale: str = "weight",
    causal: bool = False,
    numbers: bool | None = None,
    per_row: int = 3,
) -> Picture:
    """Small multiples: ``{title: matrix [R, C]}`` on one shared scale and bar.

    ``scale``: ``"weight"`` 0..1, ``"cosine"`` -1..1, ``"amount"`` 0..max,
    ``"signed"`` -max..max. ``causal`` draws the places above the diagonal (and
    every NaN or infinity) as not allowed. ``numbers`` writes the values into the cells
    (default: where they fit). Raises ValueError for a wrong label count, an
    unknown scale, a value outside the scale, a ragged matrix that is not a map, and
    a causal one that is not square.
    """
    if scale not in list(SCALES):
        raise ValueError(
            f"scale は {list(SCALES)} のどれかです（受け取った値: {scale!r}）。"
        )
    if type(per_row) is not int or per_row < 1:
        raise ValueError(f"per_row は 1 以上の整数です（受け取った値: {per_row!r}）。")
    given = _mapping("matrices", matrices)
    arrays = {t: _array("matrices", m, 2) for t, m in given.items()}
    for a in arrays.values():
        if causal and a.shape[0] != a.shape[1]:
            raise ValueError(f"causal の地図は正方形です（受け取った形: {a.shape}）。")
        if causal:
            a[np.triu_indices_from(a, 1)] = np.nan
        _inside(scale, a)
    wide = min(per_row, len(arrays))
    deep = -(-len(arrays) // wide)
    shape = next(iter(arrays.values())).shape
    height = 3.6 if len(arrays) == 1 else min(4.0, 0.9 + deep * (4.4 / wide))
    with mpl.rc_context(_style()):
        picture, axes = _picture(alt, deep, wide, 5.0, height)
        for ax in axes[len(arrays) :]:
            ax.remove()
        low, high = _limits(scale, arrays.values())
        names = (
            _labels("rows", rows, shape[0]),
            _labels("columns", columns, shape[1]),
        )
        size = 0.33 * 72 * (4.0 / wide) / shape[1]  # points a cell offers a number
        for n, (ax, (title, a)) in enumerate(zip(axes, arrays.items(), strict=False)):
            if a.shape != shape:
                raise ValueError(f"行列の形がそろっていません: {shape} と {a.shape}。")
            most = 12 if len(arrays) == 1 else 6 if wide < 3 else 5
            written = max(a.shape) <= most if numbers is None else numbers
            image = _map(ax, a, SCALES[scale][0], low, high, size if written else 0.0)
            ax.set_title(title)
            left, bottom = n % wide == 0, n + wide >= len(arrays)
            _map_ticks(
                ax,
                names[0] if left else None,
                names[1] if bottom else None,
                min(8.0, 76.0 / wide / max(1, len(names[0])) * 2.9),
            )
            ax.set_xlabel(xlabel if bottom else "")
            ax.set_ylabel(ylabel if left else "")
        bar = picture.colorbar(image, ax=axes[: len(arrays)], shrink=0.8, pad=0.02)
        bar.outline.set_visible(False)
        return _finish(picture)


def _inside(scale: str, a: np.ndarray[Any, Any]) -> None:
    """Refuse what the scale would draw in the colour of its end."""
    _, low, high = SCALES[scale]
    finite = a[np.isfinite(a)]
    under = finite < (-np.inf if low is None else low - 1e-6)
    over = finite > (np.inf if high is None else high + 1e-6)
    if (under | over).any():
        wrong = fmt(finite[under | over][0])
        legal = f"{low:g} 以上" + (f" {high:g} 以下" if high is not None else "")
        raise ValueError(
            f"scale={scale!r} の地図の数は {legal}です（受け取った値: {wrong}）。"
            'ほかの数は scale="signed" で描けます。'
        )


def _limits(scale: str, arrays: Any) -> tuple[float, float]:
    _, low, high = SCALES[scale]
    top = max(float(np.abs(a[np.isfinite(a)]).max(initial=0)) for a in arrays) or 1.0
    if high is None:
        high = top
    return (-high if low is None else low), high


def _map(
    ax: Axes, a: np.ndarray[Any, Any], cmap: str, low: float, high: float, size: float
) -> Any:
    ax.set_facecolor(FORBIDDEN)
    image = ax.imshow(
        np.ma.masked_invalid(a), cmap=cmap, vmin=low, vmax=high, aspect="auto"
    )
    square = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]) - 0.5
    forbidden = np.argwhere(~np.isfinite(a))[:, ::-1]
    if len(forbidden):  # one patch: 64 x 64 of them would take seconds
        squares = [Path(square + place, closed=True) for place in forbidden]
        path = Path.make_compound_path(*squares)
        ax.add_patch(PathPatch(path, hatch="///", fill=False, ec="#bdbdbd", lw=0))
    if size:
        for (i, j), value in np.ndenumerate(a):
            if np.isfinite(value):
                ax.text(
                    j,
                    i,
                    fmt(value, 2),
                    ha="center",
                    va="center",
                    size=max(4.5, min(8.0, size)),
                    color=_ink(image, value),
                )
    for spine in ax.spines.values():
        spine.set_visible(False)
    return image


def _ink(image: Any, value: float) -> str:
    red, green, blue, _ = image.cmap(image.norm(value))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"


def _map_ticks(
    ax: Axes, rows: list[str] | None, columns: list[str] | None, size: float
) -> None:
    ax.tick_params(length=0, labelsize=size)
    ax.set_yticks(*(_thinned(rows) if rows else ([], [])))
    if not columns:
        ax.set_xticks([])
        return
    long = max(map(len, columns)) > 3 and len(columns) > 4
    ax.set_xticks(
        *_thinned(columns), rotation=60 if long else 0, ha="right" if long else "center"
    )


def _thinned(labels: list[str], most: int = 24) -> tuple[list[int], list[str]]:
    step = -(-len(labels) // most)
    places = list(range(0, len(labels), step))
    return places, [labels[i] for i in places]


# --- curves and bars ----------------------------------------------------------


def curves(
    lines: Mapping[str, Curve],
    *,
    alt: str,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    floors: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
    bands: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    xlog: bool = False,
    ylog: bool = False,
    points: bool = False,
) -> Picture:
    """Named curves, ``ys`` (x = 0, 1, …) or ``(xs, ys)``.

    ``floors`` are dotted horizontal lines with their value, ``marks`` dotted
    vertical ones, ``bands`` the low and high edges around the curve of that name;
    ``points`` marks each value. On a log axis a number that is not positive is a
    gap. Raises ValueError when x, y and band differ in length, a band has no curve,
    or a log axis has no number to show.
    """
    _mapping("lines", lines)
    bands = _mapping("bands", bands or {}, 0)
    for name in bands:
        if name not in lines:
            raise ValueError(f"bands の {name!r} に対応する曲線がありません。")
    with mpl.rc_context(_style()):
        picture, (ax,) = _picture(alt, 1, 1, WIDTH, HEIGHT)
        for i, (name, line) in enumerate(lines.items()):
            xs, ys = _curve(name, line)
            _positive(name, xs if xlog else [], ys if ylog else [])
            ax.plot(
                xs,
                ys,
                label=name,
                color=COLOURS[i % len(COLOURS)],
                linestyle=DASHES[i % len(DASHES)],
                marker="osD^vP"[i % 6] if points else "",
                markersize=4,
            )
            if name in bands:
                edges = [_array(f"{name} の帯", edge, 1) for edge in bands[name]]
                if [len(edge) for edge in edges] != [len(xs)] * 2:
                    raise ValueError(f"{name} の帯は、上下とも {len(xs)} 個の数です。")
                low, high = edges
                colour = COLOURS[i % len(COLOURS)]
                ax.fill_between(xs, low, high, color=colour, alpha=0.15, lw=0, gid=name)
        _rulers(ax, floors or {}, marks or {})
        _frame(ax, title, xlabel, ylabel, xlog=xlog, ylog=ylog)
        if xlog and len(xs) <= 12:
            ax.set_xticks(xs, [f"{x:.0f}" if x >= 10 else f"{x:g}" for x in xs])
        if len(lines) + len(floors or {}) + len(marks or {}) > 1:
            _legend(ax)
        return _finish(picture)


def loss_curves(
    losses: Mapping[str, Curve],
    *,
    alt: str,
    floors: Mapping[str, float] | None = None,
    title: str = "",
    xlabel: str = "更新の回数",
    ylabel: str = "損失（nat／トークン）",
    marks: Mapping[str, float] | None = None,
    ylog: bool = False,
) -> Picture:
    """Loss against update, with computed ``floors`` as dotted lines."""
    return curves(
        losses,
        alt=alt,
        title=title,
        xlabel=xlabel,
        ylabel=ylabel,
        floors=floors,
        marks=marks,
        ylog=ylog,
    )


def smooth(values: Sequence[float], width: int) -> tuple[list[float], list[float]]:
    """A curve of the means of ``width`` values each, at the middle of each part.

    What is left over at the end is dropped. Raises ValueError for a ``width`` that
    is not from 1 to the number of values.
    """
    if type(width) is not int or not 1 <= width <= len(values):
        raise ValueError(
            f"width は 1 から {len(values)} までの整数です（受け取った値: {width!r}）。"
        )
    starts = range(0, len(values) - width + 1, width)
    means = [mean_and_deviation(values[i : i + width])[0] for i in starts]
    return [i + width / 2 for i in starts], means


def _curve(name: str, line: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if isinstance(line, tuple) and len(line) == 2 and np.ndim(_plain(line[0])):
        xs, ys = (_array(name, part, 1) for part in line)
    else:
        ys = _array(name, line, 1)
        xs = np.arange(len(ys), dtype=float)
    if len(xs) != len(ys):
        raise ValueError(f"{name} の横 {len(xs)} 個と縦 {len(ys)} 個がそろいません。")
    return xs, ys


def _positive(name: str, *axes: Any) -> None:
    """Refuse a series of which a log axis shows nothing."""
    for values in map(np.asarray, axes):
        if np.isfinite(values).any() and not (values > 0).any():
            raise ValueError(f"{name} に、対数の軸で描ける正の数がありません。")


def _legend(ax: Axes) -> None:
    """All series, also those whose name begins with ``_``."""
    series: list[Any] = [*ax.get_lines(), *ax.containers]
    ax.legend(series, [str(one.get_label()) for one in series])


def _rulers(ax: Axes, floors: Mapping[str, float], marks: Mapping[str, float]) -> None:
    for i, (name, y) in enumerate(_mapping("floors", floors, 0).items()):
        y = _number(f"floors の {name}", y)
        ax.axhline(
            y,
            color=COLOURS[i % len(COLOURS)],
            linestyle=":",
            linewidth=1.3,
            label=f"{name} = {fmt(y)}",
        )
    for name, x in _mapping("marks", marks, 0).items():
        x = _number(f"marks の {name}", x)
        ax.axvline(
            x, color="#666666", linestyle=":", linewidth=1.0, label=f"{name} {x:g}"
        )


def _frame(
    ax: Axes, title: str, xlabel: str, ylabel: str, *, xlog: bool, ylog: bool
) -> None:
    ax.set_title(title)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    for log, axis in ((xlog, ax.xaxis), (ylog, ax.yaxis)):
        if log:
            getattr(ax, f"set_{axis.axis_name}scale")("log")
            axis.set_major_formatter(lambda v, _: f"{v:.0f}" if v > 1 else f"{v:g}")
            axis.set_minor_formatter(lambda v, _: "")
    ax.grid(axis="both", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)


def bars(
    groups: Mapping[str, Sequence[float]],
    labels: Sequence[str],
    *,
    alt: str,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    floors: Mapping[str, float] | None = None,
    digits: int = 2,
    ylog: bool = False,
    numbers: bool = True,
    horizontal: bool = False,
) -> Picture:
    """Bars ``{series: values [N]}`` side by side at N labels, equal labels kept
    apart, values written at the ends. ``horizontal`` lays the chart on its side, the
    first label on top, with room for long labels; ``xlabel`` still names the labels,
    ``ylabel`` and ``ylog`` the values. Infinities and NaN have no bar. Raises
    ValueError for a wrong count and for a log axis with no number to show."""
    series = {
        name: _array(name, raw, 1) for name, raw in _mapping("groups", groups).items()
    }
    names = _labels("labels", labels, len(next(iter(series.values()))))
    size = min(4.0, 0.8 + 0.4 * len(names)) if horizontal else HEIGHT
    with mpl.rc_context(_style()):
        picture, (ax,) = _picture(alt, 1, 1, WIDTH, size)
        width = 0.8 / len(groups)
        for i, (name, values) in enumerate(series.items()):
            _labels("labels", names, len(values))
            _positive(name, values if ylog else [])
            places = np.arange(len(values)) + (i - (len(groups) - 1) / 2) * width
            drawn = (ax.barh if horizontal else ax.bar)(
                places,
                np.where(np.isfinite(values), values, np.nan),
                width * 0.92,
                label=name,
                color=GREYS[i % len(GREYS)],
                hatch=HATCHES[i % len(HATCHES)],
                edgecolor="#333333",
                linewidth=0.6,
            )
            if numbers and len(values) * len(groups) <= 24:
                texts = [fmt(v, digits) for v in values]
                box = {"fc": "white", "ec": "none", "pad": 0.4, "alpha": 0.8}
                ax.bar_label(drawn, texts, padding=2, fontsize=7, bbox=box)
        if horizontal:
            ax.set_yticks(range(len(names)), names)
            ax.invert_yaxis()
            _rulers(ax, {}, floors or {})
            _frame(ax, title, ylabel, xlabel, xlog=ylog, ylog=False)
        else:
            long = max(map(len, names), default=0) * len(names) > 42
            ax.set_xticks(
                range(len(names)),
                names,
                rotation=30 if long else 0,
                ha="right" if long else "center",
            )
            _rulers(ax, floors or {}, {})
            _frame(ax, title, xlabel, ylabel, xlog=False, ylog=ylog)
        ax.grid(visible=False, axis="y" if horizontal else "x")
        ax.margins(x=0.12) if horizontal else ax.margins(y=0.12)
        if len(groups) + len(floors or {}) > 1:
            _legend(ax)
        return _finish(picture)


# --- boxes and arrows ----------------------------------------------------------


def diagram(
    boxes: Mapping[str, str],
    arrows: Sequence[tuple[str, str]],
    *,
    alt: str,
    title: str = "",
    across: bool = False,
) -> Picture:
    """Named ``boxes`` (name -> text) joined by ``arrows`` (from, to), in layers.

    A box stands one layer after the last box that points at it, from top to bottom,
    or from left to right when ``across``. An arrow over a layer bends around it.
    Raises ValueError for a box without text, for an arrow that is not a pair of
    boxes, and for a cycle.
    """
    for name, text in _mapping("boxes", boxes).items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"箱 {name!r} に文字がありません（受け取った値: {text!r}）。"
            )
    arrows = list(arrows)
    for arrow in arrows:
        if len(arrow) != 2:
            raise ValueError(f"矢印は 2 つの箱の組です（受け取った値: {arrow!r}）。")
        for name in arrow:
            if name not in boxes:
                raise ValueError(f"矢印の端 {name!r} という箱がありません。")
    places = _layers(list(boxes), arrows)
    deep = max(layer for layer, _ in places.values()) + 1
    with mpl.rc_context(_style()):
        height = 2.6 if across else min(4.0, 0.6 + 0.4 * deep)
        picture, (ax,) = _picture(alt, 1, 1, WIDTH if across else 3.4, height)
        ax.set_title(title)
        ax.axis("off")
        at = {
            name: ((layer, -side) if across else (side, -layer))
            for name, (layer, side) in places.items()
        }
        drawn = {}
        for name, text in boxes.items():
            frame = {"boxstyle": "round,pad=0.35", "fc": "#eef3f8", "ec": "#3b6ea5"}
            x, y = at[name]
            drawn[name] = ax.text(
                x, y, text, ha="center", va="center", size=8, bbox=frame, gid=name
            )
        ax.set_xlim(*_span([x for x, _ in at.values()], 0.6 if across else 1.0))
        ax.set_ylim(*_span([y for _, y in at.values()], 0.6))
        with _legible():
            picture.draw_without_rendering()  # the boxes get their sizes
        side = 0.75  # of the far arrows: right and left in turn
        for start, end in arrows:
            far = places[end][0] - places[start][0] > 1 and not across
            side = -side if far else side
            props = {
                "arrowstyle": "-|>",
                "color": "#444444",
                "connectionstyle": f"bar,fraction={side}" if far else "arc3",
                "patchA": drawn[start].get_bbox_patch(),
                "patchB": drawn[end].get_bbox_patch(),
                "shrinkA": 1,
                "shrinkB": 1,
            }
            name = f"{start}→{end}"
            ax.annotate("", at[end], at[start], arrowprops=props, gid=name)
        return _finish(picture)


def _span(values: Sequence[float], margin: float) -> tuple[float, float]:
    return min(values) - margin, max(values) + margin


def _layers(
    names: Sequence[str], arrows: Sequence[tuple[str, str]]
) -> dict[str, tuple[int, float]]:
    """Layer and sideways place of each box; a layer is centred on 0."""
    layer = dict.fromkeys(names, 0)
    for _ in names:
        moved = False
        for start, end in arrows:
            if layer[end] <= layer[start]:
                layer[end], moved = layer[start] + 1, True
        if not moved:
            break
    else:
        raise ValueError("矢印が輪になっています。輪のない図だけを描けます。")
    rows: dict[int, list[str]] = {}
    for name in names:
        rows.setdefault(layer[name], []).append(name)
    return {
        name: (depth, i - (len(row) - 1) / 2)
        for depth, row in rows.items()
        for i, name in enumerate(row)
    }


# --- the description ----------------------------------------------------------


def describe(figure: Figure) -> str:
    """What ``figure`` shows, in a fixed grammar of at most 12 lines.

    One head line a panel (title, axes), then one line a map, line or set of bars:
    colours, label, numbers; beyond 64 numbers their shape, extremes and corners.
    """
    lines: list[str] = []
    panels_ = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    for number, ax in enumerate(panels_, 1):
        head = f"図{number}" if len(panels_) > 1 else "図"
        title = ax.get_title() or "(無題)"
        lines.append(f"{head}: {title} | 横 {_axis(ax, 'x')} | 縦 {_axis(ax, 'y')}")
        lines += [*_maps(ax), *_lines(ax), *_bands(ax), *_bars(ax), *_dots(ax)]
        lines += _boxes(ax)
        legend = ax.get_legend()
        if legend is not None:
            names = "、".join(t.get_text() for t in legend.get_texts())
            lines.append(f"  凡例: {names}")
    if len(lines) > MAX_LINES:
        rest = "".join(lines[MAX_LINES - 1 :])
        lines = [*lines[: MAX_LINES - 1], _short(rest)]
    return "\n".join(line.replace("\n", " ") for line in lines)


def _short(text: str, most: int = 600) -> str:
    text = text.replace("  ", " ")
    return f"  ほか:{text if len(text) <= most else text[:most] + '…'}"


def _axis(ax: Axes, which: str) -> str:
    """Label, scale, and the names at the ticks where they say more than 0, 1, 2 …"""
    axis = getattr(ax, f"{which}axis")
    log = axis.get_scale() == "log"
    names = ""
    if isinstance(axis.get_major_locator(), FixedLocator) and not log:
        named = [text.get_text() for text in axis.get_ticklabels()]
        if named != [f"{place:g}" for place in axis.get_ticklocs()]:
            between = "、" if any("\n" in name for name in named) else " "
            names = f"[{between.join(named)}]"
    return f"{axis.get_label_text()}{'（対数）' if log else ''}{names}" or "-"


def _numbers(values: np.ndarray[Any, Any]) -> str:
    if values.size <= MAX_NUMBERS:
        return fmt(values.tolist()).replace("\n", "")
    corner = values[(0,) * values.ndim], values[(-1,) * values.ndim]
    shape = "x".join(map(str, values.shape))
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
    ends = f"端 {fmt(corner[0])} {fmt(corner[1])}"
    return f"形 {shape} 最小 {fmt(low)} 最大 {fmt(high)} {ends}"


def _maps(ax: Axes) -> list[str]:
    found = []
    for image in ax.get_images():
        low, high = image.get_clim()
        values: np.ndarray[Any, Any] = np.ma.filled(
            np.ma.asarray(image.get_array(), dtype=float), np.nan
        )
        found.append(
            f"  地図 {image.get_cmap().name} {fmt(low, 2)}..{fmt(high, 2)}: "
            f"{_numbers(values).replace('nan', '×')}"
        )
    return found


def _lines(ax: Axes) -> list[str]:
    found = []
    for line in ax.get_lines():
        ys = np.asarray(line.get_ydata(), dtype=float)
        xs = np.asarray(line.get_xdata(), dtype=float)
        style = f"{to_hex(line.get_color())} {line.get_linestyle()}"
        numbers = _numbers(ys)
        if not np.array_equal(xs, np.arange(len(xs))):
            numbers = f"x={_numbers(xs)} y={numbers}"
        found.append(
            f"  線「{line.get_label()}」{style} 太さ {fmt(line.get_linewidth(), 1)}: "
            f"{numbers}"
        )
    return found


def _bars(ax: Axes) -> list[str]:
    found = []
    for drawn in ax.containers:
        if isinstance(drawn, BarContainer):
            values = np.asarray(drawn.datavalues, dtype=float)
            colour = to_hex(drawn.patches[0].get_facecolor())
            found.append(f"  棒「{drawn.get_label()}」{colour}: {_numbers(values)}")
    return found


def _bands(ax: Axes) -> list[str]:
    found = []
    for band in ax.collections:
        if isinstance(band, FillBetweenPolyCollection):
            # Around the area: a corner, the low edge, a corner, the high edge back.
            ys = [np.asarray(path.vertices)[:-1, 1] for path in band.get_paths()]
            low = np.concatenate([y[1 : len(y) // 2] for y in ys])
            high = np.concatenate([y[: len(y) // 2 : -1] for y in ys])
            found.append(
                f"  帯「{band.get_gid()}」: 下 {_numbers(low)} 上 {_numbers(high)}"
            )
    return found


def _dots(ax: Axes) -> list[str]:
    return [
        f"  点「{dots.get_label()}」: {_numbers(np.asarray(dots.get_offsets()))}"
        for dots in ax.collections
        if isinstance(dots, PathCollection)
    ]


def _boxes(ax: Axes) -> list[str]:
    named = [text for text in ax.texts if text.get_gid()]
    boxes = [t.get_text().replace("\n", " ") for t in named if t.get_text()]
    arrows = [str(t.get_gid()) for t in named if not t.get_text()]
    if not boxes:
        return []
    return [f"  箱: {'、'.join(boxes)}", f"  矢印: {'、'.join(arrows)}"]
