"""Log-mel spectrograms against loops in NumPy, and their filters against those of TensorFlow."""

import cmath

import numpy as np
import pytest

from keras_attention.data.sounds.spectrogram import (
    LEAST_POWER,
    LOWEST,
    MelSettings,
    cepstral_statistics,
    fourier_basis,
    log_mel,
    mel_filters,
)

SETTINGS = MelSettings(rate=1009, window=13, hop=7, frames=5, bands=3)
LENGTH = 13 + 4 * 7


def waveforms():
    return np.random.default_rng(5).uniform(-1, 1, (2, LENGTH)).astype("float32")


def filters_by_loop(bands, bins, rate):
    def mel(hertz):
        return 2595 * np.log10(1 + hertz / 700)

    edges = [mel(LOWEST) + (mel(rate / 2) - mel(LOWEST)) * i / (bands + 1) for i in range(bands + 2)]
    filters = np.zeros((bins, bands))
    for k in range(1, bins):
        place = mel(k * rate / 2 / (bins - 1))
        for m in range(bands):
            up, down = place - edges[m], edges[m + 2] - place
            filters[k, m] = max(0, min(up / (edges[m + 1] - edges[m]), down / (edges[m + 2] - edges[m + 1])))
    return filters


def test_filters_equal_a_loop():
    np.testing.assert_allclose(mel_filters(11, 67, 8009), filters_by_loop(11, 67, 8009), atol=1e-6)


def test_filters_are_those_of_tensorflow():
    import tensorflow as tf

    expected = tf.signal.linear_to_mel_weight_matrix(23, 129, 8000, LOWEST, 4000.0)
    np.testing.assert_allclose(mel_filters(23, 129, 8000), expected, atol=2e-5)


def test_every_band_hears_something():
    bins = fourier_basis(256).shape[1] // 2
    assert (mel_filters(64, bins, 8000).sum(axis=0) > 0).all()


def test_spectrogram_equals_a_loop():
    size = 32  # twice the next power of two
    filters = filters_by_loop(SETTINGS.bands, size // 2 + 1, SETTINGS.rate)
    actual = np.asarray(log_mel(waveforms(), SETTINGS))
    assert actual.shape == (2, SETTINGS.frames, SETTINGS.bands)
    for waveform, values in zip(waveforms(), actual, strict=True):
        decibels = np.zeros((SETTINGS.frames, SETTINGS.bands))
        for t in range(SETTINGS.frames):
            power = []
            for k in range(size // 2 + 1):
                total = 0j
                for n in range(SETTINGS.window):
                    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / SETTINGS.window)
                    sample = float(waveform[t * SETTINGS.hop + n])
                    total += hann * sample * cmath.exp(-2j * np.pi * k * n / size)
                power.append(abs(total) ** 2)
            decibels[t] = 10 * np.log10(np.maximum(np.array(power) @ filters, LEAST_POWER))
        expected = 1 + (np.maximum(decibels, decibels.max() - 80) - decibels.max()) / 40
        np.testing.assert_allclose(values, expected, atol=1e-3)


@pytest.mark.parametrize("volume", [1e-3, 0.3])
def test_the_volume_has_no_effect(volume):
    x = waveforms()
    np.testing.assert_allclose(log_mel(np.float32(volume) * x, SETTINGS), log_mel(x, SETTINGS), atol=1e-3)


def test_silence_is_the_lowest_value():
    np.testing.assert_array_equal(log_mel(np.zeros((1, LENGTH), "float32"), SETTINGS), -1)


def test_statistics_equal_a_loop():
    values = np.random.default_rng(7).uniform(-1, 1, (2, 11, 5)).astype("float32")
    actual = np.asarray(cepstral_statistics(values))
    for spectrogram, features in zip(values.astype("float64"), actual, strict=True):
        cepstra = np.zeros((11, 5))
        for c in range(5):
            for m in range(5):
                weight = np.sqrt((1 if c == 0 else 2) / 5) * np.cos(np.pi * c * (m + 0.5) / 5)
                cepstra[:, c] += weight * spectrogram[:, m]
        expected = []
        for series in (cepstra, spectrogram):
            expected += [*series.mean(0), *series.std(0), *np.abs(np.diff(series, axis=0)).mean(0)]
        for first, last in ((0, 2), (2, 5), (5, 8), (8, 11)):
            expected += [*cepstra[first:last].mean(0)]
        np.testing.assert_allclose(features, expected, atol=1e-5)
