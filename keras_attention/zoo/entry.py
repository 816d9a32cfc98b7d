"""A trained model as files: manifest and other small JSON files, which are checked before any other file is opened."""

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from keras_attention.support.errors import JOINERS, EntryError, parse_json, quoted
from keras_attention.zoo.card import check_metrics
from keras_attention.zoo.schema import FEATURES_FILE, WORDS_FILE, architecture_of, check_config, max_bytes_of_words
from keras_attention.zoo.terms_of_use import LICENCE_FILE

MAX_BYTES = {"manifest.json": 64 * 1024, "config.json": 64 * 1024, "metrics.json": 4 * 1024 * 1024}


def read_json(path):
    """Reads a JSON object no larger than `MAX_BYTES` for its name.

    Args:
        path: Path.

    Returns:
        dict.

    Raises:
        EntryError: if the file is missing, too large, not strict JSON (NaN, repeated keys), or not an object.
    """
    limit = MAX_BYTES[path.name]
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise EntryError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > limit:
        raise EntryError(f"{path} is larger than the {limit} bytes allowed.")
    try:
        value = parse_json(content)
    except ValueError as error:
        raise EntryError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise EntryError(f"{path} must hold a JSON object. Received: {type(value).__name__}")
    return value


def write_json(path, value):
    """Writes `value` as readable JSON and flushes it to disk.

    Args:
        path: Path; `read_json` must be able to read the result.
        value: dict of JSON types.

    Raises:
        EntryError: if it is too large for `read_json`.
    """
    content = as_json(path.name, value)
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def as_json(name, value):
    """The content of a JSON file `name`, as bytes. Characters that UTF-8 cannot encode become "?".

    Raises:
        EntryError: if it is larger than `MAX_BYTES`.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    content = text.encode("utf-8", errors="replace") + b"\n"
    if len(content) > MAX_BYTES[name]:
        raise EntryError(f"{name} may have at most {MAX_BYTES[name]:,} bytes. Received: {len(content):,}")
    return content


MANIFEST = "manifest.json"
FORMAT_VERSION = 1
MAX_ENTRY_BYTES = 1 << 31
MAX_FILES = 64
# A file, or a file in a folder; not hidden, no "..", no characters that file systems treat differently.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")


def write_manifest(folder):
    """Writes `manifest.json`, which lists all files of the folder.

    Args:
        folder: Path.

    Raises:
        EntryError: if the folder contains a file that is not allowed in an entry.
    """
    files = {name: {"size": size, "sha256": _sha256(folder / name)} for name, size in _files_in(folder).items()}
    files.pop(MANIFEST, None)
    write_json(folder / MANIFEST, {"format_version": FORMAT_VERSION, "files": files})


def verify_files(folder, hashed=None):
    """Checks that the folder holds exactly the files of its manifest, with their sizes and hashes.

    Args:
        folder: Path.
        hashed: collection of names whose content is compared, or None for all. Sizes are always compared.

    Returns:
        Sorted list of the names of the files, without the manifest.

    Raises:
        EntryError: names the first file that is missing, extra or different.
    """
    if not folder.is_dir():
        raise EntryError(f"{folder} is not a folder. Expected a zoo entry.")
    if not (folder / MANIFEST).is_file() or (folder / MANIFEST).is_symlink():
        raise EntryError(f"{folder} has no {MANIFEST}, so it is not a saved model.")
    expected = read_manifest(folder)
    present = _files_in(folder)
    present.pop(MANIFEST)
    for name in sorted(expected.keys() - present.keys()):
        raise EntryError(f"{folder}: file {quoted(name)} is missing.")
    for name in sorted(present.keys() - expected.keys()):
        raise EntryError(f"{folder}: file {quoted(name)} does not belong to the entry.")
    for parent, folders, files in os.walk(folder):
        if not folders and not files:
            raise EntryError(f"{parent} is empty. A saved model has no empty folders.")
    for name, size in present.items():
        if size != expected[name]["size"]:
            wanted = quoted(expected[name]["size"])
            raise EntryError(f"{folder}: file {quoted(name)} has {size} bytes. Expected: {wanted}")
        if size > MAX_BYTES.get(name, MAX_ENTRY_BYTES):
            raise EntryError(f"{folder}: file {quoted(name)} has {size} bytes. Allowed: {MAX_BYTES[name]}")
    for name in sorted(present if hashed is None else present.keys() & set(hashed)):
        if _sha256(folder / name) != expected[name]["sha256"]:
            raise EntryError(
                f"{folder}: the content of {quoted(name)} does not match its SHA-256. Fetch the entry again."
            )
    return sorted(present)


def read_manifest(folder):
    """The "files" of a folder's manifest, with their names, sizes and hashes checked for form.

    Args:
        folder: Path; the files themselves are not read.

    Returns:
        dict from name to {"size": int, "sha256": str}.

    Raises:
        EntryError: if the manifest is not one.
    """
    manifest = read_json(folder / MANIFEST)
    if set(manifest) != {"format_version", "files"} or not isinstance(manifest["files"], dict):
        raise EntryError(f"{folder / MANIFEST} must hold format_version and files. Received: {sorted(manifest)!s:.80}")
    version = manifest["format_version"]
    if type(version) is not int or version != FORMAT_VERSION:
        raise EntryError(
            f"{folder / MANIFEST} has format_version={quoted(version)}. This version reads {FORMAT_VERSION}."
        )
    for name, facts in manifest["files"].items():
        sound = isinstance(facts, dict) and set(facts) == {"size", "sha256"} and type(facts["size"]) is int
        if not _NAME.fullmatch(name) or not sound or not re.fullmatch("[0-9a-f]{64}", str(facts["sha256"])):
            raise EntryError(f"{folder / MANIFEST} has an invalid entry for {quoted(name)}.")
    return manifest["files"]


def _files_in(folder):
    """Dict from the name of each regular file, with "/" between folders, to its size."""
    sizes = {}
    for parent, folders, files in os.walk(folder):
        if len(sizes) + len(folders) + len(files) > MAX_FILES:
            raise EntryError(f"{folder} holds more than the {MAX_FILES} files allowed.")
        for name in [*folders, *files]:
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, folder).replace(os.sep, "/")
            status = os.lstat(path)
            if not _NAME.fullmatch(relative) or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                raise EntryError(
                    f"{folder}: {relative!r} may not be part of an entry: plain files with plain names only."
                )
            if stat.S_ISREG(status.st_mode):
                sizes[relative] = status.st_size
    if sum(sizes.values()) > MAX_ENTRY_BYTES:
        raise EntryError(f"{folder} holds {sum(sizes.values())} bytes. Allowed: {MAX_ENTRY_BYTES}")
    return sizes


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


WEIGHTS = "model.weights.h5"
JSON_FILES = ("config.json", "metrics.json")
REQUIRED = (*JSON_FILES, WEIGHTS, "CARD.md")
PICTURE = re.compile(r"[^/]+\.png")
EXAMPLE = re.compile(r"example_[1-9][0-9]{0,3}(\.[a-z0-9]{1,5})")  # an input of the examples, if inputs are files
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "merges.txt")
BYTES_OF = {"float32": 4, "float16": 2, "int8": 1, "int8_deflate": 5 / 8}
MEGABYTE = 1 << 20
MAX_CARD_BYTES, MAX_PICTURE_BYTES = MEGABYTE, 4 * MEGABYTE
MAX_LICENCE_BYTES = 65536
MAX_BYTES_PER_ID = 64  # of a vocabulary file, in addition to one megabyte
MAX_EXTRA_BYTES = 4 * MEGABYTE  # of the weights file, in addition to the weights


class Entry(NamedTuple):
    """A checked entry.

    Attributes:
        folder: Path.
        config: dict, see `schema.check_config`; with the defaults filled in.
        metrics: dict, see `card.card_text`; "examples" is a list of {"source": str, "output": str}, for text pairs also
            with "source_b"; if inputs are files, a "source" is the name of one of the entry's files, see `EXAMPLE`.
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
    def input(self):
        """The kind of input that the model reads, see `keras_attention.inputs`."""
        return self.architecture.task.input(self.config)

    @property
    def name(self):
        """str, the name of the folder."""
        return self.folder.resolve().name

    @property
    def card(self):
        """str, the text of CARD.md, with control characters replaced by spaces."""
        text = (self.folder / "CARD.md").read_text(encoding="utf-8", errors="replace")
        return "".join(sign if sign.isprintable() or sign in f"\n{JOINERS}" else " " for sign in text)


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
    check_has_required(folder, files)
    config = check_config(read_json(folder / "config.json"), where=str(folder / "config.json"))
    for role, tokenizer in config["tokenizer"].items():
        if f"{tokenizer}/tokenizer.json" not in files:
            raise EntryError(f"{folder} lacks {tokenizer + '/tokenizer.json'!r}, the {role} tokenizer of config.json.")
    sizes = {name: (folder / name).stat().st_size for name in files}
    check_sizes(folder, config, sizes)
    verify_files(folder, set(files if hashed is None else hashed) - set(JSON_FILES))
    metrics = check_metrics(read_json(folder / "metrics.json"), where=str(folder / "metrics.json"))
    entry = Entry(folder, config, metrics, files, sum(sizes.values()))
    for example in metrics["examples"] if entry.input.is_file else ():
        if example["source"] not in files or not EXAMPLE.fullmatch(example["source"]):
            raise EntryError(
                f"{folder / 'metrics.json'}: the source of an example must be a file of the entry, such as example_1"
                f"{entry.input.example_suffix}. Received: {quoted(example['source'])}"
            )
    return entry


