"""Measures an n-gram model with Kneser-Ney smoothing on the texts of a language model.

    python recipes/language_model.py --text FILES --validation FILE --encode-to ENCODED
    python recipes/tools/kneser_ney.py ENCODED [--order 5]

It counts the n-grams of the training tokens and prints the perplexity of the validation tokens, per token and per word.
The tokens are those of the language model, so the perplexities per word of both models can be compared.
"""

import argparse
import math
import sys

from keras_attention.cli.main import guarded
from keras_attention.data.prose.token_stream import StreamSettings, load_stream
from keras_attention.evaluation.kneser_ney import KneserNey
from keras_attention.support.errors import UserError
from keras_attention.training.run import RunSettings


class Settings(StreamSettings, RunSettings):
    """The settings of the texts, as in the recipe."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoded", metavar="ENCODED", help="folder by language_model.py --encode-to")
    parser.add_argument("--order", type=int, default=5, help="tokens of the longest n-grams")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    if arguments.order < 1:
        raise UserError(f"--order must be at least 1. Found: {arguments.order}")
    stream = load_stream(Settings(encoded=arguments.encoded))
    model = KneserNey(stream.train, stream.tokenizer.vocabulary_size, arguments.order)
    loss = -model.log_probabilities(stream.validation)[1:]  # the first token has no context
    by_word = stream.perplexity_per_word(loss.mean())
    print(f"{arguments.order}-grams of {len(stream.train):,} tokens, modified Kneser-Ney smoothing")
    print(f"validation: perplexity per token {math.exp(loss.mean()):.2f}, per word {by_word:.2f}")


if __name__ == "__main__":
    sys.exit(guarded(main, "kneser_ney.py", debug="--debug" in sys.argv))
