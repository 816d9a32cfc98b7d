"""The entry point of the command `keras-attention`, with error messages and exit codes. See also `arguments.py`."""

import functools
import importlib
import os
import sys
import warnings
from contextlib import contextmanager

from keras_attention import __version__
from keras_attention.cli.io.terminal import compiling_note
from keras_attention.support.atomic_files import NOT_WRITABLE, release_claims
from keras_attention.support.compile_cache import use_compile_cache, when_compiling
from keras_attention.support.errors import BAD_USAGE, UserError, WorkerLostError, one_line
from keras_attention.support.flags import OneLineParser

PROGRAM = "keras-attention"
TRY_AGAIN = 75
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv=None):
    """Runs one command.

    Args:
        argv: list of str or None for the arguments of the process.

    Returns:
        int, the exit code: 0; 1 if `zoo verify` found damage; 2 for an error that the user can fix, in one line on
        stderr; 75 if another worker of the training has stopped, which ends the process immediately; 130 after Ctrl-C;
        141 if the reader of standard output has closed the pipe.
    """
    open_closed_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # characters that the terminal cannot show
    words = sys.argv[1:] if argv is None else argv
    with one_line_errors(PROGRAM, "--debug" in words) as outcome:
        given = make_parser().parse_args(words)
        # TensorFlow's C++ code logs to stderr unless the log level is set before the import.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        command = getattr(importlib.import_module(f"keras_attention.cli.{given.module}"), given.function)
        when_compiling(compiling_note.show)
        if given.module != "zoo":  # commands that read or write files of the user, and import NumPy anyway
            check_files(given)
        outcome.code = command(given) or 0
    return outcome.code


def check_files(given):
    """Raises UserError if a command would write to a file that it reads, or there is no such encoding."""
    from keras_attention.cli.io.text_files import check_files_apart
    from keras_attention.data.files import is_utf8

    check_files_apart(given)
    is_utf8(getattr(given, "encoding", None))


def open_closed_streams():
    """Opens /dev/null for each standard stream that is closed (`>&-`).

    Otherwise the next opened file would get the descriptor of the stream, and with it all printed text.
    """
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 (until the end)


class Outcome:
    """`code` is the exit code, see `main`."""

    code = 0


@contextmanager
def one_line_errors(program, debug=False, mendable=(UserError, OSError)):
    """Context manager: reports errors that the user can fix in one line, and sets the exit code.

    Args:
        program: str, the beginning of the line on stderr.
        debug: bool, whether errors show their traceback.
        mendable: tuple of exception classes that are reported in one line.

    Yields:
        Outcome.
    """
    outcome = Outcome()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, category, *_: _show_warning(program, message, category)
            yield outcome
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        outcome.code = BROKEN_PIPE
    except KeyboardInterrupt as error:
        if debug:
            raise
        state = f": {one_line(error)}" if error.args else ""  # a training says where its checkpoint is
        print(f"{program}: interrupted{state}", file=sys.stderr)
        outcome.code = INTERRUPTED
    except WorkerLostError as error:
        print(f"{program}: {one_line(error)}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(TRY_AGAIN)  # TensorFlow would wait for the other worker
    except mendable as error:
        if debug:
            raise
        print(f"{program}: {one_line(describe(error))}", file=sys.stderr)
        outcome.code = BAD_USAGE
    finally:
        compiling_note.clear()
        release_claims()


def guarded(function, program, debug=False, mendable=(UserError, OSError)):
    """Runs a function without arguments under `one_line_errors`; returns the exit code."""
    with one_line_errors(program, debug, mendable) as outcome:
        outcome.code = function() or 0
    return outcome.code


def run_recipe(main, path):
    """Runs the `main` of the recipe at `path` and exits; reports errors that the user can fix in one line.

    The compile cache serves the translations and answers at the end of a recipe. The programs of its training are not
    stored: TensorFlow numbers their functions, and compiling them takes a small part of a training.
    """
    open_closed_streams()
    use_compile_cache()
    first_warnings = functools.partial(_with_first_warnings, main)
    sys.exit(guarded(first_warnings, os.path.basename(path), "--debug" in sys.argv, (ValueError, OSError)))


def _with_first_warnings(function):
    """Calls a function and shows the first warning of each category of ours, because each validation repeats them."""
    show, shown = warnings.showwarning, set()  # `one_line_errors` restores it

    def show_first(message, category, *details):
        if category is UserWarning or category not in shown:
            shown.add(category)
            show(message, category, *details)

    warnings.showwarning = show_first
    return function()


def describe(error):
    """The message of an error; for an OSError, with the file and without the error number."""
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None and error.errno in NOT_WRITABLE:  # all other files that are written have names
            return f"Standard output cannot be written: {error.strerror}"
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _show_warning(program, message, category):
    if category is UserWarning or category.__module__.startswith("keras_attention."):
        print(f"{program}: {one_line(message)}", file=sys.stderr)


def make_parser():
    from keras_attention.cli import arguments  # here, so that Ctrl-C during the import prints no traceback

    parser = OneLineParser(prog=PROGRAM, description="Attention in Keras: layers, recipes and small trained models.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    arguments.add_translate(commands)
    arguments.add_evaluate(commands)
    arguments.add_attention(commands)
    arguments.add_finetune(commands)
    arguments.add_classify(commands)
    arguments.add_caption(commands)
    arguments.add_transcribe(commands)
    arguments.add_fill_mask(commands)
    arguments.add_encode(commands)
    arguments.add_similar(commands)
    arguments.add_generate(commands)
    arguments.add_score(commands)
    arguments.add_convert(commands)
    arguments.add_push(commands)
    arguments.add_launch(commands)
    arguments.add_zoo(commands)
    arguments.add_export(commands)
    arguments.add_serve(commands)
    arguments.add_warm(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
