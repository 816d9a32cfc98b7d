"""The weights of published models: reading model.safetensors, names and shapes of a BERT, and filling a model."""

import math
import re
import struct

import numpy as np

from keras_attention.models import BertClassifier, BertEncoder, BertMaskedLM
from keras_attention.support.errors import UserError, parse_json, quoted

MAX_HEADER_BYTES = 2 * 1024 * 1024
MAX_AXES = 8
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
READABLE = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class SafetensorsFile:
    """The tensors of a safetensors file, after checking the header against the file size.

    Args:
        path: Path.

    Attributes:
        shapes: dict from the name of each tensor to its shape, a tuple.

    Raises:
        UserError: if the header is invalid or does not match the size of the file.

    Source: https://huggingface.co/docs/safetensors, "Format".
    """

    def __init__(self, path):
        self.path = path
        try:
            size = path.stat().st_size
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))
                if length > min(MAX_HEADER_BYTES, size - 8):
                    raise UserError(f"{path} is damaged: {size} bytes cannot begin with a header of {length}.")
                header = parse_json(file.read(length))
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from error
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{path} is damaged: its header is not JSON: {error}") from error
        if not isinstance(header, dict):
            raise UserError(f"{path} is damaged: its header is not a JSON object.")
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise UserError(f"{path} is damaged: its __metadata__ must map texts to texts.")
        self._start = 8 + length
        self._facts = {name: self._checked(name, facts) for name, facts in header.items()}
        self._check_no_gaps(size - self._start)
        self.shapes = {name: shape for name, (_, shape, _) in self._facts.items()}

    def read(self, name):
        """Returns a tensor as a float32 array.

        Raises:
            UserError: see `check_readable`.
        """
        self.check_readable([name])
        dtype, shape, (begin, _) = self._facts[name]
        values = np.fromfile(self.path, READABLE[dtype], math.prod(shape), offset=self._start + begin)
        if dtype == "BF16":  # the upper half of a float32
            values = (values.astype("uint32") << 16).view("float32")
        return values.astype("float32", copy=False).reshape(shape)

    def check_readable(self, names):
        """Raises UserError for the first of these tensors that is not float32, float16 or bfloat16."""
        for name in names:
            dtype = self._facts[name][0]
            if dtype not in READABLE:
                raise UserError(f"{self.path}: {name:.80} has dtype {dtype}. Supported: {', '.join(READABLE)}")

    def _checked(self, name, facts):
        """dtype, shape and byte range of a tensor, from the header."""
        sound = isinstance(facts, dict) and set(facts) == {"dtype", "shape", "data_offsets"}
        sound = sound and isinstance(facts["dtype"], str)
        sound = sound and _naturals(facts["shape"]) and len(facts["shape"]) <= MAX_AXES
        sound = sound and _naturals(facts["data_offsets"]) and len(facts["data_offsets"]) == 2
        if not sound:
            raise UserError(
                f"{self.path} is damaged: its header has no valid dtype, shape and byte range for {quoted(name)}."
            )
        if facts["dtype"] not in ITEM_BYTES:
            raise UserError(f"{self.path}: {name:.80} has dtype {facts['dtype']:.80}. Supported: {', '.join(READABLE)}")
        begin, end = facts["data_offsets"]
        if end - begin != math.prod(facts["shape"]) * ITEM_BYTES[facts["dtype"]]:
            received = f"{str(end - begin):.80} bytes for the shape {facts['shape']!s:.80}"
            raise UserError(f"{self.path} is damaged: {name:.80} has {received}.")
        return facts["dtype"], tuple(facts["shape"]), (begin, end)

    def _check_no_gaps(self, size):
        """Checks that the tensors are contiguous and fill the file."""
        position = 0
        for begin, end in sorted(place for _, _, place in self._facts.values()):
            if begin != position:
                raise UserError(
                    f"{self.path} is damaged: a tensor begins at byte {str(begin):.80}. Expected: {position}"
                )
            position = end
        if position != size:
            raise UserError(f"{self.path} is damaged: its tensors have {str(position):.80} bytes, the file {size}.")


def tensor_file(folder):
    """The path of model.safetensors in a folder; raises UserError if the weights are in other files."""
    path = folder / "model.safetensors"
    if path.is_file():
        return path
    if (folder / f"{path.name}.index.json").is_file():
        raise UserError(f"{folder} has its tensors in several files. Save the model again as one model.safetensors.")
    if (folder / "pytorch_model.bin").is_file():
        raise UserError(
            f"{folder} has only pytorch_model.bin, a format that can run code. Save the model as model.safetensors."
        )
    raise UserError(f"{folder} lacks model.safetensors.")


def _naturals(value):
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


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
# What differs in the names of an XLM-RoBERTa from those of a BERT.
XLM_ROBERTA = {
    "bert.": "roberta.",
    "cls.predictions.transform.LayerNorm.": "lm_head.layer_norm.",
    "cls.predictions.transform.": "lm_head.",
    "cls.predictions.bias": "lm_head.bias",
    "classifier.": "classifier.out_proj.",
}
LEAVES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def google_name(path):
    """The name of our weight at `path` in a Google checkpoint."""
    part, leaf = _part_and_leaf(path)
    return "/".join([_looked_up(GOOGLE, part), *leaf])


def hugging_face_name(path, model_type):
    """The name of our weight at `path` in `model.safetensors`, for "bert", "distilbert" or "xlm-roberta"."""
    if model_type == "xlm-roberta":
        name = hugging_face_name(path, "bert")
        name = next((new + name.removeprefix(old) for old, new in XLM_ROBERTA.items() if name.startswith(old)), name)
        return name.replace("roberta.pooler.", "classifier.")
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


def check_shapes(where, shapes, expected):
    """Raises UserError for the first tensor that is missing, extra or of another shape; both are dicts of shapes."""
    for name in sorted(expected.keys() - shapes.keys()):
        raise UserError(f"{where} lacks the tensor {name} {expected[name]}, which its configuration requires.")
    for name in sorted(shapes.keys() - expected.keys()):
        raise UserError(f"{where} has the tensor {quoted(name)} {shapes[name]!s:.80}, which the model does not have.")
    for name, shape in expected.items():
        if shapes[name] != shape:
            raise UserError(f"{where}: {name} has the shape {shapes[name]!s:.80}. The configuration requires {shape}")


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
