"""Pre-training with masked patches equals its equation, and no masked patch is seen."""

import keras
import numpy as np
import pytest

from keras_attention.models import PatchClassifier, PatchPretrainer

SIZES = {"hidden_dim": 6, "intermediate_dim": 7, "num_heads": 2, "num_layers": 1}
MASKED, VISIBLE = np.array([[4, 0, 5], [1, 2, 0]]), np.array([[1, 2, 3], [5, 4, 3]])


def pretrainer(stem="linear", pooling="mean", input_size=(4, 6, 2), patch_size=(2, 2)):
    keras.utils.set_random_seed(3)
    model = PatchPretrainer(PatchClassifier(3, input_size, patch_size, **SIZES, stem=stem, pooling=pooling))
    model.build()
    return model


def inputs(shape=(4, 6, 2)):
    values = np.random.default_rng(5).normal(size=(2, *shape)).astype("float32")
    return {"values": values, "masked": MASKED.astype("int32"), "visible": VISIBLE.astype("int32")}


def patch_of(image, number):
    """Patch `number` of an image of 4 x 6 pixels, three patches in a row."""
    row, column = divmod(number, 3)
    return image[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_scores_equal_the_equation(pooling):
    model, batch = pretrainer(pooling=pooling), inputs()
    network = model.classifier
    kernel, bias = (np.asarray(weight) for weight in network.patches.projection.get_weights())
    positions = np.asarray(network.positions.embeddings)
    actual = np.asarray(model(batch))
    for b in range(2):
        h = [patch_of(batch["values"][b], i).ravel() @ kernel + bias for i in range(6)]
        seen = np.array([h[i] + positions[i] for i in VISIBLE[b]], "float32")
        x = np.asarray(network.encoded_tokens(seen[None])[0])[0]
        u = x[0] if pooling == "cls" else sum(x) / 3
        for k in range(3):
            for i in range(3):
                expected = sum((u + positions[MASKED[b, k]]) * h[MASKED[b, i]])
                assert actual[b, k, i] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("stem", ["linear", "convolutional"])
def test_no_patch_holds_a_part_of_another(stem):
    model, batch = pretrainer(stem), inputs()
    before = np.asarray(model.patch_vectors(batch["values"]))
    patch_of(batch["values"][0], 4)[:] = 7.0
    after = np.asarray(model.patch_vectors(batch["values"]))
    changed = np.abs(after - before).max(axis=-1) > 1e-6
    assert changed.tolist() == [[False] * 4 + [True, False], [False] * 6]


def test_series_have_patches_along_one_axis():
    model, batch = pretrainer(input_size=(12, 2), patch_size=(2,)), inputs((12, 2))
    kernel, bias = (np.asarray(weight) for weight in model.classifier.patches.projection.get_weights())
    expected = batch["values"][1, 6:8].ravel() @ kernel + bias
    np.testing.assert_allclose(np.asarray(model.patch_vectors(batch["values"]))[1, 3], expected, atol=1e-5)
    assert model(batch).shape == (2, 3, 3)


def test_made_again_from_its_settings():
    again = PatchPretrainer.from_config(pretrainer("convolutional", "cls").get_config())
    assert again.classifier.settings == pretrainer("convolutional", "cls").classifier.settings
