"""Strings of single words: which recordings they are made of, where their words are, and that they can be repeated."""

import numpy as np
import pytest
import soundfile

from keras_attention.data.sounds.spectrogram import MelSettings, frames_of, log_mel, padded_log_mel
from keras_attention.data.sounds.spoken_strings import Joining, Spoken, joined, load_speech_data
from keras_attention.support.errors import UserError

RATE = 1_000
QUIET = Joining(words=(2, 4), pause=(0.1, 0.2), edge=(0.05, 0.1), speed=(1.0, 1.0), volume=(0.0, 0.0), clean=1.0)


def read(path):
    return soundfile.read(path, dtype="float32")[0]


@pytest.fixture
def recordings(tmp_path):
    """Recordings of two words by two speakers; the first sample of each says which one it is."""
    for word in "35":
        for speaker in ("ann", "bob"):
            for number in range(2, 23):
                waveform = np.full(50 + number, number / 100)
                soundfile.write(tmp_path / f"{word}_{speaker}_{number}.wav", waveform, RATE, subtype="FLOAT")
    return tmp_path


def numbers(part):
    return sorted({round(100 * float(waveform[0])) for waveform in part.waveforms})


def test_the_lowest_numbers_of_each_word_and_speaker_are_the_test_part(recordings):
    data = load_speech_data(str(recordings), RATE, read, [".wav"])
    assert numbers(data.test) == [2, 3, 4]
    assert numbers(data.validation) == [5, 6]
    assert numbers(data.train) == list(range(7, 23))
    assert (data.characters, data.named, len(data.test.words)) == ("35", "digits", 12)
    both = set(zip(data.train.words, data.train.speakers, strict=True))
    assert both == {(word, speaker) for word in "35" for speaker in ("ann", "bob")}


def test_a_string_has_its_words_where_it_says(recordings):
    train = load_speech_data(str(recordings), RATE, read, [".wav"]).train
    strings = joined(train, 40, [1, 2], RATE, QUIET)
    known = {(word, len(waveform)) for word, waveform in zip(train.words, train.waveforms, strict=True)}
    assert {len(one.text) for one in strings} == {2, 3, 4}
    for one in strings:
        assert len(one.places) == len(one.text)
        assert np.abs(one.waveform).max() == 1
        spoken = np.zeros(len(one.waveform), bool)
        for word, (start, end) in zip(one.text, one.places, strict=True):
            assert (word, end - start) in known
            spoken[start:end] = True
        np.testing.assert_array_equal(one.waveform != 0, spoken)
        pauses = [after[0] - before[1] for before, after in zip(one.places, one.places[1:], strict=False)]
        assert all(99 <= pause <= 201 for pause in pauses)
        assert 49 <= one.places[0][0] <= 101


def test_the_same_seed_gives_the_same_strings(recordings):
    train = load_speech_data(str(recordings), RATE, read, [".wav"]).train
    first, again, other = (joined(train, 5, seed, RATE) for seed in ([1, 2, 3], [1, 2, 3], [1, 2, 4]))
    for one, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.waveform, same.waveform)
    assert [one.text for one in first] != [one.text for one in other]


def test_half_of_the_strings_have_one_speaker():
    speakers = [str(number) for number in range(10)]
    train = Spoken([np.full(100 + i, 1.0, "float32") for i in range(10)], list("0123456789"), speakers)
    strings = joined(train, 200, [0], RATE, QUIET._replace(words=(4, 4)))
    assert 0.4 < np.mean([len(set(one.text)) == 1 for one in strings]) < 0.6


def test_speed_moves_the_words_and_noise_is_as_loud_as_it_says():
    train = Spoken([np.full(400, 0.5, "float32")], ["a"], [""])
    how = QUIET._replace(words=(2, 2), speed=(2.0, 2.0))
    (one,) = joined(train, 1, [0], RATE, how)
    assert [end - start for start, end in one.places] == [200, 200]
    assert one.waveform[one.places[1][0] + 2 : one.places[1][1] - 2].min() == 1
    how = QUIET._replace(words=(2, 2), noise=(10.0, 10.0), clean=0.0)
    (noisy,) = joined(train, 1, [0], RATE, how)
    spoken = np.zeros(len(noisy.waveform), bool)
    for start, end in noisy.places:
        spoken[start:end] = True
    level = noisy.waveform[spoken].mean()
    noise = np.where(spoken, noisy.waveform - level, noisy.waveform)
    assert 10 * np.log10(spoken.mean() * level**2 / np.mean(noise**2)) == pytest.approx(10, abs=0.5)


def test_tones_are_two_frequencies():
    data = load_speech_data("tones", 8_000, read, [])
    assert (data.characters, data.named, data.rate) == ("0123456789", "tones", 8_000)
    place = data.train.words.index("6")
    waveform = data.train.waveforms[place]
    spectrum = np.abs(np.fft.rfft(waveform, 80_000))
    peaks = sorted((spectrum[lo:hi].argmax() + lo) / 10 for lo, hi in ((6_000, 10_500), (10_500, 17_000)))
    assert peaks == [pytest.approx(770, abs=8), pytest.approx(1477, abs=8)]
    assert not any(np.array_equal(waveform, other) for other in data.test.waveforms)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["seven/a.wav", "three/b.wav"], "has the label 'seven'. Expected: one character for each word"),
        (["7_ann_1.wav", "7_ann_2.wav", "3_ann_1.wav"], "has 1 recording of '3' by ann. Expected: at least 3"),
    ],
)
def test_wrong_folders_are_errors(tmp_path, names, message):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        soundfile.write(tmp_path / name, np.zeros(100), RATE)
    with pytest.raises(UserError, match=message):
        load_speech_data(str(tmp_path), RATE, read, [".wav"])


def test_a_missing_recordings_folder_is_an_error():
    with pytest.raises(UserError, match="There is no folder 'nowhere'. Expected: tones, or a folder"):
        load_speech_data("nowhere", RATE, read, [".wav"])


def test_padded_spectrograms_equal_those_of_each_waveform_alone():
    settings = MelSettings(RATE, 32, 10, 1, 7)
    waveforms = [np.random.default_rng(i).uniform(-1, 1, length) for i, length in enumerate((20, 32, 33, 171))]
    assert [frames_of(len(one), 32, 10) for one in waveforms] == [1, 1, 2, 15]
    values = padded_log_mel(waveforms, settings, -2.0, multiple=4, total_multiple=10)
    assert values.shape == (4, 20, 7)
    for row, one in zip(values, waveforms, strict=True):
        frames = frames_of(len(one), 32, 10, multiple=4)
        filled = np.zeros((1, 32 + (frames - 1) * 10))
        filled[0, : len(one)] = one
        np.testing.assert_allclose(row[:frames], log_mel(filled, settings._replace(frames=frames))[0], atol=1e-4)
        assert (row[frames:] == -2).all()
