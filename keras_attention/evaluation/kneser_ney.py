"""An n-gram model with Kneser-Ney smoothing, the baseline of language models."""

import numpy as np

LEAST = 0.1  # smallest discount of a count


class KneserNey:
    """Probabilities of tokens given those before them.

        p(w | c) = (max(a(c w) - D, 0) + (D_1 N_1(c) + D_2 N_2(c) + D_3 N_3(c)) p(w | c without its first token)) / a(c)

    For the longest n-grams, a(c w) is the count of c w; for shorter ones, the number of different tokens before c w.
    a(c) is its sum over w, and N_i(c) the number of tokens w with a(c w) = i (N_3: at least 3). The discount D is D_1,
    D_2 or D_3, likewise, or 0 if a(c w) = 0.

    Args:
        tokens: int array (N,), the training text.
        vocabulary_size: int, greater than all token ids.
        order: int > 0, number of tokens of the longest n-grams.

    Source: Chen & Goodman (1998), "An Empirical Study of Smoothing Techniques for Language Modeling", section 3.4,
    modified Kneser-Ney smoothing, interpolated. The unigrams are interpolated with equal probabilities of all tokens.
    Difference: discounts outside their range, which tiny texts may give, are clipped to it, so no probability is 0.
    """

    def __init__(self, tokens, vocabulary_size, order=5):
        tokens = np.asarray(tokens, "int64")
        self.vocabulary_size = vocabulary_size
        self.tables = []
        numbers = np.zeros(len(tokens) + 1, "int64")  # index of the n-gram that ends before each position
        keys = None
        for n in range(order):
            longer = numbers[:-1] * vocabulary_size + tokens[n:]
            longer_keys, longer_numbers, counts = np.unique(longer, return_inverse=True, return_counts=True)
            if n:
                endings = np.empty(len(longer_keys), "int64")  # for each n-gram, the index of its last n - 1 tokens
                endings[longer_numbers] = numbers[1:]
                self._add(keys, np.bincount(endings, minlength=len(keys)))
            keys, numbers = longer_keys, longer_numbers
        self._add(keys, counts)

    def _add(self, keys, counts):
        """Stores the n-grams of one length: keys are context * vocabulary + token, sorted."""
        frequencies = np.bincount(np.minimum(counts, 5), minlength=6)
        y = frequencies[1] / max(1, frequencies[1] + 2 * frequencies[2])
        discounts = [n - (n + 1) * y * frequencies[n + 1] / max(1, frequencies[n]) for n in (1, 2, 3)]
        discounts = np.array([0.0, *np.clip(discounts, LEAST, (1, 2, 3))])
        taken = discounts[np.minimum(counts, 3)]
        contexts = keys // self.vocabulary_size
        self.tables.append(
            (keys, np.maximum(counts - taken, 0.0), np.bincount(contexts, counts), np.bincount(contexts, taken))
        )

    def log_probabilities(self, tokens):
        """float64 (N,): the natural logarithms of the probabilities of all tokens of a text (N,)."""
        tokens = np.asarray(tokens, "int64")
        probabilities = np.full(len(tokens), 1.0 / self.vocabulary_size)
        contexts = np.zeros(len(tokens), "int64")  # -1: not in the training text
        for keys, discounted, sums, taken in self.tables:
            wanted = contexts * self.vocabulary_size + tokens
            places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            seen = keys[places] == wanted
            known = (contexts >= 0) & (contexts < len(sums))
            total = np.where(known, sums[np.where(known, contexts, 0)], 0.0)
            rest = taken[np.where(known, contexts, 0)]
            counted = np.where(seen, discounted[places], 0.0)
            probabilities = np.where(total > 0, (counted + rest * probabilities) / np.maximum(total, 1), probabilities)
            contexts = np.concatenate([[-1], np.where(seen, places, -1)[:-1]])
        return np.log(probabilities)
