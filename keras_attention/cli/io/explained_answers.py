"""The options --explain and --contrast of `translate` and `generate`."""

import sys

from keras_attention.support.atomic_files import claim_place
from keras_attention.support.errors import UserError, counted, quoted
from keras_attention.visualize.pages import check_page_path

MOST_EXPLAINED = 100  # texts on one page


def check_explain(arguments, others):
    """Raises UserError unless --explain and --contrast are of the right form, and the page can be written.

    Args:
        arguments: argparse.Namespace.
        others: dict from the flags that exclude --explain to whether they were given.
    """
    if not arguments.explain:
        if arguments.contrast is not None:
            raise UserError("--contrast needs --explain FILE.")
        return
    if given := [flag for flag, value in others.items() if value]:
        raise UserError(f"--explain does not work with {', '.join(given)}. Leave out either.")
    contrast_of(arguments)
    claim_place(check_page_path(arguments.explain))


def check_number(arguments, total):
    """Raises UserError if there are too many texts for a page."""
    if total > MOST_EXPLAINED:
        raise UserError(f"--explain shows at most {MOST_EXPLAINED} texts. Found: {total:,}")
    if arguments.contrast is not None and total != 1:
        raise UserError(f"--contrast is for one text. Found: {total:,}")


def contrast_of(arguments):
    """The two words of --contrast, or None."""
    if arguments.contrast is None:
        return None
    word, equals, other = arguments.contrast.partition("=")
    if not equals or not word.strip() or not other.strip():
        raise UserError(
            f"--contrast must be a word of the answer, = and another word, such as Bank=Ufer. Found: "
            f"{quoted(arguments.contrast)}"
        )
    return word, other


def write_explanations(path, explanations):
    """Writes the page of a list of AnswerExplanation."""
    from keras_attention.visualize.effect_pages import EffectPage

    EffectPage([one.as_json() for one in explanations]).save(path)
    print(f"keras-attention: {path}: which words decide {counted(len(explanations), 'answer')}", file=sys.stderr)
