"""The models of the server, worker threads that answer requests within a time limit, and metrics."""

import asyncio
import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from keras_attention.compile_cache import keep_compiled
from keras_attention.cores import available_cores
from keras_attention.errors import UserError, quoted
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.work import POLL_SECONDS, MemoryBudget, Unwanted, stop_if_unwanted, working
from keras_attention.server.batching import share_batches
from keras_attention.server.messages import CLIENT_GONE, Refusal, check_limits, client_is_gone
from keras_attention.zoo.registry import open_entry

EXAMPLES = 3
MEGABYTE = 1 << 20


class ServedModel(NamedTuple):
    """A loaded model with its task and description.

    Attributes:
        name: str.
        task: str, the pipeline's own task.
        pipeline: Pipeline that batches across requests, if it can.
        about: dict of JSON types, the description of the model in `GET /v1/models`.
        steps: list of callables that compute each shape once.
    """

    name: str
    task: str
    pipeline: object
    about: dict
    steps: list


def load_models(names, settings, observe):
    """Loads models and prepares them for batches across requests.

    Args:
        names: list of str, by name or folder.
        settings: ServerSettings.
        observe: callable (model name, int), called for each sequence with the number of sequences in its batch.

    Returns:
        Dict from name to ServedModel, in the order of `names`.

    Raises:
        UserError: if a model is missing or damaged, or two models have the same name.
    """
    models = {}
    for requested in names:
        entry = open_entry(requested)
        if entry.name in models:
            raise UserError(f"Two models have the name {entry.name!r}. Rename one of the folders.")
        pipeline = load_pipeline(entry)
        if settings.engine in pipeline.engines:
            pipeline.use_engine(settings.engine, compute_type=settings.compute_type)
        steps = share_batches(pipeline, settings, partial(observe, entry.name))
        models[entry.name] = served_model(pipeline, steps)
    return models


def served_model(pipeline, steps=()):
    """The ServedModel of a pipeline that was loaded from an entry."""
    entry = pipeline.entry
    return ServedModel(entry.name, entry.architecture.use.task, pipeline, about_model(pipeline), list(steps))


def about_model(pipeline):
    """The description of a model in `GET /v1/models`: dict of JSON types."""
    config, metrics, task = pipeline.entry.config, pipeline.entry.metrics, pipeline.entry.architecture.use.task
    facts = {"name": pipeline.entry.name, "task": task, "architecture": config["architecture"]}
    facts |= {name: config[name] for name in ("source_language", "target_language", "language") if name in config}
    facts |= {"pair": False, **pipeline.facts, "attention": pipeline.has_attention}
    facts["description"] = metrics.get("description", "")
    facts["parameters"] = metrics.get("parameters")
    facts["examples"] = [
        {name: example[name] for name in ("source", "source_b") if name in example}
        for example in metrics.get("examples", [])[:EXAMPLES]
    ]
    return facts


NICER = 5  # niceness of the compute threads


STREAM_AHEAD = 64  # values of a stream that wait for a slow client, before the computation waits, too


class Workers:
    """Threads that answer requests; they mostly wait for a batch to be computed.

    When all threads are busy, further requests are refused immediately. A request that takes too long gets an error.
    Its computation, or that of a client that has left, ends at its next part (see `pipelines.work`); its thread stays
    busy until then.

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

        def tell():
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

        work, unwanted = self._begin(tell)
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
            f"There was no answer within {self.seconds:g} seconds. Send less text, or try again later.",
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
    for thread in {int(name) for name in os.listdir("/proc/self/task")} - python:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICER)


def return_memory():
    """Returns the memory that the compiler has freed, a hundred MB or more, to the system."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # a C library other than glibc
            ctypes.CDLL(None).malloc_trim(0)


