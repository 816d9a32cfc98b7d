"""The error that a user can mend, told in one line."""


class UserError(ValueError):
    """What was found, what was expected, and how to mend it. The command line prints it alone and exits with 2."""
