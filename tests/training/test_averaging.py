import keras
import numpy as np
import pytest
from training.tiny_run import TinyBatches, TinyModel, run

from keras_attention.training.averaging import LastWeights, averaged_weights, copy_weights, exponential_average


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
