"""Reads BERT checkpoints of Google for TensorFlow 1."""

from keras_attention.convert.published_settings import GOOGLE_ACTIVATIONS, Converted, Fields, Vectors, bert_settings
from keras_attention.convert.published_weights import build_filled, check_shapes, google_name, matrix_shapes
from keras_attention.convert.vocabulary import looks_lowercase, read_vocabulary
from keras_attention.errors import UserError

LEFT_OUT = ("bert/pooler/", "cls/seq_relationship/")
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
    found = {name: shape for name, shape in shapes.items() if name not in left_out}
    check_shapes(path, found, expected)
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
        found = ", ".join(path.name for path in paths) or "none"
        raise UserError(f"{folder} must hold one checkpoint such as bert_model.ckpt.index. Found: {found}")
    path = paths[0].with_suffix("")
    try:
        return tf.train.load_checkpoint(str(path)), path
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(f"{path} is not a valid TensorFlow checkpoint: {error}") from error


def _of_model(name):
    """Whether a tensor belongs to the model and not to the optimizer."""
    return name != "global_step" and not name.endswith(("/adam_m", "/adam_v"))
