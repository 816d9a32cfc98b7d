"""Runs exported BERTs, to measure how much weights of 8 bits change their answers."""

from keras_attention.export.keras_formats import FILES
from keras_attention.pipelines.compiled import padded


class FileNetwork:
    """The network of an exported BERT, which runs without Keras. It has the `run` of `CompiledBert`.

    Args:
        folder: Path, written by `keras_formats.export_bert`.
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

    def run(self, sequences, progress=None, masked_positions=None):
        """The output for each of N TokenSequences, one after the other: list of N tuples of one array.

        Args:
            sequences, progress: see `CompiledBert.run`.
            masked_positions: int array (N, P), the positions in each sequence whose outputs are wanted, or None.
        """
        found = []
        for number, sequence in enumerate(sequences):
            output = self._call(padded([sequence], self._length or len(sequence.token_ids), self._names))[0]
            found.append((output if masked_positions is None else output[masked_positions[number]],))
            if progress:
                progress(number + 1, len(sequences))
        return found


def without_and_with(folder, file_format, pipeline):
    """The pipeline with its own network, and with that of a file; a bag of words, which no file has, is left out.

    Args:
        folder, file_format: see `FileNetwork`.
        pipeline: TextEncoder, or a pipeline that is one.

    Returns:
        Pair of pipelines.
    """
    return pipeline.with_network(pipeline.compiled), pipeline.with_network(FileNetwork(folder, file_format))


def change_of_answers(exact, rounded, examples):
    """How much the answers to the examples of a card change.

    Args:
        exact, rounded: pipelines, see `without_and_with`.
        examples: list of dict with `source` and, of pairs, `source_b`.

    Returns:
        Dict from the name of a measure to a float; empty without examples.
    """
    if not examples:
        return {}
    texts = [example["source"] for example in examples]
    texts_b = [example["source_b"] for example in examples] if "source_b" in examples[0] else None
    return exact.agreement(rounded, texts, texts_b)


def _interpreter(path):
    """An interpreter of LiteRT; that of TensorFlow, which will be removed, only if there is no other."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        from tensorflow.lite import Interpreter
    return Interpreter(path)
