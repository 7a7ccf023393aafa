"""Chapter 4: the same GPT in torch, held against chapter 3's."""

import math
import random
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
    Case,
    Wrong,
    ids,
    near,
    shape,
    shaped,
    tensors,
)
from fuzz.ch03 import BOOK as SCALAR
from fuzz.ch03 import DOC, DOCS, MODEL, NO_HEAT, NO_TOP, TOKENIZER
from lmbook import chapters

BOOK: Any = chapters.load("04")
LETTERS, LONGEST = 3, 4  # of the models of chapter 3's rows
TWIN = MODEL.map(lambda model: BOOK.twin_of(model))
NO_IDS = Wrong(
    [torch.tensor([[i]]) for i in (LETTERS, -1, 0.5)],
    "番号",
    (TypeError, IndexError),
)
TOO_LONG = torch.zeros(1, LONGEST + 1, dtype=torch.int64)
NO_SIZE = Wrong(tensors(7, 7), TORCH, NATURAL)
BATCH = shaped(
    lambda b, t: {"ids": ids(b, t, high=LETTERS), "labels": ids(b, t, high=LETTERS)},
    WHOLE,
    st.integers(1, LONGEST),
)


def heads(b: int, h: int, t: int) -> dict[str, Any]:
    return {name: tensors(b, h, t, 4) for name in "qkv"}


LONGER = Wrong(lambda g: tensors(1, 1, g.k.shape[2] + 1, 4), TORCH, NATURAL)
WIDER = Wrong(lambda g: tensors(*g.k.shape[:3], 5), TORCH, NATURAL)


def attention(same: Any = None, **wrong: Any) -> Case:
    """[B, H, T, d] three times -> [B, H, T, d]; the first place sees itself alone."""
    return Case(
        shaped(heads, WHOLE, WHOLE, SEVERAL),
        lambda got, g: (
            shape(got) == shape(g.q)
            and near(got[:, :, 0], g.v[:, :, 0])
            and (same is None or near(got, same(g.q, g.k, g.v)))
        ),
        wrong or {"v": LONGER},
    )


def row_of_results(low: float, mean: float, high: float) -> dict[str, float]:
    return dict(zip(("low", "mean", "high"), sorted((low, mean, high)), strict=True))


RANGE = st.builds(row_of_results, *[st.floats(0, 9)] * 3)
ENTRIES = st.lists(RANGE, min_size=1, max_size=3).map(
    lambda ranges: {"英語": [{"step": i, "loss": r} for i, r in enumerate(ranges)]}
)
BASELINES = {"bigram": 2.0, "trigram": 1.5, "4-gram": 1.0}
TABLE_OF = st.builds(
    lambda docs: BOOK.tabulate(docs, TOKENIZER, LONGEST),
    DOCS,
)
ROWS = shaped(
    lambda b, t: {"logits": tensors(b, t, 5), "labels": ids(b, t)}, SEVERAL, SEVERAL
)
NO_LABELS = Wrong(
    lambda g: (
        st.just(torch.full_like(g.labels, BOOK.IGNORE))
        | st.just(g.labels.T[1:])
        | st.just(g.labels + 99)
    ),
    "labels|" + TORCH,
    NATURAL,
)


def loss_of(name: str) -> Case:
    return Case(
        ROWS,
        lambda got, g: (
            shape(got) == (shape(g.labels) if name == "token_losses" else ())
            and bool((got >= 0).all())
        ),
        {"labels": NO_LABELS},
    )


def with_optimizer(twin: Any) -> dict[str, Any]:
    return {"model": twin, "optimizer": BOOK.make_adam(twin)}


CONFIGS = st.builds(SCALAR.Config, WHOLE, st.just(4), st.just(2), WHOLE, WHOLE)
OPTIMIZER = TWIN.map(lambda twin: BOOK.make_adam(twin, 0.01))

