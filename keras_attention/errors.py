"""The errors that are reported in one line, and how they quote what others wrote."""

BAD_USAGE = 2  # the exit code after an error that the user can fix
MOST_QUOTED = 80


class UserError(ValueError):
    """What was found, what was expected, and how to mend it. The command line prints it alone and exits with 2."""


class WorkerLostError(RuntimeError):
    """Another process of the same training is gone. The command line prints it alone and exits with 75: try again."""


class TrainingDivergedError(UserError):
    """A training became NaN or infinite; the message names the epoch, the step and what was not finite."""


class EntryError(UserError):
    """A folder that is no sound zoo entry: says which file, what was found and what was expected."""


def quoted(value, most=MOST_QUOTED):
    """The `repr` of a value for a message, cut to `most` characters: whoever wrote it cannot fill a screen."""
    written = repr(value)
    return written if len(written) <= most else written[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def one_line(text):
    """The text without line breaks and other control characters, at most 1,000 characters."""
    return "".join(character if character.isprintable() else " " for character in str(text))[:1000]
