"""Store the weights of trained models in 8 bits, half the size of float16.

    python recipes/tools/store_in_8_bits.py FOLDER ...

Each entry is replaced, with scales for the rows or columns of a matrix (see `zoo.weights_file.save_weights`), but only
if it still reproduces the outputs of its examples. Compare its scores before and after with `keras-attention evaluate`.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded
from keras_attention.errors import UserError
from keras_attention.flags import OneLineParser


def store(folder):
    """Rewrites one entry; returns its size in bytes before and after."""
    from keras_attention.pipelines.base import failing_examples
    from keras_attention.zoo.archive import load_entry, write_entry

    folder = Path(folder)
    entry, model, tokenizers = load_entry(folder)
    described = ("format_version", "architecture", "model", "tokenizer", "weights_dtype")
    about = {name: value for name, value in entry.config.items() if name not in described}
    pictures = [folder / picture["file"] for picture in entry.metrics.get("pictures", ())]
    options = {"about": about, "metrics": entry.metrics, "weights_dtype": "int8", "extra_files": pictures}
    with tempfile.TemporaryDirectory() as temporary:  # tested there first
        write_entry(Path(temporary) / entry.name, model, tokenizers, **options)
        _, problems = failing_examples(Path(temporary) / entry.name)
    if problems:
        raise UserError(f"{folder} would answer differently, so it is unchanged: {problems[0]}")
    return entry.bytes, write_entry(folder, model, tokenizers, **options, overwrite=True).bytes


def main(arguments=None):
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folders of trained models")
    for folder in parser.parse_args(arguments).folders:
        with silent_libraries():
            before, after = store(folder)
        print(f"{folder}: {before:,} bytes, now {after:,}")


if __name__ == "__main__":
    sys.exit(guarded(main, "store_in_8_bits.py", "--debug" in sys.argv, (ValueError, OSError)))
