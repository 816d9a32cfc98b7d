"""Requests to a hub, and the files of its cache, safe against a server that lies.

The hub announces a size and a hash for each file. Nothing else that a server sends decides where a file is stored: not
an ETag, not a file name in a header, not a redirect. Bodies are read piece by piece, never decompressed, and dropped at
the first byte beyond the announced size. A file gets its name in the cache after its hash was checked. Files are in the
layout of huggingface_hub, which finds them there:

    models--ORG--NAME/blobs/HASH                  the content
    models--ORG--NAME/snapshots/COMMIT/FILE       a link to it
"""

import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
import uuid
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from keras_attention.support.errors import UserError, one_line, quoted

TIMEOUT = 10  # seconds without a byte
LONGEST_ANSWER = 60  # seconds for a whole answer about a model
SLOWEST, PATIENCE = 1000, 60  # a file comes with fewer bytes per second for at most so many seconds
MAX_ANSWER = 16 << 20  # bytes
MAX_REDIRECTS = 10
TRIES = 3
DIGESTS = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
SITE = "https://huggingface.co"
HELP = "set HF_TOKEN or run `hf auth login`"


class UnreachableError(Exception):
    """The hub did not answer; the text says why."""


class _UnsoundError(Exception):
    """The hub answers what no sound hub answers."""


class HubFile(NamedTuple):
    """A file of a model at a commit, as the hub announces it.

    Attributes:
        name: str, "hf://ORG/NAME@REVISION", for messages.
        repository: str, "ORG/NAME".
        commit: str, 40 hexadecimal digits.
        file: str, a path that this package chose, such as "1_Pooling/config.json".
        size: int, bytes.
        digest: str, the SHA-256 of a large file, 64 hexadecimal digits; git's SHA-1 of another, 40 digits.
    """

    name: str
    repository: str
    commit: str
    file: str
    size: int
    digest: str


def read_answer(url, parameters):
    """The body of an answer of the hub's API.

    Args:
        url: str.
        parameters: dict, of the query.

    Returns:
        bytes.

    Raises:
        UnreachableError: if the answer takes too long.
        UserError: if the answer is longer than MAX_ANSWER, or not what a hub sends.
        huggingface_hub.errors.HfHubHTTPError, OSError: see `explained_by_hub`.
    """
    body, start = bytearray(), time.monotonic()
    try:
        with closing(_response(url, parameters)) as response:
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise _UnsoundError(f"its answer has more than {MAX_ANSWER:,} bytes")
                if time.monotonic() - start > LONGEST_ANSWER:
                    raise UnreachableError(f"its answer takes longer than {LONGEST_ANSWER} seconds")
    except _UnsoundError as error:
        raise UserError(f"{url} is not the address of a Hugging Face Hub: {error}. Check HF_ENDPOINT.") from error
    return bytes(body)


def fetched_file(announced):
    """Path of a file in the cache of huggingface_hub, downloaded unless it is there with the announced content.

    Args:
        announced: HubFile.

    Returns:
        Path.

    Raises:
        UserError: if the download fails, the server sends another content, or the cache cannot be written.
    """
    from huggingface_hub import constants

    if not DIGESTS.fullmatch(announced.digest):
        raise UserError(
            f"{announced.name}: the hub announces the hash {quoted(announced.digest)} for {announced.file}. "
            "Expected: 40 or 64 hexadecimal digits"
        )
    root = Path(os.path.realpath(constants.HF_HUB_CACHE))
    model = root / f"models--{announced.repository.replace('/', '--')}"
    path = model / "snapshots" / announced.commit / announced.file
    if _is_content(path, announced):
        return path
    try:
        blob = _folder_inside(root, model / "blobs") / announced.digest
        place = _folder_inside(root, path.parent) / path.name
        if not _is_content(blob, announced):
            _download(announced, blob)
        _link(place, blob)
    except OSError as error:
        raise UserError(f"{error.filename or path} cannot be written: {error.strerror}") from error
    return path


@contextmanager
def explained_by_hub(name, repository, revision):
    """Turns the errors of huggingface_hub, whose log is silent meanwhile.

    Raises:
        UserError: if the hub refuses the request, or there is no such model or revision.
        UnreachableError: if the hub cannot be reached, is overloaded, or HF_HUB_OFFLINE is set.
    """
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
            raise UserError(f"{name}: the Hugging Face Hub refused: {first_line(error)}") from error
        raise UnreachableError(first_line(error)) from error
    finally:
        log.setLevel(level)


