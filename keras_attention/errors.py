"""Errors that are reported in one line, and safe quoting of values in messages."""

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
