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


def spoken(*seconds, rate=RATE):
    """Words of 0.3 seconds, which begin at these times, in faint noise."""
    waveform = 1e-3 * np.random.default_rng(1).standard_normal(round(rate * (seconds[-1] + 0.5)))
    for start in seconds:
        times = np.arange(round(0.3 * rate)) / rate
        waveform[round(rate * start) :][: len(times)] += np.sin(2 * np.pi * 90 * times) * np.sin(np.pi * times / 0.3)
    return waveform


def test_a_long_recording_is_cut_at_pauses():
    starts = [0.1, 0.5, 1.4, 1.75, 2.1, 3.0, 3.4, 4.4, 4.7, 5.0]
    kind = SpeechInput((1_000, 7), RATE, WINDOW, HOP, part_seconds=2)
    value = kind.read((spoken(*starts), RATE))
    parts = kind.parts(value)
    np.testing.assert_array_equal(np.concatenate([part.samples for _, part in parts]), value.samples)
    begins = [frame * HOP / RATE for frame, _ in parts]
    assert begins[0] == 0
    assert len(parts) == 4
    for begin, (frame, part) in zip(begins[1:], parts[1:], strict=True):
        assert frame % MULTIPLE == 0
        assert len(part.samples) <= 2 * RATE
        assert not any(start < begin < start + 0.3 for start in starts), begin
    assert all(len(part.samples) >= 0.9 * RATE for _, part in parts[:-1])
    (alone,) = kind.parts(kind.read((spoken(0.1, 1.3), RATE)))
    assert alone[0] == 0
    assert len(alone[1].samples) == 1_800


@pytest.mark.parametrize("samples", [1, 39, 40, 2_000])
def test_a_short_recording_is_one_part(samples):
    kind = SpeechInput((1_000, 7), RATE, WINDOW, HOP, part_seconds=2)
    value = kind.read((np.ones(samples), RATE))
    assert kind.parts(value) == [(0, value)]


def test_parts_without_speech_are_left_out():
    kind = SpeechInput((1_000, 7), RATE, WINDOW, HOP, part_seconds=2)
    value = kind.read((spoken(0.2, 6.2, 6.6), RATE))
    parts = kind.parts(value)
    spans = [(frame * HOP / RATE, frame * HOP / RATE + len(part.samples) / RATE) for frame, part in parts]
    assert len(parts) < len(value.samples) / RATE / 2
    for start in (0.2, 6.2, 6.6):
        assert any(begin <= start and start + 0.3 <= end for begin, end in spans)
    for silence in (np.zeros(5 * RATE), np.random.default_rng(0).standard_normal(5 * RATE)):
        assert len(kind.parts(kind.read((silence, RATE)))) == 1


@pytest.mark.parametrize("offset", [0.1, -0.7, 3])
def test_a_constant_offset_changes_no_part(offset):
    """Cheap sound cards record one."""
    kind, waveform = SpeechInput((1_000, 7), RATE, WINDOW, HOP, part_seconds=2), spoken(0.1, 0.9, 1.7, 2.6, 3.4, 6.2)
    begins = [[begin for begin, _ in kind.parts(kind.read((one, RATE)))] for one in (waveform, waveform + offset)]
    assert len(begins[0]) == 4
    assert begins[1] == begins[0]


@pytest.mark.parametrize("offset", [0.9, -3, 40])
def test_a_large_constant_offset_changes_no_values(kind, offset):
    """The first and the last frames, which zeros fill up, would be louder than the speech."""
    waveform = spoken(0.2, 0.5)
    values, shifted = (kind.arrays(kind.read((one, RATE)))["values"] for one in (waveform, waveform + offset))
    np.testing.assert_allclose(shifted, values, atol=0.05)
    silence = kind.arrays(kind.read((np.full(300, offset), RATE)))["values"]
    assert silence.max() == -1


def test_without_a_length_of_parts_a_recording_is_one_part(kind):
    value = kind.read((spoken(0.2, 0.5), RATE))
    ((start, part),) = kind.parts(value)
    assert start == 0
    assert part is value
    assert "part_seconds" not in kind.config_keys()
    assert SpeechInput((100, 7), RATE, WINDOW, HOP, 2.5).config_keys()["part_seconds"] == 2.5
    with pytest.raises(ValueError, match="at least 1. Received: 0"):
        SpeechInput((100, 7), RATE, WINDOW, HOP, 0)


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
