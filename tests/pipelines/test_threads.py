import threading

import pytest

from keras_attention.runtime.compiled_search import map_in_threads
from keras_attention.support.cores import available_cores


def test_results_come_in_order_from_as_many_threads_as_cores():
    together = threading.Barrier(available_cores(), timeout=30)  # breaks if they come one after the other

    def square(number):
        together.wait()
        return number**2

    items = list(range(2 * available_cores()))
    assert list(map_in_threads(square, items)) == [number**2 for number in items]


def test_one_item_needs_no_thread():
    assert list(map_in_threads(lambda _: threading.current_thread(), ["a"])) == [threading.current_thread()]
    assert list(map_in_threads(str, [])) == []


def test_an_error_ends_the_map():
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads(lambda number: 1 / number, [3, 0, 2]))
