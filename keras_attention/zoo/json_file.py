"""Reads and writes small JSON files; files from untrusted sources are checked strictly."""

import json
import os

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
        EntryError: if the file is missing, too large, no strict JSON (NaN, repeated keys), or no object.
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
    """Writes `value` as readable JSON and makes sure it is on the disk.

    Args:
        path: Path; `read_json` must be able to read the result.
        value: dict of JSON types.

    Raises:
        EntryError: if it would be too large to be read back.
    """
    content = as_json(path.name, value)
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def as_json(name, value):
    """The content of a file `name`, bytes; what `value` has of a file name that is no UTF-8 becomes "?".

    Raises:
        EntryError: if it would be larger than `MAX_BYTES`.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    content = text.encode("utf-8", errors="replace") + b"\n"
    if len(content) > MAX_BYTES[name]:
        raise EntryError(f"{name} may have at most {MAX_BYTES[name]:,} bytes. Received: {len(content):,}")
    return content
