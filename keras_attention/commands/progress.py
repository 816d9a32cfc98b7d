"""A progress line on stderr with the time left, when a person is looking."""

import sys
import time


class ProgressLine:
    """Shows how many sentences are done; silent when stderr is no terminal and for one sentence.

    Args:
        stream: text file, stderr by default.
        before: int, how many were done before this run.
    """

    def __init__(self, stream=None, before=0):
        self._before = before
        self._stream = stream or sys.stderr
        self._started = time.monotonic()
        self._shown = False

    def __call__(self, done, total):
        if total < 2 or not self._stream.isatty():
            return
        spent = time.monotonic() - self._started
        now = done - self._before
        left = spent / now * (total - done) if now > 0 else 0.0
        bar = "#" * (20 * done // total)
        self._stream.write(f"\r[{bar:<20}] {done}/{total} sentences, {spent:.0f} s, {left:.0f} s left \x1b[K")
        self._shown = True
        if done >= total:
            self.close()
        self._stream.flush()

    def close(self):
        """Clears the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._shown = False
