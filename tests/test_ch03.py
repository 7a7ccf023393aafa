"""Chapter 3's definitions, as they stand in the notebook, against oracles."""

import copy
import hashlib
import inspect
import itertools
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import quick_run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell
from torch.nn import functional as F

from lmbook import chapters, data
from lmbook.press import compare

PATH = chapters.path("03")
LESSON = chapters.load("03")
Value, BinaryValue = LESSON.Value, LESSON.BinaryValue
NAMES = data.names("en")
ENGINES = [BinaryValue, Value]
engines = pytest.mark.parametrize("kind", ENGINES, ids=lambda k: k.__name__)
small = st.floats(-3, 3).filter(lambda x: x == 0 or abs(x) > 1e-3)
positive = st.floats(0.01, 5)


pytestmark = pytest.mark.usefixtures("float64")


def model_of(seed=42, docs=NAMES, std=0.08, **shape):
    tokenizer = LESSON.Tokenizer(docs)
    config = LESSON.Config(tokenizer.vocab_size, **shape)
    return LESSON.build_model(config, tokenizer, seed, std)


# --- the twin: the same GPT in torch, with an explicit mask ---------------------


class Twin:
    def __init__(self, model):
        self.config, self.tokenizer = model.config, model.tokenizer
        self.w = {
            name: torch.tensor([LESSON.numbers(r) for r in table], requires_grad=True)
            for name, table in model.state_dict.items()
        }

    @staticmethod
    def norm(x):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5) ** -0.5

    def logits(self, tokens):
        c, w, n = self.config, self.w, len(tokens)
        x = self.norm(w["wte"][torch.tensor(tokens)] + w["wpe"][:n])
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        act = F.relu if c.activation is LESSON.relu else F.gelu
        for i in range(c.n_layer):
            h, at = self.norm(x), f"layer{i}.attn_"
            q, k, v = (
                (h @ w[at + s].T).view(n, c.n_head, -1).transpose(0, 1)
                for s in ("wq", "wk", "wv")
            )
            scores = q @ k.transpose(1, 2) / math.sqrt(c.n_embd // c.n_head)
            share = scores.masked_fill(future, -math.inf).softmax(-1)
            x = x + (share @ v).transpose(0, 1).reshape(n, -1) @ w[at + "wo"].T
            hidden = act(self.norm(x) @ w[f"layer{i}.mlp_fc1"].T)
            x = x + hidden @ w[f"layer{i}.mlp_fc2"].T
        return x @ w["lm_head"].T

    def loss(self, doc):
        tokens = self.tokenizer.framed(doc)
        n = min(self.config.block_size, len(tokens) - 1)
        return F.cross_entropy(self.logits(tokens[:n]), torch.tensor(tokens[1 : n + 1]))

    def flat(self, which):
        return torch.cat([getattr(t, which).flatten() for t in self.w.values()])


TWINS = [
    {},
    {"n_layer": 2, "n_head": 2, "n_embd": 8},
    {"activation": LESSON.gelu, "block_size": 4},
]


@pytest.mark.parametrize("shape", TWINS)
def test_loss_and_every_gradient_equal_the_twin(shape):
    model = model_of(**shape)
    twin = Twin(model)
    for doc in ("anna", "maximilian", "yu"):
        twin.w = {k: t.detach().requires_grad_() for k, t in twin.w.items()}
        loss = twin.loss(doc)
        loss.backward()
        ours = torch.tensor(LESSON.gradients(model, doc))
        assert abs(LESSON.loss_for_document(model, doc).data - loss.item()) < 1e-13
        assert (ours - twin.flat("grad")).abs().max() < 1e-12
        assert ours.count_nonzero() > len(ours) // 2


def test_adam_and_a_hundred_losses_equal_torch():
    model = model_of()
    twin = Twin(model)
    ours = LESSON.Adam(model.params, lr=0.01)
    theirs = torch.optim.Adam(twin.w.values(), lr=0.01, betas=(0.85, 0.99), eps=1e-8)
    docs, _ = data.split(NAMES, 500, 42)
    for step in range(100):
        loss = LESSON.train_step(model, ours, docs[step], step, 100)
        expected = twin.loss(docs[step])
        theirs.param_groups[0]["lr"] = 0.01 * (1 - step / 100)
        theirs.zero_grad()
        expected.backward()
        theirs.step()
        assert abs(loss - expected.item()) < 1e-9
        if step == 49:
            weights = torch.tensor(LESSON.numbers(model.params))
            assert (weights - twin.flat("data")).abs().max() < 1e-12
    assert all(p.grad == 0 for p in model.params)


# --- Value --------------------------------------------------------------------

OPS = {
    "add": (lambda x, y: x + y, lambda x, y: x + y),
    "sub": (lambda x, y: x - y, lambda x, y: x - y),
    "mul": (lambda x, y: x * y, lambda x, y: x * y),
    "neg": (lambda x, y: -x, lambda x, y: -x),
    "right": (lambda x, y: 2.0 + 3.0 * x - (1.0 - y), lambda x, y: 1 + 3 * x + y),
    "exp": (lambda x, y: x.exp(), lambda x, y: x.exp()),
    "relu": (lambda x, y: x.relu(), lambda x, y: x.relu()),
    "cube": (lambda x, y: x**3, lambda x, y: x**3),
    "diamond": (lambda x, y: (x * y) * (x + y) * x, lambda x, y: (x * y) * (x + y) * x),
}
POSITIVE_OPS = {
    "div": (lambda x, y: x / y, lambda x, y: x / y),
    "rdiv": (lambda x, y: 2.0 / x, lambda x, y: 2.0 / x),
    "log": (lambda x, y: x.log(), lambda x, y: x.log()),
    "root": (lambda x, y: x**0.5, lambda x, y: x**0.5),
    "inverse": (lambda x, y: x**-1.5, lambda x, y: x**-1.5),
}


def against_torch(kind, ours, theirs, x, y):
    a, b = kind(x), kind(y)
    ta, tb = (torch.tensor(v, requires_grad=True) for v in (x, y))
    out, expected = ours(a, b), theirs(ta, tb)
    out.backward()
    expected.backward()
    for got, t in ((a, ta), (b, tb)):
        wanted = 0.0 if t.grad is None else t.grad.item()
        assert got.grad == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert out.data == pytest.approx(expected.item(), rel=1e-13, abs=1e-13)
    assert isinstance(out.data, float)
    return a, b


@engines
@pytest.mark.parametrize("name", OPS)
@given(x=small, y=small)
@settings(max_examples=40, deadline=None)
def test_op_against_torch(kind, name, x, y):
    against_torch(kind, *OPS[name], x, y)


@engines
@pytest.mark.parametrize("name", POSITIVE_OPS)
@given(x=positive, y=positive)
@settings(max_examples=40, deadline=None)
def test_op_on_positive_numbers_against_torch(kind, name, x, y):
    against_torch(kind, *POSITIVE_OPS[name], x, y)


@pytest.mark.parametrize("name", [*OPS, *POSITIVE_OPS])
@given(x=positive, y=positive)
@settings(max_examples=20, deadline=None)
def test_op_against_differences(name, x, y):
    assume(x > 0.05 and y > 0.05)
    f = (OPS | POSITIVE_OPS)[name][0]
    a, b = Value(x), Value(y)
    f(a, b).backward()
    h = 1e-6
    rise = (f(Value(x + h), b).data - f(Value(x - h), b).data) / (2 * h)
    assert a.grad == pytest.approx(rise, rel=1e-4, abs=1e-6)


@given(
    a=st.lists(st.floats(-2, 2), min_size=1, max_size=9),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_n_ary_nodes_against_torch(a, seed):
    rng = random.Random(seed)
    b = [rng.uniform(-2, 2) for _ in a]
    x, w = [Value(v) for v in a], [Value(v) for v in b]
    tx, tw = (torch.tensor(v, requires_grad=True) for v in (a, b))
    target = seed % len(a)
    out = LESSON.dot(x, w) + LESSON.cross_entropy(x, target) * 2.0
    out = out + LESSON.dot(LESSON.softmax(x), w) + LESSON.gelu(x[0])
    out = out + LESSON.total_of(LESSON.rmsnorm(x)) * 0.5
    out.backward()
    expected = tx @ tw + 2 * F.cross_entropy(tx, torch.tensor(target))
    expected = expected + tx.softmax(0) @ tw + F.gelu(tx[0])
    expected = expected + 0.5 * Twin.norm(tx).sum()
    expected.backward()
    assert out.data == pytest.approx(expected.item(), rel=1e-12, abs=1e-12)
    for got, t in ((x, tx), (w, tw)):
        grads = [v.grad for v in got]
        assert grads == pytest.approx(t.grad.tolist(), rel=1e-9, abs=1e-10)


@engines
def test_demo(kind):
    a, b, c = kind(2.0), kind(-3.0), kind(10.0)
    loss = (a * b + c).relu() ** 2
    loss.backward()
    assert (loss.data, a.grad, b.grad, c.grad) == (16, -24, 16, 8)
    assert repr(loss) == f"{kind.__name__}(data=16.0000, grad=1.0000)"
    assert repr(a) == repr(a)


@engines
def test_leaves_accumulate_and_inner_nodes_start_anew(kind):
    a = kind(1.0)
    b = a + a
    (b + b).backward()
    assert a.grad == 4
    a, b = kind(3.0), kind(2.0)
    e = (a + b) * 1
    e.backward()
    e.backward()
    assert a.grad == 2
    a = kind(2.0)
    h = a * a
    (h * 1).backward()
    (h * 1).backward()
    assert a.grad == 8
    leaf = kind(5.0)
    leaf.backward()
    assert leaf.grad == 1


@engines
def test_deep_graphs(kind):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        x = kind(1.0)
        s = x
        for _ in range(20000):
            s = s + 1.0
        s.backward()
        assert x.grad == 1
        losses = [kind(1.0) for _ in range(1000)]
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        total.backward()
        assert {loss.grad for loss in losses} == {1.0}
        del s, total
    finally:
        sys.setrecursionlimit(before)


@engines
def test_outside_the_domain(kind):
    for bad in (lambda: kind(-8.0) ** 0.5, lambda: kind(0.0).log()):
        with pytest.raises(ValueError, match="ません"):
            bad()
    with pytest.raises(ValueError, match="ません"):
        kind(-1.0).log()
    for bad in (lambda: kind(1.0) / 0, lambda: 1 / kind(0.0), lambda: kind(0.0) ** -1):
        with pytest.raises(ZeroDivisionError, match="できません"):
            bad()
    with pytest.raises(TypeError, match="指数"):
        kind(2.0) ** kind(3.0)
    with pytest.raises(TypeError):
        2 ** kind(3.0)
    zero = kind(0.0)
    one = zero**0
    one.backward()
    assert (one.data, zero.grad) == (1, 0)
    assert math.isnan(kind(math.nan).relu().data)
    assert math.isnan(LESSON.relu(math.nan))
    assert (kind(-8.0) ** 3).data == -512


@pytest.mark.parametrize("gap", [50.0, 709.0, 712.0, 800.0, 5000.0])
def test_an_unlikely_target_has_its_loss_and_gradient(gap):
    z = [Value(0.0), Value(-gap)]
    loss = LESSON.cross_entropy(z, 1)
    loss.backward()
    assert loss.data == pytest.approx(gap)
    assert [v.grad for v in z] == pytest.approx([1, -1])


def test_tape_is_creation_order_and_leaves_nothing():
    x = Value(3.0)
    with LESSON.Tape() as tape:
        y = x * x
        loss = y * y
    assert tape == [y, loss]
    assert LESSON.TAPES == []
    loss.backward(tape)
    assert x.grad == 108
    with pytest.raises(ValueError), LESSON.Tape():
        raise ValueError
    assert LESSON.TAPES == []
    assert set(Value.__slots__) == {"data", "grad", "_children", "_local_grads"}


def test_shape_mistakes_raise():
    w = [[Value(1.0), Value(2.0)]]
    for x in ([Value(1.0)], [Value(1.0)] * 3):
        with pytest.raises(ValueError, match="長さ"):
            LESSON.linear(x, w)
        with pytest.raises(ValueError, match="長さ"):
            LESSON.dot(x, w[0])
    with pytest.raises(TypeError, match="混ぜ"):
        LESSON.linear([1.0, 2.0], w)
    with pytest.raises(ValueError):
        LESSON.add([1.0], [1.0, 2.0])


# --- the model ----------------------------------------------------------------


def test_names_and_signatures():
    wanted = {
        "gpt": "(model, token_id, pos_id, keys, values, return_attn=False)",
        "loss_for_document": "(model, doc)",
        "train_step": "(model, optimizer, doc, step, num_steps)",
        "attention_matrix_for_doc": "(model, doc, layer=0, head=0)",
        "linear": "(x, w)",
        "softmax": "(logits)",
        "rmsnorm": "(x)",
    }
    for name, text in wanted.items():
        assert str(inspect.signature(getattr(LESSON, name))) == text
    generate = list(inspect.signature(LESSON.generate_one).parameters.items())
    assert [n for n, _ in generate[:3]] == ["model", "temperature", "max_new_tokens"]
    assert [p.default for _, p in generate[1:3]] == [0.5, None]
    assert inspect.signature(LESSON.matrix).parameters["std"].default == 0.08


def test_parameters_by_formula_and_count():
    for shape in ({}, {"n_embd": 12, "n_head": 3, "n_layer": 3, "block_size": 5}):
        model = model_of(**shape)
        c = model.config
        v, d = c.vocab_size, c.n_embd
        wanted = 2 * v * d + c.block_size * d + c.n_layer * 12 * d * d
        assert len(model.params) == wanted
    assert len(model_of().params) == 4192
    ja = data.names("ja")
    assert len(model_of(docs=ja).params) == 5728


def test_nodes_grow_in_a_straight_line():
    model = model_of(n_layer=2, n_head=2, n_embd=8)
    keys, values = LESSON.empty_cache(model.config)
    nodes = []
    for t in range(6):
        with LESSON.Tape() as tape:
            LESSON.gpt(model, 0, t, keys, values)
        nodes.append(len(tape))
    assert {b - a for a, b in itertools.pairwise(nodes)} == {5 * 2 * 2}


def test_head_count_must_divide():
    for heads in (3, 5):
        with pytest.raises(ValueError, match=f"n_embd=16、n_head={heads}"):
            LESSON.Config(27, n_head=heads)
    with pytest.raises(ValueError, match="n_layer"):
        LESSON.Config(27, n_layer=0)


def test_longer_than_the_table():
    model = model_of(block_size=4)
    with pytest.raises(ValueError, match="0 から 4"):
        LESSON.generate_one(model, max_new_tokens=5)
    keys, values = LESSON.empty_cache(model.config)
    for t in range(4):
        LESSON.gpt(model, 0, t, keys, values)
    with pytest.raises(ValueError, match="0 から 3"):
        LESSON.gpt(model, 0, 4, keys, values)
    rng = random.Random(0)
    hot = [LESSON.generate_one(model, 50.0, rng=rng) for _ in range(20)]
    assert max(map(len, hot)) == 4
    long = LESSON.loss_for_document(model.numbers(), "abcdefgh")
    assert long == LESSON.loss_for_document(model.numbers(), "abcdzzzz")


def test_ids_outside_are_refused_everywhere():
    model = model_of()
    for bad in (-1, 27, 1000):
        with pytest.raises(ValueError, match=r"0 から 26"):
            LESSON.gpt(model, bad, 0, *LESSON.empty_cache(model.config))
        with pytest.raises(ValueError, match=r"0 から 26"):
            model.tokenizer.decode([bad])
        with pytest.raises(ValueError, match=r"0 から 26"):
            model.tokenizer.token_to_str(bad)


def test_a_cache_used_twice_is_refused():
    model = model_of().numbers()
    keys, values = LESSON.empty_cache(model.config)
    LESSON.gpt(model, 26, 0, keys, values)
    with pytest.raises(ValueError, match="キャッシュ"):
        LESSON.gpt(model, 26, 0, keys, values)


def test_no_future_bit_for_bit():
    model = model_of(n_layer=2, std=0.5).numbers()
    rng = random.Random(1)
    for _ in range(10):
        tokens = [rng.randrange(27) for _ in range(8)]
        cut = rng.randrange(1, 8)
        other = tokens[:cut] + [(t + 1) % 27 for t in tokens[cut:]]
        one, two = LESSON.read_all(model, tokens), LESSON.read_all(model, other)
        assert one[:cut] == two[:cut]
        assert one[cut] != two[cut]


def test_numbers_and_nodes_give_the_same_bits():
    model = model_of(std=0.3)
    for doc in NAMES[:5]:
        exact = LESSON.loss_for_document(model, doc).data
        assert LESSON.loss_for_document(model.numbers(), doc) == exact
    copied = model.numbers()
    copied.state_dict["wte"][0][0] += 1.0
    assert model.params[0].data != copied.params[0] + 1.0


def test_attention_matrix():
    model = model_of(n_layer=2)
    tokens, rows = LESSON.attention_matrix_for_doc(model, "anna", layer=1, head=3)
    assert tokens == [26, 0, 13, 13, 0]
    assert [len(row) for row in rows] == [1, 2, 3, 4, 5]
    assert all(abs(math.fsum(row) - 1) < 1e-12 for row in rows)
    for layer, head in ((2, 0), (0, 4), (-1, 0)):
        with pytest.raises(ValueError, match="ありません"):
            LESSON.attention_matrix_for_doc(model, "anna", layer, head)


def test_attention_pictures_share_one_scale():
    flat, sharp = [[1.0], [0.51, 0.49]], [[1.0], [0.0, 1.0]]
    picture = LESSON.plots.panels({"a": flat, "b": sharp}, causal=True, alt="重み。")
    assert picture.description.count("0.00..1.00") == 2


@pytest.mark.parametrize("doc", ["anna", "a", "abcdefghijklmnopqrstuvwxyz"])
def test_one_label_for_each_row_and_the_future_not_allowed(doc):
    model = model_of()
    show = LESSON.attention_chart(model, 0, [doc])
    assert len(show().axes) == 5  # four heads and their common bar
    picture = show(head=3)
    tokens, rows = LESSON.attention_matrix_for_doc(model, doc, 0, 3)
    ax = picture.axes[0]
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels == [model.tokenizer.token_to_str(t) for t in tokens]
    assert len(rows) == min(16, len(doc) + 1)
    assert picture.description.count("×") == len(rows) * (len(rows) - 1) // 2 or (
        len(rows) > 8
    )


def test_the_gradient_check_can_fail():
    def steep(v):
        if not isinstance(v, Value):
            return LESSON.relu(v)
        return Value(LESSON.relu(v.data), (v,), (1.0,))

    model = model_of()
    broken = LESSON.Model(
        LESSON.replace(model.config, activation=steep),
        model.tokenizer,
        model.state_dict,
    )
    picks = range(3000, 4192, 40)
    numeric = LESSON.numeric_gradients(broken, "anna", picks)
    good, bad = LESSON.gradients(model, "anna"), LESSON.gradients(broken, "anna")
    assert max(abs(n - good[i]) for n, i in zip(numeric, picks, strict=True)) < 1e-8
    assert max(abs(n - bad[i]) for n, i in zip(numeric, picks, strict=True)) > 1e-3


# --- text, sampling -------------------------------------------------------------


def test_unknown_characters_are_named():
    tokenizer = LESSON.Tokenizer(NAMES)
    for text, place, code in (
        ("anna ", 4, "0020"),
        ("あ", 0, "3042"),
        ("A", 0, "0041"),
    ):
        with pytest.raises(ValueError, match=rf"{place} 文字目 .*U\+{code}"):
            tokenizer.encode(text)
    loss = LESSON.loss_for_document
    with pytest.raises(ValueError, match="語彙"):
        loss(model_of(), "É")


def test_the_text_bos_is_five_characters():
    tokenizer = LESSON.Tokenizer(["<BOS>", "ab"])
    assert len(tokenizer.encode("<BOS>")) == 5
    assert tokenizer.BOS not in tokenizer.encode("<BOS>")
    assert tokenizer.decode(tokenizer.framed("<BOS>")) == "<BOS>"


@given(st.text(alphabet="abcdeあいう", max_size=12))
def test_round_trip(text):
    tokenizer = LESSON.Tokenizer(["abcdeあいう"])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.framed(text)) == text


