"""Chapter 4: the chapter's module against one of the public minimal GPTs' shape.

The peer is written by us in the shape that the public minimal GPTs share: LayerNorm
with weight and bias, one joint projection to q, k and v, biases everywhere, GELU, a
final norm, a mask kept as a buffer, torch's Adam as it comes. Ours is the chapter's
``TensorGPT`` with the fused attention and the fused Adam. Both: n_embd 16, 4 heads,
1 layer, block 16, batch 32, full blocks, float32, no dropout, one thread; they take
turns in one process, CPU time, ratio = median over rounds of ours / peer.

    python benchmarks/torch_gpt.py            measure and write the results
    python benchmarks/torch_gpt.py --assert   measure and fail above the bar
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from _save import save
from torch import nn
from torch.nn import functional as F

from lmbook import chapters

C = chapters.load("04")
S = C.SCALAR
ROUNDS, TURN, BATCH, V, BAR = 15, 40, 32, 27, 0.9
D, H, T = 16, 4, 16


class Block(nn.Module):
    """Pre-norm attention and MLP, as usual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.register_buffer("mask", torch.tril(torch.ones(T, T)).view(1, 1, T, T))

    def forward(self, x: Any) -> Any:
        n, t, _ = x.shape
        parts = self.qkv(self.norm_1(x)).split(D, dim=2)
        q, k, v = (p.view(n, t, H, D // H).transpose(1, 2) for p in parts)
        scores = q @ k.transpose(-2, -1) / math.sqrt(D // H)
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, -math.inf)
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(n, t, D)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Peer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(V, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList([Block()])
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, V, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def parts_of(model: Any, adam: Any, ids: Any, labels: Any) -> Any:
    """CPU seconds of forward, backward and optimiser of one training step."""
    start = time.process_time()
    logits = model(ids)
    loss = F.cross_entropy(logits.view(-1, V), labels.view(-1))
    middle = time.process_time()
    adam.zero_grad()
    loss.backward()
    late = time.process_time()
    adam.step()
    return middle - start, late - middle, time.process_time() - late


def dispatch_floor(calls: int) -> float:
    """Seconds that ``calls`` of torch's smallest operation take."""
    one = torch.zeros(1)
    start = time.process_time()
    for _ in range(2000):
        one.add(one)
    return (time.process_time() - start) / 2000 * calls


def operations(step: Callable[[], Any]) -> int:
    """How many torch operations one step calls."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        made = 0

        def __torch_dispatch__(self, f: Any, _: Any, args: Any = (), kw: Any = None):
            Count.made += 1
            return f(*args, **(kw or {}))

    with Count():
        step()
    return Count.made


def main() -> None:
    """Measure, print, and write the results or compare them with the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assert", dest="strict", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = S.Config(V, D, H, 1, T)
    model = S.build_model(config, S.Tokenizer(["a"]), 0)
    ours, peer = C.twin_of(model, C.fused_attention).float(), Peer()
    pairs = {
        "ours": (ours, C.make_adam(ours, fused=True)),
        "peer": (peer, torch.optim.Adam(peer.parameters(), lr=0.01)),
    }
    ids = torch.randint(V, (BATCH, T + 1))
    batch = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    spent: dict[str, list[list[float]]] = {name: [] for name in pairs}
    for number in range(ROUNDS + 1):
        for name, pair in pairs.items():
            steps = [parts_of(*pair, *batch) for _ in range(TURN)]
            if number:
                columns = zip(*steps, strict=True)
                sums = [1000 * sum(column) / TURN for column in columns]
                spent[name].append(sums)
    totals = {name: [sum(row) for row in rows] for name, rows in spent.items()}
    ratios = [a / b for a, b in zip(totals["ours"], totals["peer"], strict=True)]
    rows = []
    for name, (found, adam) in pairs.items():
        part = [statistics.median(column) for column in zip(*spent[name], strict=True)]
        calls = operations(lambda f=found, a=adam: parts_of(f, a, *batch))
        row = dict(zip(("forward", "backward", "optimiser"), part, strict=True))
        row |= {"calls": calls, "floor": 1000 * dispatch_floor(calls)}
        row["weights"] = sum(p.numel() for p in found.parameters())
        row["tables"] = len(list(found.parameters()))
        rows.append({"name": name, **row})
        print(name, {k: round(v, 3) for k, v in row.items()}, "ms")
    ratio = statistics.median(ratios)
    print(f"ours / peer: {ratio:.2f} [{min(ratios):.2f}..{max(ratios):.2f}]")
    if given.strict:
        sys.exit(f"{ratio:.2f} > {BAR}" if ratio > BAR else 0)
    spread = {"ratio": ratio, "low": min(ratios), "high": max(ratios)}
    print(save("torch_gpt", rounds=ROUNDS, rows=rows, **spread))


if __name__ == "__main__":
    main()
