"""Chapter 3: a GPT out of numbers, its gradients, its optimizer, its sampling."""

import gc
import itertools
import math
import operator
import random
from typing import Any

from hypothesis import strategies as st

from fuzz import (
    NATURAL,
    NOT_POSITIVE,
    SEEDS,
    TORCH,
    WHOLE,
    Case,
    Wrong,
    near,
    shaped,
)
from lmbook import chapters

BOOK: Any = chapters.load("03")
NUMBER = st.floats(-5, 5)
AWAY = st.floats(0.1, 5) | st.floats(-5, -0.1)
NODE = NUMBER.map(BOOK.Value)
NO_NODE = Wrong(["x", None, [1.0]], ".", NATURAL)
#: Sentences of our own, or Python's for what is no number at all.
NO_NUMBERS = Wrong([["x"], [None], None, 1.0], ".", NATURAL)
DOCS = st.lists(st.text("ab", max_size=5), min_size=1, max_size=3)
DOC = st.text("ab", max_size=5)
TOKENIZER = BOOK.Tokenizer(["ab"])
UNKNOWN = Wrong(["c", "ac", "あ", "a b"], "語彙")


def value_of(x: Any) -> float:
    return x.data if isinstance(x, BOOK.Scalar) else x


def values_of(xs: Any) -> list[float]:
    return [value_of(x) for x in xs]


def plain_row(n: int) -> Any:
    return st.lists(NUMBER, min_size=n, max_size=n)


def row(n: int, numbers: Any = NUMBER) -> Any:
    """n numbers, or n nodes."""
    plain = st.lists(numbers, min_size=n, max_size=n)
    return plain | plain.map(lambda xs: [BOOK.Value(x) for x in xs])


def rows(m: int, n: int, numbers: Any = NUMBER) -> Any:
    """m rows of n: numbers throughout, or nodes throughout."""
    plain = st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=m, max_size=m)
    return plain | plain.map(lambda xs: [[BOOK.Value(x) for x in r] for r in xs])


def alike(**sizes: Any) -> Any:
    """Arguments that are all numbers or all nodes, of the given sizes."""

    def made(kind: Any) -> Any:
        def one(size: Any) -> Any:
            if isinstance(size, int):
                return st.lists(NUMBER.map(kind), min_size=size, max_size=size)
            inner = one(size[1])
            return st.lists(inner, min_size=size[0], max_size=size[0])

        return st.fixed_dictionaries({name: one(s) for name, s in sizes.items()})

    return made(float) | made(BOOK.Value)


def models(**more: Any) -> Any:
    config = BOOK.Config(3, 2, 2, 1, 4, **more)
    return SEEDS.map(lambda seed: BOOK.build_model(config, TOKENIZER, seed))


MODEL = st.sampled_from([BOOK.relu, BOOK.gelu]).flatmap(
    lambda activation: models(activation=activation)
)
LOGITS = shaped(lambda n: {"logits": row(n)}, WHOLE)
PROBABILITIES = st.lists(st.floats(0.01, 1), min_size=1, max_size=5).map(
    lambda xs: [x / math.fsum(xs) for x in xs]
)


def is_distribution(xs: Any) -> bool:
    xs = values_of(xs)
    return near(math.fsum(xs), 1.0, 1e-6) and min(xs) >= 0


def operation(function: Any, right: Any = None, left: Any = NODE, **wrong: Any) -> Case:
    """An operator gives a new node with Python's own value and one local slope each."""
    arguments = {"self": left} | ({} if right is None else {"other": right})

    def holds(got: Any, g: Any) -> bool:
        given = [value_of(getattr(g, name)) for name in arguments]
        return (
            type(got) is type(g.self)
            and near(got.data, function(*given))
            and got.grad == 0.0
            and len(got._children) == len(got._local_grads)
        )

    return Case(arguments, holds, wrong)


