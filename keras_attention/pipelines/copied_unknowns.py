"""Unknown tokens of an answer, replaced by the source text that they attend to."""

from keras_attention.support.normalization import normalized
from keras_attention.tokenizers.special_tokens import UNKNOWN_ID

WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's character for a space


def copy_unknowns(tokens, ids, weights, source_tokens, source_ids, source_text):
    """The answer's text, each unknown token replaced by the source text with the highest attention weight.

    Args:
        tokens: list of T str, the pieces of the answer, without END.
        ids: int array (T,).
        weights: float array (T, S).
        source_tokens: list of S str, without END.
        source_ids: int array (S,).
        source_text: str.

    Returns:
        str.
    """
    from keras_attention.decoding.hypotheses import replace_unknowns  # here: it imports Keras, which commands silence

    written = source_surfaces(source_tokens, source_ids, source_text)
    pieces = replace_unknowns(ids, tokens, weights, written, UNKNOWN_ID)
    return " ".join("".join(pieces).replace(WORD_START, " ").split())


def source_surfaces(tokens, ids, text):
    """The tokens, each unknown one replaced by the text between its known neighbours.

    Args:
        tokens: list of S str.
        ids: int array (S,).
        text: str, the text of these tokens.

    Returns:
        List of S str. An unknown token that cannot be located in the text stays unchanged.
    """
    text = " ".join(normalized("NFKC", text).split())
    if tokens and tokens[0].startswith(WORD_START):
        text = " " + text
    surfaces, position, open_ones = list(tokens), 0, []
    for i in range(len(tokens) + 1):
        if i < len(tokens) and ids[i] == UNKNOWN_ID:
            open_ones.append(i)
            continue
        known = tokens[i].replace(WORD_START, " ") if i < len(tokens) else ""
        start = text.find(known, position + len(open_ones)) if known else len(text)
        if start < 0:
            return surfaces
        between = text[position:start]
        if len(open_ones) == len(between):
            for j, character in zip(open_ones, between, strict=True):
                surfaces[j] = character
        elif open_ones:
            surfaces[open_ones[0] : i] = [between] + [""] * (len(open_ones) - 1)
        position, open_ones = start + len(known), []
    return surfaces
