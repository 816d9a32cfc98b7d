"""Worker threads that answer requests within a time limit and a limit of memory, and the priority of such threads."""

import asyncio
import contextlib
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from keras_attention.runtime.work_budget import POLL_SECONDS, Unwanted, stop_if_unwanted, working
from keras_attention.server.gate import CLIENT_GONE, Refusal, client_is_gone

STREAM_AHEAD = 64  # values of a stream that wait for a slow client, before the computation waits, too
NICER = 5  # niceness of the compute threads


class Workers:
    """Threads that answer requests; they mostly wait for a batch to be computed.

    When all threads are busy, further requests are refused immediately. A request that takes too long gets an error.
    Its computation, or that of a client that has left, ends at its next part (see `runtime.work_budget`); its thread
    stays busy until then.

    Args:
        most: int > 0, number of threads.
        seconds: float > 0, time limit for an answer.
        budget: MemoryBudget of all threads, or None.
    """

    def __init__(self, most, seconds, budget=None):
        self.most = most
        self.seconds = seconds
        self.budget = budget
        self.busy = 0
        self._threads = ThreadPoolExecutor(most, "answer")
        self._stopping = threading.Event()

    async def run(self, function, *arguments):
        """The result of the function.

        Raises:
            Refusal: with 503 if all threads are busy or time runs out, 499 if the client leaves.
        """
        work, unwanted = self._begin(function, *arguments)
        try:
            finished, _ = await asyncio.wait([work], timeout=self.seconds)
        finally:
            unwanted.set()
        if not finished:
            raise self._too_late()
        with self._as_refusal():
            return work.result()

    async def stream(self, function, *arguments):
        """Runs the generator function(*arguments) in a thread and yields its values, all within the time limit.

        When this generator is closed or the time runs out, the one in the thread stops. It is at most `STREAM_AHEAD`
        values ahead.

        Raises:
            Refusal: see `run`.
        """
        loop, pieces, room = asyncio.get_running_loop(), asyncio.Queue(), threading.Semaphore(STREAM_AHEAD)

        def notify():
            values = iter(function(*arguments))
            try:
                for piece in values:
                    while not room.acquire(timeout=POLL_SECONDS):
                        stop_if_unwanted()
                    stop_if_unwanted()
                    loop.call_soon_threadsafe(pieces.put_nowait, piece)
            finally:
                with contextlib.suppress(AttributeError):  # an iterator that is no generator
                    values.close()

        work, unwanted = self._begin(notify)
        work.add_done_callback(lambda _: pieces.put_nowait(work))
        end = loop.time() + self.seconds
        try:
            while (piece := await asyncio.wait_for(pieces.get(), end - loop.time())) is not work:
                room.release()
                yield piece
            with self._as_refusal():
                work.result()
        except TimeoutError:
            raise self._too_late() from None
        finally:
            unwanted.set()

    def _begin(self, function, *arguments):
        """Starts the function in a thread: the future of its result, and an event that ends it early."""
        self.check_room()
        self.busy += 1
        unwanted, end, is_gone = threading.Event(), time.monotonic() + self.seconds, client_is_gone.get()

        def is_wanted():
            ended = unwanted.is_set() or self._stopping.is_set() or time.monotonic() > end
            return not ended and not is_gone()

        def compute():
            with working(is_wanted, self.budget):
                stop_if_unwanted()
                return function(*arguments)

        work = asyncio.get_running_loop().run_in_executor(self._threads, compute)
        work.add_done_callback(self._release)
        return work, unwanted

    @contextlib.contextmanager
    def _as_refusal(self):
        try:
            yield
        except Unwanted:
            gone = client_is_gone.get()()
            raise (Refusal(CLIENT_GONE, "The client has left.") if gone else self._too_late()) from None

    def _too_late(self):
        return Refusal(
            503,
            f"There was no answer within {self.seconds:g} seconds (--seconds). A model's first answers take longer, "
            "because it is compiled: try again; a long text needs more seconds.",
        )

    def check_room(self):
        """Raises Refusal with 503 if all threads are busy."""
        if self.busy >= self.most:
            raise Refusal(503, f"All {self.most} workers are busy. Try again later.")

    def close(self):
        """Ends the work in progress at its next part, waits for the threads, and accepts no further work."""
        self._stopping.set()
        self._threads.shutdown()

    def _release(self, work):
        self.busy -= 1
        if not work.cancelled():
            work.exception()  # retrieve the exception of an abandoned answer, so that nothing is logged about it


def let_python_go_first():
    """Gives threads that run Python priority over compute threads, which exist once all shapes are compiled.

    A thread that receives or answers a request must not wait for a compute thread while it holds Python's GIL, because
    all other requests, including /health, would wait as well.
    """
    if sys.platform != "linux":  # on other systems, a priority belongs to the whole process
        return
    python = {thread.native_id for thread in threading.enumerate()}
    nicer = min(19, os.getpriority(os.PRIO_PROCESS, os.getpid()) + NICER)
    for thread in {int(name) for name in os.listdir("/proc/self/task")} - python:
        with contextlib.suppress(OSError):  # it has ended, or is even nicer
            os.setpriority(os.PRIO_PROCESS, thread, nicer)
