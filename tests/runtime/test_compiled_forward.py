"""The compiled forward pass takes arrays of any type and rank, with or without a padded axis."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attention.runtime.buckets import source_bucket
from keras_attention.runtime.compiled_forward import CompiledForward

LONGEST = 47


def mean_of_steps(inputs):
    """The mean of the steps of each series whose `present` is True, times its factor: (B, 3)."""
    present = tf.cast(inputs["present"], "float32")[:, :, None]  # (B, T, 1)
    total = tf.reduce_sum(inputs["steps"] * present, axis=1) / tf.reduce_sum(present, axis=1)
    return total * tf.cast(inputs["factor"], "float32")[:, None]


def series(length, rng):
    return {
        "steps": rng.normal(size=(length, 3)).astype("float32"),
        "present": np.ones(length, bool),
        "factor": np.array(rng.integers(2, 7), "int64"),
    }


def test_series_of_several_lengths_and_types():
    rng = np.random.default_rng(5)
    examples = [series(length, rng) for length in (17, 2, 47, 2, 31)]
    forward = CompiledForward(mean_of_steps, {"steps": 0.0, "present": False}, LONGEST)
    done = []
    results = forward.run(examples, lambda number, total: done.append((number, total)))
    for example, (result,) in zip(examples, results, strict=True):
        np.testing.assert_allclose(result, example["steps"].mean(axis=0) * example["factor"], rtol=1e-5)
    assert done[-1] == (5, 5)
    assert len(forward._traced) == len({source_bucket(length, LONGEST) for length in (17, 2, 47, 31)})


def test_inputs_are_padded_with_their_own_number():
    shapes = []

    def keep(inputs):
        shapes.append(inputs["ids"].shape)
        return inputs["ids"]

    (padded,) = CompiledForward(keep, {"ids": 7}, LONGEST).run([{"ids": np.array([2, 3, 5], "int32")}])[0]
    assert padded.tolist() == [2, 3, 5] + [7] * (source_bucket(3, LONGEST) - 3)
    assert [tuple(shape) for shape in shapes] == [(None, source_bucket(3, LONGEST))]


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_images_have_no_padded_axis(dtype):
    rng = np.random.default_rng(3)
    images = [{"pixels": rng.integers(0, 256, (5, 7, 3)).astype(dtype)} for _ in range(11)]
    forward = CompiledForward(lambda inputs: tf.cast(inputs["pixels"], "float32")[:, ::2, ::3])
    for image, (result,) in zip(images, forward.run(images), strict=True):
        np.testing.assert_array_equal(result, image["pixels"][::2, ::3])
    assert len(forward._traced) == 1


def test_images_of_two_sizes_are_computed_apart():
    images = [{"pixels": np.full(shape, value, "float32")} for value, shape in enumerate([(2, 3), (5, 7), (2, 3)])]
    results = CompiledForward(lambda inputs: tf.reduce_sum(inputs["pixels"], axis=(1, 2))).run(images)
    assert [float(result) for (result,) in results] == [0.0, 35.0, 12.0]


def test_no_examples():
    assert CompiledForward(mean_of_steps, {"steps": 0.0}, LONGEST).run([]) == []
