"""A random model whose every distribution depends on all tokens before it, as a step function and as plain loops."""

import itertools
import math

import numpy as np
from keras import ops

PAD, UNKNOWN, START, END = 0, 1, 2, 3
SPECIAL = {"start_id": START, "end_id": END, "pad_id": PAD}
HISTORIES = 101


class RandomModel:
    """Looks logits and attention up by (row, hash of the tokens so far).

    Args:
        rows, vocabulary, source_length: ints, B, V and S.
        seed: int.
        ends: float, added to the logit of END.
    """

    def __init__(self, rows, vocabulary, source_length=1, seed=0, ends=0.0):
        random = np.random.default_rng(seed)
        self.rows, self.vocabulary = rows, vocabulary
        logits = random.normal(scale=2.0, size=(rows, HISTORIES, vocabulary)).astype("float32")
        logits[:, :, END] += ends
        attention = random.gamma(0.3, size=(rows, HISTORIES, source_length)) + 1e-6
        self.source_mask = np.arange(source_length) <= np.arange(rows)[:, None] % source_length
        self.logits = logits
        self.attention = (attention / attention.sum(-1, keepdims=True)).astype("float32")
        exact = logits.astype("float64")
        self.log_probs = exact - np.log(np.exp(exact).sum(-1, keepdims=True))  # (B, HISTORIES, V)

    def state(self, rows=None):
        rows = np.arange(self.rows) if rows is None else np.asarray(rows)
        return {"row": ops.convert_to_tensor(rows, "int32"), "history": ops.zeros(len(rows), "int32")}

    def step(self, token_ids, state):
        history = (state["history"] * 31 + ops.cast(token_ids, "int32") + 1) % HISTORIES
        entry = state["row"] * HISTORIES + history
        logits = ops.take(self.logits.reshape(-1, self.vocabulary), entry, axis=0)
        attention = ops.take(self.attention.reshape(-1, self.attention.shape[-1]), entry, axis=0)
        return logits, {"row": state["row"], "history": history, "attention": attention}

    def histories(self, tokens):
        """The hashes before each token, and one more: that after the last."""
        states = [(START + 1) % HISTORIES]
        for token in tokens:
            states.append((states[-1] * 31 + int(token) + 1) % HISTORIES)
        return states

    def log_prob(self, row, tokens):
        return sum(self.log_probs[row, h, token] for h, token in zip(self.histories(tokens), tokens, strict=False))

    def score(self, row, tokens, alpha=0.0, beta=0.0):
        """Wu et al. (2016), equation 14, in float64."""
        score = self.log_prob(row, tokens) / ((5 + len(tokens)) / 6) ** alpha
        for i in np.flatnonzero(self.source_mask[row]):
            coverage = sum(float(self.attention[row, h, i]) for h in self.histories(tokens)[:-1])
            score += beta * math.log(min(coverage, 1.0))
        return score


def words(model, forbidden=()):
    """The ids that may be generated, without END."""
    return [token for token in range(model.vocabulary) if token not in {PAD, START, END, *forbidden}]


def all_sequences(model, max_length, min_length=0, forbidden=()):
    """(those that end, those cut at the maximum length), lists of tuples."""
    allowed = words(model, forbidden)
    ended = [
        (*body, END)
        for length in range(max(min_length, 1), max_length + 1)
        for body in itertools.product(allowed, repeat=length - 1)
    ]
    return ended, list(itertools.product(allowed, repeat=max_length))


def repeats(tokens, size):
    """Whether the last `size` tokens occur earlier, too."""
    return any(tokens[i : i + size] == tokens[-size:] for i in range(len(tokens) - size))


def reference_beam_search(
    model, row, beam_size, max_length, min_length=0, forbidden=(), alpha=0.0, beta=0.0, enough=math.inf, ngram=0
):
    """Beam search with lists, until `enough` hypotheses have ended: all of them, best first, those without END last."""
    live, finished = [()], []
    for length in range(1, max_length + 1):
        continuations = []
        for beam, tokens in enumerate(live):
            for token in [*words(model, forbidden), END]:
                if (token != END or length >= min_length) and not (ngram and repeats((*tokens, token), ngram)):
                    continuations.append((-model.log_prob(row, (*tokens, token)), beam, token))
        continuations.sort()
        finished += [(*live[beam], END) for _, beam, token in continuations[:beam_size] if token == END]
        live = [(*live[beam], token) for _, beam, token in continuations if token != END][:beam_size]
        if len(finished) >= (1 if beam_size == 1 else enough):
            break

    def best_first(hypotheses):
        return sorted(hypotheses, key=lambda tokens: -model.score(row, tokens, alpha, beta))

    return best_first(finished) + best_first(live)


def tokens_of(hypotheses, row, place=0):
    """The tokens of one hypothesis as a tuple of ints, after a check that only padding follows."""
    length = int(hypotheses.lengths[row, place])
    token_ids = np.asarray(hypotheses.token_ids[row, place])
    assert (token_ids[length:] == PAD).all()
    assert not {PAD, START} & set(token_ids[:length])
    assert END not in token_ids[: max(length - 1, 0)]
    return tuple(token_ids[:length].tolist())


def transformers_beam_search(model, row, beam_size, max_length, alpha, early_stopping=False):
    """The rules of `generate` in transformers, with lists: the K best hypotheses; the last token is END, for nothing.

    It ends when K hypotheses have ended and, unless `early_stopping`, no live beam divided by its present length beats
    the worst of them.
    """
    live, finished = [()], []

    def by_length(tokens):
        free = len(tokens) == max_length and tokens[-1] == END
        return model.log_prob(row, tokens[:-1] if free else tokens) / len(tokens) ** alpha

    for length in range(1, max_length + 1):
        if length == max_length:
            finished += [(*tokens, END) for tokens in live]
            return sorted(finished, key=by_length, reverse=True)[:beam_size]
        continuations = sorted(
            (-model.log_prob(row, (*tokens, token)), beam, token)
            for beam, tokens in enumerate(live)
            for token in [*words(model), END]
        )
        finished += [(*live[beam], END) for _, beam, token in continuations[:beam_size] if token == END]
        finished = sorted(finished, key=by_length, reverse=True)[:beam_size]
        live = [(*live[beam], token) for _, beam, token in continuations if token != END][:beam_size]
        full = len(finished) == beam_size
        if full and (early_stopping or by_length(live[0]) <= by_length(finished[-1])):
            break
    return finished
