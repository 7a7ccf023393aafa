"""Right and wrong answers to the exercises of chapter 3."""

import math

from lmbook.chapters import load

LESSON = load("03")
Value = LESSON.Value
# What the answers below call as the chapter's own names.
topological_order = LESSON.topological_order


def unfinished(*_):
    raise NotImplementedError


def node(value, slope):
    """An answer that makes one node of ``value(x)`` and local slope ``slope(x)``."""

    def answer(x):
        return Value(value(x.data), (x,), (slope(x.data),))

    return answer


def sig(x):
    return 1 / (1 + math.exp(-x))


def composed_tanh(x):
    return ((x * 2.0).exp() - 1.0) / ((x * 2.0).exp() + 1.0)


def composed_sigmoid(x):
    """Right: from operations that exist, without an overflow."""
    if x.data >= 0:
        return ((-x).exp() + 1.0) ** -1
    grown = x.exp()
    return grown * (grown + 1.0) ** -1


def half_steady(x):
    if x.data < -700:
        return Value(1e-9, (x,), (0.0,))
    return Value(sig(x.data), (x,), (sig(x.data) * (1 - sig(x.data)),))


def constant(x):
    return Value(math.tanh(x.data))


def writes_input(x):
    x.data = math.tanh(x.data)
    return Value(x.data, (x,), (1 - x.data**2,))


def overwrites(end, order):
    end.grad = 1.0
    for n in reversed(order):
        for child, local in zip(n._children, n._local_grads, strict=True):
            child.grad = n.grad * local


def forwards(end, order):
    end.grad = 1.0
    for n in order:
        for child, local in zip(n._children, n._local_grads, strict=True):
            child.grad += n.grad * local


def no_start(end, order):
    for n in reversed(order):
        for child, local in zip(n._children, n._local_grads, strict=True):
            child.grad += n.grad * local


def without_local(end, order):
    end.grad = 1.0
    for n in reversed(order):
        for child in n._children:
            child.grad += n.grad


def normal(kept):
    total = math.fsum(kept)
    return [q / total if total else 0.0 for q in kept]


def cut_not_normal(q, p):
    return [a * (b > 0) for a, b in zip(q, LESSON.top_p_ex(q, p), strict=True)]


def one_short(q, p):
    kept, total = set(), 0.0
    for i in sorted(range(len(q)), key=lambda i: -q[i]):
        if kept and total + q[i] > p:
            break
        kept.add(i)
        total += q[i]
    return normal([a if i in kept else 0.0 for i, a in enumerate(q)])


def above(q, p):
    return normal([a if a >= p else 0.0 for a in q])


def reordered(q, p):
    return sorted(LESSON.top_p_ex(q, p), reverse=True)


def attention(queries, keys, values, *, future=-math.inf, shift=0, scale=True):
    outputs = []
    for t, query in enumerate(queries):
        size = math.sqrt(len(query)) if scale else 1.0
        scores = [LESSON.dot(query, key) / size for key in keys]
        if future is not None:
            scores = [z if i <= t + shift else future for i, z in enumerate(scores)]
        weights = LESSON.softmax(scores)
        columns = zip(*values, strict=True)
        outputs.append([LESSON.dot(weights, list(c)) for c in columns])
    return outputs


def by_cache(queries, keys, values):
    """Right: the chapter's own way, one position at a time."""
    return [
        LESSON.one_head(q, keys[: t + 1], values[: t + 1])[0]
        for t, q in enumerate(queries)
    ]


def masks_after(queries, keys, values):
    outputs = []
    for t, query in enumerate(queries):
        scores = [LESSON.dot(query, key) / math.sqrt(len(query)) for key in keys]
        weights = [w * (i <= t) for i, w in enumerate(LESSON.softmax(scores))]
        columns = zip(*values, strict=True)
        outputs.append([LESSON.dot(weights, list(c)) for c in columns])
    return outputs


def loss(model, name):
    return LESSON.loss_for_document(model.numbers(), name)


