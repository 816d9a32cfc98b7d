"""`keras-attention classify`, `encode`, `similar` and `fill-mask`: what BERTs answer about texts."""

import heapq
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

from keras_attention.cli.io.many_texts import check_source, many_rows, many_texts
from keras_attention.cli.io.terminal import json_text, load, safe
from keras_attention.data.files import OPENERS
from keras_attention.data.tables.table import AnsweredTable, format_of
from keras_attention.errors import BAD_USAGE, UserError, quoted
from keras_attention.finetuning.settings import DEFAULT_START
from keras_attention.visualize.pages import check_page_path
from keras_attention.whole_file import claim_place, whole_file
from keras_attention.zoo.registry import models_with_task, open_entry

MOST_EXPLAINED = 100  # texts on one page
FOR_TABLES = ("text", "text_b", "delimiter", "skip_bad_rows")


def classify(arguments):
    """Prints one line per text: its label and the probability; with --top, the K most probable labels.

    With --table, it writes all columns of the table, followed by the label and its probability.
    """
    _check_options(arguments)
    entry = open_entry(arguments.model, "encode" if arguments.labels else "classify")
    task = {"pair": False, "separator": None} if arguments.labels else entry.config["task"]
    if task.get("kind") == "regression" and (arguments.top, arguments.threshold) != (None, None):
        raise UserError(f"{arguments.model} predicts a number and has no labels: leave out --top and --threshold.")
    table = _read_table(arguments, task) if arguments.table else None
    check = _check_pair if task["pair"] else None
    opened = many_rows(arguments, entry.folder, table) if table else many_texts(arguments, entry.folder, check)
    explained = []
    with opened as job:
        if arguments.explain and job.total > MOST_EXPLAINED:
            raise UserError(f"--explain shows at most {MOST_EXPLAINED} texts. Found: {job.total:,}")
        classifier = load_zero_shot(entry, arguments.labels) if arguments.labels else load(entry, "classify")
        for window in job.windows():
            items = [item.texts for item in window.texts] if table else map(classifier.sides, window.texts)
            texts = list(zip(*items, strict=True))
            options = {"threshold": arguments.threshold, "progress": window.progress}
            answers = classifier.classify(*map(list, texts), **options, return_scores=True)
            if arguments.explain:
                explained += [classifier.explain(*sides).as_json() for sides in zip(*texts, strict=True)]
            job.write(_lines(arguments, table, window, answers), [answer.truncated for answer in answers])
    if arguments.explain:
        _write_page(arguments.explain, explained)


def load_zero_shot(entry, labels):
    """Loads an encoder that classifies by similarity with `labels`, a str of labels separated by commas."""
    encoder = load(entry, "encode")
    from keras_attention.pipelines.classifier import ZeroShotClassifier

    return ZeroShotClassifier(encoder, labels.split(","))


def _check_options(arguments):
    """Raises UserError for options that cannot be combined; sets the default model for --labels."""
    if arguments.top is not None and arguments.top < 1:
        raise UserError(f"--top must be at least 1. Found: {arguments.top}")
    if arguments.model is None and arguments.labels:
        arguments.model = DEFAULT_START
    if arguments.model is None:
        names = ", ".join(models_with_task("classify")) or "none in the zoo"
        raise UserError(f"--model is missing. Choices: {names}; the folder of your own; or --labels A,B with none.")
    if arguments.explain:
        claim_place(check_page_path(arguments.explain))
        if arguments.resume:
            raise UserError("--explain needs all texts at once: leave out --resume.")
    if not arguments.table:
        for name in FOR_TABLES:
            if getattr(arguments, name):
                raise UserError(f"--{name.replace('_', '-')} is for tables: give --table FILE too.")
        check_source(arguments)
        _hint_at_tables(arguments)
        return
    if arguments.texts or arguments.input:
        raise UserError("Give texts as arguments, by --input or by --table, not by two of them.")
    if arguments.top is not None:
        raise UserError("--top is for texts. A table gets the label and its probability.")
    if arguments.resume and not arguments.output:
        raise UserError("--resume continues an interrupted run from --table to --output. Give both.")
    _check_output(arguments)


def _check_output(arguments):
    """Raises UserError if the name of the output suggests a format other than that of the table."""
    if not arguments.output:
        return
    if Path(arguments.output).suffix.lower() in OPENERS:
        raise UserError(f"{arguments.output} would not be compressed. Choose a name without that ending.")
    expected, found = format_of(arguments.table), format_of(arguments.output)
    if arguments.delimiter is None and None not in (expected, found) and expected != found:
        raise UserError(
            f"The output has the format of the table: {arguments.output} would not be what its name says. "
            f"Expected: a name like {Path(arguments.table).name}"
        )


