"""The command as a process: fast without TensorFlow, quiet with it."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli.running import translator
from zoo.tiny_entry import ENGLISH

from keras_attention.cli import main as cli
from keras_attention.zoo.registry import open_entry

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


def test_importing_the_commands_does_not_import_tensorflow():
    """Which each command does itself: without TensorFlow's messages and without garbage collection."""
    program = (
        "import importlib, pkgutil, sys, keras_attention.cli as cli\n"
        "for module in pkgutil.walk_packages(cli.__path__, 'keras_attention.cli.'):\n"
        "    importlib.import_module(module.name)\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def commands(parser):
    """Every command and action that runs something."""
    for action in parser._actions:
        for child in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from [child] if child.get_default("module") else commands(child)


@pytest.mark.parametrize("command", commands(cli.make_parser()), ids=lambda command: command.prog)
def test_each_command_is_implemented(command):
    path = Path(cli.__file__).with_name(f"{command.get_default('module')}.py")
    assert f"\ndef {command.get_default('function')}(arguments" in path.read_text(encoding="utf-8")


def test_a_wrong_option_or_command_suggests_the_nearest(capsys):
    for words, nearest in (
        (["translate", "--model", "tiny", "--beems", "3", "x"], "--beam"),
        (["translat"], "translate"),
        (["finetune", "a.csv", "--text", "a", "--label", "b", "--validation-splitt", "1"], "--validation-split"),
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(words)
        assert stop.value.code == cli.BAD_USAGE
        message = capsys.readouterr().err
        assert f"Did you mean {nearest}?" in message
        assert message.count("\n") == 1


def test_underscores_in_options_mean_hyphens():
    parser = cli.make_parser()
    given = parser.parse_args(["translate", "--model", "a_b", "--n_best=3", "--length_penalty", "1.5", "some_text"])
    assert (given.model, given.n_best, given.length_penalty, given.texts) == ("a_b", 3, 1.5, ["some_text"])
    given = parser.parse_args(["launch", "--max_restarts", "3", "--", "recipes/x.py", "--max_steps", "2"])
    assert (given.max_restarts, given.command) == (3, ["recipes/x.py", "--max_steps", "2"])


@pytest.mark.slow
def test_a_process_prints_only_its_answer(zoo, tmp_path):
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


@pytest.mark.parametrize("command", ["fill-mask", "encode"])
def test_the_default_model_does_what_the_command_asks(command):
    name = cli.make_parser().parse_args([command]).model
    assert open_entry(name).architecture.task.name == command


@pytest.mark.parametrize("own_process", [True, False])
def test_garbage_is_not_collected_during_the_first_import_of_tensorflow(own_process):
    program = (
        "import gc, sys\n"
        "from keras_attention.cli.io.terminal import silent_libraries\n"
        f"with silent_libraries(own_process={own_process}):\n"
        "    first = gc.isenabled()\n"
        "print(first, gc.isenabled(), gc.get_freeze_count() > 0)\n"
        "sys.modules['tensorflow'] = sys\n"
        "with silent_libraries():\n"
        "    print(gc.isenabled())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", str(own_process), "True"]


@pytest.mark.parametrize(("before", "hidden"), [("json", True), ("sklearn", False)])
def test_commands_import_no_packages_only_because_keras_would(before, hidden, tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "jax"}', encoding="utf-8")
    program = (
        f"import sys, {before}\n"
        "from keras_attention.cli.io.terminal import import_frameworks\n"
        "import_frameworks()\n"
        "print(not {'jax', 'matplotlib', 'sklearn'} & set(sys.modules), 'tensorflow' in sys.modules)\n"
        "import keras, matplotlib.pyplot, sklearn.linear_model\n"
        "print(keras.backend.backend(), keras.layers.Dense(2)(keras.ops.ones((1, 3))).shape)\n"
    )
    environment = os.environ | {"KERAS_HOME": str(tmp_path)}
    environment.pop("KERAS_BACKEND", None)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == [f"{hidden} True", "tensorflow (1, 2)"]
