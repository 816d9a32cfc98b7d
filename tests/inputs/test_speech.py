"""Recordings of speech are read whole; what is too long is refused."""

import numpy as np
import pytest
import soundfile

from keras_attention.inputs.speech import MULTIPLE, PADDING, SpeechInput
from keras_attention.support.errors import UserError

RATE, WINDOW, HOP = 1_000, 40, 10


@pytest.fixture
def kind():
    return SpeechInput((100, 7), RATE, WINDOW, HOP)


@pytest.mark.parametrize("samples", [1, 39, 40, 41, 333])
def test_a_recording_has_as_many_frames_as_it_needs(kind, samples):
    waveform = np.sin(np.arange(samples) + 1.0)
    value = kind.read((waveform, RATE))
    assert (len(value.samples), value.truncated) == (samples, False)
    values = kind.arrays(value)["values"]
    assert len(values) % MULTIPLE == 0
    assert WINDOW + (len(values) - 1) * HOP >= samples
    assert len(values) == MULTIPLE or WINDOW + (len(values) - 1 - MULTIPLE) * HOP < samples
    assert values.min() >= -1 > PADDING
    assert kind.drawn(value).shape == values.shape


def test_another_rate_is_resampled_and_channels_are_averaged(kind, tmp_path):
    times = np.arange(500) / RATE
    waveform = np.sin(2 * np.pi * 50 * times)
    fast = np.sin(2 * np.pi * 50 * np.arange(2_000) / (4 * RATE))
    soundfile.write(tmp_path / "fast.wav", np.stack([fast, fast], axis=1), 4 * RATE, subtype="FLOAT")
    actual, expected = kind.read(tmp_path / "fast.wav").samples, kind.read((waveform, RATE)).samples
    assert len(actual) == len(expected)
    np.testing.assert_allclose(actual[30:-30], expected[30:-30], atol=400)


def test_a_longer_recording_is_refused(kind, tmp_path):
    assert kind.seconds == pytest.approx(1.03)
    assert len(kind.arrays(kind.read((np.ones(1_030), RATE)))["values"]) == 100
    soundfile.write(tmp_path / "long.wav", np.ones(2_000), RATE)
    with pytest.raises(
        UserError, match=r"long.wav has 2.0 seconds. This model reads up to 1.03: divide the recording."
    ):
        kind.read(tmp_path / "long.wav")


@pytest.mark.parametrize("rate", [1_001, 1_003, 8_001, 22_051, 44_101])
def test_the_longest_recording_at_any_rate_fits(kind, rate):
    value = kind.read((np.ones(int(kind.seconds * rate)), rate))
    assert kind.arrays(value)["values"].shape[0] <= 100


def test_a_rate_may_be_a_float_and_a_wrong_one_is_named(kind):
    waveform = np.ones(300)
    for sound in ((waveform, float(RATE)), {"array": waveform, "sampling_rate": float(RATE)}):
        assert len(kind.read(sound).samples) == 300
        assert kind.as_list(sound)[1]
    for rate in ("8000", None, float("nan"), 1000.5):
        with pytest.raises(UserError, match="The rate of a sound must be a whole number. Received: "):
            kind.read({"array": waveform, "sampling_rate": rate})


def test_its_settings_are_described_and_checked(kind):
    assert kind.config_keys() == {"rate": RATE, "window": WINDOW, "hop": HOP, "frames": 100}
    for size in ((101, 7), (100, 7, 1)):
        with pytest.raises(ValueError, match="`size` must be"):
            SpeechInput(size, RATE, WINDOW, HOP)


def test_the_stored_example_is_the_same_recording(kind, tmp_path):
    value = kind.read((np.random.default_rng(0).uniform(-1, 1, 300), RATE))
    kind.write_example(value, tmp_path / "example.flac")
    np.testing.assert_array_equal(kind.read(tmp_path / "example.flac").samples, value.samples)
