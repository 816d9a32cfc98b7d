"""The command line: one command a file. TensorFlow is imported only where a model is run."""
