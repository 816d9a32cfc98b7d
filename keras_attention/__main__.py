"""`python -m keras_attention` is the command `keras-attention`."""

import sys


def run():
    """Runs the command; Ctrl-C during its imports also ends it with one line. Returns the exit code, see `cli.main`."""
    try:
        from keras_attention.cli.main import main
    except KeyboardInterrupt:
        print("keras-attention: interrupted", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
