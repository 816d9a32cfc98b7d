"""Models for other programs: a SavedModel with text in and text out, and Keras's own export formats."""
