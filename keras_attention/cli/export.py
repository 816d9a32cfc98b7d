"""`keras-attention export`: writes a model in a format that runs without this package."""

import os
import shutil
from pathlib import Path

from keras_attention.cli.io.terminal import load, print_json, safe, silent_libraries
from keras_attention.export import writers_of
from keras_attention.export.signatures import listing
from keras_attention.support.atomic_files import tidy, whole_folder
from keras_attention.support.errors import UserError
from keras_attention.zoo.registry import check_free, open_entry
from keras_attention.zoo.schema import imported


def check_new(path):
    """Raises UserError if `path` (str or Path) exists already, or its folder does not exist."""
    path = Path(path)
    if os.path.lexists(path):
        tidy(path)
        raise UserError(f"{path} exists already. Choose the name of a new folder, or remove it first.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path} cannot be written: its folder does not exist")


def export(arguments):
    """Checks the output folder, loads the model, exports it with its card, and prints its signature."""
    search = {"beam_size": arguments.beam, "length_penalty": arguments.length_penalty}
    search = {name: value for name, value in search.items() if value is not None}
    if arguments.format != "saved_model" and search:
        raise UserError(
            f"--beam and --length-penalty need --format saved_model: {arguments.format} contains no search."
        )
    if arguments.compute_type and arguments.format != "ctranslate2":
        raise UserError("--compute-type needs --format ctranslate2.")
    quantization = {"quantization": arguments.compute_type} if arguments.compute_type else {}
    quantization |= {"int8": True} if arguments.int8 else {}
    entry = open_entry(arguments.name)
    rows, summary = _rows(arguments, entry) if arguments.int8 else _no_rows(arguments)
    if search and entry.architecture.task.name != "translate":
        raise UserError(f"--beam and --length-penalty are for translators: {arguments.name} does not search.")
    check_new(arguments.folder)
    with whole_folder(arguments.folder, check_free) as folder:
        pipeline = load(entry)
        writers = writers_of(pipeline)
        if arguments.format not in writers:
            known = ", ".join(writers) or "none"
            raise UserError(
                f"{arguments.name} cannot be exported as {arguments.format}. Formats for this kind of model: {known}."
            )
        with silent_libraries():
            write = imported(writers[arguments.format])
            signature = write(folder, pipeline, name=Path(arguments.folder).name, **search, **quantization)
            change = _change(arguments.format, folder, pipeline, rows) if arguments.int8 else None
        shutil.copyfile(entry.folder / "CARD.md", folder / "CARD.md")  # with the licence terms of the data
        files = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    report = {"model": arguments.name, "folder": arguments.folder, "format": arguments.format, "files": files}
    if arguments.json:
        report |= {"int8": change} if change else {}
        report |= {side: _as_json(tensors) for side, tensors in signature.items()}
        print_json(report)
    else:
        print(f"{arguments.folder}: {arguments.format}, {sum(files.values()) / 1e6:.1f} MB")
        if summary:
            print(safe(summary, keep="\n"))
        if change:
            print("\n".join(_as_lines(change)))
        print(safe(listing(signature), keep="\n"))


def _no_rows(arguments):
    """Raises UserError for options that need --int8."""
    if any((arguments.table, arguments.text, arguments.label, arguments.text_b)):
        raise UserError("--table, --text, --label and --text-b need --int8: they measure what 8 bits change.")
    return None, None


def _rows(arguments, entry):
    """Checks that a model can be stored in 8 bits; returns the Examples of --table and a summary, or (None, None)."""
    tasks, name = entry.architecture.task.tasks, arguments.name
    if "encode" not in tasks:
        raise UserError(f"--int8 is for BERTs. {name} can {entry.architecture.task.name}. See --compute-type int8.")
    if arguments.format not in ("litert", "onnx"):
        raise UserError(f"--int8 needs --format litert or --format onnx. Found: --format {arguments.format}")
    if arguments.table is None:
        if any((arguments.text, arguments.label, arguments.text_b)):
            raise UserError("--text, --label and --text-b name columns of a --table FILE, which is missing.")
        return None, None
    if "classify" not in tasks:
        raise UserError(
            f"--table is for classifiers, whose score it measures. {name} can {entry.architecture.task.name}."
        )
    task = entry.config["task"]
    if task["pair"] != (arguments.text_b is not None):
        expected = "--text-b COLUMN" if task["pair"] else "no --text-b"
        raise UserError(f"{name} classifies {'pairs' if task['pair'] else 'single texts'}: {expected}.")
    from keras_attention.finetuning.examples import read_examples

    columns = arguments.text or "text", arguments.label or "label", arguments.text_b
    options = {"empty_labels": task["separator"] is not None, "encoding": arguments.encoding}
    return read_examples(arguments.table, *columns, **options)


def _change(file_format, folder, pipeline, rows):
    """The effect of 8-bit weights: dict with texts (str), agreement and, for Examples, the scores before and after."""
    from keras_attention.export.runtimes import change_of_answers, without_and_with
    from keras_attention.finetuning.report import measure

    both = without_and_with(folder, file_format, pipeline)
    if rows is None:
        examples = pipeline.entry.metrics["examples"] or pipeline.examples()
        return {"texts": "the examples of the card", "agreement": change_of_answers(*both, examples)}
    before, after = (measure(one, rows).scores for one in both)
    texts_b = () if rows.texts_b is None else (rows.texts_b,)
    agreement = both[0].agreement(both[1], rows.texts, *texts_b)
    return {"texts": f"{len(rows):,} rows", "before": before, "after": after, "agreement": agreement}


def _as_lines(change):
    """The result of `_change` as lines of text."""
    agreement = ", ".join(f"{name}: {value:.4g}" for name, value in change["agreement"].items()) or "no examples"
    yield f"In 8 bits, on {change['texts']}: {agreement}"
    for name, before in change.get("before", {}).items():
        yield f"  {name:14} {change['after'][name]:7.2f}   before: {before:7.2f}"


def _as_json(tensors):
    return {name: {"type": kind, "meaning": meaning} for name, (kind, meaning) in tensors.items()}