TANH = {
    "input": node(math.tanh, lambda x: 1 - x * x),
    "unsquared": node(math.tanh, lambda x: 1 - math.tanh(x)),
    "forward": node(math.sin, math.cos),
    "slope": node(math.tanh, lambda x: 2.0),
    "detached": constant,
    "in-place": writes_input,
    "type": lambda x: math.tanh(x.data),
    "no-return": lambda x: None,
}.items()
SIGMOID = {
    "overflow": node(sig, lambda x: sig(x) * (1 - sig(x))),
    "inner": node(sig, lambda x: x * (1 - x)),
    "half": node(sig, sig),
    "limit": half_steady,
}.items()
TOP_P = {
    "not-normal": cut_not_normal,
    "short": one_short,
    "threshold": above,
    "order": reordered,
}.items()
MIN_P = {
    "sum": lambda q, r: [a if a >= r * max(q) else 0.0 for a in q],
    "absolute": above,
    "strict": lambda q, r: normal([a if a > r * max(q) else 0.0 for a in q]),
}.items()
LARGE, SMALL, ZERO = "歩幅が大きい", "歩幅が小さい", "はじめが全部 0"

ROWS = [
    ("tanh_sigmoid", (LESSON.tanh_ex, LESSON.sigmoid_ex), "ok"),
    ("tanh_sigmoid", (composed_tanh, composed_sigmoid), "ok"),
    *(("tanh_sigmoid", (wrong, LESSON.sigmoid_ex), hint) for hint, wrong in TANH),
    *(("tanh_sigmoid", (LESSON.tanh_ex, wrong), hint) for hint, wrong in SIGMOID),
    ("tanh_sigmoid", (LESSON.tanh_ex, unfinished), "unfinished"),
    ("silu", LESSON.silu_ex, "ok"),
    ("silu", lambda x: x * composed_sigmoid(x), "ok"),
    ("silu", node(lambda x: x * sig(x), sig), "first-term"),
    (
        "silu",
        node(lambda x: x * sig(x), lambda x: x * sig(x) * (1 - sig(x))),
        "second-term",
    ),
    ("send_back", LESSON.send_back_ex, "ok"),
    ("send_back", LESSON.send_back, "ok"),
    ("send_back", overwrites, "overwrite"),
    ("send_back", forwards, "direction"),
    ("send_back", no_start, "no-start"),
    ("send_back", without_local, "chain"),
    ("temperature", LESSON.temperature_ex, "ok"),
    ("temperature", 8, "ignored"),
    ("temperature", 512, "multiplied"),
    ("temperature", 3, "confused"),
    ("temperature", 4, "value"),
    ("temperature", "2 倍", "type"),
    ("top_p_min_p", (LESSON.top_p_ex, LESSON.min_p_ex), "ok"),
    *(("top_p_min_p", (wrong, LESSON.min_p_ex), hint) for hint, wrong in TOP_P),
    *(("top_p_min_p", (LESSON.top_p_ex, wrong), hint) for hint, wrong in MIN_P),
    ("masked_attention", LESSON.masked_attention_ex, "ok"),
    ("masked_attention", by_cache, "ok"),
    ("masked_attention", lambda *qkv: attention(*qkv, future=None), "leak"),
    ("masked_attention", lambda *qkv: attention(*qkv, future=0.0), "zero"),
    ("masked_attention", masks_after, "after"),
    ("masked_attention", lambda *qkv: attention(*qkv, scale=False), "scale"),
    ("masked_attention", lambda *qkv: attention(*qkv, shift=1), "off-by-one"),
    ("perplexity", LESSON.perplexity_ex, "ok"),
    (
        "perplexity",
        lambda model, name: math.exp(LESSON.loss_for_document(model, name).data),
        "ok",
    ),
    ("perplexity", loss, "loss"),
    ("perplexity", lambda m, n: math.exp(loss(m, n) * (len(n) + 1)), "total"),
    ("perplexity", lambda m, n: 2 ** loss(m, n), "base-2"),
    ("perplexity", lambda m, n: math.exp(-loss(m, n)), "inverse"),
    ("perplexity", lambda m, n: LESSON.loss_for_document(m, n), "type"),
    ("diagnose", LESSON.diagnose_ex, "ok"),
    ("diagnose", {"A": ZERO, "B": SMALL, "C": LARGE}, "flat"),
    ("diagnose", {"A": LARGE, "B": ZERO, "C": SMALL}, "step"),
    ("diagnose", {"A": "lr", "B": "lr", "C": "lr"}, "words"),
    ("diagnose", {"A": LARGE, "B": SMALL, "C": ZERO}, "value"),
    ("diagnose", "A は歩幅が小さい", "type"),
]
