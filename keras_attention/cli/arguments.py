"""The flags of every command. What they do stands in the file that carries the command's name."""

import argparse

from keras_attention.finetuning.settings import DEFAULT_START, FinetuneSettings
from keras_attention.server.limits import ServerSettings
from keras_attention.training.flags import add_settings


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


def add_finetune(commands):
    command = add_command(commands, "finetune", "finetune", "finetune", "Train a classifier on the rows of a table.")
    command.add_argument("table", metavar="TABLE", help="CSV, TSV or JSONL with a header; .gz, .xz too")
    command.add_argument("--text", required=True, metavar="COLUMN", help="the column of the texts")
    command.add_argument("--label", required=True, metavar="COLUMN", help="the column of the labels")
    command.add_argument("--text-b", metavar="COLUMN", help="the column of the second texts, if rows are pairs")
    help_text = f"a BERT to start from, by name or folder, or none (default: {DEFAULT_START})"
    command.add_argument("--from", dest="start", default=DEFAULT_START, metavar="MODEL", help=help_text)
    command.add_argument("--validation", metavar="FILE", help="rows to choose the best epoch by")
    command.add_argument("--validation-split", type=float, default=0.1, metavar="X", help="or this share of the rows")
    command.add_argument("--test", metavar="FILE", help="rows for the report; default: those of the validation")
    command.add_argument("--out", metavar="DIR", help="folder of the model; default: named after the table")
    kinds = ("binary", "multiclass", "multilabel", "regression")
    command.add_argument("--task", choices=kinds, help="default: found from the labels")
    command.add_argument("--separator", metavar="SIGN", help="between the labels of a row, if it may have several")
    command.add_argument("--delimiter", metavar="SIGN", help="between columns; default: by the name of the file")
    command.add_argument("--skip-bad-rows", action="store_true", help="count rows that cannot be read, and go on")
    command.add_argument("--language", default="en", metavar="CODE", help="of the texts, for the card")
    command.add_argument("--resume", action="store_true", help="go on from the last checkpoint of the same training")
    command.add_argument("--restart", action="store_true", help="start anew where checkpoints stand")
    command.add_argument("--overwrite", action="store_true", help="replace the trained model that stands there")
    command.add_argument(
        "--strategy",
        choices=("auto", "none", "mirrored", "multiworker"),
        default="auto",
        help="none (one device), mirrored (all), multiworker, or what is there (default: auto)",
    )
    add_settings(command, FinetuneSettings, "-")


def add_convert(commands):
    help_text = "Turn a published BERT checkpoint (Hugging Face, Google) into a model of the zoo."
    command = add_command(commands, "convert", "convert", "convert", help_text)
    command.add_argument("path", metavar="PATH", help="the folder of the checkpoint")
    command.add_argument("--out", metavar="DIR", help="a new folder; default: named after the checkpoint")
    command.add_argument("--overwrite", action="store_true", help="replace the trained model that stands there")
    command.add_argument("--pair", action="store_true", help="it classifies pairs of texts")
    command.add_argument("--half", action="store_true", help="store the weights in float16")
    command.add_argument("--language", default="en", metavar="CODE", help="of the texts, for the card (en)")


def add_classify(commands):
    command = add_command(commands, "classify", "classify", "classify", "Say which label each text has.")
    command.add_argument("texts", nargs="*", metavar="TEXT", help="texts, pairs with a tab; without any: --input")
    command.add_argument("--model", required=True, metavar="NAME_OR_PATH", help="a name out of `zoo list`, or a folder")
    command.add_argument("--input", metavar="FILE", help="UTF-8 text, one text a line; default: standard input")
    command.add_argument("--output", metavar="FILE", help="written whole or not at all; default: standard output")
    command.add_argument("--resume", action="store_true", help="go on with an interrupted run from --input to --output")
    command.add_argument("--top", type=int, metavar="K", help="show the K most probable labels")
    command.add_argument("--threshold", type=float, metavar="X", help="give no label that is less probable")


def add_fill_mask(commands):
    command = add_command(commands, "fill-mask", "fill_mask", "fill_mask", "Fill the gaps of a text.")
    command.add_argument("texts", nargs="*", metavar="TEXT", help='each with "[MASK]" where a word is missing')
    help_text = f"a masked language model (default: {DEFAULT_START})"
    command.add_argument("--model", default=DEFAULT_START, metavar="NAME_OR_PATH", help=help_text)
    command.add_argument("--input", metavar="FILE", help="UTF-8 text, one text a line; default: standard input")
    command.add_argument("--top", type=int, default=5, metavar="K", help="answers to each text (5)")
    command.add_argument("--pieces", type=int, default=1, metavar="N", help="pieces that a word may be made of (1)")


def add_serve(commands):
    help_text = "Serve models over HTTP: a JSON API, and a page to try them."
    command = add_command(commands, "serve", "serve", "serve", help_text)
    command.add_argument(
        "--model", dest="models", action="append", metavar="NAME_OR_PATH", help="may be repeated; default: all models"
    )
    command.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="0.0.0.0: for other machines too")
    command.add_argument("--port", type=int, default=8000, metavar="N", help="0: any that is free (8000)")
    known = ServerSettings()
    numbers = {
        "concurrency": (int, "requests answered at a time; others get 503"),
        "max_batch": (int, "rows of different requests computed together, a power of two"),
        "items": (int, "texts in a request"),
        "characters": (int, "in a text"),
        "seconds": (float, "until a request is there, and again until its answer is"),
        "beam": (int, "beam size of translators; default: each model's own"),
    }
    for name, (kind, meaning) in numbers.items():
        default = getattr(known, name)
        told = meaning if default is None else f"{meaning} ({default:,})"
        command.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, metavar="N", help=told)