def first_line(error):
    """The first line of an error's text that is not empty, without control characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(lines[0] if lines else type(error).__name__)[:200]


def _response(url, parameters=None, digest=None):
    """The answer to a GET request, with its body unread; a failure raises an error of huggingface_hub.

    Redirects are followed, but not from https to http, and the session sends no token to another host.
    """
    from huggingface_hub.utils import build_hf_headers, get_session

    session = get_session()
    headers = {**build_hf_headers(library_name="keras-attention"), "Accept-Encoding": "identity"}
    request = session.build_request("GET", url, params=parameters, headers=headers, timeout=TIMEOUT)
    hub = request.url.host
    for _ in range(MAX_REDIRECTS):
        response = session.send(request, stream=True, follow_redirects=False)
        try:
            _check_etag(response, digest, is_hub=response.url.host == hub)
            if response.next_request is None:
                return _successful(response)
            if request.url.scheme == "https" != response.next_request.url.scheme:
                raise _UnsoundError(f"it redirects from https to {quoted(str(response.next_request.url))}")
            request = response.next_request
        except BaseException:
            response.close()
            raise
        response.close()
    raise _UnsoundError(f"it redirects more than {MAX_REDIRECTS} times")


def _check_etag(response, digest, is_hub):
    """Raises an error if the hub sends another hash for a file than it announced."""
    headers = response.headers
    etag = headers.get("X-Linked-Etag")  # the hash of a large file; its own ETag comes from a storage server
    if etag is None and is_hub and response.status_code == 200:
        etag = headers.get("ETag")
    if digest is not None and etag is not None and etag.removeprefix("W/").strip('"') != digest:
        raise _UnsoundError(f"its ETag is {quoted(etag)}, and its announced hash is {digest}")


def _successful(response):
    from huggingface_hub.utils import hf_raise_for_status

    if response.status_code != 200:
        # Without its body, which the hub's library would read to the end.
        headers = {name: value for name, value in response.headers.items() if name.lower().startswith("x-error-")}
        hf_raise_for_status(type(response)(response.status_code, headers=headers, request=response.request))
        raise UnreachableError(f"it answers with the status {response.status_code}")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise _UnsoundError(f"it sends the encoding {quoted(encoding)}, which was not asked for")
    return response


def _download(announced, blob):
    """Writes the content to `blob`, after its size and hash were checked."""
    for attempt in range(1, TRIES + 1):
        try:
            return _download_once(announced, blob)
        except UnreachableError as error:
            if attempt == TRIES:
                raise UserError(
                    f"{announced.name}: {announced.file} could not be downloaded, try again later: {error}"
                ) from error
        time.sleep(attempt)


def _download_once(announced, blob):
    hasher = _hasher(announced)
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".incomplete", dir=blob.parent)
    try:
        with open(handle, "wb") as file:
            for chunk in _chunks(announced):
                file.write(chunk)
                hasher.update(chunk)
        if hasher.hexdigest() != announced.digest:
            raise UserError(
                f"{announced.name}: {announced.file} is not the file that the hub describes. It was removed: try again."
            )
        os.chmod(temporary, 0o644)
        os.replace(temporary, blob)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _chunks(announced):
    """Yields the bytes of a file, at most as many as announced."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import tqdm

    url = hf_hub_url(announced.repository, announced.file, revision=announced.commit)
    received, start = 0, time.monotonic()
    try:
        with (
            explained_by_hub(announced.name, announced.repository, announced.commit),
            closing(_response(url, digest=announced.digest)) as response,
            tqdm(total=announced.size, unit="B", unit_scale=True, desc=announced.file, disable=None) as bar,
        ):
            for chunk in response.iter_raw():
                received += len(chunk)
                if received > announced.size:
                    raise _UnsoundError(f"it sends more than the announced {announced.size:,} bytes")
                if time.monotonic() - start > PATIENCE + received / SLOWEST:
                    raise UnreachableError(f"it sends less than {SLOWEST:,} bytes per second")
                yield chunk
                bar.update(len(chunk))
    except _UnsoundError as error:
        raise UserError(f"{announced.name}: {announced.file} was not downloaded from this hub: {error}.") from error
    if received != announced.size:
        raise UnreachableError(f"it ends after {received:,} of {announced.size:,} bytes")


def _is_content(path, announced):
    """Whether a file exists and has the announced size and hash."""
    try:
        if not path.is_file() or path.stat().st_size != announced.size:
            return False
        hasher = _hasher(announced)
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                hasher.update(chunk)
    except OSError:
        return False
    return hasher.hexdigest() == announced.digest


def _hasher(announced):
    """The hash as the hub writes it: SHA-256 for large files, git's SHA-1 of a blob for others."""
    if len(announced.digest) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % announced.size, usedforsecurity=False)


def _folder_inside(root, folder):
    """The folder with links followed, made if it is missing; UserError if it is outside of `root`."""
    real = Path(os.path.realpath(folder))
    if not real.is_relative_to(root):
        raise UserError(f"{folder} leads to {real}, out of the cache {root}. Remove this link, and try again.")
    real.mkdir(parents=True, exist_ok=True)
    return real


def _link(place, blob):
    """Replaces `place` with a link to the content, or with a copy where the disk has no links."""
    temporary = place.with_name(f".{uuid.uuid4().hex}.incomplete")
    try:
        try:
            os.symlink(os.path.relpath(blob, place.parent), temporary)
        except (OSError, NotImplementedError):
            shutil.copyfile(blob, temporary)
        os.replace(temporary, place)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
