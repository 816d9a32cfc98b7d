"""Small BERTs with generic weights, and texts for them."""

import keras
import numpy as np
import pytest
from layer_checks import EXECUTIONS, assert_all_close, random_array

from keras_attention.models import BertClassifier, BertEncoder, BertMaskedLM

V, B, T = 31, 3, 7
TINY = {
    "vocabulary_size": V,
    "hidden_dim": 12,
    "intermediate_dim": 19,
    "num_heads": 3,
    "num_layers": 2,
    "max_length": 23,
    "dropout": 0.0,
}
FORMS = {"post-norm": {}, "pre-norm": {"normalize_first": True}}
LABELS = 5


def make_encoder(**settings):
    return with_weights(BertEncoder(**{**TINY, **settings}))


def make_masked_lm(**settings):
    return with_weights(BertMaskedLM(**{**TINY, **settings}))


def make_classifier(**settings):
    return with_weights(BertClassifier(**{**TINY, "num_labels": LABELS, **settings}))


MODELS = {"encoder": make_encoder, "masked_lm": make_masked_lm, "classifier": make_classifier}
EVERY_FORM = pytest.mark.parametrize("form", FORMS)
EVERY_MODEL = pytest.mark.parametrize("model", MODELS)


def with_weights(model):
    """The model, built, with uniform random numbers as weights."""
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(random_array(*weight.shape, seed=i, low=-0.6, high=0.6))
    return model


def make_texts():
    """Texts of 7, 4 and 2 tokens; each has two segments."""
    random = np.random.default_rng(0)
    token_ids = random.integers(1, V, (B, T)).astype("int32")
    segment_ids = np.tile(np.arange(T) >= 3, (B, 1)).astype("int32")
    for row, length in enumerate((T, 4, 2)):
        token_ids[row, length:] = 0
        segment_ids[row, length:] = 0
    return {"token_ids": token_ids, "segment_ids": segment_ids}


def packed(texts):
    """The inputs (1, T) of texts, dicts of rows, one behind the other in one row with three places left over."""
    lengths = [len(text["token_ids"]) for text in texts]
    inputs = {name: np.concatenate([text[name] for text in texts]) for name in ("token_ids", "segment_ids")}
    inputs["position_ids"] = np.concatenate([np.arange(length) for length in lengths])
    inputs["block_ids"] = np.repeat(np.arange(1, len(texts) + 1), lengths)
    return {name: np.pad(ids, (0, 3)).astype("int32")[None] for name, ids in inputs.items()}


def outputs_of(model, inputs, execution="eager", training=False, scores=True):
    """What the model returns for a dict of arrays, as a list of NumPy arrays."""

    @EXECUTIONS[execution]
    def compute(inputs):
        return model(inputs, training=training, return_attention_scores=scores)

    outputs = compute({name: keras.ops.convert_to_tensor(ids) for name, ids in inputs.items()})
    return [np.asarray(x) for x in keras.tree.flatten(outputs)]


def check_rows(actual, expected, texts):
    """Equal wherever a token stands."""
    is_token = texts["token_ids"] != 0
    assert_all_close([np.asarray(actual)[is_token]], [np.asarray(expected)[is_token]], 1e-5)
