import os
import threading

import pytest

from keras_attention.zoo.threads import map_in_threads


def test_results_come_in_order_from_as_many_threads_as_cores():
    together = threading.Barrier(os.cpu_count(), timeout=30)  # breaks if they come one after the other

    def square(number):
        together.wait()
        return number**2

    items = list(range(2 * os.cpu_count()))
    assert list(map_in_threads(square, items)) == [number**2 for number in items]


def test_one_item_needs_no_thread():
    assert list(map_in_threads(lambda _: threading.current_thread(), ["a"])) == [threading.current_thread()]
    assert list(map_in_threads(str, [])) == []


def test_an_error_ends_the_map():
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads(lambda number: 1 / number, [3, 0, 2]))
