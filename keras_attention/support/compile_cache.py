"""Keeps traced graphs and the programs that XLA compiles for them on disk, for the processes that follow.

TensorFlow reads and writes compiled programs in the folder named by `TF_XLA_FLAGS` and trusts its content. So a process
never works in the store itself:

    store     CACHE/programs/MACHINE/GRAPH/NAME.SHA256     a graph and its programs, verified by the digest in the names
    session   CACHE/programs/MACHINE/.session-PID-*/       links to the verified files of the graphs in use

`MACHINE` is a digest of the versions and the processor; `GRAPH` one of everything that a graph depends on, see
`runtime.stored_programs`: the settings of the model and its code, but not its weights. So models of equal settings
share programs, and each process verifies only what it runs. New files of the session move to the store when the process
ends or `CompileCache.keep` is called. A store that others can write to, a damaged file, or another user's file is not
used.

No command depends on the cache. Where it cannot be made, or the disk has no room, XLA compiles in memory. Where a
program cannot be read while the process computes, it is removed; where none can be written, the session moves to
another disk until the process ends. See `cache_failed`.
"""

import atexit
import errno
import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
import threading
import warnings
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from keras_attention.support.cores import available_cores

ROOM = 64 * 2**20  # bytes that must be free: TensorFlow fails where it cannot write a program
MAX_BYTES = 256 * 2**20  # for the programs of one machine; beyond it, the least recently used are removed
VARIABLE = "KERAS_ATTENTION_CACHE"
EAGER = "KERAS_ATTENTION_EAGER"
PLAIN = re.compile(r"[\w./:@%+=,~-]+", re.ASCII)  # a value of a flag without quotes
FLAG = "--tf_xla_persistent_cache_directory="
# In the environment of a process that we have started.
INHERITED = re.compile(
    rf'\s*{FLAG}(?:"(?:\\.|[^"\\])*/\.session-(?P<quoted>\d+)-[^"]*"|\S*/\.session-(?P<plain>\d+)-\S*)'
)
PROGRAM = re.compile(r"[A-Za-z0-9_.-]{1,180}\.([0-9a-f]{64})")
GRAPH_FILE = re.compile(r"graph_([0-9a-f]{32})\.pb")
MARK = "stored_"  # precedes the digest of a graph in the names of its functions, and so in what XLA compiles
MARKED = re.compile(MARK.encode() + b"([0-9a-f]{32})")


