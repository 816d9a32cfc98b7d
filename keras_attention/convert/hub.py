"""Fetches a checkpoint from the Hugging Face Hub: only the files needed, each checked against the hub's hash."""

import hashlib
import json
import logging
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from keras_attention.compile_cache import cache_root
from keras_attention.convert.published_settings import MAX_JSON_BYTES, Fields, model_settings
from keras_attention.errors import UserError, one_line, parse_json, quoted
from keras_attention.whole_file import locked, whole_file

NAME = re.compile(r"hf://(\w[\w.-]{0,95}/\w[\w.-]{0,95})(?:@(\w[\w./-]{0,199}))?", re.ASCII)
COMMIT = re.compile("[0-9a-f]{40}")
WEIGHTS = "model.safetensors"
MEGABYTE = 1 << 20
# The only files that are downloaded, with their maximum sizes. config.json comes first: it decides about the others.
SETTINGS = {
    "config.json": MAX_JSON_BYTES,
    "tokenizer_config.json": MAX_JSON_BYTES,
    "modules.json": MAX_JSON_BYTES,
    "sentence_bert_config.json": MAX_JSON_BYTES,
    "1_Pooling/config.json": MAX_JSON_BYTES,
}
# The first of these groups that the checkpoint has is downloaded.
WORD_PIECES = ({"vocab.txt": 64 * MEGABYTE}, {"tokenizer.json": MAX_JSON_BYTES})
BYTE_PIECES = (
    {"tokenizer.json": 32 * MEGABYTE},
    {"vocab.json": 32 * MEGABYTE, "merges.txt": 32 * MEGABYTE},
)
MAX_WEIGHTS = 1 << 31
TIMEOUT = 10  # seconds to wait for the facts about a model
SITE = "https://huggingface.co"
HELP = "set HF_TOKEN or run `hf auth login`"


class Fetched(NamedTuple):
    """A published checkpoint on this machine.

    Attributes:
        folder: Path of its files, or None before they are fetched.
        name: str, with the commit or version: "hf://ORG/NAME@COMMIT".
        link: str, its page at this commit.
        licence: str, as the publisher states it, or "".
        language: str, as the publisher states it, or "".
    """

    folder: Path | None
    name: str
    link: str
    licence: str = ""
    language: str = ""


def resolve(name):
    """Looks up the commit of a name on the hub. Offline, returns the hub's last answer.

    A commit that was looked up before needs no request.

    Args:
        name: str, "hf://ORG/NAME" or "hf://ORG/NAME@REVISION"; a branch, a tag or a commit.

    Returns:
        Pair of Fetched without a folder, and a dict from the name of each file to its "size" and "hash".

    Raises:
        UserError: if the name is wrong, or there is no such model or revision, or it is private, or the hub cannot
            be reached and there is no earlier answer.
    """
    repository, revision = _parsed(name)
    record = _record_of(repository, revision or "main")
    if revision and COMMIT.fullmatch(revision) and record.is_file():
        return _from_record(record, repository)
    try:
        with _explained(name, repository, revision):
            info = _api().model_info(repository, revision=revision, files_metadata=True, timeout=TIMEOUT)
    except _UnreachableError as error:
        if record.is_file():
            return _from_record(record, repository)
        raise UserError(f"{name} is not in the cache, and the Hugging Face Hub cannot be reached: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{name}: the answer is not that of a Hugging Face Hub: {_first_line(error)}") from error
    facts = _facts_of(name, info)
    for path in {record, _record_of(repository, facts["commit"])}:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path, wait=lambda reason: None), whole_file(path) as file:
            json.dump(facts, file)
    return _from_record(record, repository)


def fetch(name):
    """Downloads the files of a checkpoint into the cache of huggingface_hub, unless they are there.

    Args:
        name: see `resolve`.

    Returns:
        Fetched.

    Raises:
        UserError: see `resolve`; also if the checkpoint is not supported (its settings are checked before the weights
            are downloaded), or a download fails or differs from the hub's hash.
    """
    found, files = resolve(name)
    repository, commit = _parsed(found.name)
    if WEIGHTS not in files:
        raise UserError(f"{name} has no {WEIGHTS}. {_other_weights(files)}")
    if "config.json" not in files:
        raise UserError(f"{name} has no config.json.")

    def download(file, most):
        if files[file]["size"] > most:
            raise UserError(f"{name}: {file} has {files[file]['size']:,} bytes. Supported: up to {most:,}")
        return _download(name, repository, commit, file, files[file])

    path = download("config.json", SETTINGS["config.json"])
    groups = BYTE_PIECES if model_settings(Fields(path))[0] == "gpt2" else WORD_PIECES
    vocabulary = next((group for group in groups if group.keys() <= files.keys()), None)
    if vocabulary is None:
        expected = " or ".join(" and ".join(group) for group in groups)
        raise UserError(f"{name} has no {expected}.")
    for file, most in {**SETTINGS, **vocabulary, WEIGHTS: MAX_WEIGHTS}.items():
        if file in files:
            download(file, most)
    return found._replace(folder=path.parent)


