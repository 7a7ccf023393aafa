"""Checks of chapter 4: one function per exercise.

Lesson definitions come from the chapter itself through the loader.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from lmbook.chapters import load
from lmbook.checks import Known, Mistake, Result, against, callable_, check
from lmbook.repro import fmt


def _chapter() -> ModuleType:
    return load("04")


def _parts(*size: int, seed: int = 0, count: int = 3) -> list[Tensor]:
    """``count`` tensors [*size] of float64 normal numbers."""
    generator = torch.Generator().manual_seed(seed)
    made = (count, *size)
    return list(torch.randn(made, generator=generator, dtype=torch.float64))


def _model(seed: int = 0) -> Any:
    """A small TensorGPT in float64 and a padded table of three names and three more."""
    chapter = _chapter()
    scalar = chapter.SCALAR
    docs = ["ねこ", "こねこ", "ね", "ねここね", "こ", "ここねねこ"]
    tokenizer = scalar.Tokenizer(docs)
    config = scalar.Config(tokenizer.vocab_size, 4, 2, 1, 8)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        twin = chapter.twin_of(scalar.build_model(config, tokenizer, seed, 0.5))
    finally:
        torch.set_default_dtype(before)
    return twin, *chapter.tabulate(docs, tokenizer, 8)


# --- exercises ----------------------------------------------------------------


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    root: bool = True,
    shut: float | None = -math.inf,
    shift: int = 1,
    dim: int = -1,
) -> Tensor:
    """Causal attention with one feature at a time spoilt."""
    scores = q @ k.transpose(-2, -1) / (math.sqrt(q.shape[-1]) if root else 1.0)
    future = torch.ones_like(scores, dtype=torch.bool).triu(shift)
    if shut is not None:
        scores = scores.masked_fill(future, shut)
    mixed: Tensor = scores.softmax(dim).nan_to_num(0.0) @ v
    return mixed


def einsum(answer: Any) -> Result:
    """Exercise 1: causal attention written with einsum."""
    known = [
        Known(
            "leak",
            "未来を見ています。softmax の前に未来の点数を −∞ にします。",
            lambda *qkv: _attention(*qkv, shut=None),
        ),
        Known(
            "zero",
            "点数を 0 にしても重みは 0 になりません。−∞ にします。",
            lambda *qkv: _attention(*qkv, shut=0.0),
        ),
        Known(
            "scale",
            "√d_h で割っていません。",
            lambda *qkv: _attention(*qkv, root=False),
        ),
        Known(
            "off-by-one",
            "1 つ先まで見ています。三角は triu(1) です。",
            lambda *qkv: _attention(*qkv, shift=2),
        ),
        Known(
            "axis",
            "softmax の軸がちがいます。見られる側（最後の軸）で和を 1 にします。",
            lambda *qkv: _attention(*qkv, dim=-2),
        ),
    ]
    cases = [tuple(_parts(*size)) for size in ((2, 3, 5, 4), (1, 1, 3, 2))]
    return check("演習1", answer, against(_attention, *cases, known=known, tol=1e-9))


def accumulate(answer: Any) -> Result:
    """Exercise 2: the gradient of a large batch from small ones."""
    chapter = _chapter()

    def gradient(model: Any) -> Tensor:
        found = [p.grad for p in model.parameters()]
        if any(g is None for g in found):
            raise Mistake(
                "no-backward",
                "勾配がありません。切り分けた損失ごとに backward します。",
            )
        return torch.cat([g.flatten() for g in found])

    def target(ids: Tensor, labels: Tensor, mean: str = "document_mean") -> Tensor:
        model, _, _ = _model()
        getattr(chapter, mean)(model(ids), labels).backward()
        return gradient(model)

    def probe(given: Callable[..., Any]) -> None:
        callable_(given)
        for parts in (3, 2):
            model, ids, labels = _model()
            stale = [torch.ones_like(p) for p in model.parameters()]
            for p, g in zip(model.parameters(), stale, strict=True):
                p.grad = g.clone()
            calls = [0]
            model.register_forward_hook(lambda *_, c=calls: c.__setitem__(0, c[0] + 1))
            given(model, ids, labels, parts)
            got, right = gradient(model), target(ids, labels)
            old = torch.cat([g.flatten() for g in stale])
            size = len(ids) // parts
            last = target(ids[-size:], labels[-size:])
            _gradient(got, right, old, last, target(ids, labels, "token_mean"), parts)
            if calls[0] != parts:
                raise Mistake(
                    "calls",
                    f"model を {parts} 回呼びます（呼んだ回数: {calls[0]}）。"
                    "一度に読むと、メモリーの節約になりません。",
                )

    return check("演習2", answer, probe)


def _gradient(
    got: Tensor, right: Tensor, old: Tensor, last: Tensor, token: Tensor, parts: int
) -> None:
    """Name the mistake that made ``got`` of what should be ``right``."""
    if torch.equal(got, old):
        raise Mistake(
            "no-backward", "勾配が変わっていません。損失ごとに backward します。"
        )
    known = [
        ("stale", "前の勾配が残っています。はじめに zero_grad します。", right + old),
        (
            "sum",
            f"勾配の和になっています。損失を {parts} で割ります。",
            right * parts,
        ),
        (
            "last",
            "最後の分だけです。zero_grad は、はじめに 1 回だけ呼びます。",
            last / parts,
        ),
        (
            "last-whole",
            "最後の分だけで、割ってもいません。はじめに 1 回だけ 0 に戻します。",
            last,
        ),
        ("token", "トークンの平均です。document_mean を使います。", token),
    ]
    if torch.allclose(got, right, rtol=0, atol=1e-9):
        return
    for hint, message, wrong in known:
        if torch.allclose(got, wrong, rtol=0, atol=1e-9):
            raise Mistake(hint, message)
    apart = fmt((got - right).abs().max())
    raise Mistake("value", f"勾配がちがいます（一番大きな差: {apart}）。")


def tie(answer: Any) -> Result:
    """Exercise 3: one table at both ends, and the count of weights."""

    def probe(given: Callable[[Any], Any]) -> None:
        callable_(given)
        model, _, _ = _model()
        before = sum(p.numel() for p in model.parameters())
        table, head = model.wte.weight, model.lm_head.weight
        got = given(model)
        if got is None:
            raise Mistake("no-return", "重みの数を返します。return を書きます。")
        if isinstance(got, bool) or not isinstance(got, int):
            kind = type(got).__name__
            raise Mistake("type", f"数は整数で返します（受け取った型: {kind}）。")
        if model.lm_head.weight is not model.wte.weight:
            if model.lm_head.weight is head and not torch.equal(table, head):
                raise Mistake("untied", "lm_head の重みが、もとのままです。")
            raise Mistake(
                "copy",
                "値の写しです。これから学習すると離れていきます。同じものを入れます。",
            )
        if model.wte.weight is not table:
            raise Mistake("direction", "残すのは wte の重みのほうです。")
        right = before - head.numel()
        if got == before:
            raise Mistake("twice", "共有した重みを 2 回数えています。")
        if got == right - head.numel():
            raise Mistake("none", "共有した重みも 1 回は数えます。")
        if got != right:
            raise Mistake("count", f"重みの数は {right} です（受け取った値: {got}）。")

    return check("演習3", answer, probe)


def extend(answer: Any) -> Result:
    """Exercise 4: a cache of keys and values that equals reading anew."""
    chapter = _chapter()

    def read(
        step: Callable[..., Any], q: Tensor, k: Tensor, v: Tensor, cuts: list[int]
    ) -> Tensor:
        past, rows, start = None, [], 0
        for end in cuts:
            cut = slice(start, end)
            inputs = [part[:, :, cut] for part in (q, k, v)]
            mine = [part.clone() for part in inputs]
            found = step(past, *mine)
            if found is None:
                raise Mistake("no-return", "値が返っていません。return を書きます。")
            if not isinstance(found, tuple) or len(found) != 2:
                raise Mistake("type", "(混ぜた結果, 新しい (k, v)) の 2 つを返します。")
            if not all(map(torch.equal, inputs, mine)):
                raise Mistake("in-place", "引数を書きかえています。")
            mixed, past = found
            _past(past, end, k, v)
            rows.append(mixed)
            start = end
        return torch.cat(rows, 2)

    def probe(given: Callable[..., Any]) -> None:
        callable_(given)
        q, k, v = _parts(2, 2, 5, 4)
        right = chapter.masked_attention(q, k, v)
        for cuts in ([1, 2, 3, 4, 5], [3, 5]):
            got = read(given, q, k, v, cuts)
            if got.shape != right.shape:
                sizes = tuple(right.shape), tuple(got.shape)
                text = f"形は {sizes[0]} です（受け取った形: {sizes[1]}）。"
                raise Mistake("shape", text)
            if torch.allclose(got, right, rtol=0, atol=1e-9):
                continue
            if cuts[0] > 1:
                raise Mistake(
                    "chunk",
                    "1 個ずつなら合いますが、まとめて読むと合いません。"
                    "新しい分の中の未来も隠します。",
                )
            raise Mistake(
                "value",
                "読み直した結果と合いません。"
                "混ぜるときも、過去をふくめた k と v を使います。",
            )

    return check("演習4", answer, probe)


def _past(past: Any, end: int, k: Tensor, v: Tensor) -> None:
    """The new past must hold all keys and values so far, oldest first."""
    if not isinstance(past, tuple) or len(past) != 2:
        raise Mistake("past-type", "新しい past は (k, v) の組です。")
    keys, values = past
    sizes = [part.shape[2] for part in past if part.ndim == 4]
    if sizes != [end, end]:
        raise Mistake(
            "grow",
            f"{end} 個読んだのに、past の長さが {sizes} です。3 番目の軸でつなぎます。",
        )
    if torch.equal(keys, k[:, :, :end]) and torch.equal(values, v[:, :, :end]):
        return
    if torch.equal(keys, v[:, :, :end]) and torch.equal(values, k[:, :, :end]):
        raise Mistake("swapped", "k と v が入れかわっています。")
    raise Mistake("order", "古いものを前、新しいものを後ろにつなぎます。")


def rope_base(answer: Any) -> Result:
    """Exercise 5: RoPE with another base."""

    def reference(
        x: Tensor,
        positions: Tensor,
        base: float,
        *,
        fixed: bool = False,
        sign: float = 1.0,
        power: float = 1.0,
        half: bool = False,
    ) -> Tensor:
        d_h = x.shape[-1]
        steps = torch.arange(0, d_h, 2, dtype=torch.float64) * power / d_h
        speed = (10000.0 if fixed else base) ** -steps
        angle = sign * positions[:, None].double() * speed
        if half:
            a, b = x.chunk(2, -1)
        else:
            a, b = x[..., 0::2], x[..., 1::2]
        one = a * angle.cos() - b * angle.sin()
        other = a * angle.sin() + b * angle.cos()
        if half:
            return torch.cat((one, other), -1)
        return torch.stack((one, other), -1).flatten(-2)

    known = [
        Known(
            "ignored",
            "base を使っていません。10000 のままです。",
            lambda *a: reference(*a, fixed=True),
        ),
        Known(
            "sign",
            "回す向きが逆です。1 番目は a cos − b sin です。",
            lambda *a: reference(*a, sign=-1.0),
        ),
        Known(
            "power",
            "指数が半分です。組 i の指数は −2i / d_h です。",
            lambda *a: reference(*a, power=0.5),
        ),
        Known(
            "half",
            "前半と後半を組にしています。組は隣どうしです。",
            lambda *a: reference(*a, half=True),
        ),
    ]
    cases = (
        (_parts(2, 3, 8, count=1)[0], torch.arange(3), 10000.0),
        (_parts(5, 6, count=1, seed=1)[0], torch.arange(4, 9), 500.0),
    )
    return check("演習5", answer, against(reference, *cases, known=known, tol=1e-9))
