"""Several batches at a time."""

from concurrent.futures import ThreadPoolExecutor

from keras_attention.cores import available_cores


def map_in_threads(function, items):
    """Yields `function(item)` for each of a list's items, in order, computed on as many at once as there are cores.

    XLA gives the matrix products of a program to all cores but does the rest on one: two programs side by side keep two
    cores busy. A single item is computed without another thread.
    """
    if len(items) == 1:
        yield function(items[0])
        return
    with ThreadPoolExecutor(available_cores()) as threads:
        yield from threads.map(function, items)
