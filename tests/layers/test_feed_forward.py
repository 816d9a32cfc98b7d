import numpy as np
import pytest
from layer_checks import TOLERANCES, assert_all_close, check_example, check_executions_agree, check_saving, random_array

from keras_attention.layers import FeedForward

B, T, D, WIDTH = 2, 3, 5, 7
INPUTS = random_array(B, T, D, seed=1)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_it_equals_the_equation(dtype):
    layer = FeedForward(WIDTH, dtype=dtype)
    outputs = layer(INPUTS)
    assert outputs.dtype == layer.compute_dtype
    layer.set_weights([random_array(*weight.shape, seed=i) for i, weight in enumerate(layer.get_weights())])
    kernel, bias, other_kernel, other_bias = layer.get_weights()
    expected = np.zeros((B, T, D))
    for b in range(B):
        for t in range(T):
            inner = [max(0.0, float(INPUTS[b, t] @ kernel[:, n]) + bias[n]) for n in range(WIDTH)]
            expected[b, t] = np.asarray(inner) @ other_kernel + other_bias
    assert_all_close([layer(INPUTS)], [expected], 2 * TOLERANCES[dtype])


def test_dropout_is_on_the_inner_layer():
    layer = FeedForward(WIDTH, activation="linear", dropout=0.25)
    many = np.ones((1000, 1, D), "float32")
    layer(many)
    random = random_array(D, WIDTH, seed=2) + 2
    layer.set_weights([random, np.zeros(WIDTH), np.eye(WIDTH, D), np.zeros(D), *layer.get_weights()[4:]])
    whole, dropped = np.asarray(layer(many))[:, 0], np.asarray(layer(many, training=True))[:, 0]
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], whole[kept] / 0.75, rtol=1e-5)
    assert 0.72 < kept.mean() < 0.78


def test_without_dropout_there_is_no_generator_to_save():
    layer = FeedForward(WIDTH)
    layer(INPUTS)
    assert len(layer.weights) == 4
    np.testing.assert_array_equal(layer(INPUTS, training=True), layer(INPUTS))


def test_executions_agree():
    check_executions_agree(FeedForward(WIDTH, activation="gelu"), {"inputs": INPUTS})


def test_saving_keeps_settings_and_outputs(tmp_path):
    check_saving(FeedForward, {"intermediate_dim": WIDTH, "dropout": 0.2}, {"inputs": INPUTS}, tmp_path)


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"intermediate_dim": 0}, "intermediate_dim=0"), ({"intermediate_dim": 3, "dropout": 1}, "dropout=1")],
)
def test_a_wrong_setting_is_named(settings, text):
    with pytest.raises(ValueError, match=f"Received: ({text})"):
        FeedForward(**settings)


def test_the_example_runs():
    check_example(FeedForward, inputs=INPUTS)
