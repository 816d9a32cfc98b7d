"""Make models of this package from what `distill.py` has trained.

    python recipes/tools/gpu/unpack.py FOLDER --out runs/gpu

FOLDER has the files of `distill.py`. Writes OUT/encoder and, if they were trained, OUT/sentiment and OUT/pairs, whose
cards say nothing of scores: fine-tune, measure and compress them first.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from pack import unpack_tensors

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded

with silent_libraries():
    from keras_attention.models import BertClassifier
    from keras_attention.tokenizers import WordPieceTokenizer
    from keras_attention.zoo.entry import read_entry
    from keras_attention.zoo.entry_io import write_entry

STARTED_LIKE = Path("saved_models/minilm_small_en")  # settings and vocabulary
LABELS = {"sentiment": ("negative", "positive"), "pairs": ("different", "paraphrase")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    tensors = dict(np.load(arguments.folder / "encoder_tokens.npz")) | dict(np.load(arguments.folder / "encoder.npz"))
    write(arguments.out / "encoder", make_encoder(tensors), pooling="mean", normalize=True)
    for name, labels in LABELS.items():
        file = arguments.folder / f"{name}.xz"
        if not file.exists():  # with --only-encoder
            continue
        model = make_classifier(unpack_tensors(file.read_bytes()))
        task = {"kind": "binary", "label_names": [*labels], "separator": None, "threshold": 0.5}
        task |= {"pair": name == "pairs", "long_texts": "ends", "min_probability": None}
        write(arguments.out / name, model, task=task, words=None)


def make_encoder(tensors):
    """A BertEncoder with the settings of `minilm_small_en` and the given weights, name of Hugging Face -> array."""
    from keras_attention.convert.published_weights import build_filled, hugging_face_name

    def read(path):
        values = np.asarray(tensors[hugging_face_name(path, "bert").removeprefix("bert.")], np.float32)
        return values.T if path.endswith("/kernel") else values

    return build_filled("encoder", read_entry(STARTED_LIKE).config["model"], read)


def write(out, model, **about):
    tokenizer = WordPieceTokenizer.load(STARTED_LIKE / "tokenizer")
    about = {"language": "en", "max_tokens": 256} | about
    description = f"A stage of a training, {out.name}."
    metrics = {name: [] for name in ("data", "scores", "limits", "examples", "seeds")}
    metrics |= {"description": description, "parameters": model.count_params(), "minutes": 0.0}
    metrics |= {"command": "", "commit": "", "hardware": ""}
    write_entry(out, model, {"text": tokenizer}, about=about, metrics=metrics, overwrite=True)
    print(out)


def make_classifier(tensors):
    """A classifier by the mean over all tokens, with the output layer that was trained."""
    encoder = make_encoder(tensors)
    model = BertClassifier(**encoder.settings, num_labels=2, pooling="mean", pooler=False)
    model.build()
    model.encoder.set_weights(encoder.get_weights())
    model.output_dense.set_weights([tensors["head.weight"].T, tensors["head.bias"]])
    return model


if __name__ == "__main__":
    sys.exit(guarded(main, "unpack.py", "--debug" in sys.argv))
