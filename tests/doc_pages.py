"""The pages of docs/, block by block, and how their commands are run."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keras_attention.cli import main as cli

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTE = re.compile(r"# (keras_attention/\S+\.py)\n(.*)", re.DOTALL)


def blocks(page):
    """(language, text) of each block of a page that has a language, in order."""
    return FENCE.findall(PAGES[page])


def code_blocks(page):
    """The blocks of Python that are to run, not those that quote a file."""
    return [text for language, text in blocks(page) if language == "python" and not QUOTE.match(text)]


def commands(text):
    """The commands of a block of shell: a line each, or several lines that end with the END of a here-document."""
    return [match.group() for match in re.finditer(r"^.*<<'END'\n(?s:.*?)^END$|^.+$", text, re.MULTILINE)]


def run_command(line):
    """Runs a command of a shell: the command line and the recipes in this process, the rest in bash."""
    words = line.split() if "<<" in line else shlex.split(line)
    if words[0] == "keras-attention":
        assert cli.main(words[1:]) == 0, line
    elif words[0] == "python":
        assert exit_code(words[1:]) == 0, line
    else:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # has keras-attention
        subprocess.run(["bash", "-c", line], check=True, env=os.environ | {"PATH": path})


def exit_code(arguments):
    """Runs a script in this process, as `python SCRIPT ARGUMENTS` in the checkout would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")
    return end.value.code or 0
