import numpy as np
import pytest

from keras_attention.decoding.hypotheses import coverage_penalty, length_penalty


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0, 2.5])
def test_length_penalty_is_equation_14(alpha):
    lengths = np.array([0, 1, 7, 53])
    expected = [(5 + length) ** alpha / (5 + 1) ** alpha for length in lengths]
    np.testing.assert_allclose(length_penalty(lengths, alpha), expected, rtol=1e-6)


def test_coverage_penalty_is_equation_14():
    attention = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 7)).astype("float32")  # (B, T, S)
    source_mask = np.arange(5) < np.array([[5], [3]])
    actual = coverage_penalty(attention.sum(axis=1), source_mask, 0.3)
    for b, length in enumerate([5, 3]):
        expected = sum(0.3 * np.log(min(sum(attention[b, :, i]), 1.0)) for i in range(length))
        np.testing.assert_allclose(actual[b], expected, rtol=1e-5)


def test_unattended_source_tokens_cost_a_finite_penalty():
    actual = np.asarray(coverage_penalty(np.array([[0.0, 1.0], [1.0, 2.0]], "float32"), np.ones((1, 2), bool), 1.0))
    assert np.isfinite(actual).all()
    assert actual[0] < -50
    assert actual[1] == 0
