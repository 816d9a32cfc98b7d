"""Trained models as files: entry, manifest, weights, schema, card, and the registry that finds them."""

from keras_attention.zoo import architectures  # noqa: F401  (registers the architectures of the package)
