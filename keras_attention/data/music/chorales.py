"""Chorales for a language model: read from files or made by simple rules, transposed, and cut into windows."""

from pathlib import Path

import numpy as np

from keras_attention.data.batches import random_order
from keras_attention.data.files import read_lines
from keras_attention.data.music.midi_files import MIDI_ENDINGS, STEPS_PER_BAR, STEPS_PER_BEAT, read_midi
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.note_tokenizer import HIGHEST_PITCH, SILENT, VOICES, NoteTokenizer
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID


def read_chorales(paths):
    """Reads music in four voices.

    Args:
        paths: list of str or Path: MIDI files, or texts in which a line is a piece, as "74,70,65,58 74,70,65,57":
            time steps of four MIDI pitches, -1 for silence.

    Returns:
        List of int32 arrays (steps, 4), at least one.

    Raises:
        UserError: if a file cannot be read or holds something else; names file, line and step.
    """
    pieces = []
    for path in paths:
        if Path(path).suffix.lower() in MIDI_ENDINGS:
            pieces.append(read_midi(path))
        else:
            lines = enumerate(read_lines(path), start=1)
            pieces += [_parsed(path, number, line) for number, line in lines if line.strip()]
    if not pieces:
        raise UserError(
            f"{', '.join(map(str, paths))}: found no music. Expected: lines such as 74,70,65,58 74,70,65,57"
        )
    return pieces


def _parsed(path, number, line):
    rows = []
    for place, step in enumerate(line.split(), start=1):
        notes = step.split(",")
        if len(notes) != len(VOICES) or not all(_is_pitch(note) for note in notes):
            raise UserError(
                f"{path}, line {number}, step {place}: expected {len(VOICES)} MIDI pitches, such as 74,70,65,58; -1 is "
                f"silence. Found: {quoted(step)}"
            )
        rows.append([int(note) for note in notes])
    return np.array(rows, np.int32)


def _is_pitch(note):
    return note == str(SILENT) or (len(note) <= 3 and note.isascii() and note.isdigit() and int(note) <= HIGHEST_PITCH)


MAJOR = (0, 2, 4, 5, 7, 9, 11)
PROGRESSIONS = ((0, 3, 4, 0), (0, 5, 1, 4), (5, 3, 4, 0), (0, 4, 5, 2), (3, 0, 1, 4), (0, 1, 4, 0))  # degrees of chords
CENTERS = (72, 66, 60)  # of soprano, alto and tenor
LOWEST_BASS = 43


def rule_chorales(number, seed=0):
    """Makes pieces of four voices by simple rules, for a first try without data.

    Each piece is in a random key and has the form A B A. A part is two phrases of a bar for a progression of four
    chords, one a beat; a bass note is the root, and the other voices take the nearest notes of the chord.

    Args:
        number: int > 0.
        seed: int >= 0.

    Returns:
        List of `number` int32 arrays (steps, 4).
    """
    random = np.random.default_rng(seed)
    pieces = []
    for _ in range(number):
        key = int(random.integers(-4, 5))
        first, second = ([PROGRESSIONS[i] for i in random.integers(0, len(PROGRESSIONS), 2)] for _ in range(2))
        chords = [degree for part in (first, second, first) for phrase in part for degree in phrase] + [0]
        voices, rows = list(CENTERS), []
        for degree in chords:
            chord = {MAJOR[(degree + third) % 7] for third in (0, 2, 4)}
            pitches = [pitch for pitch in range(48, 82) if (pitch - key) % 12 in chord]
            for voice, center in enumerate(CENTERS):
                above = voices[voice - 1] if voice else HIGHEST_PITCH
                fitting = [pitch for pitch in pitches if pitch < above]
                voices[voice] = min(fitting, key=lambda p: (abs(p - voices[voice]) + abs(p - center) / 2, p))
            bass = LOWEST_BASS + (key + MAJOR[degree] - LOWEST_BASS) % 12
            rows += [[*voices, bass]] * STEPS_PER_BEAT
        rows += [rows[-1]] * (STEPS_PER_BAR - STEPS_PER_BEAT)  # the last chord lasts a bar
        pieces.append(np.array(rows, np.int32))
    return pieces


def as_text(steps):
    """Music (steps, 4) as a line of text, see `NoteTokenizer`."""
    return " ".join(",".join(map(str, row)) for row in np.asarray(steps).tolist())


