"""Logits that are not finite, and settings outside of float32's range: no search ever gives a forbidden token."""

import numpy as np
import pytest
from decoding.random_model import END, PAD, SPECIAL, START, UNKNOWN, RandomModel, tokens_of
from keras import ops
from layer_checks import EXECUTIONS

from keras_attention.decoding import beam_search, greedy_search, sample

VOCABULARY, FORBIDDEN = 13, {PAD, START, UNKNOWN}
NAN, INFINITY = float("nan"), float("inf")


def logits_of(kind):
    """Logits (1, V) of a network that is damaged in some way."""
    logits = np.linspace(-2, 2, VOCABULARY, dtype="float32")[None]
    allowed = [token for token in range(VOCABULARY) if token not in FORBIDDEN]
    if kind == "all NaN":
        logits[:] = NAN
    elif kind == "all -infinity":
        logits[:] = -INFINITY
    elif kind == "all +infinity":
        logits[:] = INFINITY
    elif kind == "allowed NaN":
        logits[:, allowed] = NAN
    elif kind == "allowed -infinity":
        logits[:, allowed] = -INFINITY
    elif kind == "one NaN":
        logits[:, 7] = NAN
    elif kind == "forbidden +infinity":
        logits[:, sorted(FORBIDDEN)] = INFINITY
    elif kind == "largest numbers":
        logits[:] = np.where(logits > 0, 3.4e38, -3.4e38)
    return logits


KINDS = (
    "all NaN",
    "all -infinity",
    "all +infinity",
    "allowed NaN",
    "allowed -infinity",
    "one NaN",
    "forbidden +infinity",
    "largest numbers",
)
SEARCHES = {
    "greedy": greedy_search,
    "sample": lambda *args, **options: sample(*args, seed=3, **options),
    "top-k": lambda *args, **options: sample(*args, seed=3, top_k=5, **options),
    "top-p": lambda *args, **options: sample(*args, seed=3, top_p=0.5, **options),
    "all of top-k": lambda *args, **options: sample(*args, seed=3, top_k=VOCABULARY - 1, top_p=0.9, **options),
    "cold": lambda *args, **options: sample(*args, seed=3, temperature=1e-40, **options),
    "hot": lambda *args, **options: sample(*args, seed=3, temperature=3e38, **options),
    "beam": lambda *args, **options: beam_search(*args, beam_size=1, **options),
    "beams": lambda *args, **options: beam_search(*args, beam_size=5, n_best=3, **options),
    "many beams": lambda *args, **options: beam_search(*args, beam_size=17, n_best=17, **options),
}


@pytest.mark.parametrize(
    "execution", ["eager", *(pytest.param(name, marks=pytest.mark.slow) for name in ("graph", "xla"))]
)
def test_forbidden_tokens_are_never_generated(execution):
    logits = np.concatenate([logits_of(kind) for kind in KINDS])  # a sentence of each kind

    def step(token_ids, state):
        return ops.take(ops.convert_to_tensor(logits), state["row"], axis=0), state

    state, fewer = {"row": ops.arange(len(KINDS), dtype="int32")}, ("greedy", "sample", "top-p", "beams")
    for name in SEARCHES if execution == "eager" else fewer:
        options = {**SPECIAL, "unknown_id": UNKNOWN, "max_length": 5}
        hypotheses = EXECUTIONS[execution](
            lambda search=SEARCHES[name], options=options: search(step, state, len(KINDS), **options)
        )()
        for row, kind in enumerate(KINDS):
            for place in range(hypotheses.lengths.shape[1]):
                assert UNKNOWN not in tokens_of(hypotheses, row, place), (name, kind)  # `tokens_of` refuses the others


@pytest.mark.parametrize("limit", [{"temperature": 1e-40}, {"temperature": 1e-300}, {"top_p": 1e-50}, {"top_k": 1}])
def test_settings_that_leave_one_token_are_greedy(limit):
    model = RandomModel(5, 23, seed=2)
    greedy = greedy_search(model.step, model.state(), 5, **SPECIAL, max_length=7)
    drawn = sample(model.step, model.state(), 5, **SPECIAL, seed=1, max_length=7, **limit)
    np.testing.assert_array_equal(drawn.token_ids, greedy.token_ids)


def test_a_damaged_beam_ends_and_the_others_continue():
    """After token 5 the network gives NaN, so no hypothesis contains token 5 and a further one."""

    def step(token_ids, state):
        logits = np.full((token_ids.shape[0], 11), -3.0, "float32")
        logits[:, [5, 6]], logits[:, END] = (2.0, 1.9), 0.5
        return ops.where((token_ids == 5)[:, None], NAN, ops.convert_to_tensor(logits)), state

    hypotheses = beam_search(step, [], 1, **SPECIAL, beam_size=5, n_best=5, max_length=3)
    answers = [tokens_of(hypotheses, 0, place) for place in range(5)]
    assert (END,) in answers
    assert (6, END) in answers
    assert not any(5 in tokens[:-1] for tokens in answers)
    assert np.isfinite(np.asarray(hypotheses.scores)[0, [bool(tokens) for tokens in answers]]).all()


@pytest.mark.parametrize("name", ["length_penalty", "coverage_penalty"])
@pytest.mark.parametrize("value", [1e300, NAN, INFINITY, -1e-3])
def test_penalties_out_of_range_are_refused(name, value):
    options = {name: value, "beam_size": 3, "max_length": 5, "source_mask": np.ones((1, 2), bool)}
    with pytest.raises(ValueError, match=f"`{name}` must lie between 0 and 10. Received: {name}="):
        beam_search(lambda ids, state: (None, state), [], 1, **SPECIAL, **options)
