"""The length and coverage penalties of Wu et al. (2016), equation 14."""

from keras import ops

SMALLEST_COVERAGE = 1e-30


def length_divisor(lengths, alpha):
    """Returns lp(Y) = ((5 + |Y|) / 6) ** alpha as float32; alpha = 0 gives 1, the plain log probability.

    Args:
        lengths: int tensor of any shape, tokens including END.
        alpha: float >= 0.

    Source: Wu et al. (2016), Google's Neural Machine Translation System, eq. 14, https://arxiv.org/abs/1609.08144.
    The paper prints (5 + 1) ** alpha in the denominator; this is the same number.
    """
    return ops.power((5.0 + ops.cast(lengths, "float32")) / 6.0, alpha)


def coverage_bonus(coverage, source_mask, beta):
    """Returns cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1)), at most 0.

    Args:
        coverage: float tensor (..., S), the attention summed over the tokens so far (sum_j p_ij in the paper).
        source_mask: bool tensor that broadcasts to (..., S), True at real source positions.
        beta: float >= 0.

    Source: Wu et al. (2016), eq. 14. Coverage below 1e-30 counts as 1e-30, so that a position that was never looked at
    costs much and not infinity.
    """
    logs = ops.log(ops.clip(coverage, SMALLEST_COVERAGE, 1.0))  # (..., S)
    return beta * ops.sum(ops.where(source_mask, logs, 0.0), axis=-1)
