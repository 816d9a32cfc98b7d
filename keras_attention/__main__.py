"""`python -m keras_attention` is the command `keras-attention`."""

import sys

from keras_attention.cli import main

sys.exit(main())