def steps_of(text):
    """The time steps (N, 4) of a text; unknown notes and voices that are missing at the end are silent."""
    rows = [[int(note) if _is_pitch(note) else SILENT for note in step.split(",")] for step in text.split()]
    rows = [(row + [SILENT] * len(VOICES))[: len(VOICES)] for row in rows]
    return np.array(rows, np.int32).reshape(-1, len(VOICES))


def check_notes(tokenizer, texts, encoded):
    """Raises UserError for notes that the model does not know; `encoded`: the ids of each text."""
    for text, ids in zip(texts, encoded, strict=True):
        unknown = np.flatnonzero(np.asarray(ids) == tokenizer.unknown_id)
        if not len(unknown):
            continue
        step, voice = divmod(int(unknown[0]), len(VOICES))
        steps = text.split()
        received = steps[step] if step < len(steps) else text
        ranges = ", ".join(
            f"{name} {low} to {high}"
            for name, low, high in zip(VOICES, tokenizer.lowest, tokenizer.highest, strict=True)
        )
        raise UserError(
            f"The {VOICES[voice]} of step {step + 1} is no note of this model: {quoted(received)}. Expected: steps of "
            f"four MIDI pitches such as 74,70,65,58, -1 for silence, within {ranges}."
        )


def as_stream(pieces, tokenizer):
    """All pieces as one stream of ids: END, a piece, END, a piece, ..., END. int32 (N,)."""
    end = np.array([END_ID], np.int32)
    encoded = tokenizer.encode([as_text(piece) for piece in pieces])
    return np.concatenate([end, *(part for ids in encoded for part in (ids, end))])


def split_stream(stream):
    """The pieces of `as_stream`, a list of int32 arrays without END."""
    ends = np.flatnonzero(stream == END_ID)
    return [stream[start + 1 : end] for start, end in zip(ends, ends[1:], strict=False)]


class TransposedStreams:
    """The streams of the epochs: each has all pieces in another order, each in another key.

    The key of a piece is any in which its voices stay within their ranges. A pure function of (seed, epoch).

    Args:
        stream: int32 (N,), from `as_stream`.
        tokenizer: NoteTokenizer.
        seed: int >= 0.
    """

    def __init__(self, stream: np.ndarray, tokenizer: NoteTokenizer, seed: int = 0):
        self.pieces, self.tokenizer, self.seed = split_stream(stream), tokenizer, seed
        self.transpositions = [tokenizer.transpositions(piece) for piece in self.pieces]

    def epoch(self, epoch):
        """The stream of epoch number `epoch`, int >= 0: int32 (N,)."""
        generator = np.random.PCG64([self.seed, epoch, len(self.pieces)])
        end = np.array([END_ID], np.int32)
        parts = [end]
        for i in random_order(generator, len(self.pieces)):
            keys = self.transpositions[i]
            parts += [self.tokenizer.transposed(self.pieces[i], keys[int(generator.random_raw() % len(keys))]), end]
        return np.concatenate(parts)


class PieceWindows:
    """Batches of windows in which each token of each piece, and its END, is a label once: `len()` and `[i]`.

    A piece begins its window. A longer one continues in windows that overlap by half, whose first half has no labels,
    so each token is predicted from all tokens before it, or from half a window of them.
    """

    def __init__(self, stream, max_tokens, rows_per_batch):
        self.rows, half = [], max_tokens // 2
        for piece in split_stream(stream):
            ids = np.concatenate([[END_ID], piece, [END_ID]])
            start, known = 0, 1  # `known`: the first id that is no label yet
            while known < len(ids):
                self.rows.append((ids[start : start + max_tokens + 1].astype(np.int32), known - start - 1))
                known = start + max_tokens + 1
                start += max_tokens - half
        self.max_tokens, self.rows_per_batch = max_tokens, rows_per_batch

    def __len__(self):
        return -(-len(self.rows) // self.rows_per_batch)

    def __getitem__(self, index):
        batch = {
            name: np.full((self.rows_per_batch, self.max_tokens), PAD_ID, np.int32) for name in ("token_ids", "labels")
        }
        rows = self.rows[index * self.rows_per_batch : (index + 1) * self.rows_per_batch]
        for place, (ids, known) in enumerate(rows):
            batch["token_ids"][place, : len(ids) - 1] = ids[:-1]
            batch["labels"][place, known : len(ids) - 1] = ids[1:][known:]
        return batch
