"""The number of cores that this process may use."""

import os


def available_cores():
    """int >= 1, the cores this process may use: in a container, or under `taskset`, fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):  # only on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
