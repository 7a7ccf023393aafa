"""Chapter 4's definitions, as they stand in the notebook, against oracles."""

import json
import math
import random
import subprocess
import sys

import pytest
import torch
from helpers import quick_run
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from lmbook import chapters, data, ngrams, repro
from lmbook.press import run

PATH = chapters.path("04")
LESSON = chapters.load("04")
S = LESSON.SCALAR
BENCHMARKS = chapters.ROOT / "benchmarks"
WORDS = ["ねこ", "こねこ", "ね", "ねここね", "こ", "ここねねこね"]
few = settings(max_examples=12, deadline=None)


pytestmark = pytest.mark.usefixtures("float64")


def scalar(seed=0, docs=WORDS, std=0.3, **shape):
    tokenizer = S.Tokenizer(docs)
    config = S.Config(tokenizer.vocab_size, **{"n_embd": 8, "n_head": 2, **shape})
    return S.build_model(config, tokenizer, seed, std)


def both_steps(model, twin, adams, doc, step, steps):
    """One step each on one name; how far the two losses are apart."""
    there = S.train_step(model, adams[0], doc, step, steps)
    LESSON.set_rate(adams[1], step, steps)
    here = LESSON.document_loss(twin, model.tokenizer.framed(doc))
    LESSON.gradient_of(twin, here)
    adams[1].step()
    return abs(here.item() - there)


def zero_masked(q, k, v):
    """The usual fault: the future's scores are 0, not minus infinity."""
    return (q @ k.transpose(-2, -1)).tril().softmax(-1) @ v


def far(a, b):
    return (torch.as_tensor(a) - torch.as_tensor(b)).abs().max().item()


# --- the twin -------------------------------------------------------------------


@few
@given(
    st.integers(0, 99),
    st.sampled_from([(4, 1), (4, 2), (6, 3), (8, 2), (8, 4)]),
    st.integers(1, 3),
    st.sampled_from(["relu", "gelu"]),
    st.text("ねこ", min_size=1, max_size=7),
)
def test_twin_logits_loss_and_gradients(seed, sizes, n_layer, activation, doc):
    shape = {"n_embd": sizes[0], "n_head": sizes[1], "n_layer": n_layer}
    shape |= {"block_size": 8, "activation": S.ACTIVATIONS[activation]}
    model = scalar(seed, **shape)
    twin = LESSON.twin_of(model)
    tokens = model.tokenizer.framed(doc)
    rows = S.read_all(model.numbers(), tokens[:-1])
    assert far(twin(torch.tensor([tokens[:-1]]))[0], rows) < 1e-12
    loss = LESSON.document_loss(twin, tokens)
    assert abs(loss.item() - S.loss_for_document(model.numbers(), doc)) < 1e-12
    found = LESSON.gradient_of(twin, loss)
    assert far(found, S.gradients(model, doc)) < 1e-12
    assert len(found) == len(model.params)


def test_fifty_adam_steps_at_the_chapter_s_size():
    lines = data.names("en")
    docs, _ = data.split(lines, 500, 42)
    model = scalar(42, lines, 0.08, n_embd=16, n_head=4)
    twin = LESSON.twin_of(model)
    adams = S.Adam(model.params), LESSON.make_adam(twin)
    gaps = [both_steps(model, twin, adams, docs[i], i, 50) for i in range(50)]
    assert max(gaps) < 1e-12
    weights = torch.cat([p.detach().flatten() for p in twin.parameters()])
    assert len(weights) == 4192
    assert far(weights, [p.data for p in model.params]) < 1e-12


def test_a_missing_or_strange_weight_is_refused():
    model = scalar()
    del model.state_dict["lm_head"]
    with pytest.raises(RuntimeError, match="lm_head"):
        LESSON.twin_of(model)


def test_longer_than_the_block_is_refused():
    twin = LESSON.twin_of(scalar(block_size=4))
    twin(torch.zeros(1, 4, dtype=torch.long))
    with pytest.raises(ValueError, match=r"4 個まで.*5"):
        twin(torch.zeros(1, 5, dtype=torch.long))
    with pytest.raises(ValueError, match="5"):
        twin(torch.zeros(1, 1, dtype=torch.long), start=4)


