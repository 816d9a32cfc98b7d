"""Keras's implicit masks: after `Embedding(mask_zero=True)` or `Masking`, every layer obeys them and passes them on.

Run as a program, this file checks a layer on the Keras backend that is set, `test_implicit_masks.py NAME...`.
"""

import functools
import os
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import (
    AdditiveAttention,
    Dropout,
    FeedForward,
    GRUCell,
    HardAttention,
    LearnedPositionalEmbedding,
    LocationAwareAttention,
    LSTMCell,
    LuongAttention,
    MultiHeadAttention,
    SinusoidalPositionalEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)

pytestmark = pytest.mark.sampled(13)

B, T, S, D, H, VOCABULARY = 3, 13, 11, 6, 2, 17
LENGTHS, SOURCE_LENGTHS = (13, 7, 2), (5, 11, 1)
TOLERANCES = {"float32": 1e-5, "mixed_bfloat16": 0.06, "mixed_float16": 5e-3}

ATTENTION = {
    "multi_head": (MultiHeadAttention, {"num_heads": H, "key_dim": 5}),
    "grouped": (MultiHeadAttention, {"num_heads": 4, "key_dim": 5, "num_key_value_heads": 2, "sliding_window": 3}),
    "additive": (AdditiveAttention, {"units": 5}),
    "hard": (HardAttention, {"units": 5}),
    "location": (LocationAwareAttention, {"units": 5}),
    "luong_dot": (LuongAttention, {"score": "dot"}),
    "luong_general": (LuongAttention, {"score": "general"}),
    "luong_concat": (LuongAttention, {"score": "concat"}),
    "luong_local_m": (LuongAttention, {"mode": "local_m", "window": 2}),
    "luong_local_p": (LuongAttention, {"mode": "local_p", "window": 2}),
}
TRANSFORMER = {
    "encoder": (TransformerEncoderLayer, {"intermediate_dim": 19, "num_heads": H}),
    "encoder_pre": (TransformerEncoderLayer, {"intermediate_dim": 19, "num_heads": H, "normalize_first": True}),
    "decoder": (TransformerDecoderLayer, {"intermediate_dim": 19, "num_heads": H}),
    "decoder_pre": (TransformerDecoderLayer, {"intermediate_dim": 19, "num_heads": H, "normalize_first": True}),
}
POSITIONWISE = {
    "feed_forward": (FeedForward, {"intermediate_dim": 19}),
    "dropout": (Dropout, {"rate": 0.3}),
    "learned": (LearnedPositionalEmbedding, {"max_length": 2 * T}),
    "sinusoidal": (SinusoidalPositionalEmbedding, {}),
}
LAYERS = {**ATTENTION, **TRANSFORMER, **POSITIONWISE}
CROSS = {**ATTENTION, "decoder": TRANSFORMER["decoder"], "decoder_pre": TRANSFORMER["decoder_pre"]}


def make_layer(name, dtype="float32", **options):
    kind, settings = LAYERS[name]
    return kind(**settings, **options, dtype=dtype)


def apply(name, layer, x, source=None, **options):
    """The layer on one sequence, or on a sequence and a source."""
    if name in ATTENTION:
        return layer(x, x if source is None else source, **options)
    return layer(x, **options) if source is None else layer(x, source, **options)


def token_ids(lengths, width, seed=0):
    ids = np.random.default_rng(seed).integers(1, VOCABULARY, (len(lengths), width))
    return np.where(np.arange(width) < np.array(lengths)[:, None], ids, 0)


IDS, SOURCE_IDS = token_ids(LENGTHS, T), token_ids(SOURCE_LENGTHS, S, seed=1)
FEATURES = np.random.default_rng(2).normal(size=(VOCABULARY, D)).astype("float32")
FEATURES[0] = 0


def inputs_for(masking, ids):
    return ids if masking == "embedding" else FEATURES[ids]


def masking_layer(masking, dtype):
    if masking == "masking":
        return keras.layers.Masking(dtype=dtype)
    return keras.layers.Embedding(VOCABULARY, D, mask_zero=True, dtype=dtype, embeddings_initializer="normal")


def keras_attention(dtype):
    """Keras's own layer, as the witness that the mask came through."""
    return keras.layers.MultiHeadAttention(1, 3, dtype=dtype)