TABLE = {
    "cached_rows": Case(
        shaped(
            lambda t, d: {
                name: st.lists(
                    st.lists(st.floats(-3, 3), min_size=d, max_size=d),
                    min_size=t,
                    max_size=t,
                )
                for name in "qk"
            },
            WHOLE,
            WHOLE,
        ),
        lambda got, g: [len(row) for row in got] == list(range(1, len(g.q) + 1)),
        {"k": Wrong(st.just([[1.0] * 9]), "長さがちがいます")},
        call=lambda f, q, k: list(f(q, k)),
    ),
    "masked_weights": Case(
        shaped(lambda b, t, d: {"q": tensors(b, t, d), "k": tensors(b, t, d)}),
        lambda got, g: (
            near(got.sum(-1), torch.ones(got.shape[:-1])) and not got.triu(1).any()
        ),
        {
            "q": Wrong(
                lambda g: tensors(len(g.k), g.k.shape[1] + 1, g.k.shape[2]),
                "q は k より",
            ),
            "k": Wrong(tensors(1, 9, 7), TORCH, NATURAL),
        },
    ),
    "masked_attention": attention(),
    "fused_attention": attention(BOOK.masked_attention, k=WIDER),
    "einsum_ex": attention(BOOK.masked_attention),
    "rope_attention": attention(),
    "alibi_attention": attention(),
    "norm": Case(
        shaped(lambda *s: {"x": tensors(*s)}),
        lambda got, g: (
            shape(got) == shape(g.x) and (got.square().mean(-1) <= 1 + 1e-9).all()
        ),
    ),
    "Layer": Case(
        {"config": CONFIGS, "mix": st.just(BOOK.masked_attention)},
        lambda got, g: got.heads == g.config.n_head,
    ),
    "Layer.forward": Case(
        st.builds(
            lambda twin, g: {"self": twin.layers[0], **g},
            TWIN,
            shaped(lambda b, t: {"x": tensors(b, t, 2)}, WHOLE, WHOLE),
        ),
        lambda got, g: shape(got) == shape(g.x),
        {"x": NO_SIZE},
    ),
    "TensorGPT": Case(
        {
            "config": CONFIGS,
            "mix": st.just(BOOK.masked_attention),
            "places": st.booleans(),
        },
        lambda got, g: len(got.layers) == g.config.n_layer,
    ),
    "TensorGPT.forward": Case(
        st.builds(
            lambda twin, g: {"self": twin, "ids": g["ids"], "start": 0}, TWIN, BATCH
        ),
        lambda got, g: near(
            got[0],
            torch.tensor(
                [
                    [v.data for v in z]
                    for z in SCALAR.read_all(scalar_of(g.self), g.ids[0].tolist())
                ]
            ),
        ),
        {
            "ids": Wrong(
                [*NO_IDS.values, TOO_LONG],
                "番号|読めるのは",
                (TypeError, IndexError, ValueError),
            ),
            "start": Wrong([-1, LONGEST], "読めるのは"),
        },
    ),
    "copied_weights": Case(
        {"model": MODEL},
        lambda got, g: sum(w.numel() for w in got.values()) == len(g.model.params),
    ),
    "twin_of": Case(
        {
            "model": MODEL,
            "mix": st.just(BOOK.masked_attention),
            "places": st.booleans(),
        },
        lambda got, g: near(
            torch.cat([p.detach().flatten() for p in got.parameters()]),
            [p.data for p in g.model.params],
        ),
    ),
    "document_loss": Case(
        {"twin": TWIN, "tokens": st.lists(st.integers(0, 2), min_size=2, max_size=5)},
        lambda got, g: 0 < got < 5,
        {
            "tokens": Wrong(
                [[0, 3], [0, -1], [0] * 6, [0]],
                "番号|読めるのは|" + TORCH,
                NATURAL,
            )
        },
    ),
    "gradient_of": Case(
        {"model": MODEL, "doc": DOC.map(lambda doc: doc[:3])},
        lambda got, g: near(got, SCALAR.gradients(g.model, g.doc), 1e-6),
        call=lambda f, model, doc: gradient(f, BOOK.twin_of(model), doc),
        stray=False,
    ),
    "graph_size": Case(
        {"end": st.integers(1, 5).map(lambda n: chain(n))},
        lambda got, g: got >= 2,
        {"end": Wrong(st.just(torch.ones(1)), TORCH, NATURAL)},
    ),
    "make_adam": Case(
        {"twin": TWIN, "lr": st.floats(0, 1), "fused": st.just(False)},
        lambda got, g: got.defaults["lr"] == g.lr,
        {"lr": Wrong(st.floats(-9, -1), "learning rate")},
    ),
    "set_rate": Case(
        {"optimizer": OPTIMIZER, "step": st.integers(0, 4), "steps": st.just(4)},
        lambda got, g: near(g.optimizer.param_groups[0]["lr"], 0.01 * (1 - g.step / 4)),
        {"steps": Wrong(st.just(0), "zero|steps", (ZeroDivisionError, ValueError))},
        mutates=["optimizer"],
    ),
    "tabulate": Case(
        {
            "docs": DOCS,
            "tokenizer": st.just(TOKENIZER),
            "block_size": st.integers(1, 5),
        },
        lambda got, g: (
            shape(got[0]) == shape(got[1])
            and got[0].shape[1] <= g.block_size
            and [int((row != BOOK.IGNORE).sum()) for row in got[1]]
            == [min(len(doc) + 1, g.block_size) for doc in g.docs]
        ),
        {"docs": Wrong([[], ["c"]], "docs|語彙")},
    ),
    "token_losses": loss_of("token_losses"),
    "document_mean": loss_of("document_mean"),
    "token_mean": loss_of("token_mean"),
    "held_out_loss": Case(
        {"model": TWIN, "table": TABLE_OF},
        lambda got, g: 0 < got < 5,
        {"table": Wrong([None, ()], TORCH, NATURAL)},
    ),
    "train_step": Case(
        st.builds(
            lambda twin, batch: (
                with_optimizer(twin) | batch | {"mean": BOOK.document_mean}
            ),
            TWIN,
            BATCH,
        ),
        lambda got, g: 0 < got < 5,
        {"ids": NO_IDS},
        mutates=["model", "optimizer"],
        stray=False,
    ),
    "train": Case(
        {
            "model": TWIN,
            "table": TABLE_OF,
            "steps": st.integers(0, 3),
            "batch": WHOLE,
            "lr": st.just(0.01),
            "fused": st.just(False),
        },
        lambda got, g: len(got) == g.steps and all(0 < x < 5 for x in got),
        {"batch": NOT_POSITIVE},
        mutates=["model"],
        stray=False,
    ),
    "keep_top": Case(
        shaped(
            lambda b, n: {"logits": tensors(b, n), "k": st.none() | st.integers(1, 9)},
            WHOLE,
            WHOLE,
        ),
        lambda got, g: (
            ((got > -math.inf).sum(1) >= min(got.shape[1], g.k or got.shape[1])).all()
            and near(got.amax(1), g.logits.amax(1))
        ),
        {"k": Wrong(NO_TOP, "top_k")},
    ),
    "write": Case(
        {
            "model": TWIN,
            "tokenizer": st.just(TOKENIZER),
            "count": WHOLE,
            "temperature": st.sampled_from([0, 1e-320, 0.5, 1.0, 1e6]),
            "top_k": st.none() | st.integers(1, 9),
            "seed": SEEDS,
        },
        lambda got, g: (
            len(got) == g.count
            and all(len(name) <= LONGEST and set(name) <= set("ab") for name in got)
            and (g.temperature > 1e-300 or got == [greedy(g.model)] * g.count)
        ),
        {"top_k": Wrong(NO_TOP, "top_k"), "temperature": NO_HEAT},
    ),
    "curve_figure": Case(
        {
            "entries": ENTRIES,
            "baselines": st.just(BASELINES),
            "title": st.just("題"),
            "alt": st.just("図です。"),
        },
        lambda got, g: "4-gram" in got.description,
        {"baselines": Wrong(st.just({}), "bigram", (KeyError,))},
        cost=3,
    ),
    "range_text": Case(
        {"row": RANGE, "digits": st.integers(0, 5)},
        lambda got, g: got.count("–") == 1,
        {"row": Wrong(st.just({}), "low|mean|high", (KeyError,))},
    ),
    "overlaps": Case(
        {"one": RANGE, "other": RANGE},
        lambda got, g: (
            got is BOOK.overlaps(g.other, g.one) and BOOK.overlaps(g.one, g.one)
        ),
        {"one": Wrong(st.just({}), "low|high", (KeyError,))},
    ),
    "passwords": Case(
        {"count": WHOLE, "rng": SEEDS.map(random.Random), "length": st.integers(1, 40)},
        lambda got, g: (
            [len(row) for row in got] == [g.length] * g.count
            and set("".join(got)) <= set(BOOK.LETTERS)
        ),
    ),
    "window_losses": Case(
        {
            "model": TWIN,
            "ids": shaped(
                lambda b, t: {"ids": ids(b, t, high=LETTERS)}, WHOLE, st.integers(2, 7)
            ).map(lambda g: g["ids"]),
        },
        lambda got, g: len(got) == g.ids.shape[1] - 1 and all(0 < x < 9 for x in got),
        {"ids": Wrong(ids(2, 3, low=3, high=5), "番号", (IndexError,))},
    ),
    "password_run": Case(
        {
            "seed": st.integers(0, 9),
            "steps": st.integers(0, 1),
            "block": st.sampled_from([2, 4]),
            "n_layer": st.just(1),
            "mix": st.just(BOOK.masked_attention),
            "places": st.booleans(),
        },
        lambda got, g: len(got) == 32 and all(0 < x < 9 for x in got),
        {"block": Wrong(NOT_POSITIVE, "block_size")},
        cost=6,
        stray=False,
    ),
    "multiplications": Case(
        {"T": WHOLE, "config": CONFIGS, "cached": st.booleans()},
        lambda got, g: got >= BOOK.multiplications(g.T, g.config, True) > 0,
    ),
    "cost_figure": Case(
        {"longest": st.sampled_from([1, 8, 512]), "cached": st.booleans()},
        lambda got, g: ("キャッシュ" in got.description) == g.cached,
        cost=3,
        stray=False,
    ),
    "accumulate_ex": Case(
        {"model": TWIN, "batch": BATCH, "parts": st.just(1)},
        lambda got, g: got,
        call=lambda f, model, batch, parts: accumulated(f, model, batch, parts),
        mutates=["model"],
        stray=False,
    ),
    "tie_ex": Case(
        {"model": TWIN},
        lambda got, g: (
            got == sum(p.numel() for p in g.model.parameters())
            and g.model.lm_head.weight is g.model.wte.weight
        ),
        mutates=["model"],
        stray=False,
    ),
    "extend_ex": Case(
        shaped(lambda b, h, t: {"past": st.none(), **heads(b, h, t)}),
        lambda got, g: (
            near(got[0], BOOK.masked_attention(g.q, g.k, g.v)) and near(got[1][0], g.k)
        ),
        {"past": Wrong(st.just(()), TORCH, NATURAL)},
    ),
    "CachedAttention": Case(
        {"extend": st.just(BOOK.extend_ex)}, lambda got, g: got.past is None
    ),
    "CachedAttention.__call__": Case(
        shaped(
            lambda b, h, t: {
                "self": st.builds(BOOK.CachedAttention, st.just(BOOK.extend_ex)),
                **heads(b, h, t),
            }
        ),
        lambda got, g: near(got, BOOK.masked_attention(g.q, g.k, g.v)),
        mutates=["self"],
    ),
    "read_cached": Case(
        {
            "model": TWIN,
            "ids": ids(2, 3, high=LETTERS),
            "extend": st.just(BOOK.extend_ex),
        },
        lambda got, g: near(got, g.model.eval() and whole(g.model, g.ids)),
        {
            "ids": Wrong(NO_IDS.values, "番号", (TypeError, IndexError)),
            "extend": Wrong([None, 1], "callable", (TypeError,)),
        },
        mutates=["model"],
        stray=False,
    ),
    "rope_base_ex": Case(
        shaped(
            lambda t, d: {
                "x": tensors(t, 2 * d),
                "positions": st.just(torch.arange(t)),
                "base": st.sampled_from([100.0, 10000.0]),
            },
            SEVERAL,
            WHOLE,
        ),
        lambda got, g: (
            shape(got) == shape(g.x) and near(got.norm(dim=-1), g.x.norm(dim=-1))
        ),
        {"positions": Wrong(st.just(torch.arange(9)), TORCH, NATURAL)},
    ),
}
TABLE = {f"04.{name}": case for name, case in TABLE.items()}


