"""`keras-attention warm`: compiles models and stores the programs on disk, so that first answers are faster."""

import time
import warnings

from keras_attention.cli.io.terminal import print_json, safe, silent_libraries
from keras_attention.compile_cache import keep_compiled, use_compile_cache
from keras_attention.errors import UserError
from keras_attention.zoo.registry import list_models, open_entry

WORDS = (5, 20, 45)  # of the sentences that are answered: a few lengths, each of which has its own program


def warm(arguments):
    """Answers sentences of a few lengths with each model, which compiles and stores the programs."""
    names = arguments.models or list_models()
    entries = [open_entry(name) for name in names]
    if not arguments.models:
        use_compile_cache(names)
    report = []
    for name, entry in zip(names, entries, strict=True):
        begun = time.monotonic()
        with silent_libraries():
            from keras_attention.pipelines.base import load_pipeline

        pipeline = load_pipeline(entry)
        if pipeline.batching == "search":  # the others compile nothing that is kept
            with warnings.catch_warnings(action="ignore"):  # of texts longer than the model reads
                for words in WORDS:
                    pipeline.answers([" ".join(["a"] * words)])
        if not keep_compiled(name):
            raise UserError(
                "Compiled programs cannot be stored. Set KERAS_ATTENTION_CACHE to a folder that only you can write to."
            )
        report.append({"name": entry.name, "seconds": time.monotonic() - begun})
        if not arguments.json:
            print(safe(f"{entry.name} is warm ({report[-1]['seconds']:.1f} s)"), flush=True)
    if arguments.json:
        print_json(report)
