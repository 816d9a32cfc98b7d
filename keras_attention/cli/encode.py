"""`keras-attention encode`, `similar` and `fill-mask`: the vectors of texts, and masked words."""

import heapq
import sys
from contextlib import contextmanager, nullcontext

from keras_attention.cli.io.many_texts import many_texts
from keras_attention.cli.io.terminal import json_text, load, one_output_line, safe
from keras_attention.cli.io.text_files import check_no_file_names
from keras_attention.finetuning.settings import DEFAULT_START, MULTILINGUAL, MULTILINGUAL_START
from keras_attention.pipelines import languages
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import BAD_USAGE, UserError, counted
from keras_attention.zoo.registry import open_entry


def encode(arguments):
    """Writes the vector of each text: with --output as a NumPy file (N, D), otherwise as lines of numbers."""
    _check_source(arguments)
    if arguments.output and not arguments.output.endswith(".npy"):
        raise UserError(f"The name of a file of vectors must end with .npy. Received: {arguments.output!r}")
    if arguments.output and arguments.json:
        raise UserError("--json prints the vectors, --output writes them as a NumPy file. Give one of them.")
    entry = open_entry(arguments.model, "encode")
    width = entry.config["model"]["hidden_dim"]
    answers = (lambda count: _vector_file(arguments.output, count, width)) if arguments.output else None
    with many_texts(arguments, entry.folder, answers=answers) as job:
        encoder = load(entry, "encode")
        for window in job.windows():
            if window.first == 1:
                note_language(entry, window.texts)
            vectors = encoder.encode(window.texts, progress=window.progress)
            lines = vectors.pooled if answers else _vector_lines(arguments, window.texts, vectors)
            job.write(lines, vectors.truncated)
    if answers:
        print(safe(f"{arguments.output}: {counted(job.total, 'vector')} of {width} numbers (float32)"))


def similar(arguments):
    """Prints the texts, with --vectors the words, that are most like each query, after the cosine of their vectors."""
    _check_source(arguments)
    if arguments.top < 1:
        raise UserError(f"--top must be at least 1. Found: {arguments.top}")
    if arguments.vectors:
        return _similar_words(arguments)
    if _is_typed(arguments):
        raise UserError("There are no texts to compare with. Give them as arguments or by --input.")
    entry = open_entry(arguments.model, "encode")
    with many_texts(arguments, entry.folder, answers=lambda count: nullcontext(_Vectors())) as job:
        encoder = load(entry, "encode")
        from keras_attention.pipelines.text_encoder import unit

        queries = encoder.directions(arguments.query)  # (Q, D)
        best = [[] for _ in arguments.query]  # lists of (score, -number, text), the best first
        for window in job.windows():
            if window.first == 1:
                note_language(entry, arguments.query, window.texts)
            vectors = encoder.encode(window.texts, progress=window.progress)
            scores = queries @ unit(vectors.pooled).T  # (Q, N)
            for heap, query, row in zip(best, arguments.query, scores.tolist(), strict=True):
                numbered = zip(row, range(-window.first, -window.first - len(row), -1), window.texts, strict=True)
                ranked = [one for one in numbered if not (is_blank(one[2]) or is_blank(query))]
                heap[:] = heapq.nlargest(arguments.top, [*heap, *ranked])
            job.write([], vectors.truncated)
    for query, nearest in zip(arguments.query, best, strict=True):
        if arguments.json:
            texts = [{"line": -number, "text": text, "score": score} for score, number, text in nearest]
            print(json_text({"query": query, "similar": texts}))
            continue
        if len(best) > 1:
            print(safe(f"{query}:"))
        for score, _, text in nearest:
            print(safe(f"{score:.4f}\t{text}", keep="\t"))


TEXTS_READ = 50  # to find their language


def note_language(entry, *groups):
    """Says on stderr that most texts of a group (list) are in a language which an encoder (Entry) has not learned."""
    known = languages.language_code(entry.config.get("language"))
    for texts in (group[:TEXTS_READ] for group in groups if known):
        others = [text for text in texts if languages.is_in_another_language(text, known)]
        if 2 * len(others) > len(texts):
            break
    else:
        return
    code = languages.detected_language(others)
    better = MULTILINGUAL_START if code in MULTILINGUAL and known == "en" else "hf://intfloat/multilingual-e5-small"
    language, learned = map(languages.language_name, (code, known))
    print(
        f"keras-attention: the texts look {language}, but {entry.name} has learned {learned}. Better: --model {better}",
        file=sys.stderr,
    )


def _similar_words(arguments):
    """Prints the neighbours of each query among the words of a file."""
    if arguments.texts or arguments.input or arguments.model != DEFAULT_START:
        raise UserError("--vectors finds words in its file: leave out TEXT, --input and --model.")
    from keras_attention.data.word_vectors import read_word_vectors

    vectors = read_word_vectors(arguments.vectors)
    answers = [vectors.similar(query, arguments.top) for query in arguments.query]  # all before the first line
    for query, neighbours in zip(arguments.query, answers, strict=True):
        if arguments.json:
            words = [neighbour._asdict() for neighbour in neighbours]
            print(json_text({"query": query, "similar": words}))
            continue
        if len(answers) > 1:
            print(safe(f"{query}:"))
        for word, score in neighbours:
            print(safe(f"{score:.4f}\t{word}", keep="\t"))


def _check_source(arguments):
    check_no_file_names(arguments.texts, "--input")
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    if arguments.output and _is_typed(arguments):
        raise UserError("--output needs texts as arguments, by --input or from standard input.")


def _is_typed(arguments):
    """Whether the texts would come from the keyboard, one by one."""
    return not arguments.texts and not arguments.input and sys.stdin.isatty()


def _vector_lines(arguments, texts, encoded):
    """One line for each vector; it is empty for a blank text."""
    vectors = [
        vector if tokens else None for vector, tokens in zip(encoded.pooled.tolist(), encoded.tokens, strict=True)
    ]
    if arguments.json:
        answers = zip(texts, vectors, encoded.truncated, strict=True)
        return [json_text({"text": text, "vector": vector, "truncated": cut}) for text, vector, cut in answers]
    return [" ".join(f"{number:.6f}" for number in vector or ()) for vector in vectors]


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


def fill_mask(arguments):
    """Prints the best fillings of each text, one per line: joint probability of the words, and the text.

    Returns:
        int, 2 if a text could not be answered, else 0. Each such text is reported on standard error.
    """
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    check_no_file_names(arguments.texts, "--input")
    entry = open_entry(arguments.model, "fill-mask")
    options, code = {"top_k": arguments.top, "max_pieces": arguments.pieces}, 0
    with many_texts(arguments, entry.folder) as job:
        filler = load(entry, "fill-mask")
        filler.fill_mask([], **options)  # raises an error if an option is out of range
        for window in job.windows():
            lines, truncated, notes = [], [], []
            for number, text in enumerate(window.texts, start=window.first):
                try:
                    fillings = filler.fill_mask(text, **options)
                except UserError as error:
                    code = BAD_USAGE
                    notes.append(f"text {number}: {error}")
                    truncated.append(False)
                    continue
                lines += _fillings(text, fillings, arguments.json)
                truncated.append(any(filling.truncated for filling in fillings))
            job.write(lines, truncated, notes)
    return code


def _fillings(text, fillings, as_json):
    if as_json:
        return [json_text({"text": text, "fillings": [filling._asdict() for filling in fillings]})]
    return [one_output_line(f"{filling.score:.4f}\t{filling.text}") for filling in fillings] or [""]
