"""Joins networks with tasks: one file a task, with a registration for each network that can do it.

`keras_attention` imports this package first, so every architecture is registered; `pipelines/base.py` explains how to
add one. The files import nothing heavy: networks and pipelines are named by strings "module:Class".
"""

from pathlib import Path
from typing import Any

from keras_attention.catalog import (  # noqa: F401  (they register their architectures)
    captioning,
    classification,
    encoding,
    generation,
    mask_filling,
    transcription,
    translation,
)
from keras_attention.support.providers import provide


def published_entry(name: str) -> Path:
    """The entry of a published model such as "hf://ORG/NAME", downloaded and converted if it is not there yet."""
    from keras_attention.convert.published import published_entry

    return published_entry(name)


def trained_network(model_class: type, name_or_path: str | Path) -> Any:
    """The bare network of a trained model, for `Model.from_preset`."""
    from keras_attention.zoo.warm_start import trained_network

    return trained_network(model_class, name_or_path)


provide(published_entry)
provide(trained_network)
