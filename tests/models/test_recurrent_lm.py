"""RecurrentLM against its equations in float64, and its settings."""

import numpy as np
import pytest
from layer_checks import assert_all_close
from layers.test_lstmn import by_equations
from models.seq2seq_equations import gru, lstm
from models.test_causal_lm import T, V, make_batch, make_model

from keras_attention.models import RecurrentLM

TINY = {"vocabulary_size": V, "hidden_dim": 5, "num_layers": 3, "max_length": 11}


def logits_of(weights, cell, token_ids, num_layers):
    """The logits (T, V) of one text, in plain loops."""
    table = weights["token_embedding/embeddings"]
    width, states, logits = table.shape[1], {}, []
    for token in token_ids:
        x = table[token]
        for i in range(num_layers):
            hidden, memory = states.get(i, (np.zeros(width), np.zeros(width)))
            part = {path.split("/", 1)[1]: value for path, value in weights.items() if path.startswith(f"cell_{i}/")}
            from_input = x @ part["input_projection/kernel"] + part["input_projection/bias"]
            from_state = hidden @ part["recurrent_projection/kernel"]
            if cell == "lstm":
                states[i] = lstm(np.split(from_input + from_state, 4), memory)
            else:
                from_state = from_state + part["recurrent_projection/bias"]
                states[i] = gru(np.split(from_input, 3), np.split(from_state, 3), hidden), memory
            x = states[i][0]
        logits.append(x @ table.T + weights["output_bias"])
    return np.array(logits)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_equals_its_equations(kind):
    model, batch = make_model(kind), make_batch()
    weights = {weight.path.split("/", 1)[1]: weight.numpy().astype("float64") for weight in model.trainable_weights}
    expected = [logits_of(weights, kind, ids, model.num_layers) for ids in batch["token_ids"]]
    assert expected[0].shape == (T, V)
    assert_all_close([np.asarray(model(batch))], [np.array(expected)], 1e-5)


def test_lstmn_equals_its_equations():
    model, batch = make_model("lstmn"), make_batch()
    logits, weights = model(batch, return_attention_scores=True)
    table, bias = (np.asarray(x, "float64") for x in (model.token_embedding.embeddings, model.output_bias))
    for b, token_ids in enumerate(batch["token_ids"]):
        x, expected = table[token_ids], []
        for cell in model.cells:
            x, of_cell = by_equations(cell, x)
            expected.append(of_cell)
        assert_all_close([logits[b], weights[b, :, 0]], [x @ table.T + bias, np.array(expected)], 1e-5)


def test_a_cell_without_attention_is_an_error():
    with pytest.raises(ValueError, match='Only cell="lstmn" has attention scores.* Received: cell="gru"'):
        make_model("gru")(make_batch(), return_attention_scores=True)


def test_the_parameters_of_lstmn_are_counted():
    H, model = 5, RecurrentLM(**TINY, cell="lstmn")
    model.build()
    assert model.count_params() == V * H + V + 3 * (11 * H * H + 6 * H)


@pytest.mark.parametrize(("cell", "gates"), [("lstm", 4), ("gru", 3)])
def test_the_parameters_are_counted(cell, gates):
    H, model = 5, RecurrentLM(**TINY, cell=cell)
    model.build()
    biases = 1 if cell == "lstm" else 2
    assert model.count_params() == V * H + V + 3 * gates * H * (2 * H + biases)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_dim": 0}, "`hidden_dim` must be a positive integer. Received: hidden_dim=0"),
        ({"cell": "rnn"}, "`cell` must be one of lstm, gru.* Received: cell=rnn"),
        ({"dropout": 1.0}, "`dropout` must be in .* Received: dropout=1.0"),
        ({"pad_id": 17}, "`pad_id` must be None or a token id .* Received: pad_id=17"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        RecurrentLM(**{**TINY, **settings})
