"""Pictures: every form gives the same pixels, hostile files give one line."""

import base64
import io
import re

import numpy as np
import pytest
from inputs.pictures import HEIGHT, WIDTH, damaged_exif, encoded, forms, gray, hostile
from PIL import Image

from keras_attention.inputs.image import ImageInput
from keras_attention.support.errors import UserError

EXACT = {"gray", "colour", "palette", "alpha", "colour and alpha", "16 bits", "animation", "WebP", "BMP"}


@pytest.fixture
def kind():
    return ImageInput((HEIGHT, WIDTH, 1))


@pytest.mark.parametrize("name", forms())
def test_every_form_of_a_picture_gives_its_pixels(kind, tmp_path, name):
    content = forms()[name]
    (tmp_path / "picture").write_bytes(content)
    values = kind.read(tmp_path / "picture")
    assert values.dtype == np.uint8
    assert values.shape == (HEIGHT, WIDTH, 1)
    error = np.abs(values[..., 0].astype(int) - gray()).max()
    assert error <= (0 if name in EXACT else 12)
    np.testing.assert_array_equal(kind.read(content), values)
    np.testing.assert_array_equal(kind.from_json(base64.b64encode(content).decode()), values)
    url = f"data:image/png;base64,{base64.encodebytes(content).decode()}"
    np.testing.assert_array_equal(kind.from_json(url), values)


def test_an_open_picture_of_a_damaged_file_is_refused(kind):
    with pytest.raises(UserError, match="The picture is damaged: "):
        kind.read(Image.open(io.BytesIO(hostile()["truncated PNG"][0])))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_damaged_exif_data_is_ignored(kind):
    assert np.abs(kind.read(damaged_exif())[..., 0].astype(int) - gray()).max() <= 12


@pytest.mark.parametrize("name", hostile())
def test_hostile_files_are_refused_in_one_line(kind, tmp_path, name):
    content, message = hostile()[name]
    path = tmp_path / "hostile.png"
    path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(message)) as error:
        kind.read(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    with pytest.raises(UserError, match=re.escape(message)):
        kind.from_json(base64.b64encode(content).decode())


def test_values_other_than_files_are_refused(kind, tmp_path):
    with pytest.raises(UserError, match="missing.png does not exist. Expected: the name of a picture."):
        kind.read("missing.png")
    with pytest.raises(UserError, match="is a folder"):
        kind.read(tmp_path)
    with pytest.raises(UserError, match="/dev/null is not a file"):
        kind.read("/dev/null")
    with pytest.raises(UserError, match=r"must be base64 of a file. Received: 'no base64!'"):
        kind.from_json("no base64!")
    with pytest.raises(UserError, match="is empty"):
        kind.from_json("")


def test_a_file_is_checked_without_decoding_it(kind, tmp_path):
    for name, (content, message) in hostile().items():
        (tmp_path / "picture").write_bytes(content)
        if message == "is damaged":
            kind.check_file(1, tmp_path / "picture")
        else:
            with pytest.raises(UserError, match=re.escape(message)):
                kind.check_file(1, str(tmp_path / "picture"))
        assert name


@pytest.mark.parametrize(
    "array",
    [
        gray(),
        gray()[..., None],
        gray().astype("int64"),
        gray() / 255,
        (gray() / 255).astype("float32"),
        np.repeat(gray()[..., None], 3, axis=-1),
        np.dstack([gray()] * 3 + [np.full_like(gray(), 255)]),
        Image.fromarray(gray()),
        np.asfortranarray(gray()),
    ],
    ids=lambda array: f"{type(array).__name__} {getattr(array, 'dtype', '')} {getattr(array, 'shape', '')}",
)
def test_arrays_of_every_type_give_the_same_pixels(kind, array):
    np.testing.assert_array_equal(kind.read(array)[..., 0], gray())


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(7), r"Received: ndarray with the shape \(7,\)"),
        (np.zeros((7, 5, 2)), r"shape \(7, 5, 2\)"),
        (np.zeros((0, 5)), r"shape \(0, 5\)"),
        (np.full((7, 5), 1.5), "must be from 0 to 1. Received: float64 from 1.5 to 1.5"),
        (np.full((7, 5), np.nan), "must be from 0 to 1"),
        (np.full((7, 5), 256), "must be from 0 to 255. Received: int64 from 256 to 256"),
        (np.full((7, 5), -1), "must be from 0 to 255"),
        (np.full((7, 5), "a"), "integers or floats"),
        (Image.fromarray(np.zeros((7, 5), "float32")), "floats as pixels"),
        (None, "A picture must be an array"),
    ],
)
def test_other_arrays_are_refused(kind, array, message):
    with pytest.raises(UserError, match=message):
        kind.read(array)


