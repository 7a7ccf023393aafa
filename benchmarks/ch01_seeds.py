"""Chapter 1: the tables that need many random seeds.

Every model and every loss is the chapter's own, through the loader. float64, one
thread, Adam 1e-2 and 300 updates where nothing else is said.

    python benchmarks/ch01_seeds.py            everything, results written
    python benchmarks/ch01_seeds.py --part 2   the first seeds only, printed as JSON
"""

import argparse
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from _save import save
from torch import Tensor

from lmbook import data, plots
from lmbook.chapters import load
from lmbook.repro import setup_torch

LESSON = load("01")
STEPS, LR, DIM = 300, 0.01, 32
WIDTHS = [1, 2, 3, 4, 8, 16, 32, 64]
CURRENT, MEAN = LESSON.CurrentTokenLM, LESSON.CausalMeanLanguageModel
NAMES = {"現在だけ": CURRENT, "因果平均": MEAN}


def mean(values: Sequence[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).mean())


def spread(values: Sequence[float]) -> float:
    """Population standard deviation."""
    return float(torch.tensor(values, dtype=torch.float64).std(correction=0))


def corpus(name: str) -> tuple[Tensor, Tensor, int, list[list[int]]]:
    """Ids and mask [B, T], V, and the rows without padding."""
    sentences = data.sentences(name)
    stoi = LESSON.build_vocab(sentences)
    ids, mask = LESSON.make_batch(sentences, stoi)
    rows = [r[m == 1].tolist() for r, m in zip(ids, mask, strict=True)]
    return ids, mask, len(stoi), rows


def trained_loss(make: Any, name: str, dim: int, seed: int) -> float:
    """Loss after training with ``seed``."""
    ids, mask, size, _ = corpus(name)
    torch.manual_seed(seed)
    model = make(size, dim, padding_idx=0)
    LESSON.train(model, ids, mask, STEPS, LR)
    return float(LESSON.final_loss(model, ids, mask))


def overfit(seeds: int) -> list[dict[str, Any]]:
    """Loss of both models on two corpora, beside the exact floor of each."""
    rows: list[dict[str, Any]] = []
    views: dict[str, Callable[..., Any]] = {
        "現在だけ": lambda prefix: prefix[-1],
        "因果平均": LESSON.bag,
    }
    for name in ("MIX12", "ORDER6"):
        for label, make in NAMES.items():
            losses = [trained_loss(make, name, DIM, s) for s in range(seeds)]
            seen, ordered = (
                LESSON.conditional_entropy(LESSON.next_pairs(corpus(name)[3], view))
                for view in (views[label], tuple)
            )
            rows.append(
                {
                    "corpus": name,
                    "model": label,
                    "mean": mean(losses),
                    "sd": spread(losses),
                    "floor": seen,
                    "prefix_floor": ordered,
                }
            )
    return rows


def widths(seeds: int) -> dict[str, list[dict[str, Any]]]:
    """Loss against the width D on MIX12."""
    return {
        label: [
            {"D": d, "mean": mean([trained_loss(make, "MIX12", d, s) for s in seeds_])}
            for d in WIDTHS
        ]
        for label, make in NAMES.items()
        if (seeds_ := range(seeds))
    }


def roles(seeds: int) -> list[dict[str, Any]]:
    """Role gap and nearest neighbours before and after training on ROLES."""
    settings = [
        ("犬 走る", "現在だけ", 0.1),
        ("犬 走る", "現在だけ", 1.0),
        ("犬 が 走る", "現在だけ", 0.1),
        ("犬 が 走る", "因果平均", 0.1),
        ("犬 が 走る", "因果平均", 1.0),
    ]
    rows = []
    for text, label, std in settings:
        runs = [_role_run(text, NAMES[label], std, s) for s in range(seeds)]
        keys = ("before", "after", "nearest_before", "nearest_after")
        means = {key: mean([run[key] for run in runs]) for key in keys}
        rows.append({"text": text, "model": label, "std": std, **means})
    return rows


def _role_run(text: str, make: Any, std: float, seed: int) -> dict[str, float]:
    particle = text.removeprefix("犬").removesuffix("走る")
    sentences = [s.replace(" ", particle) for s in data.sentences("ROLES")]
    stoi = LESSON.build_vocab(sentences)
    ids, mask = LESSON.make_batch(sentences, stoi)
    torch.manual_seed(seed)
    model = make(len(stoi), 16)
    torch.nn.init.normal_(model.token_embedding.weight, std=std)
    nouns = list(dict.fromkeys(s.split()[0] for s in sentences))
    row = [stoi[noun] for noun in nouns]
    groups = [row[:4], row[4:8], row[8:]]
    result = {}
    for when in ("before", "after"):
        weight = model.token_embedding.weight.detach()
        result[when] = LESSON.role_gap(weight, groups)
        result[f"nearest_{when}"] = _nearest(weight[row])
        if when == "before":
            LESSON.train(model, ids, mask, STEPS, LR)
    return result


