"""The weights of our BERT models as published checkpoints have them: matrices and vectors under our paths."""

import numpy as np

from keras_attention.errors import UserError
from keras_attention.models import BertClassifier, BertEncoder, BertMaskedLM

MODELS = {"encoder": BertEncoder, "masked_lm": BertMaskedLM, "classifier": BertClassifier}


def matrix_shapes(kind, settings):
    """What tensors a model has, known before it is built.

    Args:
        kind: "encoder", "masked_lm" or "classifier".
        settings: dict, arguments of the model.

    Returns:
        Dict from our path, such as "encoder/layer_0/feed_forward/output_dense/kernel", to its shape. The axes of heads
        are merged: every kernel is a matrix (inputs, outputs), every bias a vector.
    """
    D, inner, vocabulary = (settings[name] for name in ("hidden_dim", "intermediate_dim", "vocabulary_size"))

    def dense(path, inputs, outputs):
        return {f"{path}/kernel": (inputs, outputs), f"{path}/bias": (outputs,)}

    def norm(path):
        return {f"{path}/gamma": (D,), f"{path}/beta": (D,)}

    tables = {"token": vocabulary, "position": settings["max_length"], "segment": settings["num_segments"]}
    shapes = {f"encoder/{what}_embedding/embeddings": (rows, D) for what, rows in tables.items() if rows}
    shapes |= norm("encoder/embedding_norm")
    for i in range(settings["num_layers"]):
        layer = f"encoder/layer_{i}"
        for what in ("query", "key", "value", "attention_output"):
            shapes |= dense(f"{layer}/self_attention/{what}", D, D)
        shapes |= dense(f"{layer}/feed_forward/intermediate_dense", D, inner)
        shapes |= dense(f"{layer}/feed_forward/output_dense", inner, D)
        shapes |= norm(f"{layer}/self_attention_norm") | norm(f"{layer}/feed_forward_norm")
    if kind == "masked_lm":
        shapes |= dense("head_dense", D, D) | norm("head_norm") | {"output_bias": (vocabulary,)}
    if kind == "classifier":
        shapes |= dense("pooler_dense", D, D) | dense("output_dense", D, settings["num_labels"])
    return shapes


def check_shapes(where, found, expected):
    """Raises UserError for the first tensor that is missing, extra or of another shape; both are dicts of shapes."""
    for name in sorted(expected.keys() - found.keys()):
        raise UserError(f"{where} lacks the tensor {name} {expected[name]}, which its configuration asks for.")
    for name in sorted(found.keys() - expected.keys()):
        raise UserError(f"{where} has the tensor {name!r} {found[name]}, for which the model has no place.")
    for name, shape in expected.items():
        if found[name] != shape:
            raise UserError(f"{where}: {name} has the shape {found[name]}. The configuration asks for {shape}")


def build_filled(kind, settings, read):
    """Builds a model and gives it its weights.

    Args:
        kind, settings: see `matrix_shapes`.
        read: function from our path to the float array of that shape.

    Returns:
        The model.

    Raises:
        UserError: if a number is not finite.
    """
    model = MODELS[kind](**settings, dtype="float32")
    model.build()
    root = "encoder/" if kind == "encoder" else ""
    for weight in model.trainable_weights:
        path = root + weight.path.removeprefix(f"{model.name}/")
        values = read(path)
        if not np.isfinite(values).all():
            raise UserError(f"The tensor for {path} holds NaN or infinity.")
        weight.assign(np.reshape(values, weight.shape))
    return model
