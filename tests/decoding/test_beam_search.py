import numpy as np
import pytest
import tensorflow as tf
from decoding.random_model import (
    END,
    SPECIAL,
    UNKNOWN,
    RandomModel,
    all_sequences,
    reference_beam_search,
    tokens_of,
    transformers_beam_search,
)
from keras import ops
from layer_checks import EXECUTIONS

from keras_attention.decoding import Hypotheses, beam_search, greedy_search
from keras_attention.decoding.hypotheses import take_sequences

pytestmark = pytest.mark.sampled(3)

ALPHAS = (0.0, 0.7, 2.0)


def search(model, rows=None, execution="eager", **options):
    state = model.state(rows)
    if options.get("coverage_penalty"):
        options["source_mask"] = model.source_mask if rows is None else model.source_mask[rows]

    @EXECUTIONS[execution]
    def run():
        return beam_search(model.step, state, len(state["row"]), **{**SPECIAL, **options})

    return Hypotheses(*(field.numpy() for field in run()))


def check_hypotheses(model, hypotheses, expected, row, alpha=0.0, beta=0.0):
    """Equal sequences in equal order, each with the score and log probability that the model gives it."""
    assert [tokens_of(hypotheses, row, place) for place in range(len(expected))] == expected
    for place, tokens in enumerate(expected):
        np.testing.assert_allclose(
            hypotheses.scores[row, place], model.score(row, tokens, alpha, beta), rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(hypotheses.log_probs[row, place], model.log_prob(row, tokens), rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("beta", [0.0, 0.4])
@pytest.mark.parametrize(
    ("vocabulary", "max_length", "min_length", "beam_size"),
    [(5, 5, 0, 53), (7, 3, 0, 83), (5, 5, 3, 53), (7, 2, 2, 23)],
)
def test_a_beam_that_holds_all_sequences_is_exhaustive(
    rows, alpha, beta, vocabulary, max_length, min_length, beam_size
):
    model = RandomModel(rows, vocabulary, source_length=2, seed=rows)
    ended, _ = all_sequences(model, max_length, min_length)
    n_best = min(13, len(ended))
    hypotheses = search(
        model,
        beam_size=beam_size,
        n_best=n_best,
        max_length=max_length,
        min_length=min_length,
        length_penalty=alpha,
        coverage_penalty=beta,
    )
    for row in range(rows):
        expected = sorted(ended, key=lambda tokens: -model.score(row, tokens, alpha, beta))[:n_best]
        check_hypotheses(model, hypotheses, expected, row, alpha, beta)


def test_forbidden_unknown_is_left_out_of_an_exhaustive_search():
    model = RandomModel(2, 7, seed=5)
    ended, _ = all_sequences(model, 3, forbidden=[UNKNOWN])
    hypotheses = search(model, beam_size=47, n_best=13, max_length=3, unknown_id=UNKNOWN)
    for row in range(2):
        expected = sorted(ended, key=lambda tokens: -model.score(row, tokens))[:13]
        check_hypotheses(model, hypotheses, expected, row)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("beam_size", "n_best", "vocabulary", "alpha", "beta", "ends"),
    [
        (1, 1, 13, 0.9, 0.3, 0.0),
        (2, 1, 13, 0.0, 0.0, 0.0),
        (3, 3, 13, 0.6, 0.0, 1.0),
        (5, 2, 13, 1.5, 0.2, -1.0),
        (5, 5, 11, 0.0, 0.5, 2.0),
        (19, 7, 23, 1.0, 0.0, 0.0),
        (3, 2, 1031, 0.6, 0.0, 5.0),
    ],
)
def test_a_small_beam_equals_the_same_algorithm_with_lists(seed, beam_size, n_best, vocabulary, alpha, beta, ends):
    model = RandomModel(3, vocabulary, source_length=5, seed=seed, ends=ends)
    limits = np.array([7, 2, 11])
    options = {"min_length": 2, "length_penalty": alpha, "coverage_penalty": beta, "unknown_id": UNKNOWN}
    hypotheses = search(model, beam_size=beam_size, n_best=n_best, max_length=limits, max_steps=11, **options)
    for row, limit in enumerate(limits):
        expected = reference_beam_search(model, row, beam_size, limit, 2, [UNKNOWN], alpha, beta)[:n_best]
        check_hypotheses(model, hypotheses, expected, row, alpha, beta)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("patience", "enough"), [(1.0, 5), (0.5, 3), (0.1, 2), (1.7, 9)])
