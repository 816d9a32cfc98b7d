"""Exports a pipeline as a SavedModel that takes strings and returns its answers as strings and numbers."""

import tensorflow as tf

from keras_attention import __version__
from keras_attention.errors import UserError
from keras_attention.export.graph_bert import GraphClassifier, GraphEncoder, GraphFiller
from keras_attention.export.graph_writers import GraphTranslator, GraphWriter
from keras_attention.export.signatures import CONTINUED, FILLINGS, TEXT, VECTORS, classes, listing

README = """{name} as a TensorFlow SavedModel: text in, answers out. It needs tensorflow and tensorflow-text.

    import tensorflow as tf
    import tensorflow_text  # registers the operations that read the text

    model = tf.saved_model.load("{name}")
    answers = model.signatures["serving_default"]({inputs})
    print({shown})

{sizes}

{listing}

{settings}Written by keras_attention {version}, TensorFlow {tensorflow}.
"""


def export_saved_model(folder, translator, name, **search):
    """Writes the SavedModel of `Translator.exports`; README.txt translates the first example of the card."""
    examples = translator.entry.metrics["examples"] if translator.entry else ()
    texts = [example["source"] for example in examples] or ["A dog runs."]
    return write_saved_model(folder, translator, name=name, example=texts[0], **search)


def write_saved_model(folder, translator, *, name, example="A dog runs.", beam_size=None, length_penalty=None):
    """Writes a translator with the signature "serving_default", and a README.txt that explains it.

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
    written = graph.translate.get_concrete_function().structured_outputs
    signature = {**TEXT, "outputs": {key: value for key, value in TEXT["outputs"].items() if key in written}}
    return _write(
        folder,
        graph,
        graph.translate,
        signature,
        name=name,
        examples={"texts": example},
        shown='answers["text"].numpy()[0].decode(), answers["score"].numpy()[0]',
        sizes="B sentences, T tokens of the longest answer, S tokens of the longest sentence.",
        settings="Beam size {beam_size}, length penalty {length_penalty}. ".format(**graph.settings),
    )


def export_classifier(folder, classifier, name):
    """Writes a Classifier, see `GraphClassifier`; returns its signature."""
    graph, task = GraphClassifier(classifier), classifier.task
    if task["kind"] == "regression":
        shown = 'answers["value"].numpy()'
    else:
        shown = 'answers["label"].numpy()[0].decode(), answers["probabilities"].numpy()[0, 0]'
    sizes, examples = "B texts, K labels.", _examples(classifier)
    return _write(folder, graph, graph.answer, classes(task), name=name, examples=examples, shown=shown, sizes=sizes)


def export_encoder(folder, encoder, name):
    """Writes a TextEncoder, see `GraphEncoder`; returns its signature."""
    graph = GraphEncoder(encoder)
    shown, sizes = 'answers["vectors"].numpy().shape', f"B texts, D = {encoder.encoder.hidden_dim} numbers."
    given = {"name": name, "examples": {"texts": "A dog runs."}, "shown": shown, "sizes": sizes}
    return _write(folder, graph, graph.answer, VECTORS, **given)


def export_filler(folder, filler, name):
    """Writes a MaskFiller, see `GraphFiller`; returns its signature."""
    graph = GraphFiller(filler)
    shown, sizes = 'answers["fillings"].numpy()[0, 0].decode()', "B texts, G gaps of the text with the most."
    given = {"name": name, "examples": {"texts": "A [MASK] runs."}, "shown": shown, "sizes": sizes}
    return _write(folder, graph, graph.answer, FILLINGS, **given)


def export_writer(folder, generator, name):
    """Writes a TextGenerator, see `GraphWriter`; returns its signature."""
    graph = GraphWriter(generator)
    shown, sizes = 'answers["text"].numpy()[0].decode()', f"B texts. At most {graph.room} tokens are read and written."
    examples = {"texts": "The", "max_tokens": 20, "temperature": 0.8, "seed": 0}
    return _write(folder, graph, graph.answer, CONTINUED, name=name, examples=examples, shown=shown, sizes=sizes)


def _examples(classifier):
    """Dict from input name to text: the first example of the card, or a default."""
    found = (classifier.entry.metrics["examples"] if classifier.entry else []) or [{"source": "A dog runs."}]
    given = {"texts": found[0]["source"]}
    return given | {"texts_b": found[0].get("source_b", "A cat sits.")} if classifier.task["pair"] else given


def _write(folder, graph, function, signature, *, name, examples, shown, sizes, settings=""):
    """Writes a graph with its function as "serving_default" and README.txt; returns the signature."""
    try:
        tf.saved_model.save(graph, str(folder), signatures={"serving_default": function})
    except tf.errors.OpError as error:
        raise UserError(f"TensorFlow cannot write the model: {error.message}") from error
    text = README.format(
        name=name,
        inputs=", ".join(
            f"{key}=tf.constant([{given!r}])" if isinstance(given, str) else f"{key}=tf.constant({given})"
            for key, given in examples.items()
        ),
        shown=shown,
        sizes=sizes,
        settings=settings,
        listing=listing(signature),
        version=__version__,
        tensorflow=tf.__version__,
    )
    (folder / "README.txt").write_text(text, encoding="utf-8")
    return signature
