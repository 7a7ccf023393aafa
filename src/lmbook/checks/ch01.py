"""Checks of chapter 1: one function per exercise, and the acceptance table.

Lesson definitions come from the chapter itself through the loader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from lmbook.chapters import load
from lmbook.checks import Known, Mistake, Result, against, callable_, check, value
from lmbook.repro import NG, OK, Table

Mix = Callable[..., Tensor]


def _chapter() -> ModuleType:
    return load("01")


def _hidden(*size: int, seed: int = 0) -> Tensor:
    """Small whole numbers [B, T, D], so that a learner can redo them by hand."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, size, generator=generator).double()


# --- exercises ----------------------------------------------------------------


def rows(answer: Any) -> Result:
    """Exercise 1: the rows of the embedding table that a gradient reaches."""
    known = [
        (
            {0, 1, 2, 4, 7},
            "pad",
            "パディングの 0 にも届くと考えています。ラベルが −100 の位置は数えません。",
        ),
        (
            {1, 2, 4, 7},
            "last",
            "2 は文の最後にあり、そこから当てる次がありません。勾配は届きません。",
        ),
        (
            set(range(10)),
            "tied",
            "全部の行に届くのは、出力層と重みを共有したときです。",
        ),
        ({4, 7}, "first", "1 からは次のトークンを当てます。行 1 にも届きます。"),
        ({"1", "4", "7"}, "text", "番号は文字列でなく、整数で書きます。"),
    ]
    probe = value({1, 4, 7}, known=known, form="番号の集合 {1, 2} の形")
    return check("演習1", answer, probe)


def cumsum(answer: Any) -> Result:
    """Exercise 2: the causal mean by running sums."""
    known = [
        Known("no-count", "合計のままです。個数で割ります。", lambda h: h.cumsum(1)),
        Known(
            "leak",
            "列全体の平均になっています。未来が混ざります。",
            lambda h: h.mean(1, keepdim=True).expand_as(h),
        ),
        Known(
            "off-by-one",
            "自分自身をふくめていません。",
            lambda h: (h.cumsum(1) - h) / _count(h).sub(1).clamp_min(1),
        ),
        Known(
            "off-by-one-count",
            "個数が 1 多すぎます。位置 0 の個数は 1 です。",
            lambda h: h.cumsum(1) / (_count(h) + 1),
        ),
        Known(
            "wrong-dim",
            "足す向きがちがいます。時間の軸は dim=1 です。",
            lambda h: h.cumsum(2) / torch.arange(1, h.shape[2] + 1),
        ),
    ]
    cases = ((_hidden(1, 3, 2),), (_hidden(2, 5, 3),), (_hidden(2, 4, 3).float(),))
    probe = against(_chapter().causal_mean, *cases, known=known)
    return check("演習2", answer, probe)


def _count(hidden: Tensor) -> Tensor:
    return torch.arange(1, hidden.shape[1] + 1, dtype=hidden.dtype)[:, None]


def query_mask(answer: Any) -> Result:
    """Exercise 3: a context whose padded places are zero after the mixer."""
    mean = _chapter().causal_mean
    mixer = _mixer()

    def reference(hidden: Tensor, mask: Tensor, mixer: Mix) -> Tensor:
        return mixer(mean(hidden, mask)) * mask[..., None].to(hidden.dtype)

    known = [
        Known(
            "before",
            "マスクを mixer の前に掛けています。バイアスでまた 0 でなくなります。",
            lambda h, m, f: f(mean(h, m) * m[..., None]),
        ),
        Known(
            "no-mask",
            "余白の位置が 0 になっていません。",
            lambda h, m, f: f(mean(h, m)),
        ),
        Known(
            "inverted",
            "本物の位置を 0 にしています。マスクの 1 は本物です。",
            lambda h, m, f: f(mean(h, m)) * (1 - m)[..., None],
        ),
        Known(
            "no-key-mask",
            "平均をとるときに、余白を数えています。causal_mean にもマスクを渡します。",
            lambda h, m, f: f(mean(h)) * m[..., None],
        ),
    ]
    mask = torch.tensor([[0, 1, 1, 0]])
    probe = against(reference, (_hidden(1, 4, 2), mask, mixer), known=known)
    return check("演習3", answer, probe)


def _mixer() -> nn.Module:
    mixer = nn.Linear(2, 2).double().requires_grad_(False)
    nn.init.eye_(mixer.weight)
    nn.init.ones_(mixer.bias)
    return mixer


def leak(answer: Any) -> Result:
    """Exercise 4: which of three mixers sees the future."""
    known: list[tuple[Any, str, str]] = [
        (
            {"mixer_a"},
            "cummax",
            "mixer_a の cummax は、そこまでの最大値です。未来は見ません。",
        ),
        (
            {"mixer_c"},
            "shift",
            "mixer_c は右へずらして足しています。見るのは一つ前です。",
        ),
        (set(), "none", "一つは漏れています。割る数がどこから来るか見ます。"),
        (
            {"mixer_a", "mixer_b"},
            "cummax-too",
            "mixer_b は合っています。mixer_a の cummax は未来を見ません。",
        ),
        (
            {"mixer_b", "mixer_c"},
            "shift-too",
            "mixer_b は合っています。mixer_c が見るのは一つ前です。",
        ),
    ]
    form = '名前の集合 {"mixer_a"} の形'
    return check("演習4", answer, value({"mixer_b"}, known=known, form=form))


