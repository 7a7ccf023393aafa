"""Chapter 2's definitions, as they stand in the notebook, against oracles."""

import inspect
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from lmbook import chapters

LESSON = chapters.load("02")
METHODS = list(LESSON.METHODS)


pytestmark = pytest.mark.usefixtures("float64")


def close(a, b, tol):
    assert a.shape == b.shape
    assert (a - b).abs().max() <= tol


def count(module):
    return len(nn.utils.parameters_to_vector(module.parameters()))


# --- attention ------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
def test_attend_equals_torch(causal):
    q, k, v = torch.randn(3, 2, 3, 7, 4)
    library = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    mixed, weights = LESSON.attend(q, k, v, causal=causal)
    close(mixed, library, 1e-13)
    close(weights.sum(-1), torch.ones(2, 3, 7), 1e-14)
    if causal:
        assert torch.equal(weights, weights.tril())


def test_attend_adds_a_bias_to_the_scores():
    q, k, v = torch.randn(3, 1, 2, 5, 4)
    bias = torch.randn(2, 5, 5)
    library = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    close(LESSON.attend(q, k, v, bias, causal=False)[0], library, 1e-13)


@pytest.mark.parametrize("bias", [torch.ones(5, 5).bool(), torch.ones(5, 5).long()])
def test_mask_given_as_a_bias_is_refused(bias):
    q = torch.randn(1, 2, 5, 4)
    with pytest.raises(TypeError, match="bias は点数に足す小数"):
        LESSON.attend(q, q, q, bias)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_runs_and_keeps_its_dtype(dtype):
    q, k, v = torch.randn(3, 1, 2, 5, 4).to(dtype)
    mixed, weights = LESSON.attend(q, k, v)
    assert mixed.dtype == weights.dtype == dtype
    assert torch.isfinite(mixed).all()
    assert LESSON.rope(q, torch.arange(5)).dtype == dtype


@pytest.mark.parametrize(("width", "heads"), [(30, 4), (32, 0), (32, -2), (4, 8)])
def test_heads_that_do_not_divide_are_refused_at_construction(width, heads):
    with pytest.raises(ValueError, match=rf"幅 {width} の正の約数.*{heads}"):
        LESSON.Attention(width, heads)


def test_split_and_join_are_inverse_and_split_by_slices():
    x = torch.randn(2, 5, 12)
    heads = LESSON.split_heads(x, 3)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[:, 1], x[..., 4:8])
    assert torch.equal(LESSON.join_heads(heads), x)


def test_attention_module_equals_torch_multihead():
    ours = LESSON.Attention(12, 3)
    theirs = nn.MultiheadAttention(12, 3, bias=False, batch_first=True)
    with torch.no_grad():
        rows = ours.q.weight, ours.k.weight, ours.v.weight
        theirs.in_proj_weight.copy_(torch.cat(rows))
        theirs.out_proj.weight.copy_(ours.out.weight)
    x = torch.randn(2, 6, 12)
    future = torch.ones(6, 6).bool().triu(1)
    close(ours(x), theirs(x, x, x, attn_mask=future)[0], 1e-13)


