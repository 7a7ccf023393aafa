"""Chapter 4: learning curves to 10,000 steps and the seven tasks over seeds.

Everything is the notebook's own code (``chapters.load("04")``) in float64 on one
thread; losses do not depend on the machine to the digits that are committed.

    python benchmarks/learning_curves.py             measure and write the results
    python benchmarks/learning_curves.py --part      a small part, as one JSON line
"""

import argparse
import json
import math
import statistics
import sys
from typing import Any

import torch
from _save import save

from lmbook import chapters, data, ngrams

C = chapters.load("04")
S = C.SCALAR
SEEDS = (0, 1, 2)
STAGES = (0, 30, 100, 300, 1000, 3000, 10000)
TASK_STEPS = 1000


class Corpus:
    """Train and held-out tables of names, split as in the chapter."""

    def __init__(self, language: str) -> None:
        lines = data.names(language)
        self.docs, self.held_out = data.split(lines, 500, 42)
        self.tokenizer = S.Tokenizer(lines)

    def table(self, docs: list[str], block: int) -> Any:
        return C.tabulate(docs, self.tokenizer, block)

    def model(self, seed: int, **change: Any) -> Any:
        options = {k: change.pop(k) for k in ("mix", "places") if k in change}
        config = S.Config(self.tokenizer.vocab_size, **change)
        return C.twin_of(S.build_model(config, self.tokenizer, seed), **options)

    def order(self, seed: int) -> list[str]:
        """The training names in this seed's order."""
        import random

        docs = list(self.docs)
        random.Random(seed).shuffle(docs)
        return docs


def spread(values: list[float]) -> dict[str, float]:
    mean = statistics.fmean(values)
    return {"mean": mean, "low": min(values), "high": max(values)}


def baselines(corpus: Corpus) -> dict[str, float]:
    """Held-out loss of counts; the smoothing is the best one on these names."""
    framed, size = corpus.tokenizer.framed, corpus.tokenizer.vocab_size
    train, test = ([framed(d) for d in part] for part in (corpus.docs, corpus.held_out))
    found = {"uniform": math.log(size)}
    for order, name in enumerate(("unigram", "bigram", "trigram", "4-gram")):
        found[name] = ngrams.loss(train, test, order, size)
    return found


def curve(corpus: Corpus, seed: int, batch: int, stages: tuple[int, ...]) -> Any:
    """Held-out loss, share of copies and samples at each stage of one training."""
    model = corpus.model(seed)
    ids, labels = corpus.table(corpus.order(seed), 16)
    held_out = corpus.table(corpus.held_out, 16)
    optimizer, rows = C.make_adam(model), []
    seen = set(corpus.docs)
    for step in range(stages[-1] + 1):
        if step in stages:
            written = C.write(model, corpus.tokenizer, 1000, 0.5, seed=seed)
            copied = len([name for name in written if name in seen]) / 1000
            loss = C.held_out_loss(model, held_out)
            rows.append({"loss": loss, "copied": copied, "samples": written[:8]})
        if step < stages[-1]:
            picked = torch.arange(step * batch, (step + 1) * batch) % len(ids)
            C.set_rate(optimizer, step, stages[-1])
            C.train_step(model, optimizer, ids[picked], labels[picked])
    return rows


def curves(language: str, batch: int, seeds: tuple[int, ...], stages: Any) -> Any:
    """One row a stage: loss and copies over the seeds, samples of the first seed."""
    corpus = Corpus(language)
    runs = [curve(corpus, seed, batch, stages) for seed in seeds]
    rows = []
    for step, *stage in zip(stages, *runs, strict=True):
        row = {name: spread([s[name] for s in stage]) for name in ("loss", "copied")}
        rows.append({"step": step, **row, "samples": stage[0]["samples"]})
        print(language, batch, step, row, file=sys.stderr, flush=True)
    return {"batch": batch, "baselines": baselines(corpus), "rows": rows}


VARIANTS: dict[str, dict[str, Any]] = {
    "既定": {},
    "2 層": {"n_layer": 2},
    "GELU": {"activation": S.gelu},
    "block 4": {"block_size": 4},
    "block 8": {"block_size": 8},
    "block 32": {"block_size": 32},
    "batch 8": {"batch": 8},
    "batch 32": {"batch": 32},
    "位置なし": {"places": False},
    "RoPE": {"places": False, "mix": C.rope_attention},
    "ALiBi": {"places": False, "mix": C.alibi_attention},
}