def recent(answer: Any) -> Result:
    """Exercise 5: a causal mixer that beats the causal mean on a first-order chain."""

    def probe(mix: Any) -> None:
        callable_(mix)
        hidden = _hidden(2, 6, 3)
        got = mix(hidden)
        if got is None:
            raise Mistake("no-return", "値が返っていません。return を書きます。")
        if not isinstance(got, Tensor) or got.shape != hidden.shape:
            size = tuple(getattr(got, "shape", ()))
            text = f"形は {tuple(hidden.shape)} です（受け取った形: {size}）。"
            raise Mistake("shape", text)
        if _chapter().future_effect(mix, _chapter().replace_all) > 1e-9:
            raise Mistake("leak", "未来が漏れています。位置 i は i までしか見ません。")
        earlier = torch.tensor([1.0, 1, 1, 1, 1, 0])[:, None].to(hidden.dtype)  # [T, 1]
        if torch.equal(mix(hidden + earlier)[:, -1], got[:, -1]):
            text = "前を見ていません。前の位置を変えても、最後の出力が同じです。"
            raise Mistake("no-past", text)
        mean, mine = (_chain_loss(m) for m in (_chapter().causal_mean, mix))
        if not mine < mean - 0.1:
            text = (
                f"損失は {mine:.2f} で、因果平均の {mean:.2f} に 0.1 以上の差で"
                "勝っていません。現在の重みを大きくします。"
            )
            raise Mistake("not-better", text)

    return check("演習5", answer, probe)


def _chain_loss(mix: Mix, steps: int = 40) -> float:
    """Training loss of a small model with ``mix`` on the chapter's chain."""
    import random

    chapter = _chapter()
    ids = chapter.chain_batch(16, 24, random.Random(0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = chapter.MixingLM(mix, 12, 16).double()
        return float(chapter.train(model, ids, torch.ones_like(ids), steps, 0.02)[-1])


# --- acceptance ---------------------------------------------------------------


def acceptance(
    current: type[nn.Module],
    causal: type[nn.Module],
    causal_mean: Mix,
    loss: Mix,
    leaky: Sequence[Mix],
) -> Table:
    """The acceptance table E-41..E-48 of two model classes and a mixer.

    A row that raises counts as failed. ``leaky`` are mixers that must *fail* the
    no-future test.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        items = _acceptance(current, causal, causal_mean, loss, leaky)
        table = [[text, OK if _holds(test) else NG] for text, test in items]
    return Table(["約束", "結果"], table)


def _holds(test: Callable[[], bool]) -> bool:
    try:
        return bool(test())
    except Exception:
        return False


def _acceptance(
    current: type[nn.Module],
    causal: type[nn.Module],
    causal_mean: Mix,
    loss: Mix,
    leaky: Sequence[Mix],
) -> list[tuple[str, Callable[[], bool]]]:
    chapter = _chapter()
    ids = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0]])  # [B, T]
    model = causal(8, 16, padding_idx=0)
    labels = chapter.make_labels(ids, ids != 0)

    def moved() -> list[bool]:
        before: Tensor = model.token_embedding.weight.detach().clone()  # type: ignore[union-attr, operator]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        loss(model(ids, ids != 0), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        after: Tensor = model.token_embedding.weight.detach()  # type: ignore[union-attr, operator]
        return (after != before).any(dim=1).tolist()

    step = moved()

    def falls() -> bool:
        rows = [r[m].tolist() for r, m in zip(ids, ids != 0, strict=True)]
        lowest = chapter.conditional_entropy(chapter.next_pairs(rows, tuple))
        losses = chapter.train(causal(8, 16, 0), ids, ids != 0, 200, 0.01)
        return bool(losses[-1] < losses[0] / 2 and losses[-1] < lowest + 0.02)

    def effect(mix: Mix) -> float:
        return float(chapter.future_effect(mix, chapter.replace_all))

    def sizes(*models: nn.Module) -> bool:
        return all(m(ids, ids != 0).shape == (2, 4, 8) for m in models)

    embedded = model.token_embedding
    return [
        ("埋め込みの形は (B, T, D)", lambda: embedded(ids).shape == (2, 4, 16)),  # type: ignore[operator]
        ("ロジットの形は (B, T, V)", lambda: sizes(current(8, 16), model)),
        (
            "1 回の更新で、出てきた行だけが動く",
            lambda: step == [False, True, False, False, True, True, True, False],
        ),
        ("パディングの行は動かない", lambda: not step[0]),
        (
            "まぜても形は変わらない",
            lambda: causal_mean(embedded(ids)).shape == (2, 4, 16),  # type: ignore[operator]
        ),
        ("因果平均は、未来の検査に合格する", lambda: effect(causal_mean) == 0),
        (
            "漏れたまぜ方は、未来の検査に不合格になる",
            lambda: all(effect(mix) > 1e-3 for mix in leaky),
        ),
        ("損失は半分以下になり、下限まで 0.02 以内", falls),
    ]
