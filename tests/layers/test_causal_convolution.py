import keras
import numpy as np
import pytest
from layer_checks import assert_all_close, check_gradients, random_array

from keras_attention.layers import GatedCausalConvolution

B, T, D, UNITS = 2, 13, 3, 5
SHAPES = pytest.mark.parametrize(("kernel_size", "dilation"), [(2, 1), (3, 1), (2, 5), (3, 4), (5, 7)])


def make_layer(kernel_size, dilation):
    layer = GatedCausalConvolution(UNITS, kernel_size, dilation)
    layer.build((None, None, D))
    for i, weight in enumerate(layer.weights):
        weight.assign(random_array(*weight.shape, seed=i))
    return layer


@SHAPES
def test_equals_its_equation(kernel_size, dilation):
    layer, inputs = make_layer(kernel_size, dilation), random_array(B, T, D, seed=7)
    kernel, bias = (np.asarray(weight, "float64") for weight in layer.weights)
    taps = kernel.reshape(kernel_size, D, 2 * UNITS)  # that of the oldest input first
    expected = np.zeros((B, T, UNITS))
    for b in range(B):
        for t in range(T):
            both = bias.copy()
            for j in range(kernel_size):
                if t - j * dilation >= 0:
                    both += inputs[b, t - j * dilation] @ taps[kernel_size - 1 - j]
            expected[b, t] = np.tanh(both[:UNITS]) / (1 + np.exp(-both[UNITS:]))
    assert_all_close([layer(inputs)], [expected], 1e-5)


@SHAPES
def test_equals_the_convolution_of_keras(kernel_size, dilation):
    layer, inputs = make_layer(kernel_size, dilation), random_array(B, T, D, seed=7)
    other = keras.layers.Conv1D(2 * UNITS, kernel_size, padding="causal", dilation_rate=dilation)
    other.build((B, T, D))
    kernel, bias = layer.get_weights()
    other.set_weights([kernel.reshape(kernel_size, D, 2 * UNITS), bias])
    signal, gate = np.split(np.asarray(other(inputs)), 2, axis=-1)
    assert_all_close([layer(inputs)], [np.tanh(signal) / (1 + np.exp(-gate))], 1e-5)


@SHAPES
@pytest.mark.parametrize("start", [1, 2, 11])
def test_steps_with_the_ring_equal_the_whole(kernel_size, dilation, start):
    layer, inputs = make_layer(kernel_size, dilation), random_array(B, T, D, seed=7)
    expected, ring = np.asarray(layer(inputs)), layer.ring(inputs[:, :start])
    assert ring.shape == (B, layer.reach, D)
    for step, t in enumerate(range(start - 1, T)):
        output, ring = layer.step(inputs[:, t], ring, np.int32(step))
        assert_all_close([output], [expected[:, t]], 1e-5)


def test_masked_inputs_count_as_nothing():
    layer, inputs = make_layer(3, 2), random_array(B, T, D, seed=7)
    mask = np.arange(T) >= np.array([[4], [0]])
    poisoned = np.where(mask[..., None], inputs, np.nan).astype("float32")
    outputs = np.asarray(layer(poisoned, mask=mask))
    assert_all_close([outputs[:1, 4:]], [layer(inputs[:1, 4:])], 1e-6)
    assert_all_close([outputs[1]], [layer(inputs)[1]], 1e-6)
    assert np.isfinite(layer.ring(poisoned, mask)).all()


def test_gradients():
    check_gradients(
        lambda: GatedCausalConvolution(UNITS, 3, 2, dtype="float64"), {"inputs": random_array(B, T, D, seed=7)}
    )


def test_saving_keeps_settings_and_outputs(tmp_path):
    inputs = random_array(B, T, D, seed=7)
    model = keras.Sequential([keras.Input((None, D)), GatedCausalConvolution(UNITS, 3, 2)])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_all_close([loaded(inputs)], [model(inputs)], 0)
    assert loaded.layers[0].get_config() == model.layers[0].get_config()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 3, 1), "`units` must be an integer, 1 or more. Received: units=0"),
        ((5, 1, 1), "`kernel_size` must be an integer, 2 or more. Received: kernel_size=1"),
        ((5, 3, 2.5), "`dilation` must be an integer, 1 or more. Received: dilation=2.5"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        GatedCausalConvolution(*settings)
