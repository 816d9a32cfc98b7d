"""Where an entry may be written: a new or empty folder, or, if the user says so, in place of another entry."""

import os
from contextlib import contextmanager
from pathlib import Path

from keras_attention.errors import EntryError
from keras_attention.locks import locked, until_the_command_ends
from keras_attention.whole_file import remove_leftovers, tidy
from keras_attention.zoo.manifest import verify_files


def check_free(folder, overwrite=False):
    """Refuses a folder that an entry may not take the place of; ask before a long training. Imports nothing heavy.

    Args:
        folder: str or Path.
        overwrite: bool. Whether an entry that stands there is replaced. Anything else never is: a folder is an entry if
            its manifest lists exactly the files that are in it, unchanged.

    Raises:
        EntryError: if something stands there that may not be replaced.
    """
    folder = Path(folder)
    if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
        return
    tidy(folder)
    try:
        verify_files(folder)
    except EntryError as error:
        reason = str(error).rstrip(".")
        raise EntryError(
            f"{folder} is not a trained model, so it is never replaced. Choose another name. ({reason})"
        ) from error
    if not overwrite:
        raise EntryError(f"{folder} already contains a trained model. Choose another name, or pass --overwrite.")


@contextmanager
def entry_reserved(folder, overwrite=False):
    """Holds the lock of an entry's folder, from before a training until its model is written.

    Raises:
        EntryError: see `check_free`.
        UserError: if another process holds the lock.
    """
    check_free(folder, overwrite)
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        remove_leftovers(folder)
        check_free(folder, overwrite)  # the last holder of the lock may have written
        yield


def claim_entry(folder, overwrite=False):
    """`entry_reserved` until the command ends; see there. Of several workers, the chief alone holds the lock."""
    from keras_attention.training.devices import workers

    check_free(folder, overwrite)
    if not workers().index:
        until_the_command_ends(entry_reserved(folder, overwrite))
