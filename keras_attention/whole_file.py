"""Files and folders that are written whole or not at all: first under a temporary name beside `path`, then renamed.

Whenever the process ends, `path` has either its old or its new content. The lock of `path` is held while writing, so
there is one writer at a time, and the next writer can remove the temporary files of a dead writer without touching
those of a living one.
"""

import ctypes
import errno
import os
import re
import shutil
import sys
import uuid
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from keras_attention.errors import UserError, quoted
from keras_attention.locks import is_held_here, lock_file, locked, short_name, until_the_command_ends

NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM)
NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def check_place(path):
    """Raises UserError if no file can be written at `path`; call it before long work.

    Args:
        path: str or Path.

    Returns:
        Path, with links followed.

    Raises:
        UserError: if it is a folder, or its folder is missing or cannot be written to.
    """
    given, path = path, Path(os.path.realpath(path))
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(
            f"{given} cannot be written: {'it is a folder' if path.is_dir() else 'its folder does not exist'}"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UserError(f"{given} cannot be written: its folder {str(path.parent)!r} is not writable.")
    return path


def claim_place(path):
    """`check_place` for a file that is written at the end: holds its lock until the command ends.

    Raises:
        UserError: see `check_place` and `locks.locked`.
    """
    place = check_place(path)
    if place.is_file() or not place.exists():  # no lock beside a device or pipe
        with explained(path):
            until_the_command_ends(locked(place))
    return place


@contextmanager
def whole_file(path, mode="w", lock=True):
    """A file to write to, which replaces `path` if no error occurs; a pipe or device is written directly.

    Args:
        path: str or Path.
        mode: "w" for text (UTF-8, lines end with "\\n") or "wb" for bytes.
        lock: bool. False where the caller's own lock covers `path`.

    Yields:
        The open file.

    Raises:
        UserError: see `check_place` and `locks.locked`, raised at once; and if the disk is full. Nothing is left behind
            then.
    """
    given, path = path, check_place(path)
    how = {} if mode == "wb" else {"encoding": "utf-8", "newline": "\n"}
    if path.exists() and not path.is_file():  # such as /dev/null: must not be replaced by a file
        with open(path, mode, **how) as file:
            yield file
        return
    with explained(given), locked(path) if lock else nullcontext():
        remove_leftovers(path)
        temporary = temporary_name(path)
        try:
            with open(temporary, mode.replace("w", "x"), **how) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        flush(path.parent)


@contextmanager
def whole_files(path):
    """Several files beside `path`; none appears before all are written.

    Then they are renamed one after the other. Only a kill between two renames leaves some old and some new files.

    Args:
        path: str or Path in a folder that exists; its lock is held, and its name marks the temporary files.

    Yields:
        Path of an empty folder. Each file in it replaces the file with its name beside `path`.

    Raises:
        UserError: see `check_place` and `locks.locked`, raised at once; and if the disk is full. Nothing is left behind
            then.
    """
    given, path = path, check_place(path)
    with explained(given), locked(path):
        remove_leftovers(path)
        temporary = temporary_name(path)
        try:
            temporary.mkdir()
            yield temporary
            flush(temporary)
            names = sorted(file.name for file in temporary.iterdir() if file.suffix != ".lock")
            for name in names:
                check_place(path.with_name(name))
            for name in names:
                os.replace(temporary / name, path.with_name(name))
            flush(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def whole_folder(path, check):
    """A folder to write into, which replaces `path` if no error occurs.

    Args:
        path: str or Path in a folder that exists.
        check: callable(path) that raises UserError if the content of `path` must not be replaced; called before
            and after the work.

    Yields:
        Path of an empty folder.

    Raises:
        UserError: see `check` and `locks.locked`, raised at once; and if the disk is full. Nothing is left behind then.
    """
    given, path = path, Path(os.path.realpath(path))
    with explained(given), locked(path):
        remove_leftovers(path)
        check(path)
        temporary = temporary_name(path)
        try:
            temporary.mkdir()
            yield temporary
            for one in [*temporary.rglob("*"), temporary]:
                flush(one)
            check(path)
            if path.is_dir() and any(path.iterdir()):
                exchange(temporary, path)
            else:
                os.rename(temporary, path)  # replaces `path` if it is an empty folder
            flush(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_holds_only(folder, names):
    """Raises UserError if a folder holds other files than `names`; a `check` for `whole_folder`."""
    found = sorted(os.listdir(folder)) if folder.is_dir() else []
    strange = [name for name in found if name not in names]
    if strange or (os.path.lexists(folder) and not folder.is_dir()):
        what = f"holds {quoted(strange[0])}" if strange else "is no folder"
        raise UserError(f"{folder} {what}, so it is not replaced. Choose the name of a new folder.")


def temporary_name(path):
    """A unique name beside `path` that `remove_leftovers` recognizes."""
    return path.with_name(f".{short_name(path)}-{uuid.uuid4().hex}")


def remove_leftovers(path):
    """Removes the temporary files of a killed writer of `path`. Call it while holding the lock of `path`."""
    known = re.compile(re.escape(f".{short_name(path)}-") + r"[0-9a-f]{32}(\.old)?")
    for name in os.listdir(path.parent):
        if not (found := known.fullmatch(name)):
            continue
        leftover = path.with_name(name)
        if found[1] and not os.path.lexists(path):  # killed during `exchange`
            os.rename(leftover, path)
        elif leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()


def tidy(path):
    """Removes the temporary files and the lock of a dead writer of `path`, unless another process writes there.

    For callers that then write nothing; writers clean up themselves. Errors are ignored.
    """
    path = Path(os.path.realpath(path))
    if not path.name:  # "/" has no parent folder for a lock file
        return
    with suppress(UserError, OSError):
        # A writer creates the lock file first and removes it last.
        if lock_file(path).exists() and not is_held_here(path):
            with locked(path):
                remove_leftovers(path)


def exchange(new, old):
    """Swaps the names of two folders with the same parent, atomically where the system supports it.

    On other systems, a crash may leave `old` under the name NEW.old; `remove_leftovers` repairs this.
    """
    paths = [os.fsencode(path) for path in (new, old)]
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        failed = library.renameat2(here, paths[0], here, paths[1], swap)
    elif hasattr(library, "renamex_np"):  # macOS
        failed = library.renamex_np(*paths, 2)  # RENAME_SWAP
    else:
        failed, _ = -1, ctypes.set_errno(errno.ENOSYS)
    if not failed:
        return
    if (number := ctypes.get_errno()) not in NO_EXCHANGE:
        raise OSError(number, os.strerror(number), str(old))
    aside = new.with_name(f"{new.name}.old")
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except OSError:
        os.rename(aside, old)
        raise
    os.rename(aside, new)


def flush(path):
    """Flushes a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explained(path):
    """Turns errors of a full or failing disk, or of a path that is not writable, into UserError."""
    try:
        yield
    except OSError as error:
        if error.errno in NOT_WRITABLE:
            raise UserError(f"{path} cannot be written: {error.strerror}") from error
        raise
