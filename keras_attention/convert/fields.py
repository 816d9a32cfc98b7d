"""The fields of a checkpoint's configuration: read from JSON, checked one by one before anything is built."""

import json

from keras_attention.errors import UserError

MAX_JSON_BYTES = 2 * 1024 * 1024


def read_json(path):
    """Reads a JSON object of at most `MAX_JSON_BYTES`.

    Args:
        path: Path.

    Returns:
        dict.

    Raises:
        UserError: if the file is missing, too large, or holds no JSON object.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_JSON_BYTES + 1)
        value = json.loads(content.decode("utf-8")) if len(content) <= MAX_JSON_BYTES else None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} must hold a JSON object of at most {MAX_JSON_BYTES} bytes.")
    return value


class Fields:
    """The fields of a configuration; each getter returns the value if it is what is expected.

    Args:
        path: Path of the JSON file.
        values: dict, its content if it was read before.

    Raises:
        UserError: the constructor as `read_json`; each getter with file, field, value and what was expected.
    """

    def __init__(self, path, values=None):
        self.path = path
        self.values = read_json(path) if values is None else values

    def inside(self, name):
        """The `Fields` of a field that is an object itself."""
        value = self.values.get(name)
        self._check(name, isinstance(value, dict), "an object")
        return Fields(self.path, value)

    def whole(self, name, low, high):
        """An int from `low` to `high`."""
        value = self.values.get(name)
        self._check(name, type(value) is int and low <= value <= high, f"an integer from {low} to {high}")
        return value

    def number(self, name, low, high, default):
        """A float from `low` to `high`."""
        value = self.values.get(name, default)
        sound = type(value) in (int, float) and low <= value <= high
        self._check(name, sound, f"a number from {low} to {high}")
        return float(value)

    def choice(self, name, allowed, default=None):
        """What `allowed`, a dict, has for the value."""
        value = self.values.get(name, default)
        sound = isinstance(value, str) and value in allowed
        self._check(name, sound, f"one of {', '.join(allowed)}")
        return allowed[value]

    def truth(self, name):
        """A bool."""
        value = self.values.get(name)
        self._check(name, isinstance(value, bool), "true or false")
        return value

    def only(self, name, *allowed):
        """Refuses every value but these; an absent field is sound."""
        if name in self.values:
            value = self.values[name]
            sound = any(type(value) is type(other) and value == other for other in allowed)
            self._check(name, sound, " or ".join(map(repr, allowed)))

    def refuse(self, name, expected):
        """Raises UserError for the field."""
        self._check(name, False, expected)

    def _check(self, name, sound, expected):
        if not sound:
            found = repr(self.values[name])[:80] if name in self.values else "nothing"
            raise UserError(f"{self.path}: {name} is {found}. Supported: {expected}")
