"""One writer at a time: a lock for each output file, checkpoint folder and entry.

A process holds a lock until it ends, even by a crash. So there is nothing to clean up: the next writer takes over the
lock file of a dead process.
"""

import atexit
import hashlib
import json
import os
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from keras_attention.errors import UserError

PATIENCE = 0.5  # seconds; longer than it takes another process to remove its lock file
MOST_BYTES = 1000  # read from a lock file
LOCK = ".lock"  # the lock file inside a folder
LONGEST_NAME = 150  # bytes; most systems allow 255, so there is room for prefix and suffix
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
    file, told = lock_file(path, inside), False
    while True:
        try:
            _acquire(file, path)
            break
        except InUseError as error:
            if wait is None:
                raise
            if not told:
                wait(str(error))
            told = True
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

    lock = FileLock(
        file, mode=0o666, thread_local=False
    )  # 0o666: another user's process may take over a dead process's file
    try:
        lock.acquire(timeout=PATIENCE, poll_interval=0.02)
    except Timeout as error:
        raise InUseError(
            f"{path} is in use: {_holder(file)} writes there. Wait until it is done, or choose another place."
        ) from error
    if not isinstance(lock, SoftFileLock):  # a SoftFileLock, on systems without locks, manages its file
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        with suppress(OSError), open(os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "w") as told:
            json.dump(facts, told)
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
        if type(held.lock).__name__ != "SoftFileLock":  # a SoftFileLock removes its file itself
            with suppress(OSError):
                file.unlink()  # while the lock is held, so that a waiting process sees it and makes a new file
        held.lock.release()


def _holder(file):
    """A text that says which process holds a lock, and since when."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as told:
            facts = json.loads(told.read(MOST_BYTES))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(facts["since"])))
        elsewhere = "" if facts["host"] == socket.gethostname() else f" on {str(facts['host'])[:80]}"
        return f"process {int(facts['pid'])}{elsewhere}, since {since},"
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "another process"
