"""`keras-attention classify`."""

import json

from keras_attention.commands.progress import ProgressLine
from keras_attention.commands.silence import silent_libraries
from keras_attention.commands.text_files import standard_input_lines, text_output
from keras_attention.data.parallel_text import read_lines
from keras_attention.errors import UserError
from keras_attention.zoo.finding import find_entry


def classify(arguments):
    """One line a text: its label and how probable it is; with --top the K most probable labels."""
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    if arguments.top is not None and arguments.top < 1:
        raise UserError(f"--top must be at least 1. Found: {arguments.top}")
    folder = find_entry(arguments.model)
    with text_output(arguments.output) as output:
        texts = arguments.texts or (read_lines(arguments.input) if arguments.input else standard_input_lines())
        classifier = load(folder)
        sides = _pairs(texts) if classifier.task["pair"] else (texts, None)
        progress = ProgressLine()
        try:
            answers = classifier.classify(*sides, threshold=arguments.threshold, return_scores=True, progress=progress)
        finally:
            progress.close()
        for text, answer in zip(texts, answers, strict=True):
            print(_line(text, answer, arguments), file=output)


def load(folder):
    """The classifier of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.zoo.classifier import Classifier
        from keras_attention.zoo.loading import load_pipeline

    return load_pipeline(folder, Classifier)


def _pairs(texts):
    """The two sides of texts that are pairs, divided by a tab."""
    pairs = [text.split("\t") for text in texts]
    for number, pair in enumerate(pairs, start=1):
        if len(pair) != 2:
            raise UserError(
                f"This model classifies pairs. Text {number} has {len(pair) - 1} tabs: {texts[number - 1]!r:.80}. "
                "Expected: two texts with one tab between them."
            )
    return [list(side) for side in zip(*pairs, strict=True)] or [[], []]


def _line(text, answer, arguments):
    if arguments.json:
        best = dict(list(answer.probabilities.items())[: arguments.top])
        found = {"text": text, "label": answer.label, "probabilities": best, "truncated": answer.truncated}
        return json.dumps(found, ensure_ascii=False)
    if not answer.probabilities:
        return f"{answer.label:.4f}"
    if arguments.top:
        best = list(answer.probabilities.items())[: arguments.top]
    elif isinstance(answer.label, list):
        best = [(label, answer.probabilities[label]) for label in answer.label]
    else:
        best = [] if answer.label is None else [(answer.label, answer.probabilities[answer.label])]
    return "\t".join(f"{label} {value:.4f}" for label, value in best) or "-"
