"""Answers many texts in windows, in constant memory and in the order of the texts."""

import hashlib
import sys
import time
import warnings
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from keras_attention.cli.io.terminal import compiling_note
from keras_attention.cli.io.text_files import (
    answers_to,
    check_no_file_names,
    check_text_name,
    input_lines,
    keyboard_lines,
    standard_input_lines,
)
from keras_attention.data.files import OPENERS, opened
from keras_attention.data.tables.table import JSON, format_of
from keras_attention.inputs.token_sequences import DROPPED_PART, START, TruncatedText
from keras_attention.support.atomic_files import check_place
from keras_attention.support.errors import UserError, counted, one_line
from keras_attention.zoo.entry import MANIFEST


class ProgressLine:
    """Shows how many sentences are done; silent if stderr is not a terminal, and for a single sentence.

    Args:
        stream: text file, stderr by default.
        before: int, sentences done by earlier runs.
    """

    def __init__(self, stream=None, before=0):
        self._before = before
        self._stream = stream or sys.stderr
        self._started = time.monotonic()
        self._shown = False

    def __call__(self, done, total, unit="sentences"):
        if total < 2 or not self._stream.isatty():
            return
        spent = time.monotonic() - self._started
        now = done - self._before
        left = spent / now * (total - done) if now > 0 else 0.0
        bar = "#" * (20 * done // total)
        self._stream.write(f"\r[{bar:<20}] {done}/{total} {unit}, {spent:.0f} s, {left:.0f} s left \x1b[K")
        self._shown = True
        if done >= total:
            self.close()
        self._stream.flush()

    def close(self):
        """Clears the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


WINDOW = 4096  # texts answered together: enough to fill batches with texts of similar length
NO_OPTIONS = (
    "texts",
    "input",
    "table",
    "output",
    "resume",
    "explain",
    "contrast",
    "raw",
    "model",
    "module",
    "function",
    "debug",
    "to",
    "source_language",
    "piped",
)


class Window(NamedTuple):
    """Texts that are answered together.

    Attributes:
        texts: list of str, or of TextRow, see `many_rows`.
        first: int, the number of the first text of the window, counted from 1 over all texts.
        total: int, number of all texts; 1 for typed input.
        progress: callable (texts of the window done, texts of the window).
    """

    texts: list
    first: int
    total: int
    progress: object


class Job:
    """The texts of a command and the output for their answers; created by `many_texts` and `many_rows`.

    Attributes:
        total: int, number of all texts; 1 for typed input.
        answered: int, number of texts answered in this run; after --resume, without those of earlier runs.
        unit: str, what a text is called while progress is shown.
        lost: str, the part of a long text that the model does not read.
        limit: int, the number of tokens that the model reads, for the message about longer texts; or None.
    """

    def __init__(self, texts, total, output, typed=False):
        self.lost, self.limit, self.unit = DROPPED_PART[START], None, "sentences"
        self._texts, self.total, self._output, self._typed = texts, total, output, typed
        self._line = ProgressLine(before=output.done)
        self.answered, self._size, self._cut = 0, 0, []

    def windows(self):
        """Yields each Window. Pass its answers to `write` before you request the next window."""
        if self._typed:
            print("Type a text and press Enter; Ctrl-D ends.", file=sys.stderr)
        try:
            while texts := list(islice(self._texts, 1 if self._typed else WINDOW)):
                first, self._size = self._output.done + 1, len(texts)
                yield Window(texts, first, self.total, self._progress_from(first))
        finally:
            self._line.close()

    def write(self, lines, truncated, notes=()):
        """Writes the answers of the last window.

        Args:
            lines: list of str, or whatever type the output of `answers` takes, see `many_texts`.
            truncated: list of bool, whether each text was truncated.
            notes: list of str, messages for the user.
        """
        first = self._output.done + 1
        self._line.close()
        compiling_note.clear()
        self._cut += [first + i for i, was_cut in enumerate(truncated) if was_cut]
        self._output.write(lines, self._output.done + self._size)
        self.answered += self._size
        if self._typed:
            sys.stdout.flush()
        for note in notes:
            print(f"keras-attention: {one_line(note)}", file=sys.stderr)

    def report_truncated(self):
        """Reports the number of truncated texts, once for all windows."""
        if self._cut:
            limit = "" if self.limit is None else f" ({self.limit:,})"
            print(
                f"keras-attention: {len(self._cut):,} of {self.answered:,} texts (the first is number "
                f"{self._cut[0]:,}) have more tokens than this model reads{limit}: their {self.lost} was left out.",
                file=sys.stderr,
            )

    def report_output(self, path):
        """Reports the number of texts whose answers are in the file at `path`, if it is not None."""
        if path:
            print(f"keras-attention: {path}: {counted(self._output.done, 'answer')}", file=sys.stderr)

    def _progress_from(self, first):
        if self.total == 1:  # a long text may be read in parts
            return lambda done, total: self._line(done, total, "parts of the text")
        return lambda done, _: self._line(first - 1 + done, self.total, self.unit)


def check_source(arguments, files=False):
    """Raises UserError if texts come from two sources, or if --resume lacks --input or --output.

    Args:
        arguments: argparse.Namespace.
        files: bool. Whether the texts are names of files.
    """
    if not files:
        check_no_file_names(arguments.texts, "--input", "table" in arguments)
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    if arguments.resume and not (arguments.input and arguments.output):
        raise UserError("--resume continues an interrupted run from --input to --output. Give both.")


def check_table(arguments, options):
    """Raises UserError for options of tables without --table, other inputs beside it, or an output of another format.

    Args:
        arguments: argparse.Namespace.
        options: tuple of str, the names of the options that need --table.
    """
    if not arguments.table:
        for name in options:
            if getattr(arguments, name):
                raise UserError(f"--{name.replace('_', '-')} is for tables: give --table FILE too.")
        return
    if arguments.texts or arguments.input:
        raise UserError("Give texts as arguments, by --input or by --table, not by two of them.")
    if arguments.resume and not arguments.output:
        raise UserError("--resume continues an interrupted run from --table to --output. Give both.")
    if arguments.output:
        _check_table_name(arguments)


def _check_table_name(arguments):
    """Raises UserError if the name of the output suggests a format other than that of the table."""
    if Path(arguments.output).suffix.lower() in OPENERS:
        raise UserError(f"{arguments.output} would not be compressed. Choose a name without that ending.")
    check_text_name(arguments.output, "CSV, TSV (.tsv, .tab, .txt) and JSON lines (.jsonl, .ndjson), as the table is")
    expected, received = format_of(arguments.table), format_of(arguments.output)
    received = JSON if Path(arguments.output).suffix.lower() == ".json" else received
    if arguments.delimiter is None and None not in (expected, received) and expected != received:
        raise UserError(
            f"The output has the format of the table: {arguments.output} would not be what its name says. "
            f"Expected: a name like {Path(arguments.table).name}"
        )


def hint_at_tables(arguments):
    """Prints a hint that --input is read line by line if its file name is that of a table."""
    kind = format_of(arguments.input) if arguments.input else None
    if kind in (",", "json"):
        print(
            f"keras-attention: {arguments.input} is read as lines of text. For its columns: "
            f"--table {arguments.input} --text COLUMN",
            file=sys.stderr,
        )


def report_shielded(table, what):
    """Reports how many cells of an AnsweredTable, named by `what`, a spreadsheet would have taken for formulas."""
    if table and table.shielded:
        print(
            f"keras-attention: {table.shielded:,} {what} have a ' before them, because a spreadsheet would take them "
            "for formulas. --raw leaves it out.",
            file=sys.stderr,
        )


def piped_lines(arguments):
    """The lines of standard input, which is read once: list of str, kept as `piped` of the command's arguments."""
    if getattr(arguments, "piped", None) is None:
        arguments.piped = standard_input_lines(arguments.encoding)
    return arguments.piped


@contextmanager
def many_texts(arguments, folder, check=None, answers=None):
    """Opens the texts of a command and the output for their answers. With --input and --output, a run can be resumed.

    Without texts and without --input, the texts are read from standard input; typed texts are answered one by one.

    Args:
        arguments: argparse.Namespace with texts, input, output and resume, and the options of the answers.
        folder: Path of the model.
        check: callable(number, text) or None; raises UserError for an invalid text. Called before any text is answered.
        answers: callable(number of texts) -> context manager of an output with the interface of AnswerFile, or None for
            lines of text.

    Yields:
        Job. All texts have been read once by then.

    Raises:
        UserError: if the texts cannot be read or the answers cannot be written.
    """
    if arguments.output:
        check_place(arguments.output)
        if not answers:
            check_text_name(arguments.output)
    if not arguments.texts and not arguments.input and sys.stdin.isatty():
        with answers_to(arguments.output, None, False) as output, _cut_texts_told_once():
            job = Job(keyboard_lines(), 1, output, typed=True)
            yield job
        job.report_truncated()
        job.report_output(arguments.output)
        return
    with input_lines(arguments.input, arguments.encoding) as lines:
        texts = None if lines else arguments.texts or piped_lines(arguments)
        lines = lines or partial(iter, texts)
        total, digest = 0, hashlib.sha256()
        for total, text in enumerate(lines(), start=1):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
            if check:
                check(total, text)
        facts = _job(arguments, folder, digest.hexdigest()) if arguments.input and arguments.output else None
        place = answers(total) if answers else answers_to(arguments.output, facts, arguments.resume)
        with place as output, _cut_texts_told_once():
            job = Job(islice(lines(), output.done, None), total, output)
            yield job
    job.report_truncated()
    job.report_output(arguments.output if answers is None else None)


@contextmanager
def many_rows(arguments, folder, table):
    """The rows of an AnsweredTable as a Job; see `many_texts`. With --output an interrupted run can be resumed."""
    if table.skipped:
        print(f"keras-attention: {table.path}: {table.summary()}", file=sys.stderr)
    facts = _job(arguments, folder, table.sha256) if arguments.output else None
    with answers_to(arguments.output, facts, arguments.resume) as output, _cut_texts_told_once():
        job = Job(islice(table.rows(), output.done, None), table.count, output)
        yield job
    job.report_truncated()
    job.report_output(arguments.output)


@contextmanager
def _cut_texts_told_once():
    """Ignores the warnings of each window about truncated texts, because `Job.report_truncated` reports them once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedText)
        yield


def _job(arguments, folder, texts):
    """A dict of everything that the answers depend on: the model, the sha256 of the texts, and the options."""
    with opened(folder / MANIFEST) as manifest:
        model = hashlib.file_digest(manifest, "sha256").hexdigest()
    options = {name: value for name, value in vars(arguments).items() if name not in NO_OPTIONS}
    return {"model": model, "input": texts, **options, "window": WINDOW}
