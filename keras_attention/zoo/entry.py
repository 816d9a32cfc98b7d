"""What an entry says about itself, read without building a model."""

from pathlib import Path
from typing import NamedTuple

from keras_attention.zoo.architectures import estimated_parameters
from keras_attention.zoo.entry_error import EntryError
from keras_attention.zoo.json_file import read_json
from keras_attention.zoo.manifest import MAX_ENTRY_BYTES, verify_files
from keras_attention.zoo.schema import check_config

WEIGHTS = "model.weights.h5"
JSON_FILES = ("config.json", "metrics.json")
REQUIRED = (*JSON_FILES, WEIGHTS, "CARD.md")
MAX_EXAMPLES = 1000


class Entry(NamedTuple):
    """A checked entry.

    Attributes:
        folder: Path.
        config: dict, see `schema.check_config`; with the defaults filled in.
        metrics: dict, see `card.write_card`; "examples" is a list of {"source": str, "output": str}; those of a
            classifier of pairs have a "source_b" too.
        files: list of str, the names of its files without the manifest.
        bytes: int, their sizes together.
    """

    folder: Path
    config: dict
    metrics: dict
    files: list
    bytes: int

    @property
    def name(self):
        """str, the name of the folder."""
        return self.folder.resolve().name

    @property
    def card(self):
        """str, the text of CARD.md."""
        return (self.folder / "CARD.md").read_text(encoding="utf-8", errors="replace")


def read_entry(folder, hashed=None):
    """Checks an entry against its manifest and its configuration against the schema. Does not import TensorFlow.

    Args:
        folder: str or Path.
        hashed: collection of names whose SHA-256 is checked, or None for all files.

    Returns:
        Entry.

    Raises:
        EntryError: if the entry is not exactly what its manifest says, or asks for what no entry may ask for.
    """
    folder = Path(folder)
    files = verify_files(folder, hashed)
    for name in REQUIRED:
        if name not in files:
            raise EntryError(f"{folder} lacks {name!r}.")
    config = check_config(read_json(folder / "config.json"), where=str(folder / "config.json"))
    for role, tokenizer in config["tokenizer"].items():
        if f"{tokenizer}/tokenizer.json" not in files:
            raise EntryError(f"{folder} lacks {tokenizer + '/tokenizer.json'!r}, the {role} tokenizer of config.json.")
    sizes = {name: (folder / name).stat().st_size for name in files}
    _check_budget(folder, config, sizes[WEIGHTS])
    metrics = read_json(folder / "metrics.json")
    _check_examples(folder, metrics.get("examples", []))
    return Entry(folder, config, metrics, files, sum(sizes.values()))


def _check_budget(folder, config, stored_bytes):
    """A small file may not ask for a large model: the memory asked for must fit to the weights that are there."""
    width = 2 if config["weights_dtype"] == "float16" else 4
    asked = estimated_parameters(config["architecture"], config["model"]) * width
    if stored_bytes > MAX_ENTRY_BYTES or asked > 2 * stored_bytes + 65536:
        raise EntryError(
            f"{folder}: config.json asks for about {asked} bytes of weights, but {WEIGHTS} has {stored_bytes} bytes."
        )


def _check_examples(folder, examples):
    sound = isinstance(examples, list) and len(examples) <= MAX_EXAMPLES
    for example in examples if sound else ():
        sound = sound and isinstance(example, dict) and set(example) - {"source_b"} == {"source", "output"}
        sound = sound and all(isinstance(text, str) for text in example.values())
    if not sound:
        raise EntryError(f"{folder / 'metrics.json'}: examples must be a list of source and output texts.")
