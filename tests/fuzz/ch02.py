"""Chapter 2: ways to tell a transformer the order, and what they cost."""

import math
from typing import Any

import torch
from hypothesis import strategies as st

from fuzz import (
    NATURAL,
    NOT_POSITIVE,
    SEEDS,
    SEVERAL,
    TORCH,
    WHOLE,
    WORDS,
    Case,
    Wrong,
    ids,
    near,
    shape,
    shaped,
    tensors,
)
from lmbook import chapters

BOOK: Any = chapters.load("02")
EVEN = st.sampled_from([2, 4, 6])
METHOD = st.sampled_from(list(BOOK.METHODS))
TASK = st.sampled_from(list(BOOK.TASKS.values()))
NO_METHOD = Wrong(WORDS, "method")
NO_IDS = Wrong(
    [torch.tensor([[i]]) for i in (12, -1, 0.5)],
    "番号",
    (TypeError, IndexError),
)
LONG = 7  # the rows of ORDER


def built(make: Any) -> Any:
    """A strategy of modules, each with weights of its own seed."""

    def made(seed: int) -> Any:
        torch.default_generator.manual_seed(seed)
        return make()

    return SEEDS.map(made)


def model_of(method: str = "add") -> Any:
    return built(lambda: BOOK.make_model(method, d_model=8))


MODELS = METHOD.flatmap(model_of)


def heads_of(b: int, h: int, t: int) -> dict[str, Any]:
    four = {name: tensors(b, h, t, 4) for name in "qkv"}
    return four | {
        "bias": st.none() | tensors(h, t, t),
        "causal": st.booleans(),
    }


def attended(got: Any, g: Any) -> bool:
    """Weights are shares, none for the future; the mix is theirs."""
    mixed, weights = got
    ahead = weights.triu(1)
    return (
        near(weights.sum(-1), torch.ones(weights.shape[:-1]))
        and near(mixed, weights @ g.v)
        and (not g.causal or not ahead.any())
    )


def turned(got: Any, g: Any) -> bool:
    """A turn keeps shape, type and length."""
    return (
        shape(got) == shape(g.x)
        and got.dtype == g.x.dtype
        and near(got.norm(dim=-1), g.x.norm(dim=-1))
    )


def rotated(width: Any = EVEN) -> Any:
    return shaped(
        lambda b, t, d: {
            "x": tensors(b, t, d),
            "positions": st.integers(0, 50).map(lambda p: torch.arange(p, p + t)),
        },
        WHOLE,
        WHOLE,
        width,
    )


ODD = Wrong(lambda g: tensors(*g.x.shape[:2], 3), "幅|偶数|" + TORCH, NATURAL)


def entry(name: str, wide: int = 1, *more: Any, width: Any = EVEN) -> Case:
    """An entry layer: how wide it is."""
    return Case(
        {"vocab_size": WHOLE, "d_model": width},
        lambda got, g: got.width == wide * g.d_model,
        {
            "vocab_size": Wrong(st.integers(-3, -1), TORCH, NATURAL),
            "d_model": Wrong(st.integers(-3, 0), TORCH + "|zero|power", NATURAL),
        },
    )


def embedded(name: str, wide: int) -> Case:
    """Ids [B, T] -> [B, T, width]."""
    kind = getattr(BOOK, name)
    return Case(
        st.builds(
            lambda m, g: {"self": m, **g},
            built(lambda: kind(12, 4)),
            shaped(lambda b, t: {"ids": ids(b, t, high=12)}, WHOLE, WHOLE),
        ),
        lambda got, g: shape(got) == (*g.ids.shape, wide),
        {"ids": NO_IDS},
    )


def block(kind: Any, name: str) -> Case:
    return Case(
        st.builds(
            lambda m, g: {"self": m, **g},
            st.sampled_from(["plain", "rope", "alibi"]).flatmap(
                lambda way: built(lambda: kind(4, 2, way))
            ),
            shaped(
                lambda b, t: {"x": tensors(b, t, 4), "causal": st.booleans()},
                WHOLE,
                WHOLE,
            ),
        ),
        lambda got, g: shape(got) == shape(g.x),
        {"x": Wrong(tensors(1, 2, 3), TORCH, NATURAL)},
    )


