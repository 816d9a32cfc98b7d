"""Decoding step by step computes what one call on the whole target computes."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close
from models.tiny_models import FORMS, B, S, T, make_batch, outputs_of, shared_model

from keras_attention.decoding import beam_search, greedy_search, repeat_beams

pytestmark = pytest.mark.sampled(4)

BEAMS, LENGTH = 4, 6
IDS = {"start_id": 2, "end_id": 3, "pad_id": 0}
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


def search(model, source_ids, beam_size=None, **options):
    """Greedy search, or beam search with `beam_size`; the token ids, lengths, scores and log probabilities."""
    memory = model.encode(source_ids)
    beams = repeat_beams(memory, beam_size or 1)

    def step(token_ids, state):
        return model.step(token_ids, state, beams)

    if beam_size:
        options["beam_size"] = beam_size
    function = beam_search if beam_size else greedy_search
    outputs = function(step, model.initial_state(memory), len(source_ids), max_length=LENGTH, **IDS, **options)
    return [np.asarray(x) for x in outputs]


def log_probs_of(model, source_ids, token_ids):
    """Log probabilities (B, L, V) of every token after START and each answer's (B, L) own tokens."""
    targets = np.concatenate([np.full((len(token_ids), 1), 2), token_ids[:, :-1]], axis=1)
    logits, _ = outputs_of(model, {"source_ids": source_ids, "target_ids": targets.astype("int32")})
    return logits - np.log(np.exp(logits.astype("float64")).sum(axis=-1, keepdims=True))


@EVERY_FORM
def test_steps_equal_the_full_pass(form):
    model, batch = shared_model(form), make_batch()
    logits, attention = outputs_of(model, batch)
    memory = model.encode(batch["source_ids"])
    state = model.initial_state(memory)
    assert all(tensor.shape[0] == B for tensor in tf.nest.flatten((memory, state)))
    for t in range(T):
        step_logits, new_state = model.step(batch["target_ids"][:, t], state, memory)
        tf.nest.assert_same_structure(new_state, state)
        for new, old in zip(tf.nest.flatten(new_state), tf.nest.flatten(state), strict=True):
            assert (new.shape, new.dtype) == (old.shape, old.dtype)
        state = new_state
        assert step_logits.shape == logits[:, t].shape
        assert step_logits.dtype == "float32"
        assert_all_close([step_logits], [logits[:, t]], 1e-5)
        assert ("attention" in state) == (form != "none")
        if form != "none":
            assert state["attention"].shape == (B, S)
            assert_all_close([state["attention"]], [attention[:, t]], 1e-5)


@EVERY_FORM
def test_greedy_search_follows_the_full_pass(form):
    model, source_ids = shared_model(form), make_batch(seed=1)["source_ids"]
    token_ids, lengths, _, log_probs = search(model, source_ids)
    expected, total, done = np.zeros((B, LENGTH), "int32"), np.zeros(B), np.zeros(B, bool)
    for t in range(LENGTH):
        choices = log_probs_of(model, source_ids, expected[:, : t + 1])[:, t]
        choices[:, [0, 2]] = -np.inf  # padding and START are never generated
        expected[:, t] = np.where(done, 0, choices.argmax(axis=-1))
        total += np.where(done, 0, choices.max(axis=-1))
        done |= expected[:, t] == 3
    np.testing.assert_array_equal(token_ids[:, 0], expected)
    np.testing.assert_array_equal(lengths[:, 0], (expected != 0).sum(axis=-1))
    assert_all_close([log_probs[:, 0]], [total], 1e-4)


@EVERY_FORM
def test_beams_have_the_probabilities_of_the_full_pass(form):
    model, source_ids = shared_model(form), make_batch(seed=1)["source_ids"]
    token_ids, lengths, _, log_probs = search(model, source_ids, beam_size=BEAMS, n_best=BEAMS)
    for beam in range(BEAMS):
        own = np.take_along_axis(
            log_probs_of(model, source_ids, token_ids[:, beam]), token_ids[:, beam, :, None], axis=-1
        )[..., 0]
        counted = np.arange(LENGTH) < lengths[:, beam, None]
        assert_all_close([log_probs[:, beam]], [(own * counted).sum(axis=-1)], 1e-4)
    for row in range(B):
        assert len({tuple(answer) for answer in token_ids[row]}) == BEAMS


@pytest.mark.parametrize("form", ["local_m", "none"])
def test_one_beam_is_greedy(form):
    model, source_ids = shared_model(form), make_batch(seed=2)["source_ids"]
    for beam, greedy in zip(search(model, source_ids, beam_size=1), search(model, source_ids), strict=True):
        assert_all_close([beam], [greedy], 1e-5)


def test_padding_and_other_rows_leave_the_answers():
    model, source_ids = shared_model("additive"), make_batch(seed=1)["source_ids"]
    options = {"beam_size": BEAMS, "n_best": BEAMS}
    expected = search(model, source_ids, **options)
    wider = np.pad(source_ids, ((0, 2), (0, 4)))  # two rows of padding only
    for hypotheses, answer in zip(search(model, wider, **options), expected, strict=True):
        assert_all_close([hypotheses[:B]], [answer], 1e-5)


def test_the_memory_may_hold_more_rows_than_sentences():
    model, batch = shared_model("local_p"), make_batch()
    memory = model.encode(batch["source_ids"])
    state = model.initial_state(memory)
    token_ids = batch["target_ids"][:, 1]
    logits, _ = model.step(token_ids, state, memory)
    repeated = keras.ops.repeat(token_ids, BEAMS, axis=0)
    beams, _ = model.step(repeated, repeat_beams(state, BEAMS), repeat_beams(memory, BEAMS))
    assert_all_close([beams], [np.repeat(logits, BEAMS, axis=0)], 1e-6)
