"""Right and wrong answers to the exercises of chapter 4."""

import math

import torch

from lmbook.chapters import load

LESSON = load("04")
POSITIONS = LESSON.POSITIONS


def unfinished(*_):
    raise NotImplementedError


def attention(q, k, v, *, future=-math.inf, shift=1, root=True, dim=-1):
    scores = torch.einsum("bhtd,bhsd->bhts", q, k)
    scores = scores / math.sqrt(q.shape[-1]) if root else scores
    if future is not None:
        T = q.shape[2]
        scores = scores.masked_fill(torch.ones(T, T).triu(shift) == 1, future)
    return scores.softmax(dim).nan_to_num(0.0) @ v


def flat(q, k, v):
    return LESSON.masked_attention(q, k, v).flatten(1)


def whole(model, ids, labels, parts):
    model.zero_grad()
    LESSON.document_mean(model(ids), labels).backward()


def pieces(scale, *, reset="first", mean=LESSON.document_mean):
    """Gradient accumulation with one thing chosen each."""

    def answer(model, ids, labels, parts):
        if reset == "first":
            model.zero_grad()
        for a, b in zip(ids.chunk(parts), labels.chunk(parts), strict=True):
            if reset == "each":
                model.zero_grad()
            (mean(model(a), b) / (parts if scale else 1)).backward()

    return answer


def whole_token(model, ids, labels, parts):
    model.zero_grad()
    count = (labels != LESSON.IGNORE).sum()
    for a, b in zip(ids.chunk(parts), labels.chunk(parts), strict=True):
        (LESSON.token_losses(model(a), b).sum() / count).backward()


def tie_copy(model):
    model.lm_head.weight = torch.nn.Parameter(model.wte.weight.detach().clone())
    return sum(p.numel() for p in model.parameters()) - model.wte.weight.numel()


def tie_data(model):
    model.lm_head.weight.data.copy_(model.wte.weight.data)
    return sum(p.numel() for p in model.parameters())


def tie_wrong_way(model):
    model.wte.weight = model.lm_head.weight
    return sum(p.numel() for p in model.parameters())


def tie_count(extra):
    def answer(model):
        model.lm_head.weight = model.wte.weight
        return sum(p.numel() for p in model.parameters()) + extra * (
            model.wte.weight.numel()
        )

    return answer


def tie_forgets(model):
    model.lm_head.weight = model.wte.weight


def tie_untied(model):
    return sum(p.numel() for p in model.parameters())


def tie_off(model):
    return tie_count(0)(model) + 1


def grown(past, k, v, dim=2, turn=False):
    if past is None:
        return k, v
    pairs = ((k, past[0]), (v, past[1])) if turn else ((past[0], k), (past[1], v))
    return tuple(torch.cat(pair, dim) for pair in pairs)


def new_only(past, q, k, v):
    return LESSON.masked_attention(q, k, v), grown(past, k, v)


def never_grows(past, q, k, v):
    keys, values = grown(past, k, v)
    return LESSON.masked_attention(q, keys, values), (k, v)


def reversed_order(past, q, k, v):
    keys, values = grown(past, k, v, turn=True)
    return LESSON.masked_attention(q, keys, values), (keys, values)


def swapped(past, q, k, v):
    past = past and (past[1], past[0])
    keys, values = grown(past, k, v)
    return LESSON.masked_attention(q, keys, values), (values, keys)


def no_mask(past, q, k, v):
    keys, values = grown(past, k, v)
    scores = q @ keys.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.softmax(-1) @ values, (keys, values)


def list_past(past, q, k, v):
    keys, values = grown(past, k, v)
    return LESSON.masked_attention(q, keys, values), [keys, values]


def turned(x, positions, base, *, sign=1, power=2, half=False):
    d_h = x.shape[-1]
    speed = base ** -(torch.arange(d_h // 2, dtype=torch.float64) * power / d_h)
    angle = sign * positions[:, None] * speed
    a, b = x.chunk(2, -1) if half else (x[..., 0::2], x[..., 1::2])
    parts = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.cat(parts, -1) if half else torch.stack(parts, -1).flatten(-2)


ROWS = [
    ("einsum", LESSON.einsum_ex, "ok"),
    ("einsum", LESSON.masked_attention, "ok"),
    ("einsum", LESSON.fused_attention, "ok"),
    ("einsum", lambda *qkv: attention(*qkv, future=None), "leak"),
    ("einsum", lambda *qkv: attention(*qkv, future=0.0), "zero"),
    ("einsum", lambda *qkv: attention(*qkv, root=False), "scale"),
    ("einsum", lambda *qkv: attention(*qkv, shift=2), "off-by-one"),
    ("einsum", lambda *qkv: attention(*qkv, dim=-2), "axis"),
    ("einsum", flat, "shape"),
    ("einsum", lambda *qkv: None, "no-return"),
    ("einsum", unfinished, "unfinished"),
    ("accumulate", LESSON.accumulate_ex, "ok"),
    ("accumulate", pieces(True), "ok"),
    ("accumulate", pieces(False), "sum"),
    ("accumulate", pieces(True, reset="never"), "stale"),
    ("accumulate", pieces(True, reset="each"), "last"),
    ("accumulate", pieces(False, reset="each"), "last-whole"),
    ("accumulate", whole_token, "token"),
    ("accumulate", whole, "calls"),
    ("accumulate", lambda model, ids, labels, parts: model(ids), "no-backward"),
    ("accumulate", pieces(True, mean=LESSON.token_mean), "value"),
    ("tie", LESSON.tie_ex, "ok"),
    ("tie", tie_copy, "copy"),
    ("tie", tie_wrong_way, "direction"),
    ("tie", tie_count(1), "twice"),
    ("tie", tie_count(-1), "none"),
    ("tie", tie_forgets, "no-return"),
    ("tie", tie_untied, "untied"),
    ("tie", tie_off, "count"),
    ("extend", LESSON.extend_ex, "ok"),
    ("extend", new_only, "value"),
    ("extend", never_grows, "grow"),
    ("extend", reversed_order, "order"),
    ("extend", swapped, "swapped"),
    ("extend", no_mask, "chunk"),
    ("extend", list_past, "past-type"),
    ("extend", lambda past, q, k, v: LESSON.masked_attention(q, k, v), "type"),
    ("rope_base", LESSON.rope_base_ex, "ok"),
    ("rope_base", turned, "ok"),
    ("rope_base", lambda x, p, base: POSITIONS.rope(x, p), "ignored"),
    ("rope_base", lambda *a: turned(*a, sign=-1), "sign"),
    ("rope_base", lambda *a: turned(*a, power=1), "power"),
    ("rope_base", lambda *a: turned(*a, half=True), "half"),
]
