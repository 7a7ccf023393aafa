"""Chapter 4: the speed ladder, and how the cost of a token grows.

One model (4,192 weights), one order of names, one init, one loss curve. Each rung
trains its own copy; rungs take turns in one process (one thread, CPU time), and a
ratio is the median over rounds of tokens per second against the source-style scalar
step of ``micro_gpt.py`` in the same round. torch is imported before the scalar
rungs run, so what is imported is frozen out of the collector first (``gc.freeze``):
otherwise Python's collector would slow the baseline and flatter every other rung.
The NumPy rung, forward and backward by hand, lives here.

    python benchmarks/ladder.py            measure and write the results
    python benchmarks/ladder.py --assert   measure and fail below the bars
    python benchmarks/ladder.py --rounds 1 a quick look
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import micro_gpt
import numpy as np
import torch
from _save import save

from lmbook import chapters, data

C = chapters.load("04")
S = C.SCALAR
ROUNDS, STEPS = 9, 10_000
BARS = {"numpy": 300.0, "batch": 1000.0}
CONTEXTS = (8, 16, 32, 64, 128, 256, 512)

# --- forward and backward by hand -------------------------------------------------


def rms(x: Any) -> tuple[Any, Any]:
    r = ((x * x).mean(1, keepdims=True) + 1e-5) ** -0.5
    return x * r, r


def rms_back(dy: Any, y: Any, r: Any) -> Any:
    """dL/dx of y = x r, where r = (mean x^2 + eps)^(-1/2)."""
    return r * (dy - y * (dy * y).mean(1, keepdims=True))


class Numpy:
    """The chapter's model with one layer; all weights in one flat array."""

    def __init__(self, model: Any) -> None:
        self.config = model.config
        self.flat = np.array([p.data for p in model.params])
        self.grad, self.w, self.g = np.zeros_like(self.flat), {}, {}
        start = 0
        for name, (rows, columns) in S.shapes(model.config).items():
            end = start + rows * columns
            short = name.removeprefix("layer0.").removeprefix("attn_")
            self.w[short] = self.flat[start:end].reshape(rows, columns)
            self.g[short] = self.grad[start:end].reshape(rows, columns)
            start = end
        self.m, self.v = np.zeros_like(self.flat), np.zeros_like(self.flat)

    def heads(self, x: Any) -> Any:
        return x.reshape(len(x), self.config.n_head, -1).transpose(1, 0, 2)

    def loss(self, tokens: list[int]) -> float:
        """Mean loss of one document; the gradients are left in ``grad``."""
        w, g, ids, goal = self.w, self.g, tokens[:-1], tokens[1:]
        T, at = len(ids), np.arange(len(ids))
        x0, r0 = rms(w["wte"][ids] + w["wpe"][:T])
        h, r1 = rms(x0)
        q, k, v = (self.heads(h @ w[n].T) for n in ("wq", "wk", "wv"))
        scale = q.shape[2] ** -0.5
        scores = q @ k.transpose(0, 2, 1) * scale
        scores[:, np.triu(np.ones((T, T), bool), 1)] = -np.inf
        a = np.exp(scores - scores.max(2, keepdims=True))
        a /= a.sum(2, keepdims=True)
        mixed = (a @ v).transpose(1, 0, 2).reshape(T, -1)
        x1 = x0 + mixed @ w["wo"].T
        y, r2 = rms(x1)
        z = y @ w["mlp_fc1"].T
        s = np.maximum(z, 0.0)
        x2 = x1 + s @ w["mlp_fc2"].T
        z_out = x2 @ w["lm_head"].T
        z_out -= z_out.max(1, keepdims=True)
        p = np.exp(z_out)
        total = p.sum(1, keepdims=True)
        found = float((np.log(total[:, 0]) - z_out[at, goal]).mean())
        p /= total  # the backward half starts here
        p[at, goal] -= 1.0
        p /= T
        g["lm_head"][...] = p.T @ x2
        d2 = p @ w["lm_head"]
        g["mlp_fc2"][...] = d2.T @ s
        dz = (d2 @ w["mlp_fc2"]) * (z > 0)
        g["mlp_fc1"][...] = dz.T @ y
        d1 = d2 + rms_back(dz @ w["mlp_fc1"], y, r2)
        g["wo"][...] = d1.T @ mixed
        dm = self.heads(d1 @ w["wo"])
        da = dm @ v.transpose(0, 2, 1)
        ds = a * (da - (da * a).sum(2, keepdims=True)) * scale
        parts = ds @ k, ds.transpose(0, 2, 1) @ q, a.transpose(0, 2, 1) @ dm
        dh = np.zeros_like(h)
        for name, part in zip(("wq", "wk", "wv"), parts, strict=True):
            flat = part.transpose(1, 0, 2).reshape(T, -1)
            g[name][...] = flat.T @ h
            dh += flat @ w[name]
        de = rms_back(d1 + rms_back(dh, h, r1), x0, r0)
        g["wte"][...] = 0.0
        np.add.at(g["wte"], ids, de)
        g["wpe"][...] = 0.0
        g["wpe"][:T] = de
        return found

    def step(self, tokens: list[int], step: int, steps: int) -> float:
        loss = self.loss(tokens)
        self.m += 0.15 * (self.grad - self.m)
        self.v += 0.01 * (self.grad * self.grad - self.v)
        rate = 0.01 * (1 - step / steps) / (1 - 0.85 ** (step + 1))
        fix = 1 - 0.99 ** (step + 1)
        self.flat -= rate * self.m / (np.sqrt(self.v / fix) + 1e-8)
        return loss


