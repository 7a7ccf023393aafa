"""The page of a grid: one HTML file, in Japanese, that needs no network."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmbook import plots
from lmbook.press import compare, run
from lmbook.repro import NG, OK, fmt

if TYPE_CHECKING:
    from lmbook.press.grid import Run

#: Runs with one of these names alone apart are repetitions: they make the spread.
REPEATED = {"seed"}
MOST_CURVES = 6
BOOK = "本"
HEAD = """<!doctype html>
<html lang="ja"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font-family: "Noto Sans CJK JP", "Noto Sans JP", system-ui, sans-serif;
  line-height: 1.7; margin: 2em auto; max-width: 70em; padding: 0 1em }}
table {{ border-collapse: collapse; margin: 1em 0 }}
th, td {{ border-bottom: 1px solid #bbb; padding: .2em .8em; text-align: right }}
th {{ background: #eee }} .wide {{ overflow-x: auto }}
pre {{ background: #f4f4f4; margin: 0; padding: .6em; white-space: pre-wrap }}
.side {{ display: flex; gap: 1em; overflow-x: auto; align-items: flex-start }}
.side > div {{ flex: 1 0 18em }} h3 {{ font-size: 1em }}
img {{ max-width: 100% }} summary {{ cursor: pointer; padding: .3em 0 }}
</style></head><body>
"""


def page(path: Path, rows: Sequence[Run]) -> str:
    """The page of the chapter at ``path`` and the ``rows`` of its grid."""
    book = run.read(path)
    heading = re.search(r"^# (.+)$", book.cells[0].source, re.MULTILINE)
    title = f"実験の結果: {heading[1] if heading else path.stem}"
    parts = [
        HEAD.format(title=html.escape(title)),
        f"<h1>{html.escape(title)}</h1>\n",
        f"<p>{len(rows)} 通りを実行しました。数は小数第 4 位までです。</p>\n",
        *_section("値と結果", _runs(rows)),
        *_section("くり返しの平均と幅", _spread(rows)),
        *_section("曲線を重ねる", _curves(rows)),
        *_section("本とちがうところ", _departures(rows)),
        *_section("並べて見る", _side_by_side(book, rows)),
    ]
    return "".join(parts) + "</body></html>\n"


def _section(name: str, content: Iterator[str]) -> list[str]:
    made = list(content)
    return [f"<h2>{name}</h2>\n", *made] if made else []


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [f"<tr>{''.join(f'<th>{html.escape(h)}</th>' for h in head)}</tr>"]
    for row in rows:
        cells = (f"<td>{html.escape(fmt(x))}</td>" for x in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="wide"><table>{chr(10).join(lines)}</table></div>\n'


def _name(values: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in values.items()) or "もとの値"


def _scalars(rows: Sequence[Run]) -> list[str]:
    names = dict.fromkeys(n for row in rows for n in row.results)
    return [
        n for n in names if not any(isinstance(r.results.get(n), list) for r in rows)
    ]


def _runs(rows: Sequence[Run]) -> Iterator[str]:
    names = _scalars(rows)
    given = list(rows[0].values)
    head = [*given, *names, f"{NG} の数", "終わり"]
    body = [
        [
            *(row.values[n] for n in given),
            *(row.results.get(n, "–") for n in names),
            len(row.failed_claims) if row.done else "–",
            OK if row.done else row.error,
        ]
        for row in rows
    ]
    yield _table(head, body)


def _groups(rows: Sequence[Run]) -> dict[str, list[Run]]:
    """Finished runs by their parameters less the repeated ones."""
    groups: dict[str, list[Run]] = {}
    for row in rows:
        own = {k: v for k, v in row.values.items() if k not in REPEATED}
        if row.done:
            groups.setdefault(_name(own), []).append(row)
    return groups


def _spread(rows: Sequence[Run]) -> Iterator[str]:
    groups, names = _groups(rows), _scalars(rows)
    if not names or all(len(group) < 2 for group in groups.values()):
        return
    yield "<p>平均と、［最小, 最大］です。</p>\n"
    body = [
        [group, len(found), *(_mean_and_range(found, n) for n in names)]
        for group, found in groups.items()
    ]
    yield _table(["値", "回数", *names], body)


def _mean_and_range(rows: Sequence[Run], name: str) -> str:
    values = [row.results[name] for row in rows if name in row.results]
    if not values:
        return "–"
    ends = fmt([min(values), max(values)])
    return f"{fmt(math.fsum(values) / len(values))} {ends}"


def _curves(rows: Sequence[Run]) -> Iterator[str]:
    groups = _groups(rows)
    names = dict.fromkeys(n for row in rows for n in row.results)
    for name in names:
        lines = {g: _numbers(found, name) for g, found in groups.items()}
        drawn = [(g, found) for g, found in lines.items() if found]
        for first in range(0, len(drawn), MOST_CURVES):
            part = dict(drawn[first : first + MOST_CURVES])
            if part:
                yield _figure(_curve(name, part))


def _numbers(rows: Sequence[Run], name: str) -> list[list[float]]:
    """The curves of one group, all as long as the shortest."""
    found = [row.results.get(name) for row in rows]
    curves = [c for c in found if isinstance(c, list) and len(c) > 1]
    least = min(map(len, curves), default=0)
    return [c[:least] for c in curves if not isinstance(c[0], str)]


def _curve(name: str, groups: dict[str, list[list[float]]]) -> plots.Picture:
    at = {g: list(zip(*curves, strict=True)) for g, curves in groups.items()}
    means = {g: [math.fsum(v) / len(v) for v in values] for g, values in at.items()}
    several = {g: values for g, values in at.items() if len(groups[g]) > 1}
    return plots.curves(
        means,
        bands={
            g: ([min(v) for v in values], [max(v) for v in values])
            for g, values in several.items()
        },
        alt=f"{name} の曲線を、値ごとに重ねた図です。帯は最小から最大までの幅です。",
        title=name,
        xlabel="記録の番号",
    )


def _figure(picture: plots.Picture) -> str:
    shown = _image(base64.b64encode(picture.png).decode("ascii"), picture.alt)
    return f"<p>{shown}</p>\n"


def _image(data: str, alt: str) -> str:
    alt, data = html.escape(alt), html.escape(data)
    return f'<img alt="{alt}" src="data:image/png;base64,{data}">'


def _departures(rows: Sequence[Run]) -> Iterator[str]:
    for row in rows:
        if row.done:
            changed = len(row.done.changed)
            text = f"出力がちがうセルは {changed} 個、成り立たない主張は "
            text += f"{len(row.failed_claims)} 個です。"
            claims = "\n".join(row.failed_claims)
            yield f"<h3>{html.escape(_name(row.values))}</h3>\n<p>{text}</p>\n"
            yield f"<pre>{html.escape(claims)}</pre>\n" if claims else ""


def _side_by_side(book: Any, rows: Sequence[Run]) -> Iterator[str]:
    """Each cell that differs from the book in some run: the book, then the runs."""
    done = [row for row in rows if row.done]
    cells = {
        _name(row.values): {c.id: c for c in run.read(row.done.output).cells}
        for row in done
        if row.done
    }
    changed = {cell for row in done if row.done for cell in row.done.changed}
    for cell in book.cells:
        if cell.id not in changed or "remove-cell" in cell.metadata.get("tags", []):
            continue
        shown: dict[str, list[str]] = {_outputs(cell): [BOOK]}
        for name, found in cells.items():
            if cell.id in found:
                shown.setdefault(_outputs(found[cell.id]), []).append(name)
        sides = (
            f"<div><h3>{html.escape(' / '.join(names))}</h3>{content}</div>"
            for content, names in shown.items()
        )
        opened = "" if any("<img" in content for content in shown) else " open"
        first = html.escape(cell.source.split("\n")[0])
        yield f"<details{opened}><summary>{cell.id}: <code>{first}</code></summary>"
        yield f'<div class="side">{"".join(sides)}</div></details>\n'


def _outputs(cell: Any) -> str:
    """A cell's outputs in HTML: its pictures, else its texts."""
    parts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        text = output.get("text") or data.get("text/plain", "")
        if compare.PNG in data:
            parts.append(_image(data[compare.PNG].strip(), text))
        else:
            parts.append(f"<pre>{html.escape(text)}</pre>")
    return "".join(parts)
