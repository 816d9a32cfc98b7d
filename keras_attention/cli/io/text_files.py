"""Text files in UTF-8 with one sentence per line, and partial output files that make long jobs resumable."""

import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from keras_attention.cli.io.terminal import safe
from keras_attention.data.files import decoded_lines, encoding_hint, lines_of, opened, recoded
from keras_attention.data.proteins.protein_files import is_fasta, residue_lines
from keras_attention.support.atomic_files import (
    check_place,
    explained,
    flush,
    locked,
    remove_leftovers,
    temporary_name,
    whole_file,
)
from keras_attention.support.errors import UserError, parse_json


def standard_input_lines(encoding=None):
    r"""Reads sentences from standard input, one per line; only "\n" ends a line.

    Args:
        encoding: str, or None for UTF-8.

    Returns:
        List of str.

    Raises:
        UserError: if it is empty, or a line is not valid UTF-8; names the line.
    """
    content = sys.stdin.buffer.read()
    if not content:
        raise UserError("Standard input is empty. Expected: one sentence on each line.")
    content = recoded(content, "Standard input", encoding)
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
            f"Standard input, line {number}: found the byte 0x{line[error.start]:02X}, not valid UTF-8. "
            f"{encoding_hint(line)}"
        ) from error


@contextmanager
def input_lines(path, encoding=None):
    """Opens a text file that is read several times. Pipes and devices are first copied into a temporary file.

    In a FASTA file, by its name, each protein is a line.

    Args:
        path: str or None.
        encoding: str, or None for UTF-8.

    Yields:
        callable() -> iterator over the lines, see `data.files.lines_of`; None if `path` is None.
    """
    if not path or os.path.isfile(path) or not os.path.exists(path) or os.path.isdir(path):
        yield path and (partial(residue_lines, path) if is_fasta(path) else partial(lines_of, path, encoding))
        return
    with tempfile.TemporaryFile() as copy:
        with opened(path) as file:
            shutil.copyfileobj(file, copy)

        def lines():
            copy.seek(0)
            return decoded_lines(copy, path, encoding)

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
        shown = not path and file.isatty()  # what a table of somebody else holds must not control the terminal
        yield AnswerFile((lambda text: file.write(safe(text, keep="\n\t"))) if shown else file.write)


@contextmanager
def kept_answers(path, job, resume=False):
    """A resumable AnswerFile: answers are written to `PATH.partial`, which is renamed to `path` at the end.

    `PATH.partial.json` identifies the job, and describes the answers that are complete by their number, size and
    digest. It is written first: a partial file that it does not describe is not ours, and is never touched. The next
    run removes anything that was written after the described answers.

    Args:
        path: str or Path.
        job: dict of JSON types, everything that the answers depend on.
        resume: bool. Whether to continue from the partial answers of the same job, if there are any.

    Yields:
        AnswerFile.

    Raises:
        UserError: if the file cannot be written, the partial answers belong to another job, or a file with one of the
            two names is not what an interrupted run has left.
    """
    given, path = path, check_place(path)
    partial, state = partial_names(path)
    with explained(given), locked(path):
        for place in (path, state):
            remove_leftovers(place)
        stored = _read_state(partial, state)
        if resume and stored.done:
            _check_job(stored.job, job, state)
        else:
            partial.unlink(missing_ok=True)  # before the state: it describes this file until the file is gone
            state.unlink(missing_ok=True)
            stored = NOTHING
        unfinished = partial if stored.done else temporary_name(path)
        with _opened_at(unfinished, stored.bytes, new=not stored.done) as file:
            answers = _kept_in(file, unfinished, (partial, state), job, stored)
            try:
                yield answers
            except BaseException as error:
                _leave(unfinished, partial, state, answers.done, error)
                raise
            os.fsync(file.fileno())
        os.replace(partial if answers.done else unfinished, path)
        flush(path.parent)
        state.unlink(missing_ok=True)


def partial_names(path):
    """The Paths of the partial answers to a file, and of the state that describes them."""
    path = Path(os.path.realpath(path))
    return tuple(path.with_name(f"{path.name}.partial{suffix}") for suffix in ("", ".json"))


def _opened_at(path, size, new):
    """Opens a file of `size` bytes for further ones; cuts off what it has beyond them. Follows no link."""
    flags = os.O_CREAT | os.O_EXCL if new else 0
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o666)
    if not new:
        os.truncate(descriptor, size)
        os.lseek(descriptor, size, os.SEEK_SET)
    return open(descriptor, "r+b", buffering=0)