def _parsed(name):
    """The repository "ORG/NAME" and the revision or None."""
    match = NAME.fullmatch(name)
    parts = [] if match is None else [*match[1].split("/"), match[2] or ""]
    if not parts or any(".." in part or "--" in part or part.endswith((".", "-", "/")) for part in parts):
        raise UserError(f"Expected hf://ORG/NAME or hf://ORG/NAME@REVISION. Received: {quoted(name)}")
    return match[1], match[2]


def _api():
    from huggingface_hub import HfApi  # here, because it is slow and most commands do not need it

    return HfApi(library_name="keras-attention")


class _UnreachableError(Exception):
    """The hub did not answer; the text says why."""


@contextmanager
def _explained(name, repository, revision):
    """Turns the errors of huggingface_hub into UserError or _UnreachableError; silences its log meanwhile."""
    from huggingface_hub import errors

    log = logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except errors.GatedRepoError as error:
        raise UserError(f"{name} is gated: its publisher grants access at {SITE}/{repository}; then {HELP}.") from error
    except errors.RepositoryNotFoundError as error:
        raise UserError(
            f"There is no model {repository} on the Hugging Face Hub, or it is private. Check the name; for a "
            f"private model, {HELP}."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UserError(f"{name}: the model has no branch, tag or commit {quoted(revision)}.") from error
    except (errors.HTTPError, OSError) as error:  # every network failure, also requests blocked by HF_HUB_OFFLINE
        response = getattr(error, "response", None)
        if response is not None and response.status_code < 500 and response.status_code not in (408, 429):
            raise UserError(f"{name}: the Hugging Face Hub refused: {_first_line(error)}") from error
        raise _UnreachableError(_first_line(error)) from error
    finally:
        log.setLevel(level)


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(lines[0] if lines else type(error).__name__)[:200]


def _facts_of(name, info):
    """The needed fields of the hub's answer, checked, as a dict of JSON types."""
    commit = info.sha
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise UserError(f"{name}: the hub's answer names the commit {quoted(commit)}. Expected: 40 hexadecimal digits")
    files = {}
    for sibling in info.siblings or ():
        digest = sibling.lfs["sha256"] if sibling.lfs else sibling.blob_id
        if type(sibling.size) is int and sibling.size >= 0 and isinstance(digest, str):
            files[sibling.rfilename] = {"size": sibling.size, "hash": digest}
    card = info.card_data or {}
    said = {name: card.get(name) for name in ("license", "language")}
    said = {name: value if isinstance(value, str) and len(value) < 40 else "" for name, value in said.items()}
    return {"commit": commit, "files": files, **said}


def _record_of(repository, revision):
    """Path of the file that stores the hub's answer."""
    return published_cache() / "hub" / repository.replace("/", "--") / f"{quote(revision, safe='')}.json"


def published_cache():
    """Path of the folder in the user's cache for published models; raises UserError if there is no cache."""
    root = cache_root()
    if root is None:
        raise UserError("Published models need a cache: set KERAS_ATTENTION_CACHE to the path of a folder.")
    return root / "published"


def _from_record(path, repository):
    try:
        facts = parse_json(path.read_bytes())
        commit = facts["commit"]
        name, link = f"hf://{repository}@{commit}", f"{SITE}/{repository}/tree/{commit}"
        return Fetched(None, name, link, facts["license"], facts["language"]), facts["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: remove it, and try again.") from error


def _other_weights(files):
    if f"{WEIGHTS}.index.json" in files:
        return "Its tensors are in several files, which is not supported."
    if any(file.endswith((".bin", ".pt", ".pth", ".ckpt")) for file in files):
        return "Its weights are in a format that can run code; such files are never downloaded."
    return "Supported: BERT, DistilBERT and GPT-2 in safetensors."


def _download(name, repository, commit, file, facts):
    """Downloads a file into the cache, checks its size and hash, and returns its Path."""
    try:
        with _explained(name, repository, commit), _progress_on_a_terminal():
            path = Path(_api().hf_hub_download(repository, file, revision=commit))
    except _UnreachableError as error:
        raise UserError(f"{name}: {file} could not be downloaded, try again later: {error}") from error
    if path.stat().st_size != facts["size"] or _digest(path, facts["hash"]) != facts["hash"]:
        path.resolve().unlink(missing_ok=True)  # the file that the link in the snapshot points to
        path.unlink(missing_ok=True)
        raise UserError(f"{name}: {file} is not the file that the hub describes. It was removed: try again.")
    return path


@contextmanager
def _progress_on_a_terminal():
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if sys.stderr.isatty() or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _digest(path, like):
    """The hash of a file as the hub writes it: SHA-256 for large files, git's SHA-1 of a blob for others."""
    with open(path, "rb") as file:
        if len(like) == 64:
            return hashlib.file_digest(file, "sha256").hexdigest()
        content = file.read()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
