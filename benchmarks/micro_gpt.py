"""Chapter 3: the lesson's engine against the usual construction of a micro-GPT.

The baseline below is the usual one, written by us: one node per binary operation,
constants wrapped, a recursive topological sort inside ``backward``, generation
through the graph. Its node count is asserted: 7573 + 100 t at position t. Both train
the chapter's model (4,192 weights) on the same names from the same weights, in turns
of 4 steps in one process; a ratio is the median over rounds of baseline / lesson, in
CPU time. Python's collector is on for both, except that the lesson's ``train_step``
holds it off while it works, and except in the part "collector_off" (off for both).
"bare" is a process that has imported nothing else, "plots" a reader's kernel in which
the chapter has run, with its figures, up to the training.

    python benchmarks/micro_gpt.py            measure and write the results
    python benchmarks/micro_gpt.py --assert   measure and fail below the bars
"""

import gc
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A child's memory is measured, so what only the parent needs is imported there.

ROUNDS, TURN = 11, 4
#: name -> least median ratio.
BARS = {"bare": 10.0, "plots": 20.0, "collector_off": 6.0, "numbers": 25.0}
MEMORY_BAR, LOSS_BAR = 0.5, 1e-12
SHAPE = {"n_embd": 16, "n_head": 4, "n_layer": 1, "block_size": 16}
#: Models whose graphs are too deep for a recursive sort (performance notes, 1).
DEEP = (
    {"n_layer": 7},
    {"n_embd": 128},
    {"n_layer": 4, "block_size": 128},
)

# --- the baseline -------------------------------------------------------------


class Node:
    """One binary operation; remembers its two children and local derivatives."""

    __slots__ = ("back", "data", "grad", "inputs")

    def __init__(self, data: float, inputs: Any = (), back: Any = ()) -> None:
        self.data, self.grad, self.inputs, self.back = data, 0.0, inputs, back

    def __add__(self, other: Any) -> "Node":
        other = other if isinstance(other, Node) else Node(other)
        return Node(self.data + other.data, (self, other), (1.0, 1.0))

    def __mul__(self, other: Any) -> "Node":
        other = other if isinstance(other, Node) else Node(other)
        return Node(self.data * other.data, (self, other), (other.data, self.data))

    def __pow__(self, k: float) -> "Node":
        return Node(self.data**k, (self,), (k * self.data ** (k - 1),))

    def exp(self) -> "Node":
        y = math.exp(self.data)
        return Node(y, (self,), (y,))

    def log(self) -> "Node":
        return Node(math.log(self.data), (self,), (1 / self.data,))

    def relu(self) -> "Node":
        return Node(max(0.0, self.data), (self,), (float(self.data > 0),))

    def __radd__(self, other: float) -> "Node":
        return self + other

    def __sub__(self, other: float) -> "Node":
        return self + -other

    def __truediv__(self, other: Any) -> "Node":
        return self * other**-1

    def backward(self) -> None:
        order, seen = [], set()

        def visit(node: Node) -> None:
            if node not in seen:
                seen.add(node)
                for child in node.inputs:
                    visit(child)
                order.append(node)

        visit(self)
        self.grad = 1.0
        for node in reversed(order):
            for child, local in zip(node.inputs, node.back, strict=True):
                child.grad += local * node.grad


def linear(x: Any, w: Any) -> Any:
    return [sum(a * b for a, b in zip(row, x, strict=True)) for row in w]


def softmax(z: Any) -> Any:
    top = max(v.data for v in z)
    exps = [(v - top).exp() for v in z]
    total = sum(exps)
    return [e / total for e in exps]


def rmsnorm(x: Any) -> Any:
    scale = (sum(v * v for v in x) / len(x) + 1e-5) ** -0.5
    return [v * scale for v in x]


def attend(w: Any, i: int, x: Any, keys: Any, values: Any, heads: int) -> Any:
    q = linear(x, w[f"layer{i}.attn_wq"])
    keys.append(linear(x, w[f"layer{i}.attn_wk"]))
    values.append(linear(x, w[f"layer{i}.attn_wv"]))
    d, mixed = len(x) // heads, []
    for h in range(heads):
        at = range(h * d, (h + 1) * d)
        scores = [sum(q[j] * k[j] for j in at) / d**0.5 for k in keys]
        share = softmax(scores)
        pairs = [list(zip(share, [v[j] for v in values], strict=True)) for j in at]
        mixed += [sum(a * b for a, b in column) for column in pairs]
    return linear(mixed, w[f"layer{i}.attn_wo"])