def test_one_picture_and_lists_of_pictures(kind):
    for one in ("a.png", b"content", gray(), gray()[..., None], Image.fromarray(gray())):
        assert kind.as_list(one)[1]
        assert len(kind.as_list(one)[0]) == 1
    batch = np.stack([gray()] * 2)
    for some, count in ((batch, 2), (batch[..., None], 2), ([gray()] * 3, 3), (iter(["a.png"]), 1)):
        items, alone = kind.as_list(some)
        assert (len(items), alone) == (count, False)
    with pytest.raises(UserError, match="Received: int"):
        kind.as_list(7)


def test_transparent_parts_are_white():
    kind = ImageInput((5, 7, 3))
    clear = Image.new("RGBA", (7, 5), (10, 20, 30, 0))
    np.testing.assert_array_equal(kind.read(encoded(clear)), np.full((5, 7, 3), 255))
    half = Image.new("RGBA", (7, 5), (0, 0, 0, 128))
    np.testing.assert_allclose(kind.read(encoded(half)), 127, atol=1)
    palette = Image.new("P", (7, 5), 0)
    palette.putpalette([90, 80, 70])
    np.testing.assert_array_equal(kind.read(encoded(palette, transparency=0)), np.full((5, 7, 3), 255))
    np.testing.assert_array_equal(kind.read(encoded(palette))[0, 0], [90, 80, 70])


def test_the_longer_side_is_cut_or_the_picture_stretched():
    wide = np.zeros((6, 18), "uint8")
    wide[:, 6:12] = 255
    np.testing.assert_array_equal(ImageInput((6, 6, 1)).read(wide), np.full((6, 6, 1), 255))
    stretched = ImageInput((6, 6, 1), fit="stretch").read(wide)[0, :, 0]
    assert stretched[0] == stretched[-1] == 0
    assert min(stretched[2:4]) > 200


def test_values_are_normalized_by_channel():
    kind = ImageInput((5, 7, 3), mean=[0.5, 0.25, 0.0], std=[0.5, 0.25, 2.0])
    pixels = np.random.default_rng(3).integers(0, 256, (5, 7, 3)).astype("uint8")
    arrays = kind.arrays(kind.read(pixels))
    assert set(arrays) == {"values"}
    assert arrays["values"].dtype == np.float32
    for place in np.ndindex(pixels.shape):
        channel = place[-1]
        expected = (pixels[place] / 255 - kind.mean[channel]) / kind.std[channel]
        assert arrays["values"][place] == pytest.approx(expected, abs=1e-6)


def test_an_example_is_written_without_loss(kind, tmp_path):
    colour = ImageInput((5, 7, 3))
    for one, array in ((kind, gray()), (colour, np.arange(105, dtype="uint8").reshape(5, 7, 3))):
        one.write_example(one.read(array), tmp_path / "example_1.png")
        np.testing.assert_array_equal(one.read(tmp_path / "example_1.png"), one.read(array))
        written = one.from_json(one.file_as_json(tmp_path / "example_1.png"))
        np.testing.assert_array_equal(written, one.read(array))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": (5, 7)}, r"`size` must be \(height, width, 1 or 3\). Received: size=\(5, 7\)"),
        ({"size": (5, 7, 4)}, "size=\\(5, 7, 4\\)"),
        ({"size": (5, 7, 1), "fit": "pad"}, "`fit` must be one of crop, stretch. Received: fit='pad'"),
        ({"size": (5, 7, 1), "mean": [0.1, 0.2]}, r"`mean` must have 1 or 1 numbers. Received: mean=\[0.1, 0.2\]"),
        ({"size": (5, 7, 3), "std": [0.0]}, r"`std` must be above 0. Received: std=\[0.0\]"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ImageInput(**settings)


@pytest.mark.parametrize("fit", ["crop", "stretch"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [(8, 12, 1), (8, 12, 3), (5, 4, 3), (40, 23, 3), (90, 200, 1), (31, 47, 4)])
def test_an_exported_model_reads_the_same_of_pixels(fit, channels, shape):
    """At most one of 256 steps apart, since Pillow rounds between rows and columns."""
    kind = ImageInput((8, 12, channels), fit, mean=[0.5], std=[0.25])
    pixels = np.random.default_rng(1).integers(0, 256, shape, "uint8")
    expected = kind.arrays(kind.read(pixels))["values"]
    actual = kind.from_exported({"pictures": pixels[None]})["values"].numpy()
    assert actual.shape == (1, 8, 12, channels)
    np.testing.assert_allclose(actual[0], expected, atol=1.01 / 255 / 0.25)