def test_sampling_parameters():
    model = model_of(std=0.5)
    greedy = {LESSON.generate_one(model, temperature=0) for _ in range(3)}
    first = {LESSON.generate_one(model, 1.0, top_k=1) for _ in range(3)}
    assert greedy == first
    assert len(greedy) == 1
    for bad in (-1, -0.0001, math.nan, math.inf):
        with pytest.raises(ValueError, match="温度"):
            LESSON.generate_one(model, temperature=bad)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="top_k"):
            LESSON.generate_one(model, top_k=bad)
    for bad in (-1, 17):
        with pytest.raises(ValueError, match="max_new_tokens"):
            LESSON.generate_one(model, max_new_tokens=bad)
    assert LESSON.generate_one(model, max_new_tokens=0) == ""
    assert LESSON.generate_one(model, 1e-320) == greedy.pop()
    logits = [0.3, 2.0, -1.0, 2.0]
    for k in (4, 5, 1000, None):
        assert LESSON.next_probs(logits, 0.7, k) == LESSON.next_probs(logits, 0.7)
    kept = LESSON.next_probs(logits, 1.0, 3)
    assert [p > 0 for p in kept] == [True, True, False, True]


def test_entropy_rises_with_temperature():
    rng = random.Random(3)
    for _ in range(20):
        logits = [rng.gauss(0, 3) for _ in range(9)]
        taus = (0, 0.1, 0.5, 1, 2, 10)
        spread = [LESSON.entropy(LESSON.next_probs(logits, t)) for t in taus]
        assert spread == sorted(spread)


