"""What a training takes over from a trained model."""

import keras
import numpy as np
import pytest

from keras_attention.models import AttentionCaptioner, PatchClassifier, Transformer
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
    ({"tie_embeddings": "none"}, "The trained model", "59 weights. Expected: 61"),
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


def values(model, layer):
    """The weights of a layer, by their path in it."""
    place = f"/{layer}/"
    return {weight.path.partition(place)[2]: weight.numpy() for weight in model.weights if place in weight.path}


@pytest.mark.parametrize(
    ("height", "taken"), [(1, [0]), (2, [0, 3]), (3, [0, 2, 3]), (4, [0, 1, 2, 3]), (6, [0, 0, 1, 2, 2, 3])]
)
def test_layers_are_left_out_evenly_or_repeated(height, taken):
    trained, model = transformer(0, num_encoder_layers=4), transformer(1, num_encoder_layers=height)
    assert take_weights(model, trained) == []
    for layer, old in enumerate(taken):
        expected = values(trained, f"encoder_{old}")
        assert len(expected) == 16
        for path, value in values(model, f"encoder_{layer}").items():
            np.testing.assert_array_equal(value, expected[path], err_msg=path)
    for path, value in values(model, "decoder_0").items():
        np.testing.assert_array_equal(value, values(trained, "decoder_0")[path])


def test_a_recurrent_decoder_begins_with_what_attention_has_in_common_with_it():
    trained = transformer(0, num_decoder_layers=4)
    model = transformer(1, num_decoder_layers=2, decoder="ssru")
    random = {name: values(model, f"decoder_{name}") for name in range(2)}
    left = take_weights(model, trained)
    assert len(left) == 10
    assert all("/ssru" in path for path in left)
    for layer, old in enumerate((0, 3)):
        for path, value in values(model, f"decoder_{layer}").items():
            expected = random[layer] if path.startswith("ssru") else values(trained, f"decoder_{old}")
            np.testing.assert_array_equal(value, expected[path], err_msg=path)


def patches(num_labels, *input_size, **changes):
    sizes = {"hidden_dim": 8, "intermediate_dim": 6, "num_heads": 2, "num_layers": 1} | changes
    model = PatchClassifier(num_labels, input_size, (2,) * (len(input_size) - 1), **sizes)
    model.build()
    return model


def test_patches_of_other_images_and_labels_begin_with_the_same_vectors():
    trained, model = patches(3, 4, 6, 1), patches(5, 10, 8, 3)
    take_weights(model, trained)
    images = np.random.default_rng(0).uniform(-1, 1, (2, 10, 8, 1)).astype("float32")
    np.testing.assert_allclose(model.pooled(np.repeat(images, 3, axis=-1)), trained.pooled(images), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "message"),
    [((3, 8, 1), "reads inputs of the size (4, 6, 1), channels last. Received: (8, 1)"),
     ((3, 4, 6, 1, {"hidden_dim": 12}), "of the trained model has the shape (8,). Expected: (12,)")],
)  # fmt: skip
def test_patches_of_another_kind_or_width_are_refused(model, message):
    *sizes, changes = model if isinstance(model[-1], dict) else (*model, {})
    with pytest.raises(UserError) as caught:
        take_weights(patches(*sizes, **changes), patches(3, 4, 6, 1))
    assert message in str(caught.value)


def captioner(attention, seed, **changes):
    keras.utils.set_random_seed(seed)
    sizes = {"annotation_dim": 8, "embedding_dim": 5, "hidden_dim": 7, "num_halvings": 1, "num_convolutions": 1}
    model = AttentionCaptioner(9, (4, 6, 1), attention=attention, **sizes | changes)
    model.build()
    for weight in model.trainable_weights:
        weight.assign(weight + 0.3 * np.random.default_rng(seed).standard_normal(weight.shape))
    return model


@pytest.mark.parametrize(("kind", "new"), [("hard", ["baseline"]), ("soft", ["bias", "kernel"])])
def test_hard_attention_begins_where_soft_attention_looks(kind, new):
    trained, model = captioner({"hard": "soft", "soft": "hard"}[kind], 0), captioner(kind, 1)
    own = {weight.path: weight.numpy() for weight in model.weights}
    left = take_weights(model, trained)
    assert sorted(path.rpartition("/")[2] for path in left) == new
    for path in left:
        np.testing.assert_array_equal(next(w for w in model.weights if w.path == path), own[path])
    values, target_ids = np.random.default_rng(2).random((3, 4, 6, 1)), np.array([[1, 5]] * 3)
    inputs = {"values": values.astype("float32"), "target_ids": target_ids[:, :1]}
    weights, expected = (m(inputs, return_attention_scores=True)[1] for m in (model, trained))
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_a_captioner_with_other_convolutions_is_an_error_that_changes_nothing():
    model = captioner("hard", 1, num_convolutions=2)
    before = [weight.numpy() for weight in model.weights]
    with pytest.raises(UserError, match="no weights such as convolution_2/bias: it has 1 convolution.*Expected: 2"):
        take_weights(model, captioner("soft", 0))
    for weight, old in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, old)