def gpt(w: Any, shape: Any, token: int, place: int, keys: Any, values: Any) -> Any:
    x = [a + b for a, b in zip(w["wte"][token], w["wpe"][place], strict=True)]
    x = rmsnorm(x)
    for i in range(shape["n_layer"]):
        out = attend(w, i, rmsnorm(x), keys[i], values[i], shape["n_head"])
        x = [a + b for a, b in zip(out, x, strict=True)]
        hidden = [v.relu() for v in linear(rmsnorm(x), w[f"layer{i}.mlp_fc1"])]
        out = linear(hidden, w[f"layer{i}.mlp_fc2"])
        x = [a + b for a, b in zip(out, x, strict=True)]
    return linear(x, w["lm_head"])


class Baseline:
    """The usual training step and the usual generation."""

    def __init__(self, model: Any, shape: dict[str, int]) -> None:
        self.shape, self.bos = shape, model.tokenizer.BOS
        self.w = {
            name: [[Node(p.data) for p in row] for row in table]
            for name, table in model.state_dict.items()
        }
        self.params = [p for table in self.w.values() for row in table for p in row]
        self.m, self.v = [0.0] * len(self.params), [0.0] * len(self.params)

    def cache(self) -> Any:
        layers = range(self.shape["n_layer"])
        return [[] for _ in layers], [[] for _ in layers]

    def loss(self, tokens: list[int]) -> Node:
        keys, values = self.cache()
        n = min(self.shape["block_size"], len(tokens) - 1)
        losses = []
        for t in range(n):
            logits = gpt(self.w, self.shape, tokens[t], t, keys, values)
            losses.append(softmax(logits)[tokens[t + 1]].log() * -1.0)
        return sum(losses) * (1 / n)

    def step(self, tokens: list[int], step: int, steps: int) -> float:
        loss = self.loss(tokens)
        loss.backward()
        lr = 0.01 * (1 - step / steps)
        for i, p in enumerate(self.params):
            self.m[i] = 0.85 * self.m[i] + 0.15 * p.grad
            self.v[i] = 0.99 * self.v[i] + 0.01 * p.grad**2
            m = self.m[i] / (1 - 0.85 ** (step + 1))
            v = self.v[i] / (1 - 0.99 ** (step + 1))
            p.data -= lr * m / (v**0.5 + 1e-8)
            p.grad = 0.0
        return loss.data

    def read(self, tokens: list[int]) -> None:
        keys, values = self.cache()
        for t, token in enumerate(tokens):
            softmax(gpt(self.w, self.shape, token, t, keys, values))


def assert_node_count(baseline: Baseline) -> None:
    """One call at position t makes 7573 + 100 t nodes, softmax not counted."""
    made, first = [0], Node.__init__

    def counted(self: Node, *rest: Any) -> None:
        made[0] += 1
        first(self, *rest)

    keys, values = baseline.cache()
    Node.__init__ = counted  # type: ignore[method-assign]
    try:
        for t in range(16):
            made[0] = 0
            gpt(baseline.w, baseline.shape, baseline.bos, t, keys, values)
            assert made[0] == 7573 + 100 * t, (t, made[0])
    finally:
        Node.__init__ = first  # type: ignore[method-assign]


# --- the lesson ---------------------------------------------------------------


class Lesson:
    """The chapter's definitions and two ways between the baseline and them."""

    def __init__(self, definitions: str, docs: list[str], shape: Any) -> None:
        self.ch: dict[str, Any] = {"__name__": "lesson"}
        module = type(sys)("lesson")
        module.__dict__.update(self.ch)
        sys.modules["lesson"], self.ch = module, module.__dict__
        exec(compile(definitions, "<chapter 3>", "exec"), self.ch)
        self.tokenizer = self.ch["Tokenizer"](docs)
        config = self.ch["Config"](self.tokenizer.vocab_size, **shape)
        self.make = lambda: self.ch["build_model"](config, self.tokenizer, 42)

    def stepper(self, way: str) -> Callable[[str, int, int], float]:
        """A function ``(doc, step, steps) -> loss`` that trains its own model."""
        model = self.make()
        optimizer = self.ch["Adam"](model.params)

        def step(doc: str, step: int, steps: int) -> float:
            if way == "lesson":
                return self.ch["train_step"](model, optimizer, doc, step, steps)
            if way == "tape":
                with self.ch["Tape"]() as tape:
                    loss = self.ch["loss_for_document"](model, doc)
                loss.backward(tape)
            else:
                loss = self.ch["loss_for_document"](model, doc)
                loss.backward()
            optimizer.step(optimizer.lr * (1 - step / steps))
            return loss.data

        return step


