"""Functions of higher rooms under their names."""

import pytest

import keras_attention  # noqa: F401  (provides its own)
from keras_attention.support.providers import provide, provided


def test_the_catalog_provides_its_functions():
    assert provided("published_entry").__module__ == provided("trained_network").__module__ == "keras_attention.catalog"


def test_a_function_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr("keras_attention.support.providers._provided", {})

    def seven():
        return 7

    provide(seven)
    assert provided("seven")() == 7
    with pytest.raises(LookupError, match="Nothing provides 'eight'. Provided: seven"):
        provided("eight")
