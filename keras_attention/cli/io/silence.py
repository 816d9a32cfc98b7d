"""Hides the messages that C++ libraries print while they are loaded."""

import os
import signal
import sys
from contextlib import contextmanager

from keras_attention.training.interrupts import deferred_interrupts


@contextmanager
def silent_libraries():
    """Discards everything written to the process's stderr, also by C++ code; for imports only.

    TensorFlow logs some lines before its log level has any effect. Ctrl-C waits for the end of the imports, some of
    which would swallow it.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with deferred_interrupts() as interrupts:
            yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
    if interrupts.received:
        signal.raise_signal(signal.Signals[interrupts.received])
