"""The models of the server, which are loaded at the start or at their first request, and metrics."""

import asyncio
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from keras_attention.inputs.text import TextInput
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.language_pairs import find_translator, pair_of
from keras_attention.pipelines.languages import language_code
from keras_attention.runtime.batching import share_batches
from keras_attention.runtime.stored_programs import return_memory
from keras_attention.runtime.work_budget import MemoryBudget
from keras_attention.server.gate import Refusal
from keras_attention.server.requests import TEXTS, check_limits, check_tokens
from keras_attention.server.workers import Workers
from keras_attention.support.compile_cache import keep_compiled
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import EntryError, UserError, quoted
from keras_attention.zoo.entry import JSON_FILES, read_entry
from keras_attention.zoo.registry import DEFAULT_MODELS, find_entry, list_models, named_by, open_entry

EXAMPLES = 3
MEGABYTE = 1 << 20
BYTES_PER_WEIGHT, BYTES_PER_MODEL = 8, 200 * MEGABYTE  # of a loaded model with its compiled programs
LOADING_AT_ONCE = 2  # models
ANSWERING = ("warming", "ready")  # states


@dataclass(eq=False)
class ServedModel:
    """A model with its task and description, which may not be loaded yet.

    Attributes:
        name: str.
        task: str, the pipeline's own task.
        pipeline: Pipeline that batches across requests, if it can; None before it is loaded.
        about: dict of JSON types, the description of the model in `GET /v1/models`.
        steps: sequence of callables that compute each shape once.
        tasks: tuple of str, all tasks of the pipeline.
        load: callable() -> ServedModel with a pipeline; None for a model that was loaded at the start.
        error: str, why the model cannot be loaded, or "".
        input: the kind of its input, see `keras_attention.inputs`.
        pair: `language_pairs.Pair` of a translator between natural languages, else None.
    """

    name: str
    task: str
    pipeline: Any
    about: dict
    steps: Sequence[Callable] = ()
    tasks: tuple = ()
    load: Callable | None = None
    error: str = ""
    input: Any = field(default_factory=TextInput)
    pair: Any = None

    @property
    def input_field(self):
        """The first field of a request to the model, such as "texts"."""
        return next(iter(self.input.fields))


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
        models[entry.name] = _loaded_model(entry, settings, observe)
    return models


def known_models(settings, observe, notify=lambda text: None):
    """All models of `list_models`, each to be loaded at its first request; calls `notify` for each damaged one.

    Args and returns: see `load_models`. Only the JSON files of each entry are read.
    """
    models = {}
    for name in list_models():
        try:
            entry = read_entry(find_entry(name), hashed=JSON_FILES)
        except EntryError as error:
            notify(f"{name} is not served: {error}")
            continue
        task = entry.architecture.task
        known = {"input": entry.input, "pair": pair_of(name, entry)}
        models[name] = ServedModel(name, task.name, None, about_entry(entry), (), task.tasks, **known)
        models[name].load = partial(_load_entry, entry, settings, observe)
    return models


def _load_entry(entry, settings, observe):
    needed, free = BYTES_PER_WEIGHT * entry.metrics.get("parameters", 0) + BYTES_PER_MODEL, free_memory()
    if needed > free:
        raise Refusal(
            503,
            f"There is no memory for {entry.name}: it needs about {needed // MEGABYTE:,} MB, free are "
            f"{free // MEGABYTE:,} MB. Start the server with --model for each model that you need.",
        )
    return _loaded_model(open_entry(entry.folder), settings, observe)


def _loaded_model(entry, settings, observe):
    pipeline = load_pipeline(entry)
    if settings.engine in pipeline.engines:
        pipeline.use_engine(settings.engine, compute_type=settings.compute_type)
    return served_model(pipeline, share_batches(pipeline, settings, partial(observe, entry.name)))


def served_model(pipeline, steps=()):
    """The ServedModel of a pipeline that was loaded from an entry."""
    entry = pipeline.entry
    task = entry.architecture.task
    known = {"input": entry.input, "pair": pair_of(entry.name, entry)}
    return ServedModel(entry.name, task.name, pipeline, about_model(pipeline), list(steps), task.tasks, **known)


