"""The Vision Transformer: equal to its equation, to masks, other sizes, and on disk."""

import math

import keras
import numpy as np
import pytest
from equations import multi_head_attention
from layer_checks import random_array as array

from keras_attention.models import PatchClassifier
from keras_attention.models.patch_classifier import ConvolutionalStem, usual_patch_size

B, K = 3, 7
SIZES = {"hidden_dim": 10, "intermediate_dim": 13, "num_heads": 2, "num_layers": 2}
IMAGES = {"input_size": (8, 12, 3), "patch_size": (4, 4)}  # a grid of 2 x 3
SERIES = {"input_size": (22, 5), "patch_size": (2,)}


def make(seed=0, **settings):
    model = PatchClassifier(K, **{**SIZES, **settings})
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(array(*weight.shape, seed=(seed, i), low=-0.6, high=0.6))
    return model


def norm(x, layer):
    gamma, beta = (np.asarray(weight, "float64") for weight in layer.weights)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def by_the_equation(model, patches, mask=None):
    """Equations 1 to 4 of the paper in NumPy, from the projected patches on."""
    x = patches + np.asarray(model.positions.embeddings, "float64")
    mask = np.ones(x.shape[:2], bool) if mask is None else mask
    if model.pooling == "cls":
        cls = np.broadcast_to(np.asarray(model.cls, "float64"), (len(x), 1, x.shape[-1]))
        x, mask = np.concatenate([cls, x], axis=1), np.concatenate([np.ones((len(x), 1), bool), mask], axis=1)
    for layer in model.encoder_layers:
        h = norm(x, layer.self_attention_norm)
        pairs = np.broadcast_to(mask[:, None, None, :], (len(x), layer.num_heads, x.shape[1], x.shape[1]))
        x = x + multi_head_attention(h, h, h, pairs, layer.self_attention.weights)[0]
        h = norm(x, layer.feed_forward_norm)
        kernel, bias, out_kernel, out_bias = (np.asarray(weight, "float64") for weight in layer.feed_forward.weights)
        x = x + gelu(h @ kernel + bias) @ out_kernel + out_bias
    x = norm(x, model.final_norm)
    means = np.stack([x[b][mask[b]].mean(axis=0) for b in range(len(x))])
    pooled = x[:, 0] if model.pooling == "cls" else means
    kernel, bias = (np.asarray(weight, "float64") for weight in model.output_dense.weights)
    return pooled @ kernel + bias


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("stem", ["linear", "convolutional", "pooled"])
@pytest.mark.parametrize("sizes", [IMAGES, SERIES], ids=["images", "series"])
def test_equals_its_equation(pooling, stem, sizes):
    model = make(pooling=pooling, stem=stem, **sizes)
    values = array(B, *sizes["input_size"], seed=5)
    expected = by_the_equation(model, np.asarray(model.patches(values), "float64"))
    np.testing.assert_allclose(model(values), expected, atol=1e-4)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_padding_changes_nothing(pooling):
    model = make(pooling=pooling, **SERIES)
    mask = np.arange(11) < np.array([[11], [3], [7]])
    values = array(B, 22, 5, seed=5)
    hostile = np.where(np.repeat(mask, 2, axis=1)[..., None], values, np.nan).astype("float32")
    actual = model({"values": hostile, "patch_mask": mask})
    expected = by_the_equation(model, np.asarray(model.patches(values), "float64"), mask)
    np.testing.assert_allclose(actual, expected, atol=1e-4)


