"""Exports a translator as a SavedModel that takes strings and returns strings, scores and attention weights."""

import tensorflow as tf

from keras_attention import __version__
from keras_attention.errors import UserError
from keras_attention.export.graph_translator import GraphTranslator
from keras_attention.export.signatures import TEXT, listing

README = """{name} as a TensorFlow SavedModel: text in, text out. It needs tensorflow and tensorflow-text.

    import tensorflow as tf
    import tensorflow_text  # knows the operations that read the text

    model = tf.saved_model.load("{name}")
    answers = model.signatures["serving_default"](texts=tf.constant([{example!r}]))
    print(answers["text"].numpy()[0].decode(), answers["score"].numpy()[0])

B sentences, T tokens of the longest answer, S tokens of the longest sentence.

{listing}

Beam size {beam_size}, length penalty {length_penalty}. Written by keras_attention {version}, TensorFlow {tensorflow}.
"""


def export_saved_model(folder, translator, name, **search):
    """Writes what `Translator.exports` says; README.txt translates the first example of the card."""
    examples = translator.entry.metrics["examples"] if translator.entry else ()
    texts = [example["source"] for example in examples] or ["A dog runs."]
    return write_saved_model(folder, translator, name=name, example=texts[0], **search)


def write_saved_model(folder, translator, *, name, example="A dog runs.", beam_size=None, length_penalty=None):
    """Writes a SavedModel with the signature "serving_default", and a README.txt that explains it.

    Args:
        folder: Path, created if missing; existing content is replaced.
        translator: Translator.
        name: str, name of the folder in README.txt.
        example: str, the sentence that README.txt translates.
        beam_size, length_penalty: see `GraphTranslator`.

    Returns:
        Dict like `signatures.TEXT`, of the tensors that this model has.

    Raises:
        UserError: if a setting is out of range, or TensorFlow cannot write.

    Example:
        write_saved_model(Path("model"), keras_attention.load("rnn_attention_dates"), name="model", example="3.4.05")
    """
    graph = GraphTranslator(translator, beam_size, length_penalty)
    try:
        tf.saved_model.save(graph, str(folder), signatures={"serving_default": graph.translate})
    except tf.errors.OpError as error:
        raise UserError(f"TensorFlow cannot write the model: {error.message}") from error
    written = graph.translate.get_concrete_function().structured_outputs
    signature = {**TEXT, "outputs": {key: value for key, value in TEXT["outputs"].items() if key in written}}
    text = README.format(
        name=name,
        example=example,
        listing=listing(signature),
        version=__version__,
        tensorflow=tf.__version__,
        **{setting: graph.settings[setting] for setting in ("beam_size", "length_penalty")},
    )
    (folder / "README.txt").write_text(text, encoding="utf-8")
    return signature