def _kept_in(file, unfinished, names, job, stored):
    """An AnswerFile for an open file, which gets its name, and a state for a later run, with the first answers."""
    (partial, state), digest = names, stored.digest.copy()

    def write(text):
        content = text.encode()
        digest.update(content)
        while content:
            content = content[file.write(content) :]

    def keep(done):
        os.fsync(file.fileno())
        facts = {"job": job, "done": done, "bytes": file.tell(), "sha256": digest.hexdigest()}
        with whole_file(state, lock=False) as state_file:
            json.dump(facts, state_file)
        if not answers.done:
            _rename_new(unfinished, partial)

    answers = AnswerFile(write, keep, stored.done)
    return answers


def _rename_new(old, new):
    """Renames a file to a name that nothing has yet."""
    try:
        os.link(old, new, follow_symlinks=False)
    except FileExistsError as error:
        raise UserError(f"{new} has appeared during the run, so it is not replaced. Move it away.") from error
    except OSError:  # a file system without hard links
        if os.path.lexists(new):
            raise
        os.rename(old, new)
    else:
        os.unlink(old)
    flush(new.parent)


# Options that name files to read, and commands whose texts or prompts may be names of files.
READ = ("input", "table", "source", "target", "validation", "test", "config", "terms", "do_not_translate")
OF_FILES = ("caption", "classify", "generate", "transcribe")
WRITTEN = ("output", "attention", "explain", "out")  # options that name files to write
MOST_NUMBERED = 100  # pictures


def check_files_apart(arguments):
    """Raises UserError if a command would write to a file that it reads, or two things to one file; or a name is empty.

    Args:
        arguments: argparse.Namespace of any command.
    """
    for name in (*READ, *WRITTEN, "log_dir"):
        if getattr(arguments, name, None) == "":
            raise UserError(f"--{name.replace('_', '-')} is empty. Expected: the name of a file.")
    given = _given_files(arguments)
    read = _named_files(arguments, READ) + [("the input", name) for name in given]
    written = _named_files(arguments, WRITTEN)
    written += [("--attention", name) for name in _numbered(getattr(arguments, "attention", None), len(given))]
    for flag, path in written:
        unfinished = partial_names(path) if flag == "--output" else ()
        for other, place in [*read, *((other, place) for other, place in written if other != flag)]:
            if _same_file(place, path):
                raise UserError(f"{other} and {flag} are the same file, {path}. Choose another name for {flag}.")
            if near := next((name for name in unfinished if _same_file(place, name)), None):
                raise UserError(
                    f"{flag} {path} needs the name {near} for partial answers, which is the file of {other}. Choose "
                    f"another name for {flag}."
                )


# Endings of files that no command of this package writes as text.
OTHER_FORMATS = (
    *(".xlsx", ".xls", ".xlsm", ".ods", ".docx", ".doc", ".odt", ".pptx", ".pdf", ".rtf", ".html", ".htm", ".xml"),
    *(".parquet", ".feather", ".arrow", ".avro", ".orc", ".npy", ".npz", ".h5", ".hdf5", ".pkl", ".pickle", ".sqlite"),
    *(".db", ".yaml", ".yml", ".png", ".svg", ".jpg", ".zip", ".gz", ".xz", ".bz2", ".zst", ".7z", ".tar", ".keras"),
)


def check_text_name(path, formats="lines of text (.txt), or of JSON (.jsonl) with --json"):
    """Raises UserError if the name of an output is that of a format that is not written.

    Args:
        path: str.
        formats: str, what is written instead, for the message.
    """
    suffix = Path(path).suffix.lower()
    if suffix in OTHER_FORMATS and (os.path.isfile(path) or not os.path.exists(path)):
        raise UserError(
            f"{path} would not be what its name says: no command writes {suffix} here. Written are {formats}."
        )


def check_no_file_names(texts, flag=None, table=False):
    """Raises UserError if a text is the name of a file: the file was probably meant, not its name.

    Args:
        texts: list of str, from the command line.
        flag: str, the option for a file with one text on each line, or None if there is none.
        table: bool. Whether the command takes --table, too.
    """
    for text in texts:
        if not (os.path.splitext(text)[1] or os.sep in text) or not os.path.isfile(text):
            continue
        lines = f" For one text on each line: {flag} {text}." if flag else ""
        columns = f" For a column of a table: --table {text} --text COLUMN." if table else ""
        itself = " For the name itself, write it to standard input." if flag else " Its content is not read."
        raise UserError(f"{text} is a file.{columns}{lines}{itself}")


