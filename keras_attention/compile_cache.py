"""Keeps the programs that XLA compiles for a model on disk, so that only its first use waits for the compiler.

TensorFlow reads and writes these programs in the folder named by `TF_XLA_FLAGS` and trusts its content. So a process
never works in the store itself:

    store     CACHE/programs/MACHINE/MODEL/NAME.SHA256     programs, verified by the digest in their names
    session   CACHE/programs/MACHINE/.session-PID-*/       links to the verified programs of the models in use

`MACHINE` is a digest of the versions and the processor. New programs of the session move to the store when the process
ends or `CompileCache.keep` is called. A store that others can write to, a damaged file, or another user's file is not
used. `pipelines.stored_programs` stores the traced graphs of these programs in the same place.
"""

import atexit
import hashlib
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from keras_attention.cores import available_cores

MAX_BYTES = 256 * 2**20  # for the programs of one machine; beyond it, the least recently used are removed
VARIABLE = "KERAS_ATTENTION_CACHE"
FLAG = "--tf_xla_persistent_cache_directory="
PROGRAM = re.compile(r"[A-Za-z0-9_.-]{1,180}\.([0-9a-f]{64})")


class CompileCache:
    """The compiled programs of the models that one process uses.

    Args:
        root: Path. Folder of all caches of this user; made if it is missing.
        models: sequence of str, names or folders of the models whose programs are wanted.

    Raises:
        OSError: if a folder cannot be created, or other users can write to it.
    """

    def __init__(self, root, models):
        self.machine = root / "programs" / machine_digest()
        for folder in (root, self.machine.parent, self.machine):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_private(self.machine.parent)
        _check_private(self.machine)
        _remove_dead_sessions(self.machine)
        self.session = Path(tempfile.mkdtemp(prefix=f".session-{os.getpid()}-", dir=self.machine))
        self.models = [_folder_name(model) for model in models]
        self.linked = sum(self._link(self.machine / model) for model in self.models)

    def keep(self, model=None):
        """Links new programs of the session into the store of a model, by default the first.

        Disk errors are ignored: later processes only compile again.

        Returns:
            bool, whether all programs are stored.
        """
        store = self.machine / (self.models[0] if model is None else _folder_name(model))
        with suppress(OSError):
            store.mkdir(exist_ok=True, mode=0o700)
            for path in self.session.iterdir():
                if path.stat().st_nlink == 1 and path.suffix != ".tmp":  # neither from the store nor unfinished
                    path.chmod(0o600)
                    with suppress(FileExistsError):
                        os.link(path, store / f"{path.name}.{_digest(path)}")
            self._shrink()
            return True
        return False

    def read(self, name):
        """The verified bytes stored under a name by an earlier process, or None."""
        with suppress(OSError):
            return (self.session / name).read_bytes()
        return None

    def write(self, name, content):
        """Stores bytes for later processes. Disk errors are ignored."""
        unfinished = self.session / f"{name}.tmp"
        with suppress(OSError):
            unfinished.write_bytes(content)
            unfinished.replace(self.session / name)

    def close(self):
        self.keep()
        shutil.rmtree(self.session, ignore_errors=True)

    def _link(self, store):
        """Links the intact programs of a model into the session and removes the others. Returns the number of links."""
        if not store.is_dir():
            return 0
        _check_private(store)
        sound = 0
        for path in store.iterdir():
            match = PROGRAM.fullmatch(path.name)
            place = self.session / path.name[:-65]
            if match and not place.exists() and _is_ours(path) and _digest(path) == match[1]:
                os.link(path, place)
                os.utime(path)
                sound += 1
            else:
                path.unlink(missing_ok=True)
        return sound

    def _shrink(self):
        """Removes the least recently used programs until the total is below `MAX_BYTES`."""
        programs = [(path, path.stat()) for path in self.machine.glob("[!.]*/*")]
        total = sum(facts.st_size for _, facts in programs)
        for path, facts in sorted(programs, key=lambda item: item[1].st_mtime):
            if total <= MAX_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= facts.st_size


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


def use_compile_cache(models):
    """Makes TensorFlow, which must not be imported yet, store the programs that it compiles for these models.

    The cache is in the folder that the environment variable KERAS_ATTENTION_CACHE names, or else in
    $XDG_CACHE_HOME/keras_attention or ~/.cache/keras_attention. An empty variable disables the cache; so do a folder
    that is not writable and a `TF_XLA_FLAGS` that already names a cache.

    Args:
        models: sequence of str, at least one name or folder.

    Returns:
        `CompileCache`, or None if the cache is disabled.
    """
    flags = os.environ.get("TF_XLA_FLAGS", "")
    root = cache_root()
    if root is None or FLAG in flags or "tensorflow" in sys.modules:
        return None
    try:
        cache = CompileCache(root, models)
    except OSError:
        return None
    os.environ["TF_XLA_FLAGS"] = f"{flags} {FLAG}{cache.session}".strip()
    atexit.register(cache.close)
    _in_use.append(cache)
    return cache


_in_use: list = []


def has_compiled():
    """Whether programs of an earlier process were found: bool."""
    return any(cache.linked for cache in _in_use)


def keep_compiled(model=None):
    """Stores the programs compiled so far under a name or folder, by default the first one of `use_compile_cache`.

    Returns:
        bool, whether there is a cache, and all could be stored.
    """
    return bool(_in_use) and all([cache.keep(model) for cache in _in_use])


def has_cache():
    """Whether this process stores programs: bool."""
    return bool(_in_use)


def read_stored(name):
    """The bytes that an earlier process has stored under a name for a model in use, or None."""
    return next((content for cache in _in_use if (content := cache.read(name)) is not None), None)


def write_stored(name, content):
    """Stores bytes beside the compiled programs, if there is a cache."""
    for cache in _in_use:
        cache.write(name, content)


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


def _folder_name(model):
    """A folder name for a model: its own name in safe characters, with a digest if that is ambiguous."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", Path(model).name)[:60]
    return safe if safe == str(model) else f"{safe}-{hashlib.sha256(str(model).encode()).hexdigest()[:8]}"


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_ours(path):
    facts = path.lstat()
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022


def _check_private(folder):
    facts = folder.stat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise PermissionError(f"{folder}: other users can write to it.")


def _remove_dead_sessions(machine):
    for session in machine.glob(".session-*"):
        process = session.name.split("-")[1]
        if not (process.isdigit() and _is_alive(int(process))):
            shutil.rmtree(session, ignore_errors=True)


def _is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
