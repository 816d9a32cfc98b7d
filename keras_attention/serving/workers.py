"""Threads that answer requests: so many at a time, each for so long."""

import asyncio
import contextlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from keras_attention.serving.refusal import Refusal

NICER = 5  # how much more willingly threads that compute let others go first


class Workers:
    """Answers requests in threads, which mostly wait for a batch to be computed.

    Who comes while all threads are busy is sent away at once, so that nobody waits in vain. An answer that takes too
    long is given up; its thread stays busy until it is done.

    Args:
        most: int > 0, requests answered at a time.
        seconds: float > 0, for an answer.
    """

    def __init__(self, most, seconds):
        self.most = most
        self.seconds = seconds
        self.busy = 0
        self._threads = ThreadPoolExecutor(most, "answer")

    async def run(self, function, *arguments):
        """What the function returns; raises Refusal with 503 if there is no thread or no time for it."""
        self.check_room()
        self.busy += 1
        work = asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        work.add_done_callback(self._release)
        done, _ = await asyncio.wait([work], timeout=self.seconds)
        if not done:
            raise Refusal(503, f"There was no answer within {self.seconds:g} seconds: ask for less, or later.")
        return work.result()

    def check_room(self):
        """Raises Refusal with 503 if all threads are busy."""
        if self.busy >= self.most:
            raise Refusal(503, f"All {self.most} places are taken: try again later.")

    def close(self):
        """Waits for the threads; none begins anew."""
        self._threads.shutdown()

    def _release(self, work):
        self.busy -= 1
        if not work.cancelled():
            work.exception()  # of an answer that was given up: looked at, so that nobody complains that none did


def let_python_go_first():
    """Lets all threads that run Python go before those that compute, which exist by the time all shapes are warm.

    A thread that receives, refuses or answers a request must not wait, holding Python's lock, for one that computes:
    all others would wait with it, and /health too.
    """
    if sys.platform != "linux":  # elsewhere a priority is of the whole process
        return
    python = {thread.native_id for thread in threading.enumerate()}
    for thread in {int(name) for name in os.listdir("/proc/self/task")} - python:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICER)
