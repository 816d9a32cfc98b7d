"""Pictures as inputs: files that Pillow reads, arrays, and base64 in JSON."""

import base64
import binascii
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from keras_attention.inputs import Field
from keras_attention.inputs.media_files import file_content
from keras_attention.support.errors import UserError, counted, one_line, quoted

if TYPE_CHECKING:
    import numpy as np

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # no others: Pillow would run Ghostscript for EPS
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")
CROP, STRETCH = "crop", "stretch"
FITS = (CROP, STRETCH)
MAX_FILE_BYTES = 32 << 20
MAX_PIXELS = 40_000_000
MAX_SIDE = 30_000  # pixels
MAX_EXAMPLE_BYTES = 256 << 10
CHANNELS = (1, 3, 4)  # last axis of an array: gray, RGB, RGB with alpha
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue, as in Pillow
GRAY = ("1", "L", "LA", "I", "I;16", "I;16B")  # modes of Pillow
PICTURES_TO_READ, LONGEST_SIDE = 200, 64  # for the size of a new network: pictures, and pixels along a side at most
WARP = {"shift": (0.08, 0.08), "scale": (0.12, 0.12), "rotate": 10.0, "erase": ((0.3, 0.3),)}  # see `Warp`
# Each may take 240 MB while it is decoded, in a server with many threads.
_DECODING = threading.BoundedSemaphore(2)


