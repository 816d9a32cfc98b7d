"""Finds entries by path or name, in the folders of KERAS_ATTENTION_ZOO and the package, and reserves new ones."""

import difflib
import os
from contextlib import contextmanager, suppress
from pathlib import Path

from keras_attention.support.atomic_files import locked, remove_leftovers, tidy, until_the_command_ends
from keras_attention.support.errors import EntryError, UserError, quoted
from keras_attention.support.providers import provided
from keras_attention.zoo.entry import JSON_FILES, MANIFEST, check_has_required, read_entry, verify_files


def check_free(folder, overwrite=False):
    """Checks that an entry may be written to a folder. Call it before a long training. Imports nothing heavy.

    Args:
        folder: str or Path.
        overwrite: bool. Whether an existing entry may be replaced. Other folders are never replaced: a folder is an
            entry if it has the files of one, and its manifest lists exactly what is there, unchanged.

    Raises:
        EntryError: if the folder exists and may not be replaced.
    """
    folder = Path(folder)
    if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
        return
    tidy(folder)
    try:
        check_has_required(folder, verify_files(folder))
    except EntryError as error:
        reason = str(error).rstrip(".")
        raise EntryError(
            f"{folder} is not a trained model, so it is never replaced. Choose another name. ({reason})"
        ) from error
    if not overwrite:
        raise EntryError(f"{folder} already contains a trained model. Choose another name, or pass --overwrite.")


@contextmanager
def entry_reserved(folder, overwrite=False, check=check_free):
    """Holds the lock of an entry's folder, from before a training until its model is written.

    Raises:
        EntryError: see `check_free`; `check` takes its place where the folder will hold something else.
        UserError: if another process holds the lock.
    """
    check(folder, overwrite)
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        remove_leftovers(folder)
        check(folder, overwrite)  # again, because the last holder of the lock may have written the folder
        yield


def claim_entry(folder, overwrite=False, check=check_free):
    """`entry_reserved` until the command ends. Of several workers, only the chief holds the lock."""
    from keras_attention.training.devices import workers

    check(folder, overwrite)
    if not workers().index:
        until_the_command_ends(entry_reserved(folder, overwrite, check))


SHORTEST_PART = 3  # minimum length of a part of a name for suggestions
MOST_SUGGESTED, MOST_COMPARED = 5, 200
RENAMED = {"bert_mini_goemotions": "minilm_small_goemotions"}  # names of earlier versions still work
# What to use instead of a model that is no longer part of the zoo.
REMOVED = {
    "minilm_small_mrpc": "its training data may not be used commercially. Compare vectors with `keras-attention "
    "similar`, or train it: section Text pairs of docs/fine_tune.md",
    "transformer_tiny_tatoeba_en_fr": "use translator_small_en_fr, which has learned from the same sentences and more",
    "transformer_tiny_tatoeba_fr_en": "use translator_small_fr_en, which has learned from the same sentences and more",
}
# The model that the server and the page use for a task if none is named: the most general one with the best scores.
DEFAULT_MODELS = {
    "translate": "translator_small_en_de",
    "classify": "minilm_small_sentiment",
    "encode": "minilm_small_en",
    "fill-mask": "bert_mini_en",
    "generate": "gpt_mini_en",
    "caption": "captioner_digits_soft",
    "transcribe": "speech_digits",
}
PACKAGE = Path(__file__).resolve().parent.parent


def zoo_folders(package=PACKAGE):
    """The folders that contain entries, in order of precedence.

    Args:
        package: Path of the installed package. The zoo is inside it in a wheel and beside it in a checkout.

    Returns:
        List of Path: those of the environment variable KERAS_ATTENTION_ZOO (separated as in PATH), then the package's.
    """
    extra = [Path(folder) for folder in os.environ.get("KERAS_ATTENTION_ZOO", "").split(os.pathsep) if folder]
    checkout = [package.parent / "saved_models"] if (package.parent / "setup.py").is_file() else []
    return [folder for folder in (*extra, package / "saved_models", *checkout) if folder.is_dir()]


def list_models():
    """The sorted names of all models, including damaged entries. Does not import TensorFlow."""
    return sorted(model_folders())


