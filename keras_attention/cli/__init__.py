"""The command line, one command per file. TensorFlow is imported only when a model runs."""