WIDTHS = {
    "width": st.just(8),
    "heads": st.sampled_from([1, 2, 4]),
    "way": st.sampled_from(["plain", "rope", "alibi"]),
}
NO_HEADS = Wrong([0, -1, 3, 5, 16], "heads")
NO_WAY = Wrong(WORDS | st.none(), "way")


def through(width: int | None, **more: Any) -> Case:
    return Case(
        st.builds(
            lambda m, g: {"self": m, **g, **more},
            MODELS,
            shaped(lambda b, t: {"ids": ids(b, t, high=12)}, WHOLE, WHOLE),
        ),
        lambda got, g: shape(got) == (*g.ids.shape, width or g.self.entry.width),
        {"ids": NO_IDS},
    )


DRAWN = shaped(lambda b, t: {"ids": ids(b, t, high=12)}, WHOLE, st.integers(4, 16))


def task(answer: Any) -> Case:
    """Labels where there is an answer; each is what ``answer`` says of the row."""

    def holds(got: Any, g: Any) -> bool:
        found, labels = got
        asked = (labels != BOOK.IGNORE).nonzero().tolist()
        return (
            shape(found) == shape(labels) == shape(g.ids)
            and 0 <= found.min() <= found.max() < BOOK.VOCAB
            and all(
                labels[b, t] == answer(found[b].tolist(), t, g.ids[b].tolist())
                for b, t in asked
            )
        )

    return Case(DRAWN, holds, {"ids": Wrong(ids(3), TORCH, NATURAL)})


def recent(row: list[int], t: int, drawn: list[int]) -> int:
    return [x for x in row[: t + 1] if x][-1]


def following(row: list[int], t: int, drawn: list[int]) -> int:
    period = 4 + drawn[-1] % 5
    return row[t + 1 - period] if t + 1 < len(row) else -1


ROWS = [
    {"task": "a", "method": "add", "heads": 2, "accuracy": [0.5, None]},
    {"task": "a", "method": "add", "heads": 2, "accuracy": [0.7, 1.0]},
    {"task": "b", "method": "add", "heads": 1, "accuracy": [0.1, 0.2]},
]


def shares(got: Any) -> bool:
    return near(math.fsum(got), 1.0) and min(got) >= 0


