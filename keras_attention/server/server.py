"""The models behind the routes, and the threads that answer requests within a time limit."""

import asyncio
import contextlib
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from keras_attention.cores import available_cores
from keras_attention.server import answers
from keras_attention.server.messages import AttentionRequest, Refusal, check_limits

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


class Server:
    """What the routes share.

    Args:
        models: dict from name to ServedModel.
        settings: ServerSettings.
        metrics: ServerMetrics.
    """

    def __init__(self, models, settings, metrics):
        self.models = models
        self.settings = settings
        self.metrics = metrics
        self.workers = Workers(settings.concurrency, settings.seconds)
        self.state = "warming"

    def warm(self):
        """Computes every shape of every model once, on all cores; ends early if the server stops."""
        steps = [step for model in self.models.values() for step in (*model.steps, partial(_look, model))]
        try:
            with ThreadPoolExecutor(available_cores()) as threads:
                for _ in threads.map(lambda step: step() if self.state == "warming" else None, steps):
                    pass
            if self.state == "warming":
                gc.collect()
                gc.freeze()  # what is loaded stays: no search for garbage among it while requests wait
                let_python_go_first()
                self.state = "ready"
        except Exception:
            self.state = "broken"  # and stays so: whoever looks at /ready starts it anew
            raise

    async def answer(self, function, request, task=None):
        """What a function of `answers` says to a request, computed in a thread, and the model's name."""
        if self.state != "ready":
            raise Refusal(503, f"The server is {self.state}: try again later.")
        check_limits(request, self.settings)
        model = self._model(request.model, task)
        return model.name, await self.workers.run(function, model.pipeline, request)

    def _model(self, name, task):
        able = [model for model in self.models.values() if task in (None, model.task)]
        if name is None and able:
            return able[0]
        if name not in self.models:
            raise Refusal(404, f"There is no model {name!r:.80} for this: see /v1/models.")
        if self.models[name] not in able:
            raise Refusal(422, f"{name} does not {task}: see /v1/models.")
        return self.models[name]


def _look(model):
    """Has a model look at its first example, if it has one."""
    if model.about["examples"] and model.about["attention"]:
        example = model.about["examples"][0]
        answers.attention(model.pipeline, AttentionRequest(text=example["source"], text_b=example.get("source_b")))