# --- attention --------------------------------------------------------------------


@few
@given(st.integers(0, 99), st.integers(1, 6), st.integers(0, 4))
def test_masked_attention_against_torch_and_itself(seed, t, before):
    generator = torch.Generator().manual_seed(seed)
    T = t + before
    q, k, v = torch.randn(3, 2, 3, T, 4, generator=generator)
    right = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert far(LESSON.masked_attention(q, k, v), right) < 1e-13
    assert far(LESSON.fused_attention(q, k, v), right) < 1e-13
    late = LESSON.masked_attention(q[:, :, before:], k, v)
    assert far(late, right[:, :, before:]) < 1e-13
    weights = LESSON.masked_weights(q, k)
    assert far(weights.sum(-1), torch.ones(2, 3, T)) < 1e-14
    assert (weights.triu(1) == 0).all()


def test_rope_sees_only_distances_and_alibi_is_a_bias():
    q, k, v = torch.randn(3, 1, 2, 5, 4)
    places = torch.arange(5)
    rope = LESSON.POSITIONS.rope
    shifted = [rope(x, places + 7) for x in (q, k)]
    assert far(LESSON.masked_attention(*shifted, v), LESSON.rope_attention(q, k, v)) < (
        1e-12
    )
    gap = (places[:, None] - places[None, :]).double()
    scores = q @ k.transpose(-2, -1) / 2
    for head, slope in enumerate((1 / 16, 1 / 256)):
        s = (scores[:, head] - slope * gap).masked_fill(gap < 0, -math.inf)
        right = s.softmax(-1) @ v[:, head]
        # The slopes are made in the default dtype: exact powers of two.
        assert far(LESSON.alibi_attention(q, k, v)[:, head], right) < 1e-13


@pytest.mark.parametrize("cuts", [[1, 2, 3, 4, 5, 6], [6], [2, 5, 6]])
@pytest.mark.parametrize("n_layer", [1, 2])
def test_cache_equals_recompute(cuts, n_layer):
    model = scalar(n_layer=n_layer)
    ids = torch.randint(3, (2, 6))
    whole, cached = LESSON.twin_of(model), LESSON.twin_of(model)
    for layer in cached.layers:
        layer.mix = LESSON.CachedAttention(LESSON.extend_ex)
    starts = [0, *cuts[:-1]]
    parts = [cached(ids[:, a:b], start=a) for a, b in zip(starts, cuts, strict=True)]
    assert far(torch.cat(parts, 1), whole(ids)) < 1e-13
    again = LESSON.read_cached(LESSON.twin_of(model), ids, LESSON.extend_ex)
    assert far(again, whole(ids)) < 1e-13


@pytest.mark.parametrize("mix", ["masked", "fused", "rope", "alibi", "zero"])
def test_no_future(mix):
    attention = getattr(LESSON, f"{mix}_attention", zero_masked)
    twin = LESSON.twin_of(scalar(n_layer=2), attention)
    ids = torch.randint(3, (3, 7))
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 3
    same = torch.equal(twin(changed)[:, :-1], twin(ids)[:, :-1])
    assert same == (mix != "zero")


# --- tables, batches, training ----------------------------------------------------


def test_table_against_a_plain_loop():
    tokenizer = S.Tokenizer(WORDS)
    ids, labels = LESSON.tabulate(WORDS, tokenizer, 4)
    for row, answers, doc in zip(ids.tolist(), labels.tolist(), WORDS, strict=True):
        tokens = tokenizer.framed(doc)[:5]
        n = len(tokens) - 1
        assert row[:n] == tokens[:-1]
        assert answers[:n] == tokens[1:]
        assert set(answers[n:]) <= {-100}
    assert ids.shape == labels.shape == (len(WORDS), 4)


