"""Two users of one folder: random sequences of writing, killing, resuming, overwriting, deleting and damaging.

    python two_users.py SEQUENCES      # under faults.c, see `faults.run_with_faults`; prints a line of JSON

A model says what must be there after each step: the output of a long job, a trained model (a folder with a manifest),
and the checkpoints of a training. Each step runs in a forked child, which may be killed at any operation. The second
user is a child that has begun to write and waits.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from safety.faults import Faults

from keras_attention.cli.io.text_files import kept_answers
from keras_attention.support.atomic_files import lock_file, whole_folder
from keras_attention.support.errors import EntryError, UserError
from keras_attention.training import checkpoints
from keras_attention.zoo.entry import REQUIRED, WEIGHTS, verify_files, write_manifest
from keras_attention.zoo.registry import check_free

KILLED = -signal.SIGKILL
STEPS = 12
WINDOWS = 3
FAULTS = Faults()
DONE = Counter()
OUTCOMES = Counter()
PLACES = st.one_of(st.none(), st.integers(1, 60))  # the operation at which a step is killed
JOBS = st.sampled_from("ab")
VERSIONS = st.integers(1, 3)


def answers(job):
    return b"".join(b"%s %d\n" % (job.encode(), number) for number in range(WINDOWS))


def write_output(path, job, resume, ready=lambda: None):
    with kept_answers(path, {"job": job}, resume) as output:
        ready()
        for number in range(output.done, WINDOWS):
            output.write([f"{job} {number}"], number + 1)


def write_model(path, version, overwrite, ready=lambda: None):
    with whole_folder(path, lambda place: check_free(place, overwrite)) as folder:
        ready()
        (folder / "tokenizer").mkdir()
        for name in (*REQUIRED, "tokenizer/words"):
            (folder / name).write_text(f"{name} {version}")
        write_manifest(folder)


def write_checkpoint(folder, step):
    with checkpoints.open_folder(folder, resume=True, restart=False):
        checkpoints.write(folder, step, {}, {"step": step})


def in_a_child(function, *arguments, **options):
    """Starts a child; returns its number."""
    child = os.fork()
    if not child:
        signal.alarm(60)
        code = 1
        try:
            function(*arguments, **options)
            code = 0
        except (UserError, OSError):
            code = 2
        finally:
            os._exit(code)
    return child


def end_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class TwoUsers(RuleBasedStateMachine):
    """What must be there: `output` and `model` are sets of what may stand there, None for nothing."""

    def __init__(self):
        super().__init__()
        DONE["sequences"] += 1
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="two-users-")))
        (self.folder / "bystander").write_text("precious")
        self.output_path, self.model_path, self.steps = (self.folder / name for name in ("out", "model", "steps"))
        self.output, self.model = {None}, {None}
        self.left_by = None  # the job of the answers that are kept
        self.damaged_partial = self.strange = False
        self.steps_done = {0}  # the newest checkpoint may be any of these
        self.holder = None  # (path, child, pipe that ends its waiting, what it writes)

    def teardown(self):
        if self.holder:
            os.kill(self.holder[1], signal.SIGKILL)
            end_of(self.holder[1])
            os.close(self.holder[2])
        shutil.rmtree(self.folder)

    def run(self, kill_at, function, *arguments):
        """The exit code of a step."""
        FAULTS.arm(self.folder, "kill" if kill_at else None, kill_at or 0)
        code = end_of(in_a_child(function, *arguments))
        FAULTS.disarm()
        DONE["steps"] += 1
        OUTCOMES[f"{function.__name__} {code}"] += 1
        assert code in (0, 2, KILLED), code
        assert code != KILLED or kill_at
        return code

    def is_held(self, path):
        return self.holder is not None and self.holder[0] == path

    # The output of a long job

    @rule(job=JOBS, resume=st.booleans(), kill_at=PLACES)
    def translate(self, job, resume, kill_at):
        before = set(self.output)
        code = self.run(kill_at, write_output, self.output_path, job, resume)
        if self.is_held(self.output_path):
            assert code in (2, KILLED)
            return
        if code == 2:
            assert self.damaged_partial or (resume and self.left_by not in (None, job))
        elif code == 0:
            self.output, self.left_by, self.damaged_partial = {answers(job)}, None, False
            self.check_tidy(self.output_path)
            assert not list(self.folder.glob("out.*"))
        else:
            self.output = before | {answers(job)}
            self._look_at_what_is_kept(job)

    def _look_at_what_is_kept(self, job):
        """After a kill: which job a later run may resume."""
        state, partial = self.folder / "out.partial.json", self.folder / "out.partial"
        if state.exists() and partial.exists():
            self.left_by = json.loads(state.read_text())["job"]["job"]
        else:
            self.left_by, self.damaged_partial = None, False

    @precondition(lambda self: (self.folder / "out.partial").exists() and not self.is_held(self.output_path))
    @rule()
    def damage_kept_answers(self):
        content = (self.folder / "out.partial").read_bytes()
        (self.folder / "out.partial").write_bytes(b"X" + content[1:])
        self.damaged_partial = True

    @rule()
    def delete_output(self):
        self.output_path.unlink(missing_ok=True)
        self.output = {None}

    # A trained model

    @rule(version=VERSIONS, overwrite=st.booleans(), kill_at=PLACES)
    def save_model(self, version, overwrite, kill_at):
        before, there = set(self.model), self.model_path.exists()
        code = self.run(kill_at, write_model, self.model_path, version, overwrite)
        if self.is_held(self.model_path) or self.strange or (there and not overwrite):
            assert code in (2, KILLED)
        elif code == KILLED:
            self.model = before | {version}
        else:
            assert code == 0
            self.model = {version}
            self.check_tidy(self.model_path)

    @precondition(lambda self: self.model_path.exists() and not self.strange)
    @rule(how=st.sampled_from(["a file of one's own", "a changed file", "another manifest"]))
    def make_model_strange(self, how):
        self.model = {self.version_there()}
        if how == "a file of one's own":
            (self.model_path / "notes").write_text("precious")
        elif how == "a changed file":
            (self.model_path / WEIGHTS).write_text("changed")
        else:
            (self.model_path / "manifest.json").write_text("{}")
        self.strange = how

    @rule()
    def delete_model(self):
        shutil.rmtree(self.model_path, ignore_errors=True)
        self.model, self.strange = {None}, False

    # The checkpoints of a training

    @rule(kill_at=PLACES)
    def train_a_step(self, kill_at):
        step = max(self.steps_done) + 1
        code = self.run(kill_at, write_checkpoint, self.steps, step)
        assert code in (0, KILLED)
        self.steps_done = {step} if code == 0 else self.steps_done | {step}
        if code == 0:
            assert len(list(self.steps.iterdir())) <= 2
            self.check_tidy(self.steps)

    # The other user

    @precondition(lambda self: self.holder is None)
    @rule(what=st.sampled_from(["output", "model"]), job=JOBS, version=VERSIONS)
    def other_user_begins(self, what, job, version):
        began, end = os.pipe(), os.pipe()

        def ready():
            os.write(began[1], b"x")
            os.read(end[0], 1)

        path, writes = (self.output_path, job) if what == "output" else (self.model_path, version)
        write = write_output if what == "output" else write_model
        child = in_a_child(lambda: (os.close(end[1]), write(path, writes, what == "model", ready)))
        os.close(began[1]), os.close(end[0])
        begun = os.read(began[0], 1)
        os.close(began[0])
        if not begun:  # refused
            assert end_of(child) == 2
            assert self.strange if what == "model" else self.damaged_partial
            os.close(end[1])
            return
        self.holder = path, child, end[1], writes
        if what == "output":
            self.left_by, self.damaged_partial = None, False

    @precondition(lambda self: self.holder is not None)
    @rule(killed=st.booleans())
    def other_user_ends(self, killed):
        path, child, pipe, writes = self.holder
        self.holder = None
        if killed:
            os.kill(child, signal.SIGKILL)
        os.close(pipe)
        code = end_of(child)
        OUTCOMES[f"other {code}"] += 1
        if killed:
            assert code == KILLED
            assert lock_file(path).exists()
            if path == self.output_path:
                self._look_at_what_is_kept(writes)
        elif path == self.model_path:
            assert code == (2 if self.strange else 0)
            self.model = self.model if self.strange else {writes}
        else:
            assert code == 0
            self.output, self.left_by = {answers(writes)}, None

    # What holds at any time

    def version_there(self):
        if not self.model_path.exists():
            return None
        return int((self.model_path / "config.json").read_text().split()[1])

    @invariant()
    def everything_is_there(self):
        assert (self.folder / "bystander").read_text() == "precious"
        content = self.output_path.read_bytes() if self.output_path.exists() else None
        assert content in self.output, content
        self.output = {content}
        assert self.version_there() in self.model
        self.model = {self.version_there()}
        if self.model != {None} and not self.strange:
            verify_files(self.model_path)
        if self.strange == "a file of one's own":
            assert (self.model_path / "notes").read_text() == "precious"
        elif self.strange:
            try:
                verify_files(self.model_path)
                raise AssertionError("a strange folder is a model again")
            except EntryError:
                pass
        newest = checkpoints.latest_valid(self.steps)
        step = checkpoints.read(newest)[1]["step"] if newest else 0
        assert step in self.steps_done, (step, self.steps_done)

    def check_tidy(self, path):
        """After a whole write nothing of any dead writer is left beside it."""
        left = [name for name in os.listdir(self.folder) if name.startswith(f".{path.name}")]
        assert left == [], left


def main(sequences):
    few = settings(
        max_examples=sequences,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(TwoUsers, settings=few)
    print(json.dumps({**DONE, "outcomes": OUTCOMES}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
