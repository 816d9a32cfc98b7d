"""Few rows per class: training on labels and contrastive training, compared with logistic regression on frozen vectors.

    python benchmarks/few_rows.py TRAIN --test TEST --rows 8 16 64 --seeds 5

For each seed, `--rows` rows of each class are drawn from the table TRAIN; a tenth of them is held out for validation,
as in `finetune`. The table shows the mean and standard deviation over the seeds of the main score on the test rows,
for the networks alone, without a bag of words.
"""

import argparse
import random
from dataclasses import replace

import numpy as np
from fine_tuning import drawn, read, score  # loads TensorFlow quietly

from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.starting_model import accelerated
from keras_attention.finetuning.workflow import fit, prepare

COLUMNS = ("rows per class", "linear model on vectors", "trained on labels", "contrastive")


def of_each_class(examples, rows, seed):
    """Draws up to `rows` examples of each class at random."""
    numbers, taken = list(range(len(examples))), dict.fromkeys(examples.labels, 0)
    random.Random(seed).shuffle(numbers)
    chosen = []
    for number in numbers:
        label = examples.labels[number]
        if taken[label] < rows:
            taken[label] += 1
            chosen.append(number)
    return examples.some(sorted(chosen))


def measure(train, test, start, settings):
    """The main score on the test rows of each system in `COLUMNS`."""
    scores = []
    for contrastive in (False, True):
        chosen = replace(settings, contrastive=contrastive)
        prepared = prepare(train, None, start, chosen, test=test, notify=lambda _: None)
        scores += [] if contrastive else [score(prepared, test)]
        fit(prepared, chosen, verbose=0)
        scores.append(score(prepared, test))
    return scores


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TRAIN")
    parser.add_argument("--test", required=True)
    parser.add_argument("--from", dest="start")
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 16, 64], help="of each class")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--test-rows", type=int, default=1000)
    options = parser.parse_args(arguments)
    train, test = read(options.table), drawn(read(options.test), options.test_rows, 0)
    print("| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS), sep="\n", flush=True)
    for rows in options.rows:
        scores_by_seed = []
        for seed in range(1, options.seeds + 1):
            settings = accelerated(options.start, FinetuneSettings(seed=seed))
            scores_by_seed.append(measure(of_each_class(train, rows, seed), test, options.start, settings))
        spread = np.std(scores_by_seed, axis=0, ddof=1) if options.seeds > 1 else np.zeros(len(COLUMNS) - 1)
        cells = [f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(np.mean(scores_by_seed, axis=0), spread, strict=True)]
        print(f"| {rows} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
