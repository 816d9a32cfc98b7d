"""Fetches a checkpoint from the Hugging Face Hub: only the files needed, each checked against the hub's hash."""

import json
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from keras_attention.convert import unigram_files, wordpiece_files
from keras_attention.convert.hub_files import (
    SITE,
    HubFile,
    UnreachableError,
    explained_by_hub,
    fetched_file,
    first_line,
    read_answer,
)
from keras_attention.convert.published_settings import MAX_JSON_BYTES, MAX_WEIGHTS, Fields, model_settings
from keras_attention.convert.sentence_vectors import VECTOR_FILES
from keras_attention.support.atomic_files import locked, whole_file
from keras_attention.support.compile_cache import cache_root
from keras_attention.support.errors import UserError, parse_json, quoted

NAME = re.compile(r"hf://(\w[\w.-]{0,95}/\w[\w.-]{0,95})(?:@(\w[\w./-]{0,199}))?", re.ASCII)
COMMIT = re.compile("[0-9a-f]{40}")
WEIGHTS = "model.safetensors"
TENSORFLOW_WEIGHTS = "tf_model.h5"  # of a Marian model without safetensors
MEGABYTE = 1 << 20
# The only files that are downloaded, with their maximum sizes. config.json comes first: it decides about the others.
SETTINGS = {
    "config.json": MAX_JSON_BYTES,
    "adapter_config.json": MAX_JSON_BYTES,
    "generation_config.json": MAX_JSON_BYTES,
    **dict.fromkeys((wordpiece_files.SETTINGS, wordpiece_files.SPECIAL, wordpiece_files.ADDED), MAX_JSON_BYTES),
    **dict.fromkeys(VECTOR_FILES, MAX_JSON_BYTES),
}
MAX_VOCABULARY_FILE = 64 * MEGABYTE
# The first of these groups that the checkpoint has is downloaded.
TOKENIZER = {wordpiece_files.TOKENIZER: wordpiece_files.MAX_TOKENIZER_BYTES}
UNIGRAM = {unigram_files.MODEL: unigram_files.MAX_MODEL_BYTES}
WORD_PIECES = (
    {"vocab.txt": MAX_VOCABULARY_FILE, **TOKENIZER},
    {"vocab.txt": MAX_VOCABULARY_FILE},
    UNIGRAM | TOKENIZER,
    UNIGRAM,
    TOKENIZER,
)
BYTE_PIECES = (
    {"tokenizer.json": 32 * MEGABYTE},
    {"vocab.json": 32 * MEGABYTE, "merges.txt": 32 * MEGABYTE},
)
MARIAN_PIECES = (dict.fromkeys(("vocab.json", "source.spm", "target.spm"), 32 * MEGABYTE),)
WORD = re.compile(r"[\w.+ -]{1,39}", re.ASCII)  # a licence or a language that goes into a card


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
    repository, revision = parsed_name(name)
    record = _record_of(repository, revision or "main")
    if revision and COMMIT.fullmatch(revision) and record.is_file():
        return _from_record(record, repository)
    try:
        with explained_by_hub(name, repository, revision):
            answer = read_answer(_address(repository, revision), {"blobs": "true"})
        facts = _facts_of(name, revision, parse_json(answer))
    except UnreachableError as error:
        if record.is_file():
            return _from_record(record, repository)
        raise UserError(f"{name} is not in the cache, and the Hugging Face Hub cannot be reached: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{name}: the answer is not that of a Hugging Face Hub: {first_line(error)}") from error
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
    checkpoint, files = resolve(name)
    repository, commit = parsed_name(checkpoint.name)
    if not {WEIGHTS, TENSORFLOW_WEIGHTS} & files.keys():
        raise UserError(f"{name} has no {WEIGHTS}. {_other_weights(files)}")
    if "config.json" not in files:
        raise UserError(f"{name} has no config.json.")

    def download(file, most):
        size, digest = files[file]["size"], files[file]["hash"]
        if size > most:
            raise UserError(f"{name}: {file} has {size:,} bytes. Supported: up to {most:,}")
        return fetched_file(HubFile(name, repository, commit, file, size, digest))

    path = download("config.json", SETTINGS["config.json"])
    model_type, _ = model_settings(Fields(path))
    groups = {"gpt2": BYTE_PIECES, "marian": MARIAN_PIECES}.get(model_type, WORD_PIECES)
    weights = TENSORFLOW_WEIGHTS if model_type == "marian" and WEIGHTS not in files else WEIGHTS
    if weights not in files:
        raise UserError(f"{name} has no {WEIGHTS}. {_other_weights(files)}")
    vocabulary = next((group for group in groups if group.keys() <= files.keys()), None)
    if vocabulary is None:
        expected = " or ".join(" and ".join(group) for group in groups)
        raise UserError(f"{name} has no {expected}.")
    for file, most in {**SETTINGS, **vocabulary, weights: MAX_WEIGHTS}.items():
        if file in files:
            download(file, most)
    for file in {*SETTINGS, *(name for group in groups for name in group)} - files.keys():
        if (path.parent / file).exists():  # the cache is shared with other programs, and one may have put it there
            raise UserError(f"{path.parent / file} is not a file of {name}. Remove it, and try again.")
    return checkpoint._replace(folder=path.parent)


