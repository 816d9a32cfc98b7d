"""Scores of `finetune` with its default or other settings, a bag of words, and a linear model on frozen vectors.

    python benchmarks/fine_tuning.py TABLES --from minilm_small_en --seeds 5 --rows 2000

TABLES is a folder with NAME.train.tsv and NAME.test.tsv for each data set: a header with text, label and, for pairs,
text_b. For each data set and seed, `--rows` rows are drawn for training; a tenth of them is held out for validation.
The table shows the mean and standard deviation over the seeds of the main score on the test rows, and CPU minutes. The
other flags are those of `keras-attention finetune`, such as `--no-contrastive`.
"""

import argparse
import dataclasses
import random
import sys
import time
from pathlib import Path

import numpy as np

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.support.flags import add_settings

with silent_libraries():
    from keras_attention.evaluation import classification_scores as measures
    from keras_attention.finetuning.calibration import finish
    from keras_attention.finetuning.examples import read_examples
    from keras_attention.finetuning.report import make_report
    from keras_attention.finetuning.starting_model import accelerated
    from keras_attention.finetuning.workflow import fit, prepare

COLUMNS = ("data", "rows", "classes", "TF-IDF", "linear model on vectors", "fine-tuned", "as shipped", "CPU min")


def measure(train, test, start, settings):
    """Returns the task, the main score of each stage on the test rows with total CPU minutes, and the best epoch."""
    began = time.process_time()
    prepared = prepare(train, None, start, settings, test=test, notify=lambda _: None)
    linear = score(prepared, test)
    result = fit(prepared, settings, verbose=0)
    tuned = score(prepared, test)
    report = make_report(finish(prepared, result, settings), test)
    shipped, words = (next(iter(scores.values())) for scores in (report.scores, report.baseline))
    minutes = (time.process_time() - began) / 60
    return prepared.rows.task, (words, linear, tuned, shipped, minutes), result.best_epoch


def score(prepared, test):
    """The main score of the network in its current state."""
    classifier, rows = prepared.classifier, prepared.rows
    logits = classifier.logits(classifier.sequences(test.texts, test.texts_b)) * rows.spread + rows.center
    targets, predicted = test.targets(rows.task), measures.predictions(logits, rows.task)
    return next(iter(measures.scores(targets, predicted, rows.task).values()))


def read(path):
    """Reads the Examples of a table, as pairs if it has a column text_b."""
    with open(path, encoding="utf-8") as file:
        pairs = "text_b" in file.readline().rstrip("\n").split("\t")
    return read_examples(path, "text", "label", "text_b" if pairs else None)[0]


def drawn(examples, rows, seed):
    """Draws up to `rows` examples at random."""
    numbers = list(range(len(examples)))
    random.Random(seed).shuffle(numbers)
    return examples.some(sorted(numbers[:rows]))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--from", dest="start")
    parser.add_argument("--only", nargs="+", help="names of data sets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--test-rows", type=int, default=1000)
    add_settings(parser, FinetuneSettings)
    options = parser.parse_args(arguments)
    chosen = FinetuneSettings(**{name: getattr(options, name) for name in FinetuneSettings.__dataclass_fields__})
    names = options.only or sorted(path.name.split(".")[0] for path in options.tables.glob("*.train.tsv"))
    print("| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS), sep="\n", flush=True)
    for name in names:
        train, test = (read(options.tables / f"{name}.{part}.tsv") for part in ("train", "test"))
        test, scores, epochs = drawn(test, options.test_rows, 0), [], []
        for seed in range(chosen.seed, chosen.seed + options.seeds):
            settings = accelerated(options.start, dataclasses.replace(chosen, seed=seed))
            task, values, epoch = measure(drawn(train, options.rows, seed), test, options.start, settings)
            scores.append(values)
            epochs.append(epoch)
        spread = np.std(scores, axis=0, ddof=1) if options.seeds > 1 else np.zeros(5)
        cells = [f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(np.mean(scores, axis=0), spread, strict=True)]
        rows = min(options.rows, len(train))
        print(f"| {name} | {rows:,} | {len(task.label_names) or 'numbers'} | {' | '.join(cells)} |", flush=True)
        print(f"{name}: best epochs {epochs}", file=sys.stderr)


if __name__ == "__main__":
    main()
