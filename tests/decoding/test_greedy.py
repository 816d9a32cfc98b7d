import numpy as np
import pytest
from decoding.random_model import END, PAD, SPECIAL, START, UNKNOWN, RandomModel, tokens_of, words
from keras import ops
from layer_checks import EXECUTIONS

from keras_attention.decoding import greedy_search

pytestmark = pytest.mark.sampled(3)


def greedy_by_hand(model, row, max_length, min_length, forbidden):
    tokens = ()
    while len(tokens) < max_length and END not in tokens:
        allowed = words(model, forbidden) + ([END] if len(tokens) + 1 >= min_length else [])
        tokens += (max(sorted(allowed), key=lambda token: model.log_prob(row, (*tokens, token))),)
    return tokens


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize(("min_length", "unknown_id"), [(0, None), (3, UNKNOWN)])
def test_takes_the_most_probable_token(execution, min_length, unknown_id):
    model = RandomModel(11, 13, seed=1, ends=1.0)
    limits = np.array([7, 2, 5, 1, 7, 7, 3, 7, 7, 7, 7])

    @EXECUTIONS[execution]
    def run():
        options = {"max_length": limits, "max_steps": 7, "min_length": min_length, "unknown_id": unknown_id}
        return greedy_search(model.step, model.state(), 11, **SPECIAL, **options)

    actual = run()
    assert actual.token_ids.shape == (11, 1, 7)
    for row in range(11):
        expected = greedy_by_hand(model, row, limits[row], min_length, [unknown_id])
        assert tokens_of(actual, row) == expected
        np.testing.assert_allclose(actual.log_probs[row, 0], model.log_prob(row, expected), rtol=1e-5)
        np.testing.assert_array_equal(actual.scores[row], actual.log_probs[row])


def test_other_rows_never_change_an_answer():
    model = RandomModel(5, 13, seed=2)
    together = greedy_search(model.step, model.state(), 5, **SPECIAL, max_length=7)
    for row in range(5):
        alone = greedy_search(model.step, model.state([row]), 1, **SPECIAL, max_length=7)
        np.testing.assert_array_equal(alone.token_ids[0], together.token_ids[row])


def test_stops_when_all_rows_are_done():
    steps = []

    def step(token_ids, state):
        steps.append(token_ids.numpy().tolist())
        return ops.one_hot([5, END], 7) if len(steps) == 1 else ops.one_hot([END, 5], 7), state

    hypotheses = greedy_search(step, {"unused": ops.zeros(2)}, 2, **SPECIAL, max_length=97)
    assert [tokens_of(hypotheses, row) for row in range(2)] == [(5, END), (END,)]
    assert steps == [[START, START], [5, END]]


def test_ties_go_to_the_lower_id_and_special_tokens_are_never_generated():
    logits = np.zeros((1, 7), "float32")
    logits[0, [PAD, START]] = 50.0
    answer = greedy_search(lambda ids, state: (ops.convert_to_tensor(logits), state), [], 1, **SPECIAL, max_length=3)
    assert tokens_of(answer, 0) == (UNKNOWN,) * 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "`max_length` must be at least 1 token. Received: max_length=0"),
        ({"min_length": 8}, "Received: min_length=8, max_length=7"),
        ({"pad_id": END}, f"Received: start_id={START}, end_id={END}, pad_id={END}"),
    ],
)
def test_bad_arguments_are_named(options, message):
    model = RandomModel(1, 5)
    with pytest.raises(ValueError, match=message):
        greedy_search(model.step, model.state(), 1, **{**SPECIAL, "max_length": 7, **options})