TABLE = {
    "attend": Case(
        shaped(heads_of, SEVERAL, SEVERAL, SEVERAL),
        attended,
        {
            "bias": Wrong(
                lambda g: (
                    st.just(torch.ones(g.q.shape[-2], g.q.shape[-2]) > 0)
                    | tensors(9, 7)
                ),
                "bias|" + TORCH,
                NATURAL,
            ),
            "k": Wrong(tensors(1, 1, 3, 5), TORCH, NATURAL),
            "v": Wrong(lambda g: tensors(1, 1, g.v.shape[2] + 1, 4), TORCH, NATURAL),
        },
    ),
    "split_heads": Case(
        shaped(
            lambda b, t, h: {"x": tensors(b, t, 4 * h), "heads": st.just(h)},
        ),
        lambda got, g: (
            shape(got) == (len(g.x), g.heads, g.x.shape[1], 4)
            and torch.equal(BOOK.join_heads(got), g.x)
        ),
        {"heads": lambda g: NOT_POSITIVE | st.just(g.x.shape[-1] + 1)},
    ),
    "join_heads": Case(
        shaped(lambda b, h, t: {"x": tensors(b, h, t, 3)}),
        lambda got, g: torch.equal(BOOK.split_heads(got, g.x.shape[1]), g.x),
        {"x": Wrong(tensors(2, 2), TORCH, NATURAL)},
    ),
    "check_ids": Case(
        {"ids": ids(2, 3, high=12), "size": st.just(12)},
        lambda got, g: got is None,
        {"ids": NO_IDS},
    ),
    "sinusoid": Case(
        {"length": WHOLE, "d_model": WHOLE, "start": st.integers(0, 99)},
        lambda got, g: (
            shape(got) == (g.length, g.d_model)
            and (got.abs() <= 1).all()
            and near(got, BOOK.sinusoid(g.start + g.length, g.d_model)[g.start :])
        ),
        {
            "length": Wrong(NOT_POSITIVE, "長さ"),
            "d_model": Wrong(NOT_POSITIVE, "幅"),
        },
    ),
    "shift_rotation": Case(
        {"k": st.integers(-9, 9), "d_model": EVEN},
        lambda got, g: (
            near(got @ got.T, torch.eye(g.d_model))
            and near(
                BOOK.sinusoid(1, g.d_model, 9 + g.k),
                BOOK.sinusoid(1, g.d_model, 9) @ got.T,
            )
        ),
        {"d_model": Wrong([1, 3, 5], "d_model|偶数|幅")},
    ),
    "TransformerInput": Case(
        {
            "vocab_size": WHOLE,
            "d_model": WHOLE,
            "max_len": WHOLE,
            "dropout": st.floats(0, 1),
        },
        lambda got, g: got.width == g.d_model,
        {"dropout": st.sampled_from([-0.1, 1.5])},
        stray=False,
    ),
    "TransformerInput.forward": Case(
        st.builds(
            lambda m, x: {"self": m, "x": x},
            built(lambda: BOOK.TransformerInput(12, 3, 5, 0.0)),
            shaped(lambda b, t: {"x": ids(b, t, high=12)}, WHOLE, WHOLE).map(
                lambda g: g["x"]
            ),
        ),
        lambda got, g: shape(got) == (*g.x.shape, 3),
        {
            "x": Wrong(
                [*NO_IDS.values, torch.zeros(1, 6, dtype=torch.int64)],
                "番号|sequence length exceeds max_len",
                (TypeError, IndexError, ValueError),
            )
        },
    ),
    "TokenOnly": entry("TokenOnly", width=WHOLE),
    "TokenOnly.content": embedded("TokenOnly", 4),
    "TokenOnly.forward": embedded("TokenOnly", 4),
    "AddSinusoid": entry("AddSinusoid", width=WHOLE),
    "AddSinusoid.forward": embedded("AddSinusoid", 4),
    "Concat": entry("Concat", 2, width=WHOLE),
    "Concat.forward": embedded("Concat", 8),
    "ConcatProject": entry("ConcatProject", width=WHOLE),
    "ConcatProject.forward": embedded("ConcatProject", 4),
    "Split": Case(
        {"vocab_size": WHOLE, "d_model": EVEN},
        lambda got, g: got.width == g.d_model,
        {"d_model": Wrong([1, 3, 5], "幅は偶数")},
    ),
    "rope": Case(
        rotated(),
        turned,
        {
            "x": ODD,
            "positions": Wrong(
                lambda g: st.just(torch.arange(g.x.shape[1] + 1)), "時間は"
            ),
        },
    ),
    "half_split": Case(rotated(), turned, {"x": ODD}),
    "rope_half_ex": Case(
        shaped(
            lambda t, d: {"x": tensors(t, 2 * d), "angle": tensors(t, d)},
            SEVERAL,
            SEVERAL,
        ),
        turned,
        {"angle": Wrong(tensors(9, 9), TORCH, NATURAL)},
    ),
    "draw_rope": Case(
        {"offset": st.integers(0, 50)},
        lambda got, g: f"位置 {g.offset}" in got.description,
        cost=6,
        stray=False,
    ),
    "alibi_slopes": Case(
        {"heads": st.integers(1, 20)},
        lambda got, g: (
            len(set(got.tolist())) == len(got) == g.heads
            and 0 < got.min() <= got.max() < 1
        ),
        {"heads": NOT_POSITIVE},
    ),
    "alibi_bias": Case(
        {"heads": WHOLE, "T": WHOLE},
        lambda got, g: (
            shape(got) == (g.heads, g.T, g.T)
            and (got <= 0).all()
            and not got.diagonal(dim1=1, dim2=2).any()
        ),
        {"heads": NOT_POSITIVE},
    ),
    "Attention": Case(
        WIDTHS, lambda got, g: got.heads == g.heads, {"heads": NO_HEADS, "way": NO_WAY}
    ),
    "Attention.forward": block(BOOK.Attention, "x"),
    "Block": Case(
        WIDTHS,
        lambda got, g: got.attention.heads == g.heads,
        {"heads": NO_HEADS, "way": NO_WAY},
    ),
    "Block.forward": block(BOOK.Block, "x"),
    "TinyTransformer": Case(
        {
            "entry": built(lambda: BOOK.TokenOnly(12, 8)),
            "vocab_size": WHOLE,
            "heads": st.sampled_from([1, 2, 4]),
            "layers": st.integers(1, 2),
            "way": st.sampled_from(["plain", "rope", "alibi"]),
        },
        lambda got, g: len(got.blocks) == g.layers,
        {"heads": NO_HEADS, "way": NO_WAY},
        stray=False,
    ),
    "TinyTransformer.hidden": through(None, causal=True),
    "TinyTransformer.forward": through(12),
    "make_model": Case(
        {
            "method": METHOD,
            "vocab_size": WHOLE,
            "d_model": st.sampled_from([8, 16]),
            "heads": st.sampled_from([1, 2]),
            "layers": st.integers(1, 2),
            "max_len": WHOLE,
        },
        lambda got, g: (
            len(got.blocks) == g.layers and got.head.out_features == g.vocab_size
        ),
        {"method": NO_METHOD, "heads": Wrong([0, -1, 3, 5], "heads")},
        stray=False,
    ),
    "three_back": task(lambda row, t, drawn: row[t - 3]),
    "third_token": task(lambda row, t, drawn: row[2]),
    "most_recent": task(recent),
    "continue_block": task(following),
    "draw_batch": Case(
        {
            "task": TASK,
            "generator": st.builds(torch.Generator),
            "size": WHOLE,
            "T": st.integers(4, 9),
        },
        lambda got, g: shape(got[0]) == shape(got[1]) == (g.size, g.T),
    ),
    "accuracy": Case(
        {
            "model": MODELS,
            "task": TASK,
            "T": st.integers(9, 12),
            "size": st.integers(1, 8),
            "seed": SEEDS,
        },
        lambda got, g: 0 <= got <= 1,
        nan="a batch in which nothing is asked has no share of right answers",
    ),
    "train": Case(
        {
            "model": MODELS,
            "task": TASK,
            "steps": st.integers(0, 3),
            "seed": st.integers(0, 99),
            "T": st.integers(9, 12),
            "size": st.integers(4, 8),
            "lr": st.just(0.003),
        },
        lambda got, g: len(got) == g.steps and all(0 <= x < 20 for x in got),
        {"lr": Wrong(st.floats(-9, -1), "learning rate")},
        mutates=["model"],
        nan="a batch in which nothing is asked has no loss",
        cost=2,
    ),
    "untrained": Case(
        {"method": METHOD, "layers": st.integers(0, 2), "seed": st.integers(0, 99)},
        lambda got, g: len(got.blocks) == g.layers,
        {"method": NO_METHOD, "seed": Wrong([-1, None, 1.5], "seed")},
        stray=False,
    ),
    "order_differences": Case(
        {"model": MODELS, "ids": ids(2, LONG, high=12)},
        lambda got, g: len(got) == 3 and min(got) >= 0,
        {"ids": Wrong(ids(2, 3, high=12), TORCH, NATURAL)},
    ),
    "weight_count": Case(
        shaped(lambda a, b: {"module": st.just(torch.nn.Linear(a, b))}, WHOLE, WHOLE),
        lambda got, g: (
            got == g.module.in_features * g.module.out_features + g.module.out_features
        ),
    ),
    "costs": Case(
        {
            "width": st.sampled_from([8, 16, 64]),
            "entry": st.integers(0, 99),
            "table": st.none() | WHOLE,
            "ff": st.none() | WHOLE,
            "B": WHOLE,
            "T": WHOLE,
            "V": WHOLE,
        },
        lambda got, g: (
            got["出力層"] == g.V * g.width
            and all(type(n) is int and n >= 0 for n in got.values())
        ),
        {"width": Wrong([7, 12], "num_heads", (AssertionError,))},
    ),
    "fold_into_add": Case(
        {"model": model_of("project"), "max_len": st.integers(1, 16)},
        lambda got, g: near(
            got(torch.arange(g.max_len)[None] % 12),
            g.model(torch.arange(g.max_len)[None] % 12),
        ),
        {"model": Wrong(model_of("add"), "mix", (AttributeError,))},
    ),
    "decode_share": Case(
        {
            "d": st.sampled_from([4, 32]),
            "noise": st.sampled_from([0.0, 1.0]),
            "trials": WHOLE,
            "words": st.just(9),
            "places": WHOLE,
        },
        lambda got, g: 0 <= got <= 1 and (g.noise > 0 or got == 1),
        {"trials": Wrong(st.just(0), "zero", (ZeroDivisionError,))},
    ),
    "voices": Case(
        shaped(lambda t, d: {"E": tensors(t, d), "P": tensors(t, d)}, SEVERAL, SEVERAL),
        lambda got, g: got[0] >= 0 and all(-1.001 <= x <= 1.001 for x in got[1:]),
        {"P": Wrong(tensors(7, 7), TORCH, NATURAL)},
    ),
    "draw_scale": Case(
        {"scale": st.sampled_from([0.1, 1.0, 3.0])},
        lambda got, g: f"E + {g.scale:g} P" in got.description,
        cost=6,
        stray=False,
    ),
    "four_terms": Case(
        shaped(
            lambda t, d: {
                "e": tensors(t, d),
                "p": tensors(t, d),
                "to_q": st.just(torch.tanh),
                "to_k": st.just(torch.neg),
            },
            WHOLE,
            WHOLE,
        ),
        lambda got, g: (
            list(got) == BOOK.TERMS
            and all(shape(x) == (len(g.e), len(g.p)) for x in got.values())
        ),
        {"p": Wrong(tensors(7, 7), TORCH, NATURAL)},
    ),
    "add_up": Case(
        {
            "terms": st.lists(tensors(2, 2), min_size=4, max_size=4).map(
                lambda x: dict(enumerate(x))
            )
        },
        lambda got, g: near(got, torch.stack(list(g.terms.values())).sum(0)),
        {"terms": Wrong(st.just({"a": 1}), TORCH + "|values", NATURAL)},
    ),
    "normalised_parts": Case(
        {"model": model_of(), "ids": ids(2, 3, high=12)},
        lambda got, g: near(
            got[0] + got[1], g.model.blocks[0].norm1(g.model.entry(g.ids)), 1e-6
        ),
        {"ids": NO_IDS},
    ),
    "term_shares": Case(
        {"model": model_of(), "ids": ids(2, 3, high=12)},
        lambda got, g: len(got) == 4 and shares(got),
        {"ids": NO_IDS},
    ),
    "scores_of": Case(
        {
            "rows": st.just(ROWS),
            "task": st.just("a"),
            "method": st.just("add"),
            "heads": st.just(2),
        },
        lambda got, g: shape(got) == (2, 2) and got[0, 1].isnan(),
        nan="an accuracy that was not measured",
    ),
    "spread_text": Case(
        shaped(lambda n, k: {"scores": tensors(n, k)}, WHOLE, WHOLE),
        lambda got, g: got.count("±") == g.scores.shape[1],
    ),
    "positions_from_mask": Case(
        shaped(lambda b, t: {"mask": ids(b, t, high=2)}, WHOLE, WHOLE),
        lambda got, g: (
            shape(got) == shape(g.mask)
            and torch.equal(got[g.mask == 1], (g.mask.cumsum(1) - 1)[g.mask == 1])
        ),
        {
            "mask": Wrong(
                st.sampled_from([2, 0.5, -1, math.nan]).map(
                    lambda value: torch.tensor([[value]])
                ),
                "マスク",
            )
        },
    ),
    "scaled_sum_ex": Case(
        {"table": tensors(12, 4), "ids": ids(3, high=12), "waves": tensors(3, 4)},
        lambda got, g: near(got, 2 * g.table[g.ids] + g.waves),
        {"ids": Wrong(st.just(torch.tensor([12, 0, 0])), TORCH, NATURAL)},
    ),
    "grouped_weights_ex": Case(
        {
            "width": st.just(8),
            "heads": st.sampled_from([1, 2, 4]),
            "groups": st.sampled_from([1, 2]),
        },
        lambda got, g: got == 2 * 64 + 2 * 8 * g.groups * 8 // g.heads,
        {"heads": Wrong(st.just(0), "zero", (ZeroDivisionError,))},
    ),
}
TABLE = {f"02.{name}": case for name, case in TABLE.items()}
