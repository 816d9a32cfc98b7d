"""What holds for every kind of causal language model: the future, padding, the step function, all of `decoding`."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import EXECUTIONS, assert_all_close, random_array
from models.test_gpt import IDS, SEARCHES, TEXTS, filled_left, last_logits

from keras_attention.decoding.hypotheses import repeat_beams, take_sequences
from keras_attention.models import LANGUAGE_MODELS, new_language_model

pytestmark = pytest.mark.sampled(3)

B, T, V = 3, 7, 17
TINY = {"vocabulary_size": V, "hidden_dim": 12, "intermediate_dim": 19, "num_heads": 3, "num_layers": 2}
TINY |= {"max_length": 23, "kernel_size": 3}
# The kind "gpt" has its own tests.
EVERY_KIND = pytest.mark.parametrize("kind", [kind for kind in LANGUAGE_MODELS if kind != "gpt"])


def make_model(kind, dropout=0.0, **settings):
    model = new_language_model(kind, TINY | {"dropout": dropout} | settings)
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(random_array(*weight.shape, seed=i, low=-0.6, high=0.6))
    return model


def make_batch():
    return {"token_ids": np.random.default_rng(0).integers(4, V, (B, T)).astype("int32")}


@EVERY_KIND
@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_graph_and_xla_compute_the_same(kind, execution):
    model, batch = make_model(kind), make_batch()
    compiled = EXECUTIONS[execution](lambda token_ids: model({"token_ids": token_ids}))
    assert_all_close([compiled(tf.constant(batch["token_ids"]))], [model(batch)], 1e-5)


@EVERY_KIND
def test_nothing_leaks_from_later_tokens(kind):
    model, batch = make_model(kind, dropout=0.3), make_batch()
    states = [layer.seed_generator.state for layer in model._flatten_layers() if hasattr(layer, "seed_generator")]
    start = [np.asarray(state) for state in states]

    def run(batch):
        for state, value in zip(states, start, strict=True):
            state.assign(value)
        return np.asarray(model(batch, training=True))

    before = run(batch)
    for t in range(1, T):
        changed = {"token_ids": batch["token_ids"].copy()}
        changed["token_ids"][:, t:] = 4 + (changed["token_ids"][:, t:] + 1 - 4) % (V - 4)
        after = run(changed)
        np.testing.assert_array_equal(after[:, :t], before[:, :t])
        assert (after[:, t] != before[:, t]).any()


@EVERY_KIND
def test_padding_changes_nothing_and_has_a_mask(kind):
    model, batch = make_model(kind), make_batch()
    padded = {"token_ids": np.pad(batch["token_ids"], ((0, 0), (0, 4)))}
    logits = np.asarray(model(padded))
    assert_all_close([logits[:, :T]], [model(batch)], 1e-5)
    assert np.isfinite(logits).all()
    np.testing.assert_array_equal(model.logits_mask(padded), padded["token_ids"] != 0)
    assert make_model(kind, pad_id=None).logits_mask(padded) is None


@EVERY_KIND
@pytest.mark.parametrize("pad_id", [0, None])
def test_steps_after_beginnings_of_any_length_equal_the_whole(kind, pad_id):
    model, more = make_model(kind, pad_id=pad_id), make_batch()["token_ids"]
    token_ids, mask = filled_left(TEXTS)
    memory = model.encode(token_ids, None if pad_id == 0 else mask)
    state, tokens = model.initial_state(memory, T), np.full(B, -1, "int32")
    actual, texts = [], []
    for t in range(T):
        logits, state = model.step(tokens, state, memory)
        actual.append(logits)
        texts += [[*text, *more[row, :t]] for row, text in enumerate(TEXTS)]
        tokens = more[:, t]
    assert_all_close([np.concatenate(actual)], [last_logits(model, texts)], 1e-5)


@EVERY_KIND
def test_hypotheses_are_reordered_with_their_states(kind):
    """After each step some hypotheses are replaced by others, whose tokens they then continue."""
    model, k, random = make_model(kind), 3, np.random.default_rng(2)
    memory = model.encode(*filled_left(TEXTS))
    state = repeat_beams(model.initial_state(memory, T, beam_size=k), k)
    texts, tokens = [[*text] for text in TEXTS for _ in range(k)], np.full(B * k, -1, "int32")
    actual, read = [], []
    for _ in range(T):
        logits, state = model.step(tokens, state, memory)
        actual.append(logits)
        read += [[*text] for text in texts]
        order = (np.arange(B)[:, None] * k + random.integers(0, k, (B, k))).ravel()
        state, texts = take_sequences(state, order), [[*texts[row]] for row in order]
        tokens = random.integers(4, V, B * k).astype("int32")
        for text, token in zip(texts, tokens, strict=True):
            text.append(int(token))
    assert_all_close([np.concatenate(actual)], [last_logits(model, read)], 1e-5)


@EVERY_KIND
@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_writes_as_if_it_read_all_again(search, kind):
    function, options, beams = SEARCHES[search]
    model, (token_ids, mask) = make_model(kind), filled_left(TEXTS)

    @tf.function(jit_compile=True, autograph=False)
    def run():
        memory = model.encode(tf.constant(token_ids), tf.constant(mask))
        state = model.initial_state(memory, T, beam_size=beams)
        return function(lambda *given: model.step(*given, memory), state, B, max_length=T, **IDS, **options)

    actual = [np.asarray(field) for field in run()]
    for row, text in enumerate(TEXTS):
        for n in range(actual[0].shape[1]):
            ids = actual[0][row, n, : actual[1][row, n]].tolist()
            logits = np.asarray(model({"token_ids": np.array([[*text, *ids]], "int32")}), "float64")[0]
            log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            expected = sum(log_probs[len(text) - 1 + t, token] for t, token in enumerate(ids))
            np.testing.assert_allclose(actual[3][row, n], expected, atol=1e-4)


@EVERY_KIND
def test_beginnings_that_are_filled_up_further_give_the_same_logits(kind):
    model = make_model(kind)
    short = model.encode(np.array([[0, 0, 5, 7, 11], [3, 13, 2, 7, 5]], "int32"))
    results = []
    for memory in (short, model.widened(short, 11)):
        state = model.initial_state(memory, 2)
        first, state = model.step(np.array([-1, -1], "int32"), state, memory)
        second, _ = model.step(np.array([7, 3], "int32"), state, memory)
        results.append((np.asarray(first), np.asarray(second)))
    assert_all_close(*results, 1e-5)


@EVERY_KIND
def test_saving_keeps_settings_and_outputs(kind, tmp_path):
    model, batch = make_model(kind, dropout=0.3, pad_id=None), make_batch()
    model(batch)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    assert_all_close([loaded(batch)], [model(batch)], 0)


@EVERY_KIND
@pytest.mark.parametrize(("dtype", "tolerance"), [("mixed_float16", 0.05), ("mixed_bfloat16", 0.4)])
def test_half_precision_stays_near(kind, dtype, tolerance):
    batch = make_batch()
    half, whole = (make_model(kind, **options)(batch) for options in ({"dtype": dtype}, {}))
    assert half.dtype == "float32"
    assert_all_close([half], [whole], tolerance)


@EVERY_KIND
def test_a_text_that_is_too_long_is_named(kind):
    with pytest.raises(ValueError, match=r"up to `max_length`=23 tokens. Received: token_ids.shape=\(1, 24\)"):
        make_model(kind)({"token_ids": np.ones((1, 24), "int32")})


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="`kind` must be one of gpt, lstm, .*Received: kind='rnn'"):
        new_language_model("rnn", {})
