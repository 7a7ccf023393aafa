"""Chapter 1: embeddings, causal means, the loss of the next token."""

import math
import random
from collections import Counter
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
from lmbook.repro import fmt

BOOK: Any = chapters.load("01")
SMALL = st.sampled_from([1.0, 0.0, 1e-6])
SENTENCES = st.lists(
    st.lists(WORDS, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=3
)


def masks(batch: int, length: int) -> Any:
    return st.none() | ids(batch, length, high=2)


def no_mask(g: Any) -> Any:
    """Masks that are as long as nothing here, or neither 0 nor 1."""
    batch, length = (g.hidden if hasattr(g, "hidden") else g.input_ids).shape[:2]
    return (
        ids(batch, length + 1, high=2)
        | ids(batch + 1, length, high=2)
        | st.sampled_from([2, -1, 0.5, math.nan]).map(
            lambda value: torch.full((batch, length), value, dtype=torch.float64)
        )
    )


NO_MASK = Wrong(no_mask, "attention_mask の(形|値)は")
FLAT = Wrong(tensors(3), TORCH + "|hidden", NATURAL)


def hidden(batch: int, length: int, width: int) -> dict[str, Any]:
    return {
        "hidden": tensors(batch, length, width),
        "attention_mask": masks(batch, length),
    }


def mixer(same: Any = None, wrong: Any = None, **more: Any) -> Case:
    """[B, T, D] -> [B, T, D] in one dtype; ``same`` is the value by another way."""
    return Case(
        shaped(hidden),
        lambda got, g: (
            shape(got) == shape(g.hidden)
            and got.dtype == g.hidden.dtype
            and (same is None or near(got, same(g.hidden, g.attention_mask)))
        ),
        {"hidden": FLAT, "attention_mask": NO_MASK} if wrong is None else wrong,
        **more,
    )


def mean_so_far(hidden: Any, mask: Any) -> Any:
    """The causal mean by loops."""
    made = torch.zeros_like(hidden)
    for b, row in enumerate(hidden):
        for t in range(len(row)):
            kept = [row[i] for i in range(t + 1) if mask is None or mask[b, i] == 1]
            if kept:
                made[b, t] = torch.stack(kept).mean(0)
    return made


def only(make: Any) -> Case:
    """A mixer of ``hidden`` alone."""
    return Case(
        shaped(lambda *s: {"hidden": tensors(*s)}),
        lambda got, g: (
            shape(got) == shape(g.hidden)
            and (make is None or near(got, make(g.hidden)))
        ),
        {"hidden": FLAT},
        nan="a row of zeros has no largest value to be divided by" if not make else "",
    )


# Models and batches

TOKENS = shaped(
    lambda b, t: {"input_ids": ids(b, t), "attention_mask": masks(b, t)}, WHOLE, WHOLE
)


def models(kind: Any, *start: Any) -> Any:
    def made(seed: int) -> Any:
        torch.default_generator.manual_seed(seed)
        return kind(*start, 6, 3)

    return SEEDS.map(made)


NO_IDS = Wrong(
    [torch.tensor([[i]]) for i in (6, -1, 0.5)],
    TORCH,
    (*NATURAL, IndexError),
)


def logits_of(kind: Any, *start: Any, mask: bool = True) -> Case:
    wrong = {"input_ids": NO_IDS} | ({"attention_mask": NO_MASK} if mask else {})
    return Case(
        st.builds(lambda m, g: {"self": m, **g}, models(kind, *start), TOKENS),
        lambda got, g: shape(got) == (*g.input_ids.shape, 6),
        wrong,
    )


def language_model(*start: str) -> Case:
    return Case(
        {
            "vocab_size": WHOLE,
            "hidden_dim": WHOLE,
            "padding_idx": st.sampled_from([None, 0]),
        },
        lambda got, g: (
            shape(got.token_embedding.weight) == (g.vocab_size, g.hidden_dim)
            and (g.padding_idx is None or not got.token_embedding.weight[0].any())
        ),
        {
            "vocab_size": Wrong(st.integers(-3, -1), TORCH, NATURAL),
            "hidden_dim": Wrong(st.integers(-3, -1), TORCH, NATURAL),
            "padding_idx": Wrong(st.integers(6, 9), "padding_idx", (AssertionError,)),
        },
        stray=False,
    )


def batches(length: int = 2) -> Any:
    """A batch with at least one token to predict."""
    return shaped(
        lambda b, t: {
            "input_ids": ids(b, t + length - 1, low=1),
            "attention_mask": st.just(torch.ones(b, t + length - 1)),
        },
        WHOLE,
        WHOLE,
    )


def with_model(kind: Any = None) -> Any:
    kind = kind or BOOK.CausalMeanLanguageModel
    return st.builds(lambda m, g: {"model": m, **g}, models(kind), batches())


NOTHING = Wrong(
    lambda g: st.just(torch.zeros_like(g.attention_mask)),
    "labels に当てるべきトークンがありません",
)
ROWS = st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=4), min_size=1)
GENERATOR = st.builds(lambda: torch.Generator().manual_seed(1))
RNG = SEEDS.map(random.Random)
MIX = st.sampled_from(list(BOOK.MIXERS.values()))


