"""Store the weights of a trained model as compressed integers, a third of the size of float16.

    python recipes/tools/compress_weights.py FOLDER --source test.en --target test.de       # a translator
    python recipes/tools/compress_weights.py --steps 16 FOLDER --table test.csv --text a --label b   # a classifier

The weights are rounded (see "int8_deflate" in `zoo.weights_file.save_weights`). The entry is replaced only if no score
of its card falls by more than 0.1 points on the test set, which the options of `keras-attention evaluate` name. The new
card has the new scores and the new outputs of its examples. Without a test set, these outputs must stay the same.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded
from keras_attention.cli.main import main as keras_attention
from keras_attention.support.errors import UserError
from keras_attention.support.flags import OneLineParser
from keras_attention.zoo.schema import WORDS_FILE
from keras_attention.zoo.weights_file import DEFLATE, STEPS

MOST_LOST = 0.1  # points of a score
TRANSLATION_SCORES = {
    "BLEU A": "bleu_tradition_a",
    "BLEU B": "bleu_tradition_b",
    "BLEU B, all references": "bleu_all_references",
    "chrF2": "chrf",
}
TABLES = "Other tables and pictures of this card were made before the weights were rounded to integers."


def store(folder, test_set=(), steps=STEPS):
    """Rewrites one entry; returns its size in bytes before and after.

    Args:
        folder: str or Path.
        test_set: list of str, the options of `keras-attention evaluate` that name the files.
        steps: int > 0, see `save_weights`.
    """
    from keras_attention.pipelines.base import example_outputs, failing_examples
    from keras_attention.zoo.entry_io import load_entry, write_entry

    folder = Path(folder)
    entry, model, tokenizers = load_entry(folder)
    copied = ("format_version", "architecture", "model", "tokenizer", "weights_dtype")
    about = {name: value for name, value in entry.config.items() if name not in copied}
    others = [folder / picture["file"] for picture in entry.metrics.get("pictures", ())]
    others += [folder / WORDS_FILE] if about.get("words") else []
    options = {"about": about, "metrics": entry.metrics, "weights_dtype": DEFLATE}
    options |= {"steps": steps, "extra_files": others}
    with tempfile.TemporaryDirectory() as temporary:  # written and tested there first
        tested = write_entry(Path(temporary) / entry.name, model, tokenizers, **options)
        if test_set:
            scores, problems = compare(entry.metrics["scores"], measured(tested.folder, test_set))
            outputs = zip(entry.metrics["examples"], example_outputs(tested), strict=True)
            examples = [{**example, "output": output} for example, output in outputs]
            limits = [*(limit for limit in entry.metrics["limits"] if limit != TABLES), TABLES]
            options["metrics"] = {**entry.metrics, "scores": scores, "limits": limits, "examples": examples}
        else:
            _, problems = failing_examples(tested)
    if problems:
        raise UserError(f"{folder} is unchanged, since with rounded weights it would be another model: {problems[0]}")
    return entry.bytes, write_entry(folder, model, tokenizers, **options, overwrite=True).bytes


def measured(folder, test_set):
    """Dict from the name of each score on the test set to its value."""
    path = folder.with_name("report.json")
    if keras_attention(["evaluate", "--json", "--model", str(folder), "--output", str(path), *test_set]):
        raise UserError(f"{folder.name} is unchanged, since it could not be evaluated.")
    report = json.loads(path.read_text(encoding="utf-8"))
    if "scores" in report:
        return report["scores"]
    scores = {name: report[key]["score"] for name, key in TRANSLATION_SCORES.items() if key in report}
    return {**scores, "exact match (%)": report["exact_match"]}


def compare(scores, measured_scores):
    """The scores of a card with the values that were found, and a list of those that have become worse."""
    lost = {score["metric"]: score["value"] - measured_scores[score["metric"]] for score in scores}
    problems = [f"{name} falls by {points:.2f} points" for name, points in lost.items() if points > MOST_LOST]
    return [{**score, "value": measured_scores[score["metric"]]} for score in scores], problems


def main(arguments=None):
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    help_text = f"steps in the root mean square of a row or column: 8 take 5 bits, 16 take 6; default: {STEPS}"
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=help_text)
    parser.add_argument("folder", metavar="FOLDER", help="folder of the trained model")
    parser.add_argument("test_set", nargs=argparse.REMAINDER, help="options of keras-attention evaluate")
    arguments = parser.parse_args(arguments)
    with silent_libraries():
        before, after = store(arguments.folder, arguments.test_set, arguments.steps)
    print(f"{arguments.folder}: {before:,} bytes, now {after:,}")


if __name__ == "__main__":
    sys.exit(guarded(main, "compress_weights.py", "--debug" in sys.argv, (ValueError, OSError)))
