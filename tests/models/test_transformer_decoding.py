"""Decoding with the cache against decoding that reads the whole prefix again at every step."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close
from models.test_transformer import make_model

from keras_attention.decoding import beam_search, greedy_search, repeat_beams

IDS = {"start_id": 2, "end_id": 3, "pad_id": 0, "unknown_id": 1}
LENGTH, SENTENCES, S = 11, 500, 7


def sources(count=SENTENCES):
    random = np.random.default_rng(0)
    lengths = random.integers(2, S + 1, count)
    ids = random.integers(4, 17, (count, S)).astype("int32")
    ids[np.arange(count), lengths - 1] = 3
    ids[np.arange(S) >= lengths[:, None]] = 0
    return ids


def search(model, source_ids, cached, beam_size):
    """The answers by `beam_search`, or by `greedy_search` with `beam_size` None."""
    function, options = greedy_search, {}
    if beam_size is not None:
        function, options = beam_search, {"beam_size": beam_size, "length_penalty": 0.6}
    batch = len(source_ids)

    @tf.function(jit_compile=True, autograph=False)
    def run(source_ids):
        memory = model.encode(source_ids)
        repeated = repeat_beams(source_ids, beam_size or 1)

        def whole(token_ids, state):
            position, prefix = state["position"][0], state["prefix"]  # (N, LENGTH)
            prefix = keras.ops.slice_update(prefix, (0, position), token_ids[:, None])
            logits = model({"source_ids": repeated, "target_ids": prefix})  # later positions are not seen
            return logits[:, position], {"position": state["position"] + 1, "prefix": prefix}

        if cached:
            state = model.initial_state(memory, LENGTH, beam_size=beam_size or 1)
        else:
            state = {"position": keras.ops.zeros(batch, "int32"), "prefix": keras.ops.ones((batch, LENGTH), "int32")}
        step = (lambda token_ids, state: model.step(token_ids, state, memory)) if cached else whole
        return function(step, state, batch, max_length=LENGTH, **IDS, **options)

    return [np.asarray(field) for field in run(tf.constant(source_ids))]


@pytest.fixture(scope="module")
def copying_model():
    """A model that has begun to learn to copy: random weights would write the same for all sources."""
    model = make_model(normalize_first=True, num_encoder_layers=1, hidden_dim=24)
    ids = sources(2000)
    targets = np.concatenate([np.full((len(ids), 1), 2, "int32"), ids[:, :-1]], axis=1)
    model.compile(keras.optimizers.Adam(5e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit({"source_ids": ids, "target_ids": targets}, ids, batch_size=100, epochs=8, verbose=0)
    return model


@pytest.mark.thorough
@pytest.mark.parametrize("beam_size", [None, 4], ids=["greedy", "beam"])
def test_the_cache_changes_no_token(copying_model, beam_size):
    hypotheses, expected = (search(copying_model, sources(), cached, beam_size) for cached in (True, False))
    np.testing.assert_array_equal(hypotheses[0], expected[0])
    assert_all_close(hypotheses[2:], expected[2:], 1e-4)
    assert len(np.unique(hypotheses[0].reshape(SENTENCES, -1), axis=0)) > SENTENCES / 3


@pytest.mark.slow
def test_the_state_tells_where_the_last_step_looked():
    model, source_ids = make_model(), sources(5)
    targets = np.random.default_rng(1).integers(4, 17, (5, LENGTH)).astype("int32")
    expected = model.cross_attention({"source_ids": source_ids, "target_ids": targets})  # (B, L, H, T, S)
    memory = model.encode(source_ids)
    state = model.initial_state(memory, LENGTH, attention=True)
    for t in range(LENGTH):
        _, state = model.step(targets[:, t], state, memory)
        assert_all_close([state["attention"]], [np.asarray(expected)[:, :, :, t].mean(axis=(1, 2))], 1e-5)
