"""Random changes of arrays: as they are described, and decided by the numbers alone."""

import numpy as np
import pytest

from keras_attention.data.augmentation import NUMBERS, Warp, interpolated, uniform, warped
from keras_attention.data.batches import ClassificationBatches

HEIGHT, WIDTH, CHANNELS = 7, 11, 3


def values():
    return np.random.default_rng(5).normal(size=(HEIGHT, WIDTH, CHANNELS)).astype("float32")


def numbers(**places):
    """Numbers in the middle of their range, but for those at the given places, shares of it."""
    chosen = np.full(NUMBERS, 0.5)
    for place, share in places.items():
        chosen[int(place[1:])] = share
    return (chosen * 2.0**53).astype("uint64") << np.uint64(11)


def test_shares_are_exact():
    np.testing.assert_array_equal(uniform(numbers(_3=0.25)), [0.5] * 3 + [0.25] + [0.5] * 12)
    assert uniform(np.array([2**64 - 1], "uint64"))[0] < 1


def test_nothing_changes_without_settings():
    np.testing.assert_allclose(warped(values(), numbers(_0=0.1, _1=0.9, _4=0.3), Warp()), values(), atol=1e-6)


def test_interpolation_equals_a_loop():
    x = values()
    rng = np.random.default_rng(7)
    rows, columns = rng.uniform(-2, HEIGHT + 2, (5, 13)), rng.uniform(-2, WIDTH + 2, (5, 13))
    actual = interpolated(x, rows, columns)
    for i in range(5):
        for j in range(13):
            y, z = min(max(rows[i, j], 0), HEIGHT - 1), min(max(columns[i, j], 0), WIDTH - 1)
            expected = np.zeros(CHANNELS)
            for row in range(HEIGHT):
                for column in range(WIDTH):
                    expected += max(0, 1 - abs(y - row)) * max(0, 1 - abs(z - column)) * x[row, column]
            np.testing.assert_allclose(actual[i, j], expected, atol=1e-5)


def test_a_shift_moves_and_fills():
    moved = warped(values(), numbers(_1=1 - 2**-53), Warp(shift=(2 / HEIGHT, 0), background=-1.0))
    np.testing.assert_allclose(moved[:-2], values()[2:], atol=1e-5)
    np.testing.assert_array_equal(moved[-2:], -1.0)
    kept = warped(values(), numbers(_2=0.0), Warp(shift=(0, 3 / WIDTH)))
    np.testing.assert_allclose(kept[:, 3:], values()[:, :-3], atol=1e-5)
    np.testing.assert_allclose(kept[:, :3], np.repeat(values()[:, :1], 3, axis=1), atol=1e-5)


def test_half_of_the_arrays_are_mirrored():
    np.testing.assert_allclose(warped(values(), numbers(_5=0.4), Warp(flip=True)), values()[:, ::-1], atol=1e-6)
    np.testing.assert_allclose(warped(values(), numbers(_5=0.6), Warp(flip=True)), values(), atol=1e-6)


def test_a_quarter_turn():
    square = values()[:, :HEIGHT]
    turned = warped(square, numbers(_0=1 - 2**-53), Warp(rotate=90.0))
    np.testing.assert_allclose(turned, np.rot90(square, -1), atol=1e-4)


def test_rectangles_become_the_mean():
    erased = warped(values(), numbers(_7=0.5, _9=0.0), Warp(erase=((1.0, 0.6),)))
    np.testing.assert_allclose(erased[:, :3], values().mean(), atol=1e-6)
    np.testing.assert_allclose(erased[:, 3:], values()[:, 3:], atol=1e-6)


def test_rows_change_in_every_epoch_by_the_seed_alone():
    rows = [{"values": values() + number} for number in range(13)]
    labels = np.arange(13, dtype="int32")

    def change(row, numbers):
        return {"values": row["values"] * 0 + np.float32(numbers[0] >> np.uint64(40))}

    def batches(seed, epoch, change=change):
        return ClassificationBatches(rows, labels, 5, seed=seed, change=change).epoch(epoch)

    def value_of_each_label(epoch):
        pairs = [
            (label, array[0, 0, 0])
            for batch in epoch
            for label, array in zip(batch["labels"], batch["values"], strict=True)
        ]
        return {int(label): float(value) for label, value in pairs if label >= 0}

    first, again, later = (value_of_each_label(batches(3, epoch)) for epoch in (0, 0, 1))
    assert first == again
    assert len(set(first.values())) == len(set(later.values()) - set(first.values())) == 13
    plain, changed = (batches(3, 0, some) for some in (None, change))
    assert [batch["labels"].tolist() for batch in plain] == [batch["labels"].tolist() for batch in changed]


@pytest.mark.parametrize("flip", [False, True])
def test_the_kinds_of_input_keep_their_shapes(flip):
    from keras_attention.inputs.image import ImageInput
    from keras_attention.inputs.sound import SoundInput

    for kind in (ImageInput((13, 11, 3)), SoundInput((17, 13)), SoundInput((17, 13, 1))):
        arrays = kind.example_arrays()
        changed = kind.augmented(arrays, numbers(_1=0.1), flip)
        assert changed["values"].shape == arrays["values"].shape
        assert changed["values"].dtype == np.float32