def parsed_name(name):
    """The repository and the revision of a name on the hub.

    Args:
        name: str, "hf://ORG/NAME" or "hf://ORG/NAME@REVISION".

    Returns:
        Pair of "ORG/NAME" and the revision or None.

    Raises:
        UserError: if the name is another one.
    """
    match = NAME.fullmatch(name)
    parts = [] if match is None else [*match[1].split("/"), match[2] or ""]
    if not parts or any(".." in part or "--" in part or part.endswith((".", "-", "/")) for part in parts):
        raise UserError(f"Expected hf://ORG/NAME or hf://ORG/NAME@REVISION. Received: {quoted(name)}")
    return match[1], match[2]


def _address(repository, revision):
    from huggingface_hub import constants  # here, because it is slow and most commands do not need it

    address = f"{constants.ENDPOINT}/api/models/{repository}"
    return address if revision is None else f"{address}/revision/{quote(revision, safe='')}"


def _facts_of(name, revision, answer):
    """The needed fields of the hub's answer, checked, as a dict of JSON types."""
    commit = answer["sha"]
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise UserError(f"{name}: the hub's answer names the commit {quoted(commit)}. Expected: 40 hexadecimal digits")
    if revision and COMMIT.fullmatch(revision) and commit != revision:
        raise UserError(f"{name}: the hub's answer is about another commit, {commit}.")
    files = {}
    for sibling in answer["siblings"] or ():
        size, digest = sibling["size"], (sibling.get("lfs") or {}).get("sha256") or sibling["blobId"]
        if type(size) is int and size >= 0 and isinstance(digest, str):
            files[sibling["rfilename"]] = {"size": size, "hash": digest}
    card = answer.get("cardData") or {}
    words = {name: card.get(name) for name in ("license", "language")}
    words = {name: word if isinstance(word, str) and WORD.fullmatch(word) else "" for name, word in words.items()}
    return {"commit": commit, "files": files, **words}


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
        commit, files = facts["commit"], facts["files"]
        words = [facts[name] for name in ("license", "language")]
        sound = all(isinstance(word, str) for word in (commit, *words)) and COMMIT.fullmatch(commit)
        for file in files.values():
            sound = sound and type(file["size"]) is int and isinstance(file["hash"], str)
        if not sound:
            raise ValueError("it holds other types")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged: remove it, and try again.") from error
    name, link = f"hf://{repository}@{commit}", f"{SITE}/{repository}/tree/{commit}"
    return Fetched(None, name, link, *words), files


def _other_weights(files):
    if "manifest.json" in files:
        return "It is a saved model of this package, which needs no conversion: use its name as that of a model."
    if f"{WEIGHTS}.index.json" in files:
        return "Its tensors are in several files, which is not supported."
    if any(file.endswith((".bin", ".pt", ".pth", ".ckpt")) for file in files):
        return "Its weights are in a format that can run code; such files are never downloaded."
    return "Supported: BERT, DistilBERT, GPT-2 and Marian in safetensors, and Marian in tf_model.h5."
