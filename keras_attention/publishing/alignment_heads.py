"""Which attention heads of a trained Transformer align words, found with words that both languages write alike."""

import numpy as np

from keras_attention.pipelines.marks import words_of
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID

FEWEST, MOST = 30, 300  # words alike
WORDS = (4, 24)  # of a side of the pairs that are used
MOST_PAIRS = 50_000  # that are looked through
MOST_PIECES = 250  # of a side
SENTENCES = 32  # whose weights are computed together
GOOD, AS_GOOD = 0.8, 0.03  # share of the words that the best head finds at least, and by which another may be worse
SIGNS = ".,!?;:()\"'«»“”„…"


def word_weights(translator, pairs):
    """The attention weights between the words of given pairs: of the translations as they are, which nobody searches.

    Args:
        translator: Translator whose network has attention.
        pairs: list of (words of a source, words of its translation), lists of str.

    Returns:
        List with a float array (layers, heads, 2, target words, source words) for each pair: the sums over the pieces
        of two words at the step that writes a piece, and at the next step, which reads it. None instead where the
        pieces of a side are not those of its words, or more than `MOST_PIECES` or the network's learned positions.
    """
    sides = [_pieces(translator, *pair) for pair in pairs]
    known = [i for i, side in enumerate(sides) if side]
    of_pairs = [None] * len(pairs)
    for start in range(0, len(known), SENTENCES):
        group = known[start : start + SENTENCES]
        sources = _padded([[*sides[i][0], END_ID] for i in group])
        targets = _padded([[START_ID, *sides[i][2]] for i in group])
        inputs = {"source_ids": sources, "target_ids": targets}
        for i, weights in zip(group, np.asarray(translator.network.cross_attention(inputs)), strict=True):
            of_pairs[i] = _between_words(weights, *sides[i])
    return of_pairs


def _pieces(translator, source, target):
    """Ids of a side's pieces, and the word of each, for both sides; None where `word_weights` has None."""
    network, most, sides = translator.network, MOST_PIECES, []
    if getattr(network, "positions", None) == "learned":
        most = min(most, network.max_length - 1)  # with START or END
    for tokenizer, words in ((translator.source_tokenizer, source), (translator.target_tokenizer, target)):
        (ids,) = tokenizer.encode([" ".join(words)])
        of_words = words_of(tokenizer.tokens(ids))
        if not of_words or of_words[-1] + 1 != len(words) or len(ids) > most:
            return None
        sides += [list(ids), of_words]
    return sides


def _padded(rows):
    array = np.full((len(rows), max(map(len, rows))), PAD_ID, "int32")
    for at, row in zip(array, rows, strict=True):
        at[: len(row)] = row
    return array


def _between_words(weights, source_ids, of_source, target_ids, of_target):
    """Weights (L, H, steps, source pieces) as those of words (L, H, 2, target words, source words)."""
    steps, pieces = len(target_ids), len(source_ids)
    both = np.stack([weights[:, :, :steps, :pieces], weights[:, :, 1 : steps + 1, :pieces]], axis=2)
    by_source = np.zeros((*both.shape[:4], of_source[-1] + 1))
    np.add.at(by_source, (..., of_source), both)
    by_both = np.zeros((*both.shape[:3], of_target[-1] + 1, of_source[-1] + 1))
    np.add.at(by_both, (slice(None), slice(None), slice(None), of_target), by_source)
    return by_both


def words_alike(source, target):
    """Names and numbers that stand once in each of two sentences, and so are translations of each other.

    Args:
        source, target: list of str, words.

    Returns:
        List of (position in the source, position in the target).
    """
    source, target = ([word.strip(SIGNS) for word in words] for words in (source, target))
    return [
        (source.index(word), position)
        for position, word in enumerate(target)
        if len(word) > 1 and (word[0].isdigit() or word[0].isupper()) and source.count(word) == target.count(word) == 1
    ]


def alignment_heads(translator, sources, targets):
    """The heads that attend, at the step that reads a word, to the word of which it is the translation.

    A decoder looks for the word that it has just read in its first layers (Chen et al. 2020,
    https://arxiv.org/abs/2004.14837). No alignments by hand are needed: names and numbers are the same on both sides.

    Args:
        translator: Translator.
        sources, targets: lists of str, pairs such as those of the training.

    Returns:
        List of [layer, head], from 0: the best head, and those that are nearly as good. None if the network has a
        single head, the pairs have too few such words, or no head finds them.
    """
    model = translator.network
    if getattr(model, "num_heads", 1) == 1 or not translator.has_attention:
        return None
    pairs, places = [], []
    for source, target in zip(sources[:MOST_PAIRS], targets[:MOST_PAIRS], strict=True):
        pair = source.split(), target.split()
        if all(WORDS[0] <= len(words) <= WORDS[1] for words in pair) and (alike := words_alike(*pair)):
            pairs.append(pair)
            places.append(alike)
            if sum(map(len, places)) >= MOST:
                break
    weights = word_weights(translator, pairs)
    is_found = [
        one[:, :, 1, t].argmax(axis=-1) == s  # (layers, heads)
        for one, alike in zip(weights, places, strict=True)
        for s, t in alike
        if one is not None
    ]
    if len(is_found) < FEWEST:
        return None
    shares = np.mean(is_found, axis=0)  # (layers, heads)
    heads = np.argwhere(shares >= max(GOOD, shares.max() - AS_GOOD)).tolist()
    return heads or None
