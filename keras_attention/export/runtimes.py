"""The network for other runtimes: LiteRT and ONNX, written and run without tokenizers and search, and CTranslate2."""

from importlib.util import find_spec

import numpy as np
import tensorflow as tf

from keras_attention import __version__
from keras_attention.export.signatures import PIECES, listing, sequence_signature, token_signature
from keras_attention.inputs.token_sequences import TOKEN_PADDING
from keras_attention.runtime.compiled_forward import stacked
from keras_attention.runtime.ctranslate2_engine import write_ctranslate2
from keras_attention.support.errors import UserError

FILES = {"litert": "model.tflite", "onnx": "model.onnx"}
NEEDED = {"litert": (), "onnx": ("onnx", "tf2onnx")}  # packages that Keras needs


def export_litert(folder, translator, name):
    """Writes a LiteRT file, see `export.WRITERS`."""
    return export_translator(folder, translator, "litert")


def export_onnx(folder, translator, name):
    """Writes an ONNX file, see `export.WRITERS`."""
    return export_translator(folder, translator, "onnx")


def export_bert_litert(folder, pipeline, name, int8=False):
    """Writes a LiteRT file, see `export.WRITERS`."""
    return export_bert(folder, pipeline, "litert", int8)


def export_bert_onnx(folder, pipeline, name, int8=False):
    """Writes an ONNX file, see `export.WRITERS`."""
    return export_bert(folder, pipeline, "onnx", int8)


def export_translator(folder, translator, file_format):
    """Writes the network of a Translator, which takes token ids and returns logits, and its tokenizers beside it.

    For LiteRT the sizes are fixed: one sentence padded to the maximum length.

    Args:
        folder: Path of a folder that exists.
        translator: Translator.
        file_format: "litert" or "onnx".

    Returns:
        Dict, the signature, see `export.token_signature`.

    Raises:
        UserError: if Keras cannot export this model, with the reason.
    """
    sizes = (None, None, None)
    if file_format == "litert":
        sizes = (1, translator.decoding["max_source_length"], translator.decoding["max_length"])
    batch, sources, targets = sizes
    write_network(
        folder, translator.model, file_format, {"source_ids": (batch, sources), "target_ids": (batch, targets)}
    )
    translator.source_tokenizer.save(folder / "source_tokenizer")
    translator.target_tokenizer.save(folder / "target_tokenizer")
    return token_signature(*sizes) if batch else token_signature()


def export_bert(folder, pipeline, file_format, int8=False):
    """Writes the network of a BERT and its tokenizer; see `export_translator`, and `export.sequence_signature`.

    With `int8` (bool), the weights are integers of 8 bits, a quarter of the size.
    """
    segments = pipeline.encoder.num_segments > 1
    shape = (1, pipeline.max_tokens) if file_format == "litert" else (None, None)
    names = ("token_ids", "segment_ids") if segments else ("token_ids",)
    write_network(folder, pipeline.model, file_format, dict.fromkeys(names, shape), int8)
    pipeline.tokenizer.save(folder / "tokenizer")
    sizes = dict(zip(("batch", "tokens"), shape, strict=True)) if shape[0] else {}
    return sequence_signature(**sizes, segments=segments, output=pipeline.network_output)


def write_network(folder, model, file_format, shapes, int8=False):
    """Exports a network in one of Keras's formats; for LiteRT, only with LiteRT's built-in operations.

    LiteRT runtimes do not include TensorFlow's operations.

    Args:
        folder: Path.
        model: keras.Model, built.
        file_format: "litert" or "onnx".
        shapes: dict from the name of an input of int32 to its shape.
        int8: bool. Whether to store the weights as integers of 8 bits.

    Raises:
        UserError: if a package is missing, or Keras cannot export this model, with the reason.
    """
    needed = (*NEEDED[file_format], *["onnxruntime"] * (int8 and file_format == "onnx"))
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise UserError(f"--format {file_format} needs other packages: pip install {' '.join(missing)}")
    options = {}
    if file_format == "litert":
        options = {"target_spec": {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}}
        options |= {"optimizations": [tf.lite.Optimize.DEFAULT]} if int8 else {}
    specs = {name: tf.TensorSpec(shape, tf.int32, name=name) for name, shape in shapes.items()}
    path = folder / FILES[file_format]
    try:
        if file_format == "onnx":
            register_erfc()
        model.export(str(path), format=file_format, input_signature=[specs], verbose=False, **options)
        if file_format == "onnx" and int8:
            quantize_onnx(path)
    except Exception as error:  # the converters raise all kinds of exceptions
        raise UserError(
            f"Keras's {file_format} export does not support this {type(model).__name__}: {first_line(error)} "
            "Use --format saved_model, which supports every model."
        ) from error


def quantize_onnx(path):
    """Stores the weights of an ONNX file (Path) as integers of 8 bits; activations are quantized at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    exact = path.rename(path.with_name("float32.onnx"))
    quantize_dynamic(exact, path, weight_type=QuantType.QInt8)
    exact.unlink()


def register_erfc():
    """Teaches tf2onnx the operation Erfc, erfc(x) = 1 - erf(x), which TensorFlow's exact GELU uses.

    tf2onnx 1.17 copies the unknown operation into the file, which no runtime then loads.
    """
    from tf2onnx.handler import tf_op
    from tf2onnx.utils import make_name

    if any("Erfc" in known for known in tf_op.get_opsets().get("", ())):
        return

    class Erfc:
        @classmethod
        def version_9(cls, graph, node, **options):
            (dtype,), (shape,) = node.output_dtypes, node.output_shapes
            inputs, outputs = node.input, node.output
            graph.remove_node(node.name)
            erf = graph.make_node("Erf", inputs, dtypes=[dtype], shapes=[shape])
            one = graph.make_const(make_name("one"), np.ones((), "float32"))
            names = {"name": node.name, "outputs": outputs}
            graph.make_node("Sub", [one.output[0], erf.output[0]], dtypes=[dtype], shapes=[shape], **names)

    tf_op("Erfc")(Erfc)


def first_line(error):
    """The first line of an error message as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0][:300] if lines else type(error).__name__
    return text if text.endswith(".") else f"{text}."


