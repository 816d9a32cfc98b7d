import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from training.tiny_run import TinyBatches, TinyModel, run

from keras_attention.training.optim import (
    CosineDecay,
    InverseSquareRoot,
    LastWeights,
    LayerWiseAdamW,
    averaged_weights,
    copy_weights,
    exponential_average,
    layer_factors,
    make_schedule,
    use_exponential_average,
)


@pytest.mark.parametrize("step", [0, 1, 6, 7, 12, 13, 1000])
def test_inverse_square_root_equals_its_equation(step):
    n, warm_up = step + 1, 13
    # Vaswani et al., equation 3: proportional to min(n^-0.5, n * warm_up^-1.5), and `peak` at n = warm_up.
    expected = 0.005 * min(n**-0.5, n * warm_up**-1.5) * warm_up**0.5
    assert float(InverseSquareRoot(0.005, warm_up)(step)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("floor", [0.0, 0.001])
def test_cosine_schedule_falls_from_peak_to_floor(floor):
    schedule = CosineDecay(0.005, 11, 31, floor=floor)
    assert float(schedule(0)) == pytest.approx(0.005 / 11)
    assert float(schedule(10)) == pytest.approx(0.005)
    assert float(schedule(20)) == pytest.approx((0.005 + floor) / 2, rel=1e-5)
    quarter = floor + (0.005 - floor) * (1 + math.cos(math.pi / 4)) / 2
    assert float(schedule(15)) == pytest.approx(quarter, rel=1e-5)
    for step in (30, 31, 1009):
        assert float(schedule(step)) == pytest.approx(floor, abs=1e-9)


def test_cosine_without_warm_up_starts_below_its_peak_by_one_step():
    expected = 0.5 * (1 + math.cos(math.pi / 17))
    assert float(CosineDecay(1.0, 0, 17)(0)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("schedule", [InverseSquareRoot(0.3, 7), CosineDecay(0.3, 7, 19, floor=0.1)])
def test_an_optimizer_saves_and_loads_it(schedule):
    optimizer = keras.optimizers.Adam(schedule)
    loaded = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert loaded._learning_rate.get_config() == schedule.get_config()
    assert keras.saving.get_registered_name(type(schedule)) == f"keras_attention>{type(schedule).__name__}"
    assert [float(loaded._learning_rate(step)) for step in range(23)] == [float(schedule(s)) for s in range(23)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InverseSquareRoot(0.0, 5), "peak=0.0"),
        (lambda: InverseSquareRoot(0.1, 0), "warmup_steps=0"),
        (lambda: CosineDecay(0.1, -1, 5), "warmup_steps=-1"),
        (lambda: CosineDecay(0.1, 7, 7), "total_steps=7, warmup_steps=7"),
        (lambda: CosineDecay(0.1, 2, 7, floor=0.2), "floor=0.2, peak=0.1"),
        (lambda: make_schedule("linear", 0.1, 2, 7), "name='linear'"),
        (lambda: make_schedule("cosine", 0.1, -2, 7), "warmup_steps=-2"),
        (lambda: make_schedule("inverse_square_root", 0.1, 2, 0), "total_steps=0"),
    ],
)
def test_arguments_out_of_range_are_named(make, message):
    with pytest.raises(ValueError, match=f"Received: .*{message}"):
        make()


def test_a_schedule_is_made_by_its_name():
    cosine = make_schedule("cosine", 0.3, 7, 100)
    assert cosine.get_config() == CosineDecay(0.3, 7, 100, floor=0.006).get_config()
    assert make_schedule("inverse_square_root", 0.3, 7, 100).get_config() == InverseSquareRoot(0.3, 7).get_config()


@pytest.mark.parametrize(("total_steps", "warmup_steps"), [(9, 4), (2, 1), (1, 1)])
def test_a_short_training_warms_up_for_half_of_it(total_steps, warmup_steps):
    for name in ("cosine", "inverse_square_root"):
        assert make_schedule(name, 0.3, 1000, total_steps).warmup_steps == warmup_steps


GRADIENTS = [np.array([0.5, -1.0, 2.0]), np.array([[3.0, -0.25]])]
RATE, DECAY = 0.01, 0.1


def variables():
    values = (np.array([1.0, 2.0, 3.0]), np.array([[4.0, 5.0]]))
    return [keras.Variable(value, name=name) for value, name in zip(values, ("low", "high"), strict=True)]


def after_steps(optimizer, weights, steps=3):
    optimizer.build(weights)
    for _ in range(steps):
        optimizer.apply([keras.ops.convert_to_tensor(g, "float32") for g in GRADIENTS], weights)
    return [keras.ops.convert_to_numpy(w.value) for w in weights]


