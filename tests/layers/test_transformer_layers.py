"""The two layers of the Transformer against those of keras-hub that hold the same weights, and what else must hold."""

import keras
import keras_hub
import numpy as np
import pytest
from layer_checks import (
    assert_all_close,
    check_executions_agree,
    check_gradients,
    check_saving,
    random_array,
)

from keras_attention.layers import (
    FeedForward,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    causal_mask,
)

pytestmark = pytest.mark.sampled(2)

B, T, S, D, H, INNER = 2, 5, 7, 12, 3, 11
SETTINGS = {"intermediate_dim": INNER, "num_heads": H}
ORDERS = pytest.mark.parametrize("normalize_first", [False, True], ids=["post-norm", "pre-norm"])
PADDING = np.arange(S) < np.array([[S], [4]])  # (B, S)
TARGET_PADDING = np.arange(T) < np.array([[3], [T]])  # (B, T)


def random_weights(layer):
    for i, weight in enumerate(layer.trainable_weights):
        weight.assign(random_array(*weight.shape, seed=i, low=-0.7, high=0.7))
    return layer


def built_encoder(**settings):
    layer = TransformerEncoderLayer(**{**SETTINGS, **settings})
    layer.build((None, None, D))
    return random_weights(layer)


def built_decoder(cross=True, **settings):
    layer = TransformerDecoderLayer(**{**SETTINGS, **settings})
    layer.build((None, None, D), (None, None, D) if cross else None)
    return random_weights(layer)


SOURCE, TARGET = random_array(B, S, D, seed=1), random_array(B, T, D, seed=2)


@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_equals_keras_hub(normalize_first, activation):
    layer = built_encoder(normalize_first=normalize_first, activation=activation)
    other = keras_hub.layers.TransformerEncoder(**SETTINGS, normalize_first=normalize_first, activation=activation)
    other.build((None, None, D))
    other.set_weights([weight.numpy() for weight in layer.trainable_weights])
    options = {"padding_mask": PADDING, "return_attention_scores": True}
    outputs, weights = layer(SOURCE, **options)
    expected, expected_weights = other(SOURCE, **options)
    assert_all_close([outputs, weights], [expected, expected_weights], 1e-5)
    assert_all_close([layer(SOURCE, padding_mask=PADDING)], [outputs], 0)
    mask = np.tril(np.ones((B, S, S), bool))
    expected = other(SOURCE, padding_mask=PADDING, attention_mask=mask)
    assert_all_close([layer(SOURCE, padding_mask=PADDING, attention_mask=mask)], [expected], 1e-5)


def test_kernels_use_the_given_initializer():
    layer = TransformerEncoderLayer(**SETTINGS, kernel_initializer=keras.initializers.RandomNormal(stddev=0.03))
    layer = TransformerEncoderLayer.from_config(layer.get_config())
    layer.build((None, None, 96))
    kernels = [np.ravel(weight) for weight in layer.weights if weight.name == "kernel"]
    assert len(kernels) == 6
    assert len({kernel[0] for kernel in kernels}) == 6  # no two alike
    assert np.std(np.concatenate(kernels)) == pytest.approx(0.03, rel=0.02)


@ORDERS
@pytest.mark.parametrize("cross", [True, False], ids=["cross", "alone"])
def test_decoder_equals_keras_hub(normalize_first, cross):
    layer = built_decoder(cross, normalize_first=normalize_first)
    other = keras_hub.layers.TransformerDecoder(**SETTINGS, normalize_first=normalize_first)
    sequences, masks = [TARGET], {"decoder_padding_mask": TARGET_PADDING}
    if cross:
        sequences.append(SOURCE)
        masks["encoder_padding_mask"] = PADDING
    other(*sequences)
    other.set_weights([weight.numpy() for weight in layer.trainable_weights])
    assert_all_close([layer(*sequences, **masks)], [other(*sequences, **masks)], 1e-5)
    masks["decoder_attention_mask"] = np.broadcast_to(np.arange(T) % 3 != 1, (B, T, T))
    for causal in (True, False):
        options = {**masks, "use_causal_mask": causal}
        assert_all_close([layer(*sequences, **options)], [other(*sequences, **options)], 1e-5)


@ORDERS
def test_decoder_with_a_cache_equals_one_without(normalize_first):
    layer = built_decoder(normalize_first=normalize_first)
    expected = layer(TARGET, SOURCE, encoder_padding_mask=PADDING, return_attention_scores=True)
    cache, cross = layer.self_attention.empty_cache(B, T + 2), layer.project_source(SOURCE)
    start = 0
    for length in (1, 3, 1):  # a step may have more than one position
        actual = layer(
            TARGET[:, start : start + length],
            encoder_padding_mask=PADDING,
            self_attention_cache=cache,
            self_attention_cache_update_index=start,
            cross_attention_cache=cross,
            return_attention_scores=True,
        )
        outputs, own, of_source, cache = actual
        end = start + length
        assert_all_close([outputs, of_source], [expected[0][:, start:end], expected[2][:, :, start:end]], 1e-5)
        assert_all_close([own[..., :T]], [expected[1][:, :, start:end]], 1e-5)
        assert not np.asarray(own[..., end:]).any()
        start = end


