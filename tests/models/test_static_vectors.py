"""StaticVectorClassifier against its equation in loops of float64."""

import keras
import numpy as np
import pytest
from layer_checks import assert_all_close

from keras_attention.models import StaticVectorClassifier

V, D, K, LENGTHS = 17, 5, 3, (7, 2, 11)
SEGMENTS = (4, 1, 6)  # tokens of the first text of each pair


def make_model(**settings):
    keras.utils.set_random_seed(11)
    model = StaticVectorClassifier(V, D, K, **settings)
    model.build()
    for i, weight in enumerate(model.weights):
        weight.assign(np.random.default_rng(i).normal(size=weight.shape))
    return model


def make_batch(length=11):
    random = np.random.default_rng(3)
    ids = [np.pad(random.integers(1, V, size=n), (0, length - n)) for n in LENGTHS]
    segments = [
        (np.arange(length) >= first) & (np.arange(length) < n) for first, n in zip(SEGMENTS, LENGTHS, strict=True)
    ]
    return {"token_ids": np.array(ids, "int32"), "segment_ids": np.array(segments, "int32")}


def direction(table, ids):
    total = np.zeros(D)
    for token in ids:
        total += table[token]
    length = sum(value * value for value in total) ** 0.5
    return total / length if length else total


@pytest.mark.parametrize("pooling", ["mean", "pair"])
def test_equals_its_equation(pooling):
    model, batch = make_model(pooling=pooling), make_batch()
    table, kernel, bias = (np.asarray(weight, "float64") for weight in model.weights)
    logits = np.asarray(model(batch))
    assert logits.shape == (len(LENGTHS), K)
    for ids, length, first, row in zip(batch["token_ids"], LENGTHS, SEGMENTS, logits, strict=True):
        pooled = direction(table, ids[:length])
        if pooling == "pair":
            u, v = direction(table, ids[:first]), direction(table, ids[first:length])
            pooled = np.concatenate([u, v, np.abs(u - v), u * v])
        expected = [sum(pooled[d] * kernel[d, k] for d in range(len(pooled))) + bias[k] for k in range(K)]
        assert_all_close([row], [expected], 1e-5)


@pytest.mark.parametrize("pooling", ["mean", "pair"])
def test_padding_and_its_vector_change_nothing(pooling):
    model = make_model(pooling=pooling)
    expected = np.asarray(model(make_batch()))
    assert_all_close([model(make_batch(13))], [expected], 1e-6)
    table, *others = model.get_weights()
    table[0] = np.nan
    model.set_weights([table, *others])
    assert_all_close([model(make_batch())], [expected], 1e-6)


def test_a_text_without_a_vector_gives_the_bias():
    model = make_model()
    table, *others = model.get_weights()
    table[5] = 0
    model.set_weights([table, *others])
    logits = np.asarray(model(np.array([[5, 5, 0], [0, 0, 0]], "int32")))
    assert_all_close([logits], [np.tile(others[1], (2, 1))], 1e-6)


def test_is_a_plain_keras_model(tmp_path):
    model, batch, labels = make_model(dropout=0.0), make_batch(), np.array([0, 2, 1])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), loss)
    history = model.fit(batch, labels, epochs=20, verbose=0).history["loss"]
    assert history[-1] < 0.2 * history[0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert_all_close([again(batch)], [model(batch)], 0)
    assert again.get_config()["pooling"] == "mean"


def test_starts_from_trained_vectors():
    trained = make_model(pooling="pair")
    new = StaticVectorClassifier.from_trained(trained, 2, head="linear", pairs="joint")
    assert (new.settings["pooling"], new.settings["num_labels"], new.layer_groups()) == ("mean", 2, [])
    kept = StaticVectorClassifier.from_trained(trained, K, head="kept")
    assert_all_close([new.weights[0], kept(make_batch())], [trained.weights[0], trained(make_batch())], 0)
    with pytest.raises(ValueError, match='pairs="apart"` needs a network with pooling="pair"'):
        StaticVectorClassifier.from_trained(make_model(), 2, pairs="apart")


@pytest.mark.parametrize(("name", "value"), [("pooling", "cls"), ("hidden_dim", 0), ("dropout", 1.0)])
def test_settings_out_of_range_are_named(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be.*Received: {name}={value}"):
        StaticVectorClassifier(**{"vocabulary_size": V, "hidden_dim": D, "num_labels": K, name: value})