def test_the_convolutional_stem_equals_its_equation():
    stem, images = ConvolutionalStem(13, 1), array(B, 6, 10, 3, seed=5)
    stem.build(images.shape)
    kernel, offset, weights, bias = (
        np.asarray(weight, "float64") for weight in (*stem.convolutions[0].weights, *stem.projection.weights)
    )
    offset = array(13, seed=7)
    stem.convolutions[0].bias.assign(offset)
    padded = np.pad(images, ((0, 0), (0, 1), (0, 1), (0, 0)))  # "same", with stride 2 and an even size
    for b in range(B):
        for row in range(3):
            for column in range(5):
                window = padded[b, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
                x = np.maximum(np.einsum("yxc,yxcd->d", window, kernel) + offset, 0) @ weights + bias
                np.testing.assert_allclose(stem(images)[b, 5 * row + column], x, atol=1e-5)


def test_the_pooled_stem_equals_its_equation():
    stem, images = ConvolutionalStem(13, 1, pooled=True), array(B, 6, 10, 3, seed=5)
    stem.build(images.shape)
    kernel, _, weights, bias = (
        np.asarray(weight, "float64") for weight in (*stem.convolutions[0].weights, *stem.projection.weights)
    )
    offset = array(13, seed=7)
    stem.convolutions[0].bias.assign(offset)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))  # "same", with stride 1
    for b in range(B):
        convolved = np.array(
            [
                [np.einsum("yxc,yxcd->d", padded[b, y : y + 3, x : x + 3], kernel) + offset for x in range(10)]
                for y in range(6)
            ]
        )
        for row in range(3):
            for column in range(5):  # "same", with windows of 3 and stride 2: nothing precedes the first place
                window = convolved[2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
                x = np.maximum(window.max(axis=(0, 1)), 0) @ weights + bias
                np.testing.assert_allclose(stem(images)[b, 5 * row + column], x, atol=1e-5)


def test_the_convolutional_stem_sees_how_bright_an_image_of_one_channel_is():
    stem = ConvolutionalStem(13, 2)
    dark, bright = np.full((1, 8, 8, 1), 0.1, "float32"), np.full((1, 8, 8, 1), 0.9, "float32")
    assert np.abs(np.asarray(stem(bright)) - np.asarray(stem(dark))).max() > 0.1


def test_weights_are_those_of_the_tokens_and_other_sizes_are_read():
    model = make(**IMAGES)
    logits, weights = model(array(B, 8, 12, 3, seed=5), return_attention_scores=True)
    assert weights.shape == (B, 2, 2, 7, 7)
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(logits, model(array(B, 8, 12, 3, seed=5)), atol=1e-6)
    assert model(array(B, 16, 20, 3, seed=5)).shape == (B, K)
    assert model.pooled(array(B, 8, 12, 3, seed=5)).shape == (B, 10)


@pytest.mark.parametrize(
    "settings",
    [
        IMAGES,
        {**SERIES, "stem": "convolutional", "pooling": "mean"},
        {**IMAGES, "stem": "pooled", "pooling": "mean"},
    ],
)
def test_fits_saves_and_loads_as_any_keras_model(settings, tmp_path):
    keras.utils.set_random_seed(7)
    model = PatchClassifier(2, **SIZES, **settings)
    values = array(23, *settings["input_size"], seed=5)
    labels = (values.reshape(23, -1)[:, :11].mean(axis=1) > 0).astype("int32")
    model.compile(keras.optimizers.Adam(3e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(values, labels, epochs=19, batch_size=23, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(values, verbose=0), model.predict(values, verbose=0))
    assert again.get_config() == model.get_config()


@pytest.mark.parametrize("stem", ["linear", "convolutional", "pooled"])
def test_trained_weights_suit_larger_images_and_other_channels(stem):
    gray, rgb = ({"input_size": (8, 12, channels), "patch_size": (4, 4), "stem": stem} for channels in (1, 3))
    trained = make(**gray)
    images = array(B, 20, 8, 1, seed=5)
    repeated = PatchClassifier.from_trained(trained, K, head="kept", input_size=(20, 8, 3))
    assert repeated.positions.grid == (5, 2)
    expected = trained(images)  # resizes its position embeddings itself
    np.testing.assert_allclose(repeated(np.repeat(images, 3, axis=-1)), expected, atol=1e-5)
    trained = make(**rgb)
    summed = PatchClassifier.from_trained(trained, K, head="kept", input_size=(20, 8, 1))
    np.testing.assert_allclose(summed(images), trained(np.repeat(images, 3, axis=-1)), atol=1e-5)


@pytest.mark.parametrize(
    ("trained", "ours"),
    [(IMAGES, SERIES), (SERIES, IMAGES), (SERIES, SERIES | {"input_size": (22, 3)}),
     (SERIES | {"input_size": (22, 1)}, SERIES | {"input_size": (22, 3)})],
)  # fmt: skip
def test_trained_weights_for_other_kinds_of_inputs_are_refused(trained, ours):
    with pytest.raises(ValueError, match="Only height, width, gray or RGB, and the length may differ"):
        make(**ours).resized_weights(make(**trained))


def test_no_label_is_preferred_before_training():
    model = PatchClassifier(K, **SIZES, **IMAGES)
    np.testing.assert_array_equal(model(array(B, 8, 12, 3, seed=5)), np.zeros((B, K)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, "num_heads=3, hidden_dim=10"),
        ({"patch_size": (4, 5)}, r"sizes=\(8, 12\), patch_size=\(4, 5\)"),
        ({"patch_size": (2, 4), "stem": "convolutional"}, r"patch_size=\[2, 4\]. Others need stem=linear"),
        ({"stem": "none"}, "stem=none"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"input_size": (8, 0, 3)}, r"input_size\[1\]=0"),
    ],
)
def test_errors_name_what_was_received(settings, message):
    with pytest.raises(ValueError, match=message):
        PatchClassifier(K, **{**SIZES, **IMAGES, **settings})


def test_unknown_inputs_are_refused():
    with pytest.raises(ValueError, match="Received: pixels"):
        make(**IMAGES)({"pixels": array(B, 8, 12, 3, seed=5)})


def test_patches_fit_the_size_of_an_input():
    assert [usual_patch_size((size, 7, 3)) for size in (16, 17, 33)] == [(2, 2), (4, 4), (8, 8)]
    assert [usual_patch_size((size, 5)) for size in (64, 65, 129)] == [(2,), (4,), (8,)]
    assert (usual_patch_size((8, 12, 3), [7]), usual_patch_size((22, 5), [3])) == ((7, 7), (3,))
    assert usual_patch_size((56, 64, 1), (1, 64)) == (1, 64)
    model = PatchClassifier(K, **{**SIZES, "input_size": (12, 20, 3), "patch_size": ()})
    assert (model.patch_size, model.num_patches) == ([4, 4], 15)
