"""Published models by name: fetched, converted once if they are no entries, and stored in the user's cache.

    hf://ORG/NAME[@REVISION]                       the Hugging Face Hub; a branch, a tag or a commit; an entry that was
                                                   pushed there is downloaded and checked, and never converted
    kaggle://ORG/MODEL/keras/VARIANT[/VERSION]     a preset of keras-hub on Kaggle

An entry is stored under its commit or version: a name may later refer to a newer entry, but an entry never changes.
"""

import functools
import re
import subprocess
from pathlib import Path

from keras_attention.convert import hub
from keras_attention.convert.hub import Fetched, published_cache
from keras_attention.convert.hub_entries import fetch_entry, is_entry
from keras_attention.convert.kaggle_files import fetched_kaggle_file
from keras_attention.convert.published_settings import MAX_JSON_BYTES, MAX_WEIGHTS, Fields
from keras_attention.support.child_process import package_command, package_environment
from keras_attention.support.errors import UserError, one_line, quoted

SCHEMES = ("hf://", "kaggle://")
KAGGLE = re.compile(r"kaggle://(\w[\w-]*/\w[\w.-]*/keras/\w[\w.-]*)(?:/(\d{1,6}))?", re.ASCII | re.IGNORECASE)
# The files of a preset, with their maximum sizes.
PRESET = {
    "config.json": MAX_JSON_BYTES,
    "tokenizer.json": MAX_JSON_BYTES,
    "assets/tokenizer/vocabulary.txt": hub.MAX_VOCABULARY_FILE,
    "model.weights.h5": MAX_WEIGHTS,
}


def is_published_name(name):
    """Whether a str or Path is the name of a published checkpoint and not a folder."""
    return isinstance(name, str) and name.startswith(SCHEMES)


def fetched(name):
    """Downloads a published checkpoint, unless it is in the cache.

    Args:
        name: str, see the module.

    Returns:
        Fetched.

    Raises:
        UserError: says in one line why the download failed; no incomplete file is left.
    """
    if name.startswith("hf://"):
        return hub.fetch(name)
    return _fetched_preset(_resolved_preset(name))


def published_entry(name):
    """The entry of a published model: downloaded, and converted if it is none, at the first call; then in the cache.

    Args:
        name: str, see the module.

    Returns:
        Path of the entry's folder.

    Raises:
        UserError: see `fetched`; also if the checkpoint is not supported.
    """
    if not is_published_name(name):
        known = "hf://ORG/NAME[@REVISION] and kaggle://ORG/MODEL/keras/VARIANT[/VERSION]"
        raise UserError(f"There is no model {quoted(name)}. Published models have names such as {known}")
    return _entry(name, published_cache())


@functools.cache  # one request to the hub per process
def _entry(name, cache):
    from filelock import FileLock

    checkpoint, files = hub.resolve(name) if name.startswith("hf://") else (_resolved_preset(name), {})
    folder = cache / "entries" / _safe(checkpoint.name) / default_folder(checkpoint.name)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / ".lock"):  # another process may be converting it: wait for its entry
        if not folder.is_dir() and is_entry(files):
            fetch_entry(checkpoint.name, files, folder)
        elif not folder.is_dir():
            fetched(checkpoint.name)
            _convert_apart(checkpoint, folder)
    return folder


def default_folder(path):
    """The default folder name of a converted checkpoint, such as "all_minilm_l6_v2"."""
    if not is_published_name(path):
        return Path(path).resolve().name.lower().replace("-", "_")
    match = KAGGLE.fullmatch(path)
    name = match[1] if match else path.partition("@")[0]
    return re.sub(r"\W", "_", name.rpartition("/")[2].lower())


def entry_texts(converted, source):
    """The fields of metrics.json that describe the origin of a converted entry, and say that nothing was measured.

    Args:
        converted: Converted.
        source: Fetched, or Path of a local folder.

    Returns:
        dict of JSON types.
    """
    data = {"name": "the data of the original model", "terms": "as stated by its owner", "link": ""}
    limits = ["The limits of the original model; see its card.", *converted.notes]
    scores = "Not measured here: the scores of this model are its publisher's."
    facts = {"seeds": [], "minutes": 0.0, "scores": [], "limits": limits}
    if not isinstance(source, Fetched):
        name = source.resolve().name
        description = f"The {converted.source_format} checkpoint {name}, converted."
        return {**facts, "description": description, "data": [data], "scores_note": scores}
    licence = f"; the weights under the licence {source.licence}" if source.licence else ""
    data |= {"terms": data["terms"] + licence, "link": source.link}
    return {
        **facts,
        "description": f"The {converted.source_format} checkpoint {source.name}, converted.",
        "data": [data],
        "scores_note": f"{scores[:-1]}, see <{source.link}>.",
        "source": source.name,
        "command": f"keras-attention convert {source.name}",
    }


def is_cached_place(folder):
    """Whether this folder is an entry in the cache, which is loaded by the checkpoint's name."""
    try:
        return Path(folder).absolute().is_relative_to((published_cache() / "entries").absolute())
    except UserError:
        return False


def _convert_apart(checkpoint, folder):
    """Converts in another process, because TensorFlow must not start in this one before a training configures it."""
    command = package_command("convert", checkpoint.name, "--out", str(folder))
    if re.fullmatch("[A-Za-z]{2,3}", checkpoint.language):
        command += ["--language", checkpoint.language]
    process = subprocess.run(command, env=package_environment(), capture_output=True, text=True)
    if process.returncode:
        message = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise UserError(one_line(message.removeprefix("keras-attention: ")))


def _safe(name):
    """A folder name for the name of a checkpoint with its commit or version."""
    return re.sub(r"[^\w.@-]", "--", name.partition("://")[2], flags=re.ASCII)


def _resolved_preset(name):
    """Fetched without a folder, for a Kaggle name; a missing version is looked up."""
    match = KAGGLE.fullmatch(name)
    if match is None or ".." in name:
        raise UserError(f"Expected kaggle://ORG/MODEL/keras/VARIANT or with /VERSION. Received: {quoted(name)}")
    handle, version = match[1], match[2]
    if version is None:
        version = _newest_version(name, handle)
    link = f"https://www.kaggle.com/models/{handle}/{version}"
    return Fetched(None, f"kaggle://{handle}/{version}", link)


def _newest_version(name, handle):
    """The newest version of a preset on Kaggle or, if Kaggle cannot be reached, in the cache."""
    try:
        version = _kaggle_file(name, handle, "config.json").parent.name
    except UserError:
        cached = (published_cache() / "entries").glob(f"{_safe(f'kaggle://{handle}')}--*")
        versions = [path.name.rpartition("--")[2] for path in cached]
        versions = [version for version in versions if version.isdecimal()]
        if not versions:
            raise
        version = max(versions, key=int)
    if not version.isdecimal():
        raise UserError(f"{name}: Kaggle names no version. Give one, such as {name}/1")
    return version


def _fetched_preset(preset):
    handle = preset.name.removeprefix("kaggle://")
    path = _kaggle_file(preset.name, handle, "config.json")
    Fields(path).choice("registered_name", {"keras_hub>BertBackbone": ""})  # before the weights are downloaded
    for file in PRESET:
        _kaggle_file(preset.name, handle, file)
    return preset._replace(folder=path.parent)


def _kaggle_file(name, handle, file):
    return fetched_kaggle_file(name, handle, file, PRESET[file])
