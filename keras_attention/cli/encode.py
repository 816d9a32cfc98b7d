"""`keras-attention encode` and `keras-attention similar`: texts as vectors, and the texts nearest to a query."""

import heapq
import sys
from contextlib import contextmanager, nullcontext

from keras_attention.cli.io.many_texts import many_texts
from keras_attention.cli.io.terminal import json_text, safe, silent_libraries
from keras_attention.errors import UserError
from keras_attention.whole_file import whole_file
from keras_attention.zoo.registry import open_entry


def encode(arguments):
    """Writes the vector of each text: with --output as a NumPy file (N, D), otherwise as lines of numbers."""
    _check(arguments)
    if arguments.output and not arguments.output.endswith(".npy"):
        raise UserError(f"The name of a file of vectors must end with .npy. Received: {arguments.output!r}")
    if arguments.output and arguments.json:
        raise UserError("--json prints the vectors, --output writes them as a NumPy file. Give one of them.")
    entry = open_entry(arguments.model, "encode")
    width = entry.config["model"]["hidden_dim"]
    answers = (lambda count: _vector_file(arguments.output, count, width)) if arguments.output else None
    with many_texts(arguments, entry.folder, answers=answers) as job:
        encoder = load(entry)
        for window in job.windows():
            found = encoder.encode(window.texts, progress=window.progress)
            lines = found.pooled if answers else _lines(arguments, window.texts, found)
            job.write(lines, found.truncated)
    if answers:
        print(f"{arguments.output}: {job.total:,} vectors of {width} numbers (float32)")


def similar(arguments):
    """Prints the texts that are most like each query: the cosine of their vectors, and the text."""
    _check(arguments)
    if arguments.top < 1:
        raise UserError(f"--top must be at least 1. Found: {arguments.top}")
    if _is_typed(arguments):
        raise UserError("There are no texts to compare with. Give them as arguments or by --input.")
    entry = open_entry(arguments.model, "encode")
    with many_texts(arguments, entry.folder, answers=lambda count: nullcontext(_Vectors())) as job:
        encoder = load(entry)
        from keras_attention.pipelines.text_encoder import unit

        queries = encoder.directions(arguments.query)  # (Q, D)
        best = [[] for _ in arguments.query]  # lists of (score, -number, text), the best first
        for window in job.windows():
            found = encoder.encode(window.texts, progress=window.progress)
            scores = queries @ unit(found.pooled).T  # (Q, N)
            for heap, row in zip(best, scores.tolist(), strict=True):
                ranked = zip(row, range(-window.first, -window.first - len(row), -1), window.texts, strict=True)
                heap[:] = heapq.nlargest(arguments.top, [*heap, *ranked])
            job.write([], found.truncated)
    for query, nearest in zip(arguments.query, best, strict=True):
        if arguments.json:
            texts = [{"line": -number, "text": text, "score": score} for score, number, text in nearest]
            print(json_text({"query": query, "similar": texts}))
            continue
        if len(best) > 1:
            print(safe(f"{query}:"))
        for score, _, text in nearest:
            print(safe(f"{score:.4f}\t{text}", keep="\t"))


def load(entry):
    """The encoder of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    return load_pipeline(entry, "encode")


def _check(arguments):
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    if arguments.output and _is_typed(arguments):
        raise UserError("--output needs texts as arguments, by --input or from standard input.")


def _is_typed(arguments):
    """Whether the texts would come from the keyboard, one by one."""
    return not arguments.texts and not arguments.input and sys.stdin.isatty()


def _lines(arguments, texts, found):
    """One line for each vector."""
    vectors = zip(texts, found.pooled.tolist(), found.truncated, strict=True)
    if arguments.json:
        return [json_text({"text": text, "vector": vector, "truncated": cut}) for text, vector, cut in vectors]
    return [" ".join(f"{number:.6f}" for number in vector) for _, vector, _ in vectors]


class _Vectors:
    """Has the interface of AnswerFile, but takes arrays instead of lines."""

    def __init__(self, write=None):
        self._write, self.done = write, 0

    def write(self, vectors, done):
        if self._write:
            self._write(vectors.astype("<f4").tobytes())
        self.done = done


@contextmanager
def _vector_file(path, count, width):
    """A NumPy file of float32 (count, width), written whole or not at all, in constant memory."""
    from numpy.lib.format import write_array_header_1_0

    with whole_file(path, "wb") as file:
        write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (count, width)})
        yield _Vectors(file.write)
