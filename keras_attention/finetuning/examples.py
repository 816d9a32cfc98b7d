"""Labelled texts: the user's tables, generated ones, and texts encoded as token ids for machines without TensorFlow."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.labelled_files import kind_of_names, labelled_files, named_file, named_files
from keras_attention.data.series.series_files import read_series
from keras_attention.data.tables.label_task import encode_labels, respelled
from keras_attention.data.tables.table import read_table
from keras_attention.support.atomic_files import check_holds_only, whole_folder
from keras_attention.support.errors import UNREADABLE, UserError, one_line, parse_json, quoted
from keras_attention.support.flags import setting
from keras_attention.training.devices import dtype_policy
from keras_attention.zoo.schema import architecture_of


@dataclass
class Examples:
    """Labelled texts, or other inputs.

    Attributes:
        texts: list of str; for other kinds of input, of names of files or what the kind reads, see `inputs/`.
        labels: list of str, as in the table; the labels of a multilabel row are joined by the separator.
        texts_b: list of str, the second texts of pairs, or None.
        lines: list of int, the line of each row in its file, or None.
        where: str, the file, or another name, for messages.
        label_column: str or None, the name of the label column, for messages.
    """

    texts: list
    labels: list
    texts_b: list | None = None
    lines: list | None = None
    where: str = "the examples"
    label_column: str | None = None

    def __len__(self):
        return len(self.texts)

    def some(self, numbers):
        """The examples with these numbers, in this order."""

        columns = {name: getattr(self, name) for name in ("texts", "labels", "texts_b", "lines")}
        kept = {name: values and [values[number] for number in numbers] for name, values in columns.items()}
        return replace(self, **kept)

    @property
    def all_texts(self):
        """list, the texts and behind them the second texts of pairs."""
        return [*self.texts, *(self.texts_b or ())]

    @property
    def keys(self):
        """One hashable for each row; equal ones have the same input."""
        texts = [each if isinstance(each, str) else np.asarray(each).tobytes() for each in self.texts]
        return texts if self.texts_b is None else list(zip(texts, self.texts_b, strict=True))

    def first(self, count):
        """The first `count` examples, or all if there are fewer."""
        return self.some(range(min(count, len(self))))

    def place(self, row):
        """The file, line and column of the label of a row, for messages."""
        column = "" if self.label_column is None else f", column {self.label_column!r}"
        return f"{self.where}, " + (f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}") + column

    def respelled(self, task):
        """The examples with the labels of rows with a single label as the Task spells them."""
        return replace(self, labels=respelled(self.labels, task))

    def targets(self, task):
        """The labels as numbers, see `label_task.encode_labels`."""
        return encode_labels(self.labels, task, self.lines, self.where)


def read_examples(path, text, label, text_b=None, **options):
    """Reads Examples from a table, see `data.tables.table.read_table`; returns them and a summary for the user."""
    table = read_table(path, text, label, text_b, **options)
    examples = Examples(table.texts, table.labels, table.texts_b, table.lines, str(path), label)
    return examples, f"{path}: {table.summary()}"


SERIES = "series"  # the kind of input that tables may have, beside texts


def read_series_examples(path, label=None):
    """Reads Examples from a file of series, see `data.series.series_files.read_series`; and a summary for the user."""
    table = read_series(path, label)
    return Examples(table.series, table.labels, None, table.lines, str(path), label), f"{path}: {table.summary()}"


def read_folder(folder, kinds, kind=None, skip_bad_files=False):
    """Reads Examples from a folder of files, see `data.labelled_files.labelled_files`.

    Args:
        folder: str or Path.
        kinds: sequence of kinds of input, see `inputs/`.
        kind: str, the `plural` of one of them, or None.
        skip_bad_files: bool. Skip and count files that cannot be read instead of stopping at the first one.

    Returns:
        Examples, the `plural` of their kind, and a summary for the user.

    Raises:
        UserError: if there are no such files, or one of them cannot be read.
    """
    files = labelled_files(folder, _endings(kinds, kind), kind)
    examples = Examples(files.files, files.labels, None, None, str(folder))
    if not skip_bad_files:
        return examples, files.kind, files.summary
    kept = _readable(examples, kinds, files.kind)
    return kept, files.kind, f"{files.summary}; skipped {len(examples) - len(kept):,} that cannot be read"


def _readable(examples, kinds, kind):
    """The Examples whose files can be read; the others may be None, for files that do not exist."""
    reader, kept = next(each for each in kinds if each.plural == kind).for_sources([]), []
    for number, file in enumerate(examples.texts):
        with suppress(UserError):
            if file is not None:
                reader.read(file)
                kept.append(number)
    if not kept:
        raise UserError(f"{examples.where}: none of {len(examples):,} files can be read.")
    return examples.some(kept)


def _endings(kinds, kind):
    """The endings of the files of each kind of input: dict."""
    # Tables may stand beside pictures and sounds, so files are series only if that is asked.
    return {each.plural: each.suffixes for each in kinds if kind == each.plural or each.plural != SERIES}


def kind_of_files(examples, kinds):
    """The `plural` of the kind of files whose names are the texts of Examples, or None; see `kind_of_names`."""
    return kind_of_names(examples.where, examples.texts, _endings(kinds, None))


def with_files(examples, kinds, kind=None, skip_bad_files=False):
    """The kind and the Examples of a table whose texts are names of files, from the folder of the table.

    Args:
        examples: Examples from `read_examples`.
        kinds, kind, skip_bad_files: see `read_folder`. Names of files that do not exist are skipped as well.

    Returns:
        The `plural` of the kind, and Examples with the paths as texts; None and the Examples if these are texts.

    Raises:
        UserError: if a file does not exist, see `data.labelled_files.named_files`; or none can be read.
    """
    kind = kind or kind_of_files(examples, kinds)
    if kind is None:
        return None, examples
    names, endings = examples.texts, _endings(kinds, kind)[kind]
    if skip_bad_files:
        files = [named_file(examples.where, name, endings) for name in names]
        return kind, _readable(replace(examples, texts=files), kinds, kind)
    try:
        files = named_files(examples.where, names, kind, endings, examples.lines)
    except UserError as error:
        raise UserError(f"{error} --skip-bad-rows leaves such rows out.") from error
    return kind, replace(examples, texts=files)


def is_folder(source):
    """Whether it is the name of a folder."""
    return isinstance(source, (str, Path)) and Path(source).is_dir()


def is_path(source, kind=None):
    """Whether it is the name of a folder of files, or of a table of series."""
    return is_folder(source) or (kind == SERIES and isinstance(source, (str, Path)))


def files_and_labels(folder, start, kind=None, label=None):
    """Names of files and their labels, two lists of str, from a folder for a network that reads files.

    Args:
        folder: str or Path; for series also that of a table.
        start: `starting_model.Start`.
        kind: str, the `plural` of a kind of input, or None.
        label: str, the column of the labels of a table of series, or None.

    Raises:
        UserError: see `read_folder`; also if the network reads texts.
    """
    if not start.reads_files:
        raise UserError(f"{folder} is a folder of files, but a {start.architecture.name} reads texts.")
    known = start.entry.input.plural if start.entry else kind
    if known == SERIES and not is_folder(folder):
        examples, _ = read_series_examples(folder, label)
        return examples.texts, examples.labels
    examples, _, _ = read_folder(folder, start.architecture.task.inputs, known)
    return examples.texts, examples.labels


SEPARATOR = "|"  # between the labels of a text with several labels
LISTS = (list, tuple, set, frozenset, np.ndarray)  # the types of several labels of a text, in Python


def given_examples(texts, labels, texts_b, lists, where="the examples"):
    """Makes Examples from Python lists.

    Args:
        texts, labels, texts_b: see `keras_attention.finetune`.
        lists: bool. Whether each label is a list of labels.
        where: str, for messages.

    Returns:
        Examples; the labels of lists are joined by `SEPARATOR`.

    Raises:
        UserError: if the numbers of texts and labels differ, only some labels are lists, or a label of a list holds
            the separator.
    """
    if len(texts) != len(labels) or (texts_b is not None and len(texts) != len(texts_b)):
        lengths = [len(part) for part in (texts, labels, texts_b) if part is not None]
        raise UserError(f"There must be one label for each text. Received: {' and '.join(map(str, lengths))}")
    for label in labels:
        if isinstance(label, LISTS) != lists:
            expected = "a list of labels" if lists else "a single label"
            raise UserError(f"A label of {where} is {quoted(label)}. Expected: {expected}, like other labels.")
    for name in (name for label in labels if lists for name in label):
        if SEPARATOR in str(name):
            raise UserError(f"A label must not contain {SEPARATOR!r}. Received: {name!r}")
    labels = [SEPARATOR.join(map(str, label)) if lists else str(label) for label in labels]
    return Examples(list(texts), labels, None if texts_b is None else list(texts_b), None, where)


DATES, TEST_DATES, SMOKE_DATES = 4000, 1000, 40  # rows, half of them without a date


@dataclass(frozen=True)
class TableSettings:
    """Base class for the `Config` of a recipe: the tables."""

    table: str = setting("", "CSV, TSV or JSONL with a header; default: generated dates and other texts")
    text: str = setting("text", "column of the texts")
    label: str = setting("label", "column of the labels")
    text_b: str | None = setting(None, "column of the second texts, for text pairs")
    validation: str = setting("", "table that chooses the best weights; default: a share of the rows")
    validation_split: float = setting(
        0.1, "share of the rows for validation, without --validation", aliases=("validation_share",)
    )
    test: str = setting("", "table for the report; default: the validation rows")
    encode_to: str = setting("", "only write the encoded texts to this path, for a machine without TensorFlow")
    encoded: str = setting("", "train on texts encoded with --encode-to, and write only the weights")
    separator: str | None = setting(None, "character between the labels of a row, for several labels per text")
    encoding: str | None = setting(None, "encoding of the tables, such as windows-1252; default: UTF-8")

    def __post_init__(self):
        for name in ("teacher", "freeze", "lora", "contrastive", "network"):
            if getattr(self, name, None):
                raise ValueError(f"`{name}` is an option of `keras-attention finetune`, not of the recipe.")

    @property
    def origin(self):
        """The origin of the rows, for the card."""
        names = [Path(path).name for path in (self.table, self.test) if path] or ["dates and other texts, generated"]
        return [{"name": ", ".join(names), "terms": "as stated by its owner" if self.table else "no terms", "link": ""}]


def load_tables(config):
    """Reads the tables, or generates dates and other texts.

    Args:
        config: TableSettings and RunSettings; with `smoke`, only a few dates are generated.

    Returns:
        Examples to train on, to validate with, and to test with; the latter two may be None.

    Raises:
        UserError: if a table cannot be read.
    """
    if not config.table:
        train, test = dates(DATES, config.seed, "train"), dates(TEST_DATES, config.seed, "test")
        short = range(0, DATES, DATES // SMOKE_DATES), range(0, TEST_DATES, TEST_DATES // SMOKE_DATES)
        return (train.some(short[0]), None, test.some(short[1])) if config.smoke else (train, None, test)
    examples, several = [], config.separator is not None
    for path in (config.table, config.validation, config.test):
        rows, summary = None, None
        if path:
            rows, summary = read_examples(
                path, config.text, config.label, config.text_b, encoding=config.encoding, empty_labels=several
            )
            print(*map(one_line, summary.splitlines()), sep="\n")
        examples.append(rows)
    return examples


def dates(rows, seed, split):
    """Generates equal numbers of dates and other texts.

    Args:
        rows: int > 0, even.
        seed: int.
        split: "train" or "test".

    Returns:
        Examples.
    """
    from keras_attention.data.dates import generate_dates, generate_non_dates  # here: Babel loads large tables

    texts = [*generate_dates(rows // 2, seed, split)[0], *generate_non_dates(rows // 2, seed + (split == "test"))]
    return Examples(texts, ["date"] * (rows // 2) + ["no date"] * (rows // 2), where=f"{split} dates")


ROWS, MODEL, WEIGHTS = "rows.npz", "model.json", "weights.npz"


class IdSequence(NamedTuple):
    """`token_ids` and `segment_ids` are int arrays (T,)."""

    token_ids: np.ndarray
    segment_ids: np.ndarray


def save_encoded_examples(folder, prepared):
    """Writes the model, its weights and the encoded examples.

    Args:
        folder: str or Path; an earlier one is replaced.
        prepared: Prepared, see `preparation.Prepared`.

    Raises:
        UserError: if the folder holds anything else.
    """
    model = prepared.classifier.model
    facts = {"kind": prepared.rows.task.kind, "architecture": type(model).__name__, "model": model.settings}
    arrays = {name: np.concatenate([getattr(one, name) for one in prepared.sequences]) for name in IdSequence._fields}
    arrays |= {"ends": np.cumsum([len(one.token_ids) for one in prepared.sequences]), "targets": prepared.rows.targets}
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder, partial(check_holds_only, names=(ROWS, MODEL, WEIGHTS))) as new:
        (new / MODEL).write_text(json.dumps(facts), encoding="utf-8")
        np.savez(new / WEIGHTS, *model.get_weights())
        np.savez_compressed(new / ROWS, **arrays)


def load_encoded_examples(folder, settings):
    """Reads a folder written by `save_encoded_examples`; does not need TensorFlow.

    Args:
        folder: str or Path.
        settings: FinetuneSettings; only the number format is used.

    Returns:
        FinetunableNetwork, built, with the initial weights; list of IdSequence; targets; and the kind of the task.

    Raises:
        UserError: if a file is missing or invalid.
    """
    folder = Path(folder)
    try:
        facts = parse_json((folder / MODEL).read_bytes())
        model = architecture_of(facts, str(folder)).model_class()(**facts["model"], dtype=dtype_policy(settings))
        model.build()
        with np.load(folder / WEIGHTS, allow_pickle=False) as file:
            model.set_weights([file[f"arr_{number}"] for number in range(len(file.files))])
        with np.load(folder / ROWS, allow_pickle=False) as file:
            sides = [np.split(file[name], file["ends"][:-1]) for name in IdSequence._fields]
            targets = file["targets"]
    except UNREADABLE as error:
        raise UserError(
            f"{folder}: no encoded examples ({error}). Expected: a folder written with --encode-to."
        ) from error
    return model, [IdSequence(*ids) for ids in zip(*sides, strict=True)], targets, facts["kind"]
