"""Location-aware attention equals its equation, and moves on from where it looked."""

import numpy as np
import pytest
from layer_checks import assert_all_close, random_array

from keras_attention.layers import AdditiveAttention, LocationAwareAttention

B, T, S, D, DV, UNITS, FILTERS, WIDTH = 2, 3, 7, 5, 11, 13, 4, 5


def make(seed=0, **settings):
    layer = LocationAwareAttention(**{"units": UNITS, "num_filters": FILTERS, "kernel_size": WIDTH, **settings})
    layer.build((B, T, D), (B, S, DV))
    for i, weight in enumerate(layer.weights):
        weight.assign(random_array(*weight.shape, seed=(seed, i)))
    return layer


def make_inputs(seed=1):
    query, value = random_array(B, T, D, seed=seed), random_array(B, S, DV, seed=seed + 1)
    previous = np.random.default_rng(seed).dirichlet(np.ones(S), (B, T)).astype("float32")
    mask = np.ones((B, 1, S), bool)
    mask[1, 0, 5:] = False
    previous[1, :, 5:] = 0
    return query, value, previous, mask


def by_the_equation(layer, query, value, previous, mask):
    """Context and weights in float64 from equations 8 and 9 of the paper, one pair of query and key at a time."""
    weights = {weight.path.split("/", 1)[-1]: np.asarray(weight, "float64") for weight in layer.weights}
    kernel = weights["location_convolution/kernel"]  # (WIDTH, 1, FILTERS)
    context, weights_of_keys = np.zeros((B, T, DV)), np.zeros((B, T, S))
    for b in range(B):
        for t in range(T):
            scores = np.full(S, -np.inf)
            for s in range(S):
                located = np.zeros(kernel.shape[2])
                for j in range(kernel.shape[0]):
                    place = s + j - (kernel.shape[0] - 1) // 2
                    if 0 <= place < S:
                        located += kernel[j, 0] * previous[b, t, place]
                hidden = (
                    query[b, t] @ weights["query_projection/kernel"]
                    + value[b, s] @ weights["key_projection/kernel"]
                    + located @ weights["location_projection/kernel"]
                )
                if mask[b, 0, s]:
                    scores[s] = np.tanh(hidden) @ weights["score_projection/kernel"][:, 0]
            exponentials = np.exp(scores - scores.max())
            weights_of_keys[b, t] = exponentials / exponentials.sum()
            context[b, t] = weights_of_keys[b, t] @ value[b]
    return context, weights_of_keys


@pytest.mark.parametrize("kernel_size", [1, 4, 5])
def test_it_equals_its_equation(kernel_size):
    layer = make(kernel_size=kernel_size)
    query, value, previous, mask = make_inputs()
    outputs = layer(query, value, attention_mask=mask, previous_weights=previous, return_attention_scores=True)
    assert_all_close(outputs, by_the_equation(layer, query, value, previous, mask), 1e-5)


def test_before_the_first_step_it_is_additive_attention():
    layer, additive = make(), AdditiveAttention(UNITS)
    query, value, previous, mask = make_inputs()
    additive.build(query.shape, value.shape)
    for name in ("query_projection", "key_projection", "score_projection"):
        getattr(additive, name).set_weights(getattr(layer, name).get_weights())
    expected = additive(query, value, attention_mask=mask, return_attention_scores=True)
    for before in (None, np.zeros_like(previous)):
        actual = layer(query, value, attention_mask=mask, previous_weights=before, return_attention_scores=True)
        assert_all_close(actual, expected, 1e-6)


def test_it_can_step_from_key_to_key_over_equal_content():
    """A filter that looks one place to the left moves the weight one place to the right, whatever the keys hold."""
    layer = make(units=1, num_filters=1, kernel_size=3)
    for weight in layer.weights:
        weight.assign(np.zeros(weight.shape))
    layer.location_convolution.set_weights([np.array([1.0, 0.0, 0.0]).reshape(3, 1, 1)])
    layer.location_projection.set_weights([np.ones((1, 1))])
    layer.score_projection.set_weights([np.full((1, 1), 50.0)])
    value, query = np.ones((1, S, DV), "float32"), np.zeros((1, 1, D), "float32")
    weights = np.eye(S, dtype="float32")[None, :1]
    for step in range(1, S):
        _, weights = layer(query, value, previous_weights=weights, return_attention_scores=True)
        assert np.asarray(weights)[0, 0].argmax() == step


@pytest.mark.parametrize("poison", [np.nan, np.inf, 0.7])
def test_last_weights_at_masked_keys_have_no_effect(poison):
    layer = make()
    query, value, previous, mask = make_inputs()
    options = {"attention_mask": mask, "return_attention_scores": True}
    poisoned = np.where(mask, previous, poison).astype("float32")
    expected = layer(query, value, previous_weights=previous, **options)
    assert_all_close(layer(query, value, previous_weights=poisoned, **options), expected, 0)


@pytest.mark.parametrize("shape", [(B, T, 1), (1, 1, S), (1, T, S), (B, S), (B, T, S - 2)])
def test_last_weights_of_another_shape_are_refused(shape):
    query, value, *_ = make_inputs()
    with pytest.raises(ValueError, match="`previous_weights` must have the shape"):
        make()(query, value, previous_weights=np.ones(shape, "float32"))


@pytest.mark.parametrize("sizes", [(0, T, S), (B, 0, S), (B, T, 0)])
def test_empty_axes(sizes):
    batch, queries, keys = sizes
    query, value = np.ones((batch, queries, D), "float32"), np.ones((batch, keys, DV), "float32")
    previous = np.ones((batch, queries, keys), "float32")
    context = make()(query, value, previous_weights=previous)
    assert context.shape == (batch, queries, DV)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": 0}, "`units` must be a positive integer. Received: units=0"),
        ({"num_filters": 1.5}, "`num_filters` must be a positive integer. Received: num_filters=1.5"),
        ({"kernel_size": True}, "`kernel_size` must be a positive integer. Received: kernel_size=True"),
        ({"dropout": 1}, "`dropout` must be in"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        LocationAwareAttention(**{"units": 3, **settings})