# --- the rungs ----------------------------------------------------------------


class Race:
    """The names as lists and as a table, and one stepper a rung."""

    def __init__(self) -> None:
        lines = data.names("en")
        self.docs, _ = data.split(lines, 500, 42)
        self.tokenizer = S.Tokenizer(lines)
        self.rows = [self.tokenizer.framed(doc) for doc in self.docs]
        self.table = C.tabulate(self.docs, self.tokenizer, 16)

    def model(self) -> Any:
        config = S.Config(self.tokenizer.vocab_size)
        return S.build_model(config, self.tokenizer, 42)

    def source(self) -> Callable[[int], float]:
        trained = micro_gpt.Baseline(self.model(), micro_gpt.SHAPE)
        return lambda i: trained.step(self.rows[i % len(self.rows)], i, STEPS)

    def scalar(self) -> Callable[[int], float]:
        model = self.model()
        adam = S.Adam(model.params)

        def step(i: int) -> float:
            doc = self.docs[i % len(self.docs)]
            return float(S.train_step(model, adam, doc, i, STEPS))

        return step

    def numpy(self) -> Callable[[int], float]:
        trained = Numpy(self.model())
        return lambda i: trained.step(self.rows[i % len(self.rows)], i, STEPS)

    def torch(
        self, batch: int, fused: bool = False, dtype: Any = torch.float64
    ) -> Callable[[int], float]:
        mix = C.fused_attention if fused else C.masked_attention
        twin = C.twin_of(self.model(), mix).to(dtype)
        adam = C.make_adam(twin, fused=fused)
        ids, labels = self.table

        def step(i: int) -> float:
            rows = torch.arange(i * batch, (i + 1) * batch) % len(ids)
            C.set_rate(adam, i, STEPS)
            return float(C.train_step(twin, adam, ids[rows], labels[rows]))

        return step

    def tokens(self, first: int, count: int, batch: int) -> int:
        at = range(first * batch, (first + count) * batch)
        return sum(len(self.rows[i % len(self.rows)]) - 1 for i in at)


#: name -> (shown, what it took away, batch, steps a round)
RUNGS = {
    "source": ("もとの作り", "（出発点）計算 1 つに点 1 つ", 1, 12),
    "scalar": ("第3章の点", "途中の点、並べ直し、ごみ集め", 1, 40),
    "one": ("torch・1 件", "Python のくり返し", 1, 200),
    "numpy": ("NumPy・1 件", "微分の点。逆向きは手で書く", 1, 400),
    "batch": ("torch・32 件", "1 件ごとの呼び出し", 32, 150),
    "fused": ("＋まとめた関数", "小さな計算の間の呼び出し", 32, 150),
    "float32": ("＋float32", "数の桁の半分", 32, 150),
}


def steppers(race: Race) -> dict[str, Callable[[int], float]]:
    return {
        "source": race.source(),
        "scalar": race.scalar(),
        "one": race.torch(1),
        "numpy": race.numpy(),
        "batch": race.torch(32),
        "fused": race.torch(32, fused=True),
        "float32": race.torch(32, fused=True, dtype=torch.float32),
    }


def same_curve(race: Race, steps: int) -> dict[str, float]:
    """Largest difference of ``steps`` losses: one document, and batches of 32."""
    runs = {name: [f(i) for i in range(steps)] for name, f in steppers(race).items()}
    pairs = dict.fromkeys(("scalar", "one", "numpy"), "source")
    pairs |= dict.fromkeys(("fused", "float32"), "batch")
    return {
        name: max(abs(a - b) for a, b in zip(runs[name], runs[other], strict=True))
        for name, other in pairs.items()
    }


def ladder(race: Race, rounds: int) -> list[dict[str, Any]]:
    """Tokens per CPU second of each rung, and its ratio to the source's."""
    steps = steppers(race)
    rates: dict[str, list[float]] = {name: [] for name in RUNGS}
    for number in range(rounds + 1):
        for name, (_, _, batch, turn) in RUNGS.items():
            first = number * turn
            start = time.process_time()
            for i in range(first, first + turn):
                steps[name](i)
            used = time.process_time() - start
            if number:  # the first round warms up
                rates[name].append(race.tokens(first, turn, batch) / used)
    rows = []
    for name, (shown, removed, batch, _) in RUNGS.items():
        ratios = [a / b for a, b in zip(rates[name], rates["source"], strict=True)]
        rate = statistics.median(rates[name])
        row = {"rung": name, "name": shown, "removed": removed, "batch": batch}
        rows.append(row | {"tokens_per_s": rate} | spread(ratios))
    return rows


