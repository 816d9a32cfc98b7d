"""Six tables: `finetune`, `--quick`, logistic regression on the encoder's vectors, and TF-IDF on words and on letters.

    python benchmarks/tables.py DATA --results tables.jsonl --columns words letters linear quick finetune

DATA is the folder with cls_snips, cls_hwu64, cls_cr, cls_hate_davidson, cls_germeval2018_de and cls_umsab_fr. For each
seed, 1,000 rows are drawn from the training part; a tenth of them is held out for validation. Test rows are the part
that comes with the data for that; of GermEval, which has none, every fifth row, which no training sees. Each result is
written to `--results` as one line of JSON, so that the same command continues where it stopped. The table has the main
score (accuracy; macro-F1 where classes are skewed), mean and standard deviation over the seeds, and CPU minutes.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

import numpy as np

from keras_attention.cli.io.terminal import silent_libraries

with silent_libraries():
    from keras_attention.evaluation.bag_of_words import BY_LETTERS, BY_WORDS, fit_bag_of_words
    from keras_attention.evaluation.classification_scores import score_of
    from keras_attention.finetuning.examples import read_examples
    from keras_attention.finetuning.report import judge
    from keras_attention.finetuning.settings import FinetuneSettings
    from keras_attention.finetuning.starting_model import accelerated
    from keras_attention.finetuning.training_rows import task_of, training_rows
    from keras_attention.finetuning.workflow import finetune_classifier, prepare

SETS = {
    "intents of assistants (SNIPS)": ("cls_snips", "valid"),
    "64 intents (HWU64)": ("cls_hwu64", "valid"),
    "reviews of products (CR)": ("cls_cr", "dev"),
    "hate speech, skewed": ("cls_hate_davidson", "dev"),
    "offensive tweets, German": ("cls_germeval2018_de", None),
    "tweets, French": ("cls_umsab_fr", "val"),
}
COLUMNS = ("words", "letters", "linear", "quick", "finetune")
TITLES = {"words": "TF-IDF words", "letters": "TF-IDF letters", "linear": "linear on vectors", "quick": "`--quick`"}
PART = 5  # every fifth row is a test row where the data have no test rows


def read_set(data, folder, held):
    """Examples to draw from, and Examples to test on."""
    train, _ = read_examples(data / folder / "train.tsv.gz", "text", "label")
    if held is not None:
        return train, read_examples(data / folder / f"{held}.tsv.gz", "text", "label")[0]
    numbers = list(range(len(train)))
    return train.some([n for n in numbers if n % PART]), train.some(numbers[::PART])


def drawn(train, rows, seed):
    """Draws `rows` examples; the test rows of the other labels are left out by the caller."""
    numbers = list(range(len(train)))
    random.Random(seed).shuffle(numbers)
    return train.some(sorted(numbers[:rows]))


def of_bag(rows, test, units):
    """The main score of TF-IDF and logistic regression."""
    given = rows.train.texts, None, rows.targets, rows.task.kind, rows.num_labels
    return score_of(fit_bag_of_words(*given, units=units).logits(test.texts), test.targets(rows.task), rows.task)[1]


def of_vectors(train, test, seed):
    """The main score of logistic regression on the vectors of the encoder."""
    settings = accelerated(None, FinetuneSettings(seed=seed, contrastive=False))
    prepared = prepare(train, None, None, settings, notify=lambda _: None)
    logits = prepared.classifier.logits(prepared.classifier.sequences(test.texts))
    return score_of(logits, test.targets(prepared.rows.task), prepared.rows.task)[1]


def of_classifier(train, test, seed, quick):
    """The main score of what `finetune` saves."""
    settings = accelerated(None, FinetuneSettings(seed=seed, quick=quick))
    finetuned = finetune_classifier(train, None, None, settings, notify=lambda _: None, verbose=0)
    judged = judge(finetuned.classifier, test, finetuned.task.main_score)
    return score_of(judged.logits, judged.targets, judged.task)[1]


def measure(column, train, test, seed):
    """The main score of a column of the table."""
    if column in ("words", "letters"):
        task = task_of(train)
        rows = training_rows(train, None, None, task, 0.1, seed)
        return of_bag(rows, test, {"words": BY_WORDS, "letters": BY_LETTERS}[column])
    if column == "linear":
        return of_vectors(train, test, seed)
    return of_classifier(train, test, seed, column == "quick")


def table(results, columns):
    """The results as a table in Markdown."""
    lines = ["| data | " + " | ".join(TITLES.get(column, "`finetune`") for column in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for name in SETS:
        cells = []
        for column in columns:
            cases = [one for one in results if (one["data"], one["column"]) == (name, column)]
            values, minutes = [one["score"] for one in cases], [one["cpu_minutes"] for one in cases]
            spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.1f}{spread} ({np.mean(minutes):.1f} min)" if values else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--results", type=Path, default=Path("tables.jsonl"))
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000)
    options = parser.parse_args(arguments)
    results = []
    if options.results.exists():
        results = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    known = {(one["data"], one["column"], one["seed"], one["rows"]) for one in results}
    for column in options.columns:
        for name, (folder, held) in SETS.items():
            train, test = read_set(options.data, folder, held)
            for seed in range(1, options.seeds + 1):
                if (name, column, seed, options.rows) in known:
                    continue
                some = drawn(train, options.rows, seed)
                labels, began = set(some.labels), time.process_time()
                judged = test.some([row for row, label in enumerate(test.labels) if label in labels])
                case = {"data": name, "column": column, "seed": seed, "rows": options.rows}
                case["score"] = measure(column, some, judged, seed)
                case["cpu_minutes"] = (time.process_time() - began) / 60
                results.append(case)
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(case) + "\n")
                print(case, file=sys.stderr, flush=True)
    print(table([one for one in results if one["rows"] == options.rows], options.columns))


if __name__ == "__main__":
    main()