def find_entry(name_or_path):
    """Finds the folder of an entry.

    Args:
        name_or_path: str, a name from `list_models()`, or a unique part of one, such as "sst2" or "attention_dates"; or
            str or Path, the folder of an entry; or the name of a published checkpoint, such as
            "hf://ORG/NAME", see `convert.published`.

    Returns:
        Path.

    Raises:
        UserError: if the model does not exist; suggests the nearest names.
    """
    if not isinstance(name_or_path, (str, os.PathLike)) or not str(name_or_path).strip("\0 "):
        raise UserError(f"Expected the name or folder of a model. Received: {quoted(name_or_path)}")
    name = str(name_or_path)
    if isinstance(name_or_path, str) and "://" in name:
        return provided("published_entry")(name)
    entries = model_folders()
    entry = named_by(name, entries)
    if name in entries or RENAMED.get(name) in entries:
        return entries[entry[0]]
    path = os.path.expanduser(name_or_path)
    if os.path.isdir(path):  # False, without an error, for an invalid path
        if os.path.lexists(os.path.join(path, MANIFEST)):
            return Path(path)
        raise UserError(f"The folder {quoted(name)} is not a saved model: it has no {MANIFEST}.")
    if len(entry) == 1:
        return entries[entry[0]]
    if name in REMOVED:
        raise UserError(f"The model {name} was removed: {REMOVED[name]}.")
    raise UserError(f"There is no model {quoted(name)}, and no folder of that name. {_hint(name, entries)}")


def named_by(name, names):
    """The names that a name or a part of one, such as "sst2", stands for: list of str, one if it is unique."""
    if name in names:
        return [name]
    if RENAMED.get(name) in names:
        return [RENAMED[name]]
    return sorted(one for one in names if f"_{name.lower()}_" in f"_{one.lower()}_")


def _hint(name, entries):
    """A suggestion of at most five names."""
    if not entries:
        return "No models were found: set KERAS_ATTENTION_ZOO to a folder with models."
    holding = sorted(entry for entry in entries if name.lower() in entry.lower() and len(name) >= SHORTEST_PART)
    close = holding or difflib.get_close_matches(name[:MOST_COMPARED], entries, n=MOST_SUGGESTED, cutoff=0.5)
    if close:
        more = len(close) - MOST_SUGGESTED
        names = ", ".join(close[:MOST_SUGGESTED]) + (f" or {more} others" if more > 0 else "")
        return f"Did you mean {names}?"
    nearest = difflib.get_close_matches(name[:MOST_COMPARED], entries, n=MOST_SUGGESTED, cutoff=0.0)
    return f"Known models: {', '.join(sorted(nearest))}" + (
        f" and {len(entries) - len(nearest)} others; see `keras-attention zoo list`."
        if len(entries) > len(nearest)
        else "."
    )


def open_entry(name_or_path, task=None):
    """Finds an entry and checks its files and its task. Does not import TensorFlow.

    Args:
        name_or_path: see `find_entry`.
        task: str, such as "translate"; or None for any task.

    Returns:
        Entry.

    Raises:
        UserError: if the model does not exist, or does not have the task.
        EntryError: if it is damaged.
    """
    return check_task(read_entry(find_entry(name_or_path)), task)


def check_task(entry, task):
    """Returns the entry; raises UserError if its model cannot do the task."""
    tasks = entry.architecture.task.tasks
    if task is not None and task not in tasks:
        raise UserError(
            f"{entry.folder} is a {entry.architecture.name}: it can {' and '.join(tasks)}. Expected: a model that can "
            f"{task}; `keras-attention zoo list` shows what there is."
        )
    return entry


def models_with_task(task):
    """Names of the models of `list_models` whose main task is this one, without damaged entries."""
    names = []
    for name, folder in sorted(model_folders().items()):
        with suppress(EntryError):
            if read_entry(folder, hashed=JSON_FILES).architecture.task.name == task:
                names.append(name)
    return names


def no_model(*tasks, instead=""):
    """The UserError of a command without --model, which lists the models with one of these main tasks, or all.

    `instead` names other options, such as " Or name a language: --to de.".
    """
    names = [name for task in tasks for name in models_with_task(task)] if tasks else list_models()
    return UserError(
        f"--model is missing. Choices: {', '.join(names) or 'none in the zoo'}; or the folder of your own.{instead}"
    )


def default_model(task):
    """The name of the zoo's best model for a task; raises the UserError of `no_model` if it is not there."""
    name = DEFAULT_MODELS[task]
    if name not in model_folders():
        raise no_model(task)
    return name


def model_folders():
    """The folders of all models, including damaged ones: dict from name to Path. The first folder of a name counts."""
    entries = {}
    for zoo in zoo_folders():
        for manifest in zoo.glob(f"*/{MANIFEST}"):
            if not manifest.parent.name.startswith("."):  # hidden while it is written
                entries.setdefault(manifest.parent.name, manifest.parent)
    return entries
