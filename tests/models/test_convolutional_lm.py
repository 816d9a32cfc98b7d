"""ConvolutionalLM against its equations in float64, its receptive field, and its settings."""

import numpy as np
import pytest
from layer_checks import assert_all_close
from models.test_causal_lm import T, V, make_batch, make_model

from keras_attention.models import ConvolutionalLM

TINY = {"vocabulary_size": V, "hidden_dim": 5, "num_layers": 3, "max_length": 31}


def normalized(x, part):
    centered = x - x.mean()
    return centered / np.sqrt((centered**2).mean() + 1e-5) * part["gamma"] + part["beta"]


def logits_of(weights, settings, token_ids):
    """The logits (T, V) of one text, in plain loops."""

    def part(name):
        return {path.removeprefix(f"{name}/"): value for path, value in weights.items() if path.startswith(f"{name}/")}

    table, taps = weights["token_embedding/embeddings"], settings["kernel_size"]
    width, x = table.shape[1], [table[token] for token in token_ids]
    for i in range(settings["num_layers"]):
        read, distance = [normalized(row, part(f"norm_{i}")) for row in x], 2 ** (i % settings["dilation_cycle"])
        convolution, mixer, added = part(f"convolution_{i}"), part(f"mixer_{i}"), []
        kernel = convolution["projection/kernel"].reshape(taps, width, 2 * width)
        for t in range(len(x)):
            both = convolution["projection/bias"].copy()
            for j in range(taps):
                if t >= j * distance:
                    both += read[t - j * distance] @ kernel[taps - 1 - j]
            gated = np.tanh(both[:width]) / (1 + np.exp(-both[width:]))
            added.append(gated @ mixer["kernel"] + mixer["bias"])
        x = [old + new for old, new in zip(x, added, strict=True)]
    return np.array([normalized(row, part("final_norm")) @ table.T + weights["output_bias"] for row in x])


@pytest.mark.parametrize("sizes", [{}, {"num_layers": 3, "dilation_cycle": 2, "kernel_size": 2}])
def test_equals_its_equations(sizes):
    model, batch = make_model("convolutional", **sizes), make_batch()
    weights = {weight.path.split("/", 1)[1]: weight.numpy().astype("float64") for weight in model.trainable_weights}
    expected = [logits_of(weights, model.get_config(), ids) for ids in batch["token_ids"]]
    assert expected[0].shape == (T, V)
    assert_all_close([np.asarray(model(batch))], [np.array(expected)], 1e-5)


@pytest.mark.parametrize(
    ("sizes", "expected"), [({}, 15), ({"dilation_cycle": 2}, 9), ({"kernel_size": 2, "num_layers": 4}, 16)]
)
def test_the_receptive_field_is_what_a_prediction_depends_on(sizes, expected):
    model = ConvolutionalLM(**TINY | sizes)
    model.build()
    assert model.receptive_field == expected
    ids = np.random.default_rng(0).integers(4, V, (1, 29)).astype("int32")
    last = np.asarray(model({"token_ids": ids}))[0, -1]
    for distance in range(29):
        changed = ids.copy()
        changed[0, -1 - distance] = 4 + (ids[0, -1 - distance] - 3) % (V - 4)
        same = (np.asarray(model({"token_ids": changed}))[0, -1] == last).all()
        assert same == (distance >= expected)


def test_the_parameters_are_counted():
    H, model = 5, ConvolutionalLM(**TINY)
    model.build()
    layer = 2 * H + 3 * H * 2 * H + 2 * H + H * H + H
    assert model.count_params() == V * H + V + 3 * layer + 2 * H


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_layers": 0}, "`num_layers` must be a positive integer. Received: num_layers=0"),
        ({"dilation_cycle": 0}, "`dilation_cycle` must be a positive integer. Received: dilation_cycle=0"),
        ({"kernel_size": 1}, "`kernel_size` must be an integer, 2 or more. Received: kernel_size=1"),
        ({"dropout": 1.0}, "`dropout` must be in .* Received: dropout=1.0"),
        ({"pad_id": 17}, "`pad_id` must be None or a token id .* Received: pad_id=17"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ConvolutionalLM(**{**TINY, **settings})
