"""`python -m keras_attention` is the command `keras-attention`."""

import sys

try:
    from keras_attention.cli.main import main as run
except KeyboardInterrupt:  # `run` reports a later Ctrl-C
    print("keras-attention: interrupted", file=sys.stderr)
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(run())
