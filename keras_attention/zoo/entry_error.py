"""The error of a zoo entry that cannot be trusted or used."""

from keras_attention.errors import UserError


class EntryError(UserError):
    """A folder that is no sound zoo entry: says which file, what was found and what was expected."""
