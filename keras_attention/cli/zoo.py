"""`keras-attention zoo list | show | verify` and `warm`: the models and their programs."""

import sys
import time
import warnings

from keras_attention.cli.io.terminal import compiling_note, print_json, safe, silent_libraries
from keras_attention.support.compile_cache import keep_compiled, use_compile_cache
from keras_attention.support.errors import UserError
from keras_attention.zoo.card import first_sentence
from keras_attention.zoo.entry import JSON_FILES, read_entry
from keras_attention.zoo.registry import find_entry, list_models, open_entry, zoo_folders
from keras_attention.zoo.terms_of_use import terms_of_use

LICENCE = ("name", "folder", "error", "terms_of_use", "data")  # the facts of `zoo list --licence --json`


def list_entries(arguments):
    """Prints one line per model; a damaged model is listed with its error."""
    summaries = [_summary(name) for name in list_models()]
    if arguments.licence:
        summaries = [{key: value for key, value in summary.items() if key in LICENCE} for summary in summaries]
    if arguments.json:
        print_json(summaries)
        return
    if not summaries:
        places = ", ".join(map(str, zoo_folders())) or "there is no folder of models"
        print(f"No models found ({places}).", file=sys.stderr)
    width = max((len(summary["name"]) for summary in summaries), default=0)
    for summary in summaries:
        shown = summary.get("error") or (summary["terms_of_use"] if arguments.licence else _facts(summary))
        print(safe(f"{summary['name']:{width}}  {shown}"))


def show(arguments):
    """Prints the first sentence, data and scores of one model; with --card its whole card.

    With --positions, it draws how similar the position embeddings of patches are instead.
    """
    entry = open_entry(arguments.name)
    if arguments.positions:
        _draw_positions(entry, arguments.positions)
        return
    if arguments.json:
        facts = {"name": entry.name, "folder": str(entry.folder), "bytes": entry.bytes, "files": entry.files}
        print_json({**facts, "config": entry.config, "metrics": entry.metrics})
    else:
        print(safe(entry.card, keep="\n") if arguments.card else _as_text(entry), end="")


def _draw_positions(entry, path):
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline
        from keras_attention.visualize.figures import check_figure_path

        check_figure_path(path)
        load_pipeline(entry).position_view().save(path)
    print(f"keras-attention: {path}: the similarity of the position embeddings of {entry.name}", file=sys.stderr)


def _as_text(entry):
    """The first sentence of the description, then data and scores."""
    metrics, task = entry.metrics, entry.architecture.task
    lines = [f"{entry.name}: {first_sentence(metrics['description'])}", ""]
    lines += [f"{task.reads(entry.config)}. {metrics['parameters']:,} parameters, {entry.bytes / 1e6:.1f} MB.", ""]
    lines += [terms_of_use(metrics["data"]).sentence(), ""]
    lines += ["Data", *(f"  {data['name']}: {data['terms']}" for data in metrics["data"]), ""]
    lines += ["Scores"]
    lines += [f"  {score['metric']} {score['value']:.2f} on {score['set']}" for score in metrics["scores"]]
    lines += ["", f"More: keras-attention zoo show {entry.name} --card"]
    return "".join(f"{safe(line)}\n" for line in lines)


def verify(arguments):
    """Checks one model or all models; returns 1 if something is wrong."""
    names = list_models() if arguments.name is None else [arguments.name]
    reports = []
    for name in names:
        report = _verified(name)
        reports.append(report)
        if not arguments.json:
            sound = f"files sound, {report['examples']} examples reproduced"
            print(safe(f"{name}: {'; '.join(report['problems']) or sound}"), flush=True)
    if arguments.json:
        print_json(reports)
    return int(any(report["problems"] for report in reports))


def _verified(name):
    folder = find_entry(name)
    try:
        entry = read_entry(folder)  # all hashes, before TensorFlow is imported
        with silent_libraries():
            from keras_attention.pipelines.base import failing_examples

        examples, problems = failing_examples(entry)
    except UserError as error:
        examples, problems = 0, [f"damaged: {error}"]
    return {"name": str(name), "folder": str(folder), "sound": not problems, "examples": examples, "problems": problems}


def _summary(name):
    folder = find_entry(name)
    try:
        entry = read_entry(folder, hashed=JSON_FILES)
    except UserError as error:
        return {"name": name, "folder": str(folder), "error": f"damaged: {error}"}
    keys = ("description", "parameters", "scores", "data")
    return {
        "name": name,
        "folder": str(folder),
        "architecture": entry.config["architecture"],
        "use": entry.architecture.task.title(entry.config),
        "bytes": entry.bytes,
        "terms_of_use": terms_of_use(entry.metrics["data"]).sentence(),
        **{key: entry.metrics[key] for key in keys if key in entry.metrics},
    }


def _facts(summary):
    """One line: what the model is for, its size and its first score; `zoo show` has the others."""
    facts = [summary["use"], f"{summary['bytes'] / 1e6:.1f} MB"]
    scores = summary.get("scores") or ()
    facts += [f"{score['metric']} {score['value']:.2f} ({score['set']})" for score in scores[:1]]
    others = f" and {len(scores) - 1} more" if len(scores) > 1 else ""
    return ", ".join(facts) + others


def warm(arguments):
    """Lets each model compute the programs of the usual requests, and stores them."""
    entries = [open_entry(name) for name in arguments.models or list_models()]
    report = []
    with warnings.catch_warnings(action="ignore"):  # a cache that cannot be used is the error below
        use_compile_cache()
    for entry in entries:
        begun = time.monotonic()
        with silent_libraries():
            from keras_attention.pipelines.base import load_pipeline

        with warnings.catch_warnings(action="ignore"):  # about texts longer than the model reads, too
            load_pipeline(entry).warm()
            compiling_note.clear()
            stored = keep_compiled()
        if not stored:
            raise UserError(
                "Compiled programs cannot be stored. Set KERAS_ATTENTION_CACHE to a folder with room that only you can "
                "write to."
            )
        report.append({"name": entry.name, "seconds": time.monotonic() - begun})
        if not arguments.json:
            print(safe(f"{entry.name} is warm ({report[-1]['seconds']:.1f} s)"), flush=True)
    if arguments.json:
        print_json(report)
