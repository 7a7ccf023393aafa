"""Chapter 1's definitions, as they stand in the notebook, against oracles."""

import inspect
import itertools
import math
import random
import re
import types

import pytest
import torch
from helpers import entropy_floors, quick_run
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from lmbook import chapters, data
from lmbook.press import editions, run

PATH = chapters.path("01")
LESSON = chapters.load("01")
FORMS = [LESSON.causal_mean, LESSON.causal_mean_cumsum]


pytestmark = pytest.mark.usefixtures("float64")


def batch(name="MIX12", side="right"):
    sentences = data.sentences(name)
    stoi = LESSON.build_vocab(sentences)
    return *LESSON.make_batch(sentences, stoi, side), stoi


def double_loop(hidden, mask):
    """Mean of the valid places up to each one, written as a learner would."""
    out = torch.zeros_like(hidden)
    for b, i in itertools.product(range(hidden.shape[0]), range(hidden.shape[1])):
        rows = [hidden[b, j] for j in range(i + 1) if mask[b, j]]
        if rows:
            out[b, i] = torch.stack(rows).mean(dim=0)
    return out


sizes = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 4))


# E-25, E-45: the causal mean


@settings(max_examples=40, deadline=None)
@given(size=sizes, seed=st.integers(0, 10_000))
def test_causal_means_equal_a_double_loop(size, seed):
    torch.manual_seed(seed)
    hidden, mask = torch.randn(size), torch.rand(size[:2]) < 0.7
    expected = double_loop(hidden, mask)
    for form in FORMS:
        got = form(hidden, mask)
        assert got.shape == size
        assert torch.allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dtype_follows_hidden(form, dtype):
    hidden = torch.randn(2, 600, 3).to(dtype)
    got = form(hidden, torch.ones(2, 600).long())
    exact = double_loop(hidden.double(), torch.ones(2, 600))
    assert got.dtype == dtype
    tolerance = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 0.05}
    assert (got.double() - exact).abs().max() < tolerance[dtype]


@pytest.mark.parametrize("form", FORMS)
def test_bool_long_and_float_masks_are_one(form):
    hidden, mask = (
        torch.randn(2, 5, 3),
        torch.tensor([[1, 1, 0, 1, 0], [0, 0, 1, 1, 1]]),
    )
    kinds = [form(hidden, mask.to(k)) for k in (torch.bool, torch.long, torch.float32)]
    assert torch.equal(kinds[0], kinds[1])
    assert torch.equal(kinds[1], kinds[2])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(4),
        torch.ones(2, 1, 4),
        torch.ones(2, 1, 1, 4),
        torch.ones(4, 2),
        torch.tensor([[1, 2, 1, 1], [1, 1, 1, 1]]),
        torch.tensor([[0.0, -1e4, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]),
        torch.tensor([[0.0, -math.inf, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]),
        torch.full((2, 4), math.nan),
    ],
    ids=["T", "B1T", "B11T", "TB", "two", "additive", "inf", "nan"],
)
def test_other_masks_are_refused_by_name(form, mask):
    with pytest.raises(ValueError, match=r"attention_mask の(形|値)は"):
        form(torch.zeros(2, 4, 3), mask)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [3.0, -1e9])
def test_future_moves_no_bit_of_the_past(form, value):
    hidden = torch.randn(2, 7, 3)
    changed = hidden.clone()
    changed[:, 4:] = value
    assert torch.equal(form(changed)[:, :4], form(hidden)[:, :4])
    assert not torch.equal(form(changed)[:, 4:], form(hidden)[:, 4:])


def test_nan_in_the_future_breaks_the_matrix_form_only():
    hidden = torch.ones(1, 4, 2)
    hidden[0, 3] = math.nan
    assert LESSON.causal_mean(hidden).isnan().all()
    assert torch.equal(LESSON.causal_mean_cumsum(hidden)[0, :3], torch.ones(3, 2))


@pytest.mark.parametrize("form", FORMS)
def test_row_of_padding_gives_zeros_and_finite_gradients(form):
    hidden = torch.randn(2, 4, 3, requires_grad=True)
    out = form(hidden, torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]]))
    assert torch.equal(out[1], torch.zeros(4, 3))
    out.sum().backward()
    assert hidden.grad.isfinite().all()


