"""Images of IDX files as sequences of pixels."""

import gzip
import struct
from dataclasses import dataclass

import numpy as np
import pytest

from keras_attention.data.prose.token_stream import StreamSettings, image_texts, image_tokens, load_stream, read_images
from keras_attention.support.errors import UserError
from keras_attention.training.run import RunSettings


@dataclass(frozen=True)
class Config(StreamSettings, RunSettings):
    smoke: bool = False
    seed: int = 1


def write_images(path, number=7, side=28, compress=gzip.compress, seed=0):
    """Random images, of which it returns the grey levels."""
    images = np.random.default_rng(seed).integers(0, 256, (number, side, side)).astype("uint8")
    path.write_bytes(compress(struct.pack(">4B3I", 0, 0, 8, 3, number, side, side) + images.tobytes()))
    return images


@pytest.mark.parametrize("compress", [gzip.compress, bytes], ids=["gzip", "plain"])
def test_reads_images(tmp_path, compress):
    expected = [write_images(tmp_path / name, number, 5, compress) for name, number in (("a", 7), ("b", 3))]
    np.testing.assert_array_equal(read_images([tmp_path / "a", tmp_path / "b"], 5), np.concatenate(expected))


def test_sequences_and_texts():
    images = np.array([[[0, 128], [255, 127]], [[200, 0], [0, 0]]], "uint8")
    assert image_tokens(images, 3, (4, 5)).tolist() == [3, 4, 5, 5, 4, 3, 5, 4, 4, 4]
    assert image_texts(images) == ["0110", "1000"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no IDX file of images with 28 by 28"),
        (b"\x1f\x8bdamaged", "damaged .* Expected: an IDX file"),
        (struct.pack(">4B3I", 0, 0, 8, 3, 2, 28, 28) + bytes(784), "no IDX file"),
        (struct.pack(">4B3I", 0, 0, 8, 3, 1, 28, 27) + bytes(756), "no IDX file"),
        (struct.pack(">4BI", 0, 0, 8, 1, 3) + bytes(3), "no IDX file"),
    ],
)
def test_refuses_other_files(content, message, tmp_path):
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_images([tmp_path / "images"])


def test_each_image_is_a_window(tmp_path):
    images = write_images(tmp_path / "images", 23)
    flags = {"data": "pixels", "text": (str(tmp_path / "images"),), "validation_split": 0.2, "rows_per_batch": 5}
    stream = load_stream(Config(**flags, max_tokens=784))
    sequences = image_tokens(images, 3, (4, 5)).reshape(23, 785)
    training, validation = stream.batches(Config(**flags, max_tokens=784))
    epoch = training.epoch(0)
    assert (len(epoch), len(validation)) == (3, 1)
    seen = np.concatenate([epoch[i]["labels"] for i in range(3)])
    assert {row.tobytes() for row in seen} <= {row[1:].tobytes() for row in sequences[:19]}
    np.testing.assert_array_equal(validation[0]["labels"][:4], sequences[19:, 1:])
    np.testing.assert_array_equal(validation[0]["token_ids"][:4], sequences[19:, :-1])
    assert not validation[0]["labels"][4:].any()
    assert stream.images == image_texts(images[19:])
    assert stream.scores({"loss": 0.5, "accuracy": 0.7})["nats per image"] == 392
    with pytest.raises(UserError, match="Images of --data pixels have 784 tokens. Received: --max-tokens 128"):
        load_stream(Config(**flags))
    with pytest.raises(UserError, match="needs an IDX file of images"):
        load_stream(Config(data="pixels", max_tokens=784))
