"""Parses untrusted JSON strictly: content that two parsers could read differently is an error."""

import json


def parse_json(content):
    """Parses JSON without repeated keys, NaN and infinities.

    Args:
        content: bytes, UTF-8.

    Returns:
        The parsed value, of JSON types.

    Raises:
        ValueError: if the content is not such JSON, or is nested too deeply.
    """
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse_constant(name):
    raise ValueError(f"{name} is not a JSON number")


def _unique_keys(pairs):
    value = dict(pairs)
    if len(value) < len(pairs):
        seen = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"key {twice!r:.80} stands twice")
    return value