def check_has_required(folder, files):
    """Raises EntryError for the first required file that is not among `files`."""
    for name in REQUIRED:
        if name not in files:
            raise EntryError(f"{folder} lacks {name!r}.")


def check_sizes(folder, config, sizes):
    """Checks that there are only allowed files, and that their sizes fit config.json.

    The weights that config.json requests must fit the size of the weights file, so that a small file cannot request a
    large model.

    Args:
        folder: Path or str, for messages.
        config: dict that `schema.check_config` has checked.
        sizes: dict from the name of each file, without the manifest, to its bytes; `REQUIRED` must be among them.

    Raises:
        EntryError: names the first file that is not allowed, or too large.
    """
    width = BYTES_OF[config["weights_dtype"]]
    architecture = architecture_of(config)
    asked, stored = architecture.parameters(config["model"]) * width, sizes[WEIGHTS]
    if asked > 2 * stored + 65536 or stored > asked + MAX_EXTRA_BYTES:
        raise EntryError(
            f"{folder}: config.json needs about {asked} bytes of weights, but {WEIGHTS} has {stored} bytes."
        )
    ids = max((config["model"][setting] for setting in architecture.task.tokenizers.values()), default=0)
    vocabulary = MEGABYTE + MAX_BYTES_PER_ID * ids
    most = {**MAX_BYTES, WEIGHTS: stored, "CARD.md": MAX_CARD_BYTES, LICENCE_FILE: MAX_LICENCE_BYTES}
    most |= {
        f"{tokenizer}/{name}": vocabulary for tokenizer in config["tokenizer"].values() for name in TOKENIZER_FILES
    }
    if config.get("words"):
        if WORDS_FILE not in sizes:
            raise EntryError(f"{folder} lacks {WORDS_FILE!r}, the words of config.json.")
        most[WORDS_FILE] = max_bytes_of_words(config["words"]["num_terms"], config["model"]["num_labels"])
    if config.get("features"):
        if FEATURES_FILE not in sizes:
            raise EntryError(f"{folder} lacks {FEATURES_FILE!r}, the features of config.json.")
        most[FEATURES_FILE] = 4 * (config["features"]["count"] + 1) * config["model"]["num_labels"] + 65536
    kind = architecture.task.input(config)
    if kind.is_file:
        of_examples = [match for match in map(EXAMPLE.fullmatch, sizes) if match and match[1] == kind.example_suffix]
        most |= dict.fromkeys([match[0] for match in of_examples], kind.max_example_bytes)
    for name, size in sizes.items():
        if name not in most and not PICTURE.fullmatch(name):
            raise EntryError(f"{folder}: a saved model cannot have a file {name!r}.")
        if size > most.get(name, MAX_PICTURE_BYTES):
            raise EntryError(f"{folder}: {name!r} has {size} bytes. Allowed: {most.get(name, MAX_PICTURE_BYTES)}")
