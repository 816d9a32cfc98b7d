"""`python -m keras_attention` is the command `keras-attention`."""

import sys


def run():
    """Runs the command; Ctrl-C while its modules are imported ends it as quietly as later.

    Returns:
        int, the exit code, see `cli.main`.
    """
    try:
        from keras_attention.cli.main import main

        return main()
    except KeyboardInterrupt:
        if "--debug" in sys.argv:
            raise
        print("keras-attention: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
