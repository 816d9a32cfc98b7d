"""Entries on disk: written atomically, loaded after all checks."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import keras

from keras_attention.support.atomic_files import whole_folder
from keras_attention.support.errors import EntryError, UserError
from keras_attention.tokenizers import load_tokenizer
from keras_attention.zoo.card import card_text
from keras_attention.zoo.entry import WEIGHTS, Entry, read_entry, write_json, write_manifest
from keras_attention.zoo.registry import check_free
from keras_attention.zoo.schema import FORMAT_VERSION, architecture_of, check_config
from keras_attention.zoo.weights_file import STEPS, load_features, load_weights, load_words, save_weights


class LoadedEntry(NamedTuple):
    """A loaded model with its tokenizers.

    `tokenizers` is a dict by role, see `schema.Task`: "source" and "target" of a translator, "text" of a BERT.
    """

    entry: Entry
    model: keras.Model
    tokenizers: dict


def write_entry(
    folder,
    model,
    tokenizers,
    *,
    about,
    metrics,
    weights_dtype="float32",
    steps=STEPS,
    extra_files=(),
    overwrite=False,
):
    """Writes an entry into a temporary folder beside `folder`, reads it back, then renames it.

    Args:
        folder: str or Path, the entry's folder; its name is the model's name. Missing parent folders are created.
        model: built model of a registered architecture, see `schema.register`.
        tokenizers: dict from role to tokenizer, see `LoadedEntry`. A tokenizer with two roles is stored once.
        about: dict, the keys of config.json other than the network's settings, see `schema.Task`: for a translator its
            languages and "decoding", for a BERT its "language", "max_tokens" and "task".
        metrics: dict of JSON types, see `card.card_text`; becomes metrics.json and CARD.md.
        weights_dtype, steps: the `dtype` and `steps` of `save_weights`.
        extra_files: paths of further files to store, such as pictures of the card, or callables(folder) that write
            files into the entry.
        overwrite: bool. Whether to replace an existing entry at `folder`; see `registry.check_free`.

    Returns: Entry.

    Raises: EntryError, if `folder` exists and may not be replaced, or the entry cannot be read back.
    """
    folder = Path(folder).absolute()
    check_free(folder, overwrite)
    shared = len({id(tokenizer) for tokenizer in tokenizers.values()}) == 1
    names = {role: "tokenizer" if shared else f"{role}_tokenizer" for role in tokenizers}
    config = config_of(model, names, about, weights_dtype)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder, lambda place: check_free(place, overwrite)) as temporary:
        _write_facts(temporary, folder.name, config, metrics)
        save_weights(model, temporary / WEIGHTS, weights_dtype, steps)
        for role, tokenizer in tokenizers.items():
            tokenizer.save(temporary / names[role])
        _add(extra_files, temporary)
        write_manifest(temporary)
        load_entry(temporary)
        os.chmod(temporary, 0o755)
    return read_entry(folder)


def rewrite_entry(folder, *, config=None, metrics=None, extra_files=()):
    """Replaces keys of config.json and metrics.json of an entry, and its card. The other files stay as they are.

    Unlike `write_entry`, it does not round the weights of the entry a second time.

    Args:
        folder: str or Path of an entry.
        config, metrics: dict of the keys to replace, or None. The network's settings cannot change.
        extra_files: see `write_entry`; a path may replace a file of the same name.

    Returns: Entry.

    Raises: EntryError, if the entry is damaged or the result cannot be read back.
    """
    entry = read_entry(folder)
    config, metrics = {**entry.config, **(config or {})}, {**entry.metrics, **(metrics or {})}
    replaced = {"config.json", "metrics.json", "CARD.md"}
    replaced |= {Path(path).name for path in extra_files if not callable(path)}
    shown = {picture["file"] for picture in metrics.get("pictures", ())}
    replaced |= {picture["file"] for picture in entry.metrics.get("pictures", ())} - shown
    with whole_folder(entry.folder, lambda place: check_free(place, True)) as temporary:
        for name in set(entry.files) - replaced:
            (temporary / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(entry.folder / name, temporary / name)
        _write_facts(temporary, entry.name, config, metrics)
        _add(extra_files, temporary)
        write_manifest(temporary)
        load_entry(temporary)
        os.chmod(temporary, 0o755)
    return read_entry(entry.folder)


def _write_facts(folder, name, config, metrics):
    """Writes config.json, metrics.json and the card."""
    write_json(folder / "config.json", config)
    write_json(folder / "metrics.json", metrics)
    (folder / "CARD.md").write_text(card_text(name, config, metrics), encoding="utf-8", errors="replace")


def config_of(model, tokenizer_folders, about, weights_dtype="float32"):
    """Makes the content of config.json, a dict.

    Args:
        model, about, weights_dtype: see `write_entry`.
        tokenizer_folders: dict from role to the name of a folder.

    Raises:
        EntryError: if `read_entry` would reject it.
    """
    settings, architecture = model.get_config(), type(model).__name__
    config = {
        "format_version": FORMAT_VERSION,
        "architecture": architecture,
        "model": {name: settings[name] for name in architecture_of({"architecture": architecture}).settings},
        "tokenizer": tokenizer_folders,
        "weights_dtype": weights_dtype,
        **about,
    }
    check_config(config)
    return config


def _add(extra_files, folder):
    """Copies files into the folder, or calls their writers; no file may replace another."""
    for path in extra_files:
        if callable(path):
            path(folder)
            continue
        path = Path(path)
        if (folder / path.name).exists():
            raise EntryError(f"An extra file may not be called {path.name!r}: the entry has one already.")
        shutil.copyfile(path, folder / path.name)


def load_entry(entry):
    """Loads a model with its tokenizers; builds it from allow-listed settings only.

    Args:
        entry: Entry from `read_entry`, which has checked all files; or str or Path, a folder to check first.

    Returns:
        LoadedEntry.

    Raises:
        EntryError: see `read_entry`; also if the weights or the tokenizers do not fit config.json.
    """
    entry = entry if isinstance(entry, Entry) else read_entry(entry)
    settings, task = entry.config["model"], entry.architecture.task
    folders = entry.config["tokenizer"]
    loaded = {name: _tokenizer(entry, name) for name in dict.fromkeys(folders.values())}  # a shared one is loaded once
    tokenizers = {role: loaded[name] for role, name in folders.items()}
    for role, tokenizer in tokenizers.items():
        if task.tokenizer_kinds is not None and tokenizer.kind not in task.tokenizer_kinds:
            raise EntryError(
                f"{entry.folder}: the {role} tokenizer is of the kind {tokenizer.kind}. "
                f"Expected: {' or '.join(task.tokenizer_kinds)}"
            )
        size = settings[task.tokenizers[role]]
        if tokenizer.vocabulary_size != size:
            raise EntryError(
                f"{entry.folder}: the {role} tokenizer has {tokenizer.vocabulary_size} ids. The model has {size}"
            )
    model = load_network(entry)
    if entry.config.get("words"):
        load_words(entry)
    if entry.config.get("features"):
        load_features(entry)
    return LoadedEntry(entry, model, tokenizers)


def load_network(entry):
    """Loads the network of an entry that `read_entry` has checked, with its trained weights."""
    try:
        model = entry.architecture.model_class()(**entry.config["model"], dtype="float32")
        model.build()
    except ValueError as error:
        raise EntryError(f"{entry.folder / 'config.json'}: {error}") from error
    load_weights(model, entry.folder / WEIGHTS, entry.config["weights_dtype"])
    return model


def _tokenizer(entry, name):
    """Loads the tokenizer from a folder of the entry, which must contain only the tokenizer's files."""
    try:
        tokenizer = load_tokenizer(entry.folder / name)
    except UserError as error:
        raise EntryError(str(error)) from error
    written = {file for file in entry.files if file.startswith(f"{name}/")}
    for file in sorted(written - {f"{name}/{file}" for file in tokenizer.files}):
        raise EntryError(f"{entry.folder}: a tokenizer of {tokenizer.kind} has no file {file!r}.")
    return tokenizer