def test_patience_ends_a_row_when_enough_hypotheses_have_ended(patience, enough):
    model = RandomModel(7, 13, source_length=3, seed=5)
    options = {"beam_size": 5, "n_best": 2, "max_length": 13, "length_penalty": 2.0}
    hypotheses, certain = search(model, patience=patience, **options), search(model, **options)
    for row in range(7):
        expected = reference_beam_search(model, row, 5, 13, alpha=2.0, enough=enough)[:2]
        check_hypotheses(model, hypotheses, expected, row, alpha=2.0)
    assert (hypotheses.scores < certain.scores).any() == (patience < 1.5)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0, 1.9])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_the_ranking_by_length_follows_the_rules_of_transformers(alpha, early_stopping):
    model = RandomModel(7, 13, source_length=3, seed=11, ends=1.0)
    options = {"beam_size": 3, "n_best": 2, "max_length": 11, "length_penalty": alpha, "ranking": "length"}
    hypotheses = search(model, patience=1.0 if early_stopping else None, force_end=True, **options)
    for row in range(7):
        expected = transformers_beam_search(model, row, 3, 11, alpha, early_stopping)[:2]
        assert [tokens_of(hypotheses, row, place) for place in range(2)] == expected
        lengths = np.array([len(tokens) for tokens in expected])
        np.testing.assert_allclose(hypotheses.scores[row], hypotheses.log_probs[row] / lengths**alpha, rtol=1e-5)
    assert (hypotheses.lengths == 11).any()
    assert (hypotheses.lengths < 11).any() or (alpha > 1.5 and not early_stopping)  # which prefers the longest


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_one_beam_is_greedy_search(alpha):
    model = RandomModel(17, 11, seed=1)
    options = {"max_length": 7, "min_length": 2, "unknown_id": UNKNOWN}
    greedy = greedy_search(model.step, model.state(), 17, **SPECIAL, **options)
    hypotheses = search(model, beam_size=1, length_penalty=alpha, **options)
    np.testing.assert_array_equal(hypotheses.token_ids, greedy.token_ids)
    np.testing.assert_array_equal(hypotheses.lengths, greedy.lengths)
    np.testing.assert_allclose(hypotheses.log_probs, greedy.log_probs, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_compiled_search_gives_the_eager_answer(execution):
    model = RandomModel(3, 1031, source_length=5, seed=3, ends=4.0)
    options = {
        "beam_size": 5,
        "n_best": 2,
        "max_length": np.array([5, 7, 2]),
        "max_steps": 7,
        "length_penalty": 0.6,
        "coverage_penalty": 0.2,
    }
    eager, compiled = search(model, **options), search(model, execution=execution, **options)
    np.testing.assert_array_equal(compiled.token_ids, eager.token_ids)
    np.testing.assert_array_equal(compiled.lengths, eager.lengths)
    np.testing.assert_allclose(compiled.scores, eager.scores, rtol=1e-5)
    np.testing.assert_allclose(compiled.log_probs, eager.log_probs, rtol=1e-5)


@pytest.mark.parametrize("execution", ["eager", "xla"])
def test_other_rows_never_change_an_answer(execution):
    model = RandomModel(5, 13, source_length=3, seed=2)
    options = {"beam_size": 3, "n_best": 2, "max_length": 7, "length_penalty": 0.8, "coverage_penalty": 0.3}
    together = search(model, execution=execution, **options)
    for rows in ([3], [4, 0, 4, 1, 2, 3, 0]):
        hypotheses = search(model, rows, execution, **options)
        for place, row in enumerate(rows):
            np.testing.assert_array_equal(hypotheses.token_ids[place], together.token_ids[row])
            np.testing.assert_allclose(hypotheses.scores[place], together.scores[row], rtol=1e-6)


def test_a_finished_hypothesis_is_frozen():
    """The row that is done early keeps its answer, however long the other rows go on."""
    model = RandomModel(2, 11, seed=4)
    model.logits[0, :, END] = 20.0
    model.logits[1, :, END] = -20.0
    short = search(model, beam_size=3, n_best=3, max_length=2)
    long = search(model, beam_size=3, n_best=3, max_length=13)
    assert long.lengths[0, 0] == 1
    np.testing.assert_array_equal(long.token_ids[0, 0, :2], short.token_ids[0, 0])
    assert tokens_of(long, 0) == (END,)
    assert long.lengths[1, 0] == 13


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_loop_stops_when_nothing_better_is_within_reach(alpha):
    """Once END is certain the search stops soon; the bound allows for the length penalty at the maximum length."""
    steps = []

    def step(token_ids, state):
        steps.append(1)
        logits = np.zeros((6, 11), "float32")
        logits[:, END] = 30.0
        return ops.convert_to_tensor(logits), state

    beam_search(step, {"unused": ops.zeros((2, 1))}, 2, beam_size=3, max_length=97, length_penalty=alpha, **SPECIAL)
    assert len(steps) == 1


def test_a_late_winner_is_not_cut_off():
    """A live beam that is behind now and can win by its length is waited for."""
    longer, word = 8, 5
    logits = np.full((longer + 1, 7), -50.0, "float32")
    logits[0, [END, word]] = np.log([0.6, 0.4])
    logits[1:longer, word] = 0.0
    logits[longer, END] = 0.0

    def step(token_ids, state):
        return ops.take(logits, ops.minimum(state["step"], longer), axis=0), {"step": state["step"] + 1}

    state = {"step": ops.zeros(1, "int32")}
    options = {**SPECIAL, "beam_size": 2, "max_length": 11}
    plain = beam_search(step, state, 1, length_penalty=0.0, **options)
    normalised = beam_search(step, state, 1, length_penalty=1.0, **options)
    assert tokens_of(plain, 0) == (END,)
    assert tokens_of(normalised, 0) == (word,) * longer + (END,)
    np.testing.assert_allclose(normalised.scores[0, 0], np.log(0.4) / ((5 + longer + 1) / 6), rtol=1e-5)


def test_unfinished_hypotheses_come_after_finished_ones():
    model = RandomModel(1, 5, seed=6, ends=-9.0)
    ended, cut = all_sequences(model, 2)
    hypotheses = search(model, beam_size=7, n_best=7, max_length=2, length_penalty=0.5)
    expected = [
        *sorted(ended, key=lambda tokens: -model.score(0, tokens, 0.5)),
        *sorted(cut, key=lambda tokens: -model.score(0, tokens, 0.5)),
    ]
    assert len(expected) == 7
    check_hypotheses(model, hypotheses, expected, 0, 0.5)
    assert hypotheses.scores[0, len(ended)] > hypotheses.scores[0, 0]


def test_missing_hypotheses_are_empty():
    model = RandomModel(2, 5, seed=7)
    hypotheses = search(model, beam_size=7, n_best=7, max_length=np.array([1, 0]), max_steps=3)
    ended, cut = all_sequences(model, 1)
    check_hypotheses(model, hypotheses, ended + sorted(cut, key=lambda tokens: -model.score(0, tokens)), 0)
    assert hypotheses.lengths.tolist() == [[1, 1, 1, 0, 0, 0, 0], [0] * 7]
    assert (hypotheses.scores[0, 3:] == -np.inf).all()
    assert (hypotheses.token_ids[1] == 0).all()


def test_ties_go_to_the_earlier_beam_and_the_lower_id():
    logits = ops.zeros((6, 11))
    answers = beam_search(
        lambda token_ids, state: (logits, state),
        {"unused": ops.zeros((2, 1))},
        2,
        beam_size=3,
        n_best=3,
        max_length=3,
        **SPECIAL,
    )
    for row in range(2):
        assert [tokens_of(answers, row, place) for place in range(3)] == [
            (END,),
            (UNKNOWN, END),
            (UNKNOWN, UNKNOWN, END),
        ]


def test_attention_in_the_first_state_reaches_each_step():
    """A model that feeds its attention back gets that of the right beam."""
    model = RandomModel(2, 7, source_length=3, seed=8)
    seen = []

    def step(token_ids, state):
        seen.append(np.asarray(state["attention"]))
        logits, new = model.step(token_ids, {"row": state["row"], "history": state["history"]})
        expected = ops.take(model.attention.reshape(-1, 3), state["row"] * 101 + state["history"], axis=0)
        if len(seen) > 1:
            np.testing.assert_array_equal(seen[-1], expected)
        return logits, new

    state = {**model.state(), "attention": ops.zeros((2, 3))}
    beam_search(step, state, 2, beam_size=5, max_length=5, min_length=5, **SPECIAL)
    assert len(seen) == 5


@pytest.mark.slow
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_rows_that_are_done_leave_and_change_nothing(execution):
    """37 rows, of which the last 9 go on in a loop of their own; some only fill up, some are cut early."""
    model = RandomModel(37, 13, source_length=5, seed=9, ends=-3.0)
    limits = np.random.default_rng(3).integers(0, 18, 37)
    options = {"beam_size": 3, "n_best": 2, "max_length": limits, "max_steps": 17, **SPECIAL}
    options |= {"length_penalty": 0.7, "coverage_penalty": 0.2, "source_mask": model.source_mask}
    rows = model.state()["row"]
    memory = {"row": rows, "twice": ops.repeat(rows, 2), "unused": ops.zeros((37, 0))}
    seen = []

    def step(token_ids, state, memory):
        count, beams = memory["row"].shape[0], token_ids.shape[0] // memory["row"].shape[0]
        seen.append(count)
        np.testing.assert_array_equal(ops.shape(memory["twice"]), (2 * count,))
        actual = ops.repeat(ops.reshape(memory["twice"], (count, 2))[:, 1], beams)
        return model.step(token_ids, {"row": actual, "history": state["history"]})

    @EXECUTIONS[execution]
    def run():
        return beam_search(step, model.state(), 37, memory=memory, **options)

    actual, expected = run(), beam_search(model.step, model.state(), 37, **options)
    assert sorted(set(seen)) == [9, 37]
    np.testing.assert_array_equal(actual.token_ids, expected.token_ids)
    np.testing.assert_array_equal(actual.lengths, expected.lengths)
    np.testing.assert_allclose(actual.scores, expected.scores, rtol=1e-5)
    np.testing.assert_allclose(actual.log_probs, expected.log_probs, rtol=1e-5)


def test_states_may_be_nested():
    state = ({"a": ops.reshape(ops.arange(6), (3, 2))}, [ops.arange(3)])
    taken = take_sequences(state, ops.convert_to_tensor([2, 0]))
    assert taken[0]["a"].numpy().tolist() == [[4, 5], [0, 1]]
    assert taken[1][0].numpy().tolist() == [2, 0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranking": "mean"}, "`ranking` must be one of gnmt, length. Received: ranking=mean"),
        ({"beam_size": 0}, "`beam_size` must be at least 1. Received: beam_size=0"),
        ({"n_best": 5}, "`n_best` must lie between 1 and beam_size=3. Received: n_best=5"),
        ({"n_best": 0}, "Received: n_best=0"),
        ({"max_length": 0}, "`max_length` must be at least 1 token. Received: max_length=0"),
        ({"min_length": 8}, "Received: min_length=8, max_length=7"),
        ({"min_length": -1}, "Received: min_length=-1"),
        ({"length_penalty": -0.5}, "Received: length_penalty=-0.5"),
        ({"length_penalty": float("nan")}, "Received: length_penalty=nan"),
        ({"coverage_penalty": -2.0}, "Received: coverage_penalty=-2.0"),
        ({"patience": 0}, "`patience` must be positive or None. Received: patience=0"),
        ({"coverage_penalty": 1.0, "source_mask": None}, "`source_mask` is needed"),
        ({"max_length": np.array([3])}, "`max_steps` .* is needed"),
        ({"max_steps": 0}, "Received: max_steps=0"),
        ({"start_id": END}, f"Received: start_id={END}, end_id={END}"),
        ({"unknown_id": END}, f"Received: unknown_id={END}, end_id={END}"),
    ],
)
def test_bad_arguments_are_named(options, message):
    model = RandomModel(1, 5)
    with pytest.raises(ValueError, match=message):
        beam_search(model.step, model.state(), 1, **{**SPECIAL, "beam_size": 3, "max_length": 7, **options})


def test_a_half_precision_model_is_scored_in_float32():
    model = RandomModel(2, 13, seed=9)
    model.logits = np.round(model.logits * 8) / 8

    def step(token_ids, state):
        logits, state = model.step(token_ids, state)
        return tf.cast(logits, "float16"), state

    half = beam_search(step, model.state(), 2, beam_size=3, max_length=7, **SPECIAL)
    full = search(model, beam_size=3, max_length=7)
    assert half.scores.dtype == "float32"
    np.testing.assert_array_equal(half.token_ids, full.token_ids)
    np.testing.assert_array_equal(half.scores, full.scores)
