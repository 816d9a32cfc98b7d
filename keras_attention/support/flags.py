"""Settings from command-line flags and files: every field of a dataclass is a flag; unknown names are errors."""

import argparse
import codecs
import dataclasses
import difflib
import math
import re
import sys
import types
import typing
from pathlib import Path

from keras_attention.support.errors import BAD_USAGE, UserError, one_line, parse_json, quoted

MOST_BYTES, MOST_VALUES, MOST_LEVELS = 1_000_000, 2_000, 20  # of a YAML file with settings
MOST_CHARACTERS = 10_000  # of a value in it: of a number to the base 60, 1:59:59 ..., the cost grows with the square
MOST_JSON_BYTES = 4 * 2**20  # a metrics.json may have as many
# What a card tells of a training but a recipe does not repeat; contrastive training is a stage of `finetune` alone.
NOT_REPEATED = ("history", "out", "resume", "restart", "contrastive")


def setting(default, help_text, choices=None, name=None, aliases=(), words=()):
    """Makes a dataclass field that is also a flag and a key of a file with settings.

    Args:
        default: the value without a flag.
        help_text: str.
        choices: tuple of the allowed values, or None for any.
        name: str, the name of flag and key where it differs from the field's, such as "from", a word of Python. The
            field's name goes on as a hidden alias.
        aliases: further hidden aliases, earlier names of the flag.
        words: words that stand for a number, such as "auto".
    """
    metadata = {"help": help_text, "choices": choices, "name": name, "aliases": aliases, "words": words}
    return dataclasses.field(default=default, metadata=metadata)


def shown_name(field):
    """The name of a setting in files, with underscores; its flag has hyphens."""
    return field.metadata["name"] or field.name


