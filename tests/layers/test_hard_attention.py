"""Hard attention: its equation, what it samples, and its gradient against the exact one."""

import itertools

import equations
import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close, check_example, check_saving, poisoned, random_array

from keras_attention.layers import HardAttention
from keras_attention.layers.hard_attention import rewards_to_go

B, T, S, DQ, DK, DV, UNITS = 2, 3, 7, 5, 13, 11, 17


def make_inputs():
    mask = np.random.default_rng(1).random((B, T, S)) < 0.7
    mask[1, 2] = False
    mask[0, :, 6] = mask[1, :, 6] = False
    return {
        "query": random_array(B, T, DQ, seed=2),
        "value": random_array(B, S, DV, seed=3),
        "key": random_array(B, S, DK, seed=4),
        "attention_mask": mask,
    }


def soft_weights(layer, inputs):
    """The weights of `AdditiveAttention` in NumPy."""
    soft = layer.attention
    W_a, U_a = (np.asarray(part.kernel).T for part in (soft.query_projection, soft.key_projection))
    v_a = np.asarray(soft.score_projection.kernel)[:, 0]
    query, value, key, mask = inputs.values()
    return equations.additive_attention(query=query, value=value, key=key, mask=mask, W_a=W_a, U_a=U_a, v_a=v_a)[1]


def test_without_training_it_takes_the_most_probable_position():
    layer, inputs = HardAttention(UNITS), make_inputs()
    context, weights, choices = layer(**inputs, return_choices=True)
    expected = soft_weights(layer, inputs)
    assert_all_close([weights], [expected], 1e-5)
    for b, t in itertools.product(range(B), range(T)):
        best = int(expected[b, t].argmax())
        attended = inputs["attention_mask"][b, t].any()
        np.testing.assert_allclose(context[b, t], inputs["value"][b, best] * attended, atol=1e-6)
        np.testing.assert_array_equal(choices[b, t], np.eye(S)[best] * attended)


def test_it_samples_with_the_probabilities_of_its_weights():
    count = 4001
    layer, inputs = HardAttention(UNITS, seed=5), make_inputs()
    one = {name: np.repeat(array[:1], count, axis=0) for name, array in inputs.items()}
    _, weights, choices = layer(**one, return_choices=True, training=True)
    choices, weights = np.asarray(choices), np.asarray(weights)[0]
    np.testing.assert_array_equal(choices.sum(axis=-1), 1)
    np.testing.assert_allclose(choices.mean(axis=0), weights, atol=4 * np.sqrt(0.25 / count))
    assert (choices[:, ~inputs["attention_mask"][0]] == 0).all()
    independent = (choices[:, 0, :, None] * choices[:, 1, None, :]).mean(axis=0)
    np.testing.assert_allclose(independent, weights[0][:, None] * weights[1], atol=4 * np.sqrt(0.25 / count))


def test_two_calls_sample_differently_and_a_seed_repeats_them():
    inputs = make_inputs()
    inputs = {name: np.repeat(array, 53, axis=0) for name, array in inputs.items()}
    draws = []
    for _ in range(2):
        keras.utils.set_random_seed(7)
        layer = HardAttention(UNITS, seed=5)
        draws.append([np.asarray(layer(**inputs, return_choices=True, training=True)[2]) for _ in range(2)])
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0][0] != draws[0][1]).any()


def test_expected_examples_get_the_mean_of_the_values():
    layer, inputs = HardAttention(UNITS), make_inputs()
    expected = np.array([True, False])
    context, weights, choices = layer(**inputs, expected=expected, return_choices=True, training=True)
    mean = np.einsum("ts,sd->td", np.asarray(weights)[0], inputs["value"][0])
    np.testing.assert_allclose(context[0], mean, atol=1e-5)
    assert not np.asarray(choices)[0].any()
    assert np.asarray(choices)[1].sum() == 2  # its last query may attend to nothing


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_masked_content_has_no_effect(poison, training):
    inputs = make_inputs()
    outputs = [HardAttention(UNITS, seed=3, name="a") for _ in range(2)]
    keras.utils.set_random_seed(1)
    first = outputs[0](**inputs, return_choices=True, training=training)
    outputs[1].build((B, T, DQ), (B, S, DV), (B, S, DK))
    outputs[1].set_weights(outputs[0].get_weights())
    second = outputs[1](**poisoned(inputs, poison), return_choices=True, training=training)
    assert_all_close(second, first, 0)


def test_projected_keys_and_compiled_calls_agree():
    layer, inputs = HardAttention(UNITS), make_inputs()
    expected = layer(**inputs, return_choices=True)
    key = inputs.pop("key")
    projected = layer.project_keys(key, inputs["attention_mask"])
    compiled = tf.function(lambda **given: layer(**given, return_choices=True), jit_compile=True)
    assert_all_close(compiled(**inputs, projected_key=projected), expected, 1e-5)


def captions_log_prob(values, chosen, scores):
    """A made-up log p(y_t | positions until t): float (T,), a smooth function of the values at these positions."""
    seen, results = 0.0, []
    for t, position in enumerate(chosen):
        seen = 0.5 * seen + scores @ values[position]
        results.append(-(seen**2) / 10 - 0.3 * t)
    return np.array(results, "float32")


