"""The flags of the commands around BERT."""

from keras_attention.commands.arguments import add_command
from keras_attention.finetuning.settings import DEFAULT_START, FinetuneSettings
from keras_attention.training.flags import add_settings


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
