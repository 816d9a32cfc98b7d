"""Word vectors of GloVe or word2vec as the first embeddings of a new network."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from keras_attention.data.word_vectors import WordVectors, read_word_vectors
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import WordPieceTokenizer

EXAMPLES = 5  # frequent words without a vector that are named


class KnownWords(NamedTuple):
    """How many tokens of a vocabulary have a vector.

    Attributes:
        known, total: int, tokens of the vocabulary with a vector, and all of them.
        share: float in [0, 1], tokens of the texts with a vector.
        missing: list of str, the most frequent tokens without a vector.
    """

    known: int
    total: int
    share: float
    missing: list[str]

    def __str__(self):
        missing = f" Frequent ones without: {', '.join(self.missing)}." if self.missing else ""
        return (
            f"Word vectors: {self.known:,} of {self.total:,} tokens have one, which are {100 * self.share:.1f} % of "
            f"the tokens of the texts. The other {self.total - self.known:,} start with random vectors.{missing}"
        )


def read_vectors_for(architecture, settings: FinetuneSettings, entry=None) -> WordVectors | None:
    """The word vectors that the settings name, or None.

    Args:
        architecture: Architecture of the classifier.
        settings: FinetuneSettings.
        entry: Entry of the start with trained weights, or None.

    Raises:
        UserError: if the start has trained embeddings, the network does not choose the width of its embeddings, or the
            file cannot be read.
    """
    if settings.vectors is None:
        return None
    if entry is not None:
        raise UserError("--vectors is for a network with random weights, such as --network han. Leave out --from.")
    if "embedding_dim" not in architecture.settings:
        raise UserError(f"--vectors needs --network han, lstm, gru or lstmn. Found: a {architecture.name}")
    return read_word_vectors(settings.vectors)


def set_embeddings(model, tokenizer: WordPieceTokenizer, vectors: WordVectors, texts: list[str]) -> KnownWords:
    """Sets the vectors of all tokens that are words with a vector; those of the other tokens are drawn.

    Those are drawn from a normal distribution with the mean and the standard deviation of the others, column by column;
    that of padding is 0.

    Args:
        model: built network whose `token_embedding` is as wide as the vectors.
        tokenizer: its WordPieceTokenizer.
        vectors: WordVectors.
        texts: list of str, to count how often tokens occur.

    Returns:
        KnownWords.
    """
    places = [vectors.place(piece) for piece in tokenizer.vocabulary]
    known = np.array([place is not None for place in places])
    known[list(tokenizer.special_ids)] = False
    table = np.zeros((len(places), vectors.vectors.shape[1]), "float32")  # (V, D)
    table[known] = vectors.vectors[[place for place, has in zip(places, known, strict=True) if has]]
    center, spread = (f(table[known], axis=0) if known.any() else 0.0 for f in (np.mean, np.std))
    draw = np.random.default_rng(len(places)).standard_normal(table.shape)
    table[~known] = (center + spread * draw)[~known]
    table[tokenizer.pad_id] = 0.0
    model.token_embedding.embeddings.assign(table)
    counts = Counter()
    for ids in tokenizer.encode(texts):
        counts.update(ids.tolist())
    total = max(1, counts.total())
    missing = [tokenizer.vocabulary[i] for i, _ in counts.most_common() if not known[i]][:EXAMPLES]
    return KnownWords(
        int(known.sum()), len(places), sum(count for i, count in counts.items() if known[i]) / total, missing
    )
