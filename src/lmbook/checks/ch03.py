"""Checks of chapter 3: one function per exercise.

Nodes are made with the ``Value`` of the answer's own notebook (its tape and its
arithmetic belong together), lesson definitions come from the chapter through the
loader. Nothing here imports torch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from lmbook.chapters import load
from lmbook.checks import Known, Mistake, Probe, Result, against, callable_, check
from lmbook.checks import value as equals
from lmbook.repro import fmt

Numbers = list[float]
POINTS = (-2.0, -0.5, 0.0, 0.7, 3.0)


def _chapter() -> ModuleType:
    return load("03")


def _own(answer: Any, name: str) -> Any:
    """``name`` as the answer's notebook defines it, else as the chapter does."""
    found = getattr(answer, "__globals__", {}).get(name)
    return getattr(_chapter(), name) if found is None else found


# --- nodes --------------------------------------------------------------------


def _node(
    forward: Callable[[float], float],
    slope: Callable[[float], float],
    known: Sequence[tuple[str, str, Callable[[float], float]]],
) -> Probe:
    """The answer maps a ``Value`` to a node of that value and that local slope.

    ``known`` = (hint, message, wrong slope). The gradient is asked for twice, on a
    leaf used once and on one that already holds a gradient.
    """

    def probe(answer: Callable[[Any], Any]) -> None:
        callable_(answer)
        make = _own(answer, "Value")
        for x in POINTS:
            leaf = make(x)
            node = answer(leaf)
            _is_node(node, make, x)
            if leaf.data != x:
                text = f"入力 x = {fmt(x)} の data を書きかえています。"
                raise Mistake("in-place", text)
            if not abs(node.data - forward(x)) < 1e-12:
                raise Mistake(
                    "forward",
                    f"値がちがいます。x = {fmt(x)} の正しい値は {fmt(forward(x))}、"
                    f"受け取った値は {fmt(node.data)} です。",
                )
            node.backward()
            _slope(leaf.grad, x, slope, known)

    return probe


def _is_node(node: Any, make: Any, x: float) -> None:
    if node is None:
        raise Mistake("no-return", "値が返っていません。return を書きます。")
    if not isinstance(node, make):
        kind = type(node).__name__
        raise Mistake(
            "type",
            f"Value を返します（x = {fmt(x)} で受け取った型: {kind}）。"
            "数だけを返すと、勾配が届きません。",
        )


def _slope(
    got: float,
    x: float,
    slope: Callable[[float], float],
    known: Sequence[tuple[str, str, Callable[[float], float]]],
) -> None:
    expected = slope(x)
    if abs(got - expected) < 1e-9:
        return
    told = (
        f"x = {fmt(x)} の正しい勾配は {fmt(expected)}、"
        f"受け取った勾配は {fmt(got)} です。"
    )
    for hint, message, wrong in known:
        if abs(got - wrong(x)) < 1e-9:
            raise Mistake(hint, message + told)
    if got == 0:
        raise Mistake("detached", "勾配が x に届きません。材料に x を入れます。" + told)
    raise Mistake("slope", "局所微分がちがいます。" + told)


def _each(**probes: Probe) -> Probe:
    """The answer is one function for each probe, in order; a mistake names it."""

    def probe(answers: Any) -> None:
        if not isinstance(answers, tuple) or len(answers) != len(probes):
            raise Mistake("type", f"{'、'.join(probes)} の組を渡します。")
        for (name, one), answer in zip(probes.items(), answers, strict=True):
            try:
                one(answer)
            except Mistake as mistake:
                raise Mistake(mistake.hint, f"{name}: {mistake.message}") from None

    return probe


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _steady(given: Callable[[Any], Any]) -> None:
    """The logistic function does not overflow."""
    make = _own(given, "Value")
    for x in (-800.0, 800.0):
        try:
            node = given(make(x))
        except OverflowError:
            raise Mistake(
                "overflow",
                f"x = {fmt(x, 0)} であふれます。exp の中がいつも 0 以下になるように、"
                "x の正負で式を分けるか、tanh を使います。",
            ) from None
        if not abs(node.data - (x > 0)) < 1e-12:
            raise Mistake("limit", f"x = {fmt(x, 0)} の値は {int(x > 0)} です。")


