"""Attention in Keras: layers, recipes and small trained models."""

__version__ = "0.1.0"
