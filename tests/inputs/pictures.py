"""Pictures as files: one picture in every form that users have, and files that are no pictures or are hostile."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 11, 17


def gray():
    """uint8 (11, 17): dark above on the left, light below on the right."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    return (9 * rows + 7 * columns).astype("uint8")


def encoded(image, kind="PNG", **options):
    """The content of a file."""
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return file.getvalue()


def rotated_by_exif():
    """A JPEG as of a phone that was held upright: the pixels are turned, and the EXIF data says so."""
    image = Image.fromarray(np.rot90(gray(), 1))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise to see it
    return encoded(image, "JPEG", exif=exif, quality=95)


def damaged_exif():
    """A JPEG of `gray()` whose EXIF data is cut."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(Image.fromarray(gray()), "JPEG", exif=exif.tobytes()[:-7], quality=95)


def forms():
    """Dict from name to the content of a file that shows `gray()`."""
    image, alpha = Image.fromarray(gray()), Image.new("L", (WIDTH, HEIGHT), 255)
    colour = image.convert("RGB")
    animation = [image.convert("P"), Image.new("P", image.size, 3)]
    return {
        "gray": encoded(image),
        "colour": encoded(colour),
        "palette": encoded(colour.quantize(256)),
        "alpha": encoded(Image.merge("LA", [image, alpha])),
        "colour and alpha": encoded(colour.convert("RGBA")),
        "16 bits": encoded(Image.fromarray(gray().astype("uint16") * 257)),
        "JPEG": encoded(image, "JPEG", quality=95),
        "CMYK": encoded(colour.convert("CMYK"), "JPEG", quality=95),
        "animation": encoded(animation[0], "GIF", save_all=True, append_images=animation[1:]),
        "WebP": encoded(colour, "WEBP", lossless=True),
        "BMP": encoded(image, "BMP"),
        "turned by EXIF": rotated_by_exif(),
    }


def png_of_size(width, height):
    """A small PNG file whose header asks for many pixels: a bomb."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = zlib.compress(b"\0" * 100)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def hostile():
    """Dict from name to the content of a file that must be refused, and a part of the message."""
    noise = Image.fromarray(np.random.default_rng(7).integers(0, 256, (61, 67)).astype("uint8"))
    png, jpeg = encoded(noise), encoded(noise, "JPEG")
    return {
        "empty": (b"", "is empty"),
        "text": (b"what a wonderful day", "is not a picture"),
        "EPS": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 7 5\nshowpage\n", "is not a picture"),
        "PDF": (b"%PDF-1.4\n", "is not a picture"),
        "truncated PNG": (png[: len(png) * 3 // 4], "is damaged"),
        "truncated JPEG": (jpeg[: len(jpeg) * 3 // 4], "is damaged"),
        "header only": (png[:30], "is not a picture"),
        "bomb": (png_of_size(100_000, 100_000), "too many pixels"),
        "smaller bomb": (png_of_size(9_001, 9_001), "9,001 x 9,001 pixels. Allowed: up to 40,000,000 pixels"),
        "1 x 1,000,000": (png_of_size(1, 1_000_000), "1 x 1,000,000 pixels"),
        "other pixels": (png_of_size(61, 67), "is damaged"),
    }
