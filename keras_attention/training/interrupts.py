"""Lets Ctrl-C and SIGTERM wait for the end of the running step."""

import contextlib
import signal
import threading


class Interrupts:
    """`received` is the name of the signal that came, or None."""

    def __init__(self):
        self.received = None


@contextlib.contextmanager
def deferred_interrupts():
    """Inside the `with`, the first SIGINT or SIGTERM is only noted; a second one interrupts at once.

    Outside the main thread, where Python does not deliver signals, nothing is changed.

    Returns:
        `Interrupts`, as the target of the `with`.
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