@few
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), st.integers(0, 9))
def test_batch_is_the_mean_of_documents(docs, seed):
    model = scalar(seed)
    twin = LESSON.twin_of(model)
    ids, labels = LESSON.tabulate(docs, model.tokenizer, 16)
    loss = LESSON.document_mean(twin(ids), labels)
    found = LESSON.gradient_of(twin, loss)
    plain = model.numbers()
    losses = [S.loss_for_document(plain, doc) for doc in docs]
    assert abs(loss.item() - math.fsum(losses) / len(docs)) < 1e-13
    right = torch.tensor([S.gradients(model, doc) for doc in docs]).mean(0)
    assert far(found, right) < 1e-14
    sizes = [len(doc) + 1 for doc in docs]
    weighted = (
        math.sumprod(losses, sizes)
        if hasattr(math, "sumprod")
        else math.fsum(a * b for a, b in zip(losses, sizes, strict=True))
    )
    token = LESSON.token_mean(twin(ids), labels).item()
    assert abs(token - weighted / sum(sizes)) < 1e-13
    wider = F.pad(ids, (0, 3)), F.pad(labels, (0, 3), value=-100)
    assert abs(LESSON.document_mean(twin(wider[0]), wider[1]) - loss) < 1e-14


@pytest.mark.parametrize("language", ["en", "ja"])
def test_batch_gradient_at_the_chapter_s_size_is_the_mean_to_1e_15(language):
    lines = data.names(language)
    docs, _ = data.split(lines, 500, 42)
    model = scalar(42, lines, 0.08, n_embd=16, n_head=4)
    twin = LESSON.twin_of(model)
    losses = [LESSON.document_loss(twin, model.tokenizer.framed(d)) for d in docs[:32]]
    alone = torch.stack([LESSON.gradient_of(twin, loss) for loss in losses])
    assert len(set(map(len, docs[:32]))) > 3  # unequal lengths
    ids, labels = LESSON.tabulate(docs[:32], model.tokenizer, 16)
    found = LESSON.gradient_of(twin, LESSON.document_mean(twin(ids), labels))
    assert far(found, alone.mean(0)) < 1e-15
    assert found.abs().max() > 0.1


def test_token_mean_is_another_gradient():
    model = scalar()
    ids, labels = LESSON.tabulate(["ね", "ねここねこね"], model.tokenizer, 16)
    found = []
    for mean in (LESSON.document_mean, LESSON.token_mean):
        twin = LESSON.twin_of(model)
        found.append(LESSON.gradient_of(twin, mean(twin(ids), labels)))
    assert (found[0] - found[1]).norm() > 0.05 * found[0].norm()


@pytest.mark.parametrize("fused", [False, True])
def test_training_is_chapter_3_s_training(fused):
    model = scalar()
    mix = LESSON.fused_attention if fused else LESSON.masked_attention
    twin = LESSON.twin_of(model, mix)
    table = LESSON.tabulate(WORDS, model.tokenizer, 16)
    losses = LESSON.train(twin, table, 15, fused=fused)
    right, _ = S.train(model, S.Adam(model.params), WORDS, 15)
    assert far(losses, right) < 1e-12
    held_out = LESSON.held_out_loss(twin, table)
    assert abs(held_out - S.held_out_loss(model, WORDS)) < 1e-12


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_corpus_trains(language):
    lines = data.names(language)
    docs, held_out = data.split(lines, 500, 42)
    model = scalar(1, lines, 0.08, n_embd=16, n_head=4)
    twin = LESSON.twin_of(model)
    unseen = LESSON.tabulate(held_out, model.tokenizer, 16)
    before = LESSON.held_out_loss(twin, unseen)
    LESSON.train(twin, LESSON.tabulate(docs, model.tokenizer, 16), 40, 32)
    assert LESSON.held_out_loss(twin, unseen) < before - 0.4


# --- writing ------------------------------------------------------------------------


