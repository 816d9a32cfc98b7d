"""`keras-attention classify`."""

from keras_attention.cli.io.many_texts import check_source, many_texts
from keras_attention.cli.io.terminal import json_text, silent_libraries
from keras_attention.errors import UserError, quoted
from keras_attention.zoo.registry import open_entry


def classify(arguments):
    """Prints one line per text: its label and the probability; with --top, the K most probable labels."""
    check_source(arguments)
    if arguments.top is not None and arguments.top < 1:
        raise UserError(f"--top must be at least 1. Found: {arguments.top}")
    entry = open_entry(arguments.model, "classify")
    check = _check_pair if entry.config["task"]["pair"] else None
    with many_texts(arguments, entry.folder, check) as job:
        classifier = load(entry)
        for window in job.windows():
            sides = map(list, zip(*map(classifier.sides, window.texts), strict=True))
            options = {"threshold": arguments.threshold, "progress": window.progress}
            answers = classifier.classify(*sides, **options, return_scores=True)
            lines = [_line(text, answer, arguments) for text, answer in zip(window.texts, answers, strict=True)]
            job.write(lines, [answer.truncated for answer in answers])


def load(entry):
    """Loads the classifier of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    return load_pipeline(entry, "classify")


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