# --- the sinusoid ---------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 33])
def test_sinusoid_element_by_element(d):
    table = LESSON.sinusoid(20, d, start=3)
    for row, column in itertools.product(range(20), range(d)):
        angle = (row + 3) / 10000 ** (column // 2 * 2 / d)
        expected = math.cos(angle) if column % 2 else math.sin(angle)
        assert abs(table[row, column].item() - expected) < 1e-14


@pytest.mark.parametrize(("length", "d"), [(0, 4), (-1, 4), (4, 0), (4, -2)])
def test_sinusoid_refuses_empty_tables(length, d):
    with pytest.raises(ValueError, match="1 以上"):
        LESSON.sinusoid(length, d)


def test_sinusoid_of_negative_positions_is_the_formula():
    table = LESSON.sinusoid(3, 4, start=-1)
    close(table[0, :2], torch.tensor([math.sin(-1), math.cos(-1)]), 1e-15)
    assert table[1].tolist() == [0, 1, 0, 1]


def test_half_precision_table_has_every_position():
    torch.set_default_dtype(torch.bfloat16)
    table = LESSON.sinusoid(300, 64)
    assert table.dtype == torch.bfloat16
    assert len(table.unique(dim=0)) == 300


@given(st.integers(-500, 500), st.integers(0, 3000), st.sampled_from([2, 8, 64]))
@settings(deadline=None, max_examples=40)
def test_shift_is_a_rotation(k, start, d):
    R = LESSON.shift_rotation(k, d)
    moved = LESSON.sinusoid(1, d, start)[0] @ R.T
    close(moved, LESSON.sinusoid(1, d, start + k)[0], 1e-11)
    close(R @ R.T, torch.eye(d), 1e-14)


def test_norm_and_offset_dot():
    table = LESSON.sinusoid(400, 128)
    close(table.norm(dim=1), torch.full((400,), 8.0), 1e-12)
    dots = table @ table.T
    for k in (0, 1, 12, 200):
        close(dots.diagonal(k), dots[0, k].expand(400 - k), 1e-10)


# --- RoPE -----------------------------------------------------------------------

places = st.integers(-300, 300)


@given(places, places, st.integers(-1000, 1000), st.sampled_from([2, 6, 32]))
@settings(deadline=None, max_examples=60)
def test_rope_depends_on_the_difference_only(i, j, shift, d):
    generator = torch.Generator().manual_seed(abs(i) + d)
    q, k = torch.randn(2, 1, d, generator=generator, dtype=torch.float64)

    def dot(a, b):
        turned = LESSON.rope(q, torch.tensor([a])), LESSON.rope(k, torch.tensor([b]))
        return (turned[0] * turned[1]).sum()

    assert abs(dot(i, j) - dot(i + shift, j + shift)) < 1e-10


@given(places, st.sampled_from([2, 6, 32]))
@settings(deadline=None, max_examples=30)
def test_rope_keeps_the_norm(i, d):
    x = torch.randn(3, 1, d, dtype=torch.float64)
    turned = LESSON.rope(x, torch.tensor([i]))
    close(turned.norm(dim=-1), x.norm(dim=-1), 1e-13)


def test_rope_equals_complex_multiplication():
    x = torch.randn(2, 5, 8)
    speed = torch.tensor([10000.0 ** (-2 * i / 8) for i in range(4)])
    angle = torch.arange(5)[:, None] * speed
    turned = torch.view_as_complex(x.unflatten(-1, (4, 2)).contiguous())
    turned = turned * torch.polar(torch.ones_like(angle), angle)
    expected = torch.view_as_real(turned).flatten(-2)
    close(LESSON.rope(x, torch.arange(5)), expected, 1e-14)


def test_rope_conventions_are_one_permutation_apart():
    x, places = torch.randn(6, 8), torch.arange(6)
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    halves = LESSON.half_split(x, places)
    close(halves[:, order], LESSON.rope(x[:, order], places), 0)
    angle = places[:, None] * torch.tensor([10000.0 ** (-i / 4) for i in range(4)])
    close(halves, LESSON.rope_half_ex(x, angle), 1e-14)
    assert (halves - LESSON.rope(x, places)).abs().max() > 0.1
    assert torch.equal(halves[0], LESSON.rope(x, places)[0])


def test_rope_conventions_mixed_or_q_alone_lose_the_property():
    q, k = torch.randn(2, 6, 8)
    now, later = torch.arange(6), torch.arange(6) + 7
    for turn_k in (LESSON.half_split, lambda k, _: k):
        scores = [LESSON.rope(q, t) @ turn_k(k, t).T for t in (now, later)]
        assert (scores[0] - scores[1]).abs().max() > 0.1


def test_rope_refuses_odd_widths_and_wrong_layouts():
    with pytest.raises(ValueError, match=r"偶数です.*5"):
        LESSON.rope(torch.randn(4, 5), torch.arange(4))
    with pytest.raises(ValueError, match=r"偶数です.*5"):
        LESSON.Attention(10, 2, "rope")
    with pytest.raises(ValueError, match=r"後ろから 2 番目の軸.*2 と \(5,\)"):
        LESSON.rope(torch.randn(1, 5, 2, 8), torch.arange(5))


# --- ALiBi ----------------------------------------------------------------------


def published_slopes(n):
    """The algorithm as published with the paper, recursion and all."""

    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    rest = published_slopes(2 * closest)[0::2][: n - closest]
    return power_of_2(closest) + rest


@pytest.mark.parametrize("heads", range(1, 41))
def test_alibi_slopes_equal_the_published_ones(heads):
    expected = torch.tensor(published_slopes(heads))
    close(LESSON.alibi_slopes(heads), expected, 1e-15)


def test_alibi_slopes_of_8_are_exact():
    assert LESSON.alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]


