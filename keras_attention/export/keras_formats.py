"""Keras's own export formats: the network without tokenizers and search."""

import tensorflow as tf

from keras_attention.errors import UserError
from keras_attention.export.signatures import token_signature


def export_litert(folder, translator, name):
    """Writes a LiteRT file, see `Translator.exports`."""
    return write_keras_format(folder, translator, "litert")


def export_onnx(folder, translator, name):
    """Writes an ONNX file, see `Translator.exports`."""
    return write_keras_format(folder, translator, "onnx")


FILES = {"litert": "model.tflite", "onnx": "model.onnx"}


def write_keras_format(folder, translator, file_format):
    """Exports the network in one of Keras's formats, with its tokenizers in files beside it.

    The exported file takes token ids and returns logits, see `signatures.token_signature`. For LiteRT the sizes are
    fixed, one sentence padded to the maximum length, and only LiteRT's own operations are used, because its runtimes
    lack those of TensorFlow.

    Args:
        folder: Path of a folder that exists.
        translator: Translator.
        file_format: "litert" or "onnx".

    Returns:
        Dict, the signature.

    Raises:
        UserError: if Keras cannot export this model, with the reason.
    """
    sizes, options = (None, None, None), {}
    if file_format == "litert":
        sizes = (1, translator.decoding["max_source_length"], translator.decoding["max_length"])
        options = {"target_spec": {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}}
    batch, *lengths = sizes
    names = ("source_ids", "target_ids")
    specs = {name: tf.TensorSpec((batch, size), tf.int32, name=name) for name, size in zip(names, lengths, strict=True)}
    path = str(folder / FILES[file_format])
    try:
        translator.model.export(path, format=file_format, input_signature=[specs], verbose=False, **options)
    except Exception as error:  # the converters raise what they please
        architecture = type(translator.model).__name__
        raise UserError(
            f"Keras's {file_format} export does not support this {architecture}: {first_line(error)} "
            "Use --format saved_model, which supports every translation model."
        ) from error
    translator.source_tokenizer.save(folder / "source_tokenizer")
    translator.target_tokenizer.save(folder / "target_tokenizer")
    return token_signature(*sizes) if batch else token_signature()


def first_line(error):
    """The first line of an error message as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0][:300] if lines else type(error).__name__
    return text if text.endswith(".") else f"{text}."