def test_factors_of_one_are_adamw():
    ours = after_steps(LayerWiseAdamW(RATE, {}, DECAY), variables())
    for actual, expected in zip(ours, after_steps(keras.optimizers.AdamW(RATE, DECAY), variables()), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_the_step_is_multiplied_and_the_decay_is_not():
    weights = variables()
    low, high = after_steps(LayerWiseAdamW(RATE, {weights[0].path: 0.5}, DECAY), weights)
    # A constant gradient g makes m / sqrt(v) its sign, whatever the step.
    expected = [np.array([1.0, 2.0, 3.0]), np.array([[4.0, 5.0]])]
    for _ in range(3):
        for i, factor in enumerate((0.5, 1.0)):
            expected[i] = expected[i] * (1 - RATE * DECAY) - factor * RATE * np.sign(GRADIENTS[i])
    np.testing.assert_allclose(low, expected[0], atol=1e-6)
    np.testing.assert_allclose(high, expected[1], atol=1e-6)


def test_factors_grow_from_layer_to_layer():
    low, high = variables()
    assert layer_factors([[low], [high]], 0.5) == {low.path: 0.25, high.path: 0.5}


def test_a_saved_optimizer_keeps_its_factors():
    config = LayerWiseAdamW(RATE, {"a/b": 0.25}).get_config()
    assert LayerWiseAdamW.from_config(config).factors == {"a/b": 0.25}


@pytest.mark.parametrize("decay", [0.0, 1.5])
def test_refuses_a_decay_out_of_range(decay):
    with pytest.raises(ValueError, match=f"decay={decay}"):
        layer_factors([], decay)


def random_weights(model, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=v.shape).astype("float32") for v in model.trainable_variables]


@pytest.fixture
def model():
    model = TinyModel()
    model(TinyBatches().epoch(0)[0])
    return model


def test_average_is_the_mean_of_the_last_ones(model):
    kept = LastWeights(3)
    assert kept.average() is None
    weights = [random_weights(model, seed) for seed in range(5)]
    for arrays in weights:
        with averaged_weights(model, arrays):
            kept.add(model)
    for index, average in enumerate(kept.average()):
        np.testing.assert_allclose(average, np.mean([w[index] for w in weights[2:]], axis=0), atol=1e-7)


def test_the_model_gets_its_own_weights_back_even_after_an_error(model):
    own, other = copy_weights(model), random_weights(model, 7)
    seen = []

    def fail():
        with averaged_weights(model, other):
            seen.extend(copy_weights(model))
            raise RuntimeError("in between")

    with pytest.raises(RuntimeError, match="in between"):
        fail()
    np.testing.assert_array_equal(seen[1], other[1])
    for before, after in zip(own, copy_weights(model), strict=True):
        np.testing.assert_array_equal(before, after)


def test_exponential_average_equals_the_recurrence():
    weights, averages = [], []

    class Watched(TinyBatches):
        def epoch(self, epoch):
            if epoch:
                weights.append(copy_weights(model))
            return super().epoch(epoch)

    def validate(model):
        averages.append(copy_weights(model))
        return {"val_loss": 1.0}

    model = TinyModel()
    # Epochs of one step: `weights` are those after each update but the last.
    _, _, optimizer = run(model=model, batches=Watched(steps=1), epochs=5, ema_decay=0.7, validate=validate)
    for index in range(3):
        expected = weights[0][index]
        for step in range(4):
            expected = 0.7 * expected + 0.3 * weights[step][index]
            np.testing.assert_allclose(averages[step][index], expected, atol=1e-7)
    for average, again in zip(copy_weights(model), exponential_average(model, optimizer), strict=True):
        np.testing.assert_array_equal(average, again)


def test_without_an_update_there_is_no_exponential_average(model):
    own = copy_weights(model)
    _, _, optimizer = run(model=model, epochs=0, ema_decay=0.7)
    assert exponential_average(model, optimizer) is None
    for before, after in zip(own, copy_weights(model), strict=True):
        np.testing.assert_array_equal(before, after)


def test_exponential_average_of_variables_of_a_strategy():
    """They are mirrored, even on a single device, and so is the optimizer's number of updates."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model, optimizer = TinyModel(), keras.optimizers.SGD(1.0)
        model({"source_ids": np.ones((1, 3), "int32")})
        use_exponential_average(optimizer, 0.75)
        optimizer.build(model.trainable_variables)
    assert exponential_average(model, optimizer) is None
    start = copy_weights(model)
    for _ in range(2):
        strategy.run(lambda: optimizer.apply([tf.ones(v.shape) for v in model.trainable_variables]))
    for average, before in zip(exponential_average(model, optimizer), start, strict=True):
        np.testing.assert_allclose(average, before - 0.75 * 1 - 0.25 * 2, atol=1e-6)


def test_exponential_average_needs_an_unused_optimizer():
    _, model, optimizer = run(max_steps=1)
    with pytest.raises(ValueError, match="has not been used"):
        run(model=model, optimizer=optimizer, max_steps=1, ema_decay=0.9)
    with pytest.raises(ValueError, match=r"ema_decay=1\.0"):
        run(max_steps=1, ema_decay=1.0)


def test_count_must_be_positive():
    with pytest.raises(ValueError, match="Received: count=0"):
        LastWeights(0)


def test_half_precision_weights_are_averaged_in_full(model):
    half = keras.Sequential([keras.layers.Dense(3, dtype="bfloat16")])
    half.build((None, 5))
    kept = LastWeights(2)
    kept.add(half)
    assert kept.snapshots[0][0].dtype == np.float32
    assert kept.average()[0].dtype == np.float64


def test_fewer_epochs_than_asked_for_are_averaged_too():
    model = keras.Sequential([keras.layers.Dense(3)])
    model.build((None, 2))
    last = LastWeights(5)
    for value in (1.0, 4.0):
        model.set_weights([np.full(weight.shape, value) for weight in model.get_weights()])
        last.add(model)
    for average in last.average():
        np.testing.assert_allclose(average, 2.5)