class CompileCache:
    """The graphs and compiled programs that one process uses.

    Args:
        root: Path. Folder of all caches of this user; made if it is missing.

    Raises:
        OSError: if a folder cannot be created, other users can write to it, or the disk is nearly full.
    """

    def __init__(self, root):
        self.root = root
        self.machine = root / "programs" / machine_digest()
        for folder in (root, self.machine.parent, self.machine):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_private(self.machine.parent)
        _check_private(self.machine)
        _check_room(root)
        _remove_dead_sessions(self.machine)
        self.session = Path(tempfile.mkdtemp(prefix=f".session-{os.getpid()}-", dir=self.machine))
        self._process, self._linked, self._linking = os.getpid(), set(), threading.Lock()
        self._elsewhere = None

    def read(self, graph):
        """Makes the verified files of a graph available to TensorFlow.

        Args:
            graph: str, the digest of the graph, 32 hexadecimal digits.

        Returns:
            Bytes of the graph that an earlier process has stored, or None.
        """
        with suppress(OSError):
            with self._linking:
                if graph not in self._linked:
                    self._linked.add(graph)
                    self._link(self.machine / graph)
            return (self.session / f"graph_{graph}.pb").read_bytes()
        return None

    def write(self, graph, content):
        """Stores the bytes of a graph for later processes. Disk errors are ignored."""
        unfinished = self.session / f"graph_{graph}.tmp"
        with suppress(OSError):
            unfinished.write_bytes(content)
            unfinished.replace(self.session / f"graph_{graph}.pb")

    def keep(self):
        """Links new files of the session into the stores of their graphs.

        A compiled program belongs to the graph whose digest it contains. Others, such as the programs of a training,
        are not stored: later processes would not find them, because TensorFlow numbers their functions. Disk errors are
        ignored: later processes only compile again.

        Returns:
            bool, whether all could be stored.
        """
        with suppress(OSError):
            for path in self.session.iterdir():
                if path.stat().st_nlink == 1 and path.suffix != ".tmp":  # neither from the store nor unfinished
                    content = path.read_bytes()
                    if (graph := _graph_of(path.name, content)) is None:
                        continue
                    store = self.machine / graph
                    store.mkdir(exist_ok=True, mode=0o700)
                    path.chmod(0o600)
                    with suppress(FileExistsError):
                        os.link(path, store / f"{path.name}.{hashlib.sha256(content).hexdigest()}")
            self._shrink()
            return True
        return False

    def forget(self, graph):
        """Removes the compiled programs of a graph, here and in the store, because TensorFlow cannot read them.

        Returns:
            bool, whether there were any.
        """
        removed = False
        for folder in (self.session, self.machine / graph):
            with suppress(OSError):
                for path in folder.iterdir():
                    if path.suffix != ".tmp" and not path.name.startswith("graph_"):
                        if folder == self.session and _graph_of(path.name, path.read_bytes()) not in (graph, None):
                            continue
                        path.unlink(missing_ok=True)
                        removed = True
        return removed

    def move(self):
        """Moves the session to another disk; what it compiles from now on is not stored.

        TensorFlow does not run a program that it cannot write, and goes on with the folder of its start: the session
        becomes a link.

        Returns:
            bool, whether it moved, now or before, to a disk with room.
        """
        with self._linking:
            if self._elsewhere is None:
                for place in (tempfile.gettempdir(), "/dev/shm"):
                    with suppress(OSError):
                        _check_room(place)
                        if _disk_of(place) != _disk_of(self.session):
                            elsewhere = tempfile.mkdtemp(prefix="keras_attention-", dir=place)
                            shutil.rmtree(self.session, ignore_errors=True)
                            self.session.symlink_to(elsewhere)
                            self._elsewhere = elsewhere
                            return True
        return False

    def close(self):
        """Stores what is new and ends the session. Does nothing in a process that was forked from the session's."""
        if os.getpid() == self._process and self._elsewhere:
            shutil.rmtree(self._elsewhere, ignore_errors=True)
            with suppress(OSError):
                self.session.unlink()
        elif os.getpid() == self._process:
            self.keep()
            shutil.rmtree(self.session, ignore_errors=True)

    def _link(self, store):
        """Links the intact files of a store into the session and removes the others."""
        if not store.is_dir():
            return
        _check_private(store)
        for path in store.iterdir():
            match = PROGRAM.fullmatch(path.name)
            place = self.session / path.name[:-65]
            if match and not place.exists() and _is_ours(path) and _is_sound(path, match[1], place.name, store.name):
                os.link(path, place)
                os.utime(path)
            else:
                path.unlink(missing_ok=True)

    def _shrink(self):
        """Removes the least recently used programs until the total is below `MAX_BYTES`."""
        programs = [(path, path.stat()) for path in self.machine.glob("[!.]*/*")]
        total = sum(facts.st_size for _, facts in programs)
        for path, facts in sorted(programs, key=lambda item: item[1].st_mtime):
            if total <= MAX_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= facts.st_size
            with suppress(OSError):  # not empty yet
                path.parent.rmdir()


def programs_fit(share=0.5):
    """Whether this process should let XLA compile another program.

    TensorFlow never frees a program, and each needs hundreds of memory mappings, three for every kernel. By default,
    Linux allows 65,530 mappings per process, and a process that exceeds this limit crashes.

    Args:
        share: float in (0, 1]. Share of the allowed mappings that may be in use.

    Returns:
        bool; True where there is no such limit.
    """
    try:
        most = int(Path("/proc/sys/vm/max_map_count").read_text())
        with open("/proc/self/maps", "rb") as file:
            return sum(1 for _ in file) < share * most
    except (OSError, ValueError):
        return True


def is_eager():
    """Whether KERAS_ATTENTION_EAGER=1 is set: nothing is compiled, stored or copied, so that a `print` or a breakpoint
    in a layer is reached at every step."""
    return os.environ.get(EAGER, "0") not in ("", "0")


def use_compile_cache():
    """Lets this process store its graphs and compiled programs, and read those of earlier processes.

    The cache is in the folder that the environment variable KERAS_ATTENTION_CACHE names, or else in
    $XDG_CACHE_HOME/keras_attention or ~/.cache/keras_attention. An empty variable disables the cache; so do a folder
    that is not writable and a `TF_XLA_FLAGS` that already names a cache. TensorFlow reads `TF_XLA_FLAGS` when it
    computes for the first time. Afterwards, only graphs are stored.

    Returns:
        bool, whether there is a cache; False in eager mode, see `is_eager`.
    """
    if is_eager():
        return False
    if _in_use:
        return True
    root, flags = cache_root(), os.environ.get("TF_XLA_FLAGS", "")
    if (inherited := INHERITED.search(flags)) and int(inherited["quoted"] or inherited["plain"]) != os.getpid():
        flags = flags.replace(inherited[0], "")
    if root is None or FLAG in flags:
        return False
    if inherited:
        os.environ["TF_XLA_FLAGS"] = flags  # part of the digest of this machine
    try:
        cache = CompileCache(root)
    except OSError as error:
        if VARIABLE in os.environ or error.errno in (
            errno.ENOSPC,
            errno.EFBIG,
        ):  # a home that cannot be written to is no accident
            _warn_once(root, error.strerror or str(error))
        return False
    os.environ["TF_XLA_FLAGS"] = f"{flags} {FLAG}{_as_value(str(cache.session))}".strip()
    atexit.register(cache.close)
    _in_use.append(cache)
    return True