class FileNetwork:
    """The network of an exported BERT, which runs without Keras. Its `run` is like that of `CompiledForward`.

    Args:
        folder: Path, written by `export_bert`.
        file_format: "litert" or "onnx".
    """

    def __init__(self, folder, file_format):
        path = str(folder / FILES[file_format])
        self._length = None  # of all sequences, if it is fixed
        if file_format == "onnx":
            import onnxruntime

            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            self._names = [tensor.name for tensor in session.get_inputs()]
            self._call = lambda inputs: session.run(None, inputs)[0]
        else:
            network = _interpreter(path).get_signature_runner("serving_default")
            shapes = {name: tensor["shape"] for name, tensor in network.get_input_details().items()}
            self._names, self._length = list(shapes), int(next(iter(shapes.values()))[1])
            self._call = lambda inputs: next(iter(network(**inputs).values()))

    def run(self, examples, progress=None):
        """The output for each of N examples, one after the other: list of N tuples of one array.

        Args:
            examples, progress: see `CompiledForward.run`. If they have `masked_positions` (P,), only the outputs at
                these positions are returned.
        """
        results = []
        for number, example in enumerate(examples, start=1):
            shape = (self._length or len(example["token_ids"]),)
            output = self._call(stacked([example], dict.fromkeys(self._names, shape), TOKEN_PADDING))[0]
            results.append((output[example["masked_positions"]] if "masked_positions" in example else output,))
            if progress:
                progress(number, len(examples))
        return results


def without_and_with(folder, file_format, pipeline):
    """The pipeline with its own network, and with that of a file; both without a bag of words, which no file contains.

    Args:
        folder, file_format: see `FileNetwork`.
        pipeline: TextEncoder or a subclass.

    Returns:
        Pair of pipelines.
    """
    return pipeline.with_network(pipeline.compiled), pipeline.with_network(FileNetwork(folder, file_format))


def change_of_answers(exact, rounded, examples):
    """How much the answers to the examples of a card change.

    Args:
        exact, rounded: pipelines, see `without_and_with`.
        examples: list of dict with `source` and, for pairs, `source_b`.

    Returns:
        Dict from the name of a measure to a float; empty without examples.
    """
    if not examples:
        return {}
    texts = [example["source"] for example in examples]
    texts_b = [example["source_b"] for example in examples] if "source_b" in examples[0] else None
    return exact.agreement(rounded, texts, texts_b)


def _interpreter(path):
    """LiteRT's interpreter, or, if it is not installed, TensorFlow's, which will be removed in a later version."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        Interpreter = tf.lite.Interpreter  # loaded on access: `from tensorflow.lite import` does not find it
    return Interpreter(path)


README = """{name} for CTranslate2: pieces in, pieces out. It needs ctranslate2, and the tokenizers beside it.

    import ctranslate2

    translator = ctranslate2.Translator("{name}", intra_threads=1)
    pieces = {pieces}
    found = translator.translate_batch([pieces], beam_size={beam_size}, patience=2, length_penalty=1)
    print(found[0].hypotheses[0])

{tokenizers}

{listing}

CTranslate2 ranks by log probability / length^length_penalty, keras_attention by log probability /
((5 + length) / 6)^length_penalty: with equal numbers, answers may differ. `keras-attention translate --engine
ctranslate2` uses the second rule. Written by keras_attention {version}.
"""
SENTENCEPIECE = """source_tokenizer/tokenizer.model and target_tokenizer/tokenizer.model are SentencePiece models: their
pieces with "</s>" at the end are the input; `decode_pieces` makes text of the output."""
OTHERS = 'source_tokenizer and target_tokenizer are tokenizers of keras_attention; the input ends with "</s>".'


def export_ctranslate2(folder, translator, name, quantization=None):
    """Writes the format "ctranslate2" of `export.WRITERS`.

    Args:
        folder: Path of an empty folder for the files.
        translator: Translator of a Transformer.
        name: str, name of the folder in README.txt.
        quantization: see `write_ctranslate2`.

    Returns:
        Dict, the signature, see `export.signatures.PIECES`.

    Raises:
        UserError: if ctranslate2 is not installed, or the model is not a Transformer.
    """
    write_ctranslate2(folder, translator, quantization)
    translator.source_tokenizer.save(folder / "source_tokenizer")
    translator.target_tokenizer.save(folder / "target_tokenizer")
    examples = translator.entry.metrics["examples"] if translator.entry else ()
    texts = [example["source"] for example in examples] or ["A dog runs."]
    (ids,), _ = translator.encode(texts[:1], translator.decoding["max_source_length"])
    both = all((folder / side / "tokenizer.model").exists() for side in ("source_tokenizer", "target_tokenizer"))
    text = README.format(
        name=name,
        pieces=translator.source_tokenizer.tokens(ids),
        beam_size=translator.decoding["beam_size"],
        tokenizers=SENTENCEPIECE if both else OTHERS,
        listing=listing(PIECES),
        version=__version__,
    )
    (folder / "README.txt").write_text(text, encoding="utf-8")
    return PIECES
