"""One tiny translator for all tests of the commands, which keeps its compiled programs."""

import functools

from zoo.tiny_entry import tiny_translator


@functools.cache
def translator():
    """One translator for all tests, which keeps its compiled programs."""
    return tiny_translator()