OTHER = NODE | NUMBER
NONZERO = AWAY | AWAY.map(BOOK.Value)
PLUS = operation(operator.add, OTHER, other=NO_NODE)
TIMES = operation(operator.mul, OTHER, other=NO_NODE)
ZERO = Wrong(
    st.sampled_from([0.0, 0]) | st.builds(lambda: BOOK.Value(0.0)),
    "割り算|乗",
    (ZeroDivisionError,),
)


def line(kind: Any) -> Any:
    """A small graph: (its end, its two leaves, the gradients it must have)."""

    def made(x: float, y: float) -> Any:
        a, b = kind(x), kind(y)
        return a * b + a * 2.0, (a, b), (y + 2.0, x)

    return st.builds(made, NUMBER, NUMBER)


def sent_back(f: Any, graph: Any) -> Any:
    end, leaves, wanted = graph
    f(end)
    return near([leaf.grad for leaf in leaves], list(wanted))


def ordered(order: Any, end: Any) -> bool:
    """Every point of a calculation once, after what it is made of."""
    place = {id(node): i for i, node in enumerate(order)}
    return len(place) == len(order) and all(
        place.get(id(child), -1) < place[id(node)]
        for node in order
        for child in node._children
    )


SCALAR_OPS = {
    "Basic.__add__": PLUS,
    "Basic.__radd__": PLUS,
    "Basic.__mul__": TIMES,
    "Basic.__rmul__": TIMES,
    "Basic.__neg__": operation(operator.neg),
    "Basic.__sub__": operation(operator.sub, OTHER, other=NO_NODE),
    "Basic.__rsub__": operation(lambda a, b: b - a, NUMBER, other=NO_NODE),
    "Power.__truediv__": operation(operator.truediv, NONZERO, other=ZERO),
    "Power.__rtruediv__": operation(
        lambda a, b: b / a,
        NUMBER,
        AWAY.map(BOOK.Value),
        self=Wrong(
            st.builds(lambda: BOOK.Value(0.0)), "割り算|乗", (ZeroDivisionError,)
        ),
    ),
    "Power.__pow__": Case(
        {"self": AWAY.map(abs).map(BOOK.Value), "k": st.integers(-3, 3) | NUMBER},
        lambda got, g: near(got.data, g.self.data**g.k),
        {
            "k": Wrong(NODE, "指数", (TypeError,)),
        },
    ),
    "Scalar.exp": operation(math.exp),
    "Scalar.log": operation(
        math.log,
        None,
        AWAY.map(abs).map(BOOK.Value),
        self=Wrong(st.floats(-5, 0).map(BOOK.Value), r"log\(.*ありません"),
    ),
    "Scalar.relu": operation(lambda x: max(x, 0.0)),
}


def taped(x: float) -> Any:
    with BOOK.Tape() as tape:
        BOOK.Value(x) * 2.0 + 1.0
    return tape


def uncollected(f: Any) -> list[bool]:
    with f():
        inside = gc.isenabled()
    return [inside, gc.isenabled()]


def with_gradient(data: float, grad: float) -> Any:
    made = BOOK.Value(data)
    made.grad = grad
    return made


def one_node(function: Any) -> Case:
    """An activation of a node: Python's own value, and a slope that is the limit."""

    def sloped(f: Any, x: Any) -> Any:
        made = f(x)
        leaf = BOOK.Value(x.data)
        f(leaf).backward()
        return made, leaf.grad

    def holds(got: Any, g: Any) -> bool:
        x, step = g.x.data, 1e-5
        rise = (function(x + step) - function(x - step)) / (2 * step)
        return near(got[0].data, function(x)) and near(got[1], rise, 1e-4)

    return Case({"x": NODE}, holds, {"x": NO_NODE}, call=sloped)


def filtered(name: str) -> Case:
    """A filter of probabilities: a distribution that keeps the most likely."""
    return Case(
        {"probabilities": PROBABILITIES, name: st.floats(0, 1)},
        lambda got, g: (
            is_distribution(got)
            and len(got) == len(g.probabilities)
            and all(
                near(q / max(got), p / max(g.probabilities))
                for q, p in zip(got, g.probabilities, strict=True)
                if q
            )
        ),
    )


