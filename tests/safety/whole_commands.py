"""Kills whole commands at every operation that changes the disk, with TensorFlow and all that they compute.

    python whole_commands.py SAMPLES NAME ...      # under faults.c, see `faults.run_with_faults`; JSON for each

1. A command runs once and is stopped before each of its operations and in the midst of each write. What stands on the
   disk then is what a kill would leave: files and folders must be as before or as at the end, and checkpoints whole.
2. At SAMPLES of these points, evenly spread, the command is given again on a copy of what stood there; and at as many
   the process is really killed. The second run must end well and leave nothing else than the undisturbed one.
3. At SAMPLES points each, the operation fails: no space, no permission, a disk error. One line, exit code 2, as before.

All runs are forks of one process that has imported TensorFlow and has not used it.
"""

import hashlib
import importlib
import json
import os
import pkgutil
import runpy
import shutil
import signal
import sys
import tempfile
import traceback
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from convert.tiny_checkpoints import TINY_BERT
from safety.faults import Faults, processor_seconds
from zoo.tiny_bert import task, tiny_classifier, tiny_mask_filler, write_tiny
from zoo.tiny_entry import ENGLISH, write_tiny_entry
from zoo.tiny_gpt import tiny_generator

import keras_attention
from keras_attention.cli.main import guarded
from keras_attention.cli.main import main as run_command
from keras_attention.data import download as data_download
from keras_attention.support.errors import EntryError
from keras_attention.training import checkpoints
from keras_attention.zoo.entry import verify_files

ROOT = Path(__file__).parents[2]
SECONDS = 1800  # for a command, on a computer that has other work
KILLED = -signal.SIGKILL
NOTES = ("tiny 1/1 ", "only their beginning was")  # a download's progress; a warning about long texts
ERRORS = ("no space", "no permission", "disk error")
TRAININGS = [("--resume",), ("--restart",)]
ANSWERS = [("--resume",), ()]


class Command(NamedTuple):
    """A command that runs in a folder.

    Attributes:
        words: list of str, the command line; or a callable() -> exit code.
        again: list of tuples of flags: how it may be given again after a kill.
        scratch: names that may stand there meanwhile, in any state.
        redirected: str, the file that its standard output goes to, or None.
        needs: name of the command that is run before, or None.
    """

    words: object
    again: list = [()]
    scratch: tuple = ()
    redirected: str | None = None
    needs: str | None = None


def download():
    content = (ROOT / "LICENSE").read_bytes()
    address = (ROOT / "LICENSE").as_uri()
    data_download.DATASETS["tiny"] = (
        data_download.RemoteFile(address, len(content), hashlib.sha256(content).hexdigest()),
    )
    return guarded(lambda: data_download.named_dataset("tiny", os.getcwd()) and 0, "download")


def recipe(name, *flags):
    return [f"{ROOT}/recipes/{name}.py", "--smoke", *flags]


KEPT = ("out.partial", "out.partial.json")
RECIPES = ("rnn_attention", "transformer", "bert_pretrain", "bert_finetune", "distill", "language_model")
FINETUNE = ["finetune", "table.csv", "--text=text", "--label=label", "--from=none", "--size=tiny", "--epochs=2"]
COMMANDS = {
    "translate --output": Command(["translate", "--model=model", "--input=texts", "--output=out"], ANSWERS, KEPT),
    "translate --attention": Command(["translate", "A dog runs.", "--model=model", "--attention=picture.png"]),
    "translate --explain": Command(["translate", "A dog runs.", "--model=model", "--explain=out.html"]),
    "translate --attention, several": Command(
        ["translate", "A dog runs.", "Two men sit.", "--model=model", "--attention=picture.png"]
    ),
    "classify --output": Command(["classify", "--model=moods", "--input=texts", "--output=out"], ANSWERS, KEPT),
    "classify --table": Command(["classify", "--model=moods", "--table=table.csv", "--output=out"], ANSWERS, KEPT),
    "classify --explain": Command(["classify", "--model=moods", "--input=texts", "--explain=out.html"]),
    "encode": Command(["encode", "--model=moods", "--input=texts", "--output=out.npy"]),
    "similar": Command(["similar", "--query=A dog", "--model=moods", "--input=texts", "--json"], redirected="out"),
    "generate": Command(["generate", "A dog", "--model=writer", "--max-tokens=5", "--json"], redirected="out"),
    "score": Command(["score", "--model=writer", "--input=texts", "--json"], redirected="out"),
    "evaluate --output": Command(
        ["evaluate", "--model=model", "--source=texts", "--target=texts", "--json", "--output=out"]
    ),
    "evaluate --json > file": Command(["evaluate", "--model=moods", "--table=table.csv", "--json"], redirected="out"),
    "attention --out": Command(["attention", "A dog runs.", "--model=model", "--out=out.html"]),
    "export": Command(["export", "model", "exported"]),
    "export classifier": Command(["export", "moods", "exported"]),
    "export mask filler": Command(["export", "filler", "exported"]),
    "export language model": Command(["export", "writer", "exported"]),
    "convert": Command(["convert", "published", "--out=mine", "--overwrite"]),
    "finetune": Command([*FINETUNE, "--out=mine", "--overwrite"], TRAININGS, ("mine_checkpoints",)),
    **{
        f"recipe {name}": Command(
            recipe(name, "--out=mine", "--overwrite"), TRAININGS, ("mine_checkpoints", "mine_smoke_checkpoints")
        )
        for name in RECIPES
    },
    "encode pairs": Command(recipe("rnn_attention", "--encode_to=pairs.npz")),
    "encode prose": Command(recipe("bert_pretrain", "--encode_to=encoded")),
    "encode rows": Command(recipe("bert_finetune", "--encode_to=encoded")),
    "encode stream": Command(recipe("language_model", "--encode_to=encoded")),
    "weights from elsewhere": Command(
        recipe("rnn_attention", "--encoded=pairs.npz", "--out=trained", "--overwrite"),
        TRAININGS,
        ("trained_checkpoints",),
        needs="encode pairs",
    ),
    "download": Command(download),
}


