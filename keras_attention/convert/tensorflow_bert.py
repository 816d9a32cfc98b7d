"""Reads BERT checkpoints through TensorFlow and Keras: those of Google for TensorFlow 1, and presets of keras-hub."""

import math

import h5py

from keras_attention.convert.published_settings import (
    GOOGLE_ACTIVATIONS,
    MAX_HEADS,
    MAX_INNER,
    MAX_LAYERS,
    MAX_LENGTH,
    MAX_SEGMENTS,
    MAX_VOCABULARY,
    MAX_WIDTH,
    Converted,
    Fields,
    Vectors,
    bert_settings,
    looks_lowercase,
    read_vocabulary,
)
from keras_attention.convert.published_weights import build_filled, check_shapes, google_name, matrix_shapes
from keras_attention.support.errors import UserError, quoted

LEFT_OUT = ("bert/pooler/", "cls/seq_relationship/")  # in Google's checkpoints
DTYPES = ("float32", "float16", "bfloat16")


def load_google(folder):
    """Reads `bert_config.json`, `vocab.txt` and the checkpoint of a folder; see Converted.

    Lower-casing is inferred from the vocabulary, because no file states it. "gelu" in the authors' code is the tanh
    approximation.
    """
    fields = Fields(folder / "bert_config.json")
    settings = bert_settings(fields, GOOGLE_ACTIVATIONS)
    pieces = read_vocabulary(folder / "vocab.txt", settings["vocabulary_size"])
    reader, path = _opened(folder)
    shapes = {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items() if _of_model(name)}
    kind = "masked_lm" if "cls/predictions/output_bias" in shapes else "encoder"
    left_out = tuple(sorted(name for name in shapes if name.startswith(LEFT_OUT)))
    expected = {google_name(place): shape for place, shape in matrix_shapes(kind, settings).items()}
    kept_shapes = {name: shape for name, shape in shapes.items() if name not in left_out}
    check_shapes(path, kept_shapes, expected)
    dtypes = reader.get_variable_to_dtype_map()
    for name in expected:
        if dtypes[name].name not in DTYPES:
            raise UserError(f"{path}: {name} has dtype {dtypes[name].name}. Supported: {', '.join(DTYPES)}")

    def read(place):
        try:
            return reader.get_tensor(google_name(place)).astype("float32")
        except Exception as error:  # any error that TensorFlow raises for damaged files
            raise UserError(f"{path} is damaged: {google_name(place)} cannot be read: {error}") from error

    model = build_filled(kind, settings, read)
    return Converted(model, pieces, looks_lowercase(pieces), None, "Google", left_out, Vectors())


def _opened(folder):
    """TensorFlow's reader for the only checkpoint in the folder, and its path."""
    import tensorflow as tf

    paths = sorted(folder.glob("*.index"))
    if len(paths) != 1:
        received = ", ".join(path.name for path in paths) or "none"
        raise UserError(f"{folder} must hold one checkpoint such as bert_model.ckpt.index. Found: {received}")
    path = paths[0].with_suffix("")
    try:
        return tf.train.load_checkpoint(str(path)), path
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(f"{path} is not a valid TensorFlow checkpoint: {error}") from error


def _of_model(name):
    """Whether a tensor belongs to the model and not to the optimizer."""
    return name != "global_step" and not name.endswith(("/adam_m", "/adam_v"))


VOCABULARY = "assets/tokenizer/vocabulary.txt"
MAX_ITEMS = 10_000  # of groups and arrays in model.weights.h5
# Our names to those of keras-hub; the rest of a name is the same.
NAMES = {
    "encoder/embedding_norm": "embeddings_layer_norm",
    "/self_attention/": "/self_attention_layer/",
    "/self_attention_norm": "/self_attention_layer_norm",
    "/feed_forward/intermediate_dense": "/feedforward_intermediate_dense",
    "/feed_forward/output_dense": "/feedforward_output_dense",
    "/feed_forward_norm": "/feedforward_layer_norm",
    "encoder/layer_": "transformer_layer_",
    "encoder/": "",
}
LEFT_OUT_OF_PRESET = ("pooled_dense/bias", "pooled_dense/kernel")