def drawn_by_sums(probabilities: list[float], seed: int) -> int:
    point, sums = random.Random(seed).random(), itertools.accumulate(probabilities)
    return next(
        (i for i, total in enumerate(sums) if point < total), len(probabilities) - 1
    )


PLAIN = MODEL.map(lambda model: model.numbers())
NO_PLACE = st.sampled_from([-1, 4, 99])
NO_TOP = [0, -1, True, 1.5, "2"]
NO_HEAT = Wrong([-1, math.nan, math.inf, -1e-9], "温度")

SEND_BACK = Case(
    {"graph": line(BOOK.BinaryValue)},
    lambda got, g: got,
    call=lambda f, graph: sent_back(lambda e: f(e, BOOK.topological_order(e)), graph),
    mutates=["graph"],
    stray=False,
)

TABLE = {
    "Vocabulary": Case(
        {"docs": DOCS},
        lambda got, g: (
            got.vocab_size == len(set("".join(g.docs))) + 1
            and got.vocab_size - 1 == got.BOS
        ),
        {"docs": Wrong([None, 1, [1]], ".", NATURAL)},
    ),
    "Vocabulary.token_to_str": Case(
        {"self": st.just(TOKENIZER), "tid": st.integers(0, 2)},
        lambda got, g: got == ["a", "b", "<BOS>"][g.tid],
        {"tid": Wrong([-1, 3, True, None, 1.5, "a"], "番号は")},
    ),
    "Tokenizer": Case(
        {"docs": DOCS}, lambda got, g: got.decode(got.encode(g.docs[0])) == g.docs[0]
    ),
    "Tokenizer.encode": Case(
        {"self": st.just(TOKENIZER), "text": DOC},
        lambda got, g: g.self.decode(got) == g.text,
        {"text": UNKNOWN},
    ),
    "Tokenizer.decode": Case(
        {"self": st.just(TOKENIZER), "token_ids": st.lists(st.integers(0, 2))},
        lambda got, g: got == "".join("ab"[i] for i in g.token_ids if i < 2),
        {"token_ids": Wrong([[3], [-1], [0, None]], "番号は")},
    ),
    "Tokenizer.framed": Case(
        {"self": st.just(TOKENIZER), "text": DOC},
        lambda got, g: got == [2, *g.self.encode(g.text), 2],
        {"text": UNKNOWN},
    ),
    "Basic": Case({}, lambda got, g: not hasattr(got, "data")),
    "Power": Case({}, lambda got, g: not hasattr(got, "data")),
    "Scalar": Case({}, lambda got, g: not hasattr(got, "data")),
    **SCALAR_OPS,
    "real_power": Case(
        {"x": AWAY.map(abs), "k": st.integers(-3, 3) | NUMBER},
        lambda got, g: near(got, g.x**g.k),
        {"k": Wrong(["x", None], ".", NATURAL)},
    ),
    "topological_order": Case(
        {"end": line(BOOK.BinaryValue).map(lambda made: made[0])},
        lambda got, g: ordered(got, g.end) and got[-1] is g.end,
        {"end": Wrong([None, 1.0], TORCH, NATURAL)},
    ),
    "closure_order": Case(
        {"end": line(BOOK.BinaryValue).map(lambda made: made[0])},
        lambda got, g: got is None or ordered(got, g.end),
    ),
    "send_back": SEND_BACK,
    "send_back_ex": SEND_BACK,
    "BinaryValue": Case(
        {"data": NUMBER, "children": st.just(()), "local_grads": st.just(())},
        lambda got, g: (got.data, got.grad) == (g.data, 0.0),
    ),
    "BinaryValue.backward": Case(
        {"graph": line(BOOK.BinaryValue)},
        lambda got, g: got,
        call=sent_back,
        mutates=["graph"],
        stray=False,
    ),
    "Value": Case(
        {"data": NUMBER, "children": st.just(()), "local_grads": st.just(())},
        lambda got, g: (got.data, got.grad) == (g.data, 0.0),
    ),
    "Value.backward": Case(
        {"graph": line(BOOK.Value), "tape": st.none()},
        lambda got, g: got,
        {"tape": Wrong(st.builds(lambda: BOOK.Tape([BOOK.Value(1.0)])), "最後")},
        call=lambda f, graph, tape: sent_back(lambda end: f(end, tape), graph),
        mutates=["graph"],
        stray=False,
    ),
    "OPS": Case(
        {"name": st.sampled_from(list(BOOK.OPS)), "x": AWAY.map(abs), "y": AWAY},
        lambda got, g: near(*got, 1e-4),
        call=lambda table, name, x, y: BOOK.op_gradients(table[name], x, y),
        stray=False,
    ),
    "op_gradients": Case(
        {"f": st.just(operator.mul), "x": NUMBER, "y": NUMBER, "eps": st.just(1e-6)},
        lambda got, g: near(got[0], [g.y, g.x]) and near(*got, 1e-4),
        {"f": Wrong([None, 1], "callable", (TypeError,))},
    ),
    "Tape": Case({}, lambda got, g: got == []),
    "Tape.__enter__": Case(
        {"x": NUMBER},
        lambda got, g: [node.data for node in got] == [g.x * 2.0, g.x * 2.0 + 1.0],
        call=lambda f, x: taped(x),
        stray=False,
    ),
    "Tape.__exit__": Case(
        {"x": NUMBER},
        lambda got, g: BOOK.TAPES == [],
        call=lambda f, x: taped(x),
        stray=False,
    ),
    "numbers": Case(
        shaped(lambda n: {"values": row(n)}, WHOLE),
        lambda got, g: got == values_of(g.values),
        {"values": Wrong([None, 1.0], ".", NATURAL)},
    ),
    "total_of": Case(
        shaped(lambda n: {"values": row(n)}, WHOLE),
        lambda got, g: near(value_of(got), math.fsum(values_of(g.values))),
        {"values": NO_NUMBERS},
    ),
    "exp": Case(
        {"v": OTHER},
        lambda got, g: near(value_of(got), math.exp(value_of(g.v))),
        {"v": NO_NODE},
    ),
    "relu": Case(
        {"v": OTHER},
        lambda got, g: value_of(got) == max(0.0, value_of(g.v)),
        {"v": NO_NODE},
    ),
    "gelu": Case(
        {"v": OTHER},
        lambda got, g: (
            type(got) is type(g.v)
            and min(0.0, value_of(g.v)) <= value_of(got) <= max(0.0, value_of(g.v))
        ),
        {"v": NO_NODE},
    ),
    "both_nodes": Case(
        shaped(lambda n: {"a": row(n), "b": row(n)}, WHOLE).map(
            lambda d: d | {"b": d["a"]}
        ),
        lambda got, g: got == isinstance(g.a[0], BOOK.Scalar),
        {"b": Wrong(lambda g: row(len(g.a) + 1), "長さがちがいます")},
    ),
    "plain_dot": Case(
        shaped(
            lambda n: {
                "p": st.lists(NUMBER, min_size=n, max_size=n),
                "q": st.lists(NUMBER, min_size=n, max_size=n),
            },
            WHOLE,
        ),
        lambda got, g: near(got, math.fsum(map(operator.mul, g.p, g.q))),
    ),
    "dot": Case(
        WHOLE.flatmap(lambda n: alike(a=n, b=n)),
        lambda got, g: near(
            value_of(got), math.fsum(map(operator.mul, values_of(g.a), values_of(g.b)))
        ),
        {"b": Wrong(lambda g: row(len(g.a) + 1), "長さがちがいます")},
    ),
    "no_collector": Case({}, lambda got, g: got == [False, True], call=uncollected),
    "Config": Case(
        {
            "vocab_size": WHOLE,
            "n_embd": st.sampled_from([2, 4, 8]),
            "n_head": st.sampled_from([1, 2]),
            "n_layer": WHOLE,
            "block_size": WHOLE,
            "activation": st.sampled_from([BOOK.relu, BOOK.gelu]),
        },
        lambda got, g: got.n_head == g.n_head,
        dict.fromkeys(["vocab_size", "n_embd", "n_layer", "block_size"], NOT_POSITIVE)
        | {
            "n_head": Wrong([0, -1, 3, 16, True, 1.0], "n_head"),
        },
        stray=False,
    ),
    "Model": Case(
        {
            "config": st.just(BOOK.Config(3, 2, 2)),
            "tokenizer": st.just(TOKENIZER),
            "state_dict": st.dictionaries(st.sampled_from("ab"), rows(2, 2)),
        },
        lambda got, g: len(got.params) == 4 * len(g.state_dict),
        stray=False,
    ),
    "Model.numbers": Case(
        {"self": MODEL},
        lambda got, g: got.params == values_of(g.self.params),
    ),
    "shapes": Case(
        {"config": st.builds(BOOK.Config, WHOLE, st.just(4), st.just(2), WHOLE)},
        lambda got, g: len(got) == 3 + 6 * g.config.n_layer,
    ),
    "matrix": Case(
        {
            "nout": WHOLE,
            "nin": WHOLE,
            "std": st.floats(0, 1),
            "rng": SEEDS.map(random.Random),
        },
        lambda got, g: [len(r) for r in got] == [g.nin] * g.nout,
    ),
    "build_model": Case(
        {
            "config": st.builds(
                BOOK.Config, st.just(3), st.just(2), st.just(2), st.just(1)
            ),
            "tokenizer": st.just(TOKENIZER),
            "seed": SEEDS,
            "std": st.floats(0, 1),
        },
        lambda got, g: (
            [(len(t), len(t[0])) for t in got.state_dict.values()]
            == list(BOOK.shapes(g.config).values())
        ),
    ),
    "linear": Case(
        st.tuples(WHOLE, WHOLE).flatmap(lambda s: alike(x=s[1], w=s)),
        lambda got, g: near(
            values_of(got),
            [math.fsum(map(operator.mul, values_of(r), values_of(g.x))) for r in g.w],
        ),
        {"x": Wrong(lambda g: row(len(g.x) + 1), "長さがちがいます")},
    ),
    "softmax": Case(
        LOGITS,
        lambda got, g: is_distribution(got) and len(got) == len(g.logits),
        {"logits": Wrong([[], None, ["x"], [-math.inf] * 2], ".", NATURAL)},
    ),
    "rmsnorm": Case(
        shaped(lambda n: {"x": row(n)}, WHOLE),
        lambda got, g: (
            len(got) == len(g.x)
            and all(abs(v) <= len(got) ** 0.5 for v in values_of(got))
        ),
        {"x": Wrong([[], None, ["x"]], ".", NATURAL)},
    ),
    "one_head": Case(
        st.tuples(WHOLE, WHOLE).flatmap(lambda s: alike(query=s[1], keys=s, values=s)),
        lambda got, g: (
            is_distribution(got[1])
            and len(got[0]) == len(g.query)
            and len(got[1]) == len(g.keys)
        ),
        {"query": Wrong(lambda g: row(len(g.query) + 1), "長さがちがいます")},
    ),
    "add": Case(
        WHOLE.flatmap(lambda n: alike(a=n, b=n)),
        lambda got, g: near(
            values_of(got), list(map(operator.add, values_of(g.a), values_of(g.b)))
        ),
        {"b": Wrong(lambda g: row(len(g.a) + 1), "argument|長さ")},
    ),
    "attend": Case(
        {
            "model": PLAIN,
            "layer": st.just(0),
            "x": st.lists(NUMBER, min_size=2, max_size=2),
            "keys": st.builds(list),
            "values": st.builds(list),
        },
        lambda got, g: (
            len(got[0]) == 2
            and all(map(is_distribution, got[1]))
            and len(g.keys) == len(g.values) == 1
        ),
        {
            "x": Wrong(row(3), "長さがちがいます"),
            "layer": Wrong(st.just(9), "layer9", (KeyError,)),
        },
        mutates=["keys", "values"],
    ),
    "embed": Case(
        {"model": MODEL, "token_id": st.integers(0, 2), "pos_id": st.integers(0, 3)},
        lambda got, g: near(
            values_of(got),
            [
                a.data + b.data
                for a, b in zip(
                    g.model.state_dict["wte"][g.token_id],
                    g.model.state_dict["wpe"][g.pos_id],
                    strict=True,
                )
            ],
        ),
        {
            "token_id": Wrong(NO_PLACE, "番号"),
            "pos_id": Wrong(NO_PLACE, "位置"),
        },
    ),
    "mlp": Case(
        {
            "model": PLAIN,
            "layer": st.just(0),
            "x": st.lists(NUMBER, min_size=2, max_size=2),
        },
        lambda got, g: len(got) == 2,
        {
            "x": Wrong(row(3), "長さがちがいます"),
            "layer": Wrong(st.just(9), "layer9", (KeyError,)),
        },
    ),
    "head": Case(
        {"model": PLAIN, "x": st.lists(NUMBER, min_size=2, max_size=2)},
        lambda got, g: len(got) == 3,
        {"x": Wrong(row(3), "長さがちがいます")},
    ),
    "gpt": Case(
        {
            "model": PLAIN,
            "token_id": st.integers(0, 2),
            "pos_id": st.just(0),
            "keys": st.builds(lambda: [[]]),
            "values": st.builds(lambda: [[]]),
            "return_attn": st.just(False),
        },
        lambda got, g: len(got) == 3 and len(g.keys[0]) == 1,
        {
            "token_id": Wrong(NO_PLACE, "番号"),
            "pos_id": Wrong(NO_PLACE | st.integers(1, 3), "位置"),
        },
        mutates=["keys", "values"],
    ),
    "empty_cache": Case(
        {"config": st.builds(BOOK.Config, WHOLE, st.just(4), st.just(2), WHOLE)},
        lambda got, g: got == ([[]] * g.config.n_layer, [[]] * g.config.n_layer),
    ),
    "read_all": Case(
        {"model": PLAIN, "tokens": st.lists(st.integers(0, 2), max_size=4)},
        lambda got, g: [len(z) for z in got] == [3] * len(g.tokens),
        {"tokens": Wrong([[3], [-1], [0] * 5, ["a"], [1.5]], "番号|位置")},
    ),
    "cross_entropy": Case(
        shaped(lambda n: {"logits": row(n), "target": st.integers(0, n - 1)}, WHOLE),
        lambda got, g: (
            value_of(got) >= -1e-9
            and near(
                value_of(got),
                -math.log(BOOK.softmax(values_of(g.logits))[g.target]),
                1e-6,
            )
        ),
        {
            "target": Wrong(
                lambda g: st.sampled_from([-1, len(g.logits), None, 1.5]),
                "正解",
            )
        },
    ),
    "loss_for_document": Case(
        {"model": MODEL, "doc": DOC},
        lambda got, g: near(
            value_of(got), BOOK.loss_for_document(g.model.numbers(), g.doc)
        ),
        {"doc": UNKNOWN},
    ),
    "held_out_loss": Case(
        {"model": MODEL, "docs": DOCS},
        lambda got, g: 0 < got < 5,
        {"docs": Wrong([[], ["c"]], "docs|語彙")},
    ),
    "scaled": Case(
        {"count": st.integers(0, 999), "model": PLAIN, "quick": st.booleans()},
        lambda got, g: got == max(4, g.count // (10 if g.quick else 1)),
    ),
    "gradients": Case(
        {"model": MODEL, "doc": DOC},
        lambda got, g: (
            len(got) == len(g.model.params)
            and near(got[:3], BOOK.numeric_gradients(g.model, g.doc, range(3)), 1e-4)
        ),
        {"doc": UNKNOWN},
    ),
    "numeric_gradients": Case(
        {
            "model": MODEL,
            "doc": DOC,
            "picks": st.lists(st.integers(0, 9), min_size=1, max_size=2),
            "eps": st.just(1e-5),
        },
        lambda got, g: len(got) == len(g.picks),
        {
            "doc": UNKNOWN,
            "picks": Wrong(st.just([9999]), "range", (IndexError,)),
        },
    ),
    "Adam": Case(
        {
            "params": row(3),
            "lr": st.floats(0, 1),
            "beta1": st.just(0.85),
            "beta2": st.just(0.99),
            "eps": st.just(1e-8),
        },
        lambda got, g: got.m == got.v == [0.0] * 3 and got.t == 0,
    ),
    "Adam.step": Case(
        {
            "self": st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=3).map(
                lambda pairs: BOOK.Adam([with_gradient(*pair) for pair in pairs])
            ),
            "lr": st.floats(0, 0.1),
        },
        lambda got, g: g.self.t == 1 and all(p.grad == 0.0 for p in g.self.params),
        mutates=["self"],
    ),
    "Adam.zero_grad": Case(
        {"self": st.builds(lambda x: BOOK.Adam([with_gradient(x, 1.0)]), NUMBER)},
        lambda got, g: g.self.params[0].grad == 0.0,
        mutates=["self"],
    ),
    "train_step": Case(
        MODEL.flatmap(
            lambda model: st.fixed_dictionaries(
                {
                    "model": st.just(model),
                    "optimizer": st.just(BOOK.Adam(model.params)),
                    "doc": DOC,
                    "step": st.integers(0, 3),
                    "num_steps": st.just(4),
                }
            )
        ),
        lambda got, g: 0 < got < 5 and g.optimizer.t == 1 and BOOK.TAPES == [],
        {"doc": UNKNOWN, "num_steps": Wrong(st.just(0), "zero", (ZeroDivisionError,))},
        mutates=["model", "optimizer"],
        stray=False,
    ),
    "train": Case(
        MODEL.flatmap(
            lambda model: st.fixed_dictionaries(
                {
                    "model": st.just(model),
                    "optimizer": st.just(BOOK.Adam(model.params)),
                    "docs": DOCS,
                    "num_steps": st.integers(1, 3),
                    "watched": st.just(()) | DOCS,
                }
            )
        ),
        lambda got, g: len(got[0]) == g.num_steps and bool(got[1]) == bool(g.watched),
        {"docs": Wrong([[], ["c"]], "docs|語彙")},
        mutates=["model", "optimizer"],
        cost=2,
        stray=False,
    ),
    "keep_top": Case(
        shaped(
            lambda n: {
                "logits": st.lists(NUMBER, min_size=n, max_size=n),
                "k": st.none() | st.integers(1, 9),
            },
            WHOLE,
        ),
        lambda got, g: (
            len([z for z in got if z > -math.inf]) == min(len(got), g.k or len(got))
            and sorted(got)[-(g.k or 1) :] == sorted(g.logits)[-(g.k or 1) :]
        ),
        {"k": Wrong(NO_TOP, "top_k")},
    ),
    "next_probs": Case(
        shaped(
            lambda n: {
                "logits": st.lists(NUMBER, min_size=n, max_size=n),
                "temperature": st.sampled_from([0, 0.0, 1e-320, 0.5, 1, 1e6]),
                "top_k": st.none() | st.integers(1, 9),
            },
            WHOLE,
        ),
        lambda got, g: (
            is_distribution(got)
            and (g.top_k != 1 or max(got) == 1.0)
            and g.logits[got.index(max(got))]
            > max(g.logits) - 1e-6 * (1 + g.temperature)
        ),
        {"top_k": Wrong(NO_TOP, "top_k"), "temperature": NO_HEAT},
    ),
    "draw": Case(
        {"probabilities": PROBABILITIES, "seed": SEEDS},
        lambda got, g: got == drawn_by_sums(g.probabilities, g.seed),
        {"probabilities": Wrong([[], None], "empty|iter", NATURAL)},
        call=lambda f, probabilities, seed: f(probabilities, random.Random(seed)),
        stray=False,
    ),
    "entropy": Case(
        {"probabilities": PROBABILITIES},
        lambda got, g: -1e-9 <= got <= math.log(len(g.probabilities)) + 1e-9,
    ),
    "sample_report": Case(
        {
            "model": PLAIN,
            "temperature": st.sampled_from([0, 0.5, 1.0]),
            "count": WHOLE,
            "seen": st.just({"a"}),
            "seed": SEEDS,
        },
        lambda got, g: len(got) == 3 and all(0 <= share <= 1 for share in got),
        {
            "count": Wrong(st.just(0), "zero|count", (ZeroDivisionError, ValueError)),
            "temperature": NO_HEAT,
        },
    ),
    "generate_one": Case(
        {
            "model": MODEL,
            "temperature": st.sampled_from([0, 0.5, 1.0]),
            "max_new_tokens": st.none() | st.integers(1, 4),
            "top_k": st.none() | st.integers(1, 9),
            "rng": SEEDS.map(random.Random),
        },
        lambda got, g: (
            set(got) <= set("ab")
            and len(got) <= (4 if g.max_new_tokens is None else g.max_new_tokens)
        ),
        {
            "temperature": NO_HEAT,
            "top_k": Wrong(NO_TOP, "top_k"),
            "max_new_tokens": Wrong([-1, 5, "3", True, 1.0], "max_new_tokens"),
        },
    ),
    "attention_matrix_for_doc": Case(
        {"model": MODEL, "doc": DOC, "layer": st.just(0), "head": st.integers(0, 1)},
        lambda got, g: (
            [len(r) for r in got[1]] == list(range(1, len(got[0]) + 1))
            and all(map(is_distribution, got[1]))
        ),
        {
            "doc": UNKNOWN,
            "layer": Wrong([-1, 1, None], "層"),
            "head": Wrong([-1, 2, None], "head"),
        },
    ),
    "attention_chart": Case(
        {"model": MODEL, "layer": st.just(0), "docs": st.just(["ab", "b"])},
        lambda got, g: "head 1" in got.description,
        call=lambda f, **given: f(**given)(),
        cost=3,
        stray=False,
    ),
    "tanh_ex": one_node(math.tanh),
    "sigmoid_ex": one_node(lambda x: 1 / (1 + math.exp(-x))),
    "silu_ex": one_node(lambda x: x / (1 + math.exp(-x))),
    "top_p_ex": filtered("p"),
    "min_p_ex": filtered("r"),
    "masked_attention_ex": Case(
        shaped(
            lambda m, n: {
                name: st.lists(plain_row(n), min_size=m, max_size=m)
                for name in ("queries", "keys", "values")
            },
            WHOLE,
            WHOLE,
        ),
        lambda got, g: (
            [len(r) for r in got] == [len(r) for r in g.values]
            and near(values_of(got[0]), values_of(g.values[0]))
        ),
        {"queries": Wrong(lambda g: st.just([[1.0] * 9]), "長さがちがいます")},
    ),
    "perplexity_ex": Case(
        {"model": MODEL, "name": DOC},
        lambda got, g: 1 < got < 100,
        {"name": UNKNOWN},
    ),
}
TABLE = {f"03.{name}": case for name, case in TABLE.items()}