def test_written_names_follow_the_model_and_end():
    model = scalar(3)
    twin = LESSON.twin_of(model)
    names = LESSON.write(twin, model.tokenizer, 4000)
    assert names == LESSON.write(twin, model.tokenizer, 4000)
    assert names != LESSON.write(twin, model.tokenizer, 4000, seed=1)
    assert max(map(len, names)) <= 16
    logits = twin(torch.tensor([[model.tokenizer.BOS]]))[0, 0]
    for letter, p in zip("こね", logits.softmax(-1).tolist(), strict=False):
        share = len([n for n in names if n[:1] == letter]) / 4000
        assert abs(share - p) < 0.03


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cold", [0, 1e-320, 1e-12])
def test_cold_names_are_chapter_3_s_greedy_one(cold, dtype):
    model = scalar(3)
    greedy = S.generate_one(model, temperature=0)
    assert greedy
    twin = LESSON.twin_of(model).to(dtype)
    assert LESSON.write(twin, model.tokenizer, 3, cold) == [greedy] * 3


@few
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=9, unique=True))
def test_keep_top_against_chapter_3(scores):
    logits = torch.tensor([scores]).double()
    for k in (1, 2, len(scores), None):
        kept = LESSON.keep_top(logits, k)[0].tolist()
        assert kept == S.keep_top([float(s) for s in scores], k)


def test_passwords_repeat():
    rows = LESSON.passwords(50, random.Random(0))
    for row in rows:
        assert len(row) == 32
        assert any(row[p:] == row[:-p] for p in range(5, 10))
    assert len(set(rows)) == 50


def test_window_losses_see_the_last_block_only():
    model = scalar(block_size=3)
    twin = LESSON.twin_of(model)
    ids = torch.randint(3, (4, 8))
    right = [
        F.cross_entropy(twin(ids[:, max(0, t - 3) : t])[:, -1], ids[:, t]).item()
        for t in range(1, 8)
    ]
    assert LESSON.window_losses(twin, ids) == right
    changed = ids.clone()
    changed[:, 0] = (changed[:, 0] + 1) % 3
    assert LESSON.window_losses(twin, changed)[4:] == right[4:]


def test_repeated_passwords_are_learnt_where_they_repeat():
    places = LESSON.password_run(0, 120, 12, 1)
    assert len(places) == 32
    first, later = sum(places[:4]) / 4, sum(places[16:]) / 16
    assert abs(first - math.log(12)) < 0.05  # nobody can guess the first letters
    assert later < first - 0.3


# --- cost ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_layer", [1, 3])
@pytest.mark.parametrize("T", [1, 5, 16])
def test_multiplications_are_what_torch_counts(T, n_layer):
    model = scalar(n_layer=n_layer)
    twin = LESSON.twin_of(model)
    ids = torch.zeros(1, T, dtype=torch.long)
    with FlopCounterMode(display=False) as anew:
        twin(ids)
    found = LESSON.multiplications(T, model.config, cached=False)
    assert 2 * found == anew.get_total_flops()
    for layer in twin.layers:
        layer.mix = LESSON.CachedAttention(LESSON.extend_ex)
    if T > 1:
        twin(ids[:, :-1])
    with FlopCounterMode(display=False) as kept:
        twin(ids[:, -1:], start=T - 1)
    found = LESSON.multiplications(T, model.config, cached=True)
    assert 2 * found == kept.get_total_flops()


def test_graph_size_counts_each_node_once():
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    assert LESSON.graph_size((b * b).sum()) == 4  # leaf, two products, sum


# --- the benchmarks -------------------------------------------------------------------


@pytest.fixture(scope="module")
def ladder():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import ladder
    finally:
        sys.path.remove(str(BENCHMARKS))
    return ladder


@pytest.mark.parametrize("doc", ["anna", "richie", "a", "mignonmignonmig"])
def test_numpy_by_hand_equals_the_scalar(ladder, doc):
    model = scalar(5, ["".join(map(chr, range(97, 123)))], n_embd=16, n_head=4)
    by_hand = ladder.Numpy(model)
    loss = by_hand.loss(model.tokenizer.framed(doc))
    assert abs(loss - S.loss_for_document(model.numbers(), doc)) < 1e-13
    assert far(by_hand.grad, S.gradients(model, doc)) < 1e-12


