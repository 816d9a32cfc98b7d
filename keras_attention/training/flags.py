"""A dataclass as command-line flags: every setting is a flag, an unknown flag is an error."""

import argparse
import dataclasses
import types
import typing


def parse_config(config_class, description, arguments=None):
    """Reads a flat dataclass from the command line.

    Args:
        config_class: dataclass type with a default for each field; `metadata={"help": ...}` explains it.
        description: str, shown by `--help`.
        arguments: list of str, or None for `sys.argv[1:]`.

    Returns:
        An instance of `config_class`. Exits with code 2 and one line on an unknown flag or a wrong value.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    for field in dataclasses.fields(config_class):
        help_text = f"{field.metadata.get('help', '')} (default: {field.default})"
        if field.type is bool:
            parser.add_argument(
                f"--{field.name}", action=argparse.BooleanOptionalAction, default=field.default, help=help_text
            )
        else:
            parser.add_argument(
                f"--{field.name}", type=value_type(field.type), default=field.default, metavar="", help=help_text
            )
    return config_class(**vars(parser.parse_args(arguments)))


def value_type(annotation):
    """The type to read: `int` of `int | None`, otherwise the annotation itself."""
    if isinstance(annotation, types.UnionType):
        return next(kind for kind in typing.get_args(annotation) if kind is not type(None))
    return annotation


def setting(default, help_text):
    """A dataclass field with its explanation."""
    return dataclasses.field(default=default, metadata={"help": help_text})
