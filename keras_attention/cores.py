"""How many cores there are to compute with."""

import os


def available_cores():
    """int >= 1, the cores this process may use: in a container, or under `taskset`, fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):  # Linux alone tells it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
