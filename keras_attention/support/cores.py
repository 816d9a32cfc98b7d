"""The number of cores that this process may use."""

import os


def available_cores():
    """int >= 1, the cores this process may use: in a container, or under `taskset`, fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):  # only on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_thread():
    """Context manager: NumPy and SciPy compute with one thread.

    With small matrices, several threads wait for each other: L-BFGS on 9,000 vectors of 256 numbers with 64 classes
    takes 4.9 CPU seconds with one thread, and 40 with two on busy cores.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)
