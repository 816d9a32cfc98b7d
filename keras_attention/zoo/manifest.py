"""The manifest of an entry: size and SHA-256 of each file, checked before anything else opens the files."""

import hashlib
import os
import re
import stat

from keras_attention.errors import EntryError
from keras_attention.zoo.json_file import MAX_BYTES, read_json, write_json

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
MAX_ENTRY_BYTES = 1 << 31
MAX_FILES = 64
# A file, or a file in a folder; nothing hidden, no "..", no characters that a file system could read differently.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")


def write_manifest(folder):
    """Writes `manifest.json` over all files of the folder.

    Args:
        folder: Path.

    Raises:
        EntryError: if the folder holds something that no entry may hold.
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