def tanh_sigmoid(answer: Any) -> Result:
    """Exercise 1: tanh as one node, and the logistic function without overflow."""
    tanh_known = [
        (
            "input",
            "局所微分 1 − y² の y は、x ではなく tanh x です。",
            lambda x: 1 - x * x,
        ),
        ("unsquared", "y を 2 乗していません。", lambda x: 1 - math.tanh(x)),
    ]
    sigmoid_known = [
        (
            "inner",
            "y (1 − y) の y は、x ではなくシグモイドの値です。",
            lambda x: x * (1 - x),
        ),
        ("half", "(1 − y) を掛けていません。", _sigmoid),
    ]
    tanh = _node(math.tanh, lambda x: 1 - math.tanh(x) ** 2, tanh_known)
    node = _node(_sigmoid, lambda x: _sigmoid(x) * (1 - _sigmoid(x)), sigmoid_known)

    def sigmoid(given: Callable[[Any], Any]) -> None:
        node(given)
        _steady(given)

    return check("演習1", answer, _each(tanh_ex=tanh, sigmoid_ex=sigmoid))


def silu(answer: Any) -> Result:
    """Exercise 2: x times the logistic function."""

    def slope(x: float) -> float:
        return _sigmoid(x) + x * _sigmoid(x) * (1 - _sigmoid(x))

    known = [
        (
            "first-term",
            "積の微分の片方だけです。x のほうの微分も足します。",
            _sigmoid,
        ),
        (
            "second-term",
            "積の微分の片方だけです。σ(x) そのものも足します。",
            lambda x: x * _sigmoid(x) * (1 - _sigmoid(x)),
        ),
    ]
    return check("演習2", answer, _node(lambda x: x * _sigmoid(x), slope, known))


def send_back(answer: Any) -> Result:
    """Exercise 3: the sweep that adds up what arrives at a shared node."""

    def run(given: Callable[[Any, Any], Any], power: int) -> tuple[float, float]:
        make, order = _own(given, "Value"), _own(given, "topological_order")
        x = make(3.0)
        middle = x * x if power == 2 else x * 1.0
        end = middle * middle if power == 2 else middle * 2.0
        given(end, order(end))
        return x.grad, end.grad

    def probe(given: Callable[[Any, Any], Any]) -> None:
        callable_(given)
        chain, end = run(given, 1)
        if end == 0:
            raise Mistake("no-start", "出発点がありません。end の勾配を 1 にします。")
        if chain == 0:
            raise Mistake(
                "direction",
                "勾配が葉まで届きません。結果から材料へ、order の後ろから処理します。",
            )
        if chain != 2:
            raise Mistake(
                "chain",
                f"(x × 1) × 2 の勾配は 2 です（受け取った値: {fmt(chain)}）。"
                "届いた勾配に局所微分を掛けます。",
            )
        shared, _ = run(given, 2)
        if shared in (27.0, 54.0):
            raise Mistake(
                "overwrite",
                f"(x × x) × (x × x) の x = 3 での勾配は 108 です（受け取った値: "
                f"{fmt(shared)}）。2 か所から届いた分を、上書きせずに足します。",
            )
        if shared != 108:
            raise Mistake(
                "shared",
                f"(x × x) × (x × x) の x = 3 での勾配は 108 です"
                f"（受け取った値: {fmt(shared)}）。",
            )

    return check("演習3", answer, probe)


# --- sampling -----------------------------------------------------------------


