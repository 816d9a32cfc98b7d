"""The result of a search, the scores of hypotheses, the states of beams, and the replacement of unknown tokens."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops, tree

Tensor = Any  # tensor of the Keras backend
Step = Callable[..., tuple[Tensor, Any]]


class Hypotheses(NamedTuple):
    """The hypotheses of each sentence, best first. B sentences, N hypotheses for each, L = the largest allowed length.

    Lengths count END. A hypothesis that is truncated at the maximum length has no END and comes after all finished
    ones. If a sentence has fewer than N hypotheses, the missing ones are padding, with length 0 and score -infinity.

    Attributes:
        token_ids: int32 (B, N, L), without START, with END, padded with PAD.
        lengths: int32 (B, N), tokens including END.
        scores: float32 (B, N), log probabilities after penalties, which the search maximizes.
        log_probs: float32 (B, N), the summed natural log probability under the model.
    """

    token_ids: Any
    lengths: Any
    scores: Any
    log_probs: Any


def repeat_beams(state: Any, beam_size: int) -> Any:
    """Repeats each tensor except the shared ones: (B, ...) becomes (B * beam_size, ...), with adjacent beams."""
    return _map_own(lambda tensor: ops.repeat(tensor, beam_size, axis=0), state)


def pick(tensor, indices):
    """Picks the entries `indices` (B, M) of each sentence in a tensor (B, W, ...): (B, M, ...)."""
    batch_size, width, *rest = tensor.shape
    places = ops.arange(batch_size, dtype="int32")[:, None] * width + indices
    picked = ops.take(ops.reshape(tensor, (batch_size * width, *rest)), ops.reshape(places, (-1,)), axis=0)
    return ops.reshape(picked, (batch_size, indices.shape[1], *rest))


def take_sequences(state, places):
    """Picks the sequences at `places` (R,) in each tensor except the shared ones: (N, ...) becomes (R, ...)."""
    return _map_own(lambda tensor: ops.take(tensor, places, axis=0), state)


def _map_own(function, state):
    """Maps the tensors of a state, except `state["shared"]`, which the beams share."""
    if not isinstance(state, dict) or "shared" not in state:
        return tree.map_structure(function, state)
    own = {name: value for name, value in state.items() if name != "shared"}
    return {**tree.map_structure(function, own), "shared": state["shared"]}


def has_attention(state):
    """Whether the state is a dict with the attention weights of the last step."""
    return isinstance(state, dict) and "attention" in state


def split_attention(state, keep):
    """Returns (the state, the attention weights or None); the state keeps `state["attention"]` only if `keep` is True.

    A step may return attention weights although the initial state has none, but a loop needs a constant structure.
    """
    if not has_attention(state):
        return state, None
    attention = state["attention"]
    if not keep:
        state = {name: value for name, value in state.items() if name != "attention"}
    return state, attention


LEAST_COVERAGE = 1e-30


class Penalties:
    """Converts log probabilities to scores: log P(Y) / lp(Y) + cp(X; Y).

    Args:
        alpha: float >= 0, strength of the length penalty.
        beta: float >= 0, strength of the coverage penalty.
        source_mask: bool tensor (B, S), True at real source positions; unused if `beta` is 0.
        ranking: one of `RANKINGS`.

    Source: Wu et al. (2016), eq. 14, https://arxiv.org/abs/1609.08144. See `length_penalty` and `coverage_penalty`.
    """

    def __init__(self, alpha, beta, source_mask, ranking="gnmt"):
        self.alpha = alpha
        self.ranking = ranking
        self.beta = beta
        self.source_mask: Tensor = ops.convert_to_tensor(source_mask, "bool") if beta else None
        self.source_length = self.source_mask.shape[-1] if beta else 0

    def take(self, places):
        """Returns the penalties of the sentences at `places` (M,)."""
        source_mask = ops.take(self.source_mask, places, axis=0) if self.beta else None
        return Penalties(self.alpha, self.beta, source_mask, self.ranking)

    def score(self, log_probs, length, coverage):
        """Returns the scores (B, K) of log probabilities (B, K), one length, and coverage (B, K, S)."""
        scores = log_probs / length_penalty(length, self.alpha, self.ranking)
        return scores + coverage_penalty(coverage, self.source_mask[:, None, :], self.beta) if self.beta else scores

    def bound(self, log_probs, length, limits):
        """The score that a live beam may still reach: log probabilities (B,), their length, maximum lengths (B,).

        With the ranking "gnmt", it is an upper bound. With "length", it is the score at the present length, as in
        transformers: a longer hypothesis may have a higher score, which the search then misses.
        """
        return log_probs / length_penalty(limits if self.ranking == "gnmt" else length, self.alpha, self.ranking)


RANKINGS = ("gnmt", "length")


def length_penalty(lengths, alpha, ranking="gnmt"):
    """Returns lp(Y), float32; lengths are int tensors and count END. alpha = 0 gives 1.

    "gnmt": ((5 + |Y|) / 6) ** alpha. "length": |Y| ** alpha, which with alpha = 1 ranks by the mean log probability of
    a token, as Marian and transformers do.
    """
    lengths = ops.cast(lengths, "float32")
    return ops.power((5.0 + lengths) / 6.0 if ranking == "gnmt" else lengths, alpha)


def coverage_penalty(coverage, source_mask, beta):
    """Returns cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1)), at most 0.

    Coverage below 1e-30 counts as 1e-30, so that a position without attention has a large, but finite penalty.

    Args:
        coverage: float32 tensor (..., S), sum_j p_ij: the attention weights summed over all tokens so far, with END.
        source_mask: bool tensor that broadcasts to (..., S), True at real source positions.
        beta: float >= 0.
    """
    logs = ops.log(ops.clip(coverage, LEAST_COVERAGE, 1.0))  # (..., S)
    return beta * ops.sum(ops.where(source_mask, logs, 0.0), axis=-1)


def replace_unknowns(
    token_ids: Sequence[int],
    tokens: list[str],
    attention: np.ndarray,
    source_tokens: list[str],
    unknown_id: int,
) -> list[str]:
    """Returns `tokens`, with each unknown token replaced by the source token with the highest attention weight.

    Args:
        token_ids: ints (T,), the generated ids.
        tokens: list of T str, their texts.
        attention: floats (T, S), `attention[t]` the weights for token t; ties go to the earlier source token.
        source_tokens: list of S str.
        unknown_id: int, the id of the unknown token.

    Returns:
        List of T str.

    Raises:
        ValueError: if the sizes do not agree.

    Source: Luong et al. (2015), Addressing the Rare Word Problem, section 3.3, https://arxiv.org/abs/1410.8206; aligned
    by attention, as in Jean et al. (2015), section 3.3, https://arxiv.org/abs/1412.2007. Difference: no dictionary.
    """
    ids, attention = np.asarray(token_ids), np.asarray(attention)
    expected = (len(ids), len(source_tokens))
    if attention.shape != expected or len(tokens) != len(ids):
        raise ValueError(
            f"`attention` must have shape {expected} and `tokens` one entry per id. "
            f"Received: attention.shape={attention.shape}, len(tokens)={len(tokens)}"
        )
    if not source_tokens:
        return list(tokens)
    attended = attention.argmax(axis=1).tolist()  # (T,)
    return [
        source_tokens[position] if token_id == unknown_id else token
        for token_id, token, position in zip(ids, tokens, attended, strict=True)
    ]