@pytest.mark.parametrize("form", FORMS)
def test_gradient_by_finite_differences(form):
    hidden = torch.randn(1, 4, 2, requires_grad=True)
    mask = torch.tensor([[1, 0, 1, 1]])
    assert torch.autograd.gradcheck(lambda h: form(h, mask), hidden)


# E-24, E-26: the models


def test_names_and_signatures():
    for model in (LESSON.CurrentTokenLM, LESSON.CausalMeanLanguageModel):
        made = inspect.signature(model.__init__)
        assert list(made.parameters) == [
            *("self", "vocab_size", "hidden_dim", "padding_idx")
        ]
        assert made.parameters["padding_idx"].default is None
        forward = inspect.signature(model.forward)
        assert list(forward.parameters) == ["self", "input_ids", "attention_mask"]
    fields = dict(LESSON.CausalMeanLanguageModel(9, 4).named_children())
    assert list(fields) == ["token_embedding", "mixer", "lm_head"]
    kinds = [type(layer).__name__ for layer in fields["mixer"]]
    assert kinds == ["Linear", "GELU", "Linear"]


def test_shapes_and_lookup():
    ids, mask, stoi = batch()
    size = len(stoi)
    for make in (LESSON.CurrentTokenLM, LESSON.CausalMeanLanguageModel):
        model = make(size, 8, padding_idx=0)
        assert model.token_embedding.weight.shape == (size, 8)
        assert model.lm_head.weight.shape == (size, 8)
        assert model(ids, mask).shape == (*ids.shape, size)
        hidden = model.token_embedding(ids)
        assert torch.equal(hidden, model.token_embedding.weight[ids])
        assert hidden.requires_grad
        assert torch.equal(model(ids.int(), mask), model(ids, mask))


def test_parameter_counts():
    counts = [
        sum(p.numel() for p in make(58, 32).parameters())
        for make in (LESSON.CurrentTokenLM, LESSON.CausalMeanLanguageModel)
    ]
    assert counts == [3770, 5882]


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_does_not_change_valid_logits(side):
    model = LESSON.CausalMeanLanguageModel(10, 8, padding_idx=0)
    plain = torch.tensor([[1, 4, 5, 2]])
    width = (0, 3) if side == "right" else (3, 0)
    padded = F.pad(plain, width)
    got = model(padded, padded != 0)[padded != 0]
    assert torch.allclose(got, model(plain)[0], rtol=0, atol=1e-12)


def test_mean_is_blind_to_order_and_repeats():
    model = LESSON.CausalMeanLanguageModel(10, 8)

    def last(row):
        return model(torch.tensor([row]))[0, -1]

    for a, b in [
        ([1, 2, 3, 4], [4, 3, 2, 1]),
        ([1], [1, 1, 1]),
        ([1, 2], [2, 1, 1, 2]),
    ]:
        assert torch.allclose(last(a), last(b), rtol=0, atol=1e-12)


# E-22: batches, labels and the loss


def test_batch_of_both_sides():
    stoi = LESSON.build_vocab(["a b", "a"])
    right, mask = LESSON.make_batch(["a b", "a"], stoi)
    left, left_mask = LESSON.make_batch(["a b", "a"], stoi, "left")
    assert right.tolist() == [[1, 3, 4, 2], [1, 3, 2, 0]]
    assert mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert left.tolist() == [[1, 3, 4, 2], [0, 1, 3, 2]]
    assert left_mask.tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]]


def test_loss_equals_a_loop_over_targets():
    logits, labels = torch.randn(2, 4, 5), torch.tensor([[9, 1, 2, -100], [9, 0, 4, 3]])
    labels[:, 0] = -100  # the first label is never a target
    losses = [
        -logits[b, t - 1].log_softmax(dim=0)[labels[b, t]]
        for b, t in itertools.product(range(2), range(1, 4))
        if labels[b, t] != -100
    ]
    expected = torch.stack(losses).mean()
    assert torch.allclose(LESSON.next_token_loss(logits, labels), expected)


