"""Trained models as files: entry, manifest, weights, schema, card, and the registry that finds them."""
