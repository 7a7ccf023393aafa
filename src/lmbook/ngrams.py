"""How well counting alone predicts the next token: the rivals of a language model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

#: Added to every count, so that what never came keeps a chance.
ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0)

Tokens = Sequence[int]


def loss(
    train: Iterable[Tokens],
    test: Iterable[Tokens],
    order: int,
    size: int,
    alphas: Sequence[float] = ALPHAS,
) -> float:
    """Mean loss on ``test``, in nats per token, of a table counted on ``train``.

    Each sequence bears its marks at both ends; every token after the first is
    predicted from the ``order`` tokens before it (fewer at the start) with
    probability (count + alpha) / (count of the context + alpha * size). The best of
    ``alphas`` is taken, on ``test`` itself: a rival that is slightly favoured.
    Raises ValueError for ``order`` < 0, ``size`` < 1, an alpha that is not positive
    and finite, a token outside 0 .. ``size`` - 1 and a ``train`` or
    ``test`` with nothing to predict.
    """
    usable = bool(alphas) and all(0 < alpha < math.inf for alpha in alphas)
    if order < 0 or size < 1 or not usable:
        raise ValueError(
            "order は 0 以上、size は 1 以上、alphas は正の数です"
            f"（受け取った値: {order}、{size}、{alphas}）。"
        )
    pairs = Counter(pair for tokens in train for pair in _pairs(tokens, order))
    if not pairs:
        raise ValueError("train には、数えるトークンが 1 つ以上必要です。")
    contexts: Counter[tuple[int, ...]] = Counter()
    for (context, _), n in pairs.items():
        contexts[context] += n
    asked = [pair for tokens in test for pair in _pairs(tokens, order)]
    if not asked:
        raise ValueError("test には、予測するトークンが 1 つ以上必要です。")
    for token in {following for _, following in [*pairs, *asked]}:
        if token not in range(size):
            raise ValueError(
                f"番号は 0 から {size - 1} です（受け取った値: {token}）。"
            )
    found = []
    for alpha in alphas:
        total = 0.0
        for pair in asked:
            share = (pairs[pair] + alpha) / (contexts[pair[0]] + alpha * size)
            total -= math.log(share)
        found.append(total / len(asked))
    return min(found)


def _pairs(tokens: Tokens, order: int) -> Iterator[tuple[tuple[int, ...], int]]:
    for t in range(1, len(tokens)):
        yield tuple(tokens[max(0, t - order) : t]), tokens[t]