def about_model(pipeline):
    """The description of a model in `GET /v1/models`: dict of JSON types."""
    return about_entry(pipeline.entry, pipeline.facts, pipeline.has_attention)


def about_entry(entry, facts=None, has_attention=None):
    """The description of the model of an Entry, which need not be loaded.

    Args:
        entry: Entry.
        facts: dict, `Pipeline.facts`; None takes it from the entry.
        has_attention: bool, `Pipeline.has_attention`; None takes it from the classes, True if it depends on settings.
    """
    config, metrics, task = entry.config, entry.metrics, entry.architecture.task
    if has_attention is None:
        classes = task.pipeline_class(), entry.architecture.model_class()
        known = [getattr(kind, "has_attention", None) for kind in classes]
        has_attention = next((value for value in known if isinstance(value, bool)), True)
    about = {"name": entry.name, "task": task.name, "architecture": config["architecture"]}
    about |= {name: config[name] for name in ("source_language", "target_language", "language") if name in config}
    facts = task.pipeline_class().facts_of(config) if facts is None else facts
    kind = entry.input
    shown = has_attention and not kind.is_file  # the routes for attention take texts
    about |= {"input": kind.name, "widget": kind.widget, "pair": False, **facts, "attention": shown}
    about["description"] = metrics.get("description", "")
    about["parameters"] = metrics.get("parameters")
    examples = [{name: one[name] for name in ("source", "source_b") if name in one} for one in metrics["examples"]]
    examples = [one for at, one in enumerate(examples) if one not in examples[:at]][:EXAMPLES]
    if kind.is_file:
        about["body_bytes"] = kind.body_bytes
        examples = [{"source": kind.file_as_json(entry.folder / one["source"])} for one in examples]
    about["examples"] = examples
    return about


def free_memory():
    """The bytes that this process can still take, also within the limit of its container; infinity if unknown."""
    free = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")))
    with contextlib.suppress(OSError, ValueError, StopIteration):
        group = Path("/sys/fs/cgroup")
        most, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text().splitlines()
        files = next(
            int(line.split()[1]) for line in lines if line.startswith("inactive_file ")
        )  # given back on demand
        free.append(most - used + files)
    return min(free, default=float("inf"))


