"""Converts published BERT checkpoints into models of this package, without the libraries that wrote them."""

from keras_attention.convert.checkpoint import load_checkpoint
from keras_attention.convert.converted import Converted

__all__ = ["Converted", "load_checkpoint"]