def hidden_names(field):
    """The names of a setting that are read but not shown."""
    return [name for name in (field.name, *field.metadata["aliases"]) if name != shown_name(field)]


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line and suggest the nearest option; `--n_best` means `--n-best`."""

    def parse_known_args(self, args=None, namespace=None):
        words = list(sys.argv[1:] if args is None else args)
        end = words.index("--") if "--" in words else len(words)
        words[:end] = [self._with_hyphens(word) for word in words[:end]]
        namespace, unknown = super().parse_known_args(words, namespace)
        for word in unknown:
            option = word.split("=")[0]
            near = difflib.get_close_matches(option, self._option_string_actions, 1) if option.startswith("--") else ()
            if near:
                self.error(f"unrecognized arguments: {option}. Did you mean {self._shown(near[0])}?")
        return namespace, unknown

    def error(self, message):
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)$", message)
        if wrong and (near := difflib.get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)):
            message += f". Did you mean {near[0]}?"
        self.exit(BAD_USAGE, f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")

    def _shown(self, option):
        """The option that the help shows for it: `--from` for its hidden alias `--start-from`."""
        hidden = self._option_string_actions[option]
        alike = (action for action in self._actions if action.dest == hidden.dest)
        shown = next((action for action in alike if action.help != argparse.SUPPRESS), hidden)
        return option if shown is hidden else shown.option_strings[0]

    def _with_hyphens(self, word):
        option, *value = word.split("=", 1)
        hyphens = option[:2] + option[2:].replace("_", "-")
        return "=".join([hyphens, *value]) if hyphens in self._option_string_actions else word


def parse_config(config_class, description, arguments=None, presets=None):
    """Reads a flat dataclass from the command line and, with `--config FILE`, from that file.

    Args:
        config_class: dataclass type with a default for each field, made by `setting`.
        description: str, shown by `--help`.
        arguments: list of str, or None for `sys.argv[1:]`.
        presets: function of a config that returns a dict of defaults, for example other sizes for another data set. The
            file and the flags override them.

    Returns:
        An instance of `config_class`. Exits with code 2 and one line on an unknown flag or key or a wrong value.
    """
    formatter = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(description=description, formatter_class=formatter, allow_abbrev=False)
    help_text = "YAML file with settings, or config.json of an earlier run; flags override it"
    parser.add_argument("--config", metavar="FILE", help=help_text)
    add_settings(parser, config_class)

    def parse():
        given = vars(parser.parse_args(arguments))
        del given["config"]
        return config_class(**given)

    path = parser.parse_args(arguments).config
    try:
        from_file = read_settings(path, config_class) if path else {}
    except UserError as error:
        parser.error(str(error))
    parser.set_defaults(**from_file)
    if presets is not None:
        parser.set_defaults(**presets(parse()) | from_file)
    return parse()


def add_settings(parser, config_class, names=None):
    """Adds a flag for each field of a dataclass: `label_smoothing` becomes `--label-smoothing`.

    Args:
        parser: argparse parser, or a group of its options.
        config_class: see `parse_config`.
        names: collection of str, the fields whose flags are added; None: all.
    """
    for field in dataclasses.fields(config_class):
        if names is not None and field.name not in names:
            continue
        known = "" if field.default in (None, "", ()) else f" (default: {field.default})"
        options = {"default": field.default, "help": field.metadata["help"] + known, "dest": field.name}
        if value_type(field.type) is bool:
            options["action"] = argparse.BooleanOptionalAction
        else:
            several = typing.get_origin(field.type) is tuple
            options["nargs"] = "+" if several else None
            kind = typing.get_args(field.type)[0] if several else value_type(field.type)
            options["type"] = (
                _or_none(kind, field.metadata["words"]) if isinstance(field.type, types.UnionType) else kind
            )
            options["choices"] = choices = field.metadata["choices"]
            options["metavar"] = f"{{{','.join(filter(None, choices))}}}" if choices else kind.__name__.upper()
        parser.add_argument(_flag(shown_name(field)), **options)
        for name in hidden_names(field):
            parser.add_argument(_flag(name), **options | {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS})


def _or_none(kind, words=()):
    """Reads a value of this kind or one of the words, or the word "none" as None."""

    def read(text):
        return text if text in words else None if text == "none" else kind(text)

    read.__name__ = kind.__name__  # argparse names it in the message about a wrong value
    return read


def _flag(name):
    return f"--{name.replace('_', '-')}"


def read_settings(path, config_class):
    """Reads settings from a YAML or JSON file.

    Args:
        path: str or Path, a file with one mapping; its keys are the names of flags, with hyphens or underscores. Or
            `config.json` of a model that a recipe has trained; the settings of that run are then read from
            `metrics.json` in the same folder.
        config_class: see `parse_config`.

    Returns:
        dict from the names of fields to values of their types.

    Raises:
        UserError: if the file cannot be read, a key is unknown, or a value has the wrong type.
    """
    values = _read_mapping(path)
    of_a_model = "format_version" in values
    if of_a_model:
        path = Path(path).with_name("metrics.json")
        values = _read_mapping(path).get("training", {})
        if not isinstance(values, dict):
            raise UserError(f"{path}: `training` must hold settings. Found: {quoted(values)}")
        values = {name: value for name, value in values.items() if name not in NOT_REPEATED}
    shown = {shown_name(field): field for field in dataclasses.fields(config_class)}
    fields = shown | {name: field for field in shown.values() for name in hidden_names(field)}
    settings = {}
    for key, value in values.items():
        name = str(key).replace("-", "_")
        if name not in fields:
            raise UserError(f"{path}: there is no setting {quoted(key)}{nearest(name, shown)}")
        field = fields[name]
        if of_a_model and value is None and not isinstance(field.type, types.UnionType):
            continue  # `finetune` chose the value while it ran; a recipe takes its own default
        if field.name in settings:
            raise UserError(f"{path} has {shown_name(field)!r} twice, the second time as {quoted(key)}")
        settings[field.name] = _checked(value, field, path)
    return settings


def nearest(word, known):
    """A question that suggests the known word nearest to a wrong one, or an empty string."""
    similar = difflib.get_close_matches(word, known, n=1)
    return f". Did you mean {similar[0]}?" if similar else ""


def value_type(annotation):
    """The type to read: `int` for `int | None`, otherwise the annotation itself."""
    if isinstance(annotation, types.UnionType):
        return next(kind for kind in typing.get_args(annotation) if kind is not type(None))
    return annotation


def _read_mapping(path):
    """Reads a JSON or YAML file that contains one mapping."""
    try:
        is_json = Path(path).suffix == ".json"
        most = MOST_JSON_BYTES if is_json else MOST_BYTES
        with open(path, "rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"it has more than {most:,} bytes")
        content = content.removeprefix(codecs.BOM_UTF8)
        mapping = parse_json(content) if is_json else _parse_yaml(content.decode("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {str(error):.200}") from error
    if not isinstance(mapping, dict):
        raise UserError(f"{path} must hold settings, such as `epochs: 3`. Found: {quoted(mapping)}")
    return mapping


def _parse_yaml(text):
    """Parses YAML of bounded size and depth, without repeated keys; ValueError if the text is not such YAML."""
    import yaml

    loader = None
    try:
        _check_depth(yaml, text)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_expanded(node, {})
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except (LookupError, TypeError, AttributeError, OverflowError) as error:  # of a wrong `!!int ''`, for example
        raise ValueError("it has a value that does not fit its type") from error
    finally:
        if loader is not None:  # a control character fails in its constructor
            loader.dispose()


def _check_depth(yaml, text):
    """Raises ValueError if a YAML text is nested too deeply, or has too many or too long values.

    Its parser would take minutes.
    """
    depth = 0
    for number, event in enumerate(yaml.parse(text, yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_LEVELS:
            raise ValueError("it is nested too deeply")
        if number > 2 * MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > MOST_CHARACTERS:
            raise ValueError(f"it has a value of more than {MOST_CHARACTERS:,} characters")


def _check_expanded(node, sizes):
    """Checks the keys of a YAML node, and the number of values that its aliases expand to.

    Args:
        node: yaml.Node.
        sizes: dict from the id of each node that was checked to its number of values; 0 while it is checked.

    Returns:
        int, the number of values.

    Raises:
        ValueError: if a key stands twice, there are more than `MOST_VALUES` values, or a node contains itself.
    """
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise ValueError("it contains itself")
        return sizes[id(node)]
    sizes[id(node)], size, keys = 0, 1, set()
    for one in node.value if isinstance(node.value, list) else ():
        parts = one if isinstance(one, tuple) else (one,)  # a key and its value, or an item of a list
        if len(parts) == 2 and isinstance(key := parts[0].value, str):
            if key in keys:
                raise ValueError(f"key {quoted(key)} stands twice")
            keys.add(key)
        size += sum(_check_expanded(part, sizes) for part in parts)
        if size > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values, with those that its aliases repeat")
    sizes[id(node)] = size
    return size


def _checked(value, field, path):
    """Converts a value from a file to the type of its field; YAML reads a number such as 1e-3 as a string."""
    kind, several = value_type(field.type), typing.get_origin(field.type) is tuple
    if value is None and isinstance(field.type, types.UnionType):
        return None
    if isinstance(value, str) and value in field.metadata["words"]:
        return value
    if several and isinstance(value, str):
        value = [value] if value else []
    if several and isinstance(value, list) and all(isinstance(one, typing.get_args(field.type)[0]) for one in value):
        return tuple(value)
    try:
        if kind in (int, float) and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            number = kind(value)
            if math.isfinite(number) and (isinstance(value, str) or number == value):
                return number
    except (ValueError, OverflowError):  # OverflowError: infinity is no int
        pass
    allowed = field.metadata["choices"]
    if not several and kind in (bool, str) and isinstance(value, kind) and (not allowed or value in allowed):
        return value
    expected = f"a list of {typing.get_args(field.type)[0].__name__}" if several else kind.__name__
    expected = f"one of {', '.join(allowed)}" if allowed else expected
    raise UserError(f"{path}: `{shown_name(field)}` must be {expected}. Found: {quoted(value)}")
