"""A row of a table that cannot be used, and why."""

from typing import NamedTuple

MAX_SHOWN, MAX_LISTED = 80, 40


class BadRow(NamedTuple):
    """What the readers of tables give in the place of a row that they cannot read.

    Attributes:
        reason: str, what bad rows are counted by, such as "too many fields".
        found, expected: str, for the message.
        column: str or None, the column in which it was found.
        skippable: bool. False where nobody can tell where the row ends, so that skipping it might lose others.
    """

    reason: str
    found: str
    expected: str
    column: str | None = None
    skippable: bool = True

    def message(self, path, line):
        """Returns one line of str that says where the row is, what is wrong and how to mend it."""
        column = "" if self.column is None else f", column {shown(self.column)}"
        mend = (
            "Mend the row, or leave such rows out with --skip-bad-rows."
            if self.skippable
            else "Mend it first: --skip-bad-rows cannot tell where this row ends."
        )
        return f"{path}, line {line}{column}: {self.reason}: found {self.found}. Expected: {self.expected}. {mend}"


def shown(value, most=MAX_SHOWN):
    """Returns the repr of a text or of UTF-8 bytes, cut to `most` characters, for a message."""
    value = value[: 4 * most]
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(values, most=10):
    """Returns the first values as they are shown, separated by commas: "'a', 'b', ... (7 in all)"."""
    values = list(values)
    rest = f", ... ({len(values):,} in all)" if len(values) > most else ""
    return ", ".join(shown(value, MAX_LISTED) for value in values[:most]) + rest
