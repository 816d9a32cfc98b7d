"""What a value of `config.json` may be: the building blocks of the schema."""

import re

from keras_attention.zoo.entry_error import EntryError


def whole(low, high):
    """An int from `low` to `high`."""
    return (f"an integer from {low} to {high}", lambda value: type(value) is int and low <= value <= high)


def number(low, high):
    """An int or float from `low` to `high`."""
    return (f"a number from {low} to {high}", lambda value: type(value) in (int, float) and low <= value <= high)


def number_or_list(low, high):
    """A number as in `number`, or a list of such numbers."""
    what, holds = number(low, high)

    def all_hold(value):
        return all(map(holds, value)) if isinstance(value, list) else holds(value)

    return (f"{what}, or a list of such", all_hold)


def choice(*names):
    """One of the names."""
    return (f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names)


def text(pattern, what):
    """A str that matches the regular expression."""
    return (what, lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None)


def different_texts(most, longest):
    """A list of at most `most` different str, each of 1 to `longest` characters that are no control characters."""

    def holds(value):
        if not isinstance(value, list) or len(value) > most or len({*map(repr, value)}) < len(value):
            return False
        return all(isinstance(name, str) and 1 <= len(name) <= longest and name.isprintable() for name in value)

    return (f"a list of at most {most} different names of up to {longest} characters", holds)


def optional(field):
    """What `field` allows, or null."""
    what, holds = field
    return (f"{what}, or null", lambda value: value is None or holds(value))


TRUTH = ("true or false", lambda value: isinstance(value, bool))


def check_fields(values, fields, required, where):
    """Checks a dict whose keys and values are described by `fields`; those of `required` must be there.

    Raises:
        EntryError: names the first key or value that is not allowed.
    """
    check_keys(values, required, tuple(set(fields) - set(required)), where)
    for name, value in values.items():
        check_value(name, value, fields[name], where)


def check_keys(values, required, optional, where):
    """Raises EntryError unless `values` is a dict with all keys of `required` and no others than those of both."""
    if not isinstance(values, dict):
        raise EntryError(f"{where} must be an object. Received: {type(values).__name__}")
    for name in sorted(set(values) - set(required) - set(optional)):
        raise EntryError(f"{where} has the unknown key {name!r}.")
    for name in required:
        if name not in values:
            raise EntryError(f"{where} lacks the key {name!r}.")


def check_value(name, value, field, where):
    """Raises EntryError unless `field` allows the value."""
    what, holds = field
    if not holds(value):
        raise EntryError(f"{where}: {name} must be {what}. Received: {name}={value!r:.100}")