def test_square_logits_are_not_confused():
    """T == V: cross_entropy on unflattened logits would give another number."""
    logits, labels = torch.randn(1, 5, 5), torch.tensor([[1, 2, 3, 4, 0]])
    steps = [-logits[0, t].log_softmax(0)[labels[0, t + 1]] for t in range(4)]
    got = LESSON.next_token_loss(logits, labels)
    assert torch.allclose(got, torch.stack(steps).mean())


def test_no_target_is_said():
    with pytest.raises(ValueError, match="labels に当てるべきトークンがありません"):
        LESSON.next_token_loss(torch.zeros(1, 3, 5), torch.full((1, 3), -100))


# E-07, E-08: entropies


ZH4 = [
    "合同 违约金 过高 ， 它 可能 存在 风险",
    "合同 期限 明确 ， 它 可能 没有 问题",
    "合同 条款 模糊 ， 它 可能 引起 争议",
    "合同 价格 合理 ， 它 可能 得到 批准",
]
JA8 = [
    "契約 の 違約金 が 高すぎる ので 、 それ は 危険 だ 。",
    "契約 の 期限 が 明確 な ので 、 それ は 安全 だ 。",
    "契約 の 条項 が 曖昧 な ので 、 それ は 問題 だ 。",
    "契約 の 価格 が 妥当 な ので 、 それ は 合理的 だ 。",
    "犬 は 骨 が 好き な ので 、 それ を かじる 。",
    "猫 は 魚 が 好き な ので 、 それ を 食べる 。",
    "子ども は 本 が 好き な ので 、 それ を 読む 。",
    "祖母 は 花 が 好き な ので 、 それ を 育てる 。",
]
PAIRS6 = [
    "犬 が 猫 を 追う",
    "猫 が 犬 を 怖がる",
    "父 が 母 を 呼ぶ",
    "母 が 父 を 叱る",
    "蒔絵師 が 硯箱 を 修復 した",
    "硯箱 が 蒔絵師 を 魅了 した",
]


def counted(sentences):
    """The lesson's entropies of tokenised sentences, with their ends put on."""
    rows = [["^", *tokens, "$"] for tokens in sentences]
    views = {"unigram": lambda p: None, "current": lambda p: p[-1]}
    views |= {"bag": LESSON.bag, "prefix": tuple}
    pairs = {kind: LESSON.next_pairs(rows, view) for kind, view in views.items()}
    pairs["within"] = [(n, w) for n, row in enumerate(rows) for w in row[1:]]
    return {kind: LESSON.conditional_entropy(found) for kind, found in pairs.items()}


@pytest.mark.parametrize(
    ("lines", "noted", "digits"),
    [
        (ZH4, [2.813, 0.3081, 0.1540, 0.1540, 2.1972], [3, 4, 4, 4, 4]),
        (JA8, [3.198, 0.5182, 0.1555, 0.1555, 2.594], [3, 4, 4, 4, 3]),
        (ZH4 + JA8, [3.602, 0.5284, 0.2085, 0.2085, 2.494], [3, 4, 4, 4, 3]),
        (PAIRS6, [2.5335, 1.0676, 0.3924, 0.2829, 1.849], [4, 4, 4, 4, 3]),
    ],
    ids=["ZH4", "JA8", "ZH4 + JA8", "PAIRS6"],
)
def test_entropies_of_known_sentences(lines, noted, digits):
    found = counted([line.split() for line in lines]).values()
    assert [round(x, d) for x, d in zip(found, digits, strict=True)] == noted


def test_order_separates_prefix_from_bag():
    # [b c] -> x, [c b] -> y: one bag; the first step is open to all three.
    found = counted([["b", "c", "x"], ["c", "b", "y"]])
    assert found["prefix"] == pytest.approx(2 * math.log(2) / 8)
    assert found["bag"] == pytest.approx(4 * math.log(2) / 8)
    # After b: c, y; after c: x, b; after ^: b, c. All even.
    assert found["current"] == pytest.approx(6 * math.log(2) / 8)


