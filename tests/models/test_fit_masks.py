"""The loss and the metrics of `fit` leave padding out, and logits work in every Keras layer behind the model."""

import keras
import numpy as np
import pytest

from keras_attention.layers.masks import keras_mask
from keras_attention.models import (
    GPT,
    AttentionSeq2Seq,
    BertEncoder,
    BertMaskedLM,
    ConvolutionalLM,
    RecurrentLM,
    Transformer,
)

B, S, T, V = 3, 5, 7, 11
PAIRS = {
    "source_ids": np.array([[3, 4, 5, 6, 2], [7, 2, 0, 0, 0], [3, 8, 9, 2, 0]]),
    "target_ids": np.array([[1, 3, 4, 5, 6, 7, 8], [1, 4, 0, 0, 0, 0, 0], [1, 3, 5, 9, 0, 0, 0]]),
}
TEXTS = {"token_ids": PAIRS["target_ids"]}
IS_TOKEN = PAIRS["target_ids"] != 0
BERT = {"vocabulary_size": V, "hidden_dim": 6, "intermediate_dim": 13, "num_heads": 2, "num_layers": 2, "max_length": T}
MODELS = {
    "seq2seq": (lambda: AttentionSeq2Seq(V, V, embedding_dim=6, hidden_dim=8), PAIRS),
    "transformer": (lambda: Transformer(V, V, 6, 13, 2, 1, 1), PAIRS),
    "masked_lm": (lambda: BertMaskedLM(**BERT), TEXTS),
    "gpt": (lambda: GPT(V, 6, 13, 2, 1, pad_id=0), TEXTS),
    "lstm": (lambda: RecurrentLM(V, 6, 1, pad_id=0), TEXTS),
    "convolutional": (lambda: ConvolutionalLM(V, 6, 1, pad_id=0), TEXTS),
}


def loss_of_fit(make_model, inputs, labels):
    keras.utils.set_random_seed(0)
    model = make_model()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return model.fit(inputs, labels, batch_size=B, epochs=1, shuffle=False, verbose=0).history["loss"][0]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_labels_at_padding_do_not_count(name):
    make_model, inputs = MODELS[name]
    labels = np.random.default_rng(1).integers(1, V, (B, T))
    loss = loss_of_fit(make_model, inputs, labels)
    assert np.isfinite(loss)
    other = np.where(IS_TOKEN, labels, (labels + 1) % V)
    np.testing.assert_allclose(loss_of_fit(make_model, inputs, other), loss, rtol=1e-6)
    other = np.where(IS_TOKEN, (labels + 1) % V, labels)
    assert abs(loss_of_fit(make_model, inputs, other) - loss) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_metrics_do_not_count_padding_either(name):
    make_model, inputs = MODELS[name]
    model = make_model()
    best = np.argmax(model(inputs), axis=-1)
    losses = {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "metrics": ["accuracy"]}
    model.compile("sgd", **losses, weighted_metrics=["sparse_categorical_accuracy"], jit_compile=False)
    labels = np.where(IS_TOKEN, best, (best + 1) % V)
    scores = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert scores["accuracy"] == scores["sparse_categorical_accuracy"] == 1.0


LAYERS = {
    "softmax": keras.layers.Softmax,
    "activation": lambda: keras.layers.Activation("softmax"),
    "dense": lambda: keras.layers.Dense(5),
    "norm": keras.layers.LayerNormalization,
    "mean": keras.layers.GlobalAveragePooling1D,
    "lstm": lambda: keras.layers.LSTM(5),
    "masking": keras.layers.Masking,
    "each": lambda: keras.layers.TimeDistributed(keras.layers.Dense(5)),
    "function": lambda: keras.layers.Lambda(lambda x: x[:, -1], output_shape=(V,)),
}


def functional(name, layer):
    """A functional model that begins with one of `MODELS` and ends with a layer."""
    make_model, inputs = MODELS[name]
    symbols = {key: keras.Input((None,), dtype="int32", name=key) for key in inputs}
    network = make_model()
    logits = network(symbols)
    return network, keras.Model(symbols, layer(logits)), inputs


@pytest.mark.parametrize("name", MODELS)
def test_softmax_of_logits_in_a_functional_model(name):
    network, model, inputs = functional(name, keras.layers.Softmax())
    logits = network(inputs)
    assert keras_mask(logits) is None
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
    np.testing.assert_allclose(model(inputs), expected, atol=1e-6)
    np.testing.assert_allclose(keras.layers.Softmax()(logits), expected, atol=1e-6)
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.compute_loss(inputs, np.ones((B, T)), logits)
    np.testing.assert_allclose(keras.layers.Softmax()(logits), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_any_layer_takes_logits_and_trains(name, layer):
    network, model, inputs = functional(name, LAYERS[layer]())
    model.compile("sgd", "mse", jit_compile=False)
    target = np.zeros(model(inputs).shape)
    assert np.isfinite(model.fit(inputs, target, verbose=0).history["loss"][0])


@pytest.mark.slow
def test_attention_reads_logits():
    symbol = keras.Input((None,), dtype="int32")
    logits = MODELS["gpt"][0]()({"token_ids": symbol})
    mixed = keras.layers.MultiHeadAttention(2, 3)(logits, logits)
    assert np.isfinite(keras.Model(symbol, mixed)(TEXTS["token_ids"])).all()


@pytest.mark.slow
def test_positions_asked_for_all_count():
    labels = np.array([[3, 4], [5, 6], [7, 8]])
    inputs = {**TEXTS, "masked_positions": np.array([[1, 2], [0, 6], [3, 4]])}
    loss = loss_of_fit(MODELS["masked_lm"][0], inputs, labels)
    labels[1, 1] = 9
    assert abs(loss_of_fit(MODELS["masked_lm"][0], inputs, labels) - loss) > 1e-4


def test_layers_after_the_encoder_see_its_padding():
    encoder = BertEncoder(**BERT)
    symbol = keras.Input((None,), dtype="int32")
    model = keras.Model(symbol, keras.layers.GlobalAveragePooling1D()(encoder({"token_ids": symbol})))
    vectors = np.asarray(encoder(TEXTS))
    expected = [vectors[row, IS_TOKEN[row]].mean(axis=0) for row in range(B)]
    np.testing.assert_allclose(model(TEXTS["token_ids"]), expected, atol=1e-5)
    positions = np.array([[1, 2], [0, 6], [3, 4]])
    some = encoder(TEXTS, output_positions=positions)
    pooled = np.asarray(keras.layers.GlobalAveragePooling1D()(some))
    np.testing.assert_allclose(pooled[1], np.asarray(some)[1, 0], atol=1e-6)
