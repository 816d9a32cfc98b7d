"""Answers many texts in windows: flat memory, same order."""

import hashlib
import sys
import time
import warnings
from functools import partial
from itertools import islice
from typing import NamedTuple

from keras_attention.cli.io.answer_file import answers_to
from keras_attention.cli.io.text_files import input_lines, standard_input_lines
from keras_attention.data.file_bytes import opened
from keras_attention.errors import UserError
from keras_attention.pipelines.texts import TruncatedText
from keras_attention.whole_file import check_place
from keras_attention.zoo.manifest import MANIFEST


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

    def __call__(self, done, total):
        if total < 2 or not self._stream.isatty():
            return
        spent = time.monotonic() - self._started
        now = done - self._before
        left = spent / now * (total - done) if now > 0 else 0.0
        bar = "#" * (20 * done // total)
        self._stream.write(f"\r[{bar:<20}] {done}/{total} sentences, {spent:.0f} s, {left:.0f} s left \x1b[K")
        self._shown = True
        if done >= total:
            self.close()
        self._stream.flush()

    def close(self):
        """Clears the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._shown = False


WINDOW = 4096  # texts answered together: enough to fill batches with texts of like length
NO_OPTIONS = ("texts", "input", "output", "resume", "model", "module", "function", "debug")


class Answered(NamedTuple):
    """The answers to a window of texts.

    Attributes:
        lines: list of str, output lines.
        truncated: list of bool, whether each text was truncated.
        notes: list of str, messages for the user.
    """

    lines: list
    truncated: list
    notes: list = ()


def check_source(arguments):
    """Raises UserError if texts come from two sources, or if --resume lacks --input or --output."""
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    if arguments.resume and not (arguments.input and arguments.output):
        raise UserError("--resume continues an interrupted run from --input to --output. Give both.")


def write_answers(arguments, folder, prepare, check=None):
    """Answers all texts; with --input and --output an interrupted run can be resumed.

    Args:
        arguments: argparse.Namespace with texts, input, output and resume, and the options of the answers.
        folder: Path of the model.
        prepare: callable() -> answer; loads the model. Then answer(texts, first, total, progress) gives Answered, where
            `first` is the number of the first text, from 1 on, and `progress` is called with (done, in all).
        check: callable(number, text) or None; raises UserError for a text that cannot be answered, before the work.

    Raises:
        UserError: if the texts cannot be read or the answers cannot be written.
    """
    if arguments.output:
        check_place(arguments.output)
    with input_lines(arguments.input) as lines:
        texts = None if lines else arguments.texts or standard_input_lines()
        lines = lines or partial(iter, texts)
        total, digest = 0, hashlib.sha256()
        for total, text in enumerate(lines(), start=1):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
            if check:
                check(total, text)
        job = _job(arguments, folder, digest) if arguments.input and arguments.output else None
        with answers_to(arguments.output, job, arguments.resume) as output:
            cut = _answer_windows(prepare(), lines, total, output)
    if cut:
        print(
            f"keras-attention: {len(cut):,} of {total:,} texts (the first is number {cut[0]:,}) have more tokens than "
            "this model reads: only their beginning was read.",
            file=sys.stderr,
        )


def _answer_windows(answer, lines, total, output):
    """Answers what `output` lacks, window by window; returns the numbers of the texts that were cut."""
    cut = []
    progress = ProgressLine(before=output.done)
    waiting = islice(lines(), output.done, None)
    try:
        while window := list(islice(waiting, WINDOW)):
            first = output.done + 1
            answered = _answered(answer, window, first, total, progress)
            cut += [first + i for i, was_cut in enumerate(answered.truncated) if was_cut]
            output.write(answered.lines, output.done + len(window))
            if answered.notes:
                progress.close()
            for note in answered.notes:
                print(f"keras-attention: {note}", file=sys.stderr)
    finally:
        progress.close()
    return cut


def _answered(answer, window, first, total, progress):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedText)  # told once for all windows
        return answer(window, first, total, lambda done, _: progress(first - 1 + done, total))


def _job(arguments, folder, texts):
    """What the answers depend on: the model, the texts (their digest) and the options."""
    with opened(folder / MANIFEST) as manifest:
        model = hashlib.file_digest(manifest, "sha256").hexdigest()
    options = {name: value for name, value in vars(arguments).items() if name not in NO_OPTIONS}
    return {"model": model, "input": texts.hexdigest(), **options, "window": WINDOW}
