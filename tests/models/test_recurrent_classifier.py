"""RecurrentClassifier against its equations in float64."""

import keras
import numpy as np
import pytest
from layer_checks import assert_all_close
from layers.test_lstmn import by_equations
from models.seq2seq_equations import lstm

from keras_attention.models import RecurrentClassifier

V, H, K, LENGTHS = 17, 5, 3, (7, 2, 5)
SIZES = {"vocabulary_size": V, "hidden_dim": H, "num_labels": K}


def make_model(cell, **settings):
    keras.utils.set_random_seed(11)
    model = RecurrentClassifier(**SIZES, cell=cell, **settings)
    model.build()
    for weight in model.weights:
        if "bias" in weight.path:
            weight.assign(np.random.default_rng(13).normal(size=weight.shape))
    return model


def make_batch(length=7):
    random = np.random.default_rng(3)
    ids = [np.pad(random.integers(1, V, size=n), (0, length - n)) for n in LENGTHS]
    return {"token_ids": np.array(ids, "int32")}


def by_lstm(cell, x):
    """The outputs (T, H) of an LSTM cell for inputs (T, D)."""
    kernel, bias, recurrent = (
        np.asarray(weight, "float64")
        for weight in (cell.input_projection.kernel, cell.input_projection.bias, cell.recurrent_projection.kernel)
    )
    hidden = memory = np.zeros(cell.units)
    outputs = []
    for step in x:
        hidden, memory = lstm(np.split(step @ kernel + bias + hidden @ recurrent, 4), memory)
        outputs.append(hidden)
    return np.array(outputs), None


@pytest.mark.parametrize(("cell", "equations"), [("lstm", by_lstm), ("lstmn", by_equations)])
def test_equals_its_equations(cell, equations):
    model, batch = make_model(cell, num_layers=2), make_batch()
    logits = np.asarray(model(batch))
    table, *head = (
        np.asarray(weight, "float64")
        for weight in (model.token_embedding.embeddings, *model.dense.weights, *model.output_dense.weights)
    )
    for ids, length, row in zip(batch["token_ids"], LENGTHS, logits, strict=True):
        x = table[ids[:length]]
        for each in model.cells:
            x, _ = equations(each, x)
        hidden = np.maximum(x.mean(axis=0) @ head[0] + head[1], 0)
        assert_all_close([row], [hidden @ head[2] + head[3]], 1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru", "lstmn"])
def test_padding_changes_nothing(cell):
    model = make_model(cell)
    assert_all_close([model(make_batch(7))], [model(make_batch(11))], 1e-6)


@pytest.mark.parametrize("cell", ["lstm", "lstmn"])
def test_a_new_network_can_be_read_below_its_head(cell):
    assert RecurrentClassifier(**SIZES, cell=cell).pooled(make_batch()).shape == (len(LENGTHS), H)


def test_token_ids_need_no_dict():
    model, batch = make_model("lstmn"), make_batch()
    assert_all_close([model(batch["token_ids"])], [model(batch)], 0)


def test_the_weights_link_each_word_to_earlier_ones():
    model, batch = make_model("lstmn", num_layers=2), make_batch()
    logits, weights = model(batch, return_attention_scores=True)
    assert weights.shape == (3, 2, 1, 7, 7)
    assert_all_close([logits], [model(batch)], 1e-6)
    sums = np.asarray(weights).sum(axis=-1)
    assert_all_close([sums[..., 0], sums[..., 1:]], [np.zeros((3, 2, 1)), np.ones((3, 2, 1, 6))], 1e-5)
    assert np.triu(np.asarray(weights)).max() == 0
    with pytest.raises(ValueError, match='Only cell="lstmn" has attention scores.* Received: cell="gru"'):
        make_model("gru")(batch, return_attention_scores=True)


@pytest.mark.parametrize("cell", ["lstm", "lstmn"])
def test_is_a_plain_keras_model(cell, tmp_path):
    model, batch, labels = make_model(cell, dropout=0.0), make_batch(), np.array([0, 2, 1])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.03), loss, metrics=["accuracy"])
    history = model.fit(batch, labels, epochs=20, verbose=0).history["loss"]
    assert history[-1] < history[0] / 2
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_all_close([loaded.predict(batch, batch_size=2, verbose=0)], [model(batch)], 1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_labels": 0}, "`num_labels` must be a positive integer. Received: num_labels=0"),
        ({"cell": "rnn"}, "`cell` must be one of lstm, gru.* Received: cell=rnn"),
        ({"dropout": 1.0}, "`dropout` must be in .* Received: dropout=1.0"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        RecurrentClassifier(**SIZES | settings)