def _named_files(arguments, names):
    """List of (option, path) for those of these options that were given a path."""
    if arguments.function != "evaluate":  # elsewhere it is a text
        names = [name for name in names if name != "target"]
    values = {f"--{name.replace('_', '-')}": getattr(arguments, name, None) for name in names}
    return [(flag, path) for flag, path in values.items() if path and isinstance(path, str)]


def _given_files(arguments):
    """The texts and prompts of a command that are names of files."""
    if arguments.function not in OF_FILES:
        return []
    names = [*(getattr(arguments, "texts", None) or ()), *(getattr(arguments, "prompts", None) or ())]
    return [name for name in names if os.path.isfile(name)]


def _numbered(path, count):
    """The names of several pictures of --attention: -1, -2, ... before the ending."""
    root, ending = os.path.splitext(path or "")
    several = bool(path) and 1 < count <= MOST_NUMBERED
    return [f"{root}-{number}{ending}" for number in range(1, count + 1)] if several else []


def _same_file(path, other):
    """Whether two paths lead to one file, by the same name, by links, or by two names of the file."""
    try:
        facts, others = os.stat(path), os.stat(other)
    except (OSError, ValueError):
        return os.path.realpath(path) == os.path.realpath(other)
    return os.path.samestat(facts, others) and stat.S_ISREG(facts.st_mode)  # a terminal is read and written


def answers_to(path, job, resume):
    """`kept_answers` if there is a job and a file that may be replaced, else `plain_answers`."""
    special = path and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    if job is None or not path or special:
        return plain_answers(path)
    return kept_answers(path, job, resume)


class _State(NamedTuple):
    """What `PATH.partial.json` says: the job, the number of answers, their bytes and the digest of these."""

    job: dict
    done: int
    bytes: int
    digest: object


NOTHING = _State({}, 0, 0, hashlib.sha256())


def _read_state(partial, state):
    """The _State of the files of an earlier run. NOTHING if it left no answers.

    Raises:
        UserError: if there is a file of one of the two names that no run has left.
    """
    for path in (partial, state):
        if os.path.lexists(path) and not _is_plain(path):
            raise _not_ours(path, "it is a link, a folder or a device")
    if not state.exists():
        if partial.exists():
            raise _not_ours(partial, f"{state.name} is missing")
        return NOTHING
    try:
        content = parse_json(state.read_bytes())
        job, done, size, sha256 = (content[name] for name in ("job", "done", "bytes", "sha256"))
        sound = isinstance(job, dict) and type(done) is type(size) is int and done > 0 <= size
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise _not_ours(state, "it does not describe answers")
    if not partial.exists():
        return NOTHING
    digest = hashlib.sha256()
    with open(partial, "rb") as file:
        for begin in range(0, size, CHUNK):
            digest.update(file.read(min(CHUNK, size - begin)))
        if digest.hexdigest() != sha256 or file.tell() != size:
            raise _not_ours(partial, "it was changed after it was written")
    return _State(job, done, size, digest)


def _is_plain(path):
    """Whether this is a file with one name, and no link to it."""
    facts = os.lstat(path)
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1


def _not_ours(path, reason):
    return UserError(
        f"{path} is not what an interrupted run has left ({reason}), so it is neither continued nor replaced. Move it "
        "away, or choose another --output."
    )


def _check_job(stored, job, state):
    """Raises UserError if the job of an earlier run is another one."""
    changed = [name for name in job if stored.get(name) != job[name]]
    if changed:
        raise UserError(
            f"{state} belongs to another run with a different {changed[0]}. Leave out --resume to start again."
        )


def _leave(unfinished, partial, state, done, error):
    """Removes a file without answers, or reports how many answers are stored, together with the error."""
    if not done:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
            if not partial.exists():  # the run may have failed between its state and its file
                state.unlink(missing_ok=True)
        return
    kept = f"{done:,} answers are stored in {partial}: continue with --resume."
    if isinstance(error, (UserError, OSError)):
        reason = str(error) if isinstance(error, UserError) else error.strerror
        raise UserError(f"{reason.rstrip('.')}. {kept}") from error
    print(f"keras-attention: {kept}", file=sys.stderr)
