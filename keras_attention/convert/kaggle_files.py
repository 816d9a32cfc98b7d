"""Downloads a file of a Kaggle model through kagglehub, at most as many bytes as its server announces."""

import os
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

from keras_attention.support.errors import UserError, one_line

_patching = threading.Lock()


def fetched_kaggle_file(name, handle, file, most):
    """Path of a file in the cache of kagglehub, the library that keras-hub downloads presets with.

    Args:
        name: str, for messages.
        handle: str, "ORG/MODEL/keras/VARIANT" or with "/VERSION".
        file: str, a path that this package chose.
        most: int, maximum size in bytes.

    Returns:
        Path.

    Raises:
        UserError: if the download fails, or the file is larger than `most` or than announced.
    """
    import kagglehub

    try:
        with _bounded_downloads(most):
            path = Path(kagglehub.model_download(handle, file))
        size = path.stat().st_size
    except Exception as error:  # also those of the package requests
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise UserError(f"{name}: {file} cannot be downloaded from Kaggle: {one_line(lines[0])[:200]}") from error
    if size > most:
        raise UserError(f"{name}: {file} has {size:,} bytes. Supported: up to {most:,}")
    return path


@contextmanager
def _bounded_downloads(most):
    """Lets kagglehub, which has no limit of its own, write only the announced bytes, and only in its cache."""
    from kagglehub import http_resolver

    download = http_resolver.download_file

    def bounded(response, out_file, *arguments, **options):
        _check_place(out_file)
        response.iter_content = _pieces(response, most)
        response.headers.pop("Accept-Ranges", None)  # a resumed download would be another, unbounded response
        try:
            return download(response, out_file, *arguments, **options)
        except BaseException:
            with suppress(OSError):
                os.unlink(out_file)
            raise

    with _patching:
        http_resolver.download_file = bounded
        try:
            yield
        finally:
            http_resolver.download_file = download


def _check_place(path):
    from kagglehub.config import get_cache_folder

    root = os.path.realpath(get_cache_folder())
    if not Path(os.path.realpath(path)).is_relative_to(root):
        raise ValueError(f"{path} leads out of the cache {root}")


def _pieces(response, most):
    """`iter_content` of a response of the package requests, which stops at its announced size."""
    announced = response.headers.get("Content-Length", "")
    is_packed = response.headers.get("Content-Encoding", "identity") != "identity"  # then its size is another
    limit = int(announced) if announced.isdecimal() and not is_packed else most
    if limit > most:
        raise ValueError(f"it has {limit:,} bytes. Supported: up to {most:,}")
    read = response.iter_content

    def pieces(size):
        received = 0
        for piece in read(size):
            received += len(piece)
            if received > limit:
                raise ValueError(f"the server sends more than {limit:,} bytes")
            yield piece

    return pieces
