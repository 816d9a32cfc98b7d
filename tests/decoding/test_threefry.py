import numpy as np
import pytest
from keras import ops

from keras_attention.decoding.sampling import threefry_2x32, uniform


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_authors_known_answers(key, counter, expected):
    """The test vectors that Salmon et al. publish with Random123 for threefry2x32 with 20 rounds."""
    key, counter = ([ops.convert_to_tensor(word, "uint32") for word in pair] for pair in (key, counter))
    assert tuple(int(word) for word in threefry_2x32(key, counter)) == expected


def test_uniforms_are_uniform_over_rows_and_steps():
    drawn = np.array([uniform(17, ops.arange(1009), ops.convert_to_tensor(step)) for step in range(7)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts, _ = np.histogram(drawn, bins=13, range=(0, 1))
    expected = drawn.size / 13
    assert ((counts - expected) ** 2 / expected).sum() < 12 + 5 * np.sqrt(24)
    assert len(np.unique(drawn)) > 0.99 * drawn.size
    assert np.abs(np.corrcoef(drawn) - np.eye(7)).max() < 0.15