def cpu(run: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = run(*arguments)
    return time.process_time() - start, found


def spread(ratios: list[float]) -> dict[str, float]:
    import statistics

    return {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def race(lesson: Lesson, docs: list[str], ways: list[str], off: bool) -> Any:
    """Ratios baseline / way, one a round; all ways must have the same losses."""
    baseline = Baseline(lesson.make(), SHAPE)
    assert_node_count(baseline)
    steppers = {way: lesson.stepper(way) for way in ways}
    framed = lesson.tokenizer.framed
    ratios: dict[str, list[float]] = {way: [] for way in ways}
    if off:
        gc.disable()
    for number in range(ROUNDS + 1):
        spent = dict.fromkeys(["baseline", *ways], 0.0)
        for k in range(number * TURN, (number + 1) * TURN):
            used, truth = cpu(baseline.step, framed(docs[k]), k, 300)
            spent["baseline"] += used
            for way in ways:
                used, loss = cpu(steppers[way], docs[k], k, 300)
                spent[way] += used
                assert abs(loss - truth) <= LOSS_BAR * truth, (way, k, loss, truth)
        if off:
            gc.collect()
        if number:  # the first round warms up
            for way in ways:
                ratios[way].append(spent["baseline"] / spent[way])
    gc.enable()
    return {way: spread(found) for way, found in ratios.items()}


def generation(lesson: Lesson) -> dict[str, Any]:
    """16 forced tokens: graph / numbers, and reading anew / the cache, in numbers."""
    ch, plain = lesson.ch, lesson.make().numbers()
    baseline = Baseline(lesson.make(), SHAPE)
    tokens = [baseline.bos, *range(15)]

    def cached() -> None:
        for logits in ch["read_all"](plain, tokens):
            ch["softmax"](logits)

    def anew() -> None:
        for t in range(len(tokens)):
            ch["softmax"](ch["read_all"](plain, tokens[: t + 1])[-1])

    found: dict[str, list[float]] = {"numbers": [], "cache": []}
    for _ in range(ROUNDS):
        quick = cpu(lambda: [cached() for _ in range(5)])[0] / 5
        found["numbers"].append(cpu(baseline.read, tokens)[0] / quick)
        found["cache"].append(cpu(anew)[0] / quick)
    return {name: spread(ratios) for name, ratios in found.items()}


def curve(lesson: Lesson, docs: list[str]) -> float:
    """Largest relative difference of the losses over 300 steps."""
    baseline, step = Baseline(lesson.make(), SHAPE), lesson.stepper("lesson")
    worst = 0.0
    for k in range(300):
        truth = baseline.step(lesson.tokenizer.framed(docs[k]), k, 300)
        worst = max(worst, abs(step(docs[k], k, 300) - truth) / truth)
    return worst


def memory(lesson: Lesson, docs: list[str], way: str) -> int:
    """Peak KiB of this process after 60 training steps."""
    if way == "baseline":
        baseline = Baseline(lesson.make(), SHAPE)
        for k in range(60):
            baseline.step(lesson.tokenizer.framed(docs[k]), k, 300)
    else:
        step = lesson.stepper("lesson")
        for k in range(60):
            step(docs[k], k, 300)
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise OSError("no VmHWM in /proc/self/status")


def deep(definitions: str, docs: list[str]) -> list[dict[str, Any]]:
    """One step of each model in DEEP at recursion limit 1000."""
    sys.setrecursionlimit(1000)
    found = []
    for change in DEEP:
        shape = {**SHAPE, **change}
        lesson = Lesson(definitions, docs, shape)
        doc = (docs[0] * shape["block_size"])[: shape["block_size"] - 1]
        loss = lesson.stepper("lesson")(doc, 0, 10)
        found.append({**change, "tokens": len(doc) + 1, "trains": math.isfinite(loss)})
    return found


# --- processes ----------------------------------------------------------------


def child(part: str, folder: Path) -> Any:
    """What a fresh process measures; its answer is one JSON line."""
    if part == "plots":
        return in_a_kernel(folder)
    definitions = (folder / "definitions.py").read_text(encoding="utf-8")
    docs = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    if part == "deep":
        return deep(definitions, docs)
    lesson = Lesson(definitions, docs, SHAPE)
    if part == "bare":
        return race(lesson, docs, ["nary", "tape", "lesson"], off=False)
    if part == "collector_off":
        return race(lesson, docs, ["lesson"], off=True)
    if part == "generation":
        return generation(lesson)
    if part == "curve":
        return curve(lesson, docs)
    return memory(lesson, docs, part.removeprefix("memory-"))


def in_a_kernel(folder: Path) -> Any:
    """The race in a reader's kernel: the chapter has run, with its figures, so far."""
    from nbformat.v4 import new_code_cell

    from lmbook import chapters
    from lmbook.press import run

    notebook = run.read(chapters.path("03"))
    ids = [cell.id for cell in notebook.cells]
    here = [str(Path(__file__).parent), str(folder)]
    text = f"""import json, pathlib, sys
sys.path.insert(0, {here[0]!r})
import micro_gpt
print(json.dumps(micro_gpt.child("bare", pathlib.Path({here[1]!r}))))"""
    cells = notebook.cells[: ids.index("train-run")]
    notebook.cells = [*cells, new_code_cell(text, id="race")]
    given = {"quick": True}
    done = run.execute(
        notebook, chapters.NOTEBOOKS, parameters=given, cell_seconds=1800
    )
    return json.loads(done.cells[-1].outputs[0].text)


def measure(part: str, folder: Path) -> Any:
    import subprocess

    command = [sys.executable, __file__, "--child", part, str(folder)]
    runtime = {"JUPYTER_RUNTIME_DIR": str(folder), "PYTHONHASHSEED": "0"}
    environment = {**os.environ, **runtime}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, encoding="utf-8", env=environment
    )
    found = json.loads(done.stdout)
    print(f"{part}: {found}", flush=True)
    return found


def prepare(folder: Path) -> None:
    """The chapter's definitions without lmbook, and the names, for bare children."""
    from lmbook import chapters, data

    lines = chapters.source(chapters.path("03")).splitlines()
    plain = [line for line in lines if not line.startswith("from lmbook")]
    text = "\n".join(plain)
    (folder / "definitions.py").write_text(text, encoding="utf-8")
    docs, _ = data.split(data.names("en"), 500, 42)
    random.Random(0).shuffle(docs)
    (folder / "names.json").write_text(json.dumps(docs), encoding="utf-8")


def main() -> None:
    """Measure, print, and write the results or compare them with the bars."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], Path(sys.argv[3]))))
        return
    import argparse
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assert", dest="strict", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        parts = ["bare", "plots", "collector_off", "generation", "curve", "deep"]
        parts += ["memory-baseline", "memory-lesson"]
        found = {part: measure(part, folder) for part in parts}
    peaks = [found.pop(f"memory-{way}") for way in ("lesson", "baseline")]
    medians = {
        **{part: found[part]["lesson"]["ratio"] for part in list(BARS)[:3]},
        "numbers": found["generation"]["numbers"]["ratio"],
    }
    faults = [
        f"{k}: {medians[k]:.1f} < {bar}" for k, bar in BARS.items() if medians[k] < bar
    ]
    if found["curve"] > LOSS_BAR:
        faults.append(f"losses differ by {found['curve']:.1e}")
    if peaks[0] > MEMORY_BAR * peaks[1]:
        faults.append(f"peak memory {peaks[0]} of {peaks[1]} KiB")
    if not all(row["trains"] for row in found["deep"]):
        faults.append("a deep graph fails")
    print("ratios:", {k: round(v, 1) for k, v in medians.items()})
    print(f"peak memory: {peaks[0] / peaks[1]:.2f} of the baseline's")
    if given.strict:
        sys.exit("\n".join(faults) if faults else 0)
    from _save import save

    names = {"nary": "n 項の点", "tape": "＋テープ", "lesson": "＋見回りを止める"}
    rungs = [{"name": "2 項・再帰", "ratio": 1.0, "low": 1.0, "high": 1.0}]
    rungs += [{"name": text, **found["plots"][way]} for way, text in names.items()]
    print(save("micro_gpt", rungs=rungs, peak_KiB=peaks, rounds=ROUNDS, **found))


if __name__ == "__main__":
    main()