def test_hypotheses_of_a_sentence_share_its_source():
    layer, k = built_decoder(), 3
    hypotheses = random_array(B * k, 1, D, seed=3)
    cache = layer.self_attention.empty_cache(B * k, T)
    options = {"self_attention_cache": cache, "self_attention_cache_update_index": 0, "return_attention_scores": True}
    shared = layer(
        hypotheses, encoder_padding_mask=PADDING, cross_attention_cache=layer.project_source(SOURCE), **options
    )
    repeated = layer(
        hypotheses,
        encoder_padding_mask=np.repeat(PADDING, k, axis=0),
        cross_attention_cache=layer.project_source(np.repeat(SOURCE, k, axis=0)),
        **options,
    )
    assert_all_close(keras.tree.flatten(shared), keras.tree.flatten(repeated), 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("scores", [False, True])
def test_nothing_leaks_from_the_future(dtype, scores):
    layer = built_decoder(dropout=0.3, dtype=dtype)
    state = [generator.state for generator in seed_generators(layer)]
    start = [np.asarray(s) for s in state]

    def run(target):
        for variable, value in zip(state, start, strict=True):
            variable.assign(value)
        outputs = layer(target, SOURCE, return_attention_scores=scores, training=True)
        return np.asarray(outputs[0] if scores else outputs, "float32")

    before = run(TARGET)
    for t in range(T):
        changed = TARGET.copy()
        changed[:, t:] += 1
        after = run(changed)
        np.testing.assert_array_equal(after[:, :t], before[:, :t])
        assert (after[:, t] != before[:, t]).any()


def seed_generators(layer):
    generators = [part.seed_generator for part in layer._flatten_layers() if hasattr(part, "seed_generator")]
    assert generators
    return generators


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(side):
    encoder, decoder = built_encoder(), built_decoder()
    mask = np.ones((B, S), bool)
    source = encoder(SOURCE, padding_mask=mask)
    expected = decoder(TARGET, source, encoder_padding_mask=mask)
    where = ((0, 0), (3, 0) if side == "left" else (0, 3))
    longer, mask = np.pad(SOURCE, (*where, (0, 0)), constant_values=1e30), np.pad(mask, where)
    padded = encoder(np.where(mask[..., None], longer, 7), padding_mask=mask)
    real = np.s_[:, 3:] if side == "left" else np.s_[:, :S]
    assert_all_close([padded[real]], [source], 1e-5)
    assert_all_close([decoder(TARGET, padded, encoder_padding_mask=mask)], [expected], 1e-5)


def test_dropout_acts_only_while_training():
    for layer, inputs in ((built_encoder(dropout=0.4), (SOURCE,)), (built_decoder(dropout=0.4), (TARGET, SOURCE))):
        first, second = (np.asarray(layer(*inputs, training=True)) for _ in range(2))
        assert np.abs(first - second).max() > 1e-3
        assert_all_close([layer(*inputs)], [layer(*inputs, training=False)], 0)


LAYERS = {
    "encoder": (TransformerEncoderLayer, {"inputs": SOURCE, "padding_mask": PADDING}),
    "decoder": (
        TransformerDecoderLayer,
        {"decoder_sequence": TARGET, "encoder_sequence": SOURCE, "encoder_padding_mask": PADDING},
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@ORDERS
def test_gradients_agree_with_finite_differences(name, normalize_first):
    layer_class, inputs = LAYERS[name]
    settings = {**SETTINGS, "activation": "gelu", "normalize_first": normalize_first, "dtype": "float64"}
    check_gradients(lambda: layer_class(**settings), inputs)


@pytest.mark.parametrize("name", LAYERS)
def test_eager_graph_and_xla_agree(name):
    layer_class, inputs = LAYERS[name]
    check_executions_agree(layer_class(**SETTINGS), {**inputs, "return_attention_scores": True})


@pytest.mark.parametrize("name", LAYERS)
def test_saving(name, tmp_path):
    layer_class, inputs = LAYERS[name]
    settings = {**SETTINGS, "dropout": 0.2, "layer_norm_epsilon": 1e-4, "normalize_first": True}
    check_saving(layer_class, settings, inputs, tmp_path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 0}, "`num_heads` must be a positive integer. Received: num_heads=0"),
        ({"intermediate_dim": 1.5}, "`intermediate_dim` must be a positive integer. Received: intermediate_dim=1.5"),
        ({"num_heads": 5}, "`num_heads` must divide the width 12 of the inputs. Received: num_heads=5"),
        ({"dropout": 1.0}, r"`rate` must be in \[0, 1\). Received: rate=1.0"),
    ],
)
@pytest.mark.parametrize("build", [built_encoder, built_decoder])
def test_errors_name_what_was_received(build, settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


def test_a_layer_without_cross_attention_is_an_error():
    with pytest.raises(ValueError, match="The first call had no `encoder_sequence`"):
        built_decoder(cross=False)(TARGET, SOURCE)


def test_feed_forward_equals_its_equation():
    layer = FeedForward(INNER)
    layer.build((None, None, D))
    inner, inner_bias, outer, outer_bias = (w.numpy() for w in random_weights(layer).weights)
    expected = np.zeros((B, T, D))
    for b in range(B):
        for t in range(T):
            hidden = [max(0, TARGET[b, t] @ inner[:, i] + inner_bias[i]) for i in range(INNER)]
            expected[b, t] = hidden @ outer + outer_bias
    assert_all_close([layer(TARGET)], [expected], 1e-5)
    with pytest.raises(ValueError, match="Received: intermediate_dim=0"):
        FeedForward(0)


def test_the_causal_mask_is_the_one_of_masks():
    layer = built_decoder()
    options = {"use_causal_mask": False, "decoder_attention_mask": causal_mask(T)}
    assert_all_close([layer(TARGET, SOURCE, **options)], [layer(TARGET, SOURCE)], 0)