@pytest.mark.parametrize("heads", [0, -1])
def test_alibi_refuses_no_heads(heads):
    with pytest.raises(ValueError, match=rf"heads は 1 以上.*{heads}"):
        LESSON.alibi_slopes(heads)


@given(st.integers(1, 12), st.integers(1, 20))
@settings(deadline=None, max_examples=40)
def test_alibi_bias_and_its_column_form(heads, T):
    bias = LESSON.alibi_bias(heads, T)
    slopes = LESSON.alibi_slopes(heads)
    for h, i, j in itertools.product(range(heads), range(0, T, 5), range(0, T, 3)):
        if j <= i:
            assert bias[h, i, j] == -slopes[h] * (i - j)
    q, k, v = torch.randn(3, heads, T, 2, dtype=bias.dtype)
    columns = slopes[:, None, None] * torch.arange(T)
    one, other = (LESSON.attend(q, k, v, b)[1] for b in (bias, columns))
    close(one, other, 1e-12)


# --- inputs ---------------------------------------------------------------------


def test_transformer_input_has_the_given_signature():
    signature = inspect.signature(LESSON.TransformerInput.__init__)
    assert str(signature) == "(self, vocab_size, d_model, max_len, dropout=0.1)"
    assert str(inspect.signature(LESSON.TransformerInput.forward)) == "(self, x)"
    layer = LESSON.TransformerInput(1000, 512, 16)
    assert isinstance(layer.dropout, nn.Dropout)
    assert layer.dropout.p == 0.1
    assert count(layer) == 520_192


def test_transformer_input_adds_rows_and_drops_in_training_only():
    layer, ids = LESSON.TransformerInput(10, 8, 6), torch.randint(10, (2, 5))
    assert not torch.equal(layer(ids), layer(ids))
    layer.eval()
    for b, t in itertools.product(range(2), range(5)):
        row = layer.token_embedding.weight[ids[b, t]]
        assert torch.equal(layer(ids)[b, t], row + layer.position_embedding.weight[t])


def test_learned_positions_get_gradients_where_used_only():
    layer = LESSON.TransformerInput(10, 8, 6, dropout=0.0)
    layer(torch.randint(10, (4, 5))).sum().backward()
    rows = layer.position_embedding.weight.grad
    assert (rows[:5] == 4).all()
    assert (rows[5] == 0).all()


def test_sequence_beyond_the_table():
    layer = LESSON.TransformerInput(10, 8, 16).eval()
    assert layer(torch.zeros(2, 16).long()).shape == (2, 16, 8)
    message = r"^sequence length exceeds max_len: 17 > 16$"
    with pytest.raises(ValueError, match=message):
        layer(torch.zeros(2, 17).long())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int16, torch.uint8])
def test_ids_that_are_no_int_are_refused(method, dtype):
    with pytest.raises(TypeError, match=f"番号は整数.*{dtype}"):
        LESSON.make_model(method).entry(torch.ones(1, 4).to(dtype))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [-1, -100, 12])
def test_ids_out_of_range_are_named(method, bad):
    with pytest.raises(IndexError, match=f"番号 {bad} は 0 から 11 の外"):
        LESSON.make_model(method).entry(torch.tensor([[3, bad]]))


