import numpy as np
import pytest
from decoding.random_model import END, SPECIAL, UNKNOWN, RandomModel, all_sequences, tokens_of, words
from keras import ops
from layer_checks import EXECUTIONS

from keras_attention.decoding import Hypotheses, sample
from keras_attention.decoding.sampling import draw, keep_nucleus

pytestmark = pytest.mark.sampled(3)

DRAWS = 20011


def sample_row(model, row, draws=DRAWS, execution="graph", **options):
    """Draws many sequences of one row: a list of token tuples."""
    state = model.state([row] * draws)
    hypotheses = EXECUTIONS[execution](lambda: sample(model.step, state, draws, **{**SPECIAL, **options}))()
    hypotheses = Hypotheses(*map(np.asarray, hypotheses))
    return [tokens_of(hypotheses, place) for place in range(draws)], hypotheses


def check_frequencies(drawn, probabilities):
    """Pearson's statistic lies within five standard deviations of its mean, the degrees of freedom."""
    counts = {outcome: 0 for outcome in probabilities}
    for outcome in drawn:
        counts[outcome] += 1
    total = sum(probabilities.values())
    assert abs(total - 1) < 1e-6
    statistic = sum((counts[o] - len(drawn) * p) ** 2 / (len(drawn) * p) for o, p in probabilities.items())
    freedom = len(probabilities) - 1
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


def renormalised(model, row, tokens, temperature=1.0, forbidden=()):
    """The probability of a sequence when each step's distribution is sharpened and cut to the allowed tokens."""
    probability = 1.0
    for place, token in enumerate(tokens):
        allowed = [*words(model, forbidden), END]
        prefix = tokens[:place]
        weights = {t: np.exp(model.log_prob(row, (*prefix, t)) - model.log_prob(row, prefix)) for t in allowed}
        weights = {t: weight ** (1 / temperature) for t, weight in weights.items()}
        probability *= weights[token] / sum(weights.values())
    return probability


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "unknown_id"), [(1.0, None), (0.6, UNKNOWN), (2.5, None)])
def test_frequencies_are_the_probabilities(temperature, unknown_id):
    model = RandomModel(1, 7, seed=3)
    model.log_probs /= 2
    model.logits /= 2
    forbidden = [unknown_id]
    ended, cut = all_sequences(model, 2, forbidden=forbidden)
    drawn, hypotheses = sample_row(model, 0, seed=5, temperature=temperature, unknown_id=unknown_id, max_length=2)
    check_frequencies(drawn, {t: renormalised(model, 0, t, temperature, forbidden) for t in ended + cut})


def test_reported_log_probability_is_the_models_own():
    model = RandomModel(1, 11, seed=4)
    drawn, hypotheses = sample_row(model, 0, 53, seed=1, temperature=3.0, top_k=5, max_length=7)
    assert len(set(drawn)) > 7
    for place, tokens in enumerate(drawn):
        np.testing.assert_allclose(hypotheses.log_probs[place, 0], model.log_prob(0, tokens), rtol=1e-5)


@pytest.mark.parametrize(("top_k", "top_p"), [(1, 1.0), (3, 1.0), (0, 0.5), (0, 0.9), (0, 1e-6), (5, 0.7), (97, 1.0)])
def test_only_the_most_probable_are_drawn(top_k, top_p):
    model = RandomModel(1, 23, seed=6)
    model.logits /= 2
    model.log_probs = np.log(np.exp(model.log_probs / 2) / np.exp(model.log_probs / 2).sum(-1, keepdims=True))
    weights = {token: np.exp(model.log_prob(0, (token,))) for token in [*words(model), END]}
    kept = sorted(weights, key=lambda token: -weights[token])[: top_k or None]
    total, reached = sum(weights[token] for token in kept), 0.0
    nucleus = []
    for token in kept:
        if reached < top_p:
            nucleus.append(token)
            reached += weights[token] / total
    drawn, _ = sample_row(model, 0, seed=7, top_k=top_k, top_p=top_p, max_length=1)
    total = sum(weights[token] for token in nucleus)
    assert {tokens[0] for tokens in drawn} == set(nucleus)
    if len(nucleus) > 1:
        check_frequencies(drawn, {(token,): weights[token] / total for token in nucleus})


