"""LoRA on a projection: the equation, what is trained, and what is left when the matrices are merged."""

import keras
import numpy as np
import pytest

from keras_attention.layers import MultiHeadAttention
from keras_attention.layers.fast.heads_first import HeadProjection

pytestmark = pytest.mark.sampled(3)

B, T, D, H, K, RANK, ALPHA = 2, 7, 11, 3, 5, 2, 13
CASES = {"into heads": ("btd,dhk->bthk", (H, K), (B, T, D)), "out of heads": ("bthk,hkd->btd", (D,), (B, T, H, K))}


def adapted(case, **options):
    """A projection with random small matrices, an input, and what it gave before."""
    equation, outputs, shape = CASES[case]
    projection = HeadProjection(equation, output_shape=(None, *outputs), bias_axes=equation[-1])
    inputs = np.random.default_rng(3).normal(size=shape).astype("float32")
    before = np.asarray(projection(inputs))
    projection.enable_lora(RANK, **options)
    return projection, inputs, before


def matrices(projection):
    return {weight.name: weight for weight in projection.weights if weight.name.startswith("lora")}


@pytest.mark.parametrize("case", CASES)
def test_the_equation(case):
    projection, inputs, before = adapted(case, lora_alpha=ALPHA)
    np.testing.assert_array_equal(projection(inputs), before)  # B starts as 0
    small = matrices(projection)
    small["lora_b"].assign(np.random.default_rng(5).normal(size=small["lora_b"].shape))
    a, b = small["lora_a"].numpy(), small["lora_b"].numpy()
    flat = inputs.reshape(B, T, -1)
    change = np.zeros((B, T, b.shape[1]))
    for i in range(B):
        for t in range(T):
            change[i, t] = ALPHA / RANK * ((flat[i, t] @ a) @ b)
    np.testing.assert_allclose(projection(inputs), before + change.reshape(before.shape), atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_merging_changes_no_output(case):
    projection, inputs, before = adapted(case)
    shapes = {name: tuple(weight.shape) for name, weight in matrices(projection).items()}
    width, outputs = np.prod(inputs.shape[2:]), np.prod(before.shape[2:])
    assert shapes == {"lora_a": (width, RANK), "lora_b": (RANK, outputs)}
    assert [weight.name for weight in projection.trainable_weights] == ["lora_a", "lora_b"]
    matrices(projection)["lora_b"].assign(keras.random.normal((RANK, outputs), seed=3))
    adapted_output = np.asarray(projection(inputs))
    assert np.abs(adapted_output - before).max() > 0.1
    projection.merge_lora()
    np.testing.assert_allclose(projection(inputs), adapted_output, atol=1e-5)
    assert [weight.name for weight in projection.weights] == ["kernel", "bias"]
    assert [weight.name for weight in projection.trainable_weights] == ["kernel", "bias"]
    projection.merge_lora()  # nothing is left to merge
    np.testing.assert_allclose(projection(inputs), adapted_output, atol=1e-5)
    projection.enable_lora(RANK)
    np.testing.assert_allclose(projection(inputs), adapted_output, atol=1e-5)


def test_a_program_traced_before_gives_the_merged_output():
    projection, inputs, before = adapted("into heads")
    matrices(projection)["lora_b"].assign(keras.random.normal((RANK, H * K), seed=3))
    model = keras.Sequential([keras.Input(inputs.shape[1:]), projection])
    expected = model.predict(inputs, verbose=0)
    projection.merge_lora()
    np.testing.assert_allclose(model.predict(inputs, verbose=0), expected, atol=1e-5)
    assert np.abs(expected - before).max() > 0.1


def test_a_file_has_the_sum(tmp_path):
    """Saved with its matrices, a layer is loaded without them."""
    inputs = np.random.default_rng(3).normal(size=(B, T, D)).astype("float32")
    layers = [MultiHeadAttention(H, K) for _ in range(2)]
    models = [keras.Sequential([keras.Input((T, D)), SelfAttention(layer)]) for layer in layers]
    layers[0].query_projection.enable_lora(RANK)
    matrices(layers[0].query_projection)["lora_b"].assign(keras.random.normal((RANK, H * K), seed=3))
    models[0].save_weights(tmp_path / "model.weights.h5")
    models[1].load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(models[1](inputs), models[0](inputs), atol=1e-5)


class SelfAttention(keras.layers.Layer):
    """Attention of a sequence to itself, for a `Sequential`."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def build(self, input_shape):
        self.attention.build(input_shape, input_shape)

    def call(self, inputs):
        return self.attention(inputs, inputs)


def test_errors():
    projection, _, _ = adapted("into heads")
    with pytest.raises(ValueError, match="enabled already"):
        projection.enable_lora(RANK)
    projection.merge_lora()
    with pytest.raises(ValueError, match="Received: rank=0"):
        projection.enable_lora(0)