def load_keras_preset(folder, fields):
    """Reads the preset of a `BertBackbone`; `fields` are the Fields of its `config.json`; see Converted.

    The other files are `tokenizer.json`, `model.weights.h5` and `assets/tokenizer/vocabulary.txt`.

    keras-hub's class loads the weights. No object described by the files is created, because a `config.json` could
    name any class. As in BERT, lower-casing also removes accents; keras-hub's tokenizer keeps them.
    """
    import keras_hub

    fields.choice("registered_name", {"keras_hub>BertBackbone": "BertBackbone"})
    sizes = _sizes(fields.inside("config"))
    tokenizer = Fields(folder / "tokenizer.json")
    tokenizer.choice("registered_name", {"keras_hub>BertTokenizer": "BertTokenizer"})
    lowercase = _lowercase(tokenizer.inside("config"))
    pieces = read_vocabulary(folder / VOCABULARY, sizes["vocabulary_size"])
    settings = {name: size for name, size in sizes.items() if name != "max_sequence_length"}
    settings |= {"max_length": sizes["max_sequence_length"], "activation": "gelu_approximate"}
    path = folder / "model.weights.h5"
    pooler = sizes["hidden_dim"] * (sizes["hidden_dim"] + 1)
    _check_arrays(path, pooler + sum(map(math.prod, matrix_shapes("encoder", settings).values())))
    backbone = keras_hub.models.BertBackbone(**sizes, dtype="float32")
    try:
        backbone.load_weights(path)
    except Exception as error:  # any error that Keras raises for a damaged file
        raise UserError(f"{path} does not match config.json: {str(error).splitlines()[0]:.200}") from error
    arrays = {weight.path: weight for weight in backbone.weights}
    model = build_filled("encoder", settings, lambda path: arrays[_keras_name(path)].numpy())
    return Converted(model, pieces, lowercase, None, "keras-hub", LEFT_OUT_OF_PRESET, Vectors())


def _sizes(fields):
    """The arguments of a BertBackbone."""
    sizes = {
        "vocabulary_size": fields.whole("vocabulary_size", 5, MAX_VOCABULARY),
        "num_layers": fields.whole("num_layers", 1, MAX_LAYERS),
        "num_heads": fields.whole("num_heads", 1, MAX_HEADS),
        "hidden_dim": fields.whole("hidden_dim", 1, MAX_WIDTH),
        "intermediate_dim": fields.whole("intermediate_dim", 1, MAX_INNER),
        "max_sequence_length": fields.whole("max_sequence_length", 1, MAX_LENGTH),
        "num_segments": fields.whole("num_segments", 1, MAX_SEGMENTS),
        "dropout": fields.number("dropout", 0, 0.99, default=0.1),
    }
    if sizes["hidden_dim"] % sizes["num_heads"]:
        fields.refuse("num_heads", f"a divisor of the width {sizes['hidden_dim']}")
    if isinstance(fields.values.get("dtype"), dict):
        fields.inside("dtype").inside("config").choice("name", dict.fromkeys(DTYPES, ""))
    return sizes


def _lowercase(fields):
    """Whether the tokenizer lower-cases texts; raises UserError if it splits texts differently from BERT's."""
    fields.only("vocabulary", None)
    fields.only("suffix_indicator", "##")
    fields.only("oov_token", "[UNK]")
    for name in ("split", "split_on_cjk"):
        fields.only(name, True)
    return fields.truth("lowercase")


def _check_arrays(path, needed):
    """Raises UserError for external links, and if the number of values differs from what config.json requires.

    Keras itself would follow links, and build any size that config.json requests.
    """
    total, items = 0, 0
    try:
        with h5py.File(path, "r") as file:
            groups = [file]
            while groups:
                group = groups.pop()
                for name in group:
                    items += 1
                    item = group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None
                    if isinstance(item, h5py.Group) and items <= MAX_ITEMS:
                        groups.append(item)
                        continue
                    if not isinstance(item, h5py.Dataset) or item.is_virtual or item.external:
                        raise UserError(f"{path}: {quoted(name)} is not a plain array or group.")
                    total += item.size
    except OSError as error:
        raise UserError(f"{path} is not a valid weights file: {error}") from error
    if total != needed:
        raise UserError(f"{path} holds {total} numbers. config.json needs {needed}")


def _keras_name(path):
    for ours, theirs in NAMES.items():
        path = path.replace(ours, theirs)
    return path