def test_all_rungs_have_one_loss_curve(ladder):
    apart = ladder.same_curve(ladder.Race(), 3)
    assert set(apart) == {"scalar", "one", "numpy", "fused", "float32"}
    assert apart.pop("float32") < 1e-5
    assert max(apart.values()) < 1e-12


@pytest.mark.parametrize("T", [3, 7])
def test_the_limit_counts_what_torch_counts(ladder, T):
    model = scalar(n_layer=2)
    with FlopCounterMode(display=False) as forward:
        LESSON.twin_of(model)(torch.zeros(1, T, dtype=torch.long))
    arithmetic = ladder.step_flops(model.config, T) - 14 * len(model.params)
    assert arithmetic == 3 * forward.get_total_flops()


def test_the_peer_is_a_causal_gpt_of_the_same_size(ladder):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import torch_gpt
    finally:
        sys.path.remove(str(BENCHMARKS))
    peer = torch_gpt.Peer()
    ids = torch.randint(26, (2, 16))
    changed = ids.clone()
    changed[:, -1] += 1
    assert torch.equal(peer(ids)[:, :-1], peer(changed)[:, :-1])
    assert not torch.equal(peer(ids)[:, -1], peer(changed)[:, -1])
    assert 4192 <= sum(p.numel() for p in peer.parameters()) < 1.1 * 4192


def test_committed_tasks_say_what_the_chapter_says():
    tasks = {row["name"]: row for row in repro.measured("learning_curves")["tasks"]}
    base = tasks["既定"]
    for name in ("2 層", "GELU", "block 32", "RoPE", "ALiBi"):
        assert LESSON.overlaps(base, tasks[name]), name
    for name in ("batch 8", "batch 32"):
        assert tasks[name]["high"] < base["low"] - 0.1
    for name in ("block 4", "block 8"):
        assert LESSON.overlaps(tasks[name], tasks[name]["default_inside"])


def test_committed_speeds_reach_their_bars(ladder):
    found = repro.measured("ladder")
    ratios = {row["rung"]: row["ratio"] for row in found["rungs"]}
    assert set(ratios) == set(ladder.RUNGS)
    assert all(ratios[rung] >= bar for rung, bar in ladder.BARS.items())
    assert ratios["one"] < ratios["numpy"]
    assert repro.measured("torch_gpt")["ratio"] <= 0.9


def test_counted_floors_of_the_committed_curves():
    committed = repro.measured("learning_curves")["en"]["baselines"]
    docs, held_out = data.split(data.names("en"), 500, 42)
    tokenizer = S.Tokenizer([*docs, *held_out])
    train, test = ([tokenizer.framed(d) for d in part] for part in (docs, held_out))
    found = ngrams.loss(train, test, 1, tokenizer.vocab_size)
    assert found == pytest.approx(committed["bigram"], abs=1e-5)


@pytest.mark.slow
def test_committed_curves_in_part():
    command = [sys.executable, "benchmarks/learning_curves.py", "--part"]
    done = subprocess.run(
        command,
        cwd=chapters.ROOT,
        env=run.environment(),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    )
    again = json.loads(done.stdout.splitlines()[-1])
    committed = repro.measured("learning_curves")
    assert len(again["tasks"]) == 2
    assert again["baselines"] == pytest.approx(committed["ja"]["baselines"], abs=1e-4)
    old = {row["name"]: row for row in committed["tasks"]}
    for row in again["tasks"]:
        spread = old[row["name"]]
        assert spread["low"] - 1e-3 <= row["mean"] <= spread["high"] + 1e-3


# --- the notebook ---------------------------------------------------------------------


def test_quick_run_is_quick_and_whole():
    done = quick_run(PATH)
    assert all(c.execution_count for c in done.cells if c.cell_type == "code")