def _nearest(vectors: Tensor) -> float:
    """Share of rows [12, D] whose nearest other row is of the same four."""
    cosine = torch.as_tensor(plots.cosines(vectors)).fill_diagonal_(-2.0)
    nearest = cosine.argmax(dim=1) // 4
    return float((nearest == torch.arange(12) // 4).double().mean())


def id_correlation(seeds: int) -> dict[str, float]:
    """Correlation of ``|i - j|`` with the cosine of rows i, j; ids shuffled."""
    ids, mask, size, _ = corpus("MIX12")
    before, after = [], []
    for seed in range(seeds):
        torch.manual_seed(seed)
        order = torch.cat([torch.zeros(1).long(), 1 + torch.randperm(size - 1)])
        model = CURRENT(size, 16)
        before.append(_correlation(model.token_embedding.weight))
        LESSON.train(model, order[ids], mask, STEPS, LR)
        after.append(_correlation(model.token_embedding.weight))
    return {"before": mean(before), "after": mean(after)}


def _correlation(weight: Tensor) -> float:
    cosine = torch.as_tensor(plots.cosines(weight[3:]))
    i, j = torch.triu_indices(*cosine.shape, offset=1)
    return float(torch.corrcoef(torch.stack([(i - j).abs(), cosine[i, j]]))[0, 1])


def names_leak(seeds: int) -> list[dict[str, Any]]:
    """Causal and leaky mixers on English names, judged on held-out names.

    Batch 128, Adam 3e-3, 500 updates; float32 for speed.
    """
    rows = []
    for label in ("因果平均", "全体の平均", "前後の窓"):
        runs = [_names_run(LESSON.MIXERS[label], s) for s in range(seeds)]
        keys = ("teacher_forced", "prefix_only", "empty")
        rows.append({"mix": label, **{k: mean([r[k] for r in runs]) for k in keys}})
        print(rows[-1], flush=True)
    return rows


def _names_run(mix: Any, seed: int) -> dict[str, float]:
    train, held_out = data.split(data.names("en"), 563, seed)
    letters = {c: i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz", 3)}
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float32)
    model = LESSON.MixingLM(mix, 29, DIM, padding_idx=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    ids, held = (_spelled(names, letters) for names in (train, held_out))
    for _ in range(500):
        batch = ids[torch.randint(len(ids), (128,))]
        optimizer.zero_grad()
        _masked_loss(model, batch).backward()
        optimizer.step()
    with torch.no_grad():
        result = {
            "teacher_forced": float(_masked_loss(model, held)),
            "prefix_only": _prefix_only(model, held),
            "empty": _empty_share(model, seed),
        }
    torch.set_default_dtype(torch.float64)
    return result


def _masked_loss(model: Any, ids: Tensor) -> Tensor:
    mask = ids != 0
    return LESSON.next_token_loss(model(ids, mask), LESSON.make_labels(ids, mask))  # type: ignore[no-any-return]


def _prefix_only(model: Any, ids: Tensor) -> float:
    """As the lesson's prefix_only_loss, for all rows at once."""
    total, count = 0.0, 0
    for t in range(1, ids.shape[1]):
        going = ids[ids[:, t] != 0]
        if len(going):
            last = model(going[:, :t], torch.ones_like(going[:, :t]))[:, -1]
            loss = torch.nn.functional.cross_entropy(last, going[:, t], reduction="sum")
            total, count = total + float(loss), count + len(going)
    return total / count


def _spelled(names: Sequence[str], letters: dict[str, int]) -> Tensor:
    rows = [[1, *(letters[c] for c in name), 2] for name in names]
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def _empty_share(model: Any, seed: int, samples: int = 200) -> float:
    """Share of sampled names (temperature 1) that end at once."""
    probabilities = model(torch.tensor([[1]]))[0, -1].softmax(dim=0).tolist()
    drawn = random.Random(seed).choices(range(29), probabilities, k=samples)
    return drawn.count(2) / samples


def everything(part: int | None) -> dict[str, Any]:
    """All tables, over ``part`` seeds each when given."""
    return {
        "overfit": overfit(part or 20),
        "widths": widths(part or 5),
        "roles": roles(part or 20),
        "id_correlation": id_correlation(part or 20),
        "names": names_leak(part or 10),
    }


def main() -> None:
    """Measure; write the results, or print the part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", type=int, help="seeds per table, printed only")
    part = parser.parse_args().part
    setup_torch(0)
    tables = everything(part)
    if part:
        print(json.dumps(tables, ensure_ascii=False))
    else:
        print(save("ch01_seeds", **tables))


if __name__ == "__main__":
    main()
