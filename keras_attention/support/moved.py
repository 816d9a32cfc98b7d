"""Modules and names under which earlier versions had something: each still works, with a warning that names today's.

Moved modules are found through `sys.meta_path`. A module that has lost names asks `moved_name` in its `__getattr__`.
Renamed attributes and arguments are a `RenamedAttribute` of their class and a decorator, `renamed_arguments`.
What has no successor with the same interface raises an error that says what replaces it.
"""

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]
# A module of earlier versions -> the modules that have its names today; all below keras_attention.
MOVED_MODULES = {
    "zoo.architectures": (
        "catalog.common",
        "catalog.translation",
        "catalog.encoding",
        "catalog.mask_filling",
        "catalog.classification",
        "zoo.decoding_settings",
    ),
    "zoo.language_models": ("catalog.generation",),
    "errors": ("support.errors",),
    "whole_file": ("support.atomic_files",),
    "flags": ("support.flags",),
    "cores": ("support.cores",),
    "compile_cache": ("support.compile_cache",),
    "child_process": ("support.child_process",),
    "pipelines.compiled": ("runtime.compiled_search", "runtime.buckets", "runtime.compiled_forward"),
    "pipelines.compiled_forward": ("runtime.compiled_forward",),
    "pipelines.compiled_steps": ("runtime.compiled_steps",),
    "pipelines.buckets": ("runtime.buckets",),
    "pipelines.prepared_weights": ("runtime.prepared_weights",),
    "pipelines.stored_programs": ("runtime.stored_programs",),
    "pipelines.ctranslate2_engine": ("runtime.ctranslate2_engine",),
    "pipelines.work": ("runtime.work_budget",),
    "pipelines.texts": (
        "inputs.given_texts",
        "inputs.token_sequences",
        "pipelines.copied_unknowns",
        "pipelines.doubt",
    ),
    "pipelines.guarded_search": ("pipelines.search.guarded_search",),
    "pipelines.release": ("publishing.trained_entries",),
    "data.images.caption_batches": ("data.drawn_batches",),
    "server.batching": ("runtime.batching",),
    "training.objective": ("training.losses",),
    "training.update": ("training.gradients",),
    "layers.fast.layouts": ("layers.fast.heads_first",),
    "finetuning.fitting": ("finetuning.label_training",),
    "finetuning.finishing": ("finetuning.calibration",),
    "finetuning.head": ("finetuning.linear_probe",),
    "finetuning.start": (
        "finetuning.starting_model",
        "finetuning.training_rows",
        "finetuning.lora",
        "finetuning.teacher",
    ),
    "finetuning.stages": ("finetuning.workflow", "finetuning.preparation"),
    "finetuning.trials": ("finetuning.cross_validation", "finetuning.search"),
    "models.bert_starts": ("models.bert_initialization", "models.distiller"),
    "server.messages": ("server.gate", "server.requests", "server.task_forms"),
    "zoo.archive": ("zoo.entry_io", "zoo.warm_start"),
}
# A module that has lost names -> the module that has each of them today, or "module:name" for another name.
MOVED_NAMES = {
    "layers.recurrent": dict.fromkeys(
        ("lstm_gates_back", "read_both_ways_fast", "read_forwards"), "layers.fast.recurrent_gradients"
    ),
    "decoding.beam_search": dict.fromkeys(("SearchState", "beam_search", "search_sentences"), "decoding.token_loop"),
    "decoding.sampling": dict.fromkeys(("greedy_search", "grow_one_sequence", "sample"), "decoding.token_loop"),
    "cli.translate": dict.fromkeys(("try_out", "typed_lines"), "cli.translation_demo"),
    "pipelines.text_generator": dict.fromkeys(("Generation", "Token"), "pipelines.generated_text"),
    "pipelines.translator": {"Batch": "pipelines.search.sentence_batches"},
    "server.http_server": {"GuardedProtocol": "server.guarded_protocol"},
    "server.server": {
        **dict.fromkeys(("ServedModel", "about_model", "load_models", "served_model"), "server.served_models"),
        "ServerMetrics": "server.metrics",
        "look": "server.requests:attention_view",
    },
    "zoo.schema": {"Use": "zoo.schema:Task"},
    "export": dict.fromkeys(
        (
            "classes",
            "listing",
            "sequence_signature",
            "token_signature",
            "TEXT",
            "VECTORS",
            "FILLINGS",
            "PIECES",
            "CONTINUED",
        ),
        "export.signatures",
    ),
}
_WITH_ARRAYS = "keras_attention.runtime.compiled_forward.{}, which takes dicts of arrays instead of token sequences"
REPLACED = {
    "layers.fast.layouts:attend_heads_first": "keras_attention.layers.attend with `similarity_by_head` and "
    "`average_by_head` of layers.fast.heads_first",
    "layers.fast.layouts:scaled": "keras_attention.layers.attend, which divides queries by sqrt(d)",
    "finetuning.start:starting_encoder": "keras_attention.models.BertClassifier.from_trained, which makes a classifier",
    "pipelines.compiled:CompiledBert": _WITH_ARRAYS.format("CompiledForward"),
    "pipelines.compiled:padded": _WITH_ARRAYS.format("stacked"),
}


