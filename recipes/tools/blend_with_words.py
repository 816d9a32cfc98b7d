"""Blend a trained classifier with a bag of words, as `keras-attention finetune` does for new classifiers.

    python recipes/tools/blend_with_words.py FOLDER --train a.tsv --validation b.tsv --test c.tsv --text a --label b
    python recipes/tools/blend_with_words.py FOLDER --train a.tsv --unlabelled d.txt --test c.tsv --text a --label b

The bag of words is fitted to the training table. The validation table, which the network must not have been trained on,
determines the temperatures, the weight of the words and the thresholds; the entry is replaced only if the blend is
better on it. If the held-out rows are no longer known, `--unlabelled` weights both parts so that their logits have the
same spread on texts without labels. The new card has the scores on the test table, with and without the words.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries

with silent_libraries():
    from keras_attention.cli.main import guarded
    from keras_attention.data.files import read_lines
    from keras_attention.data.tables.label_task import Task
    from keras_attention.evaluation.bag_of_words import Blend, bag_of_words_scores, best_weight, fit_bag_of_words
    from keras_attention.finetuning.calibration import calibrate, score_of
    from keras_attention.finetuning.examples import Examples, read_examples
    from keras_attention.finetuning.report import measure, write_measured
    from keras_attention.pipelines.base import load_pipeline
    from keras_attention.support.errors import UserError
    from keras_attention.support.flags import OneLineParser
    from keras_attention.training.history import run_facts
    from keras_attention.zoo.entry import read_entry

REPLACED = ("Compared with a bag of words", "By label", "Largest errors")


class Held(NamedTuple):
    """Held-out rows in the form that `calibrate` reads."""

    task: Task
    validation: Examples
    validation_targets: np.ndarray


def blend(classifier, task, train, validation):
    """Adds the words to the classifier, with the best weight on the validation rows; returns a sentence about it."""
    logits = classifier.logits(classifier.sequences(validation.texts, validation.texts_b))
    held = Held(task, validation, validation.targets(task))
    return calibrate(classifier, logits, fit_words(train, task), held, where_better)


def where_better(logits, word_logits, held):
    """The weight of the words and a sentence about it; an error if the blend is no better than the network."""
    task, targets = held.task, held.validation_targets
    weight = best_weight(logits, word_logits, targets, task.kind)
    blended = (1 - weight) * logits + weight * word_logits
    (name, alone), (_, by_words), (_, both) = (score_of(x, targets, task) for x in (logits, word_logits, blended))
    if both <= alone:
        raise UserError(f"The blend is no better on the validation: {name} {both:.2f}, the network alone {alone:.2f}.")
    return weight, (
        f"The network is blended with a bag of words, which has {100 * weight:.0f} % of the weight. On the validation, "
        f"{name} is {alone:.1f} by the network, {by_words:.1f} by words and {both:.1f} by both."
    )


def blend_equally(classifier, task, train, texts):
    """Adds the words, weighted so that both parts have logits of the same standard deviation on unlabelled texts."""
    words = fit_words(train, task)
    both = classifier.logits(classifier.sequences(texts)), words.logits(texts)
    network, by_words = (logits.std(axis=0).mean() for logits in both)
    classifier.blend = Blend(words.stored(), float(network / (network + by_words)))
    return "The network is blended with a bag of words, so that both have logits of equal spread on unlabelled texts."


def fit_words(train, task):
    return fit_bag_of_words(train.texts, train.texts_b, train.targets(task), task.kind, len(task.label_names))


def main(arguments=None):
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the classifier")
    for name in ("train", "test", "text", "label"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("validation", "unlabelled", "text-b"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    options = parser.parse_args(arguments)
    if bool(options.validation) == bool(options.unlabelled):
        raise UserError("Give either --validation or --unlabelled.")
    entry, classifier = read_entry(options.folder), load_pipeline(options.folder, "classify")
    if classifier.blend:
        raise UserError(f"{options.folder} is blended with a bag of words already.")
    settings = classifier.task
    task = Task(settings["kind"], tuple(settings["label_names"]), settings["separator"], "as config.json says")
    columns = (options.text, options.label, options.text_b)
    train, test = (read_examples(path, *columns)[0] for path in (options.train, options.test))
    before = {score["metric"]: score["value"] for score in entry.metrics["scores"]}
    if options.validation:
        validation = read_examples(options.validation, *columns)[0]
        sentence = blend(classifier, task, train, validation)
    else:
        validation = test  # unused: only multilabel tasks have thresholds
        if task.kind == "multilabel":
            raise UserError("The thresholds of a multilabel task need --validation.")
        sentence = blend_equally(classifier, task, train, read_lines(options.unlabelled))
    measured = measure(classifier, test)
    words = bag_of_words_scores(classifier.blend.words, validation, test, task)
    report = measured._replace(where=entry.metrics["scores"][0]["set"], baseline=words)
    write_measured(options.folder, classifier, report, test, changed(entry.metrics, sentence, before, options),
                   language=entry.config["language"], overwrite=True, weights_dtype=entry.config["weights_dtype"],
                   tables=[table for table in entry.metrics["tables"] if table["title"] not in REPLACED])  # fmt: skip
    print(sentence, f"network alone on the test: {before}", f"together: {measured.scores}", sep="\n")


def changed(metrics, sentence, before, options):
    """The fields of metrics.json for the blend, without those that `write_measured` adds."""
    given = {name: getattr(options, name) for name in ("train", "validation", "unlabelled", "test")}
    given = {name: Path(path).name for name, path in given.items() if path}
    given |= {name: value for name in ("text", "text_b", "label") if (value := getattr(options, name))}
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in given.items())
    command = f"python recipes/tools/blend_with_words.py {options.folder.name} {flags}"
    alone = ", ".join(f"{name} {value:.2f}" for name, value in before.items())
    kept = {name: value for name, value in metrics.items() if name not in ("scores", "tables", "pictures", "examples")}
    return kept | {
        "description": f"{metrics['description']} {sentence}",
        "command": f"{metrics['command']}\n{command}",
        "commit": f"{metrics['commit']}, then {run_facts()['commit']}",
        "limits": [*metrics["limits"], f"Without the bag of words, the network has {alone} on the same test rows."],
    }


if __name__ == "__main__":
    sys.exit(guarded(main, "blend_with_words.py", "--debug" in sys.argv, (ValueError, OSError)))
