"""Files and folders that are written whole or not at all, by one writer at a time.

New content is written under a temporary name beside `path` and then renamed: whenever the process ends, `path` has
either its old or its new content. The lock of `path` is held while writing, so the next writer can remove the temporary
files of a dead writer, but not those of a living one. A process holds a lock until it ends, even by a crash. A file of
somebody else that has the name of the lock file is never changed: nothing is written then.
"""

import atexit
import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import sys
import threading
import time
import uuid
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from keras_attention.support.errors import UserError, quoted

NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM)
NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
PATIENCE = 0.5  # seconds; longer than it takes another process to remove its lock file
MOST_BYTES = 1000  # read from a lock file
LOCK_BEGINS = b'{"pid": '
LOCK = ".lock"  # the lock file inside a folder
LONGEST_NAME = 150  # bytes; most systems allow 255, so there is room for prefix and suffix


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
        UserError: see `check_place` and `locked`.
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
        UserError: see `check_place` and `locked`, raised at once; and if the disk is full, with nothing left behind.
    """
    given, path = path, check_place(path)
    how = {} if mode == "wb" else {"encoding": "utf-8", "newline": "\n"}
    if path.exists() and not path.is_file():  # such as /dev/null: must not be replaced by a file
        with explained(given), open(path, mode, **how) as file:
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
        UserError: see `check_place` and `locked`, raised at once; and if the disk is full, with nothing left behind.
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
        UserError: see `check` and `locked`, raised at once; and if the disk is full, with nothing left behind.
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
    present = sorted(os.listdir(folder)) if folder.is_dir() else []
    strange = [name for name in present if name not in names]
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
        if not (match := known.fullmatch(name)):
            continue
        leftover = path.with_name(name)
        if match[1] and not os.path.lexists(path):  # killed during `exchange`
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


_held = {}  # path of the lock file -> _Held
_guard = threading.RLock()
_claims = ExitStack()
atexit.register(_claims.close)


class _Held:
    def __init__(self, lock):
        self.lock, self.process, self.thread, self.count = lock, os.getpid(), threading.get_ident(), 0


class InUseError(UserError):
    """Another process or thread holds the lock."""


@contextmanager
def locked(path, inside=False, wait=None):
    """Holds the lock of `path`; the thread that holds it already may enter again.

    Args:
        path: str or Path, the file or folder that will be written.
        inside: bool. True if `path` is an existing folder and the lock file is inside it instead of beside it.
        wait: callable(str), called once, before waiting, with a message that names the holder; None: do not wait.

    Raises:
        InUseError: if another process or thread holds the lock; the message names the process and the time.
        OSError: if no lock file can be made there.
    """
    file, reported = lock_file(path, inside), False
    while True:
        try:
            _acquire(file, path)
            break
        except InUseError as error:
            if wait is None:
                raise
            if not reported:
                wait(str(error))
            reported = True
    try:
        yield
    finally:
        _release(file)


def is_held_here(path):
    """bool, whether this process holds the lock of `path`."""
    with _guard:
        held = _held.get(lock_file(path))
        return held is not None and held.process == os.getpid()


def until_the_command_ends(context):
    """Enters a context, which `release_claims` or the end of the process exits."""
    _claims.enter_context(context)


def release_claims():
    """Exits the contexts of `until_the_command_ends`, at the end of a command."""
    _claims.close()


def lock_file(path, inside=False):
    """Path of the lock file of `path`. Links are followed: all names of a file have one lock."""
    path = Path(os.path.realpath(path))
    return path / LOCK if inside else path.with_name(f".{short_name(path)}.lock")


def short_name(path):
    """The name of a file or folder, or its digest if the name is too long to be part of another name."""
    name = os.fsencode(path.name)
    return path.name if len(name) <= LONGEST_NAME else hashlib.sha256(name).hexdigest()


def _acquire(file, path):
    with _guard:
        held = _held.get(file)
        if held is not None and held.process != os.getpid():  # from before a fork: it belongs to the parent
            held = None
        if held is None:
            held = _Held(_lock(file, path))
            _held[file] = held
        elif held.thread != threading.get_ident():
            raise InUseError(f"{path} is in use: another thread of this process writes there. Wait until it is done.")
        held.count += 1


def _lock(file, path):
    """Acquires the lock and returns it; the lock file names the process that holds it."""
    from filelock import FileLock, SoftFileLock, Timeout  # here, because most commands write no file

    with suppress(FileNotFoundError):  # asked once: its holder may remove it at any time
        if not stat.S_ISREG(os.lstat(file).st_mode):
            raise _not_our_lock(file, path)
    # 0o666: another user's process may take over a dead process's file
    lock = FileLock(file, mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=PATIENCE, poll_interval=0.02)
    except Timeout as error:
        raise InUseError(
            f"{path} is in use: {_holder(file)} writes there. Wait until it is done, or choose another place."
        ) from error
    if not isinstance(lock, SoftFileLock):  # a SoftFileLock, on systems without locks, manages its file
        if not _is_ours(file):
            lock.release()
            raise _not_our_lock(file, path)
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        with suppress(OSError), open(os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "w") as holder:
            json.dump(facts, holder)
    return lock


def _release(file):
    with _guard:
        held = _held.get(file)
        if held is None:
            return
        held.count -= 1
        if held.count:
            return
        del _held[file]
        if held.process != os.getpid():
            return
        if type(held.lock).__name__ != "SoftFileLock" and _is_ours(file):  # a SoftFileLock removes its file itself
            with suppress(OSError):
                file.unlink()  # while the lock is held, so that a waiting process sees it and makes a new file
        held.lock.release()


def _not_our_lock(file, path):
    return UserError(
        f"{path} cannot be written: {file} would be its lock file, but somebody else's file has this name. Move it "
        "away, or choose another place."
    )


def _is_ours(file):
    """Whether a lock file is one of this program: it has one name, and names a process or is still empty."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as lock:
            facts = os.fstat(lock.fileno())
            content = lock.read(MOST_BYTES)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            return False
    except OSError:
        return False
    if not content:  # the process that created it was killed at once
        return facts.st_uid == os.getuid()
    try:
        return set(json.loads(content)) == {"pid", "host", "since"}
    except (ValueError, TypeError, RecursionError):
        return content[: len(LOCK_BEGINS)] == LOCK_BEGINS[: len(content)]  # killed while writing


def _holder(file):
    """A text that says which process holds a lock, and since when."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as holder:
            facts = json.loads(holder.read(MOST_BYTES))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(facts["since"])))
        elsewhere = "" if facts["host"] == socket.gethostname() else f" on {str(facts['host'])[:80]}"
        return f"process {int(facts['pid'])}{elsewhere}, since {since},"
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "another process"