class ImageInput:
    """One picture, brought to the size and the number of channels that a network reads.

    A picture is the name of a file (PNG, JPEG, WebP, GIF, BMP), its content as bytes, a `PIL.Image.Image`, or an array
    (H, W), (H, W, 1), (H, W, 3) or (H, W, 4): integers from 0 to 255, or floats from 0 to 1. It is turned as its EXIF
    data says. Transparent parts become white, 16 bits become 8, and of an animation the first picture is read.

        values = (pixels / 255 - mean) / std

    Args:
        size: (height, width, channels) of the network's input; 1 channel is gray, 3 are RGB.
        fit: "crop" cuts the longer side, around the middle, to the ratio of the network's input; "stretch" keeps all.
        mean, std: list of floats, one for each channel or one for all, on the scale from 0 to 1.

    Raises:
        ValueError: if an argument is out of range.
    """

    name = "image"
    fields = {
        "images": Field(list[str], "Pictures (PNG, JPEG, WebP, GIF, BMP) in base64, also as `data:` URLs.", low=1)
    }
    widget = "image"
    noun = "picture"
    question = "What does a picture show?"
    instruction = "Choose, drop or draw a picture, or try an example."
    is_file = True
    suffixes = SUFFIXES
    plural, simple_model = "images", "logistic regression on HOG"
    drawing = "image"
    body_bytes = 8_000_000  # a photo of 6 MB in base64
    example_suffix, max_example_bytes = ".png", MAX_EXAMPLE_BYTES
    padding: dict = {}  # no axis varies
    exported_shapes = {"pictures": (None, None, None)}

    def __init__(
        self,
        size: Sequence[int],
        fit: str = CROP,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
    ):
        self.size, self.fit, self.mean, self.std = tuple(size), fit, list(mean), list(std)
        if len(self.size) != 3 or self.size[2] not in (1, 3):
            raise ValueError(f"`size` must be (height, width, 1 or 3). Received: size={self.size}")
        if fit not in FITS:
            raise ValueError(f"`fit` must be one of {', '.join(FITS)}. Received: fit={fit!r}")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.size[2]):
                raise ValueError(f"`{name}` must have 1 or {self.size[2]} numbers. Received: {name}={values}")
        if min(self.std) <= 0:
            raise ValueError(f"`std` must be above 0. Received: std={self.std}")

    @classmethod
    def for_sources(cls, sources: Sequence) -> Self:
        """A kind of input that suits most of the pictures: for a network that is trained on them.

        Args:
            sources: sequence of pictures; the headers of some of them, equally spaced, are read.
        """
        import numpy as np

        sizes_and_modes = [_size_and_mode(each) for each in sources[:: max(1, len(sources) // PICTURES_TO_READ)]]
        sizes_and_modes = sizes_and_modes or [((LONGEST_SIDE, LONGEST_SIDE), "RGB")]
        sides = np.median([(height, width) for (width, height), _ in sizes_and_modes], axis=0)
        sides = np.clip(sides, sides.max() / 2, None)  # at most twice as long as wide
        sides = sides * min(1.0, LONGEST_SIDE / sides.max())
        step = 2 if sides.max() <= 16 else 4 if sides.max() <= 32 else 8
        height, width = (max(2 * step, step * round(side / step)) for side in sides)
        channels = 1 if all(mode in GRAY for _, mode in sizes_and_modes) else 3
        return cls((height, width, channels), mean=[0.5], std=[0.5])

    @classmethod
    def fits(cls, source: Any) -> bool:
        """Whether a source looks like a picture: by the end of its name, or its type."""
        if isinstance(source, (str, os.PathLike)):
            return str(source).lower().endswith(SUFFIXES)
        return hasattr(source, "getexif") or len(getattr(source, "shape", ())) in (2, 3)

    def config_keys(self) -> dict[str, Any]:
        """The arguments other than the size, for config.json: dict of JSON types."""
        return {"fit": self.fit, "mean": self.mean, "std": self.std}

    def signature(self) -> dict[str, tuple[str, str]]:
        """The inputs of an exported model; B is the number of pictures."""
        meaning = "pixels from 0 to 255 of pictures of any size; C: 1 is gray, 3 RGB, 4 RGB and alpha"
        return {"pictures": ("uint8 (B, height, width, C)", meaning)}

    def as_list(self, images: Any) -> tuple[list, bool]:
        """Converts pictures of any type into a list.

        An array with 4 axes is a batch; one with 3 axes too, if the last one has not 1, 3 or 4 numbers (gray pictures).

        Returns:
            Pair of the list, and whether `images` was a single picture.

        Raises:
            UserError: if it is neither a picture nor an iterable.
        """
        if isinstance(images, (str, os.PathLike, bytes, bytearray)) or hasattr(images, "getexif"):
            return [images], True
        if hasattr(images, "shape"):
            rank = len(images.shape)
            if rank == 2 or (rank == 3 and images.shape[-1] in CHANNELS):
                return [images], True
            return list(images), False
        if not isinstance(images, Iterable):
            raise UserError(
                f"Expected a picture (name of a file, bytes, PIL.Image.Image or array), or a list of pictures. "
                f"Received: {type(images).__name__}"
            )
        return list(images), False

    def read(self, picture: Any) -> "np.ndarray":
        """Reads one picture: uint8 array (height, width, channels) of the network's size.

        Raises:
            UserError: if the file does not exist, is no picture, is damaged or too large, or the array has another
                shape, type or range of numbers.
        """
        if isinstance(picture, (str, os.PathLike)):
            return self._decoded(file_content(picture, MAX_FILE_BYTES, "picture"), str(picture))
        if isinstance(picture, (bytes, bytearray)):
            return self._decoded(bytes(picture), "The picture")
        if hasattr(picture, "getexif"):
            return self._fitted(picture, "The picture")
        return self._from_array(picture)

    def check_file(self, number: int, path: str) -> None:
        """Raises UserError unless there is a file with the header of a picture; decodes nothing. `number` is unused."""
        with _opened(file_content(path, MAX_FILE_BYTES, "picture"), path):
            pass

    def from_json(self, item: str) -> "np.ndarray":
        """Reads a picture of a request, in base64; see `read`.

        Raises:
            UserError: also if it is not valid base64.
        """
        head, comma, content = item.partition(",")
        encoded = "".join((content if comma and head.startswith("data:") else item).split())
        try:
            return self._decoded(base64.b64decode(encoded, validate=True), "The picture")
        except (binascii.Error, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"A picture must be base64 of a file. Received: {quoted(item, 40)}") from None

    def file_as_json(self, path: Path) -> str:
        """The picture in a file as an item of a request: base64 of its content."""
        return base64.b64encode(path.read_bytes()).decode()

    def arrays(self, value: "np.ndarray") -> dict[str, "np.ndarray"]:
        """What the network reads of a picture that `read` has returned: `values`, float32 (height, width, channels)."""
        import numpy as np

        mean, std = (np.asarray(numbers, "float32") for numbers in (self.mean, self.std))
        return {"values": ((value.astype("float32") / 255 - mean) / std).astype("float32")}

    def drawn(self, value: "np.ndarray") -> "np.ndarray":
        """A picture that `read` has returned as floats from 0 to 1, (height, width) or (height, width, 3)."""
        return (value[..., 0] if self.size[2] == 1 else value).astype("float32") / 255

    def features(self, values: Any) -> Any:
        """What a simple model reads of values (B, *size): tensor (B, D), see `gradient_histograms`."""
        from keras_attention.data.images.gradient_histograms import gradient_histograms

        return gradient_histograms(values)

    def augmented(self, arrays: dict[str, "np.ndarray"], numbers: "np.ndarray", flip: bool) -> dict[str, "np.ndarray"]:
        """`arrays` of a picture for training: moved, scaled, turned and partly erased at random, see `Warp`."""
        from keras_attention.data.augmentation import Warp, warped

        return {"values": warped(arrays["values"], numbers, Warp(**WARP, flip=flip))}

    def example_arrays(self, length: int = 1) -> dict[str, "np.ndarray"]:
        """`arrays` of a white picture, to compile a network; `length` is unused, because no axis varies."""
        import numpy as np

        return self.arrays(np.full(self.size, 255, "uint8"))

    def exported_arrays(self) -> dict[str, "np.ndarray"]:
        """One input of an exported model, by the names of `signature`."""
        import numpy as np

        return {"pictures": np.full(self.size, 255, "uint8")}

    def from_exported(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """What the network reads, tensors (B, ...), from the inputs of an exported model, in a TensorFlow graph."""
        import tensorflow as tf

        pixels = tf.cast(inputs["pictures"], tf.float32)
        channels = tf.shape(pixels)[3]
        tf.debugging.Assert(tf.reduce_any(channels == CHANNELS), ["Expected: 1, 3 or 4 channels"])
        rgb = tf.gather(tf.concat([pixels] * 3, axis=-1), [0, 1, 2], axis=-1)  # a gray picture has three equal channels
        opaque = tf.cond(channels == 4, lambda: pixels[..., -1:] / 255, lambda: tf.ones_like(pixels[..., -1:]))
        rgb = opaque * rgb + (1 - opaque) * 255  # transparent parts become white
        if self.size[2] == 1:
            rgb = tf.round(tf.tensordot(rgb, tf.constant(LUMINANCE), axes=1)[..., None])
        target = tf.constant(self.size[:2], tf.float32)
        sides = tf.cast(tf.shape(rgb)[1:3], tf.float32)
        scale = target / sides
        if self.fit == CROP:
            scale = tf.fill([2], tf.reduce_max(scale))
        fitted = tf.raw_ops.ScaleAndTranslate(
            images=rgb,
            size=self.size[:2],
            scale=scale,
            translation=(target - sides * scale) / 2,
            kernel_type="triangle",
        )
        values = (tf.round(tf.clip_by_value(fitted, 0, 255)) / 255 - self.mean) / self.std
        return {"values": tf.ensure_shape(values, (None, *self.size))}

    def write_example(self, value: "np.ndarray", path: Path) -> None:
        """Writes a picture that `read` has returned as PNG; `read` gives the same pixels again."""
        from PIL import Image

        Image.fromarray(value[..., 0] if self.size[2] == 1 else value).save(path, format="PNG", optimize=True)

    def _decoded(self, content, name):
        with _DECODING, _opened(content, name) as image:
            return self._fitted(image, name)

    def _fitted(self, image, name):
        """The pixels of a `PIL.Image.Image`, uint8 (height, width, channels)."""
        _check_size(image.size, name)
        try:
            image.load()
            return self._pixels(image, name)
        except UserError:
            raise
        except Exception as error:  # Pillow's decoders raise many types for damaged files
            raise UserError(f"{name} is damaged: {one_line(error) or type(error).__name__}") from error

    def _pixels(self, image, name):
        import numpy as np
        from PIL import Image, ImageOps

        with suppress(Exception):  # damaged EXIF data: the picture stays as it is
            image = ImageOps.exif_transpose(image)
        image = _in_eight_bits(image, "L" if self.size[2] == 1 else "RGB", name)
        height, width, _ = self.size
        if self.fit == CROP:
            image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
        else:
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(image, "uint8").reshape(self.size)

    def _from_array(self, picture):
        import numpy as np
        from PIL import Image

        try:
            array = np.asarray(picture)
        except Exception as error:  # any object that a user passes
            raise UserError(f"A picture cannot be a {type(picture).__name__}.") from error
        if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in CHANNELS) or not array.size:
            raise UserError(
                f"A picture must be an array (H, W), or (H, W, C) with 1, 3 or 4 channels. "
                f"Received: {type(picture).__name__} with the shape {array.shape}"
            )
        floats, integers = np.issubdtype(array.dtype, np.floating), np.issubdtype(array.dtype, np.integer)
        highest, expected = (255, "from 0 to 255") if integers else (1, "from 0 to 1")
        if not (floats or integers):
            raise UserError(f"A picture must be an array of integers or floats. Received: {array.dtype}")
        if not (array.min() >= 0 and array.max() <= highest):  # also for NaN
            raise UserError(
                f"The numbers of a picture must be {expected}. Received: {array.dtype} from {array.min():g} to "
                f"{array.max():g}"
            )
        pixels = np.rint(array * 255).astype("uint8") if floats else array.astype("uint8")
        pixels = pixels[..., 0] if pixels.shape[-1:] == (1,) and pixels.ndim == 3 else pixels
        _check_size(pixels.shape[1::-1], "The picture")
        return self._fitted(Image.fromarray(np.ascontiguousarray(pixels)), "The picture")


def _opened(content, name):
    """The picture in a file's content; only its header is read."""
    from PIL import Image

    kinds = f"Pictures are {', '.join(FORMATS[:-1])} or {FORMATS[-1]} files."
    if not content:
        raise UserError(f"{name} is empty. {kinds}")
    try:
        image: Image.Image = Image.open(BytesIO(content), formats=FORMATS)
    except Image.DecompressionBombError:
        raise UserError(f"{name} has too many pixels. Allowed: {MAX_PIXELS:,}") from None
    except Exception as error:  # Pillow's parsers raise many types for damaged files
        reason = "" if isinstance(error, Image.UnidentifiedImageError) else f" ({one_line(error)})"
        raise UserError(f"{name} is not a picture that can be read{reason}. {kinds}") from error
    _check_size(image.size, name)
    return image


def _size_and_mode(source):
    """((width, height), mode of Pillow) of a picture in any form, upright."""
    from PIL import Image

    if hasattr(source, "shape"):
        return source.shape[1::-1], "L" if len(source.shape) == 2 or source.shape[2] == 1 else "RGB"
    inside = isinstance(source, (bytes, bytearray))
    name = "The picture" if inside else str(source)
    if hasattr(source, "getexif"):
        image = source
    else:
        image = _opened(bytes(source) if inside else file_content(source, MAX_FILE_BYTES, "picture"), name)
    if not isinstance(image, Image.Image):
        raise UserError(f"A picture cannot be a {type(source).__name__}.")
    with suppress(Exception):  # damaged EXIF data: the picture stays as it is
        if image.getexif().get(ORIENTATION, 1) > 4:
            return image.size[::-1], image.mode
    return image.size, image.mode


ORIENTATION = 0x0112  # of EXIF; from 5 to 8, height and width are exchanged


def _check_size(size, name):
    width, height = size
    if width * height > MAX_PIXELS or max(size) > MAX_SIDE or min(size) < 1:
        raise UserError(
            f"{name} has {width:,} x {height:,} pixels. Allowed: up to {counted(MAX_PIXELS, 'pixel')}, {MAX_SIDE:,} on "
            "a side. Make it smaller."
        )


def _in_eight_bits(image, mode, name):
    """The picture as "L" or "RGB", transparent parts white."""
    import numpy as np
    from PIL import Image

    if image.mode == "F":
        raise UserError(f"{name} has floats as pixels. Expected: 8 or 16 bits.")
    if image.mode.startswith("I"):  # Pillow would clip 16 bits to 255
        image = Image.fromarray((np.clip(np.asarray(image), 0, 65535) >> 8).astype("uint8"))
    if image.has_transparency_data:
        above = image.convert("RGBA")
        image = Image.new("RGB", image.size, "white")
        image.paste(above, mask=above.getchannel("A"))
    return image.convert(mode)
