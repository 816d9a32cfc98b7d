"""The command as a process: fast without TensorFlow, quiet with it."""

import os
import signal
import subprocess
import sys

import pytest
from cli.running import translator
from zoo.tiny_entry import ENGLISH

from keras_attention.cli import main as cli

COMMAND = [sys.executable, "-m", "keras_attention"]


def test_broken_pipe_is_quiet(zoo):
    environment = {**os.environ, "KERAS_ATTENTION_ZOO": str(zoo)}
    process = subprocess.Popen(
        [*COMMAND, "zoo", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() in (0, cli.BROKEN_PIPE, -signal.SIGPIPE)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["zoo", "list"], ["zoo", "show", "tiny"], ["translate", "--help"]]
)
def test_answers_without_tensorflow(zoo, arguments):
    program = (
        "import sys\nfrom keras_attention.cli.main import main\n"
        f"try:\n    code = main({arguments!r})\nexcept SystemExit as stop:\n    code = stop.code\n"
        "assert not code\n"
        "assert not {'tensorflow', 'keras', 'numpy', 'h5py', 'matplotlib'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "KERAS_ATTENTION_ZOO": str(zoo)}
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=environment)


@pytest.mark.slow
def test_the_whole_process_with_nothing_but_the_answer_on_its_streams(zoo, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    environment |= {"KERAS_ATTENTION_ZOO": str(zoo), "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [*COMMAND, "translate", "--model", "tiny", "--attention", "map.png", ENGLISH[0]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == translator().translate(ENGLISH[0]) + "\n"
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
