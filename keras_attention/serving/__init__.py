"""Models as others run them: a SavedModel with text in and text out, and Keras's own export formats."""