def test_samples_follow_the_distribution():
    """Chi-square with 4 degrees of freedom: 18.47 is its 0.1 % point."""
    logits = [1.0, 0.0, -1.0, 0.5, -math.inf, 2.0]
    for tau, top_k in ((1.0, None), (0.5, None), (2.0, 3)):
        p = LESSON.next_probs(logits, tau, top_k)
        rng, trials = random.Random(7), 20000
        seen = [0] * len(p)
        for _ in range(trials):
            seen[LESSON.draw(p, rng)] += 1
        assert all(n == 0 for n, q in zip(seen, p, strict=True) if q == 0)
        chi = [
            (n - trials * q) ** 2 / (trials * q)
            for n, q in zip(seen, p, strict=True)
            if q
        ]
        assert math.fsum(chi) < 18.47


def test_samples_come_again_with_their_seed():
    model = model_of(std=0.5)
    runs = [
        [LESSON.generate_one(model, 1.0, rng=rng) for _ in range(5)]
        for rng in (random.Random(1), random.Random(1), random.Random(2))
    ]
    assert runs[0] == runs[1] != runs[2]
    assert all(set(name) <= set(model.tokenizer.uchars) for name in runs[0])


# --- the same bits everywhere -----------------------------------------------------

SCRIPT = """
import hashlib, json, struct, sys
ch = {"__name__": "chapter"}
module = type(sys)("chapter"); sys.modules["chapter"] = module
exec(open(sys.argv[1], encoding="utf-8").read(), module.__dict__)
ch = module.__dict__
docs = json.load(open(sys.argv[2], encoding="utf-8"))
tokenizer = ch["Tokenizer"](docs)
config = ch["Config"](tokenizer.vocab_size, n_layer=2)
model = ch["build_model"](config, tokenizer, 42)
losses, _ = ch["train"](model, ch["Adam"](model.params), docs, 6)
rng = ch["random"].Random(5)
words = [ch["generate_one"](model, 1.0, rng=rng) for _ in range(3)]
bits = b"".join(struct.pack("<d", x) for x in ch["numbers"](model.params) + losses)
print(hashlib.sha256(bits + "".join(words).encode()).hexdigest())
"""


