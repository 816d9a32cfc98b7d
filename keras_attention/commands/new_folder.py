"""A folder that is written whole or not at all."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

from keras_attention.errors import UserError


@contextmanager
def new_folder(path):
    """A folder beside `path` to write into, which takes its name when all went well.

    Args:
        path: str, a folder that does not exist yet.

    Yields:
        Path of an empty folder.

    Raises:
        UserError: if something stands at `path`, or nothing can be written there; raised at once, before the work.
    """
    path = Path(path).absolute()
    check_free(path)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name[:50]}-", dir=path.parent))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o777 & ~mask)
        check_free(path)
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_free(path):
    if os.path.lexists(path):
        raise UserError(f"{path} exists already. Choose the name of a new folder, or remove it first.")
    if not path.parent.is_dir():
        raise UserError(f"{path} cannot be written: its folder does not exist")