@pytest.mark.parametrize("method", METHODS)
def test_one_contract(method):
    model, ids = LESSON.make_model(method), torch.randint(12, (2, 16))
    width = 64 if method == "concat" else 32
    assert model.entry(ids).shape == (2, 16, width)
    assert model(ids).shape == (2, 16, 12)
    assert torch.equal(model(ids), model(ids.int()))
    changed = ids.clone()
    changed[:, 9:] = (changed[:, 9:] + 5) % 12
    assert torch.equal(model(ids)[:, :9], model(changed)[:, :9])
    assert not torch.equal(model(ids)[:, 9:], model(changed)[:, 9:])


def test_parameters_counted_by_hand():
    def model(width, table, extra=0):
        block = 4 * width**2 + (8 * width**2 + 5 * width) + 2 * 2 * width
        return 12 * table + extra + block + 2 * width + 12 * width

    expected = {
        **dict.fromkeys(("none", "add", "rope", "alibi"), model(32, 32)),
        "learned": model(32, 32, 16 * 32),
        "split": model(32, 16),
        "concat": model(64, 32),
        "project": model(32, 32, 64 * 32),
    }
    assert {m: count(LESSON.make_model(m)) for m in METHODS} == expected
    assert expected["add"] == 13_408


def test_entries_from_their_tables():
    ids = torch.randint(7, (2, 5))

    def table(entry):
        return entry.token.weight[ids] * entry.token.weight.shape[1] ** 0.5

    none, add = LESSON.TokenOnly(7, 8), LESSON.AddSinusoid(7, 8)
    assert torch.equal(none(ids), table(none))
    assert torch.equal(add(ids), table(add) + LESSON.sinusoid(5, 8))
    concat, split = LESSON.Concat(7, 8), LESSON.Split(7, 8)
    assert (concat.width, split.width) == (16, 8)
    assert torch.equal(concat(ids)[..., :8], table(concat))
    assert torch.equal(concat(ids)[1, :, 8:], LESSON.sinusoid(5, 8))
    assert torch.equal(split(ids)[..., :4], table(split))
    assert torch.equal(split(ids)[1, :, 4:], LESSON.sinusoid(5, 4))
    project = LESSON.ConcatProject(7, 8)
    left, right = project.mix.weight.T.split(8)
    close(project(ids), table(project) @ left + LESSON.sinusoid(5, 8) @ right, 1e-14)


def test_odd_split_is_refused_at_construction():
    with pytest.raises(ValueError, match=r"SPLIT の幅は偶数.*5"):
        LESSON.Split(7, 5)


def test_identity_projection_is_addition_to_the_bit():
    add, project = LESSON.AddSinusoid(7, 8), LESSON.ConcatProject(7, 8)
    with torch.no_grad():
        project.mix.weight.copy_(torch.cat((torch.eye(8), torch.eye(8)), 1))
        project.token.weight.copy_(add.token.weight)
    ids = torch.randint(7, (3, 6))
    assert torch.equal(project(ids), add(ids))


def test_positions_from_mask_undo_padding():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    for kind in (torch.int64, torch.bool, torch.float64):
        places = LESSON.positions_from_mask(mask.to(kind))
        assert places[0, 2:].tolist() == places[1, :3].tolist() == [0, 1, 2]
    for bad in (mask * 2, (mask - 1) * 1e4, -mask):
        with pytest.raises(ValueError, match="0 と 1 だけ"):
            LESSON.positions_from_mask(bad)


# --- experiments ----------------------------------------------------------------


def test_without_positions_every_permutation_only_permutes():
    model, ids = LESSON.make_model("none", layers=2), torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        base = model.hidden(ids, causal=False)
        for order in itertools.permutations(range(5)):
            moved = model.hidden(ids[:, order], causal=False)
            close(moved, base[:, order], 1e-13)
            close(moved.mean(1), base.mean(1), 1e-13)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "none"])
