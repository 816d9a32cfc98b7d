"""`keras-attention export`: a trained model in a format that runs without this package."""

import os
import shutil
from pathlib import Path

from keras_attention.cli.io.terminal import print_json, silent_libraries
from keras_attention.errors import UserError
from keras_attention.export.signatures import listing
from keras_attention.whole_file import tidy, whole_folder
from keras_attention.zoo.registry import open_entry
from keras_attention.zoo.schema import imported


def check_free(path):
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
    entry = open_entry(arguments.name)
    if search and entry.architecture.use.task != "translate":
        raise UserError(f"--beam and --length-penalty are for translators: {arguments.name} does not search.")
    check_free(arguments.folder)
    with whole_folder(arguments.folder, check_free) as folder:
        pipeline = load(entry)
        if arguments.format not in pipeline.exports:
            known = ", ".join(pipeline.exports) or "none"
            raise UserError(
                f"{arguments.name} cannot be exported as {arguments.format}. Formats for this kind of model: {known}."
            )
        with silent_libraries():
            write = imported(pipeline.exports[arguments.format])
            signature = write(folder, pipeline, name=Path(arguments.folder).name, **search, **quantization)
        shutil.copyfile(entry.folder / "CARD.md", folder / "CARD.md")  # with the licence terms of the data
        files = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    report = {"model": arguments.name, "folder": arguments.folder, "format": arguments.format, "files": files}
    if arguments.json:
        report |= {side: _as_json(tensors) for side, tensors in signature.items()}
        print_json(report)
    else:
        print(f"{arguments.folder}: {arguments.format}, {sum(files.values()) / 1e6:.1f} MB")
        print(listing(signature))


def load(entry):
    """Loads the pipeline of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    return load_pipeline(entry)


def _as_json(tensors):
    return {name: {"type": kind, "meaning": meaning} for name, (kind, meaning) in tensors.items()}
