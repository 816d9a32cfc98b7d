"""The command `keras-attention`. What it offers stands here; what it does, in `keras_attention.commands`."""

import argparse
import importlib
import os
import sys
import warnings

from keras_attention import __version__
from keras_attention.errors import UserError

PROGRAM = "keras-attention"
BAD_USAGE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message):
        self.exit(BAD_USAGE, f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")


def main(argv=None):
    """Runs one command.

    Args:
        argv: list of str or None for the arguments of the process.

    Returns:
        int, the exit code: 0; 1 if `zoo verify` found damage; 2 for what the user can mend, told in one line on
        stderr; 130 after Ctrl-C; 141 if the reader of our output went away.
    """
    arguments = _parser().parse_args(argv)
    # TensorFlow's C++ side writes its own log to stderr unless told otherwise before it is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    def run():
        command = importlib.import_module(f"keras_attention.commands.{arguments.module}")
        return getattr(command, arguments.function)(arguments)

    return guarded(run, PROGRAM, arguments.debug)


def guarded(function, program, debug=False, mendable=(UserError, OSError)):
    """Runs what a user started; what the user can mend is told in one line.

    Args:
        function: callable without arguments that returns an exit code or None.
        program: str, the name that the line on stderr begins with.
        debug: bool, whether errors show their traceback.
        mendable: tuple of exception classes, told in one line.

    Returns:
        int, the exit code, see `main`.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, category, *_: _show_warning(program, message, category)
            code = function()
            sys.stdout.flush()
            return code or 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        if debug:
            raise
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except mendable as error:
        if debug:
            raise
        print(f"{program}: {one_line(describe(error))}", file=sys.stderr)
        return BAD_USAGE


def describe(error):
    """The text of an error, for an OSError with its file and without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def one_line(text):
    """The text without line breaks and other control characters, at most 1,000 characters."""
    return "".join(character if character.isprintable() else " " for character in str(text))[:1000]


def _show_warning(program, message, category):
    if category is UserWarning:
        print(f"{program}: {one_line(message)}", file=sys.stderr)


def _parser():
    parser = OneLineParser(prog=PROGRAM, description="Attention in Keras: layers, recipes and small trained models.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_translate(commands)
    _add_evaluate(commands)
    _add_zoo(commands)
    _add_export(commands)
    return parser


def _command(commands, name, module, function, help_text):
    command = commands.add_parser(name, help=help_text, description=help_text)
    command.add_argument("--json", action="store_true", help="machine-readable output")
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    command.set_defaults(module=module, function=function)
    return command


def _add_translate(commands):
    command = _command(commands, "translate", "translate", "translate", "Translate sentences with a trained model.")
    command.add_argument("texts", nargs="*", metavar="TEXT", help="sentences; without any: --input or standard input")
    command.add_argument("--input", metavar="FILE", help="UTF-8 text, one sentence a line")
    command.add_argument("--output", metavar="FILE", help="written whole or not at all; default: standard output")
    command.add_argument("--n-best", type=int, default=1, metavar="K", help="answers a sentence, with their scores")
    command.add_argument("--attention", metavar="FILE", help="heat map (.png, .svg, .pdf); several: FILE-1.png, ...")
    chosen = "with --attention: one map for each of these {}, from 1 on, or all; default: their mean"
    command.add_argument("--layers", type=_numbers, metavar="N,N", help=chosen.format("layers"))
    command.add_argument("--heads", type=_numbers, metavar="N,N", help=chosen.format("heads"))
    command.add_argument(
        "--stream", action="store_true", help="write each piece as soon as it is known; without a beam"
    )
    command.add_argument("--temperature", type=float, default=0.0, metavar="X", help="with --stream: draw at random")
    command.add_argument("--top-k", type=int, default=0, metavar="K", help="of the K most probable tokens")
    command.add_argument("--top-p", type=float, default=1.0, metavar="P", help="of the most probable share P")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn")
    command.add_argument("--replace-unknowns", action="store_true", help="copy the source word for an unknown token")
    _add_search(command)


def _numbers(text):
    """The numbers in a text such as "1,3"; none in "all"."""
    try:
        return [] if text == "all" else [int(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,3 or all, found {text!r}") from error


def _add_evaluate(commands):
    help_text = "Measure a model on a source file and its translation: BLEU in both traditions, chrF, BLEU by length."
    command = _command(commands, "evaluate", "evaluate", "evaluate", help_text)
    command.add_argument(
        "--source", required=True, metavar="FILE", help="UTF-8 text, one sentence a line; .gz, .xz too"
    )
    command.add_argument("--target", required=True, metavar="FILE", help="its translation, line by line")
    _add_search(command)


def _add_zoo(commands):
    zoo = commands.add_parser("zoo", help="The trained models that are there.", description="The trained models.")
    actions = zoo.add_subparsers(title="actions", metavar="ACTION", required=True)
    _command(actions, "list", "zoo", "list_entries", "List the models.")
    show = _command(actions, "show", "zoo", "show", "Show the card of a model.")
    show.add_argument("name", metavar="NAME", help="a name out of `zoo list`, or a folder")
    verify = _command(
        actions, "verify", "zoo", "verify", "Check files by their hashes and run the stored examples again."
    )
    verify.add_argument("name", nargs="?", metavar="NAME", help="default: all models")


def _add_export(commands):
    command = _command(commands, "export", "export", "export", "Write a model for use without this package.")
    command.add_argument("name", metavar="NAME", help="a name out of `zoo list`, or a folder")
    command.add_argument("folder", metavar="DIR", help="a new folder, written whole or not at all")
    command.add_argument(
        "--format",
        choices=("saved_model", "litert", "onnx"),
        default="saved_model",
        help="saved_model (default): TensorFlow, text in and text out; the others: ids in, logits out",
    )
    command.add_argument("--beam", type=int, metavar="K", help="beam size; default: the model's, mostly 5")
    command.add_argument("--length-penalty", type=float, metavar="X", help="0 or more; larger favours long answers")


def _add_search(command):
    command.add_argument("--model", required=True, metavar="NAME_OR_PATH", help="a name out of `zoo list`, or a folder")
    command.add_argument("--beam", type=int, metavar="K", help="beam size; default: the model's, mostly 5")
    command.add_argument("--length-penalty", type=float, metavar="X", help="0 or more; larger favours long answers")
    command.add_argument(
        "--coverage-penalty", type=float, metavar="X", help="0 or more; favours answers that use all words"
    )
    command.add_argument("--max-length", type=int, metavar="N", help="tokens of an answer, at most")


if __name__ == "__main__":
    sys.exit(main())
