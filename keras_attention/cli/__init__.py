"""The command line; related commands share a file. TensorFlow is imported only when a model runs."""
