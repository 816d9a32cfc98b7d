"""A dataclass as command-line flags: every setting is a flag, an unknown flag is an error."""

import argparse
import dataclasses
import types
import typing


def setting(default, help_text, choices=None):
    """A dataclass field with its explanation and, if not every value is allowed, those that are."""
    return dataclasses.field(default=default, metadata={"help": help_text, "choices": choices})


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parse_config(config_class, description, arguments=None, presets=None):
    """Reads a flat dataclass from the command line.

    Args:
        config_class: dataclass type with a default for each field, made by `setting`.
        description: str, shown by `--help`.
        arguments: list of str, or None for `sys.argv[1:]`.
        presets: function of a config that gives a dict of defaults, which flags on the command line override; for
            example other sizes for another data set.

    Returns:
        An instance of `config_class`. Exits with code 2 and one line on an unknown flag or a wrong value.
    """
    parser = OneLineParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_settings(parser, config_class)
    config = config_class(**vars(parser.parse_args(arguments)))
    if presets is None:
        return config
    parser.set_defaults(**presets(config))
    return config_class(**vars(parser.parse_args(arguments)))


def add_settings(parser, config_class, separator="_"):
    """Makes a flag of each field of a dataclass.

    Args:
        parser: argparse parser.
        config_class: see `parse_config`.
        separator: str, between the words of a flag: "_" as in Python or "-" as usual on the command line.
    """
    for field in dataclasses.fields(config_class):
        known = "" if field.default is None else f" (default: {field.default})"
        options = {"default": field.default, "help": field.metadata["help"] + known, "dest": field.name}
        if value_type(field.type) is bool:
            options["action"] = argparse.BooleanOptionalAction
        else:
            several = typing.get_origin(field.type) is tuple
            options["nargs"] = "+" if several else None
            options["type"] = typing.get_args(field.type)[0] if several else value_type(field.type)
            options["metavar"] = options["type"].__name__.upper()
            options["choices"] = field.metadata["choices"]
        parser.add_argument(f"--{field.name.replace('_', separator)}", **options)


def value_type(annotation):
    """The type to read: `int` of `int | None`, otherwise the annotation itself."""
    if isinstance(annotation, types.UnionType):
        return next(kind for kind in typing.get_args(annotation) if kind is not type(None))
    return annotation