def temperature(answer: Any) -> Result:
    """Exercise 4: the ratio of two probabilities at temperature 3."""
    known = [
        (8, "ignored", "温度 1 のときの比です。ロジットの差を 3 で割ります。"),
        (512, "multiplied", "3 を掛けています。温度では割ります。"),
        (3, "confused", "温度そのものではありません。e の (log 8 ÷ 3) 乗です。"),
    ]
    return check("演習4", answer, equals(2, known=known, form="整数"))


def _normal(kept: Sequence[float]) -> Numbers:
    total = 0.0
    for q in kept:
        total += q
    return [q / total if total else 0.0 for q in kept]


def _top_p(probabilities: Numbers, p: float, *, short: bool = False) -> Numbers:
    order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i])
    kept, total = set[int](), 0.0
    for i in order:
        if short and kept and total + probabilities[i] > p:
            break
        kept.add(i)
        total += probabilities[i]
        if total >= p:
            break
    return _normal([q if i in kept else 0.0 for i, q in enumerate(probabilities)])


DISTRIBUTIONS = (
    ([0.125, 0.5, 0.25, 0.125], 0.7),
    ([0.125, 0.5, 0.25, 0.125], 0.5),
    ([0.25, 0.25, 0.5], 1.0),
    ([0.0625, 0.9375], 0.125),
)


def _min_p(probabilities: Numbers, r: float) -> Numbers:
    floor = r * max(probabilities)
    return _normal([q if q >= floor else 0.0 for q in probabilities])


def top_p_min_p(answer: Any) -> Result:
    """Exercise 5: the likely symbols that hold p, and those near the likeliest."""
    top_known = [
        Known(
            "not-normal",
            "残したものの和が 1 になっていません。",
            lambda q, p: [a * (b > 0) for a, b in zip(q, _top_p(q, p), strict=True)],
        ),
        Known(
            "short",
            "1 つ少なく切っています。和がはじめて p 以上になるものまで残します。",
            lambda q, p: _top_p(q, p, short=True),
        ),
        Known(
            "threshold",
            "確率が p 以上のものを残すのではありません。高い順に足します。",
            lambda q, p: _normal([a if a >= p else 0.0 for a in q]),
        ),
        Known(
            "order",
            "並び順が変わっています。元の順のまま返します。",
            lambda q, p: sorted(_top_p(q, p), reverse=True),
        ),
    ]
    min_known = [
        Known(
            "sum",
            "残したものの和が 1 になっていません。",
            lambda q, r: [a if a >= r * max(q) else 0.0 for a in q],
        ),
        Known(
            "absolute",
            "r そのものと比べています。最大の確率の r 倍と比べます。",
            lambda q, r: _normal([a if a >= r else 0.0 for a in q]),
        ),
        Known(
            "strict",
            "ちょうど r 倍のものも残します。",
            lambda q, r: _normal([a if a > r * max(q) else 0.0 for a in q]),
        ),
    ]
    cases = (
        ([0.4, 0.2, 0.3, 0.1], 0.5),
        ([0.125, 0.5, 0.25, 0.125], 0.3),
        ([0.25, 0.25, 0.5], 0.125),
    )
    return check(
        "演習5",
        answer,
        _each(
            top_p_ex=against(_top_p, *DISTRIBUTIONS, known=top_known),
            min_p_ex=against(_min_p, *cases, known=min_known),
        ),
    )


# --- the model ----------------------------------------------------------------

Matrix = list[Numbers]


def _attention(
    queries: Matrix,
    keys: Matrix,
    values: Matrix,
    *,
    scale: bool = True,
    shift: int = 0,
    mask: str = "before",
) -> Matrix:
    """Causal attention with one feature at a time spoilt."""
    chapter = _chapter()
    outputs = []
    for t, query in enumerate(queries):
        size = math.sqrt(len(query)) if scale else 1.0
        scores = [chapter.dot(query, key) / size for key in keys]
        allowed = [i <= t + shift for i in range(len(keys))]
        shut = {"before": -math.inf, "zero": 0.0}.get(mask)
        if shut is not None:
            scores = [z if a else shut for z, a in zip(scores, allowed, strict=True)]
        weights = chapter.softmax(scores)
        if mask == "after":
            weights = [w if a else 0.0 for w, a in zip(weights, allowed, strict=True)]
        columns = zip(*values, strict=True)
        outputs.append([chapter.dot(weights, list(c)) for c in columns])
    return outputs


