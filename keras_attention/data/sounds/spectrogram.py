"""Log-mel spectrograms of waveforms, as products of matrices: the same code in training, in Python and in a graph."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

RANGE = 80.0  # decibels below the loudest value of a recording; softer ones are raised to it
LEAST_POWER = 1e-10
COEFFICIENTS = 20  # of a cepstrum
PARTS = 4  # of a recording, in which cepstra are averaged


class MelSettings(NamedTuple):
    """How a waveform becomes a log-mel spectrogram.

    Attributes:
        rate: int > 0, samples per second.
        window: int > 0, samples of a frame.
        hop: int > 0, samples from frame to frame.
        frames: int > 0, T.
        bands: int > 0, the mel bands M, from `LOWEST` Hz to half the rate.
    """

    rate: int
    window: int
    hop: int
    frames: int
    bands: int


LOWEST = 20.0  # Hz


def mel(hertz: Any) -> Any:
    """Frequencies on the mel scale of HTK: 2595 log10(1 + f / 700)."""
    return 2595.0 * np.log10(1.0 + np.asarray(hertz, "float64") / 700.0)


def mel_filters(bands: int, bins: int, rate: int) -> np.ndarray:
    """Overlapping triangles over the frequencies of a Fourier transform, equally wide on the mel scale.

        filter[k, m] = max(0, min((mel(f_k) - e_m) / (e_m+1 - e_m), (e_m+2 - mel(f_k)) / (e_m+2 - e_m+1)))

    Args:
        bands: int > 0, M; its edges e_0 ... e_M+1 are equally spaced from mel(`LOWEST`) to mel(rate / 2).
        bins: int > 1, F; f_0 ... f_F-1 are equally spaced from 0 to rate / 2.
        rate: int > 0, samples per second.

    Returns:
        float32 array (F, M); the row of 0 Hz is 0.

    Source: the filters of `tf.signal.linear_to_mel_weight_matrix`.
    """
    edges = np.linspace(mel(LOWEST), mel(rate / 2), bands + 2)
    places = mel(np.linspace(0.0, rate / 2, bins))[:, None]  # (F, 1)
    rising = (places - edges[:-2]) / (edges[1:-1] - edges[:-2])  # (F, M)
    falling = (edges[2:] - places) / (edges[2:] - edges[1:-1])
    filters = np.maximum(0.0, np.minimum(rising, falling))
    filters[0] = 0.0
    return filters.astype("float32")


@lru_cache(maxsize=16)
def fourier_basis(window: int) -> np.ndarray:
    """Matrix (window, 2 F) whose product with a frame is the Fourier transform of the frame under a Hann window.

    The frame is filled up with zeros to N = 2^ceil(log2(window)) * 2 samples, so F = N / 2 + 1; real parts come first.
    """
    size = 2 ** (int(window - 1).bit_length() + 1)
    times = np.arange(window)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * times / window)
    angles = 2 * np.pi * np.outer(times, np.arange(size // 2 + 1)) / size
    return (hann[:, None] * np.concatenate([np.cos(angles), -np.sin(angles)], axis=1)).astype("float32")


@lru_cache(maxsize=16)
def _constants(settings: MelSettings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    basis = fourier_basis(settings.window)
    places = settings.hop * np.arange(settings.frames)[:, None] + np.arange(settings.window)  # (T, window)
    return basis, mel_filters(settings.bands, basis.shape[1] // 2, settings.rate), places.astype("int32")


def log_mel(waveforms: Any, settings: MelSettings) -> Any:
    """The log-mel spectrograms of waveforms, relative to their loudest values.

        power[t, k] = |sum over n of hann[n] x[t hop + n] e^(-2 pi i k n / N)|^2
        decibels = 10 log10(filters power)        values = 1 + (max(decibels, loudest - 80) - loudest) / 40

    Args:
        waveforms: float array or tensor (B, L), from -1 to 1.
        settings: MelSettings; L = window + (T - 1) hop.

    Returns:
        float32 tensor (B, T, M) from -1 to 1; -1 everywhere for silence.
    """
    from keras import ops

    basis, filters, places = _constants(settings)
    waveforms = ops.cast(waveforms, "float32")
    frames = ops.take(waveforms, places, axis=1)  # (B, T, window)
    parts = ops.square(ops.matmul(frames, basis))  # (B, T, 2 F)
    bins = basis.shape[1] // 2
    power = ops.matmul(parts[..., :bins] + parts[..., bins:], filters)  # (B, T, M)
    decibels = (10.0 / np.log(10.0)) * ops.log(ops.maximum(power, LEAST_POWER))
    loudest = ops.max(decibels, axis=(1, 2), keepdims=True)  # (B, 1, 1)
    silent = loudest <= 10.0 * np.log10(LEAST_POWER) + 1e-3
    values = 1.0 + (ops.maximum(decibels - loudest, -RANGE)) * (2.0 / RANGE)
    return ops.where(silent, -1.0, values)


@lru_cache(maxsize=16)
def cosine_basis(bands: int, coefficients: int) -> np.ndarray:
    """Matrix (M, C) of the orthonormal discrete cosine transform (DCT-II), for cepstra."""
    orders, places = np.arange(coefficients), np.arange(bands) + 0.5
    basis = np.sqrt(2.0 / bands) * np.cos(np.pi * np.outer(places, orders) / bands)
    basis[:, 0] /= np.sqrt(2.0)
    return basis.astype("float32")


def cepstral_statistics(values: Any) -> Any:
    """What a simple model reads of spectrograms: statistics of their mel cepstra (MFCC) over time.

    They are the mean, the standard deviation and the mean absolute change from frame to frame of each coefficient, the
    same of each band, and the mean cepstra of the four quarters of the recording.

    Args:
        values: float array or tensor (B, T, M) of `log_mel`.

    Returns:
        float32 tensor (B, D).
    """
    from keras import ops

    values = ops.cast(values, "float32")
    frames, bands = values.shape[1:]
    cepstra = ops.matmul(values, cosine_basis(bands, min(COEFFICIENTS, bands)))  # (B, T, C)
    statistics = []
    for series in (cepstra, values):
        changes = ops.abs(series[:, 1:] - series[:, :-1])
        statistics += [ops.mean(series, axis=1), ops.std(series, axis=1), ops.mean(changes, axis=1)]
    cuts = [frames * part // PARTS for part in range(PARTS + 1)]
    statistics += [ops.mean(cepstra[:, a:b], axis=1) for a, b in zip(cuts, cuts[1:], strict=False) if b > a]
    return ops.concatenate(statistics, axis=1)


def frames_of(samples: int, window: int, hop: int, multiple: int = 1) -> int:
    """The number of frames that cover a waveform of `samples` samples, rounded up to a multiple."""
    frames = 1 + max(0, -(-(samples - window) // hop))
    return -(-frames // multiple) * multiple


def padded_log_mel(
    waveforms: Sequence[np.ndarray],
    settings: MelSettings,
    padding: float,
    multiple: int = 1,
    total_multiple: int = 1,
) -> np.ndarray:
    """The log-mel spectrograms of waveforms of different lengths.

    Args:
        waveforms: sequence of B float arrays, from -1 to 1.
        settings: MelSettings; its `frames` has no effect.
        padding: float, the values of the frames after the end of a waveform.
        multiple: int > 0; the frames of each waveform are rounded up to a multiple, with silence.
        total_multiple: int > 0; T becomes a multiple of it, with padding.

    Returns:
        float32 array (B, T, M).
    """
    lengths = [frames_of(len(one), settings.window, settings.hop, multiple) for one in waveforms]
    frames = -(-max(lengths) // total_multiple) * total_multiple
    filled = np.zeros((len(waveforms), settings.window + (frames - 1) * settings.hop), "float32")
    for row, one in zip(filled, waveforms, strict=True):
        row[: len(one)] = one
    values = np.array(log_mel(filled, settings._replace(frames=frames)), "float32")
    for row, length in zip(values, lengths, strict=True):
        row[length:] = padding
    return values
