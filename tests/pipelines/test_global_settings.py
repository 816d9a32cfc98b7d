"""Global settings of Keras, which other code of a process may have changed, do not change an answer."""

import keras
import numpy as np
import pytest

import keras_attention
from keras_attention.models import GPT, AttentionSeq2Seq, BertClassifier, ConvolutionalLM, RecurrentLM, Transformer

SETTINGS = {
    "floatx": (keras.config.set_floatx, keras.config.floatx, ["float16", "bfloat16", "float64"]),
    "policy": (
        keras.config.set_dtype_policy,
        keras.config.dtype_policy,
        ["mixed_float16", "mixed_bfloat16", "float64"],
    ),
    "image format": (keras.config.set_image_data_format, keras.config.image_data_format, ["channels_first"]),
    "epsilon": (keras.config.set_epsilon, keras.config.epsilon, [0.5]),
}
CASES = [(name, value) for name, (_, _, values) in SETTINGS.items() for value in values]
IDS = np.array([[2, 5, 7, 11, 3, 0, 0]], "int32")
TEXT = {"token_ids": IDS}
PAIR = {"source_ids": IDS, "target_ids": IDS}
MODELS = {
    "BERT": (lambda: BertClassifier(17, 6, 7, 3, 2, num_labels=3, max_length=11, dtype="float32"), TEXT),
    "GPT": (lambda: GPT(17, 6, 7, 3, 2, 11, dtype="float32"), TEXT),
    "rotary GPT": (lambda: GPT(17, 6, 7, 3, 2, 11, positions="rotary", dtype="float32"), TEXT),
    "recurrent": (lambda: RecurrentLM(17, 6, 2, 11, cell="lstmn", dtype="float32"), TEXT),
    "convolutional": (lambda: ConvolutionalLM(17, 6, 2, 11, dtype="float32"), TEXT),
    "Transformer": (lambda: Transformer(17, 17, 6, 7, 3, dtype="float32"), PAIR),
    "attention": (lambda: AttentionSeq2Seq(17, 19, 6, 10, dtype="float32"), PAIR),
}


@pytest.fixture
def change():
    """Changes a setting until the end of a test."""
    before = {name: read() for name, (_, read, _) in SETTINGS.items()}
    yield lambda name, value: SETTINGS[name][0](value)
    for name, value in before.items():
        SETTINGS[name][0](value)


def logits_of(kind):
    make, inputs = MODELS[kind]
    keras.utils.set_random_seed(7)
    model = make()
    model.build()
    random = np.random.default_rng(7)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.4, weight.shape).astype("float32"))
    assert all(weight.dtype == "float32" for weight in model.trainable_weights)
    return np.asarray(model(inputs, training=False))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "cases", [[("floatx", "float16")], pytest.param(CASES, marks=pytest.mark.thorough)], ids=["float16", "all"]
)
def test_a_network_in_float32_gives_the_same_logits(kind, cases, change):
    expected = logits_of(kind)
    for name, value in cases:
        change(name, value)
        np.testing.assert_array_equal(logits_of(kind), expected, err_msg=f"{name} {value}")
        change(name, {"floatx": "float32", "policy": "float32", "image format": "channels_last"}.get(name, 1e-7))


ANSWERS = {
    "bert_mini_sst2": lambda model: str(model.classify("A lovely film.")),
    "minilm_small_en": lambda model: model.encode("A dog runs.").pooled.round(4).tolist(),
    "rnn_attention_dates": lambda model: str(model.translate("March 3, 2019")),
    "gpt_mini_en": lambda model: model.generate("The", max_tokens=3, temperature=0.0),
    "bert_mini_en": lambda model: model.fill_mask("A [MASK] runs.")[0].text,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_a_pipeline_gives_the_same_answer_in_a_program_of_half_precision(name, change):
    expected = ANSWERS[name](keras_attention.load(name))
    change("floatx", "float16")
    assert ANSWERS[name](keras_attention.load(name)) == expected