def masked_attention(answer: Any) -> Result:
    """Exercise 6: all positions at once, the future shut out before the softmax."""
    rng = random.Random(0)
    shapes = ((3, 2), (5, 4), (1, 3))
    cases = [
        tuple(
            [[rng.gauss(0, 1) for _ in range(width)] for _ in range(length)]
            for _ in range(3)
        )
        for length, width in shapes
    ]
    known = [
        Known(
            "leak",
            "未来を見ています。位置 t は 0 から t までだけを見ます。",
            lambda *qkv: _attention(*qkv, mask="none"),
        ),
        Known(
            "zero",
            "未来の点数を 0 にしても、重みは 0 になりません。−∞ にします。",
            lambda *qkv: _attention(*qkv, mask="zero"),
        ),
        Known(
            "after",
            "softmax のあとで 0 にすると、重みの和が 1 になりません。",
            lambda *qkv: _attention(*qkv, mask="after"),
        ),
        Known(
            "scale",
            "√d_h で割っていません。",
            lambda *qkv: _attention(*qkv, scale=False),
        ),
        Known(
            "off-by-one",
            "1 つ先まで見ています。i ≤ t のところだけを残します。",
            lambda *qkv: _attention(*qkv, shift=1),
        ),
    ]
    return check("演習6", answer, against(_attention, *cases, known=known, tol=1e-9))


def perplexity(answer: Any) -> Result:
    """Exercise 7: the exponential of a name's mean loss."""
    chapter = _chapter()
    tokenizer = chapter.Tokenizer(["ねこ", "こねこ", "ねここ"])
    config = chapter.Config(tokenizer.vocab_size, n_embd=4, n_head=2)
    model = chapter.build_model(config, tokenizer, seed=1, std=0.4)
    plain = model.numbers()

    def loss(name: str) -> float:
        return float(chapter.loss_for_document(plain, name))

    def reference(name: str) -> float:
        return math.exp(loss(name))

    known = [
        Known("loss", "損失のままです。e の損失乗にします。", loss),
        Known(
            "total",
            "名前全体の罰の和です。1 トークンあたりの平均を使います。",
            lambda name: math.exp(loss(name) * (len(name) + 1)),
        ),
        Known(
            "base-2",
            "損失の単位は nat です。底は e です。",
            lambda name: 2 ** loss(name),
        ),
        Known(
            "inverse",
            "符号が逆です。これは当たる確率の平均のほうです。",
            lambda name: 1 / reference(name),
        ),
    ]
    compare = against(reference, ("ねこ",), ("こねこ",), known=known, tol=1e-9)

    def probe(given: Callable[[Any, str], Any]) -> None:
        callable_(given)
        compare(lambda name: given(model, name))

    return check("演習7", answer, probe)


def diagnose(answer: Any) -> Result:
    """Exercise 8: which mistake made which curve."""
    large, small, zero = "歩幅が大きい", "歩幅が小さい", "はじめが全部 0"
    right = {"A": small, "B": zero, "C": large}
    known = [
        (
            {"A": zero, "B": small, "C": large},
            "flat",
            "A と B が逆です。全部 0 なら、損失はちょうど log V です。",
        ),
        (
            {"A": large, "B": zero, "C": small},
            "step",
            "A と C が逆です。歩幅が大きいと、損失は大きく上下します。",
        ),
    ]
    form = '{"A": "…", "B": "…", "C": "…"} の形'

    def probe(given: Any) -> None:
        if isinstance(given, dict) and set(given.values()) - {large, small, zero}:
            raise Mistake("words", f"原因は {large}・{small}・{zero} から選びます。")
        equals(right, known=known, form=form)(given)

    return check("演習8", answer, probe)
