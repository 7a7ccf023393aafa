"""Checks of chapter 2: one function an exercise, named as the exercise less ``_ex``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from lmbook import chapters
from lmbook.checks import (
    Known,
    Mistake,
    Probe,
    Result,
    against,
    callable_,
    check,
    shape,
    show,
    value,
)

E = [0.5, 0.3, -0.2, 0.8]
P = [0.1, 0.0, 0.1, -0.1]


def _book() -> Any:
    return chapters.load("02")


def _pair(answer: Any) -> None:
    form = "答えは (e のリスト, p のリスト) で、どちらも 4 個の数です。"
    _refuse_texts(answer)
    if not isinstance(answer, (tuple, list)) or shape(answer) != (2, 4):
        raise Mistake("form", f"{form}受け取った形: {shape(answer)}。")
    e, p = ([float(x) for x in part] for part in answer)
    if not all(map(math.isfinite, (*e, *p))):
        raise Mistake("finite", "nan や無限大ではない数で書きます。")
    sums = [a + b for a, b in zip(e, p, strict=True)]
    expected = [a + b for a, b in zip(E, P, strict=True)]
    if max(abs(a - b) for a, b in zip(sums, expected, strict=True)) > 1e-9:
        raise Mistake(
            "sum", f"和は {show(expected)} です（受け取った組の和: {show(sums)}）。"
        )
    if max(abs(a - b) for a, b in zip(e, E, strict=True)) < 1e-9:
        raise Mistake(
            "same", "もとと同じ組です。e に動かした分を、p から引いてみます。"
        )


def _refuse_texts(answer: Any) -> None:
    """Numbers in quotes look like numbers, and float() would even read them."""
    if any(isinstance(x, str) for x in _leaves(answer)):
        raise Mistake("text", "文字列が入っています。数は引用符で囲まずに書きます。")


def _leaves(answer: Any) -> Iterator[Any]:
    for x in answer if isinstance(answer, (list, tuple)) else [answer]:
        yield from _leaves(x) if isinstance(x, (list, tuple)) else [x]


def collision(answer: Any) -> Result:
    """Another pair of vectors with the sum of E and P."""
    return check("演習1", answer, _pair)


def scaled_sum(answer: Any) -> Result:
    """``f(table [V, d], ids [T], waves [T, d])``: rows times sqrt(d), plus waves."""
    import torch

    def rows(table: Any, ids: Any) -> tuple[Any, float]:
        return table[ids], math.sqrt(table.shape[1])

    def whole(table: Any, ids: Any, waves: Any) -> Any:
        e, root = rows(table, ids)
        return (e + waves) * root

    def position(table: Any, ids: Any, waves: Any) -> Any:
        e, root = rows(table, ids)
        return e + waves * root

    def divided(table: Any, ids: Any, waves: Any) -> Any:
        e, root = rows(table, ids)
        return e / root + waves

    def words(table: Any, ids: Any, waves: Any) -> Any:
        return table[ids] * math.sqrt(table.shape[0]) + waves

    known = (
        Known(
            "no-root",
            "√d がありません。N(0,1/d) の行は長さが約 1 で、位置に負けます。",
            lambda t, i, w: t[i] + w,
        ),
        Known(
            "root-on-sum", "和の全体に √d を掛けると、釣り合いは変わりません。", whole
        ),
        Known(
            "root-on-position", "√d は位置でなく、トークンの側に掛けます。", position
        ),
        Known(
            "divided",
            "割るのではなく掛けます。長さ 1 の行を √d に伸ばします。",
            divided,
        ),
        Known("vocabulary", "d は表の幅です。語彙の数 V ではありません。", words),
    )
    g = torch.Generator().manual_seed(1)
    cases = [
        (
            torch.randn(v, d, generator=g) / math.sqrt(d),
            torch.randint(v, (t,), generator=g),
            _book().sinusoid(t, d),
        )
        for v, d, t in ((5, 2, 3), (9, 16, 6))
    ]
    return check("演習2", answer, against(_book().scaled_sum_ex, *cases, known=known))


def rope_half(answer: Any) -> Result:
    """``f(x [T, d], angle [T, d/2])``: RoPE with pairs (i, i + d/2)."""
    import torch

    def neighbours(x: Any, angle: Any) -> Any:
        a, b = x[..., 0::2], x[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def half(x: Any, angle: Any, sign: int = 1) -> tuple[Any, Any]:
        a, b = x.chunk(2, -1)
        cos, sin = angle.cos(), sign * angle.sin()
        return a * cos - b * sin, a * sin + b * cos

    def backwards(x: Any, angle: Any) -> Any:
        return torch.cat(half(x, angle, -1), -1)

    def woven(x: Any, angle: Any) -> Any:
        return torch.stack(half(x, angle), -1).flatten(-2)

    def same_sign(x: Any, angle: Any) -> Any:
        a, b = x.chunk(2, -1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((a * cos + b * sin, a * sin + b * cos), -1)

    known = (
        Known(
            "neighbours",
            "隣どうしを組にしています。前半と後半を組にします。",
            neighbours,
        ),
        Known("backwards", "逆向きに回しています。sin の符号を確かめます。", backwards),
        Known(
            "woven", "組は合っていますが、並べ方が交互です。前半、後半の順です。", woven
        ),
        Known(
            "no-rotation",
            "片方の sin の前は − です。＋では長さが変わります。",
            same_sign,
        ),
        Known("unturned", "回っていません。angle を使います。", lambda x, angle: x),
    )
    g = torch.Generator().manual_seed(2)
    cases = [
        (torch.randn(t, d, generator=g), torch.rand(t, d // 2, generator=g))
        for t, d in ((1, 2), (2, 4), (5, 8))
    ]
    probes: list[Probe] = [
        against(_book().rope_half_ex, *cases[1:], known=known),
        against(_book().rope_half_ex, cases[0]),
    ]
    return check("演習3", answer, *probes)


def _six(answer: Any) -> None:
    answer = answer.tolist() if hasattr(answer, "tolist") else answer
    _refuse_texts(answer)
    if not isinstance(answer, (tuple, list)) or shape(answer) != (6,):
        raise Mistake(
            "form", f"6 個の数のリストで書きます（受け取った形: {shape(answer)}）。"
        )
    slopes = [float(x) for x in answer]
    expected = _book().alibi_slopes(6).tolist()

    def close(other: list[float]) -> bool:
        return all(abs(a - b) < 1e-4 for a, b in zip(slopes, other, strict=True))

    if close([2 ** (-8 * i / 6) for i in range(1, 7)]):
        raise Mistake(
            "plain", "8 を 6 で割る式のままです。2 のべきの 4 頭から始めて補います。"
        )
    if close([1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 4]):
        raise Mistake("not-skipped", "8 頭の傾きを、続けてでなく一つおきに取ります。")
    if close([1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 4, 1 / 16]):
        raise Mistake(
            "second-start", "8 頭の傾きは、2 番目でなく先頭の 1/2 から取ります。"
        )
    if close([2.0**-i for i in range(1, 7)]):
        raise Mistake("eight", "8 頭の先頭の 6 個です。まず 4 頭の傾きを並べます。")
    if sorted(slopes) == sorted(expected) and not close(expected):
        raise Mistake("order", "値は合っています。4 頭の 4 個のあとに、補う 2 個です。")
    if not close(expected):
        raise Mistake("value", f"ちがいます（受け取った値: {show(slopes)}）。")


def six_slopes(answer: Any) -> Result:
    """ALiBi slopes of 6 heads in the published order."""
    return check("演習4", answer, _six)


def needed_terms(answer: Any) -> Result:
    """Which of the four terms each of four ways to look needs, in order."""
    names = _book().TERMS
    cc, cp, pc, pp = names
    right = [pp, cc, cp, pc]
    if isinstance(answer, (list, tuple)):  # no keyboard has the dash of these names
        answer = [
            re.sub("[-−‐—ー]", "–", x) if isinstance(x, str) else x for x in answer
        ]

    def known_names(found: Any) -> None:
        if not isinstance(found, (list, tuple)) or len(found) != 4:
            raise Mistake("form", "4 個の項の名前をリストで書きます。")
        for name in found:
            if name not in names:
                raise Mistake("name", f"{name!r} は TERMS の {names} にありません。")

    def told_apart(found: Any) -> None:
        if list(found[2:]) == [pc, cp]:
            raise Mistake("sides", "3 と 4 で、見る側と見られる側が逆です。")
        if found[0] != pp:
            raise Mistake(
                "offset", "1 は語によりません。見る側も見られる側も位置です。"
            )
        if found[1] != cc:
            raise Mistake(
                "match", "2 は場所によりません。見る側も見られる側も内容です。"
            )

    return check("演習5", answer, known_names, told_apart, _equals(right))


def _equals(right: list[str]) -> Probe:
    probe = value(right, form="リスト")
    return lambda answer: probe(list(answer))


def grouped_weights(answer: Any) -> Result:
    """``f(width, heads, groups)``: weights of q, k, v, out with shared k and v."""
    known = (
        Known("all-square", "四つとも幅×幅にしています。k と v は小さくなります。",
              lambda w, h, g: 4 * w * w),
        Known("one-shared", "k と v の両方が小さくなります。片方だけ数えています。",
              lambda w, h, g: 2 * w * w + w * g * (w // h)),
        Known("no-output", "出力の行列が抜けています。これも幅×幅です。",
              lambda w, h, g: w * w + 2 * w * g * (w // h)),
        Known("groups-only", "k の幅は groups × 頭の幅です。頭の幅を掛けます。",
              lambda w, h, g: 2 * w * w + 2 * w * g),
        Known("shared-by", "groups は組の数です。一組の人数で割るのではありません。",
              lambda w, h, g: 2 * w * w + 2 * w * (w // g)),
    )  # fmt: skip
    cases = [(512, 8, 2), (64, 4, 1), (96, 6, 3), (32, 4, 4)]
    return check(
        "演習6",
        answer,
        callable_,
        against(_book().grouped_weights_ex, *cases[:3], known=known),
        against(_book().grouped_weights_ex, cases[3]),
    )
