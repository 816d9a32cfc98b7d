"""Models with a sparse attention pattern: steps equal the whole, texts do not depend on their neighbours or padding."""

import dataclasses

import numpy as np
import pytest
from layer_checks import assert_all_close, random_array
from models.test_gpt import filled_left, last_logits

from keras_attention.decoding.hypotheses import repeat_beams, take_sequences
from keras_attention.layers.sparse_patterns import PATTERNS
from keras_attention.models import GPT, BertMaskedLM
from keras_attention.support.errors import EntryError
from keras_attention.zoo.entry_io import load_network, read_entry
from keras_attention.zoo.schema import ATTENTION_PATTERN, PATTERN_BOUNDS

pytestmark = pytest.mark.sampled(4)

V, T = 17, 11
SIZES = {"hidden_dim": 12, "intermediate_dim": 19, "num_heads": 3, "num_layers": 2, "max_length": 23, "dropout": 0.0}
every_pattern = pytest.mark.parametrize(
    "pattern",
    ["window:width=4", "strided:stride=3", "fixed:stride=5,summary=2", "bigbird:block=2,globals=1,random=1,window=1"],
    ids=PATTERNS,
)


def with_weights(model):
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(random_array(*weight.shape, seed=i, low=-0.6, high=0.6))
    return model


@every_pattern
def test_hypotheses_after_beginnings_of_any_length_equal_the_whole(pattern):
    model, k, random = with_weights(GPT(V, **SIZES, attention_pattern=pattern)), 2, np.random.default_rng(2)
    beginnings = [[5, 6, 7, 8, 9], [10], [11, 4, 13]]
    memory = model.encode(*filled_left(beginnings))
    state = repeat_beams(model.initial_state(memory, 7, beam_size=k), k)
    texts, tokens = [[*text] for text in beginnings for _ in range(k)], np.full(len(beginnings) * k, -1, "int32")
    for _ in range(7):
        logits, state = model.step(tokens, state, memory)
        assert_all_close([logits], [last_logits(model, texts)], 1e-5)
        order = (np.arange(len(beginnings))[:, None] * k + random.integers(0, k, (len(beginnings), k))).ravel()
        state, texts = take_sequences(state, order), [[*texts[row]] for row in order]
        tokens = random.integers(4, V, len(texts)).astype("int32")
        for text, token in zip(texts, tokens, strict=True):
            text.append(int(token))


@every_pattern
def test_a_pattern_restricts_attention(pattern):
    token_ids = np.random.default_rng(0).integers(4, V, (2, T)).astype("int32")
    sparse = with_weights(GPT(V, **SIZES, attention_pattern=pattern))
    dense = with_weights(GPT(V, **SIZES))
    (actual, weights), (full, _) = (
        model({"token_ids": token_ids}, return_attention_scores=True) for model in (sparse, dense)
    )
    assert np.abs(np.asarray(actual) - np.asarray(full)).max() > 1e-3
    layers = np.asarray(weights)[0, :, 0] > 0
    assert layers.sum() < np.tril(np.ones((2, T, T))).sum()
    assert (layers[0] != layers[1]).any() == (not pattern.startswith("window"))


@every_pattern
def test_a_text_has_the_same_vectors_alone_padded_and_packed(pattern):
    model, random = with_weights(BertMaskedLM(V, **SIZES, attention_pattern=pattern)), np.random.default_rng(1)
    first, second = (random.integers(4, V, (1, length)).astype("int32") for length in (T, 7))
    expected = [np.asarray(model({"token_ids": text})) for text in (first, second)]
    padded = model({"token_ids": np.pad(second, ((0, 0), (0, 5)))})
    assert_all_close([padded[:, :7]], expected[1:], 1e-5)
    packed = {
        "token_ids": np.concatenate([first, second], axis=1),
        "block_ids": np.repeat([[1, 2]], (T, 7), axis=1).astype("int32"),
        "position_ids": np.concatenate([np.arange(T), np.arange(7)])[None].astype("int32"),
    }
    assert_all_close([model(packed)], [np.concatenate(expected, axis=1)], 1e-5)
    positions = np.array([[15, 2, 4]], "int32")
    actual = model({**packed, "masked_positions": positions})
    assert_all_close([actual], [np.concatenate(expected, axis=1)[:, positions[0]]], 1e-5)


def test_the_bounds_of_entries_are_those_of_the_layers_or_narrower():
    assert PATTERN_BOUNDS.keys() == PATTERNS.keys()
    for kind, bounds in PATTERN_BOUNDS.items():
        fields = {field.name: field.metadata["bounds"] for field in dataclasses.fields(PATTERNS[kind])}
        assert bounds.keys() == fields.keys()
        for name, (low, high) in bounds.items():
            assert fields[name][0] <= low <= high <= fields[name][1]


@pytest.mark.parametrize("pattern", [None, "bigbird", "strided:stride=28", "bigbird:block=64,random=0,seed=7"])
def test_an_entry_may_have_a_pattern(pattern):
    assert ATTENTION_PATTERN[1](pattern)


HOSTILE = [
    "", "dense", "os:system=1", "strided:", "strided:stride", "strided:stride=", "strided:stride=0", "strided:width=3",
    "strided:stride=-3", "strided:stride=3,stride=5", "strided:stride=99999999999", "strided:stride=\u0663",
    "strided:stride=1e3", "strided:stride=3\n", "strided:stride=03", "bigbird:block=1", "bigbird:random=1000000",
    "bigbird:block=64,", "bigbird:block=64" + ",random=1" * 9000, 7, True, [], {"strided": 3}, ["strided"],
]  # fmt: skip


@pytest.mark.parametrize("pattern", HOSTILE, ids=range(len(HOSTILE)))
def test_an_entry_may_not_have(pattern):
    assert not ATTENTION_PATTERN[1](pattern)


def test_an_entry_keeps_the_pattern(tmp_path):
    from zoo.tiny_bert import tokenizer, write_tiny

    model = with_weights(BertMaskedLM(tokenizer().vocabulary_size, **SIZES, attention_pattern="bigbird:block=8"))
    write_tiny(tmp_path / "tiny", model)
    entry = read_entry(tmp_path / "tiny")
    loaded, token_ids = load_network(entry), np.random.default_rng(1).integers(4, 17, (2, 23)).astype("int32")
    assert loaded.settings["attention_pattern"] == "bigbird:block=8"
    assert_all_close([loaded({"token_ids": token_ids})], [model({"token_ids": token_ids})], 0)
    entry.config["model"]["attention_pattern"] = "bigbird:window=2"  # in bounds, but even
    with pytest.raises(EntryError, match="must be odd. Received: window=2"):
        load_network(entry)
