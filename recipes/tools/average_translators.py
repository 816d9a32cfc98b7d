"""Compares translators trained with different seeds, and averages their weights.

    python recipes/tools/average_translators.py NAME NAME ... --data multi30k --source en --target de --out OUT

The models were trained from the same weights (`--from` of the recipes) with different seeds. Prints the scores of each
model on validation and test pairs, with the search settings of the first model, and the mean and standard deviation.
The averaged weights become the entry OUT, in float16, with this table in its card. Nothing is chosen on the test set.

Source: Wortsman et al. (2022), Model soups: averaging weights of multiple fine-tuned models improves accuracy without
increasing inference time. https://arxiv.org/abs/2203.05482
"""

import argparse
import os
import statistics
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.shared_options import add_sentence_pairs, sentence_pairs
from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded
from keras_attention.support.errors import UserError
from keras_attention.support.flags import OneLineParser
from keras_attention.training.history import run_facts
from keras_attention.training.optim import LastWeights, assign_weights, averaged_weights
from keras_attention.zoo.card import table_text


def check_alike(loaded):
    """Raises UserError unless every LoadedEntry has the same network and vocabularies as the first one."""
    first, *others = loaded
    if not others:
        raise UserError(f"One model was given: {first.entry.name}. Expected: several, from one start.")

    def parts(one):
        pieces = {role: one.tokenizers[role].tokens(range(one.tokenizers[role].vocabulary_size)) for role in roles}
        return one.entry.config["architecture"], one.entry.config["model"], pieces

    roles = first.tokenizers.keys()
    for other in others:
        if other.tokenizers.keys() != roles or parts(other) != parts(first):
            raise UserError(
                f"{other.entry.name} is another network than {first.entry.name}, or has another vocabulary. Expected: "
                "models that were trained from one start."
            )


def measure(translator, data):
    """The score on the validation pairs, and the list of scores on the test pairs."""
    from keras_attention.evaluation.translation_scores import scores_on

    validation = scores_on(translator, *data.validation, data.target_language, "validation")
    test = scores_on(translator, *data.test, data.target_language, f"{data.name} test", data.several_references)
    return validation[0]["value"], test


def seeds_table(loaded, measured, average):
    """A table of the card: every model, their mean and spread, the averaged weights."""
    names = ["seed " + ", ".join(map(str, one.entry.metrics["seeds"])) for one in loaded]
    columns = ["", f"{average[1][0]['metric']} on validation", *(score["metric"] for score in average[1])]
    values = [[validation, *(score["value"] for score in test)] for validation, test in measured]
    columns_of_values = list(zip(*values, strict=True))
    rows = [[name, *row] for name, row in zip(names, values, strict=True)]
    rows.append(["mean", *map(statistics.mean, columns_of_values)])
    rows.append(["standard deviation", *map(statistics.stdev, columns_of_values)])
    rows.append(["averaged weights, in float16", average[0], *(score["value"] for score in average[1])])
    rounded = [[name, *(round(value, 2) for value in row)] for name, *row in rows]
    return {"title": "By seed", "columns": columns, "rows": rounded}


def metrics_of(loaded, scores, table, examples):
    """The facts in metrics.json about the averaged weights: all commands that led to them, each once."""
    metrics = [one.entry.metrics for one in loaded]
    facts = run_facts()
    commands = dict.fromkeys(line for one in metrics for line in one["command"].split("\n"))
    commits = dict.fromkeys(commit for one in metrics for commit in one["commit"].split(", then "))
    return {
        **metrics[0],
        "command": "\n".join([*commands, facts["command"]]),
        "commit": ", then ".join(dict.fromkeys([*commits, facts["commit"]])),
        "minutes": sum(one["minutes"] for one in metrics),
        "seeds": sorted({seed for one in metrics for seed in one["seeds"]}),
        "scores": scores,
        "examples": examples,
        "tables": [*metrics[0].get("tables", ()), table],
    }


def main():
    parser = OneLineParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a model of the zoo or the folder of one")
    add_sentence_pairs(parser)
    parser.add_argument("--out", required=True)
    parser.add_argument("--overwrite", action="store_true", help="replace the model in --out")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    with silent_libraries():
        from keras_attention.pipelines.translator import Translator
        from keras_attention.publishing.alignment_heads import alignment_heads
        from keras_attention.publishing.trained_entries import low_score_rule
        from keras_attention.zoo.entry_io import load_entry, write_entry
        from keras_attention.zoo.registry import claim_entry, find_entry

    claim_entry(arguments.out, arguments.overwrite)
    data = sentence_pairs(arguments)
    loaded = [load_entry(find_entry(name)) for name in arguments.names]
    check_alike(loaded)
    (entry, model, tokenizers), config = loaded[0], loaded[0].entry.config
    weights, measured = LastWeights(len(loaded)), []
    for one in loaded:
        weights.add(one.model)
    translator = Translator(model, tokenizers["source"], tokenizers["target"], config["decoding"])
    for arrays in weights.snapshots:  # in the same model, so that the search is compiled only once
        with averaged_weights(model, arrays):
            measured.append(measure(translator, data))
    assign_weights(model, [mean.astype("float16") for mean in weights.average()])
    average = measure(translator, data)
    threshold, rule = low_score_rule(translator, data)
    chosen = {"low_score_threshold": threshold, "alignment_heads": alignment_heads(translator, *data.train)}
    table = seeds_table(loaded, measured, average)
    sources = [example["source"] for example in entry.metrics["examples"]]
    examples = [{"source": s, "output": o} for s, o in zip(sources, translator.translate(sources), strict=True)]
    about = ("source_language", "target_language", "decoding")
    write_entry(
        arguments.out,
        model,
        tokenizers,
        about={**{name: config[name] for name in about}, **chosen},
        metrics={**metrics_of(loaded, average[1], table, examples), "low_score": rule},
        weights_dtype="float16",
        overwrite=arguments.overwrite,
    )
    print(table_text(table["columns"], table["rows"]))


if __name__ == "__main__":
    sys.exit(guarded(main, "average_translators.py", debug="--debug" in sys.argv))
