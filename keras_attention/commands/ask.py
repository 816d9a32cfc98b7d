"""Lines that a person types."""

import select
import sys


def typed_lines(prompt):
    """Yields each line from the keyboard, or from what is piped in by now, until an empty one or the end.

    Args:
        prompt: str, shown where a person types.
    """
    while True:
        if sys.stdin is None or sys.stdin.closed:
            return
        if sys.stdin.isatty():
            print(prompt, end="", flush=True)
        elif not select.select([sys.stdin], [], [], 0.5)[0]:  # a pipe that nobody writes to: do not wait for ever
            return
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line
