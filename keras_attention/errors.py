"""The errors that are told in one line."""


class UserError(ValueError):
    """What was found, what was expected, and how to mend it. The command line prints it alone and exits with 2."""


class WorkerLostError(RuntimeError):
    """Another process of the same training is gone. The command line prints it alone and exits with 75: try again."""
