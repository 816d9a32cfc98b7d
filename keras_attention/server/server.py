"""The state of the server that its routes share: it prepares models, loads them at their first request, and answers."""

import asyncio
import gc
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from keras_attention.runtime.stored_programs import return_memory
from keras_attention.runtime.work_budget import MemoryBudget
from keras_attention.server.gate import Refusal
from keras_attention.server.model_router import ModelRouter
from keras_attention.server.requests import check_limits, check_tokens
from keras_attention.server.served_models import MEGABYTE
from keras_attention.server.workers import Workers, let_python_go_first
from keras_attention.support.compile_cache import keep_compiled
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import UserError
from keras_attention.support.moved import moved_name

LOADING_AT_ONCE = 2  # models
WARM_SECONDS = 5  # of Retry-After while a model is warmed up
ANSWERING = ("warming", "ready")  # states


class Server:
    """The state that the routes share.

    Args:
        models: dict from name to ServedModel.
        settings: ServerSettings.
        metrics: ServerMetrics.
        notify: callable (str), called with a message for each model that becomes ready, or None.

    Attributes:
        state: "warming" while shapes are compiled (a model answers as soon as its own shapes are), then "ready";
            "stopping" at the end, and "broken" after an error.
        router: ModelRouter, which chooses the model of a request.
        ready: list of str, the models that can answer.
    """

    def __init__(self, models, settings, metrics, notify=None):
        self.models = models
        self.router = ModelRouter(models)
        self.settings = settings
        self.metrics = metrics
        self.budget = MemoryBudget(settings.memory_mb * MEGABYTE, return_memory)
        self.workers = Workers(settings.concurrency, settings.seconds, self.budget)
        if metrics:
            metrics.watch(self.budget)
        self.state = "warming"
        self.ready = []
        self._notify = notify or (lambda text: None)
        self._loading: dict = {}  # name -> (Future, Thread)
        self._waiting: dict = {}  # name -> requests that wait for the model
        self._loaders = threading.Semaphore(LOADING_AT_ONCE)

    def warm(self):
        """Compiles the usual shapes of all loaded models on all cores, model by model; ends if the server stops."""
        loaded = {name: model for name, model in self.models.items() if model.load is None}
        try:
            with ThreadPoolExecutor(available_cores()) as threads:
                steps = {name: self._start_steps(threads, model) for name, model in loaded.items()}
                for name, futures in steps.items():
                    self._wait_for_steps(name, futures)
            if self.state == "warming":
                self.state = "ready"
        except Exception:
            self.state = "broken"  # final: a supervisor that polls /ready restarts the server
            raise

    def _start_steps(self, threads, model):
        """Lets the threads compile the shapes of a model: list of futures."""

        def run(step):
            if self.state in ANSWERING:
                step()

        return [threads.submit(run, step) for step in model.steps]

    def _wait_for_steps(self, name, futures):
        """Waits until all shapes of a model are compiled; then it answers."""
        for step in futures:
            step.result()
        if self.state in ANSWERING:
            self._settle()
            self._begin_to_answer(name)

    def _begin_to_answer(self, name):
        self.ready.append(name)
        self._notify(f"{name} is ready ({self.progress()})")

    def _settle(self):
        """Stores the compiled programs, frees memory, and sets the priorities of threads, after a model is compiled."""
        return_memory()
        keep_compiled()
        gc.collect()
        gc.freeze()  # loaded models stay, so garbage collection need not scan them during requests
        let_python_go_first()

    def _load(self, model, future):
        """Loads a model in a thread of its own, and compiles its usual shapes while it already answers."""
        problem = None
        try:
            with self._loaders:
                if self.state in ANSWERING:
                    self._notify(f"Loading {model.name} ...")
                    loaded = model.load()
                    model.pipeline, model.about, model.steps = loaded.pipeline, loaded.about, loaded.steps
                    self._begin_to_answer(model.name)
            future.set_result(None)
            for step in model.steps:
                if self.state in ANSWERING:
                    step()
            self._settle()
        except UserError as error:  # also a damaged entry, which does not heal
            model.error = f"{model.name} cannot be loaded: {error}"
            self._notify(model.error)
        except Exception as error:
            self._notify(f"{model.name} could not be loaded: {error}")
            problem = error if isinstance(error, Refusal) else Refusal(500, f"{model.name} could not be loaded.")
        finally:
            if not future.done():
                future.set_result(problem)
            self._loading.pop(model.name, None)

    async def _wait_until_loaded(self, model):
        """Returns once a model is loaded; the first request starts it. Raises Refusal if that fails or takes long."""
        if model.name in self.ready:
            return
        if model.load is None:
            message = f"{model.name} is being warmed up, which takes about a minute after the start"
            raise Refusal(503, f"{message} ({self.progress()} models are ready): try again later.", retry=WARM_SECONDS)
        if self._waiting.get(model.name, 0) >= self.settings.concurrency:
            raise Refusal(503, f"{model.name} is being loaded: try again later.")
        loading = self._loading.get(model.name)
        if loading is None and not model.error:
            future: Future = Future()
            thread = threading.Thread(target=self._load, args=(model, future), name=f"load {model.name}", daemon=True)
            loading = self._loading[model.name] = future, thread
            thread.start()
        if loading:
            self._waiting[model.name] = self._waiting.get(model.name, 0) + 1
            try:
                done, _ = await asyncio.wait([asyncio.wrap_future(loading[0])], timeout=self.settings.seconds)
            finally:
                self._waiting[model.name] -= 1
            if not done:
                raise Refusal(503, f"{model.name} is being loaded: try again later.")
            if problem := done.pop().result():
                raise problem
        if model.error:
            raise Refusal(500, f"{model.name} cannot be loaded; see the log of the server.")
        if model.name not in self.ready:
            raise Refusal(503, f"The server is {self.state}: try again later.")

    def close(self):
        """Ends all work at its next part, and waits for the threads."""
        self.state = "stopping"
        self.workers.close()
        for _, thread in list(self._loading.values()):
            thread.join()

    def progress(self):
        """The number of ready models, such as "2 of 3"."""
        return f"{len(self.ready)} of {len(self.models)}"

    async def answer(self, function, request, task=None, allow_secondary_task=False):
        """The model's name and the result of function(pipeline, request), computed in a worker thread.

        Args:
            function: callable(pipeline, request).
            request: Request.
            task: str, the main task of the model, or None for any task. If the request names no model, the default of
                this task answers.
            allow_secondary_task: bool. Whether models with another main task are allowed if they can do `task`, too.
        """
        model = await self._ready_model(request, task, allow_secondary_task)

        def compute(pipeline, request):
            check_tokens(pipeline, request)
            return function(pipeline, request)

        return model.name, await self.workers.run(compute, model.pipeline, request)

    async def stream(self, function, request, task):
        """The model's name, and an asynchronous generator over function(pipeline, request), see `Workers.stream`."""
        model = await self._ready_model(request, task)

        def compute(pipeline, request):
            check_tokens(pipeline, request)
            yield from function(pipeline, request)

        return model.name, self.workers.stream(compute, model.pipeline, request)

    async def _ready_model(self, request, task, allow_secondary_task=False):
        """The ServedModel for a request; raises an error if the request exceeds a limit or the model is not ready."""
        if self.state not in ANSWERING:
            raise Refusal(503, f"The server is {self.state}: try again later.")
        check_limits(request, self.settings)
        model = await self.router.choose(request, task, allow_secondary_task)
        await self._wait_until_loaded(model)
        return model

    def about(self):
        """The description of each model for `GET /v1/models`: list of dicts of JSON types."""
        groups = dict.fromkeys((model.task, model.input_field) for model in self.models.values())
        defaults = {group: self.router.default_model(*group) for group in groups}
        return [
            {
                **model.about,
                **({"languages": [model.pair.source, model.pair.target]} if model.pair else {}),
                "default": defaults[model.task, model.input_field] is model,
                "loaded": model.name in self.ready,
            }
            for model in self.models.values()
        ]

    def body_bytes(self, path):
        """The most bytes of a request's body: more on routes of models that read files."""
        of_files = [model.input.body_bytes for model in self.models.values() if path == f"/v1/{model.task}"]
        return max([self.settings.body_bytes, *of_files])


def __getattr__(name):
    return moved_name(__name__, name)
