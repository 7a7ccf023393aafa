"""Counting tables against numbers worked out by hand, and against exact entropies."""

import math

import pytest
from helpers import entropy_floors

from lmbook import ngrams

# BOS = 0 at both ends: "ab", "ab", "ac"
TRAIN = [[0, 1, 2, 0], [0, 1, 2, 0], [0, 1, 3, 0]]


@pytest.mark.parametrize(
    ("order", "shares"),
    [
        (0, (4 / 13, 3 / 13, 4 / 13)),  # 9 tokens + 4: a 3, b 2, BOS 3
        (1, (4 / 7, 3 / 7, 3 / 6)),  # BOS->a 3 of 3, a->b 2 of 3, b->BOS 2 of 2
        (2, (4 / 7, 3 / 7, 3 / 6)),  # the start has one token only
    ],
)
def test_add_one_by_hand(order, shares):
    wanted = -sum(map(math.log, shares)) / 3
    found = ngrams.loss(TRAIN, [[0, 1, 2, 0]], order, 4, [1.0])
    assert found == pytest.approx(wanted, rel=1e-14)


def test_the_best_alpha_counts():
    each = [ngrams.loss(TRAIN, TRAIN[2:], 1, 4, [a]) for a in ngrams.ALPHAS]
    assert len(set(each)) == len(each)
    assert ngrams.loss(TRAIN, TRAIN[2:], 1, 4) == min(each)


def test_without_smoothing_it_is_the_entropy_of_the_counts():
    floors = entropy_floors([["ab"], ["ab"], ["a", "b", "a"]], 0, 0)
    ids = {0: 0, "a": 1, "b": 2, "ab": 3}
    sentences = [[0, "ab", 0], [0, "ab", 0], [0, "a", "b", "a", 0]]
    tokens = [[ids[t] for t in s] for s in sentences]
    for order, name in enumerate(("unigram", "current")):
        found = ngrams.loss(tokens, tokens, order, 4, [1e-12])
        assert found == pytest.approx(floors[name], abs=1e-9)


def test_an_unseen_context_gives_all_the_same_chance():
    assert ngrams.loss(TRAIN, [[3, 3]], 2, 4, [0.5]) == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TRAIN, TRAIN, -1, 4), "order"),
        ((TRAIN, TRAIN, 1, 0), "size"),
        ((TRAIN, TRAIN, 1, 4, [0.0]), "alphas"),
        ((TRAIN, TRAIN, 1, 4, []), "alphas"),
        ((TRAIN, TRAIN, 1, 4, [math.nan]), "alphas"),
        ((TRAIN, TRAIN, 1, 3), "番号は 0 から 2 です.*3"),
        (([[0, 1, 0]], [[0, -1, 0]], 1, 3), "番号は 0 から 2 です.*-1"),
        ((TRAIN, [[0], []], 1, 4), "test"),
        (([], TRAIN, 1, 4), "train"),
    ],
)
def test_what_cannot_be_counted_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ngrams.loss(*arguments)