def pythons():
    """Interpreters 3.11 to 3.13 that can be found here, by version."""
    found = {"3.11": sys.executable}
    for version in ("3.12", "3.13"):
        for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")):
            found[version] = str(path)
    return found


@pytest.fixture(scope="module")
def bits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bits")
    lines = chapters.source(PATH).splitlines()
    text = "\n".join(line for line in lines if not line.startswith("from lmbook"))
    files = {"chapter.py": text, "names.json": json.dumps(NAMES[::400])}
    for name, content in (files | {"run.py": SCRIPT}).items():
        (folder / name).write_text(content, encoding="utf-8")

    def run(python, seed):
        command = [python, "run.py", "chapter.py", "names.json"]
        plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run(
            command,
            cwd=folder,
            check=True,
            stdout=subprocess.PIPE,
            encoding="ascii",
            env=plain | {"PYTHONHASHSEED": str(seed)},
        )
        return done.stdout.strip()

    return run


def test_same_bits_for_three_hash_seeds(bits):
    assert len({bits(sys.executable, seed) for seed in (0, 1, 2)}) == 1


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_same_bits_on_other_pythons(bits, version):
    python = pythons().get(version)
    if python is None:
        pytest.skip(f"NO PYTHON {version} HERE: its bits were not compared")
    assert bits(python, 0) == bits(sys.executable, 0)