def make_template(folder):
    """What is there before: models, texts, and an old version of all that the commands write."""
    write_tiny_entry(folder / "model")
    write_tiny(folder / "moods", tiny_classifier().model, task=task())
    write_tiny(folder / "filler", tiny_mask_filler().model)
    tiny_generator("char").save(folder / "writer")
    shutil.copytree(TINY_BERT, folder / "published")
    (folder / "texts").write_text("".join(f"{text}\n" for text in ENGLISH * 3))
    rows = "".join(f"a fine day {i},good\na poor day {i},bad\n" for i in range(20))
    (folder / "table.csv").write_text("text,label\n" + rows)
    for name in ("out", "out.html", "out.npy", "picture.png", "picture-1.png", "trained.npz"):
        (folder / name).write_text("old")
    for name in ("mine", "mine_smoke"):
        shutil.copytree(folder / "model", folder / name)
    return 0


class Trial:
    """One command in a folder of its own."""

    def __init__(self, name, place, template, faults):
        self.command, self.faults, self.place, self.template = COMMANDS[name], faults, place, template
        self.here = place / "here"
        self.wrong, self.tried = [], {"kill": 0, "torn write": 0, "second run": 0, **dict.fromkeys(ERRORS, 0)}

    def reset(self, source):
        shutil.rmtree(self.here, ignore_errors=True)
        shutil.copytree(source, self.here, symlinks=True)

    def run(self, flags=(), mode=None, at=0):
        """The exit code of the command in a fork, which meets its fault at that operation."""
        self.faults.arm(self.here, mode, at)
        child = os.fork()
        if not child:
            self._in_child(flags)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.faults.disarm()
        return code

    def _in_child(self, flags=(), command=None):
        signal.alarm(SECONDS)
        command, code = command or self.command, 1
        os.chdir(self.here)
        streams = {0: (os.devnull, os.O_RDONLY), 2: (self.place / "err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)}
        streams[1] = (command.redirected or self.place / "printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            for number, (path, how) in streams.items():
                os.dup2(os.open(path, how), number)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
            code = self._give(command, flags)
            sys.stdout.flush()
        except SystemExit as stop:
            code = stop.code or 0
        except OSError as error:  # of the shell's redirection
            print(f"sh: {error}", file=sys.stderr)
            code = 2
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)

    def _give(self, command, flags):
        if callable(command.words):
            return command.words()
        if not command.words[0].endswith(".py"):
            sys.argv = ["keras-attention", *command.words, *flags]
            return run_command()
        sys.argv = [*command.words, *flags]
        return runpy.run_path(sys.argv[0], run_name="__main__") and 0

    def error_output(self):
        return (self.place / "err").read_text(errors="replace")

    def state(self):
        """What the user sees: from each name to the digests of its files."""
        digests = {}
        for path in sorted(self.here.rglob("*")):
            name, *others = path.relative_to(self.here).parts
            hidden = any(part.startswith(".") for part in (name, *others))
            if hidden or not path.is_file() or name in (*self.command.scratch, self.command.redirected):
                continue  # of the redirected file the shell has made an empty one
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            digests.setdefault(name, {})[str(path.relative_to(self.here))] = digest
        return digests

    def names(self):
        """All names of the folder, and hidden ones anywhere."""
        paths = [path for path in self.here.rglob("*") if path.parent == self.here or path.name.startswith(".")]
        return sorted(str(path.relative_to(self.here)) for path in paths)

    def faults_of_checkpoints(self):
        steps = [step for name in self.command.scratch for step in (self.here / name).glob("step-*")]
        return [fault for step in steps if (fault := checkpoints._fault(step))]

    def is_whole(self, name, state):
        """Whether a name stands for something new and whole, without that there is the one run to compare it with."""
        if name not in state:
            return name not in self.before
        if "manifest.json" in {path.partition("/")[2] for path in state[name]}:
            try:
                verify_files(self.here / name)
            except EntryError:
                return False
        return state[name].keys() == self.after.get(name, {}).keys()

    def undisturbed(self, samples):
        """Runs the command once, looks at every point, keeps a copy of some."""
        self.reset(self.template)
        if self.command.needs:
            child = os.fork()
            if not child:
                self._in_child(command=COMMANDS[self.command.needs])
            assert os.waitpid(child, 0)[1] == 0, self.error_output()
            self.template = self.place / "template"
            shutil.copytree(self.here, self.template)
        self.before, seen, self.points = self.state(), [], 0

        def inspect(operation):
            half = operation.startswith("half ")
            self.tried["torn write" if half else "kill"] += 1
            self.points += not half
            seen.append((operation, self.state()))
            self.wrong += [f"{operation}: {fault}" for fault in self.faults_of_checkpoints()]
            if not half and samples:
                shutil.copytree(self.here, self.place / "kept" / str(self.points), symlinks=True)

        code = self.faults.watch(self.here, self._in_child, inspect)
        assert code == 0, (code, self.error_output())
        self.after, self.left = self.state(), self.names()
        for operation, state in seen:
            for name in state.keys() | self.before.keys() | self.after.keys():
                if state.get(name) not in (self.before.get(name), self.after.get(name)):
                    self.wrong.append(f"before {operation}: {name} is neither old nor new")

    def spread(self, samples):
        """Numbers of operations, evenly spread."""
        return sorted({1 + round((number + 0.5) * (self.points - 1) / samples) for number in range(samples)})

    def second_runs(self, samples):
        for at, flags in zip(self.spread(samples), cycle(self.command.again), strict=False):
            self.reset(self.place / "kept" / str(at))
            self.second_run(f"killed at {at}", flags)

    def kills(self, samples):
        for at, flags in zip(self.spread(samples), cycle(self.command.again[::-1]), strict=False):
            self.reset(self.template)
            code = self.run(mode="kill", at=at)
            self.tried["kill"] += 1
            if code != KILLED:  # threads of this run had fewer operations
                continue
            self.check_parts(f"killed at {at}")
            self.second_run(f"really killed at {at}", flags)

    def errors(self, samples):
        for shift, mode in enumerate(ERRORS):
            for at in self.spread(samples * len(ERRORS))[shift :: len(ERRORS)]:
                self.reset(self.template)
                code = self.run(mode=mode, at=at)
                self.tried[mode] += 1
                where, messages = f"{mode} at {self.faults.last}", self.error_output()
                lines = [line for line in messages.splitlines() if line and not any(note in line for note in NOTES)]
                if code == 2 and (len(lines) != 1 or "Traceback" in messages):
                    self.wrong.append(f"{where}: not one line: {messages[-400:]}")
                elif code not in (0, 2):
                    self.wrong.append(f"{where}: exit code {code}: {messages[-400:]}")
                self.check_parts(where)
                left = set(self.names()) - set(self.left) - set(os.listdir(self.template)) - {*self.command.scratch}
                if left and "unlink" not in self.faults.last and "rmdir" not in self.faults.last:
                    self.wrong.append(f"{where}: left behind: {left}")

    def check_parts(self, where):
        """Each name stands for what was there before, or for something new and whole."""
        state = self.state()
        for name in state.keys() | self.before.keys():
            if state.get(name) != self.before.get(name) and not self.is_whole(name, state):
                self.wrong.append(f"{where}: {name} is neither old nor new")
        self.wrong += [f"{where}: {fault}" for fault in self.faults_of_checkpoints()]

    def second_run(self, where, flags):
        code, messages = self.run(flags), self.error_output()
        self.tried["second run"] += 1
        if code == 2 and "exists already" in messages and self.is_whole("exported", self.state()):
            code = 0  # the killed command had done everything
        if code != 0:
            self.wrong.append(f"{where}, then {flags}: exit code {code}: {messages[-400:]}")
        self.check_parts(f"{where}, then {flags}")
        if self.names() != self.left:
            self.wrong.append(f"{where}, then {flags}: leaves {set(self.names()) ^ set(self.left)}")


def import_all():
    """Every module that a command may import, before the forks."""
    os.environ["KERAS_ATTENTION_ZOO"] = ""
    for module in pkgutil.walk_packages(keras_attention.__path__, "keras_attention."):
        if not module.name.endswith(("__main__", "backends.jax")):
            importlib.import_module(module.name)
    assert len(os.listdir("/proc/self/task")) == 1, "threads do not live through a fork"


def main(samples, names):
    import_all()
    faults, place = Faults(), Path(os.path.realpath(tempfile.mkdtemp(prefix="whole-")))
    template = place / "template"
    template.mkdir()
    child = os.fork()
    if not child:
        os._exit(make_template(template))
    assert os.waitpid(child, 0)[1] == 0
    for name in names:
        began = processor_seconds()
        (place / name / "kept").mkdir(parents=True)
        trial = Trial(name, place / name, template, faults)
        trial.undisturbed(samples)
        trial.second_runs(samples)
        trial.kills((samples + 1) // 2)
        trial.errors((samples + 1) // 2)
        shutil.rmtree(place / name)
        seconds = round(processor_seconds() - began, 1)
        report = {"name": name, "operations": trial.points, "tried": trial.tried, "wrong": trial.wrong, "s": seconds}
        print(json.dumps(report), flush=True)
    shutil.rmtree(place)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or list(COMMANDS))
