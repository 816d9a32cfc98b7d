"""What Keras itself can export: the network without its texts."""

import tensorflow as tf

from keras_attention.errors import UserError
from keras_attention.export.signatures import token_signature

FILES = {"litert": "model.tflite", "onnx": "model.onnx"}


def write_keras_format(folder, translator, file_format):
    """Writes the network in a format of Keras's own export, and beside it its tokenizers.

    Text and search stay outside: the file takes ids and returns logits, see `signatures.token_signature`. LiteRT wants
    fixed sizes, so there it is one sentence, padded to the model's longest; and its own operations only, because its
    runtimes come without TensorFlow's.

    Args:
        folder: Path of a folder that exists.
        translator: Translator.
        file_format: "litert" or "onnx".

    Returns:
        Dict, the signature.

    Raises:
        UserError: if Keras cannot carry this model; says why.
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
            f"Keras's {file_format} export cannot carry this {architecture}: {first_line(error)} "
            "Expected: --format saved_model, which carries every translation model."
        ) from error
    translator.source_tokenizer.save(folder / "source_tokenizer")
    translator.target_tokenizer.save(folder / "target_tokenizer")
    return token_signature(*sizes) if batch else token_signature()


def first_line(error):
    """What an error says, without its details, as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0][:300] if lines else type(error).__name__
    return text if text.endswith(".") else f"{text}."
