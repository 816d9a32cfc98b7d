"""Keeping what C++ libraries print while they are loaded off the user's screen."""

import os
import sys
from contextlib import contextmanager


@contextmanager
def silent_libraries():
    """Sends what is written to the process's stderr, by C++ too, to nowhere; for imports only.

    TensorFlow logs some lines before its log level has any effect.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
