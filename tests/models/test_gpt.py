"""GPT against its equations in float64, its step function, and what must hold whatever its weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import EXECUTIONS, assert_all_close, random_array
from models.gpt_equations import gpt

from keras_attention.decoding import beam_search, greedy_search, sample
from keras_attention.decoding.hypotheses import repeat_beams, take_sequences
from keras_attention.models import GPT, GPT_PRESETS
from keras_attention.models.gpt import scale_residual_projections

pytestmark = pytest.mark.sampled(4)

B, T, V = 3, 7, 17
TINY = {"vocabulary_size": V, "hidden_dim": 12, "intermediate_dim": 19, "num_heads": 3, "num_layers": 2}
TINY["max_length"] = 23
FORMS = {
    "learned": {},
    "sinusoidal": {"positions": "sinusoidal", "activation": "relu"},
    "rotary": {"positions": "rotary", "activation": "silu", "pad_id": None},
    "relative": {"positions": "relative"},
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


def make_model(dropout=0.0, seed=0, **settings):
    model = GPT(**{**TINY, "dropout": dropout, **settings})
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(random_array(*weight.shape, seed=(seed, i), low=-0.6, high=0.6))
    return model


def make_batch(seed=0):
    return {"token_ids": np.random.default_rng(seed).integers(4, V, (B, T)).astype("int32")}


def outputs_of(model, batch, execution="eager", training=False):
    @EXECUTIONS[execution]
    def compute(batch):
        return model(batch, training=training, return_attention_scores=True)

    return [np.asarray(x) for x in compute({name: keras.ops.convert_to_tensor(ids) for name, ids in batch.items()})]


@EVERY_FORM
def test_equals_its_equations(form):
    model, batch = make_model(**FORMS[form]), make_batch()
    logits, weights = outputs_of(model, batch)
    paths = {weight.path.split("/", 1)[1]: weight.numpy() for weight in model.trainable_weights}
    for row in range(B):
        assert_all_close(
            [logits[row], weights[row]], gpt(paths, model.get_config(), batch["token_ids"][row].tolist()), 1e-5
        )


@EVERY_FORM
@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_graph_and_xla_compute_the_same(form, execution):
    model, batch = make_model(**FORMS[form]), make_batch()
    assert_all_close(outputs_of(model, batch, execution), outputs_of(model, batch), 1e-5)


@EVERY_FORM
def test_nothing_leaks_from_later_tokens(form):
    model, batch = make_model(dropout=0.3, **FORMS[form]), make_batch()
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


def test_padding_changes_nothing_and_has_a_mask():
    model, batch = make_model(), make_batch()
    expected = outputs_of(model, batch)[0]
    padded = {"token_ids": np.pad(batch["token_ids"], ((0, 0), (0, 4)))}
    logits, weights = outputs_of(model, padded)
    assert_all_close([logits[:, :T]], [expected], 1e-5)
    assert not weights[..., T:].any()
    assert np.isfinite(logits).all()
    mask = np.asarray(model.logits_mask(padded))
    np.testing.assert_array_equal(mask, padded["token_ids"] != 0)
    assert make_model(pad_id=None).logits_mask(padded) is None


def test_without_padding_token_0_is_a_token():
    model = make_model(pad_id=None)
    batch = make_batch()
    batch["token_ids"][:, 2] = 0
    paths = {weight.path.split("/", 1)[1]: weight.numpy() for weight in model.trainable_weights}
    expected, _ = gpt(paths, model.get_config(), batch["token_ids"][0].tolist())
    assert_all_close([outputs_of(model, batch)[0][0]], [expected], 1e-5)


def filled_left(texts):
    """Texts of different lengths as one batch with its mask, padded on the left."""
    length = max(map(len, texts))
    token_ids, mask = np.zeros((len(texts), length), "int32"), np.zeros((len(texts), length), bool)
    for i, text in enumerate(texts):
        token_ids[i, length - len(text) :], mask[i, length - len(text) :] = text, True
    return token_ids, mask


def last_logits(model, texts):
    """The logits at the end of each text (N, V), read as a whole."""
    token_ids = np.zeros((len(texts), model.max_length), "int32")
    for row, text in zip(token_ids, texts, strict=True):
        row[: len(text)] = text
    return np.asarray(model({"token_ids": token_ids}))[np.arange(len(texts)), [len(text) - 1 for text in texts]]


TEXTS = [[5, 6, 7, 8, 9], [10], [11, 4, 13]]  # the beginnings of texts


@EVERY_FORM
def test_steps_after_beginnings_of_any_length_equal_the_whole(form):
    model, more = make_model(**FORMS[form]), make_batch()["token_ids"]
    token_ids, mask = filled_left(TEXTS)
    memory = model.encode(token_ids, None if FORMS[form].get("pad_id", 0) == 0 else mask)
    state = model.initial_state(memory, T)
    tokens = np.full(B, -1, "int32")
    for t in range(T):
        logits, state = model.step(tokens, state, memory)
        texts = [[*text, *more[row, :t]] for row, text in enumerate(TEXTS)]
        assert_all_close([logits], [last_logits(model, texts)], 1e-5)
        tokens = more[:, t]


@EVERY_FORM
def test_hypotheses_of_a_text_share_its_beginning_and_a_cache(form):
    """After each step some hypotheses are replaced by others, whose tokens they then continue."""
    model, k, random = make_model(**FORMS[form]), 3, np.random.default_rng(2)
    memory = model.encode(*filled_left(TEXTS))
    state = repeat_beams(model.initial_state(memory, T, beam_size=k), k)
    texts, tokens = [[*text] for text in TEXTS for _ in range(k)], np.full(B * k, -1, "int32")
    for _ in range(T):
        logits, state = model.step(tokens, state, memory)
        assert_all_close([logits], [last_logits(model, texts)], 1e-5)
        order = (np.arange(B)[:, None] * k + random.integers(0, k, (B, k))).ravel()
        state, texts = take_sequences(state, order), [[*texts[row]] for row in order]
        tokens = random.integers(4, V, B * k).astype("int32")
        for text, token in zip(texts, tokens, strict=True):
            text.append(int(token))


IDS = {"start_id": -1, "end_id": 3, "pad_id": 0, "unknown_id": 1}
SEARCHES = {
    "greedy": (greedy_search, {}, 1),
    "sample": (sample, {"seed": 5, "top_k": 7}, 1),
    "beam": (beam_search, {"beam_size": 3, "length_penalty": 0.6, "n_best": 2}, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("form", ["learned", "rotary", "relative"])
def test_every_search_writes_as_if_it_read_all_again(search, form):
    """With the cache, and with the whole text at every step, compiled; the log probabilities are those of the model."""
    function, options, beams = SEARCHES[search]
    model, (token_ids, mask) = make_model(**FORMS[form]), filled_left(TEXTS)

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
            if search == "greedy":
                allowed = np.where(np.isin(np.arange(V), (0, 1)), -np.inf, logits)
                assert ids == allowed[len(text) - 1 : -1].argmax(-1).tolist()
    if search == "beam":
        with_memory = tf.function(jit_compile=True, autograph=False)(
            lambda memory: beam_search(
                model.step,
                model.initial_state(memory, T, beam_size=beams),
                B,
                memory=memory,
                max_length=T,
                **IDS,
                **options,
            )
        )(model.encode(token_ids, mask))
        np.testing.assert_array_equal(with_memory.token_ids, actual[0])


@pytest.mark.parametrize("form", ["learned", "rotary", "relative"])
def test_beginnings_that_are_filled_up_further_give_the_same_logits(form):
    model = make_model(**FORMS[form])
    token_ids = np.array([[0, 0, 5, 7, 11], [3, 13, 2, 7, 5]], "int32")
    short = model.encode(token_ids)
    results = []
    for memory in (short, model.widened(short, 11)):
        state = model.initial_state(memory, 2)
        first, state = model.step(np.array([-1, -1], "int32"), state, memory)
        second, _ = model.step(np.array([7, 3], "int32"), state, memory)
        results.append((np.asarray(first), np.asarray(second)))
    assert_all_close(*results, 1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("mixed_float16", 0.05), ("mixed_bfloat16", 0.4)])
@pytest.mark.parametrize("form", ["learned", "rotary", "relative"])
def test_half_precision_stays_near(form, dtype, tolerance):
    batch = make_batch()
    half, whole = (outputs_of(make_model(**FORMS[form], **options), batch) for options in ({"dtype": dtype}, {}))
    assert {x.dtype for x in half} == {np.dtype("float32")}
    assert_all_close(half, whole, tolerance)


def count(preset, vocabulary):
    """Weights, counted by hand: shared embeddings, positions, four projections an attention, two norms a layer."""
    D, inner = preset["hidden_dim"], preset["intermediate_dim"]
    layer = 4 * (D * D + D) + 2 * D * inner + inner + D + 4 * D
    return (vocabulary + preset["max_length"]) * D + preset["num_layers"] * layer + 2 * D


def test_presets_have_the_published_sizes():
    assert count(GPT_PRESETS["gpt2"], 50257) == 124_439_808  # the file of the authors
    assert 5.9e6 < count(GPT_PRESETS["mini"], 5000) < 6.2e6
    tiny = {name: value for name, value in TINY.items() if name != "vocabulary_size"}
    assert count(tiny, V) == make_model().count_params()
    for preset in GPT_PRESETS.values():
        GPT(50257, **preset)  # nothing is built


def test_residual_projections_are_scaled():
    model = make_model()
    before = {weight.path: weight.numpy() for weight in model.weights}
    scale_residual_projections(model)
    for weight in model.weights:
        adds = "attention_output/kernel" in weight.path or "output_dense/kernel" in weight.path
        np.testing.assert_allclose(weight, before[weight.path] * (0.5 if adds else 1.0), rtol=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_dim": 13}, "`num_heads` must divide `hidden_dim`. Received: num_heads=3, hidden_dim=13"),
        ({"num_layers": 0}, "`num_layers` must be a positive integer. Received: num_layers=0"),
        (
            {"positions": "none"},
            "one of learned, sinusoidal, rotary, relative. Received: positions=none",
        ),
        ({"activation": "tanh"}, "`activation` must be one of .* Received: activation=tanh"),
        ({"positions": "rotary", "num_heads": 4}, "needs heads of an even width. Received: hidden_dim=12, num_heads=4"),
        ({"positions": "sinusoidal", "hidden_dim": 9}, "needs an even `hidden_dim`. Received: hidden_dim=9"),
        ({"dropout": 1.0}, "`dropout` must be in .* Received: dropout=1.0"),
        ({"pad_id": 17}, "`pad_id` must be None or a token id .* Received: pad_id=17"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        GPT(**{**TINY, **settings})


def test_a_text_that_is_too_long_is_named():
    with pytest.raises(ValueError, match=r"up to `max_length`=23 tokens. Received: token_ids.shape=\(1, 24\)"):
        make_model(positions="rotary")({"token_ids": np.ones((1, 24), "int32")})
