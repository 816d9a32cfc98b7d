"""Writes a trained model as a folder of data, whole or not at all, and loads it after all checks."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import keras

from keras_attention.errors import EntryError, UserError
from keras_attention.models import AttentionSeq2Seq, BertClassifier, BertEncoder, BertMaskedLM, Transformer
from keras_attention.tokenizers import load_tokenizer
from keras_attention.whole_file import whole_folder
from keras_attention.zoo.card import card_text
from keras_attention.zoo.entry import WEIGHTS, Entry, read_entry
from keras_attention.zoo.json_file import write_json
from keras_attention.zoo.manifest import write_manifest
from keras_attention.zoo.place import check_free
from keras_attention.zoo.schema import ARCHITECTURES, FORMAT_VERSION, check_config
from keras_attention.zoo.weights_file import load_weights, save_weights
from keras_attention.zoo.words_file import load_words

CLASSES = {
    network.__name__: network for network in (AttentionSeq2Seq, Transformer, BertEncoder, BertMaskedLM, BertClassifier)
}


class LoadedEntry(NamedTuple):
    """A loaded model with its tokenizers.

    `tokenizers` is a dict by role: "source" and "target" of a translator, "text" of a BERT.
    """

    entry: Entry
    model: keras.Model
    tokenizers: dict


def write_entry(folder, model, tokenizers, *, about, metrics, weights_dtype="float32", extra_files=(), overwrite=False):
    """Writes an entry into a temporary folder beside `folder`, reads it back, then renames it.

    Args:
        folder: str or Path, the entry's folder; its name is the model's name. Folders above it are made.
        model: built model of one of `CLASSES`.
        tokenizers: dict from role to tokenizer, see `LoadedEntry`; one for both roles is stored once.
        about: dict, what config.json says beside the network: for a translator its languages and "decoding", for a
            BERT its "language", "max_tokens" and "task"; see `schema`.
        metrics: dict of JSON types, see `card.card_text`; becomes metrics.json and CARD.md.
        weights_dtype: "float32", "float16" or "int8", see `save_weights`.
        extra_files: paths of files to be stored as well, such as pictures of the card, or callables(folder) that write
            them into the folder of the entry.
        overwrite: bool. Whether an entry that stands at `folder` is replaced; see `place.check_free`.

    Returns: Entry.

    Raises: EntryError, if something stands at `folder` that may not be replaced, or the entry could not be read back.
    """
    folder = Path(folder).absolute()
    check_free(folder, overwrite)
    shared = len({id(tokenizer) for tokenizer in tokenizers.values()}) == 1
    names = {role: "tokenizer" if shared else f"{role}_tokenizer" for role in tokenizers}
    config = config_of(model, names, about, weights_dtype)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder, lambda place: check_free(place, overwrite)) as temporary:
        write_json(temporary / "config.json", config)
        write_json(temporary / "metrics.json", metrics)
        (temporary / "CARD.md").write_text(card_text(folder.name, config, metrics), encoding="utf-8", errors="replace")
        save_weights(model, temporary / WEIGHTS, weights_dtype)
        for role, tokenizer in tokenizers.items():
            tokenizer.save(temporary / names[role])
        _add(extra_files, temporary)
        write_manifest(temporary)
        load_entry(temporary)
        os.chmod(temporary, 0o755)
    return read_entry(folder)


def config_of(model, tokenizer_folders, about, weights_dtype="float32"):
    """What config.json says: dict.

    Args:
        model, about, weights_dtype: see `write_entry`.
        tokenizer_folders: dict from role to the name of a folder.

    Raises:
        EntryError: if `read_entry` would refuse it.
    """
    settings, architecture = model.get_config(), type(model).__name__
    config = {
        "format_version": FORMAT_VERSION,
        "architecture": architecture,
        "model": {name: settings[name] for name in ARCHITECTURES.get(architecture, {})},
        "tokenizer": tokenizer_folders,
        "weights_dtype": weights_dtype,
        **about,
    }
    check_config(config)
    return config


def _add(extra_files, folder):
    """Copies files into the folder, or lets them be written there; none may take the place of another."""
    for path in extra_files:
        if callable(path):
            path(folder)
            continue
        path = Path(path)
        if (folder / path.name).exists():
            raise EntryError(f"An extra file may not be called {path.name!r}: the entry has one already.")
        shutil.copyfile(path, folder / path.name)


def load_entry(folder):
    """Loads a model after `read_entry` found the folder sound; builds it from allow-listed settings only.

    Args:
        folder: str or Path.

    Returns:
        LoadedEntry.

    Raises:
        EntryError: see `read_entry`; also if the weights or the tokenizers do not fit to config.json.
    """
    entry = read_entry(folder)
    settings = entry.config["model"]
    folders = entry.config["tokenizer"]
    loaded = {name: _tokenizer(entry, name) for name in dict.fromkeys(folders.values())}  # one for both roles stays one
    tokenizers = {role: loaded[name] for role, name in folders.items()}
    for role, tokenizer in tokenizers.items():
        size = settings["vocabulary_size" if role == "text" else f"{role}_vocabulary_size"]
        if tokenizer.vocabulary_size != size:
            raise EntryError(
                f"{entry.folder}: the {role} tokenizer has {tokenizer.vocabulary_size} ids. The model has {size}"
            )
    try:
        model = CLASSES[entry.config["architecture"]](**settings, dtype="float32")
        model.build()
    except ValueError as error:
        raise EntryError(f"{entry.folder / 'config.json'}: {error}") from error
    load_weights(model, entry.folder / WEIGHTS, entry.config["weights_dtype"])
    if entry.config.get("words"):
        load_words(entry)
    return LoadedEntry(entry, model, tokenizers)


def _tokenizer(entry, name):
    """The tokenizer in a folder of the entry, which holds its files and no others."""
    try:
        tokenizer = load_tokenizer(entry.folder / name)
    except UserError as error:
        raise EntryError(str(error)) from error
    found = {file for file in entry.files if file.startswith(f"{name}/")}
    for file in sorted(found - {f"{name}/{file}" for file in tokenizer.files}):
        raise EntryError(f"{entry.folder}: a tokenizer of {tokenizer.kind} has no file {file!r}.")
    return tokenizer