class Stack(keras.Model):
    """Two layers of a kind, then Keras's attention, in a subclassed model."""

    def __init__(self, name, masking, dtype):
        super().__init__(dtype=dtype)
        self.kind = name
        self.start = masking_layer(masking, dtype)
        self.first, self.second = make_layer(name, dtype), make_layer(name, dtype)
        self.witness = keras_attention(dtype)

    def call(self, inputs):
        x = self.start(inputs)
        x = apply(self.kind, self.second, apply(self.kind, self.first, x))
        return self.witness(x, x)


class CrossStack(keras.Model):
    """A sequence that looks twice at a source, then Keras's attention to itself, in a subclassed model."""

    def __init__(self, name, dtype):
        super().__init__(dtype=dtype)
        self.kind = name
        self.start, self.source_start = masking_layer("embedding", dtype), masking_layer("embedding", dtype)
        self.first, self.second = make_layer(name, dtype), make_layer(name, dtype)
        self.witness = keras_attention(dtype)

    def call(self, inputs):
        x, source = self.start(inputs["target"]), self.source_start(inputs["source"])
        x = apply(self.kind, self.second, apply(self.kind, self.first, x, source), source)
        return self.witness(x, x)


@functools.cache
def stack(name, style="functional", masking="embedding", dtype="float32"):
    keras.utils.set_random_seed(1)
    model = Stack(name, masking, dtype)
    if style == "functional":
        symbol = keras.Input((None,) if masking == "embedding" else (None, D))
        model = keras.Model(symbol, model.call(symbol))
    model(inputs_for(masking, IDS))
    return model


@functools.cache
def cross_stack(name, style="functional", dtype="float32"):
    keras.utils.set_random_seed(1)
    model = CrossStack(name, dtype)
    if style == "functional":
        symbols = {key: keras.Input((None,), name=key) for key in ("target", "source")}
        model = keras.Model(symbols, model.call(symbols))
    model({"target": IDS, "source": SOURCE_IDS})
    return model


def run(model, inputs, execution):
    """The outputs of a model, as float32."""
    if execution == "predict":
        outputs = model.predict(inputs, verbose=0)
    elif execution == "eager":
        outputs = model(inputs)
    else:
        import tensorflow as tf

        outputs = tf.function(lambda x: model(x), jit_compile=execution == "xla")(inputs)
    return ops.convert_to_numpy(ops.cast(outputs, "float32"))


def check_rows(outputs, alone, lengths, tolerance):
    """Each row of `outputs` equals `alone(row)`, what the sequence gives by itself, without padding."""
    assert np.isfinite(outputs).all()
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(outputs[row, :length], alone(row)[0], rtol=tolerance, atol=tolerance)


