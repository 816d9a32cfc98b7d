"""Work in progress: whether its result is still wanted, and how much memory all of it together may take.

A server sets both with `working` around each request. The pipelines ask between two parts of a computation. Elsewhere,
every result is wanted, and memory has no limit.
"""

import contextvars
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

POLL_SECONDS = 0.1  # a client leaves without waking up the thread that works for it


class Unwanted(Exception):
    """Nobody waits for the result any more: the client has left, time is up, or the server stops."""


class MemoryBudget:
    """Limits the memory that the work of all threads takes together; more work waits for its turn.

    Small work never waits for large work: a quarter of the budget is for work of up to `1 / SMALL` of the budget only,
    and only large work is done in the order in which it came.

    Args:
        most: int > 0, bytes.
        emptied: callable(), called when large work has ended and no other work is in progress.

    Attributes:
        in_use: int, bytes.
        most_for_one: int, the most bytes that one piece of work can get; see `most_memory`.
    """

    SMALL = 32

    def __init__(self, most: int, emptied: Callable[[], Any] = lambda: None):
        self.most, self.most_for_one, self.in_use = most, most - most // 4, 0
        self._emptied, self._was_large = emptied, False
        self._waiting: list = []
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, amount: int) -> Iterator[None]:
        """Context in which `amount` bytes, at most `most_for_one`, count as in use; waits until they are free."""
        amount = min(amount, self.most_for_one)
        is_large = amount > self.most // self.SMALL
        self._wait(amount, is_large)
        try:
            yield
        finally:
            with self._changed:
                self.in_use -= amount
                self._was_large = self._was_large or is_large
                is_empty, self._was_large = self._was_large and not self.in_use, self._was_large and self.in_use > 0
                self._changed.notify_all()
            if is_empty:
                self._emptied()

    def _wait(self, amount, is_large):
        limit, place = self.most_for_one if is_large else self.most, object()
        with self._changed:
            self._waiting += [place] * is_large
            try:
                while self.in_use + amount > limit or (is_large and self._waiting[0] is not place):
                    self._changed.wait(POLL_SECONDS)
                    stop_if_unwanted()
                self.in_use += amount
            finally:
                if is_large:
                    self._waiting.remove(place)
                self._changed.notify_all()


_is_wanted: contextvars.ContextVar = contextvars.ContextVar("is_wanted", default=lambda: True)
_budget: contextvars.ContextVar = contextvars.ContextVar("budget", default=None)


@contextmanager
def working(is_wanted: Callable[[], bool], budget: MemoryBudget | None = None) -> Iterator[None]:
    """Context of one request: its work ends early when `is_wanted()` is False, and takes its memory from `budget`."""
    tokens = [(_is_wanted, _is_wanted.set(is_wanted)), (_budget, _budget.set(budget))]
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)


def stop_if_unwanted() -> None:
    """Raises Unwanted if nobody waits for the result any more."""
    if not _is_wanted.get()():
        raise Unwanted("Nobody waits for this result any more.")


@contextmanager
def memory(amount: int) -> Iterator[None]:
    """Context for a part of the work that takes `amount` bytes; waits for them, or raises Unwanted."""
    stop_if_unwanted()
    budget = _budget.get()
    if budget is None:
        yield
        return
    with budget.taken(amount):
        yield


def most_memory() -> float:
    """The most bytes that one part of the work should take; infinity without a budget."""
    budget = _budget.get()
    return math.inf if budget is None else budget.most_for_one


def in_this_context(function: Callable) -> Callable:
    """The function with the context of the current request, for calls in other threads."""
    variables = [(variable, variable.get()) for variable in (_is_wanted, _budget)]

    def call(*arguments):
        with working(*(value for _, value in variables)):
            return function(*arguments)

    return call


def cache_bytes(model: Any, rows: int, positions: int) -> int:
    """Bytes of the cached keys and values of a model that writes: what a step reads, and the copy that it returns.

    Args:
        model: keras.Model with a decoder.
        rows: int, sequences or hypotheses.
        positions: int, cached tokens of each.
    """
    settings = model.get_config()
    layers = settings.get("num_layers") or settings.get("num_decoder_layers") or 1
    width = settings.get("hidden_dim") or settings.get("units") or 512
    return 2 * 2 * 4 * layers * width * rows * positions


def activation_bytes(model: Any, rows: int, positions: int) -> int:
    """About the bytes that a layer of an encoder needs at a time: scores of all heads, and vectors of all tokens."""
    settings = getattr(model, "encoder", model).get_config()
    heads, width = settings.get("num_heads", 12), settings.get("hidden_dim", 768)
    return 4 * rows * positions * (2 * heads * positions + 12 * width)