def moved_name(module: str, name: str) -> Any:
    """What a module's `__getattr__` returns: the name from the module that has it today.

    Raises:
        AttributeError: if the module never had it, or nothing with the same interface replaces it.
    """
    path = module.partition(".")[2]
    if today := MOVED_NAMES.get(path, {}).get(name):
        place, _, new_name = today.partition(":")
        if new_name:
            _warn(f"{module}.{name}", f"{PACKAGE}.{place}.{new_name}", "called")
        else:
            _warn(f"{module}.{name}", f"{PACKAGE}.{place}.{name}")
        return getattr(importlib.import_module(f"{PACKAGE}.{place}"), new_name or name)
    if replacement := REPLACED.get(f"{path}:{name}"):
        raise AttributeError(f"{module}.{name} is gone. Use {replacement}.")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class MovedModules(MetaPathFinder, Loader):
    """Finds modules by the names of earlier versions."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == PACKAGE and rest in MOVED_MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module the names of those that have taken its place."""
        names = [f"{PACKAGE}.{today}" for today in MOVED_MODULES[module.__name__.partition(".")[2]]]
        _warn(module.__name__, " and ".join(names))
        module.__getattr__ = _attribute_of(module.__name__, [importlib.import_module(name) for name in names])


def _attribute_of(name: str, modules: list[ModuleType]) -> Callable:
    def attribute(wanted):
        for module in modules:
            if hasattr(module, wanted):
                return getattr(module, wanted)
        return moved_name(name, wanted)

    return attribute


class RenamedAttribute:
    """An attribute of a class under the name of earlier versions: gives that of `today` (str), with a warning."""

    def __init__(self, today: str):
        self.today = today

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        kind = type(instance).__name__
        warnings.warn(f"{kind}.{self.name} is now called {kind}.{self.today}.", FutureWarning, stacklevel=2)
        return getattr(instance, self.today)


def renamed_arguments(**today: str) -> Callable:
    """Decorator: `renamed_arguments(say="notify")` accepts `notify` under the earlier name `say`, with a warning."""

    def decorator(function):
        @functools.wraps(function)
        def renamed(*arguments, **options):
            for earlier in today.keys() & options.keys():
                text = f"The argument `{earlier}` of {function.__qualname__} is now called `{today[earlier]}`."
                warnings.warn(text, FutureWarning, stacklevel=2)
                options[today[earlier]] = options.pop(earlier)
            return function(*arguments, **options)

        return renamed

    return decorator


def _warn(earlier, today, verb="in"):
    change = "import" if verb == "in" else "name"
    warnings.warn(f"{earlier} is now {verb} {today}. Change the {change}.", FutureWarning, stacklevel=3)


def find_moved_modules() -> None:
    """Lets modules be imported by the names of earlier versions from now on."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