def check_stack(name, style, execution, masking, dtype):
    model = stack(name, style, masking, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        outputs = run(model, inputs_for(masking, IDS), execution)

    def alone(row):
        return run(model, inputs_for(masking, IDS[row : row + 1, : LENGTHS[row]]), "eager")

    check_rows(outputs, alone, LENGTHS, TOLERANCES[dtype])


def check_cross_stack(name, style, execution, dtype):
    model = cross_stack(name, style, dtype)
    outputs = run(model, {"target": IDS, "source": SOURCE_IDS}, execution)

    def alone(row):
        target, source = IDS[row : row + 1, : LENGTHS[row]], SOURCE_IDS[row : row + 1, : SOURCE_LENGTHS[row]]
        return run(model, {"target": target, "source": source}, "eager")

    check_rows(outputs, alone, LENGTHS, TOLERANCES[dtype])


EXECUTIONS = ("eager", "graph", "xla", "predict")
STYLES = ("functional", "subclassed")


@pytest.mark.sampled(26)
@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", LAYERS)
def test_padding_changes_no_real_position(name, style, execution):
    check_stack(name, style, execution, "embedding", "float32")


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_after_masking_and_in_half_precision(name, dtype):
    check_stack(name, "functional", "eager", "masking", dtype)


@pytest.mark.sampled(26)
@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("name", CROSS)
def test_padding_of_query_and_value_changes_nothing(name, execution):
    check_cross_stack(name, "functional", execution, "float32")


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", CROSS)
def test_padding_of_query_and_value_in_a_subclassed_model(name, dtype):
    check_cross_stack(name, "subclassed", "eager", dtype)


def masked(seed, ids=IDS):
    """Random vectors (B, T, D), with the mask of the ids attached as Keras does."""
    embedding = keras.layers.Embedding(VOCABULARY, D, mask_zero=True, embeddings_initializer="normal")
    keras.utils.set_random_seed(seed)
    return embedding(ids)


def mask_of(tensor):
    """The mask that Keras hands to the next layer."""
    seen = []

    class Next(keras.layers.Layer):
        def call(self, inputs, mask=None):
            seen.append(mask)
            return inputs

    Next()(tensor)
    return None if seen[0] is None else ops.convert_to_numpy(seen[0])


@pytest.mark.parametrize("name", LAYERS)
def test_the_output_bears_the_mask_of_its_first_input(name):
    output = apply(name, make_layer(name), masked(0))
    np.testing.assert_array_equal(mask_of(output), IDS != 0)
    symbol = keras.layers.Embedding(VOCABULARY, D, mask_zero=True)(keras.Input((None,)))
    assert mask_of_symbol(apply(name, make_layer(name), symbol))
    assert not mask_of_symbol(apply(name, make_layer(name), keras.Input((None, D))))


def mask_of_symbol(tensor):
    return getattr(tensor, "_keras_mask", None) is not None


@pytest.mark.parametrize("name", CROSS)
def test_the_output_bears_the_mask_of_the_query_and_the_weights_bear_none(name):
    outputs = apply(name, make_layer(name), masked(0), masked(1, SOURCE_IDS), return_attention_scores=True)
    np.testing.assert_array_equal(mask_of(outputs[0]), IDS != 0)
    assert all(mask_of(weights) is None for weights in outputs[1:])


@pytest.mark.parametrize("name", CROSS)
def test_weights_on_masked_keys_are_zero(name):
    *_, weights = apply(name, make_layer(name), masked(0), masked(1, SOURCE_IDS), return_attention_scores=True)
    weights = np.moveaxis(ops.convert_to_numpy(weights), -1, 1)  # (B, S, ...)
    assert (weights[SOURCE_IDS == 0] == 0).all()
    assert (weights[SOURCE_IDS != 0] != 0).any()


@pytest.mark.parametrize("name", ATTENTION)
def test_the_key_has_a_mask_of_its_own(name):
    layer, query, value = make_layer(name), np.asarray(masked(0)), np.asarray(masked(1, SOURCE_IDS))
    key = masked(2, SOURCE_IDS)
    output = layer(query, value, key=key)
    expected = layer(query, value, key=np.asarray(key), attention_mask=(SOURCE_IDS != 0)[:, None, :])
    np.testing.assert_array_equal(np.asarray(output), np.asarray(expected))


@pytest.mark.parametrize("name", ATTENTION)
def test_keys_after_a_dense_layer_keep_their_mask(name):
    layer, query, value = make_layer(name), np.asarray(masked(0)), np.asarray(masked(1, SOURCE_IDS))
    key = keras.layers.Dense(D)(masked(2, SOURCE_IDS))
    output = layer(query, value, key=key)
    expected = layer(query, value, key=np.asarray(key), attention_mask=(SOURCE_IDS != 0)[:, None, :])
    np.testing.assert_array_equal(np.asarray(output), np.asarray(expected))


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", [name for name in ATTENTION if name.startswith(("additive", "luong"))])
def test_projected_keys_keep_their_mask(name, dtype):
    layer, query, value = make_layer(name, dtype), np.asarray(masked(0)), np.asarray(masked(1, SOURCE_IDS))
    key = masked(2, SOURCE_IDS)
    layer(query, value)
    output = layer(query, value, projected_key=layer.project_keys(key))
    explicit = {"attention_mask": (SOURCE_IDS != 0)[:, None, :]}
    expected = layer(query, value, projected_key=layer.project_keys(np.asarray(key)), **explicit)
    np.testing.assert_array_equal(np.asarray(output, "float32"), np.asarray(expected, "float32"))


@pytest.mark.parametrize("name", ATTENTION)
def test_implicit_and_explicit_masks_are_joined_by_and(name):
    layer, query, value = make_layer(name), masked(0), masked(1, SOURCE_IDS)
    explicit = np.random.default_rng(3).random((B, T, S)) < 0.7
    both = explicit & (IDS != 0)[:, :, None] & (SOURCE_IDS != 0)[:, None, :]
    output = layer(query, value, attention_mask=explicit)
    expected = layer(np.asarray(query), np.asarray(value), attention_mask=both)
    np.testing.assert_array_equal(np.asarray(output), np.asarray(expected))


@pytest.mark.parametrize("name", ["encoder", "encoder_pre", "decoder", "decoder_pre"])
def test_padding_mask_and_implicit_mask_are_joined_by_and(name):
    layer, x = make_layer(name), masked(0)
    argument = "padding_mask" if name.startswith("encoder") else "decoder_padding_mask"
    explicit = np.random.default_rng(3).random((B, T)) < 0.8
    explicit[:, 0] = True
    both = explicit & (IDS != 0)
    output, expected = layer(x, **{argument: explicit}), layer(np.asarray(x), **{argument: both})
    np.testing.assert_allclose(np.asarray(output)[both], np.asarray(expected)[both], atol=1e-6)
    square = np.random.default_rng(4).random((B, T, T)) < 0.8
    square[:, :, 0] = True
    other = argument.replace("padding", "attention")
    output = layer(x, **{other: square})
    expected = layer(np.asarray(x), **{other: square & (IDS != 0)[:, None, :]})
    np.testing.assert_allclose(np.asarray(output)[IDS != 0], np.asarray(expected)[IDS != 0], atol=1e-6)


@pytest.mark.parametrize("name", ["decoder", "decoder_pre"])
def test_implicit_mask_of_the_source_is_its_padding_mask(name):
    layer, x, source = make_layer(name), np.asarray(masked(0)), masked(1, SOURCE_IDS)
    output = layer(x, source)
    expected = layer(x, np.asarray(source), encoder_padding_mask=SOURCE_IDS != 0)
    np.testing.assert_allclose(np.asarray(output), np.asarray(expected), atol=1e-6)


@pytest.mark.parametrize("name", ["multi_head", "grouped"])
def test_causal_and_padding(name):
    layer, x = make_layer(name), masked(0)
    output = np.asarray(layer(x, x, use_causal_mask=True))
    for row, length in enumerate(LENGTHS):
        real = np.asarray(x)[row : row + 1, :length]
        alone = np.asarray(layer(real, real, use_causal_mask=True))
        np.testing.assert_allclose(output[row, :length], alone[0], atol=1e-5)


def test_the_mask_of_new_positions_in_a_cache():
    layer, x = make_layer("multi_head"), masked(0)
    plain = np.asarray(x)
    layer(plain, plain)
    _, cache = layer(plain[:, :2], plain[:, :2], cache=layer.empty_cache(B, T + 2), cache_index=0)
    output, _ = layer(x, x, cache=cache, cache_index=2)
    both = np.concatenate([plain[:, :2], plain], axis=1)
    keys = np.concatenate([np.ones((B, 2), bool), IDS != 0], axis=1)
    expected = layer(both, both, attention_mask=keys[:, None, :], use_causal_mask=True)[:, 2:]
    np.testing.assert_allclose(np.asarray(output)[IDS != 0], np.asarray(expected)[IDS != 0], atol=1e-5)


@pytest.mark.parametrize("scores", [False, True])
def test_the_mask_of_some_positions(scores):
    layer, x = make_layer("encoder"), masked(0)
    positions = np.array([[0, 12, 3], [8, 6, 1], [1, 2, 3]])
    wanted = np.take_along_axis(IDS != 0, positions, axis=1)
    output = layer(x, query_positions=positions, return_attention_scores=scores)
    output = output[0] if scores else output
    np.testing.assert_array_equal(mask_of(output), wanted)
    whole = np.take_along_axis(np.asarray(layer(x)), positions[:, :, None], axis=1)
    np.testing.assert_allclose(np.asarray(output)[wanted], whole[wanted], atol=1e-5)


def test_the_mask_of_some_positions_in_a_functional_model():
    ids, positions = keras.Input((None,)), keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, D, mask_zero=True)(ids)
    x = make_layer("encoder")(x, query_positions=positions)
    model = keras.Model([ids, positions], keras_attention("float32")(x, x))
    where = np.array([[0, 12, 3], [8, 6, 1], [1, 2, 3]])
    output = np.asarray(model([IDS, where]))
    alone = np.asarray(model([IDS[1:2], where[1:2, 1:]]))  # position 8 of the second sequence is padding
    np.testing.assert_allclose(output[1, 1:], alone[0], atol=1e-5)


