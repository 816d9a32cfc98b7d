"""Kills a process, or lets it fail, at the k-th operation that changes the disk below a folder; see faults.c."""

import ctypes
import errno
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COUNT, KILL, TORN, ERROR, FULL, ASK = range(6)
# What may happen at an operation: (what `faults.c` does, the error).
MODES = {
    "kill": (KILL, 0),
    "torn write": (TORN, 0),  # half of it, then the kill
    "no space": (FULL, errno.ENOSPC),  # and no space from then on
    "no permission": (ERROR, errno.EACCES),
    "disk error": (ERROR, errno.EIO),
}
COMPILER = shutil.which("cc") or shutil.which("gcc")
SOURCE = Path(__file__).with_name("faults.c")


@functools.cache
def library():
    """The compiled library: Path."""
    path = Path(tempfile.mkdtemp(prefix="faults-")) / "faults.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-w", "-o", path, SOURCE, "-ldl"], check=True)
    return path


def run_with_faults(script, *arguments, **given):
    """Runs a Python script in a process whose operations can be counted; returns what it prints."""
    paths = [str(SOURCE.parents[2]), str(SOURCE.parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LD_PRELOAD": str(library())}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "OPENBLAS_NUM_THREADS": "1", **given}
    if os.access("/dev/shm", os.W_OK):  # in memory, where fsync is no wait: one run of a command takes 50 ms, not 500
        environment["TMPDIR"] = "/dev/shm"
    command = [sys.executable, str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def processor_seconds():
    """float, of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


class Faults:
    """The faults of this process, and of children that it forks."""

    def __init__(self):
        self._library = ctypes.CDLL(None)
        self._library.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int]
        self._library.fault_last.restype = ctypes.c_char_p

    def arm(self, folder, mode=None, at=0):
        """From now on operations below `folder` count, and at number `at` happens what MODES[mode] says."""
        what, error = MODES[mode] if mode else (COUNT, 0)
        self._library.fault_arm(os.fsencode(folder), what, at, error)

    def watch(self, folder, start, inspect):
        """Forks a process that runs until its end, and looks at the disk before each of its operations.

        Args:
            folder: path, below which operations count.
            start: callable, what the child does; its result is the exit code.
            inspect: callable(operation), such as "rename /here/file"; "half /here/file" comes in the midst of a write.

        Returns:
            The exit code.
        """
        reports, go = os.pipe(), os.pipe()
        self._library.fault_pipes(reports[1], go[0])
        self._library.fault_arm(os.fsencode(folder), ASK, 0, 0)
        child = os.fork()
        if not child:
            os.close(reports[0]), os.close(go[1])
            start()
        self.disarm()
        os.close(reports[1]), os.close(go[0])
        try:
            with open(reports[0], encoding="utf-8", errors="replace") as operations:
                for operation in operations:
                    inspect(operation.rstrip())
                    os.write(go[1], b"x")
        finally:
            os.close(go[1])
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def disarm(self):
        self._library.fault_disarm()

    @property
    def count(self):
        """int, how many operations there were."""
        return self._library.fault_count()

    @property
    def last(self):
        """str, the operation that failed."""
        return self._library.fault_last().decode(errors="replace")
