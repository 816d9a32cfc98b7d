"""Recordings of single words, joined to strings with pauses and noise: the data of a speech recognizer."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.labelled_files import labelled_files
from keras_attention.support.errors import UserError, counted, quoted

TONES = "tones"
HELD_SHARE = 0.1  # of the recordings of each word and speaker that are the test part
TONES_EACH = 30  # tones of each key
TONE_RATE = 8_000
ROWS, COLUMNS = (697, 770, 852, 941), (1209, 1336, 1477)  # Hz, of the keys of a telephone
KEYS = "123456789*0#"
_NUMBERED = re.compile(r"(.+)_([^_]+)_(\d+)\.[^.]+")  # 7_theo_3.wav


class Joining(NamedTuple):
    """How recordings become a string; each number is drawn uniformly between two limits.

    Attributes:
        words: the number of words, int.
        pause: seconds of silence between two words.
        edge: seconds of silence before the first word and after the last.
        speed: factor by which a string is faster; the voice becomes higher as well.
        volume: decibels by which a word is softer than the others.
        noise: decibels of the string above the noise.
        clean: share of strings without noise, 0 to 1.
    """

    words: tuple[int, int] = (1, 5)
    pause: tuple[float, float] = (0.0, 0.6)
    edge: tuple[float, float] = (0.0, 0.5)
    speed: tuple[float, float] = (0.85, 1.18)
    volume: tuple[float, float] = (0.0, 8.0)
    noise: tuple[float, float] = (8.0, 50.0)
    clean: float = 0.2


TRAINING = Joining()
TEST = Joining(pause=(0.05, 0.4), edge=(0.05, 0.3), speed=(1.0, 1.0), noise=(15.0, 40.0), clean=0.0)


class Spoken(NamedTuple):
    """Recordings of single words.

    Attributes:
        waveforms: list of N float32 arrays.
        words: list of N str of one character, such as "7".
        speakers: list of N str; "" if it is not known who speaks.
    """

    waveforms: list[np.ndarray]
    words: list[str]
    speakers: list[str]

    def mean_seconds(self, rate: int) -> float:
        """The mean length of a recording, at this many samples per second."""
        return float(np.mean([len(waveform) for waveform in self.waveforms])) / rate


class SpokenString(NamedTuple):
    """A string of words.

    Attributes:
        waveform: float32 array (L,).
        text: str, one character for each word.
        places: list of (start, end) of each word, in samples.
    """

    waveform: np.ndarray
    text: str
    places: list[tuple[int, int]]


class SpeechData(NamedTuple):
    """Three parts that have no recording in common.

    Attributes:
        train, validation, test: Spoken.
        rate: int, samples per second.
        characters: str, all words, sorted.
        named: str, what the words are.
        origin: dict for a card: name, terms, link.
        summary: str, one line for the user.
        tested_on: str, what the test part is, for the card.
    """

    train: Spoken
    validation: Spoken
    test: Spoken
    rate: int
    characters: str
    named: str
    origin: dict
    summary: str
    tested_on: str


def load_speech_data(
    data: str,
    rate: int,
    read: Callable[[str], np.ndarray],
    suffixes: Sequence[str],
    validation_split: float = 0.06,
) -> SpeechData:
    """Loads recordings of single words, or makes the tones of a telephone's keys.

    Args:
        data: "tones", or a folder of recordings whose labels, one character each, are sub-folders or the beginnings
            of names, see `data.labelled_files`.
        rate: int, samples per second.
        read: callable(name of a file) -> float32 array (L,) at this rate.
        suffixes: the endings of the names of sounds.
        validation_split: float in (0, 0.5], the share of the recordings of each word and speaker for validation.

    Returns:
        SpeechData. Of each word and speaker, a tenth is the test part. In names such as "7_theo_3.wav" the speaker is
        in the middle, and the recordings with the lowest numbers are the test part, as in the Free Spoken Digit
        Dataset.

    Raises:
        UserError: if there is no such folder, a label is longer, a word has fewer than three recordings, or the share
            is out of range.
    """
    if not 0 < validation_split <= 0.5:
        raise UserError(f"The validation share must be above 0 and at most 0.5. Received: {validation_split}")
    if data == TONES:
        tones = [_tones(seed) for seed in (1, 2, 3)]
        origin = {"name": "tones of the keys of a telephone", "terms": "generated", "link": ""}
        return SpeechData(
            *tones,
            TONE_RATE,
            "0123456789",
            "tones",
            origin,
            f"{len(tones[0].words)} tones for strings",
            "of other tones",
        )
    if not Path(data).is_dir():
        raise UserError(
            f"There is no folder {quoted(data)}. Expected: {TONES}, or a folder with recordings of single words."
        )
    recordings = labelled_files(data, {"sounds": tuple(suffixes)}, "sounds")
    if long := next((label for label in recordings.labels if len(label) != 1), None):
        raise UserError(
            f"{data} has the label {quoted(long)}. Expected: one character for each word, such as 7 for seven."
        )
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for file, label in zip(recordings.files, recordings.labels, strict=True):
        match = _NUMBERED.fullmatch(Path(file).name)
        speaker, number = (match[2], int(match[3])) if match else ("", 0)
        groups.setdefault((label, speaker), []).append((number, file))
    parts: list[list[tuple[str, str, str]]] = [[], [], []]
    for (label, speaker), files in sorted(groups.items()):
        order = [file for _, file in sorted(files)]
        if len(order) < 3:
            raise UserError(
                f"{data} has {counted(len(order), 'recording')} of {quoted(label)}{f' by {speaker}' * bool(speaker)}. "
                "Expected: at least 3, for training, validation and test."
            )
        held, checked = (max(1, int(np.ceil(share * len(order)))) for share in (HELD_SHARE, validation_split))
        for part, some in zip(
            parts, (order[held + checked :], order[held : held + checked], order[:held]), strict=True
        ):
            part += [(file, label, speaker) for file in some]
    characters = "".join(sorted(set(recordings.labels)))
    spoken = [
        Spoken([read(file) for file, _, _ in part], [word for _, word, _ in part], [speaker for *_, speaker in part])
        for part in parts
    ]
    return SpeechData(
        *spoken,
        rate,
        characters,
        "digits" if set(characters) <= set("0123456789") else "words",
        {"name": Path(data).resolve().name, "terms": "as stated by its owner", "link": ""},
        f"{len(spoken[0].words):,} recordings for strings",
        f"of {len(spoken[2].words):,} recordings that were not in the training",
    )


def joined(
    recordings: Spoken, count: int, seed: Sequence[int], rate: int, how: Joining = TRAINING
) -> list[SpokenString]:
    """Strings of words that are drawn at random; one speaker each in half of the strings, any speakers in the others.

    Args:
        recordings: Spoken.
        count: int > 0.
        seed: sequence of int >= 0; the same arguments give the same strings.
        rate: int, samples per second.
        how: Joining.

    Returns:
        List of `count` SpokenStrings. The loudest sample of a string is +-1.
    """
    generator = np.random.default_rng(list(seed))
    speakers = np.array(recordings.speakers)
    return [_joined(recordings, speakers, generator, rate, how) for _ in range(count)]


def _joined(recordings, speakers, generator, rate, how):
    number = int(generator.integers(how.words[0], how.words[1] + 1))
    allowed = np.arange(len(speakers))
    if generator.random() < 0.5:
        allowed = np.flatnonzero(speakers == generator.choice(np.unique(speakers)))
    chosen = generator.choice(allowed, number)
    pieces, places, length = [], [], 0
    for place, index in enumerate(chosen):
        silence = round(rate * generator.uniform(*(how.edge if place == 0 else how.pause)))
        word = recordings.waveforms[index]
        loudness = 10 ** (-generator.uniform(*how.volume) / 20) / (np.abs(word).max() or 1.0)
        pieces += [np.zeros(silence, "float32"), (loudness * word).astype("float32")]
        places.append((length + silence, length + silence + len(word)))
        length = places[-1][1]
    waveform = np.concatenate([*pieces, np.zeros(round(rate * generator.uniform(*how.edge)), "float32")])
    speed = generator.uniform(*how.speed)
    if speed != 1.0:
        at = np.arange(0, len(waveform) - 1, speed)
        waveform = np.interp(at, np.arange(len(waveform)), waveform).astype("float32")
        places = [(round(start / speed), round(end / speed)) for start, end in places]
    waveform = _noisy(waveform, generator, how)
    waveform /= np.abs(waveform).max() or 1.0
    return SpokenString(waveform, "".join(recordings.words[index] for index in chosen), places)


def _noisy(waveform, generator, how):
    """The waveform with noise, between white and brown, of a random loudness."""
    from scipy.signal import lfilter

    decibels, color, clean = generator.uniform(*how.noise), generator.uniform(0, 0.95), generator.random() < how.clean
    noise = lfilter([1.0], [1.0, -color], generator.standard_normal(len(waveform)))
    if clean:
        return waveform
    power = np.mean(np.square(waveform)) / (np.mean(np.square(noise)) or 1.0)
    return (waveform + noise * np.sqrt(power / 10 ** (decibels / 10))).astype("float32")


def _tones(seed):
    """Tones of the ten digits: the sum of two frequencies, of different lengths."""
    generator = np.random.default_rng(seed)
    waveforms, words = [], []
    for word in "0123456789":
        row, column = divmod(KEYS.index(word), 3)
        for _ in range(TONES_EACH):
            times = np.arange(round(TONE_RATE * generator.uniform(0.08, 0.3))) / TONE_RATE
            tone = sum(np.sin(2 * np.pi * (f * times + generator.random())) for f in (ROWS[row], COLUMNS[column]))
            ramp = np.minimum(1.0, np.minimum(times, times[::-1]) / 0.01)
            waveforms.append((tone * ramp / 2).astype("float32"))
            words.append(word)
    return Spoken(waveforms, words, [""] * len(words))
