"""Chooses the threshold below which the answers of a trained translator are marked with `low_score`.

    python recipes/tools/low_score_threshold.py FOLDER --data multi30k --source en --target de

The recipes do this at the end of a training. This tool does it again for a trained model, on the validation sentences
of the same data and with the search settings of the model: 5 % of them (0.1 % of dates) have a lower mean log
probability per token. Of a file, the sentences are those that the training of the model held out. config.json,
metrics.json and the card are replaced. The weights stay as they are.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.shared_options import add_sentence_pairs, sentence_pairs
from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded
from keras_attention.support.flags import OneLineParser


def choose(folder, data):
    """Rewrites one entry; returns it as Entry.

    Args:
        folder: str or Path.
        data: TranslationData of the languages of the model.
    """
    from keras_attention.publishing.trained_entries import low_score_rule, translator_for
    from keras_attention.zoo.entry_io import rewrite_entry

    translator = translator_for(folder, data)
    threshold, rule = low_score_rule(translator, data)
    return rewrite_entry(folder, config={"low_score_threshold": threshold}, metrics={"low_score": rule})


def held_out(folder):
    """Dict of the settings with which the training of an entry chose its validation sentences."""
    from keras_attention.zoo.entry import read_entry

    training = read_entry(folder).metrics.get("training", {})
    former_name = {"validation_split": "validation_share"}
    settings = {name: training.get(name, training.get(former_name.get(name))) for name in ("validation_split", "seed")}
    return {name: value for name, value in settings.items() if value is not None}


def main(arguments=None):
    parser = OneLineParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("folder", metavar="FOLDER", help="folder of the trained model")
    add_sentence_pairs(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args(arguments)
    with silent_libraries():
        data = sentence_pairs(arguments, **held_out(arguments.folder))
    entry = choose(arguments.folder, data)
    print(f"{entry.name}: low_score_threshold {entry.config['low_score_threshold']}")


if __name__ == "__main__":
    sys.exit(guarded(main, "low_score_threshold.py", debug="--debug" in sys.argv))
