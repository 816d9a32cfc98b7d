"""`python -m keras_attention` is the command `keras-attention`."""

import sys

from keras_attention.cli.main import main as run

if __name__ == "__main__":
    sys.exit(run())