# --- the whole notebook -----------------------------------------------------------


def outputs(notebook):
    """What each code cell says and shows; a stream may come in several pieces."""
    return {
        cell.id: (
            "".join(out.get("text", "") for out in cell.outputs),
            [out.data for out in cell.outputs if "data" in out],
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def test_no_torch_in_the_kernel_and_no_network_of_state():
    def ask(notebook):
        text = "import sys\nprint('torch' in sys.modules, 'numpy' in dir())"
        notebook.cells.append(new_code_cell(text, id="ask"))

    done = quick_run(PATH, ask)
    assert done.cells[-1].outputs[0].text == "False False\n"
    code = [c.source for c in done.cells if c.cell_type == "code"]
    assert not [s for s in code[:-1] if "import torch" in s or "import numpy" in s]
    assert "✗" not in str([c.outputs for c in done.cells if c.cell_type == "code"])


@pytest.mark.slow
def test_every_cell_can_be_run_twice():
    def double(notebook):
        cells = []
        for cell in notebook.cells:
            cells.append(cell)
            if cell.cell_type == "code" and "parameters" not in cell.metadata.get(
                "tags", []
            ):
                again = copy.deepcopy(cell)
                again.id = f"{cell.id}-again"
                cells.append(again)
        notebook.cells = cells

    found = outputs(quick_run(PATH, double, seconds=300))
    twice = [name for name in found if f"{name}-again" in found]
    assert len(twice) > 80
    differ = [name for name in twice if found[name] != found[f"{name}-again"]]
    assert differ == [], differ


def parameter(**values):
    """The chapter's quick run under other parameters."""

    def change(notebook):
        cell = next(c for c in notebook.cells if c.id == "parameters")
        lines = dict(line.split(" = ", 1) for line in cell.source.splitlines())
        assert set(values) <= set(lines)
        lines |= {name: repr(value) for name, value in values.items()}
        cell.source = "\n".join(f"{k} = {v}" for k, v in lines.items())

    return change


def runs_to_its_end(**values):
    done = quick_run(PATH, parameter(**values), seconds=300)
    assert compare.count_faults(done) == []
    record = json.loads(done.cells[-1].outputs[0].text)
    assert math.isfinite(record["held_out"])


def test_japanese_names_run_the_notebook():
    runs_to_its_end(corpus="ja")


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"n_layer": 2, "activation": "gelu", "top_k": 1, "temperature": 0.0},
        {"n_embd": 12, "n_head": 3, "block_size": 4, "seed": 0},
        {"n_embd": 1, "n_head": 1, "num_steps": 1, "learning_rate": 0.5},
        {"n_embd": 32, "n_head": 8, "block_size": 32, "temperature": 100.0},
    ],
)
def test_other_parameters_run_the_notebook(values):
    runs_to_its_end(**values)


