"""Right and wrong answers to the exercises of chapter 1."""

import torch

from lmbook.chapters import load

LESSON = load("01")


def total(hidden):
    return hidden.cumsum(dim=1)


def whole_mean(hidden):
    return hidden.mean(dim=1, keepdim=True).expand_as(hidden)


def without_self(hidden):
    steps = torch.arange(hidden.shape[1]).clamp_min(1)
    return (hidden.cumsum(dim=1) - hidden) / steps[:, None]


def one_too_many(hidden):
    steps = torch.arange(hidden.shape[1]) + 2
    return hidden.cumsum(dim=1) / steps[:, None]


def wrong_axis(hidden):
    return hidden.cumsum(dim=2) / torch.arange(1, hidden.shape[2] + 1)


def in_place(hidden):
    hidden.cumsum_(dim=1)
    return hidden / torch.arange(1, hidden.shape[1] + 1)[:, None]


def always_double(hidden):
    return LESSON.causal_mean_cumsum(hidden.double())


def forgets(hidden):
    hidden.cumsum(dim=1)


def last_only(hidden):
    return LESSON.causal_mean(hidden)[:, -1]


def zero_over_zero(hidden):
    return LESSON.causal_mean(hidden) * torch.nan


def unfinished(*_):
    raise NotImplementedError


def mask_before(hidden, mask, mixer):
    return mixer(LESSON.causal_mean(hidden, mask) * mask[..., None])


def no_query_mask(hidden, mask, mixer):
    return mixer(LESSON.causal_mean(hidden, mask))


def inverted(hidden, mask, mixer):
    return mixer(LESSON.causal_mean(hidden, mask)) * (mask == 0)[..., None]


def pads_counted(hidden, mask, mixer):
    return mixer(LESSON.causal_mean(hidden)) * mask[..., None]


def recent_pair(hidden, mask=None):
    return LESSON.mixer_c(hidden)


def centred(hidden, mask=None):
    return LESSON.centred_window(hidden)


ROWS = [
    ("rows", LESSON.rows_ex, "ok"),
    ("rows", {1, 2, 4, 7}, "last"),
    ("rows", {0, 1, 2, 4, 7}, "pad"),
    ("rows", set(range(10)), "tied"),
    ("rows", {4, 7}, "first"),
    ("rows", {"1", "4", "7"}, "text"),
    ("rows", {9}, "value"),
    ("rows", [1, 4, 7], "type"),
    ("rows", None, "unfinished"),
    ("cumsum", LESSON.cumsum_ex, "ok"),
    ("cumsum", LESSON.causal_mean_cumsum, "ok"),
    ("cumsum", total, "no-count"),
    ("cumsum", whole_mean, "leak"),
    ("cumsum", without_self, "off-by-one"),
    ("cumsum", one_too_many, "off-by-one-count"),
    ("cumsum", wrong_axis, "wrong-dim"),
    ("cumsum", in_place, "in-place"),
    ("cumsum", always_double, "dtype"),
    ("cumsum", forgets, "no-return"),
    ("cumsum", last_only, "shape"),
    ("cumsum", zero_over_zero, "nan"),
    ("cumsum", unfinished, "unfinished"),
    ("query_mask", LESSON.query_mask_ex, "ok"),
    ("query_mask", mask_before, "before"),
    ("query_mask", no_query_mask, "no-mask"),
    ("query_mask", inverted, "inverted"),
    ("query_mask", pads_counted, "no-key-mask"),
    ("leak", LESSON.leak_ex, "ok"),
    ("leak", {"mixer_a"}, "cummax"),
    ("leak", {"mixer_c"}, "shift"),
    ("leak", {"mixer_a", "mixer_b"}, "cummax-too"),
    ("leak", {"mixer_b", "mixer_c"}, "shift-too"),
    ("leak", set(), "none"),
    ("recent", LESSON.recent_ex, "ok"),
    ("recent", recent_pair, "ok"),
    ("recent", LESSON.causal_mean, "not-better"),
    ("recent", LESSON.no_mixing, "no-past"),
    ("recent", centred, "leak"),
    ("recent", lambda hidden, mask=None: hidden[:, -1], "shape"),
    ("recent", lambda hidden, mask=None: None, "no-return"),
]
