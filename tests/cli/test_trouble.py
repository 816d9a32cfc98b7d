"""The command where things go wrong around it: Ctrl-C at any time, no home, a disk that is full, letters unknown."""

import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from zoo.tiny_entry import ENGLISH

COMMAND = [sys.executable, "-m", "keras_attention"]


def environment(zoo, **more):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return {**inherited, "KERAS_ATTENTION_ZOO": str(zoo), "PYTHONPATH": os.getcwd(), **more}


def processor_seconds(process):
    """float, the processor time that a process has used so far, however slow the machine is."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the processor time from /proc")
@pytest.mark.parametrize("seconds", [0.4, 1.0, 3.0])
def test_ctrl_c_at_any_time(zoo, tmp_path, seconds):
    (tmp_path / "some.en").write_text(f"{ENGLISH[0]}\n" * 200_000)
    command = [*COMMAND, "translate", "--model", "tiny", "--input", "some.en", "--output", "some.de"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(zoo),
        # Where the tests run in the background, the signal is ignored, and a child inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # Until it runs another program, the child is a copy of the test's process, and clearing that away takes time too.
    while b"keras_attention" not in Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0"):
        time.sleep(0.001)
    # Before that, on a slow machine, Python itself may not have begun with the command.
    begun = processor_seconds(process)
    while process.poll() is None and processor_seconds(process) < begun + seconds:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert not (tmp_path / "some.de").exists()


def test_ctrl_c_while_modules_are_imported(capsys, monkeypatch):
    from keras_attention import __main__
    from keras_attention.cli import main as cli

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "make_parser", interrupted)
    assert __main__.run() == 130
    assert capsys.readouterr().err == "keras-attention: interrupted\n"


def test_ctrl_c_in_a_training_names_resume(capsys):
    from keras_attention.cli import main as cli

    with cli.one_line_errors("keras-attention") as outcome:
        raise KeyboardInterrupt("Training stopped by SIGINT: checkpoint saved in x, --resume continues.")
    assert outcome.code == 130
    error = capsys.readouterr().err
    assert error.startswith("keras-attention: interrupted: Training stopped")
    assert error.endswith("--resume continues.\n")


def test_ctrl_c_while_the_command_itself_is_imported(capsys, monkeypatch):
    class Interrupted:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "keras_attention.cli.main", Interrupted())
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("keras_attention.__main__", run_name="imported")
    assert ended.value.code == 130
    assert capsys.readouterr().err == "keras-attention: interrupted\n"


@pytest.mark.thorough
def test_no_home_no_network_and_a_terminal_of_ascii(zoo, tmp_path):
    (tmp_path / "home").mkdir(mode=0o500)
    program = (
        "import socket, sys\n"
        "def refuse(*a, **k):\n    raise OSError('no network')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from keras_attention.__main__ import run\n"
        f"sys.argv = ['keras-attention', 'translate', '--model', 'tiny', '--json', {ENGLISH[0]!r}, '犬']\n"
        "sys.exit(run())\n"
    )
    for home in (str(tmp_path / "home"), "/nonexistent/home"):
        variables = environment(zoo, HOME=home, PYTHONIOENCODING="ascii")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\\u72ac" in done.stdout
    assert not list((tmp_path / "home").iterdir()) or os.geteuid() == 0


def test_without_a_home_folder_data_sets_are_an_error(monkeypatch):
    from keras_attention.data.download import named_dataset
    from keras_attention.support.errors import UserError

    monkeypatch.delenv("KERAS_ATTENTION_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(UserError, match="no home folder.*KERAS_ATTENTION_HOME"):
        named_dataset("multi30k")


def test_arguments_that_were_no_utf8(zoo):
    done = subprocess.run(
        [*COMMAND, "translate", "--model", b"no\xffmodel", "x"], capture_output=True, env=environment(zoo)
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_warm_without_a_program_cache_is_one_line(zoo, tmp_path):
    (tmp_path / "file").touch()
    place = environment(zoo, KERAS_ATTENTION_CACHE=str(tmp_path / "file" / "cache"))
    done = subprocess.run([*COMMAND, "warm", "tiny"], env=place, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "Compiled programs cannot be stored. Set KERAS_ATTENTION_CACHE" in done.stderr
