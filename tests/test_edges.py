"""The edges of the chapters' definitions: what other courses got silently wrong.

Each test is a kind of input: unknown text, empty lists, rows with nothing to look at,
masks and ids of another kind, positions out of reach, odd parameters of sampling. The
right answer is a value, or an error that says what was wrong before any work is done.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import torch

from lmbook import chapters, ngrams, plots
from lmbook.press import run

EMBEDDINGS, POSITIONS, SCALAR, TENSOR = (
    chapters.load(chapter) for chapter in ("01", "02", "03", "04")
)
Value, BinaryValue = SCALAR.Value, SCALAR.BinaryValue

pytestmark = pytest.mark.usefixtures("float64")


def scalar(docs=("ねこ", "こねこ"), std=0.5, **shape):
    """A model of chapter 3 that is small enough to be built at once."""
    tokenizer = SCALAR.Tokenizer(docs)
    config = SCALAR.Config(tokenizer.vocab_size, **{"n_embd": 4, "n_head": 2, **shape})
    return SCALAR.build_model(config, tokenizer, 1, std)


# --- text and vocabularies ------------------------------------------------------


@pytest.mark.parametrize("special", ["<pad>", "<bos>", "<eos>"])
def test_a_special_mark_in_the_text_is_refused(special):
    with pytest.raises(ValueError, match=f"{special}.*特別な印"):
        EMBEDDINGS.build_vocab(["犬 が", f"猫 {special} が"])
    vocabulary = EMBEDDINGS.build_vocab(["<BOS> < pad >"])  # other spellings are words
    assert list(vocabulary.values()) == list(range(7))


def test_unknown_words_are_named():
    stoi = EMBEDDINGS.build_vocab(["犬 が 走る"])
    assert EMBEDDINGS.make_batch(["犬 が"], stoi)[0].tolist() == [[1, 3, 4, 2]]
    for text in ("犬 は", "は", "か\u3099 犬"):  # the last: が in two characters
        unknown = "か\u3099" if "\u3099" in text else "は"
        with pytest.raises(ValueError, match=f"'{text}' の '{unknown}' は語彙に"):
            EMBEDDINGS.make_batch([text], stoi)


@pytest.mark.parametrize("side", ["Left", "", None, 0, True])
def test_unknown_sides_are_refused(side):
    stoi = EMBEDDINGS.build_vocab(["a b"])
    with pytest.raises(ValueError, match=f"side は.*{side!r}"):
        EMBEDDINGS.make_batch(["a", "a b"], stoi, side)


def test_every_character_of_a_file_can_be_encoded():
    family = "👩\u200d👧"  # three characters, joined by one that nobody sees
    tokenizer = SCALAR.Tokenizer([family, "が"])
    assert len(tokenizer.encode(family)) == 3
    assert tokenizer.decode(tokenizer.framed(family)) == family
    for text, place, code in (("か\u3099", 0, "304B"), ("が\ud800", 1, "D800")):
        with pytest.raises(ValueError, match=rf"{place} 文字目 .*U\+{code}"):
            tokenizer.encode(text)


@pytest.mark.parametrize("text", [None, 5, b"ab", ["ab"]])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(TypeError, match="text は文字列です"):
        SCALAR.Tokenizer(["ab"]).encode(text)


def test_ids_may_come_in_any_sequence():
    tokenizer = SCALAR.Tokenizer(["ab"])
    for ids in ([2, 0, 1], (2, 0, 1), iter([2, 0, 1]), torch.tensor([2, 0, 1])):
        assert tokenizer.decode(ids) == "ab"
    for bad in (True, 0.5, math.nan, "a", None, -1, 3):
        with pytest.raises(ValueError, match="番号は 0 から 2 までの整数"):
            tokenizer.decode([bad])


# --- nothing to work on ---------------------------------------------------------


def test_no_sentence_no_name_no_pair():
    model = scalar()
    nothing = {
        "文が 1 つもありません": lambda: EMBEDDINGS.make_batch([], {}),
        "組が 1 つもありません": lambda: EMBEDDINGS.conditional_entropy([]),
        "名前が 1 つもありません": lambda: TENSOR.tabulate([], model.tokenizer, 4),
        "トークンが 1 つ以上必要": lambda: ngrams.loss([[0, 1]], [], 1, 3),
        "文書が 1 つもありません": lambda: SCALAR.held_out_loss(model, []),
        "docs に文書が": lambda: SCALAR.train(model, SCALAR.Adam(model.params), [], 3),
    }
    for text, call in nothing.items():
        with pytest.raises(ValueError, match=text):
            call()


def test_an_empty_name_and_one_letter_have_a_loss():
    model = scalar()
    for doc, count in (("", 1), ("ね", 2)):
        ids, labels = TENSOR.tabulate([doc], model.tokenizer, 16)
        assert (labels != -100).sum() == count
        twin = TENSOR.twin_of(model)
        loss = TENSOR.document_mean(twin(ids), labels).item()
        right = SCALAR.loss_for_document(model.numbers(), doc)
        assert loss == pytest.approx(right, abs=1e-12)
        assert 0 < right < 5


def test_a_file_of_too_few_names_is_refused_where_it_is_read(tmp_path, capsys):
    cells = {cell.id: cell.source for cell in run.read(chapters.path("03")).cells}
    file = tmp_path / "names.txt"
    space = {**vars(SCALAR), "corpus": str(file), "seed": 0, "block_size": 16}
    file.write_text("さく\nうめ\nさく\nこ\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match="corpus には 4 つ以上の名前が必要です（3 つ）"
    ):
        exec(cells["data"], space)
    file.write_text("さく\nうめ\nもも\nこ\n", encoding="utf-8")
    exec(cells["data"], space)
    assert "学習用: 3 件  検証用: 1 件" in capsys.readouterr().out


@pytest.mark.parametrize("size", [(0, 16), (4, 3), (4, 1)])
def test_tasks_without_an_answer_are_refused(size):
    generator = torch.Generator()
    for task in POSITIONS.TASKS.values():
        with pytest.raises(ValueError, match=rf"長さは 4 以上.*{size[0]}, {size[1]}"):
            POSITIONS.draw_batch(task, generator, *size)


# --- rows with nothing to look at -----------------------------------------------


def test_a_row_of_padding_stays_finite_in_every_mixer():
    hidden = torch.randn(2, 4, 3, requires_grad=True)
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0]])
    for mix in (
        EMBEDDINGS.causal_mean,
        EMBEDDINGS.causal_mean_cumsum,
        EMBEDDINGS.leaky_mean,
    ):
        out = mix(hidden, mask)
        assert torch.equal(out[1], torch.zeros(4, 3))
        (gradient,) = torch.autograd.grad(out.sum(), hidden)
        assert gradient.isfinite().all()


def test_scores_that_are_all_forbidden_are_refused():
    q, k, v = torch.randn(3, 1, 1, 3, 2)
    bias = torch.zeros(3, 3)
    bias[1] = -math.inf
    with pytest.raises(ValueError, match="どこも見られない行"):
        POSITIONS.attend(q, k, v, bias)
    bias[1, 0] = 0.0
    assert POSITIONS.attend(q, k, v, bias)[0].isfinite().all()
    with pytest.raises(ValueError, match="見られる場所がありません"):
        SCALAR.softmax([-math.inf, -math.inf])
    assert SCALAR.softmax([-math.inf, 0.0]) == [0.0, 1.0]
    with pytest.raises(ValueError, match=r"q は k より長くできません.*3 と 2"):
        TENSOR.masked_weights(q, k[..., :2, :])


def test_rows_without_a_target_are_refused():
    logits, labels = torch.zeros(2, 3, 5), torch.full((2, 3), -100)
    with pytest.raises(ValueError, match="当てるべきトークンがありません"):
        EMBEDDINGS.next_token_loss(logits, labels)
    labels[0] = 1
    assert EMBEDDINGS.next_token_loss(logits, labels).item() == pytest.approx(
        math.log(5)
    )
    for mean in (TENSOR.document_mean, TENSOR.token_mean):
        with pytest.raises(ValueError, match="当てるトークンが 1 つもない行"):
            mean(logits, labels)


def test_labels_of_another_shape_are_refused():
    for logits, labels in (((2, 4, 5), (3, 3)), ((2, 3, 5), (3, 2)), ((1, 5, 5), (5,))):
        with pytest.raises(ValueError, match=r"\[B, T\] がちがいます"):
            EMBEDDINGS.next_token_loss(torch.zeros(logits), torch.ones(labels).long())
        with pytest.raises((ValueError, RuntimeError, IndexError)):
            TENSOR.document_mean(torch.zeros(logits), torch.ones(labels).long())


# --- masks of another kind ------------------------------------------------------


MIXERS = ["causal_mean", "causal_mean_cumsum", "leaky_mean"]


@pytest.mark.parametrize("name", MIXERS)
def test_masks_that_are_no_tensor_of_real_numbers_are_refused(name):
    mix, hidden, ones = getattr(EMBEDDINGS, name), torch.ones(1, 2, 3), [[1, 1]]
    for mask in (ones, np.array(ones), 1, True, torch.tensor(ones).to(torch.cfloat)):
        with pytest.raises(TypeError, match="attention_mask は 0 か 1 のテンソル"):
            mix(hidden, mask)
    for kind in (torch.bool, torch.uint8, torch.int16, torch.bfloat16, torch.float64):
        mask = torch.tensor(ones).to(kind)
        assert torch.equal(mix(hidden, mask), hidden)


@pytest.mark.parametrize("name", MIXERS)
def test_hidden_of_another_shape_or_kind_is_refused(name):
    mix = getattr(EMBEDDINGS, name)
    for size in ((2,), (4, 3), (1, 2, 4, 3)):
        with pytest.raises(ValueError, match=r"hidden は小数の \[B, T, D\]"):
            mix(torch.ones(size))
    for kind in (torch.long, torch.bool, torch.cfloat):
        with pytest.raises(ValueError, match=rf"hidden は小数.*{kind}"):
            mix(torch.ones(1, 2, 3).to(kind))


def test_positions_from_masks_of_another_shape_are_refused():
    for size in ((4,), (2, 1, 4), (2, 1, 1, 4)):
        with pytest.raises(ValueError, match=r"0 と 1 だけの \[B, T\]"):
            POSITIONS.positions_from_mask(torch.ones(size))


# --- ids of another kind --------------------------------------------------------


def entries():
    made = {
        "1 current": EMBEDDINGS.CurrentTokenLM(12, 4),
        "1 mean": EMBEDDINGS.CausalMeanLanguageModel(12, 4, 0),
        "4": TENSOR.TensorGPT(SCALAR.Config(12, 4, 2)),
    }
    models = {method: POSITIONS.make_model(method) for method in POSITIONS.METHODS}
    return made | {f"2 {method}": model for method, model in models.items()}


@pytest.mark.parametrize("name", list(entries()))
def test_ids_are_whole_numbers_inside_the_table(name):
    model, ids = entries()[name], torch.tensor([[3, 0, 11]])
    assert model(ids).shape == (1, 3, 12)
    assert torch.equal(model(ids.int()), model(ids))
    assert model(ids[:0]).shape == (0, 3, 12)
    assert model(ids[:, :1]).shape == (1, 1, 12)
    for bad in (12, -1, -100):
        with pytest.raises(IndexError):
            model(torch.tensor([[3, bad, 0]]))
    for kind in (torch.float64, torch.bool, torch.int16, torch.uint8, torch.cfloat):
        with pytest.raises((TypeError, RuntimeError)):
            model(torch.ones(1, 3).to(kind))
    with pytest.raises((TypeError, RuntimeError)):
        model(torch.ones(1, 3, requires_grad=True))


@pytest.mark.parametrize("name", ["4", "2 add", "2 learned"])
def test_the_message_names_id_table_and_place(name):
    with pytest.raises(IndexError, match=r"番号 -100 は 0 から 11 .*\[0, 1\]"):
        entries()[name](torch.tensor([[3, -100, 0]]))


def test_targets_outside_the_vocabulary_are_refused():
    for target in (-1, 2):
        with pytest.raises(ValueError, match=f"正解 {target} は 0 から 1 の外です"):
            SCALAR.cross_entropy([Value(0.0), Value(1.0)], target)
    with pytest.raises(IndexError):
        EMBEDDINGS.next_token_loss(torch.zeros(1, 2, 5), torch.tensor([[1, -1]]))


# --- padding rows and tied weights ----------------------------------------------


@pytest.mark.parametrize("padding", [0, -1, 3, -6])
def test_the_padding_row_keeps_its_first_value(padding):
    model = EMBEDDINGS.CausalMeanLanguageModel(6, 4, padding)
    weight, row = model.token_embedding.weight, padding % 6
    assert model.token_embedding.padding_idx == row
    assert torch.equal(weight[row], torch.zeros(4))
    others = [i for i in range(6) if i != row]
    ids = torch.tensor([[*others[:3], row], [*others[2:], row]])
    before = weight.detach().clone()
    EMBEDDINGS.train(model, ids, ids != row, 5, 0.01)
    assert torch.equal(weight[row], torch.zeros(4))
    assert (weight[others[0]] != before[others[0]]).all()


@pytest.mark.parametrize("padding", [6, -7])
def test_a_padding_row_outside_the_table_is_refused(padding):
    with pytest.raises(AssertionError, match="Padding_idx must be within"):
        EMBEDDINGS.CurrentTokenLM(6, 4, padding)


def test_finite_differences_see_the_padding_row_but_the_gradient_does_not():
    model = EMBEDDINGS.CurrentTokenLM(5, 3, 0)
    ids, labels = torch.tensor([[0, 1, 0]]), torch.tensor([[0, 2, 1]])
    weight = model.token_embedding.weight

    def loss(row, change):
        with torch.no_grad():
            weight[row, 1] += change
            found = EMBEDDINGS.next_token_loss(model(ids), labels).item()
            weight[row, 1] -= change
        return found

    EMBEDDINGS.next_token_loss(model(ids), labels).backward()
    slopes = [(loss(row, 1e-6) - loss(row, -1e-6)) / 2e-6 for row in (0, 1)]
    assert weight.grad[1, 1].item() == pytest.approx(slopes[1], abs=1e-8)
    assert weight.grad[0].eq(0).all()
    assert abs(slopes[0]) > 1e-3


def test_tied_weights_are_one_table_and_pad_moves():
    untied, tied = (EMBEDDINGS.CurrentTokenLM(5, 4, 0) for _ in range(2))
    tied.lm_head.weight = tied.token_embedding.weight
    ids = torch.tensor([[1, 2, 1]])
    mask = torch.ones(1, 3)
    assert EMBEDDINGS.rows_with_gradient(untied, ids, mask) == [1, 2]
    assert EMBEDDINGS.rows_with_gradient(tied, ids, mask) == [0, 1, 2, 3, 4]
    model = TENSOR.TensorGPT(SCALAR.Config(7, 4, 2))
    before = sum(p.numel() for p in model.parameters())
    assert TENSOR.tie_ex(model) == before - 7 * 4
    assert model.lm_head.weight.data_ptr() == model.wte.weight.data_ptr()


# --- autograd -------------------------------------------------------------------


def test_a_tape_that_ends_elsewhere_is_refused():
    x = Value(3.0)
    with SCALAR.Tape() as tape:
        y = x * x
    for other in (tape, [], SCALAR.Tape()):
        with pytest.raises(ValueError, match="最後が、この点ではありません"):
            (y * 2.0).backward(other)
    assert x.grad == 0
    y.backward(tape)
    assert x.grad == 6


@pytest.mark.parametrize("kind", [BinaryValue, Value])
def test_too_large_results_are_said(kind):
    with pytest.raises(OverflowError, match=r"exp\(710\.0000\) は大きすぎます"):
        kind(710.0).exp()
    for base, power in ((1e200, 2), (1e-200, -2), (5e-324, -1)):
        with pytest.raises(OverflowError, match="乗は、実数では計算できません"):
            kind(base) ** power
    assert kind(-800.0).exp().data == 0.0


@pytest.mark.parametrize("kind", [BinaryValue, Value])
def test_one_point_may_be_used_in_every_way(kind):
    for f, slope in (
        (lambda a: a - a, 0.0),
        (lambda a: a / a, 0.0),
        (lambda a: a * a * a, 12.0),
        (lambda a: 6.0 / a - a, -2.5),
        (lambda a: sum([a, a, a]), 3.0),
        (lambda a: np.float64(2.0) * a + np.int64(1), 2.0),
        (lambda a: a + torch.tensor(1.0), 1.0),
    ):
        a = kind(2.0)
        f(a).backward()
        assert a.grad == slope
    shared = Value(2.0)
    SCALAR.dot([shared, shared], [shared, shared]).backward()
    assert shared.grad == 8
    assert isinstance((np.array([1.0, 2.0]) * kind(3.0))[1], kind)


def test_saturated_activations_keep_their_value_and_slope():
    for x in (-1000.0, -40.0, 0.0, 40.0, 1000.0):
        at = torch.tensor(x, requires_grad=True)
        for ours, theirs in (
            (SCALAR.silu_ex, torch.nn.functional.silu),
            (SCALAR.sigmoid_ex, torch.sigmoid),
            (SCALAR.tanh_ex, torch.tanh),
            (SCALAR.gelu, torch.nn.functional.gelu),
        ):
            leaf = Value(x)
            made, right = ours(leaf), theirs(at)
            made.backward()
            (slope,) = torch.autograd.grad(right, at)
            assert made.data == pytest.approx(right.item(), abs=1e-12)
            assert leaf.grad == pytest.approx(slope.item(), abs=1e-12)


# --- sizes and positions --------------------------------------------------------


@pytest.mark.parametrize("name", ["n_embd", "n_head", "n_layer", "block_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, 4.0, True, math.nan])
def test_sizes_are_whole_numbers_from_one(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r}: 1 以上の整数"):
        SCALAR.Config(27, **{name: value})


def test_an_activation_is_a_function():
    with pytest.raises(TypeError, match="activation='relu': 関数にします"):
        SCALAR.Config(27, activation="relu")


def test_heads_of_width_one_and_sequences_of_one():
    for way in ("plain", "alibi"):
        attention = POSITIONS.Attention(4, 4, way)
        x = torch.randn(2, 5, 4)
        assert attention(x).shape == (2, 5, 4)
        assert torch.allclose(attention(x)[:, :1], attention(x[:, :1]))
    with pytest.raises(ValueError, match=r"RoPE の幅は偶数です.*1"):
        POSITIONS.Attention(4, 4, "rope")
    one = scalar(n_embd=2, n_head=2, block_size=1)
    twin = TENSOR.twin_of(one)
    right = SCALAR.read_all(one.numbers(), [0])
    assert torch.allclose(twin(torch.tensor([[0]]))[0], torch.tensor(right))


@pytest.mark.parametrize("way", ["ROPE", "none", "", None])
def test_unknown_ways_are_refused(way):
    with pytest.raises(ValueError, match=f"way は.*{way!r}"):
        POSITIONS.Attention(8, 2, way)
    with pytest.raises(ValueError, match=f"method は.*{way!r}"):
        POSITIONS.make_model("ADD" if way == "none" else way)


@pytest.mark.parametrize("heads", [1.0, "2", None, np.int64(2)])
def test_head_counts_of_another_kind_are_refused(heads):
    with pytest.raises((ValueError, TypeError)):
        POSITIONS.alibi_slopes(heads)
    if not isinstance(heads, np.int64):
        with pytest.raises((ValueError, TypeError)):
            POSITIONS.Attention(8, heads)


@pytest.mark.parametrize("width", [1, 3, 5])
def test_odd_widths_where_pairs_are_turned(width):
    with pytest.raises(ValueError, match=f"回転の幅は偶数です.*{width}"):
        POSITIONS.shift_rotation(3, width)
    for turn in (POSITIONS.rope, POSITIONS.half_split):
        with pytest.raises(ValueError, match=f"RoPE の幅は偶数です.*{width}"):
            turn(torch.randn(4, width), torch.arange(4))


@pytest.mark.parametrize("start", [2**53, -(2**53), 10**18, 10**30, math.nan, math.inf])
def test_positions_that_floats_cannot_tell_apart_are_refused(start):
    with pytest.raises(ValueError, match="位置は ±2"):
        POSITIONS.sinusoid(2, 4, start)
    if abs(start) < 2**63:
        positions = torch.tensor([start, start + 1])
        with pytest.raises(ValueError, match="位置は ±2"):
            POSITIONS.rope(torch.randn(2, 4), positions)


@pytest.mark.parametrize("start", [2**24, 2**31, 2**53 - 4])
def test_far_positions_are_told_apart(start):
    table = POSITIONS.sinusoid(3, 4, start)
    assert len(table.unique(dim=0)) == 3
    assert table[1, 0].item() == pytest.approx(math.sin(start + 1), abs=1e-9)
    turned = POSITIONS.rope(torch.ones(3, 4), torch.arange(start, start + 3))
    assert len(turned.unique(dim=0)) == 3


def test_positions_and_vectors_of_another_shape_or_kind_are_refused():
    x = torch.randn(3, 4)
    for positions in (torch.arange(3)[:, None], torch.arange(3)[None], torch.arange(2)):
        with pytest.raises(ValueError, match="時間は後ろから 2 番目の軸"):
            POSITIONS.rope(x, positions)
    for kind in (torch.long, torch.bool, torch.cfloat):
        with pytest.raises(ValueError, match="x は小数"):
            POSITIONS.rope(x.to(kind), torch.arange(3))


def test_places_outside_the_block_are_refused():
    twin = TENSOR.TensorGPT(SCALAR.Config(3, 4, 2, block_size=4))
    for length, start in ((5, 0), (1, 4), (1, -1), (2, 3)):
        with pytest.raises(ValueError, match="4 個まで"):
            twin(torch.zeros(1, length).long(), start=start)


def test_a_cut_name_is_the_same_in_both_models():
    model = scalar(block_size=4)
    twin = TENSOR.twin_of(model)
    for doc in ("ねこね", "ねこねこ", "ねこねこねこね"):
        ids, labels = TENSOR.tabulate([doc], model.tokenizer, 4)
        loss = TENSOR.document_mean(twin(ids), labels).item()
        right = SCALAR.loss_for_document(model.numbers(), doc)
        assert loss == pytest.approx(right, abs=1e-12)


# --- figures of what the models did ---------------------------------------------


def test_attention_of_repeated_letters_is_drawn_row_by_row():
    model = scalar(["anna"])
    tokens, rows = SCALAR.attention_matrix_for_doc(model, "anna")
    labels = [model.tokenizer.token_to_str(token) for token in tokens]
    picture = plots.heatmap(rows, rows=labels, columns=labels, causal=True, alt="図。")
    assert "横 [<BOS> a n n a] | 縦 [<BOS> a n n a]" in picture.description
    assert picture.description.count("×") == 10
    assert "Blues 0.00..1.00" in picture.description


# --- sampling -------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [-1, -1e-9, math.nan, math.inf, "0.5", None])
def test_temperatures_out_of_range_are_refused(temperature):
    model = scalar()
    with pytest.raises(ValueError, match=f"温度は 0 以上の数です.*{temperature}"):
        SCALAR.generate_one(model, temperature)
    with pytest.raises(ValueError, match=f"温度は 0 以上の数です.*{temperature}"):
        TENSOR.write(TENSOR.twin_of(model), model.tokenizer, 2, temperature)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
def test_top_k_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match=f"top_k は 1 以上の整数です.*{k!r}"):
        SCALAR.keep_top([1.0, 2.0], k)
    with pytest.raises(ValueError, match=f"top_k は 1 以上の整数です.*{k!r}"):
        TENSOR.keep_top(torch.tensor([[1.0, 2.0]]), k)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("cold", [0, 0.0, 5e-324, 1e-320, 1e-12, np.float64(0)])
def test_cold_is_greedy_in_both_models(dtype, cold):
    torch.set_default_dtype(dtype)
    model = scalar(["anna", "ava", "emma"], n_embd=8)
    greedy = SCALAR.generate_one(model, top_k=1)
    assert greedy
    assert SCALAR.generate_one(model, cold) == greedy
    twin = TENSOR.twin_of(model)
    assert TENSOR.write(twin, model.tokenizer, 3, cold) == [greedy] * 3
    assert TENSOR.write(twin, model.tokenizer, 3, 1.0, top_k=1) == [greedy] * 3


def test_top_k_as_large_as_the_vocabulary_changes_nothing():
    model = scalar()
    twin, tokenizer = TENSOR.twin_of(model), model.tokenizer
    free = TENSOR.write(twin, tokenizer, 5, seed=3)
    logits = torch.randn(2, tokenizer.vocab_size)
    for k in (tokenizer.vocab_size, tokenizer.vocab_size + 1, 10**6, None):
        assert torch.equal(TENSOR.keep_top(logits, k), logits)
        assert TENSOR.write(twin, tokenizer, 5, top_k=k, seed=3) == free
        drawn = SCALAR.generate_one(model, 1.0, top_k=k, rng=random.Random(3))
        assert drawn == SCALAR.generate_one(model, 1.0, rng=random.Random(3))


@pytest.mark.parametrize("count", [-1, 17, 1.0, True, "3", math.nan])
def test_lengths_out_of_range_are_refused(count):
    with pytest.raises(ValueError, match=f"max_new_tokens は 0 から 16 .*{count}"):
        SCALAR.generate_one(scalar(), max_new_tokens=count)


def test_extreme_logits_give_a_distribution():
    for logits in ([1.0], [1e308, -1e308], [-math.inf, 1.0], [0.0] * 5, [5e-324, 0.0]):
        for temperature, k in itertools.product((0, 1e-300, 1.0, 1e300), (1, 2, None)):
            found = SCALAR.next_probs(logits, temperature, k)
            assert math.fsum(found) == pytest.approx(1)
            assert all(0 <= p <= 1 for p in found)
