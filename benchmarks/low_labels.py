"""One figure and one table: what pre-training is worth when labels are few.

    python benchmarks/low_labels.py TRAIN --test TEST                # 100, 1,000 and 10,000 labels
    python benchmarks/low_labels.py TRAIN --test TEST --card ENTRY   # and into the card of the pre-trained BERT

Three systems learn from the same labels, drawn anew for each seed: a classifier that starts from a pre-trained BERT,
the same one from random weights, and a bag of words (TF-IDF with logistic regression). A tenth of the labels is held
out to choose the best epoch of the networks; nothing is chosen on the test rows. Results are stored in --out, and are
not measured again.
"""

import argparse
import json
import os
import random
import statistics
import sys
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded

with silent_libraries():
    import keras  # noqa: F401

from keras_attention.finetuning.examples import read_examples
from keras_attention.finetuning.report import make_report
from keras_attention.finetuning.settings import DEFAULT_START, FinetuneSettings
from keras_attention.finetuning.starting_model import FROM_NOTHING, accelerated
from keras_attention.finetuning.workflow import finetune_classifier
from keras_attention.publishing.trained_entries import add_to_card
from keras_attention.support.atomic_files import whole_file
from keras_attention.visualize.score_plots import score_by_labels_plot
from keras_attention.zoo.card import table_text
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.registry import find_entry

WORDS = "TF-IDF"


def measure(systems, train, test, count, seed, settings):
    """The main score of each system: TF-IDF, and those in `systems`, a dict from name to the start of the training."""
    chosen = train.some(random.Random(seed).sample(range(len(train)), count))
    scores = {}
    for name, start in systems.items():
        report = make_report(finetune_classifier(chosen, None, start, replace(settings, seed=seed), verbose=2), test)
        measured, scores[name] = next(iter(report.scores.items()))
        scores[WORDS] = report.baseline[measured]
    return measured, scores


def card_parts(entry, title, columns, rows, figure):
    """The card's tables and pictures, with the results in place of those of an earlier run."""
    kept = [table for table in entry.metrics.get("tables", ()) if table["title"] != title]
    pictures = [picture for picture in entry.metrics.get("pictures", ()) if picture["file"] != figure.name]
    files = [entry.folder / picture["file"] for picture in pictures] + [figure]
    tables = [*kept, {"title": title, "columns": columns, "rows": rows}]
    return tables, [*pictures, {"file": figure.name, "caption": title}], files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TRAIN")
    parser.add_argument("--test", required=True)
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--from", dest="start", default=DEFAULT_START, help="entry of the pre-trained BERT")
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--test-rows", type=int, default=2_000, help="number of rows drawn from the test table")
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--long-texts", default="ends", help="see `keras-attention finetune --help`")
    parser.add_argument("--name", default="", help="of the data, for the title; default: that of the file")
    parser.add_argument("--out", type=Path, default=Path("runs/low_labels"))
    parser.add_argument("--card", metavar="ENTRY", help="folder of the entry whose card shows the result")
    arguments = parser.parse_args()
    train, test = (
        read_examples(path, arguments.text, arguments.label)[0] for path in (arguments.table, arguments.test)
    )
    test = test.some(random.Random(0).sample(range(len(test)), min(arguments.test_rows, len(test))))
    systems = {f"from {Path(arguments.start).name}": arguments.start, "from random weights": FROM_NOTHING}
    reading = {"max_tokens": arguments.max_tokens, "long_texts": arguments.long_texts}
    settings = accelerated(arguments.start, FinetuneSettings(**reading))
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = arguments.out / "results.json"
    results_by_run = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    for count in arguments.labels:
        for seed in range(1, arguments.seeds + 1):
            if (key := f"{count} labels, seed {seed}") not in results_by_run:
                print(f"--- {key}", flush=True)
                results_by_run[key] = measure(systems, train, test, count, seed, settings)
                with whole_file(results) as file:
                    json.dump(results_by_run, file, indent=1)
    measured = next(iter(results_by_run.values()))[0]
    series = {
        name: [
            (n, [results_by_run[f"{n} labels, seed {seed}"][1][name] for seed in range(1, arguments.seeds + 1)])
            for n in arguments.labels
        ]
        for name in (*systems, WORDS)
    }
    columns = ["system", *(f"{count:,}" for count in arguments.labels)]
    rows = [[name, *(statistics.mean(scores) for _, scores in points)] for name, points in series.items()]
    print(table_text(columns, rows))
    seeds = f", mean of {arguments.seeds} seeds" if arguments.seeds > 1 else ""
    title = f"{arguments.name or Path(arguments.table).name}: {measured}, %, by number of labels{seeds}"
    figure = arguments.out / "low_labels.png"
    score_by_labels_plot(series, figure, f"{measured}, %", title)
    if arguments.card:
        entry = read_entry(find_entry(arguments.card))
        add_to_card(entry.folder, *card_parts(entry, title, columns, rows, figure))


if __name__ == "__main__":
    sys.exit(guarded(main, "low_labels.py", debug="--debug" in sys.argv))
