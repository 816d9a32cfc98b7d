"""Small models with generic weights, and a batch for them."""

import functools

import keras
import numpy as np
from layer_checks import EXECUTIONS, random_array

from keras_attention.models import AttentionSeq2Seq

B, T, S = 3, 5, 7
SIZES = {"source_vocabulary_size": 13, "target_vocabulary_size": 17, "embedding_dim": 19, "hidden_dim": 22}
ATTENTIONS = {"additive": {"attention": "additive"}, "none": {"attention": "none"}}
for score in ("dot", "general", "concat"):
    for mode in ("global", "local_m", "local_p"):
        ATTENTIONS[f"{score}-{mode}"] = {"attention": score, "attention_mode": mode, "attention_window": 2}

# A few whole models: every cell, feeding, tie and kind of attention, one layer and two.
FORMS = {
    "additive": {"attention": "additive", "cell": "gru", "num_layers": 2, "tie_embeddings": "target"},
    "general": {"attention": "general", "cell": "lstm", "input_feeding": False, "tie_embeddings": "none"},
    "local_m": {**ATTENTIONS["dot-local_m"], "cell": "lstm", "num_layers": 2, "tie_embeddings": "none"},
    "local_p": {**ATTENTIONS["concat-local_p"], "cell": "gru", "input_feeding": False, "tie_embeddings": "target"},
    "none": {"attention": "none", "cell": "gru", "tie_embeddings": "all", "source_vocabulary_size": 17},
}


def make_model(dropout=0.0, seed=0, **settings):
    """A built model whose weights, biases too, are uniform random numbers, a pure function of `seed`."""
    model = AttentionSeq2Seq(**{**SIZES, "dropout": dropout, **settings})
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(random_array(*weight.shape, seed=(seed, i), low=-0.6, high=0.6))
    return model


@functools.cache
def shared_model(form, dropout=0.0):
    """One model for all tests that change none of its weights."""
    return make_model(dropout, **FORMS[form])


def make_batch(seed=0):
    """Sentences of different lengths: rows of `source_ids` (B, S) end with END (3) and padding."""
    random = np.random.default_rng(seed)
    source_ids, target_ids = (random.integers(4, 13, (B, length)).astype("int32") for length in (S, T))
    for row, length in enumerate((S, 4, 2)):
        source_ids[row, length - 1] = 3
        source_ids[row, length:] = 0
    target_ids[:, 0] = 2
    return {"source_ids": source_ids, "target_ids": target_ids}


def outputs_of(model, batch, execution="eager", training=False):
    """Logits (B, T, V) and attention weights (B, T, S) or None, as NumPy arrays of the dtype they come in."""
    attends = model.attention != "none"

    @EXECUTIONS[execution]
    def compute(batch):
        return model(batch, training=training, return_attention_scores=attends)

    outputs = compute({name: keras.ops.convert_to_tensor(ids) for name, ids in batch.items()})
    logits, weights = outputs if attends else (outputs, None)
    return np.asarray(logits), None if weights is None else np.asarray(weights)
