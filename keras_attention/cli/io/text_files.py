"""Text files in UTF-8 with one sentence per line, and partial output files that make long jobs resumable."""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import partial

from keras_attention.data.files import decoded_lines, lines_of, opened
from keras_attention.errors import UserError
from keras_attention.whole_file import check_place, explained, flush, locked, remove_leftovers, whole_file


def standard_input_lines():
    r"""Reads sentences from standard input, one per line; only "\n" ends a line.

    Returns:
        List of str.

    Raises:
        UserError: if it is empty, or a line is not valid UTF-8; names the line.
    """
    content = sys.stdin.buffer.read()
    if not content:
        raise UserError("Standard input is empty. Expected: one sentence on each line.")
    return [decode_line(line, number) for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1)]


def keyboard_lines():
    """Yields each line of standard input as soon as it is typed, until Ctrl-D."""
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), start=1):
        yield decode_line(line.removesuffix(b"\n"), number)


def decode_line(line, number):
    """Decodes line `number` of standard input, without a carriage return at the end or a byte order mark."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"Standard input, line {number}: found the byte 0x{line[error.start]:02X}, not valid UTF-8."
        ) from error


@contextmanager
def input_lines(path):
    """Opens a text file that is read several times. Pipes and devices are first copied into a temporary file.

    Args:
        path: str or None.

    Yields:
        callable() -> iterator over the lines, see `data.files.lines_of`; None if `path` is None.
    """
    if not path or os.path.isfile(path) or not os.path.exists(path) or os.path.isdir(path):
        yield path and partial(lines_of, path)
        return
    with tempfile.TemporaryFile() as copy:
        with opened(path) as file:
            shutil.copyfileobj(file, copy)

        def lines():
            copy.seek(0)
            return decoded_lines(copy, path)

        yield lines


@contextmanager
def text_output(path=None):
    """A text file for writing: standard output, or a file that appears at `path` after success.

    Args:
        path: str or None for standard output.

    Yields:
        A text file.

    Raises:
        UserError: if the path cannot be written; raised immediately, before the work.
    """
    if not path:
        yield sys.stdout
        return
    with whole_file(path) as file:
        yield file


NOTHING = (0, 0, hashlib.sha256())  # number of answers, number of bytes, digest of the bytes
CHUNK = 1 << 20  # bytes read at a time


class AnswerFile:
    """Writes lines of answers to a file.

    Attributes:
        done: int, number of texts whose answers are in the file.
    """

    def __init__(self, write, keep=None, done=0):
        self._write, self._keep, self.done = write, keep, done

    def write(self, lines, done):
        """Writes further lines. Afterwards, the file contains the answers to the first `done` texts."""
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
    """A resumable AnswerFile: answers are written to `PATH.partial`, which is renamed to `path` at the end.

    `PATH.partial.json` identifies the job and the number of complete answers. The next run removes anything that was
    written after them.

    Args:
        path: str or Path.
        job: dict of JSON types, everything that the answers depend on.
        resume: bool. Whether to continue from the partial answers of the same job, if there are any.

    Yields:
        AnswerFile.

    Raises:
        UserError: if the file cannot be written, or the partial answers belong to another job.
    """
    given, path = path, check_place(path)
    partial, state = (path.with_name(f"{path.name}.partial{suffix}") for suffix in ("", ".json"))
    with explained(given), locked(path):
        for place in (path, state):
            remove_leftovers(place)
        done, size, digest = _read_state(partial, state, job) if resume else NOTHING
        if not done:
            state.unlink(missing_ok=True)  # removed before the answers that it describes
        with open(partial, "r+b" if done else "wb", buffering=0) as file:
            file.truncate(size)
            file.seek(size)
            answers = _kept_in(file, state, job, done, digest.copy())
            try:
                yield answers
            except BaseException as error:
                _leave(partial, state, answers.done, error)
                raise
            os.fsync(file.fileno())
        os.replace(partial, path)
        flush(path.parent)
        state.unlink(missing_ok=True)


def _kept_in(file, state, job, done, digest):
    """An AnswerFile for an open file whose content has this digest; saves the state for a later run in `state`."""

    def write(text):
        content = text.encode()
        digest.update(content)
        while content:
            content = content[file.write(content) :]

    def keep(done):
        os.fsync(file.fileno())
        facts = {"job": job, "done": done, "bytes": file.tell(), "sha256": digest.hexdigest()}
        with whole_file(state, lock=False) as told:
            json.dump(facts, told)

    return AnswerFile(write, keep, done)


def answers_to(path, job, resume):
    """`kept_answers` if there is a job and a file that may be replaced, else `plain_answers`."""
    special = path and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    if job is None or not path or special:
        return plain_answers(path)
    return kept_answers(path, job, resume)


def _read_state(partial, state, job):
    """Reads the state of an earlier run of the same job: number of answers, number of bytes, digest of the bytes."""
    if not partial.exists() or not state.exists():
        return NOTHING
    try:
        found = json.loads(state.read_text(encoding="utf-8"))
        done, size, sha256 = int(found["done"]), int(found["bytes"]), found["sha256"]
        changed = [name for name in job if found["job"].get(name) != job[name]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{state} cannot be resumed. Leave out --resume to start again.") from error
    if changed:
        raise UserError(
            f"{state} belongs to another run with a different {changed[0]}. Leave out --resume to start again."
        )
    digest = hashlib.sha256()
    with open(partial, "rb") as file:
        for begin in range(0, size, CHUNK):
            digest.update(file.read(min(CHUNK, size - begin)))
        if digest.hexdigest() != sha256 or file.tell() != size:
            raise UserError(f"{partial} was changed after it was written. Leave out --resume to start again.")
    return done, size, digest


def _leave(partial, state, done, error):
    """Removes a partial file without answers, or reports how many answers are stored, together with the error."""
    if not done:
        for path in (partial, state):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        return
    kept = f"{done:,} answers are stored in {partial}: continue with --resume."
    if isinstance(error, (UserError, OSError)):
        reason = str(error) if isinstance(error, UserError) else error.strerror
        raise UserError(f"{reason.rstrip('.')}. {kept}") from error
    print(f"keras-attention: {kept}", file=sys.stderr)
