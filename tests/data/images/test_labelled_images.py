import gzip

import numpy as np
import pytest
from inputs.sounds import encoded, tone

from keras_attention.data.images.labelled_images import load_image_data, read_part
from keras_attention.inputs.image import ImageInput
from keras_attention.inputs.series import SeriesInput
from keras_attention.inputs.sound import SoundInput
from keras_attention.support.errors import UserError

PIXELS = np.arange(7 * 3 * 5, dtype="uint8").reshape(7, 3, 5)
LABELS = np.arange(7, dtype="uint8")


def write_idx(path, array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


@pytest.fixture
def folder(tmp_path):
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", PIXELS)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", LABELS)
    return tmp_path


def test_idx_files_are_read(folder):
    images = read_part(folder, "train")
    np.testing.assert_array_equal(images.pixels[..., 0], PIXELS)
    np.testing.assert_array_equal(images.labels, LABELS)
    assert read_part(folder, "test") is None


def test_a_file_that_was_decompressed_under_its_old_name_is_read(folder):
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.decompress(path.read_bytes()))
    np.testing.assert_array_equal(read_part(folder, "train").pixels[..., 0], PIXELS)


def test_the_last_images_are_held_out(folder):
    data = load_image_data("mnist", str(folder), 0.3)
    assert data.train.labels.tolist() == [0, 1, 2, 3, 4]
    assert data.validation.labels.tolist() == [5, 6]
    assert data.test is None


def test_digits_need_no_files():
    data = load_image_data("digits", validation_split=0.125)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [1257, 180, 360]
    assert data.train.pixels.shape[1:] == (8, 8, 1)
    assert (data.train.pixels.min(), data.train.pixels.max()) == (0, 255)


@pytest.mark.parametrize("damage", ["cut", "longer", "broken gzip", "text", "kind", "sizes", "labels", "missing"])
def test_damaged_files_are_one_named_error(folder, damage):
    path = folder / "train-images-idx3-ubyte.gz"
    whole = gzip.decompress(path.read_bytes())
    if damage == "labels":
        write_idx(folder / "train-labels-idx1-ubyte.gz", LABELS[:5])
    elif damage == "missing":
        (folder / "train-labels-idx1-ubyte.gz").unlink()
    elif damage in ("broken gzip", "text"):
        path.write_bytes(b"\x1f\x8b" + whole if damage == "broken gzip" else b"not an image")
    else:
        changed = {
            "cut": whole[:-1],
            "longer": whole + b"x",
            "kind": whole[:2] + b"\x0d" + whole[3:],
            "sizes": whole[:4] + b"\xff" * 12,
        }
        path.write_bytes(gzip.compress(changed[damage]))
    with pytest.raises(UserError, match="train-"):
        read_part(folder, "train")


def test_other_names_and_folders_are_refused(tmp_path, folder):
    with pytest.raises(UserError, match="faces"):
        load_image_data("faces")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no train-images"):
        load_image_data("mnist", str(tmp_path / "empty"))
    with pytest.raises(UserError, match="Received: 0.7"):
        load_image_data("mnist", str(folder), 0.7)


def test_tables_of_series(tmp_path):
    random = np.random.default_rng(3)
    for part, count in (("train", 11), ("test", 5)):
        rows = [[("up", "down")[n % 2], *random.normal(size=37)] for n in range(count)]
        (tmp_path / f"lines_{part}.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    path = str(tmp_path / "lines_train.csv")
    data = load_image_data(path, validation_split=0.3, kinds=(ImageInput, SeriesInput))
    assert [len(part) for part in (data.train, data.validation, data.test)] == [8, 3, 5]
    assert data.train.pixels.shape == (8, 38, 1)
    assert data.label_names == ("down", "up")
    assert data.kind.config_keys() == {"length": 37}
    (tmp_path / "lines_test.csv").write_text("left,1,2,3\n")
    with pytest.raises(UserError, match="has the label 'left', which no training example has"):
        load_image_data(path, kinds=(SeriesInput,))
    (tmp_path / "one.csv").write_text("up,1,2,3\nup,3,2,1\n")
    with pytest.raises(UserError, match="has one label, 'up'"):
        load_image_data(str(tmp_path / "one.csv"), kinds=(SeriesInput,))


def test_folders_of_sounds(tmp_path):
    for number in range(7):
        folder = tmp_path / ("low", "high")[number % 2]
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.wav").write_bytes(encoded(tone(hertz=100 + 50 * number)))
    data = load_image_data(str(tmp_path), validation_split=0.3, kinds=(ImageInput, SoundInput, SeriesInput))
    assert (len(data.train), len(data.validation), data.test) == (5, 2, None)
    for recording, values in zip(data.held, data.validation.pixels, strict=True):
        np.testing.assert_array_equal(data.kind.arrays(recording)["values"], values)
