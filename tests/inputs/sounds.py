"""Sounds as files: one tone in every form that users have, and files that are no sounds or are hostile."""

import io
import struct

import numpy as np
import soundfile

RATE = 8009


def tone(rate=RATE, seconds=0.73, hertz=440.0):
    """Float array: a tone that becomes louder."""
    times = np.arange(round(rate * seconds)) / rate
    return 0.8 * np.sin(2 * np.pi * hertz * times) * times / seconds


def encoded(samples, rate=RATE, kind="WAV", subtype="PCM_16"):
    """The content of a file."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=subtype)
    return file.getvalue()


def forms():
    """Dict from name to the content of a file with `tone()`."""
    both = np.stack([tone(), tone()], axis=1)
    rates = {f"{rate} Hz": encoded(tone(rate), rate) for rate in (4001, 11_025, 44_100, 48_000, 96_001)}
    return {
        "16 bits": encoded(tone()),
        "8 bits": encoded(tone(), subtype="PCM_U8"),
        "24 bits": encoded(tone(), subtype="PCM_24"),
        "32 bits": encoded(tone(), subtype="PCM_32"),
        "floats": encoded(tone(), subtype="FLOAT"),
        "doubles": encoded(tone(), subtype="DOUBLE"),
        "loud floats": encoded(1e20 * tone(), subtype="FLOAT"),
        "mu-law": encoded(tone(), subtype="ULAW"),
        "GSM 6.10": encoded(tone(), subtype="GSM610"),
        "stereo": encoded(both),
        "left only": encoded(both * [1, 0]),
        "FLAC": encoded(tone(), kind="FLAC"),
        "OGG": encoded(tone(16_000), 16_000, "OGG", "VORBIS"),
        "MP3": encoded(tone(16_000), 16_000, "MP3", "MPEG_LAYER_III"),
        "AIFF": encoded(tone(), kind="AIFF"),
        **rates,
    }


def wav(rate=RATE, channels=1, bits=16, data=b"", announced=None):
    """A WAV file with any header; `announced` is the number of bytes that the header claims."""
    size = len(data) if announced is None else announced
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * bits // 8 % 2**32, channels * bits // 8, bits)
    return (
        b"RIFF" + struct.pack("<I", (36 + size) % 2**32) + b"WAVE" + b"fmt " + struct.pack("<I", 16) + form
        + b"data" + struct.pack("<I", size % 2**32) + data
    )  # fmt: skip


def hours():
    """A FLAC file of two hours of silence, some kB."""
    return encoded(np.zeros(2 * 3600 * 1000, "int16"), 1000, "FLAC")


def hostile():
    """Dict from name to the content of a file that must be refused, and a part of the message."""
    samples = (20_000 * tone()).astype("<i2").tobytes()
    flac = encoded(np.random.default_rng(7).uniform(-1, 1, 7919), kind="FLAC")
    broken = np.where(np.arange(997) == 613, np.nan, 0.1)
    return {
        "empty": (b"", "is empty"),
        "text": (b"what a wonderful day", "is not a sound"),
        "picture": (b"\x89PNG\r\n\x1a\n" + bytes(97), "is not a sound"),
        "AVI": (b"RIFF" + struct.pack("<I", 97) + b"AVI " + bytes(97), "is not a sound"),
        "header only": (wav(data=samples)[:20], "is not a sound"),
        "no samples": (wav(), "has no samples"),
        "rate 0": (wav(rate=0, data=samples), ""),
        "rate of 7": (wav(rate=7, data=samples), "has 7 samples a second. Allowed: 1,000 to 768,000"),
        "4,000,000,000 Hz": (wav(rate=4_000_000_000, data=samples), ""),
        "no channels": (wav(channels=0, data=samples), ""),
        "1,000 channels": (wav(channels=1000, data=samples), "has 1,000 channels. Allowed: 32"),
        "NaN": (encoded(broken, subtype="FLOAT"), "holds NaN or infinity"),
        "infinity": (encoded(np.where(np.isnan(broken), np.inf, 0.1), subtype="FLOAT"), "holds NaN or infinity"),
        "two hours": (hours(), "has 7,200 seconds. Allowed: up to 600"),
        "truncated FLAC header": (flac[:41], ""),
        "other bits": (flac[:200] + bytes(200) + flac[400:600], ""),
    }
