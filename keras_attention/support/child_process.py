"""Starts commands of this package in another Python process, whose modules never come from the current folder."""

import os
import sys
from pathlib import Path


def package_command(*words):
    """The command line of `keras-attention WORDS`, with the current folder off the path (`-P`).

    Run it with the environment of `package_environment`.

    Args:
        *words: str, such as "convert" and its arguments.

    Returns:
        list of str.
    """
    return [sys.executable, "-P", "-m", "keras_attention", *words]


def package_environment():
    """The environment for `package_command`: finds this package, also in a checkout that is not installed.

    Returns:
        dict. An empty part of PYTHONPATH, which stands for the current folder, is left out.
    """
    folders = [str(Path(__file__).resolve().parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
