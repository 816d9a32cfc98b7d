"""One writer at a time; the second one is told who the first is; a dead one holds nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keras_attention.cli.main import main
from keras_attention.support.atomic_files import (
    lock_file,
    locked,
    release_claims,
    tidy,
    until_the_command_ends,
    whole_file,
)
from keras_attention.support.errors import UserError

ROOT = str(Path(__file__).parents[2])
RECIPES = sorted((Path(ROOT) / "recipes").glob("*.py"))
HOLD = """
import sys, time
from keras_attention.support.atomic_files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of `tmp_path / "file"`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "file")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_writer_learns_holder_and_time_of_the_lock(holder, tmp_path):
    message = rf"file is in use: process {holder.pid}, since 20\d\d-\d\d-\d\d \d\d:"
    with pytest.raises(UserError, match=message), whole_file(tmp_path / "file"):
        pass
    assert not (tmp_path / "file").exists()


def test_a_link_to_the_file_has_its_lock(holder, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(UserError, match=f"process {holder.pid}"), whole_file(tmp_path / "link"):
        pass


def test_the_lock_of_a_dead_process_is_taken_over(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert lock_file(tmp_path / "file").exists()
    with whole_file(tmp_path / "file") as file:
        assert json.loads(lock_file(tmp_path / "file").read_text())["pid"] == os.getpid()
        file.write("x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "\x1b[31m", "host": 1, "since": 1e400}', "x" * 10_000])
def test_a_lock_file_without_a_holder(holder, tmp_path, content):
    lock_file(tmp_path / "file").write_text(content)
    with pytest.raises(UserError, match="another process writes there"), locked(tmp_path / "file"):
        pass


@pytest.mark.parametrize(
    "content", ["precious", '{"pid": 3}', '{"pid": 3, "host": "a", "since": 1.0, "name": "apt"}', "[" * 100_000, "\xff"]
)
def test_a_foreign_file_with_the_name_of_the_lock_is_kept(tmp_path, content):
    lock_file(tmp_path / "file").write_text(content)
    for write in (lambda: whole_file(tmp_path / "file"), lambda: locked(tmp_path / "file")):
        with pytest.raises(UserError, match=r"\.file\.lock would be its lock file"), write():
            pass
    tidy(tmp_path / "file")
    assert lock_file(tmp_path / "file").read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == [".file.lock"]


@pytest.mark.parametrize("link", ["symlink", "hard link"])
@pytest.mark.parametrize("content", ["precious", ""])
def test_a_link_with_the_name_of_the_lock_is_never_followed(tmp_path, link, content):
    (tmp_path / "target").write_text(content)
    lock = lock_file(tmp_path / "file")
    lock.symlink_to(tmp_path / "target") if link == "symlink" else lock.hardlink_to(tmp_path / "target")
    with pytest.raises(UserError, match="somebody else's file"), whole_file(tmp_path / "file"):
        pass
    assert (tmp_path / "target").read_text() == content
    assert os.path.lexists(lock)


@pytest.mark.parametrize("content", ["", "{", '{"pid": 12, "ho', '{"pid": 12, "host": "a", "since": 1.5}'])
def test_the_lock_file_of_a_killed_process_is_removed(tmp_path, content):
    lock_file(tmp_path / "file").write_text(content)
    with whole_file(tmp_path / "file") as file:
        file.write("x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_replaces_the_lock_is_not_removed(tmp_path):
    with locked(tmp_path / "file"):
        lock_file(tmp_path / "file").unlink()
        lock_file(tmp_path / "file").write_text("precious")
    assert lock_file(tmp_path / "file").read_text() == "precious"


def test_a_thread_may_enter_again_and_another_may_not(tmp_path):
    outcomes = []

    def other():
        try:
            with locked(tmp_path / "file"):
                outcomes.append("entered")
        except UserError as error:
            outcomes.append(str(error))

    def run_other():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with locked(tmp_path / "file"), locked(tmp_path / "file"):
        run_other()
    assert "another thread" in outcomes.pop()
    run_other()
    assert outcomes == ["entered"]
    assert not list(tmp_path.iterdir())


def test_a_forked_child_does_not_hold_the_lock(tmp_path):
    with locked(tmp_path / "file"):
        child = os.fork()
        if not child:
            try:
                with locked(tmp_path / "file"):
                    os._exit(1)
            except UserError:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lock_file(tmp_path / "file").exists()


def test_a_command_holds_its_locks_until_it_ends(tmp_path):
    until_the_command_ends(locked(tmp_path / "file"))
    assert lock_file(tmp_path / "file").exists()
    release_claims()
    assert not list(tmp_path.iterdir())


def test_names_of_any_length_have_locks_of_their_own(tmp_path):
    names = ["ü" * 120 + end for end in ("a", "b")]
    with locked(tmp_path / names[0]), locked(tmp_path / names[1]):
        assert len(list(tmp_path.iterdir())) == 2
        for name in names:
            with whole_file(tmp_path / name) as file:
                file.write(name)
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_partial_files_of_dead_processes_are_removed_and_no_others(tmp_path):
    digits = "0123456789abcdef" * 2
    stay = [f".file-{digits}0", f".file-{digits[:-1]}", f".filed-{digits}", f"file-{digits}", ".file-old", ".file"]
    for name in stay:
        (tmp_path / name).write_text("precious")
    (tmp_path / f".file-{digits}").write_text("left")
    (tmp_path / f".file-{digits[::-1]}").mkdir()
    (tmp_path / f".file-{digits[::-1]}" / "part").write_text("left")
    with whole_file(tmp_path / "file") as file:
        file.write("x")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*stay, "file"])


COUNT = """
import sys
from pathlib import Path
from keras_attention.support.errors import UserError
from keras_attention.support.atomic_files import locked
place, done = Path(sys.argv[1]), 0
while done < 100:
    try:
        with locked(place):
            number = int(place.read_text() or 0)
            place.write_text(str(number + 1))
            done += 1
    except UserError:
        pass
"""


def test_two_processes_never_hold_one_lock(tmp_path):
    (tmp_path / "file").write_text("0")
    command = [sys.executable, "-c", COUNT, str(tmp_path / "file")]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    started = time.monotonic()
    processes = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert (tmp_path / "file").read_text() == "300"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert time.monotonic() - started < 60


def test_a_lock_file_that_is_removed_while_it_is_looked_at(tmp_path, monkeypatch):
    lock, lstat = lock_file(tmp_path / "file"), os.lstat
    lock.write_text("")

    def look_and_remove(path, **options):
        facts = lstat(path, **options)
        if Path(path) == lock:
            lock.unlink(missing_ok=True)
        return facts

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", look_and_remove)
        with whole_file(tmp_path / "file") as file:
            file.write("x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


RESOLVE = """
import json
from keras_attention.convert import hub
answer = json.dumps({"sha": "0" * 40, "siblings": []}).encode()
hub.read_answer = lambda *given: answer
for number in range(100):
    assert hub.resolve("hf://small/model")[0].name == "hf://small/model@" + "0" * 40
"""


@pytest.mark.slow
def test_processes_that_ask_the_hub_for_one_model_wait_for_each_other(tmp_path):
    """Each removed the file that another one was writing: "No such file or directory"."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "KERAS_ATTENTION_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", RESOLVE]
    processes = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for _ in range(3)]
    errors = [process.communicate(timeout=120)[1].decode()[-500:] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    (folder,) = (tmp_path / "published" / "hub").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["0" * 40 + ".json", "main.json"]


COMMANDS = {
    "translate": ["--model", "tiny", "--input", "texts", "--output", "file"],
    "classify": ["--model", "moods", "--input", "texts", "--output", "file"],
    "classify --table": ["--model", "moods", "--table", "table.csv", "--output", "file"],
    "classify --explain": ["--model", "moods", "--input", "texts", "--explain", "file.html"],
    "translate --attention": ["--model", "tiny", "A dog runs.", "--attention", "file.png"],
    "translate --explain": ["--model", "tiny", "A dog runs.", "--explain", "file.html"],
    "attention": ["A dog runs.", "--model", "tiny", "--out", "file.html"],
    "evaluate": ["--model", "tiny", "--source", "texts", "--target", "texts", "--output", "file"],
    "encode": ["--model", "moods", "--input", "texts", "--output", "file.npy"],
    "export": ["tiny", "file"],
    "convert": ["published", "--out", "file"],
    "finetune": ["table.csv", "--text=text", "--label=label", "--from=none", "--out=file", "--json"],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """All that `COMMANDS` read."""
    from convert.tiny_checkpoints import TINY_BERT  # here, for they load TensorFlow
    from zoo.tiny_bert import task, tiny_classifier, write_tiny
    from zoo.tiny_entry import write_tiny_entry

    folder = tmp_path_factory.mktemp("models")
    write_tiny_entry(folder / "tiny")
    write_tiny(folder / "moods", tiny_classifier().model, task=task())
    shutil.copytree(TINY_BERT, folder / "published")
    (folder / "texts").write_text("A dog runs.\n")
    (folder / "table.csv").write_text("text,label\n" + "a,good\nb,bad\n" * 20)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_names_the_holder_of_a_lock_before_it_computes(models, tmp_path, monkeypatch, capsys, name):
    there = {word: str(models / word) for word in os.listdir(models)}
    words = [there.get(word, word) for word in COMMANDS[name]]
    (file,) = (word.removeprefix("--out=") for word in words if word.removeprefix("--out=").startswith("file"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("keras_attention.pipelines.base.load_pipeline", lambda *_: pytest.fail("it loads the model"))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ROOT}
    )
    try:
        assert holder.stdout.readline() == "held\n"
        assert main([name.split()[0], *words]) == 2
    finally:
        holder.kill()
        holder.communicate()
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{file} is in use: process {holder.pid}, since" in line
    assert os.listdir(tmp_path) == [f".{file}.lock"]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "flag", "file"), [
    *((path.stem, "--out", "file" + "_smoke" * ('config.out + "_smoke"' in path.read_text())) for path in RECIPES),
    *((name, "--encode_to", "file") for name in ("rnn_attention", "bert_pretrain", "bert_finetune", "language_model")),
])  # fmt: skip
def test_a_recipe_names_the_holder_of_a_lock_before_it_trains(tmp_path, name, flag, file):
    environment = {**os.environ, "PYTHONPATH": ROOT}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        command = [sys.executable, f"{ROOT}/recipes/{name}.py", "--smoke", f"{flag}=file"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
        holder.kill()
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"file{'_smoke' * ('smoke' in file)} is in use: process {holder.pid}, since" in done.stderr
    assert "updates" not in done.stdout
    assert os.listdir(tmp_path) == [f".{file}.lock"]
