"""Sounds: every form gives about the same spectrogram, hostile files give one line."""

import base64
import re

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from inputs.sounds import RATE, encoded, forms, hostile, tone, wav

from keras_attention.inputs.sound import LOUDEST, Recording, SoundInput
from keras_attention.support.errors import UserError

ROUGH = {"8 bits", "mu-law", "GSM 6.10", "OGG", "MP3", "4001 Hz"}


@pytest.fixture
def kind():
    return SoundInput((61, 23), rate=RATE, window=211, hop=97)


def loud(values):
    """The values of what can be heard well."""
    return np.maximum(values, 0.2)


@pytest.mark.parametrize("name", forms())
def test_every_form_of_a_sound_gives_its_spectrogram(kind, tmp_path, name):
    content = forms()[name]
    (tmp_path / "sound").write_bytes(content)
    recording = kind.read(tmp_path / "sound")
    assert recording.samples.dtype == np.int16
    assert recording.samples.shape == (kind.length,)
    assert abs(recording.samples.astype(int)).max() == LOUDEST
    values, expected = (kind.arrays(one)["values"] for one in (recording, kind.read(tone())))
    assert values.shape == (61, 23)
    low = slice(None, 12 if name == "4001 Hz" else None)
    assert np.abs(loud(values) - loud(expected))[:, low].mean() < (0.05 if name in ROUGH else 0.02)
    for same in (kind.read(content), kind.from_json(base64.b64encode(content).decode())):
        np.testing.assert_array_equal(same.samples, recording.samples)
    url = f"data:audio/wav;base64,{base64.encodebytes(content).decode()}"
    np.testing.assert_array_equal(kind.from_json(url).samples, recording.samples)


@pytest.mark.parametrize("name", hostile())
def test_hostile_files_are_refused_in_one_line(kind, tmp_path, name):
    content, message = hostile()[name]
    path = tmp_path / "hostile.wav"
    path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(message)) as error:
        kind.read(path)
    assert "\n" not in str(error.value)
    assert "object at" not in str(error.value)
    assert str(path) in str(error.value)
    with pytest.raises(UserError, match=re.escape(message)):
        kind.from_json(base64.b64encode(content).decode())


