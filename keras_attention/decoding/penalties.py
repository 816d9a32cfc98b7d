"""The length and coverage penalties of Wu et al. (2016), equation 14."""

from keras import ops

LEAST_COVERAGE = 1e-30


class Penalties:
    """Converts log probabilities to scores: log P(Y) / lp(Y) + cp(X; Y).

    Args:
        alpha: float >= 0, strength of the length penalty.
        beta: float >= 0, strength of the coverage penalty.
        source_mask: bool tensor (B, S), True at real source positions; unused if `beta` is 0.

    Source: Wu et al. (2016), eq. 14, https://arxiv.org/abs/1609.08144. See `length_penalty` and `coverage_penalty`.
    """

    def __init__(self, alpha, beta, source_mask):
        self.alpha = alpha
        self.beta = beta
        self.source_mask = ops.convert_to_tensor(source_mask, "bool") if beta else None
        self.source_length = self.source_mask.shape[-1] if beta else 0

    def take(self, rows):
        """Returns those of the rows (M,) of sources."""
        return Penalties(self.alpha, self.beta, ops.take(self.source_mask, rows, axis=0) if self.beta else None)

    def score(self, log_probs, length, coverage):
        """Returns the scores (B, K) of log probabilities (B, K), one length, and coverage (B, K, S)."""
        scores = log_probs / length_penalty(length, self.alpha)
        return scores + coverage_penalty(coverage, self.source_mask[:, None, :], self.beta) if self.beta else scores

    def bound(self, log_probs, limits):
        """Returns an upper bound of the scores of all continuations: log probabilities (B,), maximum lengths (B,)."""
        return log_probs / length_penalty(limits, self.alpha)


def length_penalty(lengths, alpha):
    """Returns lp(Y) = ((5 + |Y|) / 6) ** alpha, float32; lengths are int tensors and count END. alpha = 0 gives 1."""
    return ops.power((5.0 + ops.cast(lengths, "float32")) / 6.0, alpha)


def coverage_penalty(coverage, source_mask, beta):
    """Returns cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1)), at most 0.

    Coverage below 1e-30 counts as 1e-30, so that a position without attention has a large, but finite penalty.

    Args:
        coverage: float32 tensor (..., S), sum_j p_ij: the attention summed over the tokens so far, END's included.
        source_mask: bool tensor that broadcasts to (..., S), True at real source positions.
        beta: float >= 0.
    """
    logs = ops.log(ops.clip(coverage, LEAST_COVERAGE, 1.0))  # (..., S)
    return beta * ops.sum(ops.where(source_mask, logs, 0.0), axis=-1)
