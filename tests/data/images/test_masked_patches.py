"""Batches of masked patches: each patch is masked or visible, and the places are a function of seed and epoch."""

import numpy as np
import pytest

from keras_attention.data.images.image_batches import ImageBatches
from keras_attention.data.images.labelled_images import LabelledImages, some_of_each
from keras_attention.data.images.masked_patches import MaskedPatches
from keras_attention.support.errors import UserError

IMAGES = LabelledImages(np.zeros((7, 6, 10, 1), "uint8"), np.array([0, 1, 0, 1, 0, 1, 0], "int32"))


def batches(seed=3, share=0.4):
    return MaskedPatches(ImageBatches(IMAGES, 5, seed), 15, share)


def test_each_patch_is_masked_or_visible():
    epoch = batches().epoch(0)
    assert len(epoch) == 2
    for batch in (epoch[0], epoch[1]):
        both = np.concatenate([batch["masked"], batch["visible"]], axis=1)
        np.testing.assert_array_equal(np.sort(both, axis=1), np.tile(np.arange(15), (5, 1)))
        assert batch["masked"].shape == (5, 6)
    assert epoch[0]["labels"].tolist() == [[0, 1, 2, 3, 4, 5]] * 5
    assert epoch[1]["labels"].tolist() == [[0, 1, 2, 3, 4, 5]] * 2 + [[-1] * 6] * 3  # the last three fill the batch


def test_places_depend_on_seed_and_epoch_alone():
    first = batches().epoch(1)[0]["masked"]
    np.testing.assert_array_equal(batches().epoch(1)[0]["masked"], first)
    assert not np.array_equal(batches().epoch(2)[0]["masked"], first)
    assert not np.array_equal(batches(seed=5).epoch(1)[0]["masked"], first)
    counts = np.bincount(np.concatenate([batches().epoch(e)[0]["masked"].ravel() for e in range(200)]), minlength=15)
    assert np.abs(counts / 200 / 5 - 0.4).max() < 0.07


def test_arguments_out_of_range():
    assert batches(share=0.001).num_masked == 2
    assert batches(share=0.999).num_masked == 14
    for arguments in ((2, 0.5), (15, 0.0), (15, 1.0)):
        with pytest.raises(ValueError, match="Received"):
            MaskedPatches(ImageBatches(IMAGES, 5, 3), *arguments)


def test_some_images_of_each_label():
    some = some_of_each(IMAGES, 2, 3)
    assert sorted(some.labels.tolist()) == [0, 0, 1, 1]
    assert some_of_each(IMAGES, None, 3) is IMAGES
    with pytest.raises(UserError, match="--labels must be from 1 to 3"):
        some_of_each(IMAGES, 4, 3)
