"""A progress line on stderr with the time left, when a person is looking."""

import sys
import time


class ProgressLine:
    """Shows how many sentences are done; silent when stderr is no terminal and for one sentence.

    Args:
        stream: text file, stderr by default.
    """

    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._started = time.monotonic()
        self._shown = False

    def __call__(self, done, total):
        if total < 2 or not self._stream.isatty():
            return
        spent = time.monotonic() - self._started
        left = spent / done * (total - done) if done else 0.0
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
