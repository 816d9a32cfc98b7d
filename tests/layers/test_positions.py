import equations
import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import (
    assert_all_close,
    check_example,
    check_executions_agree,
    check_gradients,
    check_saving,
    random_array,
)

from keras_attention.layers import LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from keras_attention.layers.positions import rotary_angles, rotate

B, T, D, MAX_LENGTH, START = 2, 7, 10, 13, 5
LAYERS = {
    "learned": (LearnedPositionalEmbedding, {"max_length": MAX_LENGTH}),
    "sinusoidal": (SinusoidalPositionalEmbedding, {"max_wavelength": 100.0}),
}
every_layer = pytest.mark.parametrize(("layer_class", "settings"), LAYERS.values(), ids=LAYERS)


def test_sinusoids_equal_the_equation():
    inputs = random_array(B, T, D, seed=1)
    outputs = SinusoidalPositionalEmbedding()(inputs)
    assert_all_close([outputs], [inputs + equations.sinusoids(range(T), D)], 1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 5e-4), ("float16", 1e-3), ("bfloat16", 5e-3)])
@pytest.mark.parametrize("execution", [lambda f: f, tf.function(jit_compile=True)], ids=["eager", "xla"])
def test_sinusoids_far_out_are_exact_in_half_precision(dtype, tolerance, execution):
    """Half precision has no number 4999 (or 5003): computed in it, the error is up to 2."""
    layer = SinusoidalPositionalEmbedding(dtype=dtype)
    outputs = execution(lambda x: layer(x, start=4997))(np.zeros((1, T, D)))
    expected = equations.sinusoids(range(4997, 4997 + T), D)
    assert outputs.dtype == dtype
    assert_all_close([outputs[0]], [expected], tolerance)


def test_learned_vectors_are_added():
    inputs, layer = random_array(B, T, D, seed=1), LearnedPositionalEmbedding(MAX_LENGTH)
    outputs = layer(inputs)
    assert layer.embeddings.shape == (MAX_LENGTH, D)
    assert_all_close([outputs], [inputs + np.asarray(layer.embeddings)[:T]], 1e-6)


@every_layer
@pytest.mark.parametrize("kind", [int, np.int64, tf.constant])
def test_start_is_the_position_of_the_first_input(layer_class, settings, kind):
    inputs, layer = random_array(B, START + T, D, seed=1), layer_class(**settings)
    whole = layer(inputs)
    assert_all_close([layer(inputs[:, START:], start=kind(START))], [whole[:, START:]], 1e-6)


@every_layer
def test_positions_may_differ_from_row_to_row(layer_class, settings):
    inputs, layer = np.zeros((1, MAX_LENGTH, D), "float32"), layer_class(**settings)
    whole = np.asarray(layer(inputs))[0]
    positions = np.array([[3, 1, 4], [0, 12, 5]], "int32")
    assert_all_close([layer(np.zeros((2, 3, D), "float32"), positions=positions)], [whole[positions]], 1e-6)


@pytest.mark.parametrize("shift", [0, 5])
def test_rotated_scores_depend_on_the_distance_alone(shift):
    """They equal those of complex numbers, and do not change when query and key move together."""
    query, key = random_array(B, T, 3, D, seed=1), random_array(B, T, 3, D, seed=2)
    angles = rotary_angles(np.arange(shift, shift + T)[None], D)
    scores = np.einsum("bthk,bshk->bhts", *(np.asarray(rotate(x, angles)) for x in (query, key)))
    q, k = (x[..., : D // 2] + 1j * x[..., D // 2 :] for x in (query, key))
    distance = np.arange(T)[:, None] - np.arange(T)[None]  # (T, S)
    turns = np.exp(1j * distance[..., None] * 10000.0 ** (-2 * np.arange(D // 2) / D))  # (T, S, K/2)
    assert_all_close([scores], [np.real(np.einsum("bthk,bshk,tsk->bhts", q, k.conj(), turns))], 1e-5)


@every_layer
def test_executions_gradients_and_saving(layer_class, settings, tmp_path):
    inputs = {"inputs": random_array(B, T, D, seed=1)}
    check_executions_agree(layer_class(**settings), inputs)
    check_gradients(lambda: layer_class(**settings, dtype="float64"), inputs)
    check_saving(layer_class, settings, inputs, tmp_path)


@every_layer
def test_shapes_and_dtypes(layer_class, settings):
    layer = layer_class(**settings, dtype="mixed_bfloat16")
    outputs = layer(keras.Input((None, D)))
    assert (outputs.shape, outputs.dtype) == ((None, None, D), "bfloat16")
    assert layer.compute_output_shape((B, T, D)) == (B, T, D)
    assert layer(random_array(B, T, D, seed=1)).dtype == "bfloat16"


def test_the_initializer_is_kept():
    layer = LearnedPositionalEmbedding(MAX_LENGTH, embeddings_initializer=keras.initializers.Constant(3.0))
    copy = LearnedPositionalEmbedding.from_config(layer.get_config())
    np.testing.assert_array_equal(copy(np.zeros((B, T, D))), np.full((B, T, D), 3.0))


def test_a_sequence_that_is_too_long_is_named():
    layer = LearnedPositionalEmbedding(MAX_LENGTH)
    layer(np.zeros((B, MAX_LENGTH, D)))
    with pytest.raises(ValueError, match=r"`max_length`=13 .*Received: inputs.shape=\(2, 14, 10\), start=0"):
        layer(np.zeros((B, MAX_LENGTH + 1, D)))
    with pytest.raises(ValueError, match=r"Received: inputs.shape=\(2, 7, 10\), start=7"):
        layer(np.zeros((B, T, D)), start=7)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: LearnedPositionalEmbedding(0), "`max_length` must be a positive integer. Received: max_length=0"),
        (
            lambda: SinusoidalPositionalEmbedding(-1.0),
            "`max_wavelength` must be positive. Received: max_wavelength=-1.0",
        ),
        (
            lambda: SinusoidalPositionalEmbedding()(np.zeros((B, T, 11))),
            r"must be even. Received: inputs.shape=\(2, 7, 11\)",
        ),
    ],
)
def test_a_wrong_argument_is_named(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@every_layer
def test_the_example_runs(layer_class, settings):
    check_example(layer_class, token_embeddings=random_array(B, T, D, seed=1))