@pytest.mark.slow
def test_a_file_of_ones_own_runs_the_notebook(tmp_path):
    """Also C02 and C05: a BOM and Windows line ends leave no trace."""
    flowers = [
        "さくら",
        "うめ",
        "もも",
        "ゆり",
        "ばら",
        "きく",
        "はぎ",
        "ふじ",
        "すみれ",
    ]
    flowers += ["あやめ", "つばき", "らん"]
    file = tmp_path / "hana.txt"
    file.write_bytes(("\ufeff" + "\r\n".join(flowers)).encode("utf-8"))
    runs_to_its_end(corpus=str(file))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"corpus": "fr"}, "corpus"),
        ({"n_head": 3}, "n_head"),
        ({"activation": "tanh"}, "activation"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"block_size": 0}, "block_size"),
        ({"quick": 1}, "quick"),
    ],
)
def test_illegal_parameters_are_refused_at_once(values, message):
    cells = {c.id: c.source for c in compare_cells()}
    space = {}
    for name in ("imports", "parameters"):
        exec(cells[name], space)
    space |= values
    with pytest.raises(ValueError, match=message):
        exec(cells["validate"], space)


def compare_cells():
    from lmbook.press import run

    return run.read(PATH).cells


def test_broken_corpora_are_refused(tmp_path):
    for content in ("", "\n\n", "<html><body>Proxy login</body></html>"):
        file = tmp_path / "broken.txt"
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError):
            LESSON.load_lines(str(file))


def test_digest_of_the_split_is_that_of_another_process():
    """C30/C41: the split does not depend on what ran before."""
    random.seed(99)
    one = data.split(NAMES, 500, 42)
    random.random()
    two = data.split(NAMES, 500, 42)
    assert one == two
    digest = hashlib.sha256(" ".join(one[0][:50]).encode()).hexdigest()
    assert digest == hashlib.sha256(" ".join(two[0][:50]).encode()).hexdigest()


# --- the benchmark's baseline -------------------------------------------------------


def test_the_baseline_is_the_usual_construction_and_computes_the_same():
    sys.path.insert(0, str(chapters.ROOT / "benchmarks"))
    try:
        import micro_gpt
    finally:
        sys.path.pop(0)
    model = model_of()
    baseline = micro_gpt.Baseline(model, micro_gpt.SHAPE)
    micro_gpt.assert_node_count(baseline)
    optimizer = LESSON.Adam(model.params)
    for step, doc in enumerate(NAMES[::900]):
        truth = baseline.step(model.tokenizer.framed(doc), step, 300)
        loss = LESSON.train_step(model, optimizer, doc, step, 300)
        assert loss == pytest.approx(truth, rel=1e-12)