def spread(ratios: list[float]) -> dict[str, float]:
    return {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def step_flops(config: Any, T: float) -> float:
    """Additions and multiplications of one training step on T tokens, Adam included.

    A matrix of n weights costs 2 n a token forward and twice that backward; scores
    and mixing cost 4 T D a token and layer forward (the full square, as computed).
    """
    D, V = config.n_embd, config.vocab_size
    matrices = V * D + config.n_layer * 12 * D * D
    weights = matrices + (V + config.block_size) * D
    return 3 * T * (2 * matrices + config.n_layer * 4 * T * D) + 14 * weights


def limit(race: Race, rounds: int) -> dict[str, float]:
    """Tokens per second if the core did nothing but this step's arithmetic."""
    a = np.random.default_rng(0).normal(size=(512, 512))
    a @ a
    best = 0.0
    for _ in range(max(3, rounds)):
        start = time.process_time()
        for _ in range(10):
            a @ a
        best = max(best, 10 * 2 * 512**3 / (time.process_time() - start))
    T = statistics.fmean(len(row) - 1 for row in race.rows)
    flops = step_flops(race.model().config, T)
    return {
        "gflops": best / 1e9,
        "flops_per_step": flops,
        "tokens": T,
        "tokens_per_s": T * best / flops,
    }


# --- how the cost of a token grows ---------------------------------------------


def timed(run: Callable[[], Any], repeat: int) -> float:
    """Least CPU seconds of ``run`` over fifteen turns of ``repeat`` calls."""
    run()
    turns = []
    for _ in range(15):
        start = time.process_time()
        for _ in range(repeat):
            run()
        turns.append((time.process_time() - start) / repeat)
    return min(turns)


@torch.no_grad()
def growth(race: Race) -> list[dict[str, float]]:
    """Seconds for the token after T - 1 others, read anew and from a cache."""
    config = S.Config(race.tokenizer.vocab_size, block_size=512)
    model = S.build_model(config, race.tokenizer, 42)
    plain, twin, cached = model.numbers(), C.twin_of(model), C.twin_of(model)
    rows = []
    for T in reversed(CONTEXTS):  # the shortest would feel the warming up
        ids = torch.arange(T)[None] % race.tokenizer.vocab_size  # [1, T]
        extend = C.CachedAttention(C.extend_ex)
        cached.layers[0].mix = extend
        cached(ids[:, :-1])
        past = extend.past
        keys, values = S.empty_cache(config)
        for t, token in enumerate(ids[0, :-1].tolist()):
            S.gpt(plain, token, t, keys, values)

        def one(ids: Any = ids, T: int = T, past: Any = past, e: Any = extend) -> Any:
            e.past = past
            return cached(ids[:, -1:], start=T - 1)

        def scalar(T: int = T, keys: Any = keys, values: Any = values) -> None:
            S.gpt(plain, 0, T - 1, keys, values)
            keys[0].pop(), values[0].pop()

        apart = (one()[0, -1] - twin(ids)[0, -1]).abs().max().item()
        assert apart < 1e-12, (T, apart)
        row = {
            "T": T,
            "anew": timed(lambda ids=ids: twin(ids), 20),
            "cached": timed(one, 50),
            "scalar_cached": timed(scalar, 5),
            "scalar_anew": timed(lambda ids=ids: S.read_all(plain, ids[0].tolist()), 1),
        }
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows[::-1]


def main() -> None:
    """Measure, print, and write the results or compare them with the bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assert", dest="strict", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    race = Race()
    apart = same_curve(race, 20)
    print("largest difference of 20 losses:", apart)
    gc.collect()
    gc.freeze()
    rows = ladder(race, given.rounds)
    for row in rows:
        print(
            f"{row['rung']:8} {row['tokens_per_s']:12,.0f} tokens/s  "
            f"x{row['ratio']:.1f} [{row['low']:.1f}..{row['high']:.1f}]"
        )
    top = limit(race, given.rounds)
    print("limit:", top)
    ratios = {row["rung"]: row["ratio"] for row in rows}
    low = [k for k, bar in BARS.items() if ratios[k] < bar]
    faults = [f"{k}: {ratios[k]:.0f} < {BARS[k]:.0f}" for k in low]
    faults += [f"{k}: {v}" for k, v in apart.items() if v > 1e-12 and k != "float32"]
    if given.strict:
        sys.exit("\n".join(faults) if faults else 0)
    if given.rounds == ROUNDS:
        print(save("ladder", rounds=ROUNDS, rungs=rows, limit=top, growth=growth(race)))


if __name__ == "__main__":
    main()
