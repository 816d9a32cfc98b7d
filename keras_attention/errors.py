"""Errors that are reported in one line, safe quoting of values in them, and strict parsing of JSON from others."""

import json
from zipfile import BadZipFile

BAD_USAGE = 2  # the exit code after an error that the user can fix
MOST_QUOTED = 80
# Exceptions raised on reading a missing, damaged or foreign .npz or .json file.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile)


class UserError(ValueError):
    """An error that the user can fix: what was found, what was expected, how to fix it. Exit code 2, no traceback."""


class WorkerLostError(RuntimeError):
    """Another process of the same training has stopped. Exit code 75, which means "try again"; no traceback."""


class TrainingDivergedError(UserError):
    """A training became NaN or infinite; the message names the epoch, the step and the value that is not finite."""


class EntryError(UserError):
    """An invalid zoo entry; the message names the file, what was found and what was expected."""


def quoted(value, most=MOST_QUOTED):
    """The `repr` of a value for a message, cut to `most` characters, because the value may be very long."""
    written = repr(value)
    return written if len(written) <= most else written[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def one_line(text):
    """The text without line breaks and control characters; long texts keep their first 500 and last 499 characters."""
    text = "".join(character if character.isprintable() else " " for character in str(text))
    return text if len(text) <= 1000 else f"{text[:500]}\N{HORIZONTAL ELLIPSIS}{text[-499:]}"


def parse_json(content):
    """Parses JSON without repeated keys, NaN and infinities.

    Args:
        content: bytes, UTF-8.

    Returns:
        The parsed value, of JSON types.

    Raises:
        ValueError: if the content is not such JSON, or is nested too deeply.
    """
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse_constant(name):
    raise ValueError(f"{name} is not a JSON number")


def _unique_keys(pairs):
    value = dict(pairs)
    if len(value) < len(pairs):
        seen = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"key {twice!r:.80} stands twice")
    return value
