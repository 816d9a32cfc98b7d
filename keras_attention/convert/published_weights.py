"""Names and shapes of the weights of published BERT models, and filling a model with them."""

import re

import numpy as np

from keras_attention.errors import UserError
from keras_attention.models import BertClassifier, BertEncoder, BertMaskedLM

# Our names to Google's. Hugging Face uses dots in place of slashes; `HUGGING_FACE` and `LEAVES` list the exceptions.
GOOGLE = {
    "encoder/token_embedding/embeddings": "bert/embeddings/word_embeddings",
    "encoder/position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "encoder/segment_embedding/embeddings": "bert/embeddings/token_type_embeddings",
    "encoder/embedding_norm": "bert/embeddings/LayerNorm",
    "encoder/layer_{}/self_attention/query": "bert/encoder/layer_{}/attention/self/query",
    "encoder/layer_{}/self_attention/key": "bert/encoder/layer_{}/attention/self/key",
    "encoder/layer_{}/self_attention/value": "bert/encoder/layer_{}/attention/self/value",
    "encoder/layer_{}/self_attention/attention_output": "bert/encoder/layer_{}/attention/output/dense",
    "encoder/layer_{}/self_attention_norm": "bert/encoder/layer_{}/attention/output/LayerNorm",
    "encoder/layer_{}/feed_forward/intermediate_dense": "bert/encoder/layer_{}/intermediate/dense",
    "encoder/layer_{}/feed_forward/output_dense": "bert/encoder/layer_{}/output/dense",
    "encoder/layer_{}/feed_forward_norm": "bert/encoder/layer_{}/output/LayerNorm",
    "head_dense": "cls/predictions/transform/dense",
    "head_norm": "cls/predictions/transform/LayerNorm",
    "output_bias": "cls/predictions/output_bias",
}
HUGGING_FACE = {
    "output_bias": "cls.predictions.bias",
    "pooler_dense": "bert.pooler.dense",
    "output_dense": "classifier",
}
DISTILBERT = {
    "encoder/token_embedding/embeddings": "distilbert.embeddings.word_embeddings",
    "encoder/position_embedding/embeddings": "distilbert.embeddings.position_embeddings",
    "encoder/embedding_norm": "distilbert.embeddings.LayerNorm",
    "encoder/layer_{}/self_attention/query": "distilbert.transformer.layer.{}.attention.q_lin",
    "encoder/layer_{}/self_attention/key": "distilbert.transformer.layer.{}.attention.k_lin",
    "encoder/layer_{}/self_attention/value": "distilbert.transformer.layer.{}.attention.v_lin",
    "encoder/layer_{}/self_attention/attention_output": "distilbert.transformer.layer.{}.attention.out_lin",
    "encoder/layer_{}/self_attention_norm": "distilbert.transformer.layer.{}.sa_layer_norm",
    "encoder/layer_{}/feed_forward/intermediate_dense": "distilbert.transformer.layer.{}.ffn.lin1",
    "encoder/layer_{}/feed_forward/output_dense": "distilbert.transformer.layer.{}.ffn.lin2",
    "encoder/layer_{}/feed_forward_norm": "distilbert.transformer.layer.{}.output_layer_norm",
    "head_dense": "vocab_transform",
    "head_norm": "vocab_layer_norm",
    "output_bias": "vocab_projector.bias",
    "pooler_dense": "pre_classifier",
    "output_dense": "classifier",
}
LEAVES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def google_name(path):
    """The name of our weight at `path` in a Google checkpoint."""
    part, leaf = _part_and_leaf(path)
    return "/".join([_looked_up(GOOGLE, part), *leaf])


def hugging_face_name(path, model_type):
    """The name of our weight at `path` in `model.safetensors`, for "bert" or "distilbert"."""
    part, leaf = _part_and_leaf(path)
    leaf = [LEAVES[name] for name in leaf] or (["weight"] if part.endswith("embeddings") else [])
    if model_type == "distilbert":
        return ".".join([_looked_up(DISTILBERT, part), *leaf])
    if part in HUGGING_FACE:
        return ".".join([HUGGING_FACE[part], *leaf])
    return ".".join([_looked_up(GOOGLE, part).replace("layer_", "layer.").replace("/", "."), *leaf])


def _part_and_leaf(path):
    """ "a/b/kernel" as "a/b" and ["kernel"]; a part that is itself a weight has no leaf."""
    part, _, leaf = path.rpartition("/")
    return (part, [leaf]) if leaf in LEAVES else (path, [])


def _looked_up(names, part):
    number = re.search(r"/layer_(\d+)/", part)
    if number is None:
        return names[part]
    return names[part.replace(number[0], "/layer_{}/")].format(number[1])


MODELS = {"encoder": BertEncoder, "masked_lm": BertMaskedLM, "classifier": BertClassifier}


def matrix_shapes(kind, settings):
    """The shapes of a model's weights, without building it.

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
        raise UserError(f"{where} lacks the tensor {name} {expected[name]}, which its configuration requires.")
    for name in sorted(found.keys() - expected.keys()):
        raise UserError(f"{where} has the tensor {name!r:.80} {found[name]!s:.80}, which the model does not have.")
    for name, shape in expected.items():
        if found[name] != shape:
            raise UserError(f"{where}: {name} has the shape {found[name]!s:.80}. The configuration requires {shape}")


def build_filled(kind, settings, read):
    """Builds a model and sets its weights.

    Args:
        kind, settings: see `matrix_shapes`.
        read: function from our path to the float array.

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
