"""The errors that are reported in one line."""


class UserError(ValueError):
    """What was found, what was expected, and how to mend it. The command line prints it alone and exits with 2."""


class WorkerLostError(RuntimeError):
    """Another process of the same training is gone. The command line prints it alone and exits with 75: try again."""


class EntryError(UserError):
    """A folder that is no sound zoo entry: says which file, what was found and what was expected."""
