"""The flags of the commands around translation and the zoo. What they do stands in the files they name."""

import argparse


def add_command(commands, name, module, function, help_text):
    """A command that calls `function` of `commands/module.py` with its arguments; returns its parser."""
    command = commands.add_parser(name, help=help_text, description=help_text)
    command.add_argument("--json", action="store_true", help="machine-readable output")
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    command.set_defaults(module=module, function=function)
    return command


def add_translate(commands):
    command = add_command(commands, "translate", "translate", "translate", "Translate sentences with a trained model.")
    command.add_argument("texts", nargs="*", metavar="TEXT", help="sentences; without any: --input or standard input")
    command.add_argument("--input", metavar="FILE", help="UTF-8 text, one sentence a line")
    command.add_argument("--output", metavar="FILE", help="written whole or not at all; default: standard output")
    command.add_argument("--resume", action="store_true", help="go on with an interrupted run from --input to --output")
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
    add_search(command)


def _numbers(text):
    """The numbers in a text such as "1,3"; none in "all"."""
    try:
        return [] if text == "all" else [int(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,3 or all, found {text!r}") from error


def add_evaluate(commands):
    help_text = (
        "Measure a translator on a source file and its translation (BLEU in both traditions, chrF, BLEU by length), "
        "or a classifier on a table of texts with labels (its scores, precision, recall and F1 of each label)."
    )
    command = add_command(commands, "evaluate", "evaluate", "evaluate", help_text)
    command.add_argument("--source", metavar="FILE", help="UTF-8 text, one sentence a line; .gz, .xz too")
    command.add_argument("--target", metavar="FILE", help="its translation, line by line")
    command.add_argument("--table", metavar="FILE", help="CSV, TSV or JSONL with a header; .gz, .xz too")
    command.add_argument("--text", metavar="COLUMN", help="of the table: the texts (default: text)")
    command.add_argument("--label", metavar="COLUMN", help="of the table: the labels (default: label)")
    command.add_argument("--text-b", metavar="COLUMN", help="of the table: the second texts, for a model of pairs")
    add_search(command)


def add_attention(commands):
    help_text = "Write a page that shows what a model looked at: lines, heat map, every layer and head."
    command = add_command(commands, "attention", "attention", "attention", help_text)
    command.add_argument("text", metavar="TEXT", help="one text; the two of a pair with a tab between them")
    command.add_argument("--out", required=True, metavar="FILE", help="the page (.html); it needs no network")
    command.add_argument("--target", metavar="TEXT", help="look at this translation instead of the model's own")
    command.add_argument("--n-best", type=int, default=1, metavar="K", help="translations shown")
    add_search(command)


def add_zoo(commands):
    zoo = commands.add_parser("zoo", help="The trained models that are there.", description="The trained models.")
    actions = zoo.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_command(actions, "list", "zoo", "list_entries", "List the models.")
    show = add_command(actions, "show", "zoo", "show", "Show the card of a model.")
    show.add_argument("name", metavar="NAME", help="a name out of `zoo list`, or a folder")
    verify = add_command(
        actions, "verify", "zoo", "verify", "Check files by their hashes and run the stored examples again."
    )
    verify.add_argument("name", nargs="?", metavar="NAME", help="default: all models")


def add_export(commands):
    command = add_command(commands, "export", "export", "export", "Write a model for use without this package.")
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


def add_launch(commands):
    help_text = "Start a training in several processes of this machine, and again if one of them dies."
    command = commands.add_parser("launch", help=help_text, description=help_text)
    command.add_argument("--workers", type=int, default=2, metavar="N", help="processes (2)")
    command.add_argument("--max-restarts", type=int, default=0, metavar="N", help="after that many deaths: give up (0)")
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    command.add_argument(
        "command", nargs="+", metavar="COMMAND", help="behind --: recipes/NAME.py or finetune, with flags"
    )
    command.set_defaults(module="launch", function="launch")


def add_search(command):
    command.add_argument("--model", required=True, metavar="NAME_OR_PATH", help="a name out of `zoo list`, or a folder")
    command.add_argument("--beam", type=int, metavar="K", help="beam size; default: the model's, mostly 5")
    command.add_argument("--length-penalty", type=float, metavar="X", help="0 or more; larger favours long answers")
    command.add_argument(
        "--coverage-penalty", type=float, metavar="X", help="0 or more; favours answers that use all words"
    )
    command.add_argument("--max-length", type=int, metavar="N", help="tokens of an answer, at most")
