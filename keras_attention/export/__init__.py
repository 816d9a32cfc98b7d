"""Exports models for other programs: SavedModel with text in and text out, and Keras's export formats."""
