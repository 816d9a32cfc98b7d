"""Word alignments of sentence pairs, learned from the pairs alone: IBM model 1 with a diagonal prior, by agreement."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from keras_attention.data.batches import padded_sequences
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, TokenSequences

ITERATIONS = 5
TENSION = 4.0  # lambda: how strongly the prior prefers the diagonal
NO_PARTNER = 0.08  # p_0: prior probability that a token is the translation of nothing
THRESHOLD = 0.25  # smallest product of the two posteriors of a link: 0.5 in each direction
MOST_CELLS = 1 << 20  # of a block


class Block(NamedTuple):
    """Sentence pairs of similar lengths, T target and S source tokens at most.

    Attributes:
        numbers: int (B,), the pairs in the corpus.
        cells: int32 (B, T, S), the place of each pair of tokens in the tables; padding has the last place.
        source_lengths, target_lengths: int (B,), without END.
    """

    numbers: np.ndarray
    cells: np.ndarray
    source_lengths: np.ndarray
    target_lengths: np.ndarray


class AlignmentModel:
    """Which tokens of two sentences are translations of each other, learned by expectation maximization.

        p(i | j) ~ (1 - p_0) d(i, j) / sum_i d(i, j)  p(t_j | s_i)        d(i, j) = exp(-lambda |i / S - j / T|)
        p(no partner | j) ~ p_0 p(t_j)
        E: c(s, t) = sum over the pairs of tokens s_i = s, t_j = t of p(i | j) p(j | i)
        M: p(t | s) = c(s, t) / sum_t c(s, t)        p(s | t) = c(s, t) / sum_s c(s, t)

    p(j | i) is the same from target to source; i and j are the middles of the tokens, and ~ stands for a sum of 1 over
    all i and "no partner". Only links on which both directions agree are counted, so that both share the counts.

    Needs some six bytes for each pair of tokens of two sentences: 250 MB for 100,000 pairs of 20 tokens on each side.

    Args:
        corpus: ParallelCorpus; END is not aligned.

    Attributes:
        keys: int64 (K,), s * (number of target ids) + t of the pairs of tokens that occur, in order.
        forward, backward: float32 (K + 1,), p(t | s) and p(s | t) of each of `keys`, then 0 for padding.
        blocks: list of Block.

    Source: Brown et al. (1993), model 1, https://aclanthology.org/J93-2003; prior: Dyer et al. (2013), section 2,
    https://aclanthology.org/N13-1073; product of the posteriors: Liang et al. (2006), https://aclanthology.org/N06-1014.
    Differences: lambda and p_0 are fixed, and a token without a partner has the
    probability p(t), its relative frequency.
    """

    def __init__(self, corpus: ParallelCorpus):
        self.size = int(corpus.target.values.max()) + 1
        frequency = [np.bincount(side.values) / len(side.values) for side in (corpus.source, corpus.target)]
        self._of_sources, self._of_targets = (NO_PARTNER * one.astype("float32") for one in frequency)
        self._corpus, self.blocks, found = corpus, [], []
        for numbers in _similar_lengths(corpus):
            source_lengths, target_lengths = (side.lengths[numbers] - 1 for side in (corpus.source, corpus.target))
            sources, targets = self._tokens(numbers, source_lengths, target_lengths)
            keys = sources[:, None, :].astype("int64") * self.size + targets[:, :, None]  # (B, T, S)
            keys[~_real(source_lengths, target_lengths)] = -1
            distinct, cells = np.unique(keys, return_inverse=True)
            found.append(distinct)
            self.blocks.append(
                Block(numbers, cells.reshape(keys.shape).astype("int32"), source_lengths, target_lengths)
            )
        everything = np.unique(np.concatenate(found))
        self.keys = everything[everything >= 0]
        for block, distinct in zip(self.blocks, found, strict=True):
            places = np.where(distinct < 0, len(self.keys), np.searchsorted(self.keys, distinct)).astype("int32")
            block.cells[:] = places[block.cells]
        self.forward, self.backward = (
            np.full(len(self.keys) + 1, 1 / np.count_nonzero(one)) for one in frequency[::-1]
        )
        self.forward, self.backward = self.forward.astype("float32"), self.backward.astype("float32")
        self.forward[-1] = self.backward[-1] = 0

    def update(self) -> None:
        """One step of expectation maximization."""
        counts = np.zeros(len(self.keys) + 1)
        for block in self.blocks:
            counts += np.bincount(block.cells.ravel(), self.posteriors(block).ravel(), len(counts))
        counts = counts[:-1]
        for table, tokens in ((self.forward, self.keys // self.size), (self.backward, self.keys % self.size)):
            totals = np.bincount(tokens, counts)
            table[:-1] = counts / np.maximum(totals, 1e-30)[tokens]

    def posteriors(self, block: Block) -> np.ndarray:
        """p(i | j) p(j | i) of each pair of tokens: float32 (B, T, S), 0 at padding."""
        lengths = block.source_lengths, block.target_lengths
        sources, targets = self._tokens(block.numbers, *lengths)
        near = _nearness(*lengths)
        product = np.ones((), "float32")
        sides = (
            (self.forward, self._of_targets[targets][:, :, None], 2),
            (self.backward, self._of_sources[sources][:, None, :], 1),
        )
        for table, alone, axis in sides:
            prior = near * ((1 - NO_PARTNER) / np.maximum(near.sum(axis=axis, keepdims=True), 1e-30))
            joint = prior * table[block.cells]  # (B, T, S)
            product = product * (joint / np.maximum(joint.sum(axis=axis, keepdims=True) + alone, 1e-30))
        return product

    def links(self) -> TokenSequences:
        """The links of each pair of the corpus: `values` is int32 (total, 2), target and source position from 0."""
        numbers, places = [], []
        for block in self.blocks:
            pair, target, source = np.nonzero(self.posteriors(block) >= THRESHOLD)
            numbers.append(block.numbers[pair])
            places.append(np.stack([target, source], axis=1))
        numbers, places = np.concatenate(numbers), np.concatenate(places)
        counts = np.bincount(numbers, minlength=len(self._corpus))
        values = places[np.argsort(numbers, kind="stable")].astype("int32")
        return TokenSequences(values, np.concatenate([[0], np.cumsum(counts)]).astype("int64"))

    def _tokens(self, numbers, source_lengths, target_lengths):
        """The ids of the pairs with these numbers: (B, S) and (B, T)."""
        sides = (self._corpus.source, source_lengths), (self._corpus.target, target_lengths)
        return [padded_sequences(sequences, numbers, lengths.max()) for sequences, lengths in sides]


def with_links(corpus: ParallelCorpus, iterations: int = ITERATIONS) -> ParallelCorpus:
    """The same corpus with the `links` of an AlignmentModel after `iterations` (int > 0) steps."""
    model = AlignmentModel(corpus)
    for _ in range(iterations):
        model.update()
    return replace(corpus, links=model.links())


def _similar_lengths(corpus):
    """Yields the numbers of the pairs (B,) of each block, ordered by their lengths."""
    sources, targets = corpus.source.lengths, corpus.target.lengths
    order = np.lexsort((np.where(targets % 2, sources, -sources), targets))  # neighbours are alike in both lengths
    start = 0
    while start < len(order):
        rest = order[start : start + MOST_CELLS]
        cells = np.maximum.accumulate(sources[rest]) * np.maximum.accumulate(targets[rest])
        end = max(1, np.searchsorted(cells * np.arange(1, len(rest) + 1), MOST_CELLS))
        yield rest[:end]
        start += end


def _real(source_lengths, target_lengths):
    """bool (B, T, S), whether both are tokens."""
    sources, targets = (np.arange(x.max()) < x[:, None] for x in (source_lengths, target_lengths))
    return targets[:, :, None] & sources[:, None, :]


def _nearness(source_lengths, target_lengths):
    """d(i, j), float32 (B, T, S), 0 at padding."""
    sources, targets = (
        ((np.arange(x.max()) + 0.5) / x[:, None]).astype("float32") for x in (source_lengths, target_lengths)
    )
    near = np.exp(-TENSION * np.abs(targets[:, :, None] - sources[:, None, :]))
    return near * _real(source_lengths, target_lengths)