@given(st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=5))
def test_entropies_equal_a_step_by_step_count(sentences):
    found = counted(sentences)
    assert found == pytest.approx(entropy_floors(sentences, "^", "$"), abs=1e-12)
    assert found["current"] >= found["prefix"] - 1e-12
    assert found["bag"] >= found["prefix"] - 1e-12


def test_bag_forgets_order_and_common_repeats():
    assert LESSON.bag([1, 2, 2]) == LESSON.bag([2, 1, 2])
    assert LESSON.bag([1]) == LESSON.bag([1, 1, 1])
    assert LESSON.bag([1, 2]) != LESSON.bag([1, 2, 2])


def test_chain_follows_its_rule():
    rows = LESSON.chain_batch(50, 40, random.Random(1)).tolist()
    steps = [(b - a) % 12 for row in rows for a, b in itertools.pairwise(row)]
    assert set(steps) == {1, 2, 5}
    share = steps.count(1) / len(steps)
    assert abs(share - 0.7) < 4 * math.sqrt(0.7 * 0.3 / len(steps))


# E-30, E-31: gradients


def test_gradient_rows_are_exactly_the_labelled_ones():
    rows = torch.tensor([[1, 2, 3, 4, 0, 0], [2, 5, 1, 6, 7, 3]])
    model = LESSON.CurrentTokenLM(10, 8, padding_idx=0)
    assert LESSON.rows_with_gradient(model, rows, rows != 0) == [1, 2, 3, 5, 6, 7]


def test_gradient_of_the_last_token_shows_the_leak():
    rows = torch.tensor([[1, 2, 3, 4]])
    honest = LESSON.MixingLM(LESSON.causal_mean, 10, 8)
    leaky = LESSON.MixingLM(LESSON.leaky_mean, 10, 8)
    assert LESSON.rows_with_gradient(honest, rows, rows != 0) == [1, 2, 3]
    assert LESSON.rows_with_gradient(leaky, rows, rows != 0) == [1, 2, 3, 4]


@pytest.mark.parametrize("name", LESSON.OPTIMIZERS)
def test_padding_row_never_moves(name):
    assert LESSON.moved_in_second_step(LESSON.OPTIMIZERS[name])[2] == 0.0


def test_padding_guards():
    reached = {
        side: [
            guards
            for guards in itertools.product([True, False], repeat=3)
            if LESSON.pad_gradient(side, *guards) > 0
        ]
        for side in ("right", "left")
    }
    assert reached["right"] == [(False, False, False)]
    assert reached["left"] == [(False, True, False), (False, False, False)]


# E-27, E-32, E-46, E-47: the no-future test


def test_leaky_mean_is_the_plain_mean():
    hidden = torch.randn(2, 5, 3)
    expected = hidden.mean(dim=1, keepdim=True).expand_as(hidden)
    assert torch.allclose(LESSON.leaky_mean(hidden), expected)


@pytest.mark.parametrize("mix", [LESSON.no_mixing, *FORMS])
def test_causal_mixers_pass(mix):
    assert LESSON.future_effect(mix, LESSON.replace_all) == 0.0


@pytest.mark.parametrize("mix", [LESSON.leaky_mean, LESSON.centred_window])
def test_leaky_mixers_fail(mix):
    assert LESSON.future_effect(mix, LESSON.replace_all) > 0.1


def test_shuffling_does_not_find_the_mean():
    assert LESSON.future_effect(LESSON.leaky_mean, LESSON.shuffle_only) < 1e-12


def test_influence_matrices():
    lower = torch.tensor(
        [[1 / (i + 1) if j <= i else 0 for j in range(6)] for i in range(6)]
    )
    assert torch.allclose(LESSON.influence(LESSON.causal_mean), lower)
    assert LESSON.influence(LESSON.causal_mean).triu(1).eq(0).all()
    assert torch.allclose(
        LESSON.influence(LESSON.leaky_mean), torch.full((6, 6), 1 / 6)
    )
    assert torch.equal(LESSON.influence(LESSON.no_mixing), torch.eye(6))