NICER = 5  # niceness of the compute threads


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
        ready: list of str, the models that can answer.
    """

    def __init__(self, models, settings, metrics, notify=None):
        self.models = models
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
                steps = {name: self._submit(threads, model) for name, model in loaded.items()}
                for name, futures in steps.items():
                    self._finish(name, futures)
            if self.state == "warming":
                self.state = "ready"
        except Exception:
            self.state = "broken"  # final: a supervisor that polls /ready restarts the server
            raise

    def _submit(self, threads, model):
        def run(step):
            if self.state in ANSWERING:
                step()

        return [threads.submit(run, step) for step in model.steps]

    def _finish(self, name, futures):
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
        """Stores and gives back what compiling has left."""
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
                    pipeline = model.load()
                    model.pipeline, model.about, model.steps = pipeline.pipeline, pipeline.about, pipeline.steps
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

    async def _loaded(self, model):
        """Returns once a model is loaded; the first request starts it. Raises Refusal if that fails or takes long."""
        if model.name in self.ready:
            return
        if model.load is None:
            raise Refusal(503, f"{model.name} is not ready yet ({self.progress()} models are): try again later.")
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
        if any(getattr(request, f"{side}_language", None) is not None for side in ("source", "target")):
            model = await asyncio.to_thread(self._translator, request)  # the detector of languages takes a moment
        else:
            model = self._model(request.model, task, allow_secondary_task, getattr(request, "input_field", TEXTS))
        await self._loaded(model)
        return model

    def _translator(self, request):
        """The ServedModel that translates between the languages of a request; raises Refusal if there is none."""
        source, target = request.source_language, request.target_language
        if request.model is None:
            if target is None:
                raise Refusal(422, "`source_language` needs `target_language`, or name a `model`.")
            try:
                return self.models[find_translator(target, source, request.texts, self._pairs()).model]
            except UserError as error:
                raise Refusal(422, str(error)) from error
        model = self._model(request.model, "translate", allow_secondary_task=False)
        known = model.pair and (model.pair.source, model.pair.target)
        for wanted, code in zip((source, target), known or (None, None), strict=True):
            if wanted is not None and language_code(wanted) != code:
                does = f"from {known[0]} to {known[1]}" if known else "between no natural languages"
                reason = f"{model.name} translates {does}. Received: {quoted(wanted)}."
                raise Refusal(422, f"{reason} Leave out `model` or the languages.")
        return model

    def _pairs(self):
        """The Pairs of the models that are not known to be damaged, the best of each pair of languages first."""
        pairs = [model.pair for model in self.models.values() if model.pair and not model.error]
        return sorted(pairs, key=lambda pair: pair.rank)

    def translations(self):
        """The best model for each pair of languages, for `GET /v1/models`: list of dicts, the best models first."""
        best = {}
        for pair in self._pairs():
            best.setdefault((pair.source, pair.target), pair.model)
        return [{"source_language": s, "target_language": t, "model": name} for (s, t), name in best.items()]

    def about(self):
        """The description of each model for `GET /v1/models`: list of dicts of JSON types."""
        groups = dict.fromkeys((model.task, model.input_field) for model in self.models.values())
        defaults = {group: self.default(*group) for group in groups}
        return [
            {
                **model.about,
                **({"languages": [model.pair.source, model.pair.target]} if model.pair else {}),
                "default": defaults[model.task, model.input_field] is model,
                "loaded": model.name in self.ready,
            }
            for model in self.models.values()
        ]

    def default(self, task, input_field=TEXTS):
        """The ServedModel that answers requests with this field for a task that name no model, or None.

        It is the first model with this main task that `--model` names, or else that of `DEFAULT_MODELS`.
        """
        able = [model for model in self.models.values() if task in (None, model.task) and not model.error]
        able = [model for model in able if model.input_field == input_field]
        best = [model for model in able if model.load is not None and model.name == DEFAULT_MODELS.get(task)]
        return next(iter(best + able), None)

    def input_field(self, name):
        """The first field of the input of the model with this name, or None if there is no such model."""
        try:
            return self.named(name).input_field if isinstance(name, str) else None
        except Refusal:
            return None

    def body_bytes(self, path):
        """The most bytes of a request's body: more on routes of models that read files."""
        of_files = [model.input.body_bytes for model in self.models.values() if path == f"/v1/{model.task}"]
        return max([self.settings.body_bytes, *of_files])

    def _model(self, name, task, allow_secondary_task, input_field=TEXTS):
        able = [model for model in self.models.values() if task in (None, model.task)]
        if allow_secondary_task:
            able += [model for model in self.models.values() if task in model.tasks]
        if name is None:
            reading = [model for model in able if model.input_field == input_field]
            if reading:
                return self.default(task, input_field) or reading[0]
            this = f"{task or 'do this'}{f' with {input_field}' * bool(able)}"
            raise Refusal(404, f"No model of this server can {this}. /v1/models lists the models.")
        if (model := self.named(name)) not in able:
            raise Refusal(422, f"{model.name} does not {task}. /v1/models lists the models.")
        return model

    def named(self, name):
        """The ServedModel of a name or of a unique part of one; raises Refusal with 404 if there is none."""
        model = named_by(name, self.models)
        if len(model) > 1:
            raise Refusal(404, f"{quoted(name)} is a part of several names: {', '.join(model[:5])}. Write more of it.")
        if not model:
            raise Refusal(404, f"No model {quoted(name)} for this route. /v1/models lists the models.")
        return self.models[model[0]]


def look(pipeline, request):
    """The attention weights as an `AttentionView`."""
    if pipeline.input.is_file:  # whose names must not come from a request
        raise UserError("Attention is shown for texts. This model reads files: use `classify --attention`.")
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