def _hint_at_tables(arguments):
    """Prints a hint that --input is read line by line if its file name is that of a table."""
    kind = format_of(arguments.input) if arguments.input else None
    if kind in (",", "json"):
        print(
            f"keras-attention: {arguments.input} is read as lines of text. For its columns: "
            f"--table {arguments.input} --text COLUMN",
            file=sys.stderr,
        )


def _read_table(arguments, task):
    if task["pair"] != (arguments.text_b is not None):
        found, expected = ("pairs", "give --text-b COLUMN") if task["pair"] else ("single texts", "leave out --text-b")
        raise UserError(f"{arguments.model} classifies {found}: {expected}.")
    options = {"skip_bad_rows": arguments.skip_bad_rows, "delimiter": arguments.delimiter}
    columns = arguments.text or "text", arguments.text_b
    return AnsweredTable(arguments.table, *columns, **options, separator=task["separator"] or "|")


def _lines(arguments, table, window, answers):
    """The output lines for a window."""
    if table is None:
        return [_line(text, answer, arguments) for text, answer in zip(window.texts, answers, strict=True)]
    from keras_attention.pipelines.classifier import given_labels

    lines = [table.answered(row, *given_labels(answer)) for row, answer in zip(window.texts, answers, strict=True)]
    return [*(table.head if window.first == 1 else ()), *lines]


def _check_pair(number, text):
    """Raises UserError unless a tab splits the text into two."""
    if text.count("\t") != 1:
        raise UserError(
            f"This model classifies text pairs. Text {number} has {text.count(chr(9))} tabs: {quoted(text)}. "
            "Expected: two texts with one tab between them."
        )


def _line(text, answer, arguments):
    if arguments.json:
        from keras_attention.pipelines.classifier import classification_as_json

        return json_text({"text": text, **classification_as_json(answer, arguments.top)})
    if not answer.probabilities:
        return f"{answer.label:.4f}"
    if arguments.top:
        best = list(answer.probabilities.items())[: arguments.top]
    elif isinstance(answer.label, list):
        best = [(label, answer.probabilities[label]) for label in answer.label]
    else:
        best = [] if answer.label is None else [(answer.label, answer.probabilities[answer.label])]
    return "\t".join(f"{label} {value:.4f}" for label, value in best) or "-"


def _write_page(path, explained):
    from keras_attention.visualize.pages import ExplanationPage

    page = ExplanationPage(explained)
    page.save(path)
    print(f"keras-attention: {path}: {len(explained)} texts with their words in colours", file=sys.stderr)


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
            found = encoder.encode(window.texts, progress=window.progress)
            lines = found.pooled if answers else _vector_lines(arguments, window.texts, found)
            job.write(lines, found.truncated)
    if answers:
        print(f"{arguments.output}: {job.total:,} vectors of {width} numbers (float32)")


def similar(arguments):
    """Prints the texts that are most like each query: the cosine of their vectors, and the text."""
    _check_source(arguments)
    if arguments.top < 1:
        raise UserError(f"--top must be at least 1. Found: {arguments.top}")
    if _is_typed(arguments):
        raise UserError("There are no texts to compare with. Give them as arguments or by --input.")
    entry = open_entry(arguments.model, "encode")
    with many_texts(arguments, entry.folder, answers=lambda count: nullcontext(_Vectors())) as job:
        encoder = load(entry, "encode")
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


def _check_source(arguments):
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    if arguments.output and _is_typed(arguments):
        raise UserError("--output needs texts as arguments, by --input or from standard input.")


def _is_typed(arguments):
    """Whether the texts would come from the keyboard, one by one."""
    return not arguments.texts and not arguments.input and sys.stdin.isatty()


def _vector_lines(arguments, texts, found):
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


def fill_mask(arguments):
    """Prints the best fillings of each text, one per line: joint probability of the words, and the text.

    Returns:
        int, 2 if a text could not be answered, else 0. Each such text is reported on standard error.
    """
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
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
                truncated.append(fillings[0].truncated)
            job.write(lines, truncated, notes)
    return code


def _fillings(text, fillings, as_json):
    if as_json:
        return [json_text({"text": text, "fillings": [filling._asdict() for filling in fillings]})]
    return [f"{filling.score:.4f}\t{filling.text}" for filling in fillings]