def test_window_is_the_mean_of_three():
    hidden = torch.arange(12.0).view(1, 4, 3)
    got = LESSON.centred_window(hidden)
    assert torch.allclose(got[0, 1], hidden[0, :3].mean(dim=0))
    assert torch.allclose(got[0, 0], (hidden[0, 0] + hidden[0, 1]) / 3)


# E-33, E-48: training and the leak


def test_prefix_only_loss_equals_the_loss_of_a_causal_model():
    ids, mask, stoi = batch("ORDER6")
    rows = [r[m == 1].tolist() for r, m in zip(ids, mask, strict=True)]
    model = LESSON.CausalMeanLanguageModel(len(stoi), 8)
    alone = LESSON.prefix_only_loss(model, rows)
    assert alone == pytest.approx(LESSON.final_loss(model, ids, mask), abs=1e-12)


def test_training_reaches_the_floor_and_not_below():
    ids, mask, stoi = batch("ORDER6")
    model = LESSON.CausalMeanLanguageModel(len(stoi), 16)
    losses = LESSON.train(model, ids, mask, 300, 0.01)
    assert losses[-1] < losses[0] / 2
    assert 0.3924 <= LESSON.final_loss(model, ids, mask) < 0.3924 + 0.02


def test_training_equals_torch_written_out():
    ids, mask, stoi = batch("ORDER6")
    torch.manual_seed(3)
    ours = LESSON.CurrentTokenLM(len(stoi), 4)
    theirs = LESSON.CurrentTokenLM(len(stoi), 4)
    theirs.load_state_dict(ours.state_dict())
    got = LESSON.train(ours, ids, mask, 5, 0.01)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.01)
    labels = torch.where(mask == 1, ids, -100)
    for loss in got:
        logits = theirs(ids)[:, :-1].reshape(-1, len(stoi))
        expected = F.cross_entropy(logits, labels[:, 1:].reshape(-1))
        assert loss == pytest.approx(expected.item(), abs=1e-12)
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()


def test_greedy_continuation():
    model = LESSON.CurrentTokenLM(4, 4)
    torch.nn.init.zeros_(model.lm_head.bias)
    model.token_embedding.weight.data = torch.eye(4)
    model.lm_head.weight.data = torch.eye(4).roll(1, dims=0)  # k is followed by k+1
    assert LESSON.continue_greedily(model, [1], 4) == [1, 2, 3, 0, 1]


def test_role_gap_of_known_vectors():
    weight = torch.tensor([[1.0, 0], [2, 0], [0, 1], [0, 3]])
    assert LESSON.role_gap(weight, [[0, 1], [2, 3]]) == pytest.approx(1.0)
    assert LESSON.role_gap(weight, [[0, 2], [1, 3]]) == pytest.approx(-0.5)


def test_rare_tokens_learn_later():
    updates, loss = LESSON.train_rare(120, random.Random(0))
    assert updates.diff().gt(0).all()
    assert loss.diff().lt(0).all()


# The chapter as a file


def test_internal_links_lead_to_headings():
    cells = run.read(PATH).cells
    text = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    anchors = {
        re.sub(r"\s+", "-", found.strip())
        for found in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert len(links) >= 4
    assert set(links) <= anchors


def test_cells_and_lessons():
    notebook = run.read(PATH)
    beside = {"teacher", "answer"}  # what stands beside the lesson
    lesson = [c for c in notebook.cells if not beside & set(editions.tags(c))]
    assert 60 <= len(lesson) <= 110
    exercises = [c for c in notebook.cells if "exercise" in c.metadata.get("tags", [])]
    assert 5 <= len(exercises) <= 8


def test_student_edition_runs_to_its_end():
    def student(content):
        cut = editions.split(run.read(PATH), "student")
        content.cells, content.metadata = cut.cells, cut.metadata

    done = quick_run(PATH, student)
    text = "".join(
        output.get("text", "")
        for cell in done.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    assert "5 問のうち 0 問" in text


def test_reloading_gives_the_same_module():
    assert isinstance(LESSON, types.ModuleType)
    assert chapters.load("01") is LESSON
