"""Many texts in, their answers out, a window of texts at a time: memory stays flat and the order is kept."""

import hashlib
import sys
import warnings
from itertools import islice
from typing import NamedTuple

from keras_attention.commands.answer_file import answers_to
from keras_attention.commands.progress import ProgressLine
from keras_attention.commands.text_files import standard_input_lines
from keras_attention.data.file_bytes import opened
from keras_attention.data.parallel_text import lines_of
from keras_attention.errors import UserError
from keras_attention.zoo.manifest import MANIFEST
from keras_attention.zoo.texts import TruncatedText

WINDOW = 4096  # texts answered together: enough to fill batches with texts of like length
NO_OPTIONS = ("texts", "input", "output", "resume", "model", "module", "function", "debug")


class Answered(NamedTuple):
    """What became of a window of texts.

    Attributes:
        lines: list of str, for the output.
        truncated: list of bool, for each text whether it was cut.
        notes: list of str, for the person.
    """

    lines: list
    truncated: list
    notes: list = ()


def check_source(arguments):
    """Raises UserError if texts are given twice, or if there is nothing that could be resumed."""
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    if arguments.resume and not (arguments.input and arguments.output):
        raise UserError("--resume goes on with an interrupted run from --input to --output: give both.")


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
    job = _job(arguments, folder) if arguments.input and arguments.output else None
    with answers_to(arguments.output, job, arguments.resume) as output:
        texts = None if arguments.input else arguments.texts or standard_input_lines()
        total = 0
        for total, text in enumerate(lines_of(arguments.input) if texts is None else texts, start=1):
            if check:
                check(total, text)
        answer = prepare()
        cut = []
        progress = ProgressLine(before=output.done)
        waiting = islice(lines_of(arguments.input) if texts is None else texts, output.done, None)
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
    if cut:
        print(
            f"keras-attention: {len(cut):,} of {total:,} texts (the first is number {cut[0]:,}) have more tokens than "
            "this model reads: only their beginning was read.",
            file=sys.stderr,
        )


def _answered(answer, window, first, total, progress):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedText)  # told once for all windows
        return answer(window, first, total, lambda done, _: progress(first - 1 + done, total))


def _job(arguments, folder):
    """What the answers depend on: the model, the texts and the options."""
    with opened(folder / MANIFEST) as model, opened(arguments.input) as texts:
        digests = [hashlib.file_digest(file, "sha256").hexdigest() for file in (model, texts)]
    options = {name: value for name, value in vars(arguments).items() if name not in NO_OPTIONS}
    return {"model": digests[0], "input": digests[1], **options, "window": WINDOW}
