"""Where the answers of a long job go: kept beside the output until all are there, so that a later run can go on."""

import json
import os
import sys
from contextlib import contextmanager

from keras_attention.cli.io.text_files import text_output
from keras_attention.errors import UserError
from keras_attention.whole_file import check_place, explained, whole_file


class AnswerFile:
    """Takes lines.

    Attributes:
        done: int, the texts whose answers are in the file.
    """

    def __init__(self, write, keep=None, done=0):
        self._write, self._keep, self.done = write, keep, done

    def write(self, lines, done):
        """Writes the lines that make the answers of `done` texts complete."""
        self._write("".join(f"{line}\n" for line in lines))
        if self._keep:
            self._keep(done)
        self.done = done


@contextmanager
def plain_answers(path):
    """An AnswerFile on standard output, or on a file that is written whole or not at all."""
    with text_output(path) as file:
        yield AnswerFile(file.write)


@contextmanager
def kept_answers(path, job, resume=False):
    """An AnswerFile whose answers stay in `PATH.partial` when the job breaks off, and are at `path` when it is done.

    Beside it `PATH.partial.json` says which job it was and how many answers are sound: what was written after that is
    cut off by the next run.

    Args:
        path: str or Path.
        job: dict of JSON types, what the answers depend on.
        resume: bool, whether to go on with what the same job has left, if it has left something.

    Yields:
        AnswerFile.

    Raises:
        UserError: if nothing can be written there, or another job has left the answers that are there.
    """
    path = check_place(path)
    partial, state = (path.with_name(f"{path.name}.partial{suffix}") for suffix in ("", ".json"))
    kept = _read_state(state, job) if resume and partial.exists() else {"done": 0, "bytes": 0}
    with explained(path), open(partial, "r+b" if kept["done"] else "wb") as file:
        file.truncate(kept["bytes"])
        file.seek(0, os.SEEK_END)

        def keep(done):
            file.flush()
            os.fsync(file.fileno())
            with whole_file(state) as facts:
                json.dump({"job": job, "done": done, "bytes": file.tell()}, facts)

        answers = AnswerFile(lambda text: file.write(text.encode()), keep, kept["done"])
        try:
            yield answers
        except BaseException:
            _leave(partial, state, answers.done)
            raise
        os.replace(partial, path)
    state.unlink(missing_ok=True)


def answers_to(path, job, resume):
    """`kept_answers` where there is a job and a file that may be replaced, else `plain_answers`."""
    special = path and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    if job is None or not path or special:
        return plain_answers(path)
    return kept_answers(path, job, resume)


def _read_state(state, job):
    """What a former run of the same job has left: dict with "done" and "bytes"."""
    try:
        found = json.loads(state.read_text(encoding="utf-8"))
        facts = {"done": int(found["done"]), "bytes": int(found["bytes"])}
        changed = [name for name in job if found["job"].get(name) != job[name]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{state} does not tell how to go on. Leave out --resume to start anew.") from error
    if changed:
        raise UserError(f"{state} is of another job: another {changed[0]}. Leave out --resume to start anew.")
    return facts


def _leave(partial, state, done):
    """Removes what holds no answer; tells of what is kept."""
    if done:
        print(f"keras-attention: {done:,} answers are kept in {partial}: --resume goes on there.", file=sys.stderr)
        return
    for path in (partial, state):
        path.unlink(missing_ok=True)