@pytest.mark.slow
def test_a_row_depends_on_its_own_key_and_seed_only():
    model = RandomModel(5, 13, seed=8)

    def run(rows, keys, seed=11):
        options = {"seed": seed, "sentence_keys": np.array(keys), "max_length": 11}
        return np.asarray(sample(model.step, model.state(rows), len(rows), **SPECIAL, **options).token_ids)[:, 0]

    together = run([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    for row in range(5):
        np.testing.assert_array_equal(run([row], [row])[0], together[row])
    np.testing.assert_array_equal(run([4, 2, 2], [4, 2, 2]), together[[4, 2, 2]])
    default = sample(model.step, model.state(), 5, **SPECIAL, seed=11, max_length=11)
    np.testing.assert_array_equal(default.token_ids[:, 0], together)
    assert (run([0] * 5, range(5)) != run([0] * 5, range(5, 10))).any()
    assert (run([0] * 5, range(5), seed=12) != run([0] * 5, range(5))).any()


def test_minimum_length_forbids_end():
    model = RandomModel(1, 7, seed=9, ends=4.0)
    drawn, _ = sample_row(model, 0, 101, seed=2, min_length=3, max_length=5)
    assert {len(tokens) for tokens in drawn} == {3, 4, 5}


@pytest.mark.parametrize("execution", ["eager", "xla"])
def test_compiled_sampling_gives_the_same_answer(execution):
    model = RandomModel(1, 1031, seed=10)
    options = {"seed": 3, "top_k": 7, "top_p": 0.9, "max_length": 5}
    drawn, _ = sample_row(model, 0, 53, execution=execution, **options)
    assert drawn == sample_row(model, 0, 53, **options)[0]


def test_a_seed_may_be_a_tensor():
    model = RandomModel(1, 13, seed=11)
    number, _ = sample_row(model, 0, 53, seed=2**40 + 7, max_length=3)
    tensor, _ = sample_row(model, 0, 53, seed=ops.convert_to_tensor(7, "int32"), max_length=3)
    assert number == tensor


@pytest.mark.parametrize("uniform", [0.0, 1 - 2.0**-24])
def test_the_ends_of_the_unit_interval_draw_a_possible_token(uniform):
    logits = np.full((1, 8009), -np.inf, "float32")
    logits[0, 2:7001] = np.random.default_rng(0).normal(size=6999)
    assert 2 <= int(draw(ops.convert_to_tensor(logits), ops.convert_to_tensor([uniform]))[0]) < 7001


@pytest.mark.sampled(1)
@pytest.mark.parametrize("top_p", [1e-6, 0.1, 0.5, 0.9, 0.97, 0.999])
@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_nucleus_is_that_of_an_exact_sort(top_p, scale):
    """The fewest of the most probable tokens whose total reaches `top_p`, up to rounding at the last one."""
    logits = np.random.default_rng(5).normal(0, scale, (17, 1009)).astype("float32")
    kept = np.asarray(keep_nucleus(ops.convert_to_tensor(logits), top_p)) > -np.inf
    probabilities = np.exp(logits.astype("float64"))
    probabilities = -np.sort(-probabilities / probabilities.sum(-1, keepdims=True), axis=-1)
    sums = np.cumsum(probabilities, axis=-1)
    for row, count in enumerate(kept.sum(-1)):
        assert sums[row, count - 1] >= top_p - 1e-5
        assert count == 1 or sums[row, count - 2] < top_p + 1e-5
        assert kept[row, np.argsort(-logits[row])[:count]].all()


def test_nucleus_keeps_equals_of_the_last_one_kept():
    logits = np.log(np.array([[0.1, 0.4, 0.2, 0.2, 0.1]], "float32"))
    kept = np.asarray(keep_nucleus(ops.convert_to_tensor(logits), 0.5)) > -np.inf
    assert kept.tolist() == [[False, True, True, True, False]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, r"`temperature` must be greater than 0 and at most 3e\+38. Received: temperature=0.0"),
        ({"temperature": 1e300}, r"Received: temperature=1e\+300"),
        ({"temperature": float("inf")}, "Received: temperature=inf"),
        ({"temperature": float("nan")}, "Received: temperature=nan"),
        ({"top_k": -1}, "`top_k` must be at least 0. Received: top_k=-1"),
        ({"top_p": 0.0}, r"`top_p` must lie in \(0, 1\]. Received: top_p=0.0"),
        ({"top_p": 1.5}, "Received: top_p=1.5"),
        ({"max_length": 0}, "Received: max_length=0"),
        ({"min_length": 8}, "Received: min_length=8, max_length=7"),
    ],
)
def test_bad_arguments_are_named(options, message):
    model = RandomModel(1, 5)
    with pytest.raises(ValueError, match=message):
        sample(model.step, model.state(), 1, **{**SPECIAL, "seed": 0, "max_length": 7, **options})