def test_with_positions_order_shows(method):
    model = LESSON.make_model(method, layers=2)
    mean, moved, last = LESSON.order_differences(model, torch.arange(7)[None])
    assert min(mean, moved, last) > 1e-3


@pytest.mark.parametrize(("layers", "blind"), [(1, True), (2, False), (3, False)])
def test_causal_mask_shows_order_from_two_layers_on(layers, blind):
    model = LESSON.make_model("none", layers=layers)
    last = LESSON.order_differences(model, torch.arange(7)[None])[2]
    assert (last < 1e-13) if blind else (last > 1e-3)


def test_costs_are_those_of_real_modules():
    for width, ff in ((512, 2048), (1024, 4096), (1024, 2048)):
        counted = LESSON.costs(width, ff=ff)
        block = nn.TransformerEncoderLayer(width, 8, ff, dtype=torch.float32)
        assert counted["ブロック全体"] == sum(p.numel() for p in block.parameters())
        assert counted["ブロックの重み"] == 4 * width**2 + 2 * width * ff
        linear = 2 * 64 * (4 * width**2 + 2 * width * ff)
        assert counted["重みの FLOP"] == linear
    wide, narrow = LESSON.costs(1024), LESSON.costs(512)
    assert narrow["ブロック全体"] == 3_152_384
    assert wide["ブロック全体"] == 12_596_224
    assert wide["ブロックの重み"] == 4 * narrow["ブロックの重み"]


def test_flops_are_those_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    block = LESSON.Block(64, 4).train()
    with FlopCounterMode(display=False) as counter:
        block(torch.randn(4, 16, 64))
    counted = LESSON.costs(64)
    scores = 2 * counted["QKᵀ の FLOP"]  # scores, and weights times values
    assert counter.get_total_flops() == counted["重みの FLOP"] + scores


def test_fold_of_a_trained_model():
    model = LESSON.make_model("project")
    LESSON.train(model, LESSON.three_back, steps=5, size=8)
    twin, ids = LESSON.fold_into_add(model), torch.randint(12, (32, 16))
    assert isinstance(twin.entry, LESSON.TransformerInput)
    close(model(ids), twin(ids), 1e-12)
    assert torch.equal(model(ids).argmax(-1), twin(ids).argmax(-1))


@pytest.mark.parametrize("d", [1, 4, 16])
def test_finite_sums_are_decoded(d):
    assert LESSON.decode_share(d, 0, 30, words=200, places=32) == 1


def test_noise_breaks_decoding_in_one_dimension():
    assert LESSON.decode_share(1, 0.01, 60, words=200, places=32) < 0.3
    assert LESSON.decode_share(16, 0.01, 60, words=200, places=32) == 1


def test_four_terms_by_hand_and_their_sum():
    e, p = torch.randn(2, 5, 8)
    to_q, to_k = (nn.Linear(8, 8, bias=False) for _ in range(2))
    terms = LESSON.four_terms(e, p, to_q, to_k)
    Wq, Wk = to_q.weight.T, to_k.weight.T
    close(terms["内容–位置"], (e @ Wq) @ (p @ Wk).T, 1e-14)
    close(terms["位置–内容"], (p @ Wq) @ (e @ Wk).T, 1e-14)
    close(LESSON.add_up(terms), to_q(e + p) @ to_k(e + p).T, 1e-13)


def test_shared_statistics_mend_the_terms():
    model, ids = LESSON.make_model("add"), torch.randint(12, (2, 9))
    block = model.blocks[0]
    with torch.no_grad():
        for weight in block.norm1.parameters():
            weight.normal_()
    e, p = LESSON.normalised_parts(model, ids)
    close(e + p, block.norm1(model.entry(ids)), 1e-13)
    shares = LESSON.term_shares(model, ids)
    assert len(shares) == 4
    assert abs(sum(shares) - 1) < 1e-12
    assert min(shares) >= 0


def test_voices_of_orthogonal_vectors():
    E, P = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]])
    found = LESSON.voices(E, P)
    assert found == pytest.approx([3, 0.6, 0.8], abs=1e-15)


# --- tasks ----------------------------------------------------------------------


