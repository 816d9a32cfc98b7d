"""The manifest and the other small JSON files of an entry. They are checked before any other file is opened."""

import hashlib
import json
import os
import re
import stat

from keras_attention.errors import EntryError
from keras_attention.strict_json import parse_json

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
    """Writes `manifest.json` over all files of the folder.

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
    expected = _read_manifest(folder)
    found = _files_in(folder)
    found.pop(MANIFEST)
    for name in sorted(expected.keys() - found.keys()):
        raise EntryError(f"{folder}: file {name!r:.80} is missing.")
    for name in sorted(found.keys() - expected.keys()):
        raise EntryError(f"{folder}: file {name!r:.80} does not belong to the entry.")
    for name, size in found.items():
        if size != expected[name]["size"]:
            raise EntryError(f"{folder}: file {name!r:.80} has {size} bytes. Expected: {expected[name]['size']}")
        if size > MAX_BYTES.get(name, MAX_ENTRY_BYTES):
            raise EntryError(f"{folder}: file {name!r:.80} has {size} bytes. Allowed: {MAX_BYTES[name]}")
    for name in sorted(found if hashed is None else found.keys() & set(hashed)):
        if _sha256(folder / name) != expected[name]["sha256"]:
            raise EntryError(
                f"{folder}: the content of {name!r:.80} does not match its SHA-256. Fetch the entry again."
            )
    return sorted(found)


def _read_manifest(folder):
    """The checked "files" of the manifest: dict from name to {"size", "sha256"}."""
    manifest = read_json(folder / MANIFEST)
    if set(manifest) != {"format_version", "files"} or not isinstance(manifest["files"], dict):
        raise EntryError(f"{folder / MANIFEST} must hold format_version and files. Received: {sorted(manifest)!s:.80}")
    version = manifest["format_version"]
    if type(version) is not int or version != FORMAT_VERSION:
        raise EntryError(
            f"{folder / MANIFEST} has format_version={version!r:.80}. This version reads {FORMAT_VERSION}."
        )
    for name, facts in manifest["files"].items():
        sound = isinstance(facts, dict) and set(facts) == {"size", "sha256"} and type(facts["size"]) is int
        if not _NAME.fullmatch(name) or not sound or not re.fullmatch("[0-9a-f]{64}", str(facts["sha256"])):
            raise EntryError(f"{folder / MANIFEST} has an invalid entry for {name!r:.80}.")
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
