"""Delays Ctrl-C and SIGTERM until the end of the current step."""

import contextlib
import signal
import threading


class Interrupts:
    """`received` is the name of the signal received, or None."""

    def __init__(self):
        self.received = None


@contextlib.contextmanager
def deferred_interrupts():
    """Context manager: records the first SIGINT or SIGTERM; a second one interrupts immediately.

    Does nothing outside the main thread, because Python delivers signals to the main thread only.

    Yields:
        `Interrupts`.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def note(number, frame):
        if interrupts.received:
            raise KeyboardInterrupt
        interrupts.received = signal.Signals(number).name

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
