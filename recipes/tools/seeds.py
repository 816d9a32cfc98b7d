"""Fine-tunes with several seeds, and averages the weights.

    python recipes/tools/seeds.py OUT TABLE --test TEST --text COLUMN --label COLUMN ... --seeds 1 2 3 4 5

All other flags are passed to `keras-attention finetune`, once per seed, together with `--blend none`, because bags of
words cannot be averaged. Finished seeds in OUT are not trained again. Prints the test scores of each seed, their mean
and standard deviation, and the scores of the averaged weights, which become the entry OUT/average, in float16, with
this table in its card. Nothing is chosen on the test set.

Source: Wortsman et al. (2022), Model soups: averaging weights of multiple fine-tuned models improves accuracy without
increasing inference time. https://arxiv.org/abs/2203.05482
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded, make_parser
from keras_attention.support.child_process import package_command, package_environment
from keras_attention.support.errors import UserError
from keras_attention.training.history import run_facts
from keras_attention.training.optim import LastWeights, assign_weights
from keras_attention.zoo.card import table_text
from keras_attention.zoo.registry import claim_entry


def train(out, seed, flags):
    """Trains with one seed, unless its entry exists; returns the folder of the entry."""
    folder = out / f"seed_{seed}"
    if not (folder / "manifest.json").exists():
        command = package_command("finetune", *flags, "--blend", "none", "--seed", str(seed))
        print(f"--- seed {seed}", flush=True)
        command += ["--out", str(folder), "--resume"]
        code = subprocess.run(command, env=package_environment()).returncode
        if code:
            raise UserError(f"The training with seed {seed} ended with exit code {code}.")
    return folder


def averaged(loaded):
    """A Classifier with the mean weights of all LoadedEntry, rounded to float16 as they will be stored."""
    from keras_attention.pipelines.classifier import Classifier

    first, seeds = loaded[0], LastWeights(len(loaded))
    for one in loaded:
        seeds.add(one.model)
    assign_weights(first.model, [mean.astype("float16") for mean in seeds.average()])
    thresholds = np.mean([one.entry.config["task"]["threshold"] for one in loaded], axis=0).tolist()
    task = first.entry.config["task"] | {"threshold": thresholds}
    return Classifier(first.model, first.tokenizers["text"], first.entry.config["max_tokens"], task)


def seeds_table(reports, average):
    """A table of the card: every seed, their mean and spread, the averaged weights."""
    names = list(average.scores)
    rows = [[f"seed {seed}", *report.scores.values()] for seed, report in reports.items()]
    columns = list(zip(*(row[1:] for row in rows), strict=True))
    rows.append(["mean", *map(statistics.mean, columns)])
    rows.append(["standard deviation", *map(statistics.stdev, columns)])
    rows.append(["averaged weights, in float16", *average.scores.values()])
    return {"title": "By seed", "columns": ["", *names], "rows": rows}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--overwrite", action="store_true", help="replace OUT/average if it exists")
    arguments, flags = parser.parse_known_args()
    asked = make_parser().parse_args(["finetune", *flags])
    if not asked.test:
        raise UserError("--test is missing. Expected: a table that is only used to score the seeds.")
    claim_entry(arguments.out / "average", arguments.overwrite)
    facts = run_facts()
    folders = {seed: train(arguments.out, seed, flags) for seed in arguments.seeds}
    with silent_libraries():
        from keras_attention.finetuning.examples import read_examples
        from keras_attention.finetuning.report import BESIDE_WORDS, measure, report_text, write_measured
        from keras_attention.pipelines.base import load_pipeline
        from keras_attention.zoo.entry_io import load_entry

    options = {"empty_labels": asked.separator is not None, "skip_bad_rows": asked.skip_bad_rows}
    test, _ = read_examples(asked.test, asked.text, asked.label, asked.text_b, delimiter=asked.delimiter, **options)
    loaded = [load_entry(folder) for folder in folders.values()]
    for one in loaded:
        if one.entry.config["words"] is not None:
            raise UserError(f"{one.entry.folder} is blended with a bag of words. Train it again with --blend none.")
    classifier = averaged(loaded)
    first, trained = loaded[0].entry, [one.entry.metrics for one in loaded]
    words = next(table for table in first.metrics["tables"] if table["title"] == BESIDE_WORDS)
    report = measure(classifier, test)._replace(
        baseline=dict(zip(words["columns"][1:], words["rows"][1][1:], strict=True))
    )
    tables = []
    if len(folders) > 1:
        tables = [seeds_table({seed: measure(load_pipeline(folder), test) for seed, folder in folders.items()}, report)]
    minutes = sum(metrics["minutes"] for metrics in trained)
    metrics = {**first.metrics, **facts, "seeds": arguments.seeds, "minutes": minutes}
    given = {"language": first.config["language"], "tables": tables, "weights_dtype": "float16"}
    given["overwrite"] = arguments.overwrite
    write_measured(arguments.out / "average", classifier, report, test, metrics, **given)
    print(report_text(report), *(table_text(table["columns"], table["rows"]) for table in tables), sep="\n\n")


if __name__ == "__main__":
    sys.exit(guarded(main, "seeds.py", debug="--debug" in sys.argv))