def test_the_samples_of_a_truncated_file_are_read(kind):
    samples = (20_000 * tone()).astype("<i2").tobytes()
    whole = kind.read(wav(data=samples))
    np.testing.assert_array_equal(kind.read(wav(data=samples, announced=2**32 - 1)).samples, whole.samples)
    assert not kind.read(wav(data=samples[: len(samples) // 2])).truncated


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        ("nowhere.wav", "nowhere.wav does not exist. Expected: the name of a sound"),
        (np.zeros((5, 7, 3)), "with the shape (5, 7, 3)"),
        (np.zeros(0), "with the shape (0,)"),
        (np.array(["a"]), "must be an array of numbers"),
        ((np.zeros(7), 0), "The rate of a sound must be from 1,000 to 768,000 Hz. Received: 0"),
        (np.full(7, np.nan), "holds NaN or infinity"),
        ({"array": np.zeros(7)}, "must have `array` and `sampling_rate`"),
        (np.zeros((7, 97)), "at most 32 channels"),
        (np.zeros(601 * RATE, "int8"), "at most 600 seconds. Received: 601"),
    ],
)
def test_other_inputs_are_refused(kind, sound, message):
    with pytest.raises(UserError, match=re.escape(message)):
        kind.read(sound)
    with pytest.raises(UserError, match="must be base64 of a file"):
        kind.from_json("no base64!")


def test_folders_and_large_files(kind, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="is a folder"):
        kind.read(tmp_path)
    monkeypatch.setattr("keras_attention.inputs.sound.MAX_FILE_BYTES", 1 << 10)
    (tmp_path / "long.wav").write_bytes(encoded(tone()))
    with pytest.raises(UserError, match="more than 0 MB"):
        kind.check_file(1, str(tmp_path / "long.wav"))


def test_arrays_with_and_without_a_rate(kind):
    expected = kind.read(tone()).samples
    other = tone(2 * RATE)
    for same in ((tone(), RATE), (RATE, tone()), {"array": tone(), "sampling_rate": RATE}, np.stack([tone()] * 2, 1)):
        np.testing.assert_allclose(kind.read(same).samples, expected, atol=2)
    actual = np.corrcoef(kind.read((other, 2 * RATE)).samples, expected)[0, 1]
    assert actual > 0.99
    assert kind.as_list(tone())[1]
    assert [len(kind.as_list(sounds)[0]) for sounds in ([tone()] * 3, np.zeros((5, 997)), (tone(), RATE))] == [3, 5, 1]
    with pytest.raises(UserError, match="Received: int"):
        kind.as_list(7)


def test_the_loudest_part_of_a_long_sound_is_read(kind):
    long = np.concatenate([np.zeros(3 * RATE), tone(), np.zeros(5 * RATE)]) + 1e-4
    recording = kind.read(long)
    assert recording.truncated
    assert np.abs(recording.samples).astype(float).mean() > 0.2 * LOUDEST
    short = kind.read(tone(seconds=0.1))
    assert not short.truncated
    quiet = (kind.length - round(0.1 * RATE)) // 2
    assert not short.samples[: quiet - 1].any()
    assert not short.samples[-quiet + 1 :].any()


def test_an_example_is_read_as_it_was_written(kind, tmp_path):
    recording = kind.read(np.concatenate([0.5 * tone(), tone(seconds=2.3), [1.0], np.zeros(997)]))
    kind.write_example(recording, tmp_path / "example_1.flac")
    assert soundfile.info(tmp_path / "example_1.flac").samplerate == RATE
    again = kind.read(tmp_path / "example_1.flac")
    np.testing.assert_array_equal(again.samples, recording.samples)
    assert base64.b64decode(kind.file_as_json(tmp_path / "example_1.flac"))[:4] == b"fLaC"


def test_silence_is_read():
    kind = SoundInput((61, 23, 1), rate=RATE, window=211, hop=97)
    values = kind.arrays(kind.read(np.zeros(997)))["values"]
    np.testing.assert_array_equal(values, kind.example_arrays()["values"])
    assert kind.features(values[None]).shape[0] == 1


def test_a_kind_for_given_sounds(tmp_path):
    for number, seconds in enumerate((0.5, 0.6, 1.1)):
        soundfile.write(tmp_path / f"{number}.wav", tone(16_000, seconds), 16_000)
    made = SoundInput.for_sources([str(tmp_path / f"{number}.wav") for number in range(3)])
    assert (made.rate, made.size[1:], made.size[0] % 8) == (16_000, (64, 1), 0)
    assert 0.9 < made.length / made.rate < 1.2
    minutes = SoundInput.for_sources([(np.zeros(61 * 44_100, "int16"), 44_100)])
    assert (minutes.rate, minutes.size[0]) == (22_050, 192)
    assert SoundInput(made.size, **made.config_keys()).length == made.length


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": (61, 23, 3)}, "size=(61, 23, 3)"),
        ({"size": (0, 23)}, "size=(0, 23)"),
        ({"size": (61, 23), "rate": 0}, "Received: 0, 400, 160"),
        ({"size": (4096, 23), "rate": 1000, "hop": 16_000}, "at most 600 seconds"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        SoundInput(**arguments)


def test_a_recording_is_read_as_it_is(kind):
    recording = Recording(np.zeros(7, "int16"), True)
    assert kind.read(recording) is recording
    assert kind.as_list(recording) == ([recording], True)


@pytest.mark.parametrize("seconds", [0.05, 0.4, 1.0, 1.7, 2.5])
def test_an_exported_model_reads_the_same_of_a_waveform(seconds):
    kind = SoundInput((32, 24, 1), 4000, 128, 64)
    draw = np.random.default_rng(int(10 * seconds))
    waveform = draw.normal(size=int(4000 * seconds)) * np.sin(np.linspace(0, 9, int(4000 * seconds))) * 0.02
    waveform = waveform.astype("float32")
    expected = kind.arrays(kind.read((waveform, 4000)))["values"]
    actual = kind.from_exported({"waveforms": waveform[None]})["values"].numpy()
    assert actual.shape == (1, 32, 24, 1)
    np.testing.assert_allclose(actual[0], expected, atol=2e-3)
    graph = tf.function(lambda waveforms: kind.from_exported({"waveforms": waveforms})["values"])
    assert graph(waveform[None][:0]).shape == (0, 32, 24, 1)


@pytest.mark.parametrize("sample", [np.nan, -np.inf])
def test_an_exported_model_refuses_samples_that_are_not_finite(sample):
    waveforms = np.ones((2, 4000), "float32")
    waveforms[1, 7] = sample
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected: finite samples"):
        SoundInput((32, 24, 1), 4000, 128, 64).from_exported({"waveforms": waveforms})