@torch.no_grad()
def inside(model: Any, table: Any, first: int) -> float:
    """Loss over the first places of each name only: what a short block counts."""
    ids, labels = (part[:, :first] for part in table)
    return float(C.token_mean(model(ids), labels))


def task(corpus: Corpus, seed: int, steps: int, change: dict[str, Any]) -> Any:
    """Held-out loss of one variant: chapter 3's measure."""
    change = dict(change)
    batch = change.pop("batch", 1)
    block = change.get("block_size", 16)
    model = corpus.model(seed, **change)
    C.train(model, corpus.table(corpus.order(seed), block), steps, batch)
    return model, C.held_out_loss(model, corpus.table(corpus.held_out, block))


def tasks(seeds: tuple[int, ...], steps: int, names: Any = VARIANTS) -> Any:
    """One row a variant; the default must come before the shorter blocks."""
    corpus, rows, base = Corpus("en"), [], []
    full = corpus.table(corpus.held_out, 16)
    for name in names:
        change = VARIANTS[name]
        runs = [task(corpus, seed, steps, change) for seed in seeds]
        row = {"name": name, **spread([loss for _, loss in runs])}
        if name == "既定":
            base = [model for model, _ in runs]
        if name.startswith("block") and change["block_size"] < 16:
            places = change["block_size"]
            row["default_inside"] = spread([inside(m, full, places) for m in base])
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows


def sampling(seeds: tuple[int, ...], steps: int) -> Any:
    """top-k: distinct names and copies among 1,000 written at temperature 1."""
    corpus, rows = Corpus("en"), []
    seen = set(corpus.docs)
    models = [task(corpus, seed, steps, {})[0] for seed in seeds]
    for k in (1, 2, 5, 10, None):
        parts: dict[str, list[float]] = {"distinct": [], "copied": []}
        for seed, model in zip(seeds, models, strict=True):
            written = C.write(model, corpus.tokenizer, 1000, 1.0, k, seed)
            parts["distinct"].append(len(set(written)) / 1000)
            parts["copied"].append(len([n for n in written if n in seen]) / 1000)
        rows.append({"k": k, **{name: spread(p) for name, p in parts.items()}})
    return rows


def long_lines(seeds: tuple[int, ...], steps: int) -> Any:
    """The corpus of repeated passwords: block, depth and positions."""
    shapes = [
        *({"block": b, "n_layer": n} for b in (4, 8, 16, 32) for n in (1, 2)),
        {"block": 32, "n_layer": 2, "way": "位置なし"},
        {"block": 32, "n_layer": 2, "way": "RoPE"},
        {"block": 32, "n_layer": 2, "way": "ALiBi"},
    ]
    rows = []
    for shape in shapes:
        given = dict(shape)
        way = VARIANTS.get(given.pop("way", ""), {})
        runs = [C.password_run(seed, steps, **given, **way) for seed in seeds]
        late = [statistics.fmean(places[16:]) for places in runs]
        mean = [statistics.fmean(column) for column in zip(*runs, strict=True)]
        rows.append({**shape, **spread(late), "places": mean})
        print(shape, rows[-1]["mean"], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """All of it, written to the results; or a part, printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="store_true")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    if parser.parse_args().part:
        part = {
            "en": curves("en", 1, SEEDS[:1], (0, 300)),
            "baselines": baselines(Corpus("ja")),
            "tasks": tasks(SEEDS[:1], TASK_STEPS, ["既定", "block 4"]),
        }
        print(json.dumps(part))
        return
    found = {
        "seeds": len(SEEDS),
        "task_steps": TASK_STEPS,
        "long_steps": 1000,
        "tasks": tasks((0, 1, 2, 3, 4), TASK_STEPS),
        "sampling": sampling((0, 1, 2, 3, 4), TASK_STEPS),
        "long": long_lines(SEEDS, 1000),
        "en": curves("en", 1, SEEDS, STAGES),
        "ja": curves("ja", 1, SEEDS, STAGES),
        "en_batch": curves("en", 32, SEEDS, STAGES),
    }
    print(save("learning_curves", **found))


if __name__ == "__main__":
    main()
