"""Tries the scenarios of `crash_scenarios.py`: python crash_run.py EVERY NAME ...; prints a line of JSON for each.

A template of what is there before is copied for each point; a forked child runs the command and meets its fault at that
point; then the files are looked at, and the same command is given again, in each way that a user may.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from safety import crash_scenarios, text_scenarios
from safety.crash_scenarios import checkpoints, make_stubs
from safety.faults import MODES, Faults, processor_seconds

SCENARIOS = {**crash_scenarios.SCENARIOS, **text_scenarios.SCENARIOS}
MAY_BE_OLD = ("checkpoints", "warm")  # of a program that it cannot write, XLA tells nobody: it costs only speed
SECONDS = 60  # for a command
KILLED = -signal.SIGKILL


class Trial:
    """One scenario in a folder of its own."""

    def __init__(self, name, place, faults):
        self.scenario, self.faults, self.name = SCENARIOS[name], faults, name
        self.template, self.folder, self.streams = place / "template", place / "here", place / "streams"
        self.template.mkdir()
        self.streams.mkdir()
        self.scenario.prepare(self.template)
        self.reset()
        self.before = self.seen()
        operations = []
        code = faults.watch(self.folder, self._in_child, operations.append)
        assert code == 0, (name, self.error())
        self.points, self.after, self.left = faults.count, self.seen(), self.names()
        assert self.before != self.after or "evaluate" in name
        assert self._unseen(operations) == [], operations

    def _unseen(self, operations):
        """The new files that no operation tells of: each is opened and flushed, or a flushed one takes its name."""
        seen = {how: set() for how in ("open", "fopen", "fsync", "rename", "link")}
        for operation in operations:
            how, _, path = operation.partition(" ")
            seen.setdefault(how, set()).add(Path(path).name)
        opened = seen["open"] | seen["fopen"]
        flushed = opened if "> file" in self.name else seen["fsync"]
        new = {Path(path).name for path, digest in self.after.items() if self.before.get(path) != digest}
        return sorted(new - (opened & flushed) - seen["rename"] - seen["link"])

    def reset(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.template, self.folder)

    def run(self, mode=None, at=0, flags=()):
        """Runs the command in a child; returns its exit code, or minus the number of its signal."""
        self.faults.arm(self.folder, mode, at)
        child = os.fork()
        if not child:
            self._in_child(flags)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.faults.disarm()
        return code

    def _in_child(self, flags=()):
        signal.alarm(SECONDS)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(self.streams / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        try:
            code = self.scenario.run(self.folder, *flags)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stderr.flush()
        os._exit(code)

    def error(self):
        return (self.streams / "err").read_text(errors="replace")

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def seen(self):
        """What the user sees: the digest of each file that is no scratch."""
        scratch = self.scenario.scratch
        files = [path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file()]
        hidden = {path for path in files if any(part.startswith(".") for part in path.parts)}
        files = [path for path in files if path.parts[0] not in scratch and path not in hidden]
        return {str(path): hashlib.sha256((self.folder / path).read_bytes()).hexdigest() for path in files}

    def fault_in_files(self):
        """What is wrong with the files, or None: all are as before, or as after."""
        seen = self.seen()
        if self.name == "checkpoints":
            return self._fault_in_checkpoints()
        if "> file" in self.name:  # the shell has emptied the file before the command began
            seen = {path: digest for path, digest in seen.items() if digest != hashlib.sha256().hexdigest()}
        if seen in (self.before, self.after):
            return None
        changed = [path for path in self.before | seen | self.after if seen.get(path) != self.before.get(path)]
        if not self.scenario.together:
            changed = [path for path in changed if seen.get(path) != self.after.get(path)]
            if not changed:
                return None
        return f"neither old nor new: {changed}"

    def _fault_in_checkpoints(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = checkpoints.read(checkpoints.latest_valid(self.folder / "steps"))[1]["step"]
        whole = {
            int(path.name[5:]) for path in (self.folder / "steps").glob("step-*") if checkpoints._fault(path) is None
        }
        return None if step == 3 or whole == {1, 2} else f"whole: {whole}, newest: {step}"

    def fault_at(self, mode, at):
        """What is wrong after the fault at this operation, or None."""
        self.reset()
        code = self.run(mode, at)
        self.fault_place, killed = self.faults.last, code == KILLED
        if not killed and code not in (0, 2):
            return f"exit code {code}: {self.error()[-500:]}"
        if code == 2 and (self.error().count("\n") != 1 or "Traceback" in self.error()):
            return f"not one line: {self.error()[-500:]}"
        if fault := self.fault_in_files():
            return fault
        may_be_old = "> file" in self.name or self.name in MAY_BE_OLD
        if code == 0 and not may_be_old and self.seen() != self.after:
            return "exit code 0 with the old files"
        left = [name for name in self.names() if name not in {*self.left, *os.listdir(self.template)}]
        left = [name for name in left if name not in self.scenario.scratch and not name.endswith(".lock")]
        if not killed and left and not self._was_tidying():
            return f"left behind: {left}"
        return self._fault_of_the_next_run()

    def _was_tidying(self):
        """Whether the operation that failed was one that removes; the next run does that again."""
        return self.fault_place.split(" ")[0] in ("unlink", "unlinkat", "rmdir")

    def _fault_of_the_next_run(self):
        kept = self.folder.with_name("kept")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.folder, kept)
        for flags in self.scenario.again:
            shutil.rmtree(self.folder)
            shutil.copytree(kept, self.folder)
            where = self.fault_place
            code = self.run(flags=flags)
            if code == 2 and "already" in self.error() and self.seen() == self.after:
                code = 0  # the killed command had done everything
            if code != 0:
                return f"after {where}, {flags or 'the same command'} ends with {code}: {self.error()[-500:]}"
            if self.name != "checkpoints" and self.seen() != self.after:
                return f"after {where}, {flags or 'the same command'} gives other files"
            if self.names() != self.left:
                return f"after {where}, {flags or 'the same command'} leaves {set(self.names()) - set(self.left)}"
        return None


def main(every, names):
    make_stubs()
    faults = Faults()
    for name in names:
        began, place = processor_seconds(), Path(os.path.realpath(tempfile.mkdtemp(prefix="crash-")))
        trial = Trial(name, place, faults)
        tried, wrong, operations = 0, [], {}
        for number, mode in enumerate(MODES):  # "kill" comes first, and tells what the operations are
            for at in range(1 + number % every, trial.points + 1, every):
                if mode == "torn write" and "> file" in name:
                    continue  # the shell has opened the file, so its name cannot change hands; --output can do that
                if mode == "torn write" and "write" not in operations.get(at, "write").split(" ")[0]:
                    continue  # as any other kill
                fault = trial.fault_at(mode, at)
                if mode == "kill":
                    operations[at] = trial.fault_place
                tried += 1
                if fault:
                    wrong.append(f"{mode} at {at}: {fault}")
        shutil.rmtree(place)
        seconds = round(processor_seconds() - began, 1)
        print(
            json.dumps({"name": name, "operations": trial.points, "tried": tried, "wrong": wrong, "s": seconds}),
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or list(SCENARIOS))