@pytest.mark.parametrize("kind", [GRUCell, LSTMCell])
def test_a_cell_keeps_its_state_at_masked_steps(kind):
    cell = kind(5)
    cell.build((None, D))
    ids = np.array([1, 0, 3])
    projected = cell.project(masked(0, ids))
    states = tuple(np.full((B, 5), 0.5 + i, "float32") for i in range(cell.num_states))
    output, new = cell(projected, states)
    _, expected = cell(np.asarray(projected), states, step_mask=(ids != 0)[:, None])
    np.testing.assert_array_equal(mask_of(output), ids != 0)
    for state, other, old in zip(new, expected, states, strict=True):
        np.testing.assert_array_equal(np.asarray(state), np.asarray(other))
        np.testing.assert_array_equal(np.asarray(state)[1], old[1])


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_loss_of_fit_leaves_padding_out(name, dtype):
    targets = np.random.default_rng(5).normal(size=(B, T, 1)).astype("float32")
    other_targets = np.where((IDS != 0)[..., None], targets, 1e3)
    losses = []
    for y in (targets, other_targets):
        keras.utils.set_random_seed(1)
        symbol = keras.Input((None,))
        x = apply(name, make_layer(name, dtype), masking_layer("embedding", dtype)(symbol))
        model = keras.Model(symbol, keras.layers.Dense(1, dtype="float32")(x))
        model.compile("sgd", "mse")
        losses.append(model.fit(IDS, y, epochs=1, batch_size=B, shuffle=False, verbose=0).history["loss"][0])
    assert 0 < losses[0] < 100
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_saved_and_loaded_a_model_obeys_its_masks(name, tmp_path):
    model = stack(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    outputs = np.asarray(loaded(IDS))
    np.testing.assert_array_equal(outputs, np.asarray(model(IDS)))
    longer = np.concatenate([IDS, np.zeros((B, 5), int)], axis=1)
    np.testing.assert_allclose(np.asarray(loaded(longer))[:, :T][IDS != 0], outputs[IDS != 0], atol=1e-5)


def stacked_with(make, *inputs, depth=2, needs_value=False):
    """Outputs of a functional model of Embeddings and some layers, whose weights are always the same numbers."""
    symbols = [keras.Input((None,)) for _ in inputs]
    x, *rest = [masking_layer("embedding", "float32")(symbol) for symbol in symbols]
    for _ in range(depth):
        x = make()(x, *(rest or [x][:needs_value]))
    model = keras.Model(symbols, x)
    random = np.random.default_rng(6)
    model.set_weights([random.normal(size=w.shape) * 0.4 if w.dtype == "float32" else w for w in model.get_weights()])
    return np.asarray(model(list(inputs)))


@pytest.mark.slow
@pytest.mark.parametrize("normalize_first", [False, True])
def test_equals_the_stack_of_keras_hub(normalize_first):
    hub = pytest.importorskip("keras_hub")
    options = {"intermediate_dim": 19, "num_heads": H, "normalize_first": normalize_first}
    expected = stacked_with(lambda: hub.layers.TransformerEncoder(**options), IDS)
    outputs = stacked_with(lambda: TransformerEncoderLayer(**options), IDS)
    np.testing.assert_allclose(outputs[IDS != 0], expected[IDS != 0], atol=1e-4)
    expected = stacked_with(lambda: hub.layers.TransformerDecoder(**options), IDS, SOURCE_IDS)
    outputs = stacked_with(lambda: TransformerDecoderLayer(**options), IDS, SOURCE_IDS)
    np.testing.assert_allclose(outputs[IDS != 0], expected[IDS != 0], atol=1e-4)


# Keras's layer takes the mask off its value, so that a second one with the same value would not see it.
@pytest.mark.parametrize(("inputs", "depth"), [((IDS,), 2), ((IDS, SOURCE_IDS), 1)], ids=["self", "cross"])
def test_equals_the_stack_of_keras(inputs, depth):
    options = {"depth": depth, "needs_value": True}
    expected = stacked_with(lambda: keras.layers.MultiHeadAttention(H, 5), *inputs, **options)
    outputs = stacked_with(lambda: MultiHeadAttention(H, 5), *inputs, **options)
    np.testing.assert_allclose(outputs[IDS != 0], expected[IDS != 0], atol=1e-4)


def test_dot_attention_equals_keras_attention():
    query, value = masked(0), masked(1, SOURCE_IDS)
    expected = keras.layers.Attention()([query, value])
    np.testing.assert_allclose(
        np.asarray(LuongAttention("dot")(query, value)), np.asarray(expected) * (IDS != 0)[..., None], atol=1e-5
    )


def main(names):
    for name in names:
        for style in STYLES:
            for execution in ("eager", "predict"):
                check_stack(name, style, execution, "embedding", "float32")
        check_stack(name, "functional", "predict", "masking", "mixed_bfloat16")
        if name in CROSS:
            check_cross_stack(name, "functional", "predict", "float32")
        print(keras.backend.backend(), name)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends(backend):
    pytest.importorskip(backend)
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run([sys.executable, __file__, *LAYERS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{backend} {name}" for name in LAYERS]


if __name__ == "__main__":
    main(sys.argv[1:])