class Server:
    """The state that the routes share.

    Args:
        models: dict from name to ServedModel.
        settings: ServerSettings.
        metrics: ServerMetrics.
        tell: callable (str), called with a message for each model that becomes ready, or None.

    Attributes:
        state: "warming" while shapes are compiled (a model answers as soon as its own shapes are), then "ready";
            "stopping" at the end, and "broken" after an error.
        ready: list of str, the models that can answer.
    """

    def __init__(self, models, settings, metrics, tell=None):
        self.models = models
        self.settings = settings
        self.metrics = metrics
        self.budget = MemoryBudget(settings.memory_mb * MEGABYTE, return_memory)
        self.workers = Workers(settings.concurrency, settings.seconds, self.budget)
        if metrics:
            metrics.watch(self.budget)
        self.state = "warming"
        self.ready = []
        self._tell = tell or (lambda text: None)

    def warm(self):
        """Compiles the usual shapes of all models on all cores, model by model; ends early if the server stops."""

        def run(step):
            if self.state == "warming":
                step()

        try:
            with ThreadPoolExecutor(available_cores()) as threads:
                steps = {
                    name: [threads.submit(run, step) for step in model.steps] for name, model in self.models.items()
                }
                for name, futures in steps.items():
                    for step in futures:
                        step.result()
                    if self.state == "warming":
                        return_memory()
                        self.ready.append(name)
                        self._tell(f"{name} is ready ({self.progress()})")
            if self.state == "warming":
                keep_compiled()
                gc.collect()
                gc.freeze()  # loaded models stay, so garbage collection need not scan them during requests
                let_python_go_first()
                self.state = "ready"
        except Exception:
            self.state = "broken"  # final: a supervisor that polls /ready restarts the server
            raise

    def progress(self):
        """The number of ready models, such as "2 of 3"."""
        return f"{len(self.ready)} of {len(self.models)}"

    async def answer(self, function, request, task=None, beside=False):
        """The model's name and the result of function(pipeline, request), computed in a worker thread.

        Args:
            function: callable(pipeline, request).
            request: Request.
            task: str, the main task of the model, or None for any task. If the request names no model, the first one
                with this task answers.
            beside: bool. Whether models with another main task are allowed if they can do `task`, too.
        """
        model = self._ready_model(request, task, beside)
        return model.name, await self.workers.run(function, model.pipeline, request)

    def stream(self, function, request, task):
        """The model's name, and an asynchronous generator over function(pipeline, request), see `Workers.stream`."""
        model = self._ready_model(request, task)
        return model.name, self.workers.stream(function, model.pipeline, request)

    def _ready_model(self, request, task, beside=False):
        """The ServedModel for a request; raises an error if the request exceeds a limit or the model is not ready."""
        if self.state not in ("warming", "ready"):
            raise Refusal(503, f"The server is {self.state}: try again later.")
        check_limits(request, self.settings)
        model = self._model(request.model, task, beside)
        if model.name not in self.ready:
            raise Refusal(503, f"{model.name} is not ready yet ({self.progress()} models are): try again later.")
        return model

    def _model(self, name, task, beside):
        able = [model for model in self.models.values() if task in (None, model.task)]
        if beside:
            able += [model for model in self.models.values() if task in model.pipeline.entry.architecture.use.tasks]
        if name is None and able:
            return able[0]
        if name is None:
            raise Refusal(404, f"No model of this server can {task}. /v1/models lists the models.")
        if name not in self.models:
            raise Refusal(404, f"No model {quoted(name)} for this route. /v1/models lists the models.")
        if self.models[name] not in able:
            raise Refusal(422, f"{name} does not {task}. /v1/models lists the models.")
        return self.models[name]


def look(pipeline, request):
    """The attention weights as an `AttentionView`."""
    options = {"target": request.target, "n_best": request.n_best if request.n_best != 1 else None}
    return pipeline.attention_view(
        request.text, request.text_b, **{name: value for name, value in options.items() if value is not None}
    )


CONTENT_TYPE = CONTENT_TYPE_LATEST  # of the metrics
SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)


class ServerMetrics:
    """Metrics for Prometheus: counts requests and token sequences.

    Args:
        paths: collection of str, routes with their own label; all others count as "other".
    """

    def __init__(self, paths):
        self._paths = frozenset(paths)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter("requests", "Requests answered", ["path", "status"], registry=self._registry)
        self._seconds = Histogram(
            "request_seconds", "Time from headers to answer", ["path"], buckets=SECONDS, registry=self._registry
        )
        self._open = Gauge("requests_in_progress", "Requests being answered", registry=self._registry)
        self._rows = Histogram(
            "rows_together", "Batch size of each sequence", ["model"], buckets=BATCH_SIZES, registry=self._registry
        )

    def watch(self, budget):
        """Shows the state of the MemoryBudget of the answers in progress."""
        limit = Gauge(
            "memory_budget_bytes",
            "Most bytes of key/value caches and activations of the answers in progress; more work waits",
            registry=self._registry,
        )
        limit.set(budget.most)
        in_use = Gauge("memory_in_use_bytes", "Bytes of this budget that are in use", registry=self._registry)
        in_use.set_function(lambda: budget.in_use)

    def accepted(self):
        """A context in which a request counts as in progress."""
        return self._open.track_inprogress()

    def answered(self, path, status, seconds):
        """Counts an answer."""
        path = path if path in self._paths else "other"
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def computed(self, model, rows_together):
        """Counts a sequence of a model with the size of its batch."""
        self._rows.labels(model).observe(rows_together)

    def answers_by_path(self):
        """Dict from path to the number of answered requests."""
        counts = {}
        for sample in next(iter(self._requests.collect())).samples:
            if sample.name == "requests_total":
                path = sample.labels["path"]
                counts[path] = counts.get(path, 0) + int(sample.value)
        return counts

    def text(self):
        """All metrics in the Prometheus format, bytes."""
        return generate_latest(self._registry)