_in_use: list = []


def _as_value(path):
    """A path as the value of a flag: TensorFlow splits its flags at blanks, such as in "/home/Ada Lovelace"."""
    return path if PLAIN.fullmatch(path) else '"' + re.sub(r'(["\\])', r"\\\1", path) + '"'


def keep_compiled():
    """Stores what was traced and compiled so far.

    Returns:
        bool, whether there is a cache, and all could be stored.
    """
    return bool(_in_use) and all([cache.keep() for cache in _in_use])


def has_cache():
    """Whether this process stores graphs: bool."""
    return bool(_in_use)


def read_stored(graph):
    """The bytes of a graph that an earlier process has stored, or None; see `CompileCache.read`."""
    return next((content for cache in _in_use if (content := cache.read(graph)) is not None), None)


def write_stored(graph, content):
    """Stores the bytes of a graph, if there is a cache."""
    for cache in _in_use:
        cache.write(graph, content)


AGAIN, NEVER = "again", "never"


def cache_failed(error, graph):
    """Whether TensorFlow has failed because it could not read or write a compiled program in the cache.

    The programs of this graph that it may have failed to read are then removed, so that no later process meets them.

    Args:
        error: tf.errors.OpError.
        graph: str, the digest of a graph, or None.

    Returns:
        AGAIN if another try may succeed, NEVER if not, or None if the error is not one of the cache.
    """
    message = str(error)
    for cache in _in_use:
        if type(error).__name__ == "DataLossError" or str(cache.session) in message:
            if graph is not None and cache.forget(graph):
                return AGAIN
            reason = message.split(str(cache.session))[-1].partition(";")[2].partition("[Op:")[0].strip()
            _warn_once(cache.root, reason or "a program cannot be read")
            return AGAIN if cache.move() else NEVER
    return None


def _warn_once(root, reason):
    if root not in _warned:
        _warned.append(root)
        warnings.warn(
            f"The cache of compiled programs in {root} is not used: {reason.rstrip('.')}. Answers are the same, and "
            f"take longer. {VARIABLE} names another folder.",
            UserWarning,
            stacklevel=2,
        )


_warned: list = []


def announce_compiling():
    """Calls the function of `when_compiling`, because XLA will compile a program."""
    for announce in _announcers:
        announce()


def when_compiling(announce):
    """Calls `announce` before each program that XLA must compile because no earlier process has stored it."""
    _announcers[:] = [announce]


_announcers: list = []


def cache_root():
    """Path of the cache folder, whose content may disappear at any time, or None if there is no cache."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return None if home.startswith("~") else Path(home) / "keras_attention"


def machine_digest():
    """A digest (str) of everything that the compiled programs depend on: versions, processor, threads, XLA flags."""
    facts = [platform.python_version(), platform.machine(), _processor_features(), str(available_cores())]
    facts += [os.environ.get(name, "") for name in ("XLA_FLAGS", "TF_XLA_FLAGS", "TF_NUM_INTRAOP_THREADS")]
    for package in ("tensorflow", "keras", "keras-attention"):
        try:
            facts.append(version(package))
        except PackageNotFoundError:
            facts.append("?")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _processor_features():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n")
        return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    except OSError:
        return platform.processor()


def _graph_of(name, content):
    """The digest (str) of the graph to which a new file of a session belongs, or None."""
    if file := GRAPH_FILE.fullmatch(name):
        return file[1]
    return mark[1].decode() if (mark := MARKED.search(content)) else None


def _is_sound(path, sha256, name, graph):
    """Whether a file has this digest and belongs to this graph."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest() == sha256 and MARK.encode() + graph.encode() in content


def _is_ours(path):
    facts = path.lstat()
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022


def _check_private(folder):
    facts = folder.stat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise PermissionError(f"{folder}: other users can write to it.")


def _disk_of(folder):
    return os.stat(folder).st_dev


def _check_room(folder):
    """Raises OSError if the disk of a folder is nearly full, or the process may write small files only."""
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        raise OSError(errno.ENOSPC, f"only {free / 2**20:.0f} MB of its disk are free")
    with suppress(ImportError):  # not on Windows
        import resource

        largest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if largest != resource.RLIM_INFINITY and largest < ROOM:
            raise OSError(errno.EFBIG, f"no file may have more than {largest:,} bytes")


def _remove_dead_sessions(machine):
    for session in machine.glob(".session-*"):  # a link is one that has moved
        process = session.name.split("-")[1]
        if not (process.isdigit() and _is_alive(int(process))):
            if session.is_symlink():
                session.unlink(missing_ok=True)
            shutil.rmtree(session, ignore_errors=True)


def _is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
