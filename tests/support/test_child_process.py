"""Child processes import no module of the current folder, where anybody may have put a zipfile.py."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_attention.convert import published
from keras_attention.convert.hub import Fetched
from keras_attention.support.child_process import package_command, package_environment
from keras_attention.support.errors import UserError

ROOT = Path(__file__).parents[2]
# Modules of Python and of packages that some command imports early.
NAMES = ("zipfile", "random", "yaml", "argparse", "json", "tempfile", "filelock", "numpy", "keras", "tensorflow")
LAUNCH = ("launch", "--workers", "1", "--max-restarts", "0", "--")


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The current folder, whose modules leave a trace if they are executed."""
    folder, trace = tmp_path / "hostile", tmp_path / "executed"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(trace)!r}, 'a').write({name!r})\nraise SystemExit(9)\n")
    monkeypatch.chdir(folder)
    yield folder
    assert not trace.exists(), trace.read_text()


def run(*words, environment=None):
    environment = environment or package_environment()
    return subprocess.run(package_command(*words), env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("paths", [None, "", os.pathsep, f"{os.pathsep}/none{os.pathsep}"])
def test_our_commands_import_nothing_from_the_current_folder(paths, hostile, monkeypatch):
    if paths is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", paths)  # an empty part stands for the current folder
    done = run("zoo", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "bert_mini_sst2" in done.stdout


def test_a_checkout_that_is_not_installed_is_found(hostile, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    command = [sys.executable, "-P", "-S", "-c", "import keras_attention; print(keras_attention.__file__)"]
    done = subprocess.run(command, env=package_environment(), capture_output=True, text=True)
    assert done.stdout.strip() == str(ROOT / "keras_attention" / "__init__.py"), done.stderr


def test_the_rest_of_the_path_is_kept(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/first", "", "/second"]))
    assert package_environment()["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/first", "/second"]


def test_a_checkpoint_is_converted_by_code_from_elsewhere(hostile, tmp_path):
    with pytest.raises(UserError, match="Expected hf://ORG/NAME"):
        published._convert_apart(Fetched(None, "hf://none", ""), tmp_path / "out")


def test_launched_commands_import_nothing_from_the_current_folder(hostile):
    done = run(*LAUNCH, "zoo", "list")
    assert done.returncode == 0, done.stderr
    assert "bert_mini_sst2" in done.stdout


def test_launched_scripts_import_from_their_own_folder_only(hostile, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "helper.py").write_text("word = 'found'\n")
    (folder / "script.py").write_text("import helper, random, zipfile; print(helper.word)\n")
    done = run(*LAUNCH, str(folder / "script.py"))
    assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr


def starts_of_python(path):
    """The lines of a file that start Python with -m or -c, but without -P."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1:
            first, second = (getattr(node.elts[0], "attr", None), getattr(node.elts[1], "value", None))
            if first == "executable" and second in ("-m", "-c"):
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_no_other_place_starts_python_with_the_current_folder_on_its_path():
    files = [path for part in ("keras_attention", "recipes", "benchmarks") for path in (ROOT / part).rglob("*.py")]
    assert len(files) > 100
    assert [line for path in files for line in starts_of_python(path)] == []
