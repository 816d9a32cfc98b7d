"""Finds entries: by path, in the folders of KERAS_ATTENTION_ZOO, and in the zoo of the package."""

import difflib
import os
from pathlib import Path

from keras_attention.errors import UserError
from keras_attention.zoo.manifest import MANIFEST

PACKAGE = Path(__file__).resolve().parent.parent


def zoo_folders(package=PACKAGE):
    """The folders that hold entries, first come first.

    Args:
        package: Path of the installed package. A wheel carries the zoo inside of it; a checkout has it beside.

    Returns:
        List of Path: those of the environment variable KERAS_ATTENTION_ZOO (separated as in PATH), then the package's.
    """
    extra = [Path(folder) for folder in os.environ.get("KERAS_ATTENTION_ZOO", "").split(os.pathsep) if folder]
    checkout = [package.parent / "saved_models"] if (package.parent / "setup.py").is_file() else []
    return [folder for folder in (*extra, package / "saved_models", *checkout) if folder.is_dir()]


def list_models():
    """Names of the models that `load` knows, sorted; damaged entries are named too. Does not import TensorFlow."""
    return sorted(_entries())


def find_entry(name_or_path):
    """The folder of an entry.

    Args:
        name_or_path: str, a name out of `list_models()`; or str or Path, the folder of an entry.

    Returns:
        Path.

    Raises:
        UserError: if there is no such model; names those that are close.
    """
    if not isinstance(name_or_path, (str, os.PathLike)) or not str(name_or_path).strip("\0 "):
        raise UserError(f"Expected the name or folder of a model. Received: {name_or_path!r}")
    entries = _entries()
    name = str(name_or_path)
    if name in entries:
        return entries[name]
    path = Path(os.path.expanduser(name_or_path))
    if "\0" not in name and path.is_dir():
        if (path / MANIFEST).exists():
            return path
        raise UserError(f"The folder {name!r} is not a saved model: it has no {MANIFEST}.")
    close = difflib.get_close_matches(name, entries, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"Known models: {', '.join(sorted(entries)) or 'none'}."
    raise UserError(f"There is no model {name!r}, and no folder of that name. {hint}")


def _entries():
    """Dict from name to folder; the first zoo that has a name wins."""
    entries = {}
    for zoo in zoo_folders():
        for manifest in zoo.glob(f"*/{MANIFEST}"):
            if not manifest.parent.name.startswith("."):  # an entry that is just being written
                entries.setdefault(manifest.parent.name, manifest.parent)
    return entries
