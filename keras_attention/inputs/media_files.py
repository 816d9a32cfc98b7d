"""The files of pictures and sounds: read whole, up to a size."""

import os
from pathlib import Path

from keras_attention.support.errors import UserError


def file_content(path, most, what):
    """The bytes of a file, if it is not too large.

    Args:
        path: str or Path.
        most: int, bytes.
        what: str, what the file holds, such as "picture".

    Raises:
        UserError: if it is no file, or larger.
    """
    path = Path(path)
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "is not a file" if os.path.lexists(path) else "does not exist"
        raise UserError(f"{path} {problem}. Expected: the name of a {what}.")
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(f"{path} has more than {most >> 20} MB, the most that a {what} may have.")
    return content
