"""Chooses the attention heads of a trained Transformer from which `translate --align` takes the alignment of words.

    python recipes/tools/alignment_heads.py FOLDER --data multi30k --source en --target de

recipes/transformer.py does this at the end of a training. This tool does it again for a trained model, on pairs of the
same languages: the heads that find names and numbers that are the same on both sides. config.json is replaced; the
weights stay as they are.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.shared_options import add_sentence_pairs, sentence_pairs
from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded
from keras_attention.support.errors import UserError
from keras_attention.support.flags import OneLineParser


def choose(folder, data):
    """Rewrites one entry; returns it as Entry.

    Args:
        folder: str or Path.
        data: TranslationData of the languages of the model.

    Raises:
        UserError: no head aligns words, or the pairs have too few names and numbers.
    """
    from keras_attention.publishing.alignment_heads import alignment_heads
    from keras_attention.publishing.trained_entries import translator_for
    from keras_attention.zoo.entry_io import rewrite_entry

    translator = translator_for(folder, data)
    heads = alignment_heads(translator, *data.train)
    if heads is None:
        raise UserError(f"No head of {folder} finds the names and numbers of these pairs. It stays as it is.")
    return rewrite_entry(folder, config={"alignment_heads": heads})


def main(arguments=None):
    parser = OneLineParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("folder", metavar="FOLDER", help="folder of the trained model")
    add_sentence_pairs(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args(arguments)
    with silent_libraries():
        data = sentence_pairs(arguments)
    entry = choose(arguments.folder, data)
    print(f"{entry.name}: alignment_heads {entry.config['alignment_heads']}")


if __name__ == "__main__":
    sys.exit(guarded(main, "alignment_heads.py", debug="--debug" in sys.argv))
