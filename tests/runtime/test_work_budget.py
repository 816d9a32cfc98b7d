"""Work ends when nobody waits for it, and all of it together stays within a budget of memory."""

import threading

import pytest
from zoo.tiny_bert import TEXTS, tiny_classifier
from zoo.tiny_entry import ENGLISH, tiny_translator
from zoo.tiny_gpt import tiny_generator

from keras_attention.runtime.compiled_search import map_in_threads
from keras_attention.runtime.work_budget import (
    MemoryBudget,
    Unwanted,
    cache_bytes,
    in_this_context,
    memory,
    most_memory,
    stop_if_unwanted,
    working,
)


class Clients:
    """Counts how often somebody asks whether the result is wanted; after `most` times, it no longer is."""

    def __init__(self, most):
        self.asked, self.most = 0, most

    def __call__(self):
        self.asked += 1
        return self.asked <= self.most


def test_without_a_server_every_result_is_wanted_and_memory_has_no_limit():
    stop_if_unwanted()
    assert most_memory() == float("inf")
    with memory(10**15):
        pass


def test_unwanted_work_stops_also_in_other_threads():
    with working(lambda: False):
        with pytest.raises(Unwanted):
            stop_if_unwanted()
        with pytest.raises(Unwanted), memory(1):
            raise AssertionError("not reached")
        with pytest.raises(Unwanted):
            list(map_in_threads(lambda _: stop_if_unwanted(), [1, 2, 3]))
        call = in_this_context(stop_if_unwanted)
    with pytest.raises(Unwanted):
        call()
    stop_if_unwanted()


def waiting_thread(budget, amount, is_wanted=lambda: True):
    """A thread that takes memory until it is told to give it back: (thread, has it, give it back, why it failed)."""
    has, give_back, failed = threading.Event(), threading.Event(), []

    def take():
        try:
            with working(is_wanted, budget), memory(amount):
                has.set()
                assert give_back.wait(60)
        except Unwanted as error:
            failed.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    return thread, has, give_back, failed


def test_memory_is_given_in_turn_and_small_work_never_waits_for_large_work():
    emptied = []
    budget = MemoryBudget(6400, lambda: emptied.append(budget.in_use))
    first = waiting_thread(budget, 10_000)  # more than there is: it gets what one piece of work can get
    assert first[1].wait(60)
    assert budget.in_use == budget.most_for_one == 4800
    second, third = waiting_thread(budget, 4000), waiting_thread(budget, 300)
    small = waiting_thread(budget, 200)
    assert small[1].wait(60)
    assert not second[1].is_set()
    assert not third[1].wait(0.3)  # large, and after the second
    first[2].set()
    assert second[1].wait(60)
    assert third[1].wait(60)
    for thread, _, give_back, failed in (first, second, third, small):
        give_back.set()
        thread.join()
        assert not failed
    assert budget.in_use == 0
    assert emptied == [0]


def test_waiting_work_whose_client_leaves_is_dropped():
    budget, gone = MemoryBudget(1000), threading.Event()
    holder = waiting_thread(budget, 700)
    assert holder[1].wait(60)
    thread, has, _, failed = waiting_thread(budget, 700, lambda: not gone.is_set())
    assert not has.wait(0.3)
    gone.set()
    thread.join(timeout=60)
    assert failed
    assert not has.is_set()
    holder[2].set()
    holder[0].join()
    assert budget.in_use == 0


@pytest.mark.slow
def test_a_generator_stops_between_two_chunks_and_gives_its_memory_back():
    generator, budget = tiny_generator("char"), MemoryBudget(10**9)
    clients = Clients(11)
    with working(clients, budget), pytest.raises(Unwanted):
        generator.generate(["A dog"] * 3, max_tokens=100_000, seed=7)
    assert clients.asked == 12
    assert budget.in_use == 0


@pytest.mark.slow
def test_answers_are_the_same_within_a_small_budget():
    generator = tiny_generator("char")
    options = {"n": 5, "max_tokens": 7, "temperature": 1.3, "seed": 11}
    expected = generator.generate(["A dog", "Two men"], **options)
    row = cache_bytes(generator.model, 1, 2 * generator.window - 1)
    budget = MemoryBudget(6 * row)  # a batch of 4, but not of 32
    with working(lambda: True, budget):
        assert generator.steps.largest_batch(13, 100) == 4
        assert generator.generate(["A dog", "Two men"], **options) == expected
    assert generator.steps.largest_batch(13, 100) == 32
    assert cache_bytes(generator.model, 3, 5) == 3 * 5 * 2 * 2 * 4 * 2 * 14  # copies, keys and values, bytes, sizes


def test_a_classifier_stops_between_two_batches(monkeypatch):
    monkeypatch.setattr("keras_attention.runtime.compiled_forward.STEPS_PER_BATCH", 1)
    check_stops(tiny_classifier().classify, TEXTS * 3)


@pytest.mark.slow
def test_a_translator_stops_between_two_batches(monkeypatch):
    monkeypatch.setattr("keras_attention.runtime.buckets.BATCH_SIZES", (1,))
    check_stops(tiny_translator().translate, ENGLISH * 3)


def check_stops(answer, texts):
    """The answers are the same within a budget; without somebody who waits they end early."""
    expected, budget = answer(texts), MemoryBudget(10**9)
    with working(lambda: True, budget):
        assert answer(texts) == expected
    clients = Clients(2)
    with working(clients, budget), pytest.raises(Unwanted):
        answer(texts)
    assert clients.asked >= 3
    assert budget.in_use == 0
