"""`keras-attention classify`: labels of texts, of files or of the rows of a table, and the words that decide."""

import sys
import warnings
from pathlib import Path

from keras_attention.cli.encode import note_language
from keras_attention.cli.io.explained_answers import MOST_EXPLAINED
from keras_attention.cli.io.many_texts import (
    check_source,
    check_table,
    hint_at_tables,
    many_rows,
    many_texts,
    report_shielded,
)
from keras_attention.cli.io.terminal import json_text, load, one_output_line, silent_libraries
from keras_attention.data.tables.table import AnsweredTable
from keras_attention.finetuning.settings import DEFAULT_START
from keras_attention.inputs.token_sequences import DROPPED_PART
from keras_attention.support.atomic_files import claim_place
from keras_attention.support.errors import UserError, counted
from keras_attention.visualize.pages import check_page_path
from keras_attention.zoo.registry import check_task, models_with_task, open_entry

FOR_TABLES = ("text", "text_b", "delimiter", "skip_bad_rows", "raw")
FOR_TEXTS = ("table", "explain", "labels")


def classify(arguments):
    """Prints one line per text: its label and the probability; with --top, the K most probable labels.

    With --table, it writes all columns of the table, followed by the label and its probability. For a model that reads
    files, such as pictures, the texts are names of files.
    """
    _check_options(arguments)
    entry = open_entry(arguments.model)
    if not arguments.table:
        check_source(arguments, entry.input.is_file)
    check_task(entry, "classify" if arguments.labels is None else "encode")
    if arguments.attention:
        _check_view(arguments, entry)
    task = {"pair": False, "separator": None} if arguments.labels is not None else entry.config["task"]
    if task.get("kind") == "regression" and (arguments.top, arguments.threshold) != (None, None):
        raise UserError(f"{arguments.model} predicts a number and has no labels: leave out --top and --threshold.")
    if entry.input.is_file:
        _classify_files(arguments, entry)
        return
    if not arguments.table:
        hint_at_tables(arguments)
    table = _read_table(arguments, task) if arguments.table else None
    check = entry.input.check_line if task["pair"] else None
    opened = many_rows(arguments, entry.folder, table) if table else many_texts(arguments, entry.folder, check)
    explained, shown = [], []
    with opened as job:
        if arguments.explain and job.total > MOST_EXPLAINED:
            raise UserError(f"--explain shows at most {MOST_EXPLAINED} texts. Found: {job.total:,}")
        if arguments.attention and job.total > MOST_EXPLAINED:
            raise UserError(f"--attention shows at most {MOST_EXPLAINED} texts. Found: {job.total:,}")
        classifier = load(entry, "classify") if arguments.labels is None else load_zero_shot(entry, arguments.labels)
        job.lost, job.limit = DROPPED_PART[classifier.long_texts], classifier.most_tokens
        for window in job.windows():
            items = [item.texts for item in window.texts] if table else map(classifier.sides, window.texts)
            texts = list(zip(*items, strict=True))
            if arguments.labels is not None and window.first == 1:
                note_language(entry, list(texts[0]))
            options = {"threshold": arguments.threshold, "progress": window.progress}
            answers = classifier.classify(*map(list, texts), **options, return_scores=True)
            if arguments.explain:
                explained += [classifier.explain(*sides).as_json() for sides in zip(*texts, strict=True)]
            if arguments.attention:
                shown += [classifier.attention_view(*sides) for sides in zip(*texts, strict=True)]
            job.write(_lines(arguments, table, window, answers), [answer.truncated for answer in answers])
    report_shielded(table, "labels")
    if arguments.explain:
        _write_page(arguments.explain, explained)
    _save_views(arguments.attention, shown, "text")


def _classify_files(arguments, entry):
    """Prints one line per file, in the order of their names, for a model whose inputs are files."""
    for name in FOR_TEXTS:
        if getattr(arguments, name):
            raise UserError(
                f"--{name} is for texts. {arguments.model} reads files: give their names, or --input FILE with one on "
                "each line."
            )
    warnings.filterwarnings("ignore", module=r"PIL\.")  # about damaged EXIF data, which is ignored
    if hasattr(entry.input, "parts"):  # a file may have several inputs
        arguments.texts = [part for name in arguments.texts or () for part in entry.input.parts(name)]
    shown = []
    with many_texts(arguments, entry.folder, entry.input.check_file) as job:
        if arguments.attention and job.total > MOST_EXPLAINED:
            raise UserError(f"--attention shows at most {MOST_EXPLAINED} files. Found: {job.total:,}")
        classifier, job.unit = load(entry, "classify"), "files"
        for window in job.windows():
            options = {"threshold": arguments.threshold, "progress": window.progress, "return_scores": True}
            answers = classifier.classify(window.texts, **options)
            lines = [
                json_text({"file": name, **classifier.answer_as_json(answer, arguments.top)})
                if arguments.json
                else _line(name, answer, arguments)
                for name, answer in zip(window.texts, answers, strict=True)
            ]
            if arguments.attention:
                shown += [classifier.attention_view(name) for name in window.texts]
            job.write(lines, [answer.truncated for answer in answers])
    _save_views(arguments.attention, shown, "file")


