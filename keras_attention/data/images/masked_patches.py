"""Batches of images of which some patches are masked; a pure function of (seed, epoch)."""

import numpy as np

from keras_attention.data.images.image_batches import ImageBatches


class MaskedPatches:
    """The images of `ImageBatches`, with random places of masked patches in place of their labels.

    Args:
        batches: ImageBatches.
        num_patches: int > 1 (N).
        share: float in (0, 1), share of the masked patches; there are at least 2 and at most N - 1 of them (M).

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(self, batches: ImageBatches, num_patches: int, share: float = 0.5):
        if num_patches < 3 or not 0 < share < 1:
            raise ValueError(
                "There must be at least 3 patches, and `share` must be in (0, 1). "
                f"Received: num_patches={num_patches}, share={share}"
            )
        self.batches, self.num_patches = batches, num_patches
        self.num_masked = min(num_patches - 1, max(2, round(share * num_patches)))

    def epoch(self, epoch: int) -> "MaskedEpoch":
        """The batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of arrays.

        `values` as in `ImageBatches`; `masked` int32 (B, M) and `visible` int32 (B, N - M), the numbers of patches;
        `labels` int32 (B, M): 0, 1 ... M - 1, the place of the right patch among the masked ones, and -1 for images
        that only fill the batch.
        """
        images = self.batches.epoch(epoch)
        generator = np.random.PCG64([self.batches.seed, epoch, 1])
        count = images.rows.size
        numbers = generator.random_raw(count * self.num_patches).reshape(count, self.num_patches)
        orders = np.argsort(numbers, axis=1, kind="stable").astype("int32")
        return MaskedEpoch(images, orders.reshape(*images.rows.shape, -1), self.num_masked)


class MaskedEpoch:
    """See `MaskedPatches.epoch`; `orders` (batches, B, N) are the patches in a random order, the masked ones first."""

    def __init__(self, images, orders, num_masked):
        self.images, self.orders, self.num_masked = images, orders, num_masked

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        batch, orders = self.images[index], self.orders[index]
        masked, visible = orders[:, : self.num_masked], orders[:, self.num_masked :]
        right = np.broadcast_to(np.arange(self.num_masked, dtype="int32"), masked.shape)
        labels = np.where(batch["labels"][:, None] < 0, -1, right).astype("int32")
        return {"values": batch["values"], "masked": masked, "visible": visible, "labels": labels}
