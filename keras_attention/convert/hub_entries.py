"""Entries of this package on the Hugging Face Hub: downloaded file by file, and checked like those on this machine.

The manifest decides which files are downloaded, with which sizes and hashes. Manifest and settings come first: a model
that they do not allow is refused before its weights are downloaded. Other files of the repository are never read.
"""

import shutil
from pathlib import Path

from keras_attention.convert.hub import WEIGHTS as SAFETENSORS
from keras_attention.convert.hub import parsed_name
from keras_attention.convert.hub_files import HubFile, fetched_file
from keras_attention.support.atomic_files import whole_folder
from keras_attention.support.errors import EntryError, quoted
from keras_attention.zoo.entry import (
    JSON_FILES,
    MANIFEST,
    MAX_BYTES,
    MAX_ENTRY_BYTES,
    MAX_FILES,
    WEIGHTS,
    check_has_required,
    check_sizes,
    read_entry,
    read_json,
    read_manifest,
)
from keras_attention.zoo.schema import check_config

SHA256_DIGITS = 64


def is_entry(files):
    """Whether a repository with these files, a collection of names, holds an entry of this package."""
    return MANIFEST in files and WEIGHTS in files and SAFETENSORS not in files


def fetch_entry(name, files, folder):
    """Downloads an entry, and writes it to a folder after all checks of `zoo.entry.read_entry`.

    Args:
        name: str, "hf://ORG/NAME@COMMIT".
        files: dict from the name of each file to its "size" and "hash", see `hub.resolve`.
        folder: Path of the entry's folder, whose parent exists.

    Raises:
        UserError: if a download fails; nothing is written then.
        EntryError: if the entry is damaged, too large, or has settings that are not allowed.
    """
    repository, commit = parsed_name(name)

    def download(file):
        return fetched_file(HubFile(name, repository, commit, file, files[file]["size"], files[file]["hash"]))

    if files[MANIFEST]["size"] > MAX_BYTES[MANIFEST]:
        raise EntryError(f"{name}: {MANIFEST} has {files[MANIFEST]['size']:,} bytes. Allowed: {MAX_BYTES[MANIFEST]:,}")
    snapshot = download(MANIFEST).parent
    expected = read_manifest(snapshot)
    _check_announced(name, expected, files)
    for file in JSON_FILES:
        download(file)
    config = check_config(read_json(snapshot / "config.json"), where=f"{name}, config.json")
    check_sizes(name, config, {file: facts["size"] for file, facts in expected.items()})
    with whole_folder(folder, _check_missing) as temporary:
        for file in (MANIFEST, *expected):
            (temporary / file).parent.mkdir(exist_ok=True)
            shutil.copyfile(download(file), temporary / file)
        read_entry(temporary)


def _check_announced(name, expected, files):
    """Raises EntryError unless the hub has all files of the manifest, with its sizes and, where it has one, hashes."""
    check_has_required(name, expected)
    if len(expected) > MAX_FILES:
        raise EntryError(f"{name}: {MANIFEST} lists {len(expected):,} files. Allowed: {MAX_FILES}")
    total = sum(facts["size"] for facts in expected.values())
    if total > MAX_ENTRY_BYTES:
        raise EntryError(f"{name} has {total:,} bytes. Allowed: {MAX_ENTRY_BYTES:,}")
    for file, facts in expected.items():
        if file not in files:
            raise EntryError(f"{name}: file {quoted(file)} of its {MANIFEST} is missing. Push the model again.")
        if file in JSON_FILES and facts["size"] > MAX_BYTES[file]:
            raise EntryError(f"{name}: {file} has {facts['size']:,} bytes. Allowed: {MAX_BYTES[file]:,}")
        announced = files[file]
        same_hash = len(announced["hash"]) != SHA256_DIGITS or announced["hash"] == facts["sha256"]
        if announced["size"] != facts["size"] or not same_hash:
            raise EntryError(
                f"{name}: {quoted(file)} on the hub is not the file that {MANIFEST} lists. Push the model again."
            )


def _check_missing(folder):
    """Raises EntryError if there is a folder already; a `check` for `whole_folder`."""
    if Path(folder).is_dir() and any(Path(folder).iterdir()):
        raise EntryError(f"{folder} exists already. Remove it, and try again.")