def load_zero_shot(entry, labels):
    """Loads an encoder that classifies by similarity with `labels`, a str of labels separated by commas."""
    encoder = load(entry, "encode")
    from keras_attention.pipelines.classifier import ZeroShotClassifier

    return ZeroShotClassifier(encoder, labels.split(","))


def _check_options(arguments):
    """Raises UserError for options that cannot be combined; sets the default model for --labels."""
    if arguments.top is not None and arguments.top < 1:
        raise UserError(f"--top must be at least 1. Found: {arguments.top}")
    if arguments.model is None and arguments.labels is not None:
        arguments.model = DEFAULT_START
    if arguments.model is None:
        names = ", ".join(models_with_task("classify")) or "none in the zoo"
        raise UserError(f"--model is missing. Choices: {names}; the folder of your own; or --labels A,B with none.")
    if arguments.explain:
        claim_place(check_page_path(arguments.explain))
        if arguments.resume:
            raise UserError("--explain needs all texts at once: leave out --resume.")
    if arguments.attention:
        if arguments.resume:
            raise UserError("--attention needs all texts at once: leave out --resume.")
        if arguments.labels is not None:
            raise UserError("--attention shows how a trained classifier decides: leave out --labels.")
    check_table(arguments, FOR_TABLES)
    if arguments.table and arguments.top is not None:
        raise UserError("--top is for texts. A table gets the label and its probability.")


def _check_view(arguments, entry):
    """Raises UserError unless the file of --attention can be written: a page, or for models of files a picture, too."""
    if entry.input.is_file:
        with silent_libraries():
            from keras_attention.visualize.patch_maps import check_view_path

        check_view_path(arguments.attention)
    else:
        check_page_path(arguments.attention)


def _read_table(arguments, task):
    if task["pair"] != (arguments.text_b is not None):
        received, expected = (
            ("pairs", "give --text-b COLUMN") if task["pair"] else ("single texts", "leave out --text-b")
        )
        raise UserError(f"{arguments.model} classifies {received}: {expected}.")
    options = {"skip_bad_rows": arguments.skip_bad_rows, "delimiter": arguments.delimiter}
    options |= {"encoding": arguments.encoding, "raw": arguments.raw}
    columns = arguments.text or "text", arguments.text_b
    return AnsweredTable(arguments.table, *columns, **options, separator=task["separator"] or "|")


def _lines(arguments, table, window, answers):
    """The output lines for a window."""
    if table is None:
        return [_line(text, answer, arguments) for text, answer in zip(window.texts, answers, strict=True)]
    from keras_attention.pipelines.labels import given_labels

    lines = [table.answered(row, *given_labels(answer)) for row, answer in zip(window.texts, answers, strict=True)]
    return [*(table.head if window.first == 1 else ()), *lines]


def _line(text, answer, arguments):
    if arguments.json:
        from keras_attention.pipelines.labels import classification_as_json

        return json_text({"text": text, **classification_as_json(answer, arguments.top)})
    if not answer.probabilities:  # a regression, or a blank text
        return "" if answer.label is None else f"{answer.label:.4f}"
    if arguments.top:
        best = list(answer.probabilities.items())[: arguments.top]
    elif isinstance(answer.label, list):
        best = [(label, answer.probabilities[label]) for label in answer.label]
    else:
        best = [] if answer.label is None else [(answer.label, answer.probabilities[answer.label])]
    return "\t".join(f"{one_output_line(label, keep='')} {value:.4f}" for label, value in best) or "-"


def _save_views(path, views, what):
    """Writes a page or picture for each text or file, and says where."""
    for place, view in zip(_page_names(path, len(views)), views, strict=True):
        view.save(place)
        print(f"keras-attention: {place}: the attention weights of a {what}", file=sys.stderr)


def _page_names(path, count):
    """The file names of several pages: that of a single one, else with -1, -2, ... before the ending."""
    if count < 2:
        return [path] * count
    path = Path(path)
    return [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, count + 1)]


def _write_page(path, explained):
    from keras_attention.visualize.pages import ExplanationPage

    page = ExplanationPage(explained)
    page.save(path)
    print(f"keras-attention: {path}: {counted(len(explained), 'text')} with their words in colours", file=sys.stderr)