def scalar_of(twin: Any) -> Any:
    """Chapter 3's model with the weights of ``twin``."""
    model = SCALAR.build_model(twin.config, TOKENIZER, 0)
    values = torch.cat([p.detach().flatten() for p in twin.parameters()]).tolist()
    for p, value in zip(model.params, values, strict=True):
        p.data = value
    return model


def gradient(f: Any, twin: Any, doc: str) -> Any:
    return f(twin, BOOK.document_loss(twin, TOKENIZER.framed(doc)))


def chain(length: int) -> Any:
    end = torch.ones(1, requires_grad=True)
    for _ in range(length):
        end = end * 2.0
    return end


def greedy(twin: Any) -> str:
    """What chapter 3 writes at temperature 0 with the same weights."""
    return SCALAR.generate_one(scalar_of(twin), temperature=0)


def accumulated(f: Any, model: Any, batch: Any, parts: int) -> bool:
    f(model, batch["ids"], batch["labels"], parts)
    got = torch.cat([p.grad.flatten() for p in model.parameters()])
    loss = BOOK.document_mean(model(batch["ids"]), batch["labels"])
    return near(got, BOOK.gradient_of(model, loss))


def whole(model: Any, ids: Any) -> Any:
    for layer in model.layers:
        layer.mix = BOOK.masked_attention
    return model(ids)
