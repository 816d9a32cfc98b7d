"""What a card tells of a run: command, commit, hardware."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

from keras_attention.cores import available_cores


def run_facts():
    """Returns the dict of "command", "commit" and "hardware" (str) of this process.

    The commit is that of the script's git checkout, with "+changes" if files were modified, or "unknown".
    """
    script = Path(sys.argv[0])
    folder = script.resolve().parent
    commit = _git(folder, "rev-parse", "--short=12", "HEAD") or "unknown"
    if _git(folder, "status", "--porcelain", "--untracked-files=no"):
        commit += "+changes"
    name = os.path.relpath(script) if script.exists() else script.name
    cores = available_cores()
    return {
        "command": shlex.join(["python", name, *map(without_folders, sys.argv[1:])]),
        "commit": commit,
        "hardware": f"{cores} core{'s' * (cores > 1)} of {_processor()}",
    }


def without_folders(argument):
    """The argument with absolute paths shortened to their last part, because folders are private: /a/b/c -> c."""
    flag, equals, value = argument.rpartition("=")
    return flag + equals + (Path(value).name if os.path.isabs(value) else value)


def _git(folder, *arguments):
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} ({platform.machine()})" if names else platform.machine()
