"""Errors that are reported in one line, safe quoting of values in them, and strict parsing of JSON from others."""

import json
import math
import re
import reprlib
from zipfile import BadZipFile

BAD_USAGE = 2  # the exit code after an error that the user can fix
MOST_QUOTED = 80
MOST_BITS = 1_000  # of an integer in a message; Python refuses to write one of more than 4,300 digits
MOST_DIGITS = 100  # of an integer in JSON
HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")  # perhaps: two of them are a character
# Not printable in Python, but part of the spelling of Persian, Hindi and emoji; tags make flags of countries.
JOINERS = "\u200c\u200d"
JOINING = re.compile(f"[{JOINERS}]|(?<=\U0001f3f4)[\U000e0020-\U000e007e]+\U000e007f")
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


def counted(number, noun):
    """A number and its noun in a message: "1 text", "1,200 texts"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def check_finite(values, what):
    """Raises UserError unless all numbers that a model computed (array or float) are finite; `what` names them."""
    import numpy as np  # here, because messages and `--help` do not need it

    if not np.isfinite(values).all():
        raise UserError(
            f"The model computed NaN or infinity as {what}, so there is no answer. Its weights are damaged or too "
            "large: fetch or train it again."
        )


class _Bounded(reprlib.Repr):
    """A `repr` of bounded size and cost, whatever a value holds: it builds no text that it then cuts.

    A YAML file of 500 bytes can hold a list that holds another one ten times, and so on; its `repr` never ends.
    """

    def __init__(self):
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 3, 20, 20, 20

    def repr_str(self, text, level):
        return repr(text[: self.maxstring])

    repr_bytes = repr_str

    def repr_int(self, number, level):
        bits = number.bit_length()
        return repr(number) if bits <= MOST_BITS else f"<an integer of {bits:,} bits>"


def is_a_name(text):
    """Whether a text has characters that are shown, and none that control a terminal or the direction of other text."""
    shown = JOINING.sub("", text)
    return bool(shown) and shown.isprintable()


def quoted(value, most=MOST_QUOTED):
    """The `repr` of a value for a message, cut to `most` characters, because the value may be very long."""
    bounded = _Bounded()
    bounded.maxstring = bounded.maxother = most
    written = bounded.repr(value)
    shortened = isinstance(value, str | bytes) and len(value) > most
    return written if len(written) <= most and not shortened else written[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def one_line(text):
    """The text without line breaks and control characters; long texts keep their first 500 and last 499 characters."""
    text = "".join(character if character.isprintable() else " " for character in str(text))
    return text if len(text) <= 1000 else f"{text[:500]}\N{HORIZONTAL ELLIPSIS}{text[-499:]}"


def parse_json(content):
    """Parses JSON without repeated keys, NaN, infinities, endless integers and halves of surrogate pairs.

    Args:
        content: bytes, UTF-8.

    Returns:
        The parsed value, of JSON types.

    Raises:
        ValueError: if the content is not such JSON, or is nested too deeply.
    """
    try:
        value = json.loads(
            content.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_int=_bounded_int,
            parse_float=_finite_float,
            object_pairs_hook=_unique_keys,
        )
        if HALF_A_CHARACTER.search(content):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise ValueError("it contains half of a surrogate pair, such as \\ud800") from error
    return value


def _refuse_constant(name):
    raise ValueError(f"{name} is not a JSON number")


def _bounded_int(digits):
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it contains an integer of {len(digits):,} digits")
    return int(digits)


def _finite_float(digits):
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{quoted(digits, 40)} is too large for a number")
    return number


def _unique_keys(pairs):
    value = dict(pairs)
    if len(value) < len(pairs):
        seen = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"key {quoted(twice)} stands twice")
    return value
