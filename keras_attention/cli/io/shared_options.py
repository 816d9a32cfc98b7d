"""The options that several commands share: the model, the files that are read and written, tables, explanations."""

from keras_attention.finetuning.settings import DEFAULT_START

MODEL = "model name from `zoo list`, a unique part of one, a model folder, or hf://ORG/NAME of a published one"


def add_command(commands, name, module, function, help_text):
    """Adds a command that calls `function` of `cli/module.py` with its arguments, and returns its parser."""
    command = commands.add_parser(name, help=help_text, description=help_text)
    command.add_argument("--json", action="store_true", help="machine-readable output")
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    command.set_defaults(module=module, function=function)
    return command


def add_model(command, default=None):
    """The model of a command. `default`: str, that of the zoo which is used without --model, or None."""
    without = f"default: {default}" if default else "without it, the choices are listed"
    command.add_argument("--model", metavar="NAME_OR_PATH", help=f"{MODEL}; {without}")


def add_encoder(command):
    """The text encoder of a command, and the texts that it reads."""
    help_text = f"text encoder, by name or folder (default: {DEFAULT_START})"
    command.add_argument("--model", default=DEFAULT_START, metavar="NAME_OR_PATH", help=help_text)
    add_input(command)
    add_encoding(command)
    command.set_defaults(resume=False)


def add_input(command, default=""):
    command.add_argument("--input", metavar="FILE", help=f"UTF-8 text, one text per line{default}")


def add_output(command):
    command.add_argument("--output", metavar="FILE", help="written whole or not at all; default: standard output")


def add_encoding(command):
    help_text = "encoding of the files that are read, such as windows-1252 (default: UTF-8)"
    command.add_argument("--encoding", metavar="NAME", help=help_text)


def add_table(command, help_text, answers):
    """The options for a table that comes back with further columns; `answers` names what they contain."""
    command.add_argument("--table", metavar="FILE", help=help_text)
    command.add_argument("--text", metavar="COLUMN", help="with --table: column of the texts (default: text)")
    command.add_argument("--delimiter", metavar="SIGN", help="with --table: character between columns")
    command.add_argument("--skip-bad-rows", action="store_true", help="with --table: leave out rows that are damaged")
    help_text = f"with --table: no ' before {answers} that a spreadsheet would take for formulas"
    command.add_argument("--raw", action="store_true", help=help_text)


def add_label_columns(command):
    """The columns of a table of labelled texts."""
    command.add_argument("--text", metavar="COLUMN", help="column of the texts (default: text)")
    command.add_argument("--label", metavar="COLUMN", help="column of the labels (default: label)")
    command.add_argument("--text-b", metavar="COLUMN", help="column of the second texts, for text pairs")


def add_explain(command, answer, read):
    """Adds --explain and --contrast."""
    help_text = f"also write a page (.html): how much each {read} contributes to each word of the {answer}"
    command.add_argument("--explain", metavar="FILE", help=help_text)
    help_text = f"with --explain: why WORD is in the {answer} and not OTHER; one text"
    command.add_argument("--contrast", metavar="WORD=OTHER", help=help_text)


def add_sentence_pairs(parser):
    """The sentence pairs of a tool for trained translators."""
    parser.add_argument("--data", required=True, help="as in the recipes, with --data-dir, --source and --target")
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")


def sentence_pairs(arguments, **options):
    """The TranslationData that the options of `add_sentence_pairs` name; `options`: see `load_translation_data`."""
    from keras_attention.data.translation.pairs import load_translation_data

    given = {name: getattr(arguments, name) for name in ("data", "data_dir", "source", "target")}
    return load_translation_data(**given, **options)
