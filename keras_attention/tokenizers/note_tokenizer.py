"""A tokenizer for music in four voices: one token for the pitch of each voice at each time step."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_attention.support.errors import UserError, parse_json
from keras_attention.tokenizers.special_tokens import (
    END_ID,
    PAD_ID,
    SPECIAL_PIECES,
    START_ID,
    UNKNOWN_ID,
    checked_ids,
)

VOICES = ("soprano", "alto", "tenor", "bass")
SILENT = -1  # in place of a pitch
UNKNOWN_NOTE = "?"
HIGHEST_PITCH = 127  # of MIDI
_PITCH = re.compile(r"-1|\d{1,3}", re.ASCII)


class NoteTokenizer:
    """Music <-> ids, as "74,70,65,58 74,70,65,57": time steps of four MIDI pitches, from soprano to bass.

    A pitch has a different id in each voice, so a model knows the voice of a token without its position. A step that
    ends early is filled with unknown notes, unless it is the last one, which a model may continue.

    Args:
        lowest, highest: four int in [0, 127], the range of each voice.

    Raises:
        UserError: if a range is not one.

    Source: the order of the tokens, all voices of a step and then the next step, is that of Huang et al. (2018),
    section 3.1, https://arxiv.org/abs/1809.04281.
    """

    kind = "notes"
    pad_id, unknown_id, start_id, end_id = PAD_ID, UNKNOWN_ID, START_ID, END_ID
    files = ("tokenizer.json",)
    settings = ("kind", "lowest", "highest")  # of tokenizer.json

    def __init__(self, lowest: Sequence[int], highest: Sequence[int]):
        ranges = list(zip(lowest, highest, strict=False))
        if not len(lowest) == len(highest) == len(VOICES) or not all(
            type(low) is type(high) is int and 0 <= low <= high <= HIGHEST_PITCH for low, high in ranges
        ):
            raise UserError(
                f"`lowest` and `highest` must be {len(VOICES)} MIDI pitches each, 0 to {HIGHEST_PITCH}. "
                f"Received: {str(lowest):.60} and {str(highest):.60}"
            )
        self.lowest, self.highest = list(lowest), list(highest)
        notes = [
            (voice, pitch) for voice, (low, high) in enumerate(ranges) for pitch in (SILENT, *range(low, high + 1))
        ]
        self._ids = {note: len(SPECIAL_PIECES) + number for number, note in enumerate(notes)}
        special = [(-1, SILENT)] * len(SPECIAL_PIECES)
        self.voice_of, self.pitch_of = np.array([*special, *notes], np.int32).T  # by id; voice -1: no note

    @classmethod
    def train(cls, pieces: Iterable[np.ndarray]) -> Self:
        """Learns the range of each voice from arrays (steps, 4) of pitches.

        Raises:
            UserError: if a voice is always silent.
        """
        steps = np.concatenate([np.asarray(piece) for piece in pieces])  # (N, 4)
        for voice, name in enumerate(VOICES):
            if (steps[:, voice] == SILENT).all():
                raise UserError(f"The {name} is always silent. Expected: music in four voices.")
        sounding = np.ma.masked_equal(steps, SILENT)
        return cls(*(limits.astype(int).tolist() for limits in (sounding.min(axis=0), sounding.max(axis=0))))

    @property
    def vocabulary_size(self) -> int:
        """int, the number of ids, special ones included."""
        return len(self.voice_of)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns a list of int32 arrays, one for each str of `texts`, without START and END."""
        return [np.array(self._encoded(text.split()), np.int32) for text in texts]

    def _encoded(self, steps):
        ids = []
        for number, step in enumerate(steps, start=1):
            notes = [
                self._ids.get((voice, int(note)), UNKNOWN_ID)
                if voice < len(VOICES) and _PITCH.fullmatch(note)
                else UNKNOWN_ID
                for voice, note in enumerate(step.split(","))
            ]
            ids += notes + [UNKNOWN_ID] * (len(VOICES) - len(notes)) * (number < len(steps))
        return ids

    def decode(self, sequences: Iterable) -> list[str]:
        """Returns a list of str. PAD, START and END are dropped; voices that are left out are silent."""
        return [self._decoded(checked_ids(ids, self.vocabulary_size)) for ids in sequences]

    def _decoded(self, ids):
        parts, next_voice = [], 0  # the voice that is expected
        for token_id in ids:
            if token_id in (PAD_ID, START_ID, END_ID):
                continue
            voice = next_voice if token_id == UNKNOWN_ID else int(self.voice_of[token_id])
            silent = (voice - next_voice) % len(VOICES)  # voices that are left out
            for note in [str(SILENT)] * silent + [self._shown(token_id)]:
                parts += ["," if next_voice else " ", note]
                next_voice = (next_voice + 1) % len(VOICES)
        return "".join(parts[1:])

    def _shown(self, token_id):
        return UNKNOWN_NOTE if token_id == UNKNOWN_ID else str(self.pitch_of[token_id])

    def tokens(self, ids: Iterable) -> list[str]:
        """Returns a str for each id, such as "S74" for the soprano's pitch 74, and "B-" for a silent bass."""
        return [self._name(i) for i in checked_ids(ids, self.vocabulary_size)]

    def _name(self, token_id):
        if token_id < len(SPECIAL_PIECES):
            return SPECIAL_PIECES[token_id]
        pitch = self.pitch_of[token_id]
        return VOICES[self.voice_of[token_id]][0].upper() + ("-" if pitch == SILENT else str(pitch))

    def transposed(self, ids: np.ndarray, semitones: int) -> np.ndarray:
        """The ids of the same music in another key; it must stay within the ranges of the voices."""
        return np.where(self.pitch_of[ids] == SILENT, ids, ids + semitones).astype(np.int32)

    def transpositions(self, ids: np.ndarray) -> range:
        """The intervals by which music can be transposed, in semitones."""
        voices, pitches = self.voice_of[ids], self.pitch_of[ids]
        voices, pitches = voices[pitches != SILENT], pitches[pitches != SILENT]
        if not len(pitches):
            return range(1)
        down = (np.array(self.lowest)[voices] - pitches).max()
        up = (np.array(self.highest)[voices] - pitches).min()
        return range(int(down), int(up) + 1)

    def save(self, folder: str | Path) -> None:
        """Writes tokenizer.json into `folder`, which is created if missing."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"kind": self.kind, "lowest": self.lowest, "highest": self.highest}
        (folder / "tokenizer.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Loads a tokenizer from a folder that `save` wrote.

        Raises:
            UserError: if tokenizer.json is missing, damaged or of another kind.
        """
        path = Path(folder) / "tokenizer.json"
        try:
            settings = parse_json(path.read_bytes())
            ranges: Any = settings["lowest"], settings["highest"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: is not a saved NoteTokenizer ({error}).") from error
        if not all(isinstance(limits, list) for limits in ranges):
            raise UserError(f"{path}: expected `lowest` and `highest` to be lists of pitches.")
        return cls(*ranges)
