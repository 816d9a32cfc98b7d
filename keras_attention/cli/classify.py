"""`keras-attention classify`."""

from functools import partial

from keras_attention.cli.io.many_texts import Answered, check_source, write_answers
from keras_attention.cli.io.printing import json_text
from keras_attention.cli.io.silence import silent_libraries
from keras_attention.errors import UserError
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.registry import find_entry


def classify(arguments):
    """Prints one line per text: its label and the probability; with --top, the K most probable labels."""
    check_source(arguments)
    if arguments.top is not None and arguments.top < 1:
        raise UserError(f"--top must be at least 1. Found: {arguments.top}")
    folder = find_entry(arguments.model)
    pairs = read_entry(folder).config.get("task", {}).get("pair", False)
    check = _check_pair if pairs else None
    write_answers(arguments, folder, lambda: partial(_answered, arguments, load(folder), pairs), check)


def load(folder):
    """The classifier of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline
        from keras_attention.pipelines.classifier import Classifier

    return load_pipeline(folder, Classifier)


def _answered(arguments, classifier, pairs, texts, first, total, progress):
    """The output lines of some texts."""
    sides = zip(*(text.split("\t") for text in texts), strict=True) if pairs else [texts]
    sides = [list(side) for side in sides]
    answers = classifier.classify(*sides, threshold=arguments.threshold, return_scores=True, progress=progress)
    lines = [_line(text, answer, arguments) for text, answer in zip(texts, answers, strict=True)]
    return Answered(lines, [answer.truncated for answer in answers])


def _check_pair(number, text):
    """Raises UserError unless a tab splits the text into two."""
    if text.count("\t") != 1:
        raise UserError(
            f"This model classifies pairs. Text {number} has {text.count(chr(9))} tabs: {text!r:.80}. "
            "Expected: two texts with one tab between them."
        )


def _line(text, answer, arguments):
    if arguments.json:
        best = dict(list(answer.probabilities.items())[: arguments.top])
        found = {"text": text, "label": answer.label, "probabilities": best, "truncated": answer.truncated}
        return json_text(found)
    if not answer.probabilities:
        return f"{answer.label:.4f}"
    if arguments.top:
        best = list(answer.probabilities.items())[: arguments.top]
    elif isinstance(answer.label, list):
        best = [(label, answer.probabilities[label]) for label in answer.label]
    else:
        best = [] if answer.label is None else [(answer.label, answer.probabilities[answer.label])]
    return "\t".join(f"{label} {value:.4f}" for label, value in best) or "-"
