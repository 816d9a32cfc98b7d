"""Pushes an entry to the Hugging Face Hub: its files unchanged, and its card with the hub's metadata as README.md."""

import sys
from contextlib import contextmanager
from typing import NamedTuple

from keras_attention.convert.hub import parsed_name
from keras_attention.convert.hub_entries import is_entry
from keras_attention.convert.hub_files import HELP, SITE, UnreachableError, explained_by_hub, first_line
from keras_attention.pipelines.base import failing_examples
from keras_attention.pipelines.languages import SEVERAL, language_code
from keras_attention.support.errors import EntryError, UserError, quoted
from keras_attention.zoo.card import card_text
from keras_attention.zoo.entry import MANIFEST, read_entry, read_manifest
from keras_attention.zoo.registry import find_entry

LIBRARY = "keras-attention"
# The hub's names of the tasks, and of those whose inputs are not texts.
TASKS = {
    "translate": "translation",
    "classify": "text-classification",
    "classify image": "image-classification",
    "classify sound": "audio-classification",
    "classify series": "tabular-classification",
    "encode": "sentence-similarity",
    "fill-mask": "fill-mask",
    "generate": "text-generation",
    "caption": "image-to-text",
    "transcribe": "automatic-speech-recognition",
}
HUBS_OWN = (".gitattributes", "README.md")


class Pushed(NamedTuple):
    """A pushed entry.

    Attributes:
        name: str, "hf://ORG/NAME@COMMIT", which loads exactly this entry.
        link: str, its page at this commit.
        private: bool, whether only its owner and whom they grant access can load it.
        files: int, number of files, with README.md.
        bytes: int, their size.
    """

    name: str
    link: str
    private: bool
    files: int
    bytes: int


def push_entry(name_or_path, address, public=False, licence=None):
    """Verifies an entry, then pushes it to the Hugging Face Hub as one commit.

    The files are checked against their hashes, and the stored examples are computed again. Files that have arrived are
    not sent again, so after an interruption the same call continues.

    Args:
        name_or_path: str or Path, see `registry.find_entry`.
        address: str, "hf://ORG/NAME"; the repository is created if it is missing.
        public: bool. False creates a private repository.
        licence: str, the hub's identifier of the model's licence, such as "apache-2.0"; None refers to the card.

    Returns:
        Pushed.

    Raises:
        EntryError: if the entry is damaged, or does not reproduce its examples.
        UserError: if there is no such entry, the address is wrong, there is no token, the repository holds something
            else or has the other visibility, or the hub refuses or cannot be reached.
    """
    repository = checked_address(address)
    entry = read_entry(find_entry(name_or_path))
    token = write_token()  # before the model is loaded
    _check_examples(entry)
    with _explained(address, repository, token):
        return _push(entry, address, repository, token, public, licence)


def planned_files(name_or_path, address, licence=None):
    """Verifies an entry as `push_entry` does, without a token and without the network.

    Args:
        name_or_path, address, licence: see `push_entry`.

    Returns:
        dict from the name of each file that a push would send to its size in bytes.

    Raises:
        EntryError, UserError: see `push_entry`.
    """
    checked_address(address)
    entry = read_entry(find_entry(name_or_path))
    _check_examples(entry)
    sizes = {name: (entry.folder / name).stat().st_size for name in (MANIFEST, *entry.files)}
    return sizes | {"README.md": len(_readme_bytes(entry, address, licence))}


def checked_address(address):
    """The repository "ORG/NAME" of an address to push to; raises UserError if nothing can be pushed there."""
    if address.startswith("kaggle://"):
        raise UserError(
            f"Models are pushed to hf://ORG/NAME. Received: {quoted(address)}, and keras-hub uploads only its own "
            "presets to Kaggle."
        )
    repository, revision = parsed_name(address)
    if revision is not None:
        raise UserError(f"A push makes a new commit, so it takes no revision. Expected: hf://{repository}")
    return repository


def _check_examples(entry):
    """Computes the examples of an Entry again; raises EntryError if an answer differs."""
    _, problems = failing_examples(entry)
    if problems:
        raise EntryError(f"{entry.folder} is not pushed, because it does not answer as stored: {problems[0]}")


def write_token():
    """The user's token, from HF_TOKEN or the file of `hf auth login`; raises UserError if there is none."""
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        raise UserError(f"To push, the Hugging Face Hub needs a token that may write: {HELP}.")
    return token


