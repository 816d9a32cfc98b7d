"""`keras-attention caption` and `transcribe`: what a picture shows or a recording says, word by word."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keras_attention.cli.io.many_texts import check_source, many_texts
from keras_attention.cli.io.terminal import json_text, load, one_output_line, set_default_model, silent_libraries
from keras_attention.support.errors import UserError
from keras_attention.zoo.registry import open_entry

MOST_DRAWN = 100  # inputs whose attention is drawn
MOST_NOTES = 10  # messages about single files
DOUBT = "low score, the model is not sure of its answer; the file may be unlike all that it was trained on."


class Written(NamedTuple):
    """What a task writes about files.

    Attributes:
        task: str.
        plural: str, what the files are.
        answers: str, the key of the answers in JSON.
        view: callable(pipeline, file, answer) -> the picture of its attention.
    """

    task: str
    plural: str
    answers: str
    view: Callable


def caption(arguments):
    """Prints one line per picture, its caption; with --n-best, the K best ones, each with its log probability."""
    _write(arguments, Written("caption", "pictures", "captions", lambda model, *both: model.spotlights(*both)))


def transcribe(arguments):
    """Prints one line per recording, what is said; with --n-best, the K best ones, each with its log probability."""
    _write(arguments, Written("transcribe", "recordings", "transcripts", lambda model, *both: model.alignment(*both)))


def _write(arguments, written):
    check_source(arguments, files=True)
    set_default_model(arguments, written.task)
    entry = open_entry(arguments.model, written.task)
    if arguments.attention:
        _check_picture(arguments, written)
    warnings.filterwarnings("ignore", module=r"PIL\.")  # about damaged EXIF data, which is ignored
    search = {"beam_size": arguments.beam, "length_penalty": arguments.length_penalty}
    with many_texts(arguments, entry.folder, entry.input.check_file) as job:
        if arguments.attention and job.total > MOST_DRAWN:
            raise UserError(f"--attention draws at most {MOST_DRAWN} {written.plural}. Found: {job.total:,}")
        model, job.unit = load(entry, written.task), written.plural
        shown, doubts = [], 0
        for window in job.windows():
            hypotheses = model.hypotheses(window.texts, n_best=arguments.n_best, progress=window.progress, **search)
            lines = [_line(name, best, arguments, written) for name, best in zip(window.texts, hypotheses, strict=True)]
            if arguments.attention:
                shown += [
                    written.view(model, name, best[0]) for name, best in zip(window.texts, hypotheses, strict=True)
                ]
            doubted = [name for name, (best, *_) in zip(window.texts, hypotheses, strict=True) if best.low_score]
            notes = [f"{name}: {DOUBT}" for name in doubted[: max(0, MOST_NOTES - doubts)]]
            doubts += len(doubted)
            job.write(lines, [False] * len(hypotheses), notes)
    if doubts > MOST_NOTES:
        print(
            f"keras-attention: {doubts:,} of {job.answered:,} {written.plural} have a low score. --json marks each.",
            file=sys.stderr,
        )
    for place, view in zip(_names(arguments.attention, len(shown)), shown, strict=True):
        view.save(place)
        print(f"keras-attention: {place}: where each word looks", file=sys.stderr)


def _check_picture(arguments, written):
    """Raises UserError unless the file of --attention can be written, and all inputs are answered in one run."""
    if arguments.resume:
        raise UserError(f"--attention needs all {written.plural} at once: leave out --resume.")
    with silent_libraries():
        from keras_attention.visualize.figures import check_figure_path

    check_figure_path(arguments.attention)


def _line(name, answers, arguments, written):
    if arguments.json:
        return json_text({"file": name, written.answers: [one.as_json() for one in answers]})
    if arguments.n_best == 1:
        return one_output_line(answers[0])
    return "\t".join(f"{one_output_line(one)} {one.log_prob:.4f}" for one in answers)


def _names(path, count):
    """The file names of several pictures: that of a single one, else with -1, -2, ... before the ending."""
    if count < 2:
        return [path] * count
    path = Path(path)
    return [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, count + 1)]
