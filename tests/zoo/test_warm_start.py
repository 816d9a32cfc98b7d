"""What a training takes over from a trained model."""

import keras
import numpy as np
import pytest

from keras_attention.models import Transformer
from keras_attention.support.errors import UserError
from keras_attention.zoo.warm_start import take_weights

SETTINGS = {
    "hidden_dim": 8,
    "intermediate_dim": 6,
    "num_heads": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "activation": "gelu",
}


def transformer(seed, **changes):
    keras.utils.set_random_seed(seed)
    model = Transformer(20, 20, **SETTINGS | changes)
    model.build()
    for weight in model.weights:  # no biases of zero, which would look the same wherever they came from
        weight.assign(weight + 0.1 * np.random.default_rng(seed).standard_normal(weight.shape))
    return model


@pytest.mark.sampled(3)
@pytest.mark.parametrize("width", [6, 7, 20])
def test_a_wider_model_begins_with_the_same_function_and_learns_in_all_units(width):
    import tensorflow as tf

    trained, model = transformer(0), transformer(1, intermediate_dim=width)
    take_weights(model, trained)
    inputs = {"source_ids": np.array([[5, 6, 7, 3], [9, 3, 0, 0]]), "target_ids": np.array([[1, 4, 8], [1, 11, 0]])}
    np.testing.assert_allclose(model(inputs), trained(inputs), atol=1e-5)
    with tf.GradientTape() as tape:
        loss = keras.ops.sum(model(inputs) ** 2)
    weights = {weight.path: weight.value for weight in model.trainable_weights if "output_dense/kernel" in weight.path}
    assert len(weights) == 3
    for gradient in tape.gradient(loss, list(weights.values())):
        assert np.any(gradient.numpy()[-1])


WRONG = [
    ({"hidden_dim": 12}, "target_embedding/embeddings", "(20, 8). Expected: (20, 12)"),
    ({"intermediate_dim": 4}, "intermediate_dense/kernel", "(8, 6). Expected: (8, 4)"),
    ({"num_encoder_layers": 1}, "The trained model", "59 weights. Expected: 43"),
]


@pytest.mark.parametrize(("changes", "where", "message"), WRONG)
def test_another_difference_is_an_error_that_changes_nothing(changes, where, message):
    model = transformer(1, **changes)
    before = [weight.numpy() for weight in model.weights]
    with pytest.raises(UserError) as caught:
        take_weights(model, transformer(0))
    assert where in str(caught.value)
    assert message in str(caught.value)
    assert all(np.array_equal(weight.numpy(), old) for weight, old in zip(model.weights, before, strict=True))
