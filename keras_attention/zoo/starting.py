"""A trained model that a training begins with."""

from keras_attention.zoo.archive import load_entry
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.finding import find_entry


def start_settings(name, known):
    """The settings of a trained model that a recipe has flags for.

    Args:
        name: str, an entry's name or path, or "" for none.
        known: object with an attribute for each flag. `max_tokens` stands for the `max_length` of a BERT.

    Returns:
        Dict, empty without a name.
    """
    if not name:
        return {}
    config = read_entry(find_entry(name)).config
    settings = config["model"] | ({"max_tokens": config["max_tokens"]} if "max_tokens" in config else {})
    return {setting: value for setting, value in settings.items() if hasattr(known, setting)}


def load_start(name):
    """Returns the LoadedEntry of an entry's name or path, or None for ""."""
    return load_entry(find_entry(name)) if name else None