def readme_text(entry, address, licence=None):
    """The text of README.md on the hub: metadata in YAML, then the card, whose example loads the model from there.

    Args:
        entry: Entry.
        address: str, "hf://ORG/NAME".
        licence: see `push_entry`.
    """
    from huggingface_hub import ModelCardData

    config, task = entry.config, entry.architecture.task
    languages = [config[key] for key in ("source_language", "target_language", "language") if config.get(key)]
    languages = ["multilingual" if name == SEVERAL else language_code(name) for name in languages]
    terms = (
        {"license": licence} if licence else {"license": "other", "license_name": "see-card", "license_link": "CARD.md"}
    )
    data = ModelCardData(
        **terms,
        language=[code for code in dict.fromkeys(languages) if code] or None,
        library_name=LIBRARY,
        pipeline_tag=TASKS.get(f"{task.name} {entry.input.name}", TASKS.get(task.name)),
        tags=["keras", "attention", entry.architecture.name],
        ignore_metadata_errors=False,
    )
    metrics = {**entry.metrics, "loaded_as": address}
    return f"---\n{data.to_yaml()}\n---\n\n{card_text(entry.name, config, metrics)}"


def _readme_bytes(entry, address, licence):
    return readme_text(entry, address, licence).encode("utf-8", errors="replace")


def _push(entry, address, repository, token, public, licence):
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    api = HfApi(token=token, library_name=LIBRARY)
    try:
        info = api.model_info(repository)
    except RepositoryNotFoundError:
        api.create_repo(repository, private=not public)
        info = api.model_info(repository)
    present = {sibling.rfilename for sibling in info.siblings or ()}
    _check_repository(address, present, bool(info.private), public)
    additions = [CommitOperationAdd(name, str(entry.folder / name)) for name in (MANIFEST, *entry.files)]
    manifest = read_manifest(entry.folder)
    for one in additions[1:]:  # hashed here, and not again by the upload
        if one.upload_info.sha256.hex() != manifest[one.path_in_repo]["sha256"]:
            raise EntryError(f"{entry.folder / one.path_in_repo} has just changed. Try again.")
    additions.append(CommitOperationAdd("README.md", _readme_bytes(entry, address, licence)))
    left = sorted(present - {*HUBS_OWN, *(one.path_in_repo for one in additions)})
    operations = [*additions, *(CommitOperationDelete(name) for name in left)]
    commit = api.create_commit(repository, operations, commit_message=f"Push {entry.name}").oid
    size = sum(one.upload_info.size for one in additions)
    link = f"{SITE}/{repository}/tree/{commit}"
    return Pushed(f"hf://{repository}@{commit}", link, not public, len(additions), size)


def _check_repository(address, present, private, public):
    """Raises UserError if a repository holds something else than an entry, or has the other visibility."""
    foreign = sorted(present - set(HUBS_OWN))
    if foreign and not is_entry(present):
        raise UserError(
            f"{address} holds {quoted(foreign[0])} and is no saved model of this package, so it is not replaced. "
            "Choose another name."
        )
    if private == public:
        received, expected = ("private", "without --public") if private else ("public", "with --public")
        raise UserError(
            f"{address} exists and is {received}. Push {expected}, or change it in its settings on the hub."
        )


@contextmanager
def _explained(address, repository, token):
    """Turns the errors of an upload into a UserError, whose text never holds the token; see `explained_by_hub`."""
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

    is_quiet = not sys.stderr.isatty()
    if is_quiet:
        disable_progress_bars()
    try:
        with explained_by_hub(address, repository, None):
            yield
    except UnreachableError as error:
        reason = str(error).replace(token, "...")
        raise UserError(
            f"{address} was not pushed, because the Hugging Face Hub cannot be reached: {reason}. Run the same command "
            "again: what has arrived is not sent again."
        ) from error
    except UserError as error:
        raise type(error)(str(error).replace(token, "...")) from error
    except (ValueError, RuntimeError) as error:  # metadata that the hub refuses; an upload that breaks off
        reasons = [first_line(one).rstrip(".") for one in (error, error.__cause__) if one is not None]
        reason = ": ".join(reasons).replace(token, "...")
        raise UserError(
            f"{address} was not pushed: {reason}. Run the same command again: what has arrived is not sent again."
        ) from error
    finally:
        if is_quiet:
            enable_progress_bars()
