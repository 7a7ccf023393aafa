"""Right and wrong answers to the exercises of chapter 2."""

import math

import torch

from lmbook.chapters import load

LESSON = load("02")
E, P = [0.5, 0.3, -0.2, 0.8], [0.1, 0.0, 0.1, -0.1]


def unfinished(*_):
    raise NotImplementedError


def no_root(table, ids, waves):
    return table[ids] + waves


def root_on_sum(table, ids, waves):
    return (table[ids] + waves) * math.sqrt(table.shape[1])


def root_on_position(table, ids, waves):
    return table[ids] + waves * math.sqrt(table.shape[1])


def divided(table, ids, waves):
    return table[ids] / math.sqrt(table.shape[1]) + waves


def vocabulary(table, ids, waves):
    return table[ids] * math.sqrt(table.shape[0]) + waves


def other_way(table, ids, waves):
    return waves + torch.nn.functional.embedding(ids, table) * table.shape[1] ** 0.5


def halves(x, angle):
    a, b = x.chunk(2, -1)
    return a, b, angle.cos(), angle.sin()


def neighbours(x, angle):
    a, b, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def backwards(x, angle):
    return LESSON.rope_half_ex(x, -angle)


def woven(x, angle):
    a, b, cos, sin = halves(x, angle)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def same_sign(x, angle):
    a, b, cos, sin = halves(x, angle)
    return torch.cat((a * cos + b * sin, a * sin + b * cos), -1)


def only_first(x, angle):
    a, b, cos, sin = halves(x, angle)
    return a * cos - b * sin


def complex_numbers(x, angle):
    turned = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag), -1)


ROWS = [
    ("collision", LESSON.collision_ex, "ok"),
    ("collision", (P, E), "ok"),
    ("collision", (E, P), "same"),
    ("collision", (E, E), "sum"),
    ("collision", ([0.6, 0.3, -0.1], [0.0, 0.0, 0.0]), "form"),
    ("collision", ([math.inf] * 4, [-math.inf] * 4), "finite"),
    ("collision", (["0.6", "0.3", "-0.1", "0.7"], [0, 0, 0, 0]), "text"),
    ("collision", None, "unfinished"),
    ("scaled_sum", LESSON.scaled_sum_ex, "ok"),
    ("scaled_sum", other_way, "ok"),
    ("scaled_sum", no_root, "no-root"),
    ("scaled_sum", root_on_sum, "root-on-sum"),
    ("scaled_sum", root_on_position, "root-on-position"),
    ("scaled_sum", divided, "divided"),
    ("scaled_sum", vocabulary, "vocabulary"),
    ("scaled_sum", unfinished, "unfinished"),
    ("rope_half", LESSON.rope_half_ex, "ok"),
    ("rope_half", complex_numbers, "ok"),
    ("rope_half", neighbours, "neighbours"),
    ("rope_half", backwards, "backwards"),
    ("rope_half", woven, "woven"),
    ("rope_half", same_sign, "no-rotation"),
    ("rope_half", lambda x, angle: x.clone(), "unturned"),
    ("rope_half", only_first, "shape"),
    ("six_slopes", LESSON.six_slopes_ex, "ok"),
    ("six_slopes", tuple(LESSON.alibi_slopes(6).tolist()), "ok"),
    ("six_slopes", [2 ** (-8 * i / 6) for i in range(1, 7)], "plain"),
    ("six_slopes", sorted(LESSON.six_slopes_ex, reverse=True), "order"),
    ("six_slopes", [2.0**-i for i in range(1, 7)], "eight"),
    ("six_slopes", [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 4], "not-skipped"),
    ("six_slopes", [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 4, 1 / 16], "second-start"),
    ("six_slopes", [1.0] * 6, "value"),
    ("six_slopes", [1 / 4, 1 / 16], "form"),
    ("six_slopes", torch.tensor(LESSON.six_slopes_ex), "ok"),
    ("six_slopes", ["1/4", "1/16", "1/64", "1/256", "1/2", "1/8"], "text"),
    ("needed_terms", LESSON.needed_terms_ex, "ok"),
    ("needed_terms", tuple(LESSON.needed_terms_ex), "ok"),
    ("needed_terms", ["位置-位置", "内容−内容", "内容ー位置", "位置—内容"], "ok"),
    (
        "needed_terms",
        ["位置–位置", "内容–内容", "位置–内容", "内容–位置"],
        "sides",
    ),
    (
        "needed_terms",
        ["内容–位置", "内容–内容", "内容–位置", "位置–内容"],
        "offset",
    ),
    (
        "needed_terms",
        ["位置–位置", "位置–位置", "内容–位置", "位置–内容"],
        "match",
    ),
    (
        "needed_terms",
        ["位置–位置", "内容–内容", "位置–位置", "位置–内容"],
        "value",
    ),
    ("needed_terms", ["位置", "内容", "内容", "位置"], "name"),
    ("needed_terms", ["位置–位置"], "form"),
    ("grouped_weights", LESSON.grouped_weights_ex, "ok"),
    ("grouped_weights", lambda w, h, g: 2 * w * (w + g * w // h), "ok"),
    ("grouped_weights", lambda w, h, g: 4 * w * w, "all-square"),
    ("grouped_weights", lambda w, h, g: 2 * w * w + w * g * (w // h), "one-shared"),
    ("grouped_weights", lambda w, h, g: w * w + 2 * w * g * (w // h), "no-output"),
    ("grouped_weights", lambda w, h, g: 2 * w * w + 2 * w * g, "groups-only"),
    ("grouped_weights", lambda w, h, g: 2 * w * w + 2 * w * w // g, "shared-by"),
    ("grouped_weights", lambda w, h, g: w, "value"),
    ("grouped_weights", lambda w, h, g: None, "no-return"),
]
