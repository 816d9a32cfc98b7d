"""Reads and checks an entry without building its model."""

import re
from pathlib import Path
from typing import NamedTuple

from keras_attention.errors import EntryError
from keras_attention.zoo.card import check_metrics
from keras_attention.zoo.manifest import MAX_BYTES, read_json, verify_files
from keras_attention.zoo.schema import architecture_of, check_config

WEIGHTS = "model.weights.h5"
JSON_FILES = ("config.json", "metrics.json")
REQUIRED = (*JSON_FILES, WEIGHTS, "CARD.md")
PICTURE = re.compile(r"[^/]+\.png")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "merges.txt")
BYTES_OF = {"float32": 4, "float16": 2, "int8": 1}
MEGABYTE = 1 << 20
MAX_CARD_BYTES, MAX_PICTURE_BYTES = MEGABYTE, 4 * MEGABYTE
MAX_BYTES_PER_ID = 64  # of a vocabulary, in addition to one megabyte
MAX_EXTRA_BYTES = 4 * MEGABYTE  # of the weights file, in addition to the weights


class Entry(NamedTuple):
    """A checked entry.

    Attributes:
        folder: Path.
        config: dict, see `schema.check_config`; with the defaults filled in.
        metrics: dict, see `card.card_text`; "examples" is a list of {"source": str, "output": str}, for text pairs also
            with "source_b".
        files: list of str, the names of its files without the manifest.
        bytes: int, the total size of the files.
    """

    folder: Path
    config: dict
    metrics: dict
    files: list
    bytes: int

    @property
    def architecture(self):
        """The registered Architecture of the model."""
        return architecture_of(self.config)

    @property
    def name(self):
        """str, the name of the folder."""
        return self.folder.resolve().name

    @property
    def card(self):
        """str, the text of CARD.md, with control characters replaced by spaces."""
        text = (self.folder / "CARD.md").read_text(encoding="utf-8", errors="replace")
        return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text)


def read_entry(folder, hashed=None):
    """Checks an entry against its manifest and its configuration against the schema. Does not import TensorFlow.

    Args:
        folder: str or Path.
        hashed: collection of names whose SHA-256 is checked, or None for all files.

    Returns:
        Entry.

    Raises:
        EntryError: if the entry differs from its manifest, or contains anything that is not allowed.
    """
    folder = Path(folder)
    files = verify_files(folder, JSON_FILES)  # small files first, because they limit the sizes of the others
    for name in REQUIRED:
        if name not in files:
            raise EntryError(f"{folder} lacks {name!r}.")
    config = check_config(read_json(folder / "config.json"), where=str(folder / "config.json"))
    for role, tokenizer in config["tokenizer"].items():
        if f"{tokenizer}/tokenizer.json" not in files:
            raise EntryError(f"{folder} lacks {tokenizer + '/tokenizer.json'!r}, the {role} tokenizer of config.json.")
    for path in folder.rglob("*"):
        if path.is_dir() and not any(path.iterdir()):
            raise EntryError(f"{path} is empty. A saved model has no empty folders.")
    sizes = {name: (folder / name).stat().st_size for name in files}
    _check_budget(folder, config, sizes)
    verify_files(folder, set(files if hashed is None else hashed) - set(JSON_FILES))
    metrics = check_metrics(read_json(folder / "metrics.json"), where=str(folder / "metrics.json"))
    return Entry(folder, config, metrics, files, sum(sizes.values()))


def _check_budget(folder, config, sizes):
    """Checks that there are only allowed files, and that their sizes fit config.json.

    The weights that config.json requests must fit the size of the weights file, so that a small file cannot request a
    large model.
    """
    width = BYTES_OF[config["weights_dtype"]]
    architecture = architecture_of(config)
    asked, stored = architecture.parameters(config["model"]) * width, sizes[WEIGHTS]
    if asked > 2 * stored + 65536 or stored > asked + MAX_EXTRA_BYTES:
        raise EntryError(
            f"{folder}: config.json needs about {asked} bytes of weights, but {WEIGHTS} has {stored} bytes."
        )
    ids = max((config["model"][setting] for setting in architecture.use.tokenizers.values()), default=0)
    vocabulary = MEGABYTE + MAX_BYTES_PER_ID * ids
    most = {**MAX_BYTES, WEIGHTS: stored, "CARD.md": MAX_CARD_BYTES}
    most |= {
        f"{tokenizer}/{name}": vocabulary for tokenizer in config["tokenizer"].values() for name in TOKENIZER_FILES
    }
    if config.get("words"):
        from keras_attention.zoo.weights_file import max_bytes  # here: it imports NumPy and h5py

        words = max_bytes(config["words"]["num_terms"], config["model"]["num_labels"])
        for name in words.keys() - sizes.keys():
            raise EntryError(f"{folder} lacks {name!r}, the words of config.json.")
        most |= words
    for name, size in sizes.items():
        if name not in most and not PICTURE.fullmatch(name):
            raise EntryError(f"{folder}: a saved model cannot have a file {name!r}.")
        if size > most.get(name, MAX_PICTURE_BYTES):
            raise EntryError(f"{folder}: {name!r} has {size} bytes. Allowed: {most.get(name, MAX_PICTURE_BYTES)}")
