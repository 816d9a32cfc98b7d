"""Trained models as files: entry, manifest, weights, schema, card, and the registry that finds them."""

from keras_attention.zoo import architectures, language_models  # noqa: F401  (register the package's architectures)