def test_tasks_by_brute_force():
    ids = torch.randint(12, (40, 16))
    for task in LESSON.TASKS.values():
        before = ids.clone()
        shown, labels = task(ids)
        assert torch.equal(ids, before)
        assert shown.shape == labels.shape == ids.shape
        rows = zip(shown.tolist(), labels.tolist(), ids.tolist(), strict=True)
        for x, y, raw in rows:
            assert y == answers(task, x, raw)


def answers(task, x, raw):
    if task is LESSON.three_back:
        return [LESSON.IGNORE] * 3 + x[:-3]
    if task is LESSON.third_token:
        return [LESSON.IGNORE] * 3 + [x[2]] * (len(x) - 3)
    if task is LESSON.most_recent:
        return [latest(x[: t + 1]) for t in range(len(x))]
    period = 4 + raw[-1] % 5
    assert x == [raw[t % period] for t in range(len(x))]
    known = range(period, len(x) - 1)
    return [x[t + 1] if t in known else LESSON.IGNORE for t in range(len(x))]


def latest(seen):
    words = [i for i in seen if i]
    return words[-1] if words and not seen[-1] else LESSON.IGNORE


def test_training_learns_and_repeats():
    def run():
        torch.manual_seed(3)
        model = LESSON.make_model("learned", d_model=16)
        return model, LESSON.train(model, LESSON.third_token, 120, size=32, lr=1e-2)

    (model, losses), (_, again) = run(), run()
    assert losses == again
    assert losses[0] == pytest.approx(math.log(12), abs=0.4)
    assert losses[-1] < 0.7 * losses[0]
    assert LESSON.accuracy(model, LESSON.third_token, 16) > 0.4


def test_accuracy_of_a_model_that_knows():
    class Oracle(nn.Module):
        def forward(self, ids):
            return F.one_hot(LESSON.three_back(ids)[1].clamp_min(0), 12)

    assert LESSON.accuracy(Oracle(), LESSON.three_back, 32) == 1
    assert LESSON.accuracy(Oracle(), LESSON.third_token, 32) < 0.3


# --- stored results -------------------------------------------------------------


def test_scores_of_stored_rows():
    rows = [
        {"task": "a", "method": "m", "heads": 2, "accuracy": [1.0, 0.5, None]},
        {"task": "a", "method": "m", "heads": 2, "accuracy": [0.5, 0.5, None]},
        {"task": "a", "method": "m", "heads": 8, "accuracy": [0.0, 0.0, 0.0]},
    ]
    found = LESSON.scores_of(rows, "a", "m")
    assert found.shape == (2, 3)
    assert LESSON.spread_text(found) == "0.75±0.25 / 0.50±0.00 / 不可"


def test_still_twins_are_small_multiples():
    for draw, panels in ((LESSON.draw_rope, 4), (LESSON.draw_scale, 3)):
        assert draw().description.count("地図") == panels


def test_fixed_sinusoid_stores_nothing():
    assert list(LESSON.AddSinusoid(7, 8).state_dict()) == ["token.weight"]


def test_training_is_adam_with_a_falling_rate():
    model, twin = nn.Embedding(12, 12), nn.Embedding(12, 12)
    twin.load_state_dict(model.state_dict())
    losses = LESSON.train(model, LESSON.three_back, 5, seed=2, size=8, lr=0.1)
    generator, weight = torch.Generator().manual_seed(1002), twin.weight
    m = v = torch.zeros(12, 12)
    for step in range(5):
        ids = torch.randint(12, (8, 16), generator=generator)
        loss = F.cross_entropy(twin(ids)[:, 3:].flatten(0, 1), ids[:, :-3].flatten())
        assert loss.item() == pytest.approx(losses[step], abs=1e-13)
        (slope,) = torch.autograd.grad(loss, weight)
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
        hat_m, hat_v = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
        rate = 0.1 * (1 - step / 5)
        weight.data -= rate * hat_m / (hat_v.sqrt() + 1e-8)
    close(model.weight, weight, 1e-12)