@pytest.mark.parametrize("to_go", [False, True])
def test_the_mean_gradient_of_all_samples_is_the_exact_one(to_go):
    """Enumerates all S^T = 27 samples: sum p(sample) gradient(sample) = gradient of sum p(sample) log p(caption)."""
    steps, positions, width = 3, 3, 5
    query, value = random_array(1, steps, 7, seed=2, low=-2, high=2), random_array(1, positions, width, seed=3)
    scores = random_array(width, seed=4, low=-3, high=3)
    layer = HardAttention(11, entropy_weight=0.0, baseline_steps=2)
    layer(query, value)
    layer.baseline.assign([-0.7, 0.4])  # any value: it changes no mean
    variables = layer.trainable_variables
    samples = list(itertools.product(range(positions), repeat=steps))
    rewards = np.stack([captions_log_prob(value[0], sample, scores) for sample in samples])  # (27, T)

    with tf.GradientTape() as tape:
        _, weights = layer(query, value, return_attention_scores=True)
        probabilities = [tf.reduce_prod([weights[0, t, s] for t, s in enumerate(sample)]) for sample in samples]
        objective = -sum(p * float(reward.sum()) for p, reward in zip(probabilities, rewards, strict=True))
    exact = tape.gradient(objective, [v.value for v in variables], unconnected_gradients="zero")

    mean = [np.zeros(v.shape) for v in variables]
    for sample, reward, probability in zip(samples, rewards, probabilities, strict=True):
        given = rewards_to_go(reward[None]) if to_go else np.full((1, steps), reward.sum(), "float32")
        with tf.GradientTape() as tape:
            _, weights, choices = layer(query, value, choices=np.array([sample]), return_choices=True, training=True)
            loss = tf.reduce_sum(layer.score_function_loss(given, weights, choices, training=False))
        gradients = tape.gradient(loss, [v.value for v in variables], unconnected_gradients="zero")
        for total, gradient in zip(mean, gradients, strict=True):
            total += float(probability) * np.asarray(gradient)
    assert max(float(np.abs(gradient).max()) for gradient in exact) > 0.01
    assert_all_close(mean, exact, 1e-5)


def test_the_loss_equals_its_equation_and_moves_the_baseline():
    layer = HardAttention(UNITS, reward_weight=0.7, entropy_weight=0.13, baseline_decay=0.6, baseline_steps=2)
    layer.build((B, T, DQ), (B, S, DV))
    layer.baseline.assign([-1.0, -3.0])
    generator = np.random.default_rng(3)
    weights = generator.dirichlet(np.ones(S), (B, T)).astype("float32")
    chosen = generator.integers(0, S, (B, T))
    choices = np.eye(S, dtype="float32")[chosen]
    choices[1] = 0  # an example that got the expected context
    rewards = random_array(B, T, seed=8, low=-5, high=0)
    mask = np.array([[True, True, True], [True, True, False]])
    expected = np.zeros((B, T))
    for b, t in itertools.product(range(B), range(T)):
        if mask[b, t]:
            entropy = -(weights[b, t] * np.log(weights[b, t])).sum()
            log_chosen = np.log(weights[b, t, chosen[b, t]]) if b == 0 else 0.0
            expected[b, t] = -0.7 * (rewards[b, t] - (-1.0, -3.0)[min(t, 1)]) * log_chosen - 0.13 * entropy
    loss_value = layer.score_function_loss(rewards, weights, choices, mask)
    np.testing.assert_allclose(loss_value, expected, rtol=1e-5)
    means = rewards[:, 0].mean(), np.mean([rewards[0, 1], rewards[0, 2], rewards[1, 1]])
    np.testing.assert_allclose(
        layer.baseline, [0.6 * b + 0.4 * m for b, m in zip((-1, -3), means, strict=True)], rtol=1e-5
    )
    less = layer.score_function_loss(rewards, weights, choices, mask, training=False, entropy_weight=0.0)
    more = layer.score_function_loss(rewards, weights, choices, mask, training=False, entropy_weight=2.0)
    entropies = -(weights * np.log(weights)).sum(axis=-1)
    np.testing.assert_allclose(less - more, np.where(mask, 2 * entropies, 0), rtol=1e-4)
    with pytest.raises(ValueError, match="entropy_weight=nan"):
        layer.score_function_loss(rewards, weights, choices, mask, entropy_weight=float("nan"))


def test_rewards_to_go():
    np.testing.assert_allclose(rewards_to_go(np.array([[1.0, 2, 4], [0, 0, 8]])), [[7, 6, 4], [8, 8, 8]])


def test_saving(tmp_path):
    settings = {
        "units": UNITS,
        "reward_weight": 0.5,
        "entropy_weight": 0.02,
        "baseline_decay": 0.8,
        "baseline_steps": 3,
    }
    inputs = make_inputs()
    check_saving(HardAttention, settings | {"seed": 4}, inputs | {"return_attention_scores": True}, tmp_path)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"units": 0}, "`units` must be a positive integer. Received: units=0"),
        ({"reward_weight": -1.0}, "`reward_weight` must be 0 or more. Received: reward_weight=-1.0"),
        ({"entropy_weight": float("nan")}, "Received: entropy_weight=nan"),
        ({"baseline_decay": 1.0}, r"`baseline_decay` must be in \[0, 1\). Received: baseline_decay=1.0"),
        ({"baseline_steps": 0}, "`baseline_steps` must be a positive integer. Received: baseline_steps=0"),
    ],
)
def test_a_wrong_argument_is_named(settings, text):
    with pytest.raises(ValueError, match=text):
        HardAttention(**{"units": 3, **settings})


def test_the_example_runs():
    inputs = make_inputs()
    check_example(HardAttention, query=inputs["query"], value=inputs["value"], mask=inputs["attention_mask"])