def batch_holds(got: Any, g: Any) -> bool:
    """Each row is its sentence between marks; the mask is 1 there and 0 else."""
    input_ids, mask = got
    words = {i: w for w, i in g.stoi.items()}
    texts = [
        " ".join(words[int(i)] for i, m in zip(row, kept, strict=True) if m)
        for row, kept in zip(input_ids, mask, strict=True)
    ]
    wanted = [" ".join(["<bos>", *s.split(), "<eos>"]) for s in g.sentences]
    return texts == wanted and ((input_ids == 0) == (mask == 0)).all().item()


def sentences_and_words(draw: Any) -> dict[str, Any]:
    return {"sentences": draw, "stoi": BOOK.build_vocab(draw)}


def floor(pairs: Any) -> float:
    """H(y | x) as H(x, y) - H(x)."""

    def entropy(things: list[Any]) -> float:
        return -sum(
            n / len(things) * math.log(n / len(things))
            for n in Counter(things).values()
        )

    return entropy(list(pairs)) - entropy([x for x, _ in pairs])


PAIRS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=9
)

TABLE = {
    "tokenize": Case(
        {"text": st.text("ab 　\n", max_size=9)},
        lambda got, g: "".join(got) == "".join(g.text.split()) and "" not in got,
        {"text": Wrong([None, 1, ["a"]], "split", (AttributeError,))},
    ),
    "build_vocab": Case(
        {"sentences": SENTENCES},
        lambda got, g: (
            list(got.values()) == list(range(len(got)))
            and set(got) == {"<pad>", "<bos>", "<eos>", *" ".join(g.sentences).split()}
        ),
        {"sentences": Wrong([None, [1], ["a <pad>"]], "印|" + TORCH, NATURAL)},
    ),
    "encode": Case(
        SENTENCES.map(lambda draw: {"text": draw[0], "stoi": BOOK.build_vocab(draw)}),
        lambda got, g: [list(g.stoi)[i] for i in got] == g.text.split(),
        {"text": Wrong(st.just("知らない語"), "知らない語")},
    ),
    "make_batch": Case(
        st.builds(
            lambda d, side: sentences_and_words(d) | {"side": side},
            SENTENCES,
            st.sampled_from(["right", "left"]),
        ),
        batch_holds,
        {
            "sentences": Wrong([["知らない語"], []], "知らない語|sentences"),
            "side": Wrong(["up", "RIGHT", None]),
        },
    ),
    "make_labels": Case(
        shaped(
            lambda b, t: {"input_ids": ids(b, t), "attention_mask": ids(b, t, high=2)},
            SEVERAL,
            SEVERAL,
        ),
        lambda got, g: torch.equal(
            got, torch.where(g.attention_mask == 1, g.input_ids, -100)
        ),
        {"attention_mask": Wrong(ids(7, 7, high=2), TORCH, NATURAL)},
    ),
    "next_token_loss": Case(
        shaped(
            lambda b, t: {"logits": tensors(b, t + 1, 5), "labels": ids(b, t + 1)},
            WHOLE,
            WHOLE,
        ),
        lambda got, g: shape(got) == () and got >= 0,
        {
            "labels": Wrong(
                lambda g: (
                    st.just(torch.full_like(g.labels, -100))
                    | ids(1, 99)
                    | st.just(torch.full_like(g.labels, 5))
                ),
                "labels|" + TORCH,
                NATURAL,
            )
        },
    ),
    "CurrentTokenLM": language_model(),
    "CurrentTokenLM.forward": logits_of(BOOK.CurrentTokenLM, mask=False),
    "CausalMeanLanguageModel": language_model(),
    "CausalMeanLanguageModel.forward": logits_of(BOOK.CausalMeanLanguageModel),
    "MixingLM": Case(
        {"mix": MIX},
        lambda got, g: got.mix is g.mix,
        call=lambda f, mix: f(mix, 6, 3),
    ),
    "MixingLM.forward": logits_of(BOOK.MixingLM, BOOK.causal_mean),
    "draw_mean_weights": Case(
        {"length": st.integers(1, 13)},
        lambda got, g: fmt(1 / g.length) in got.description,
        {"length": Wrong([-1, 0, 14, None, 1.5], ".", NATURAL)},
        cost=3,
        stray=False,
    ),
    "as_mask": Case(
        shaped(hidden),
        lambda got, g: (
            shape(got) == shape(g.hidden)[:2]
            and got.dtype == g.hidden.dtype
            and bool(((got == 0) | (got == 1)).all())
        ),
        {"hidden": FLAT, "attention_mask": NO_MASK},
    ),
    "causal_mean": mixer(mean_so_far),
    "causal_mean_cumsum": mixer(mean_so_far),
    "no_mixing": mixer(lambda hidden, mask: hidden, {}),
    "centred_window": mixer(wrong={"hidden": Wrong(tensors(3), TORCH, NATURAL)}),
    "leaky_mean": mixer(nan="a fault on show: a row with nothing to be seen"),
    "unclamped_mean": mixer(nan="a fault on show: nothing to be seen yet"),
    "recent_ex": mixer(lambda h, m: 0.9 * h + 0.1 * mean_so_far(h, m)),
    "cumsum_ex": only(lambda hidden: mean_so_far(hidden, None)),
    "mixer_a": only(
        lambda h: torch.stack([h[:, : t + 1].amax(1) for t in range(h.shape[1])], 1)
    ),
    "mixer_b": only(None),
    "mixer_c": only(lambda h: (h + torch.cat((h[:, :1] * 0, h[:, :-1]), 1)) / 2),
    "query_mask_ex": Case(
        shaped(
            lambda b, t, d: {
                "hidden": tensors(b, t, d),
                "attention_mask": ids(b, t, high=2),
                "mixer": st.just(torch.tanh),
            }
        ),
        lambda got, g: (
            shape(got) == shape(g.hidden) and not got[g.attention_mask == 0].any()
        ),
        {"hidden": FLAT, "attention_mask": NO_MASK},
    ),
    "train": Case(
        st.builds(
            lambda g, steps: g | {"steps": steps, "lr": 0.01},
            with_model(),
            st.integers(0, 3),
        ),
        lambda got, g: len(got) == g.steps and all(x >= 0 for x in got),
        {
            "lr": Wrong(st.floats(-9, -1), "learning rate"),
            "steps": Wrong([None, 1.5, "3"], "integer", (TypeError,)),
        },
        mutates=["model"],
        cost=2,
    ),
    "final_loss": Case(
        with_model(),
        lambda got, g: isinstance(got, float) and got >= 0,
        {"attention_mask": NOTHING, "input_ids": NO_IDS},
    ),
    "next_pairs": Case(
        {"rows": ROWS, "view": st.sampled_from([tuple, len, BOOK.bag])},
        lambda got, g: [y for _, y in got] == [x for row in g.rows for x in row[1:]],
        {"view": Wrong([None, 1], "callable", (TypeError,))},
    ),
    "conditional_entropy": Case(
        {"pairs": PAIRS},
        lambda got, g: near(got, floor(g.pairs)) and got > -1e-12,
        {"pairs": Wrong(st.just([]), "pairs|zero", (ValueError, ZeroDivisionError))},
    ),
    "bag": Case(
        {"prefix": st.lists(st.integers(0, 3), min_size=1)},
        lambda got, g: got == BOOK.bag(g.prefix * 2) == BOOK.bag(g.prefix[::-1]),
    ),
    "chain_batch": Case(
        {"n": WHOLE, "length": WHOLE, "rng": RNG, "size": st.integers(6, 12)},
        lambda got, g: (
            shape(got) == (g.n, g.length)
            and 0 <= got.min() <= got.max() < g.size
            and set(((got[:, 1:] - got[:, :-1]) % g.size).flatten().tolist())
            <= {1, 2, 5}
        ),
        {"size": Wrong(NOT_POSITIVE, "range", (ValueError,))},
    ),
    "rows_with_gradient": Case(
        with_model(BOOK.CurrentTokenLM),
        lambda got, g: set(got) <= set(g.input_ids[:, :-1].flatten().tolist()),
        {"attention_mask": NOTHING},
        mutates=["model"],
    ),
    "OPTIMIZERS": Case(
        {"name": st.sampled_from(list(BOOK.OPTIMIZERS))},
        lambda got, g: isinstance(got, torch.optim.Optimizer),
        call=lambda table, name: table[name]([torch.nn.Parameter(torch.ones(1))]),
        stray=False,
    ),
    "moved_in_second_step": Case(
        {"make_optimizer": st.sampled_from(list(BOOK.OPTIMIZERS.values()))},
        lambda got, g: len(got) == 3 and all(x >= 0 for x in got),
        cost=2,
    ),
    "pad_gradient": Case(
        {
            "side": st.sampled_from(["right", "left"]),
            "use_mask": st.booleans(),
            "use_labels": st.booleans(),
            "use_padding_idx": st.booleans(),
        },
        lambda got, g: got >= 0 and not (g.use_padding_idx and got),
    ),
    "future_effect": Case(
        {
            "mix": MIX,
            "change": st.sampled_from([BOOK.replace_all, BOOK.shuffle_only]),
            "T": st.integers(3, 6),
            "D": WHOLE,
            "trials": WHOLE,
        },
        lambda got, g: (
            (got > 1e-9) <= (g.mix in (BOOK.leaky_mean, BOOK.centred_window))
        ),
        {"T": Wrong(st.just(2), "zero|T", NATURAL)},
        cost=2,
    ),
    "replace_all": Case(
        shaped(lambda *s: {"future": tensors(*s), "generator": GENERATOR}),
        lambda got, g: shape(got) == shape(g.future) and not torch.equal(got, g.future),
    ),
    "shuffle_only": Case(
        shaped(lambda *s: {"future": tensors(*s), "generator": GENERATOR}),
        lambda got, g: near(got.sort(1).values, g.future.sort(1).values),
    ),
    "influence": Case(
        {"mix": MIX, "T": WHOLE},
        lambda got, g: shape(got) == (g.T, g.T),
        {"T": Wrong(st.integers(-3, -1), "negative|size", (RuntimeError,))},
    ),
    "prefix_only_loss": Case(
        {"model": models(BOOK.CausalMeanLanguageModel), "rows": ROWS},
        lambda got, g: isinstance(got, float) and got >= 0,
        {
            "rows": Wrong(
                [[], [[]], [[1]], [[1, 9]]],
                "rows|" + TORCH,
                NATURAL,
            )
        },
        cost=2,
    ),
    "continue_greedily": Case(
        {
            "model": models(BOOK.CausalMeanLanguageModel),
            "row": st.lists(st.integers(0, 5), min_size=1, max_size=3),
            "n": st.integers(1, 4),
        },
        lambda got, g: (
            got[: len(g.row)] == g.row
            and len(got) == len(g.row) + g.n
            and all(type(i) is int and 0 <= i < 6 for i in got)
        ),
        {"row": Wrong([[], [9], [-1]], TORCH, NATURAL)},
    ),
    "role_model": Case(
        {"sentences": SENTENCES, "std": st.floats(0, 1), "dim": WHOLE},
        lambda got, g: (
            len(got) == 4
            and shape(got[0].token_embedding.weight) == (len(got[1]), g.dim)
        ),
        {"std": Wrong(st.floats(-9, -1), "std", (RuntimeError,))},
    ),
    "role_gap": Case(
        {
            "weight": tensors(6, 3, scale=st.just(1.0)),
            "groups": st.sampled_from([[[0, 1], [2, 3]], [[5, 4, 3], [0, 1]]]),
        },
        lambda got, g: -2 <= got <= 2,
        {
            "groups": Wrong(
                [[[0, 9], [1, 2]], []],
                "vectors|groups|" + TORCH,
                NATURAL,
            ),
            "weight": Wrong(st.builds(lambda: torch.zeros(6, 3)), "零ベクトル"),
        },
        nan="a group of one has no pair",
    ),
    "train_rare": Case(
        {"steps": st.integers(0, 3), "rng": RNG, "size": st.sampled_from([6, 12, 48])},
        lambda got, g: shape(got[0]) == shape(got[1]) == (6,) and (got[1] >= 0).all(),
        {
            "size": Wrong(
                [0, 7, -6],
                TORCH,
                NATURAL,
            )
        },
        cost=2,
    ),
}
TABLE = {f"01.{name}": case for name, case in TABLE.items()}
