"""MIDI files <-> time steps of four voices."""

import io
from itertools import pairwise
from pathlib import Path

import numpy as np

from keras_attention.data.files import read_bytes
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UserError, counted
from keras_attention.tokenizers.note_tokenizer import SILENT, VOICES

STEPS_PER_BEAT = 4  # a time step is a sixteenth note
BEATS_PER_BAR = 4
STEPS_PER_BAR = STEPS_PER_BEAT * BEATS_PER_BAR
MIDI_ENDINGS = (".mid", ".midi")
TICKS = 480  # of a beat
TEMPO = 96  # beats per minute
VELOCITY = 80
MOST_BYTES, MOST_STEPS, MOST_TRACKS = 5_000_000, 100_000, 32
DAMAGED = (OSError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError)  # raised by mido


def notes_of(steps):
    """The notes of music: equal pitches of neighbouring steps are one note.

    Args:
        steps: int array (N, 4) of pitches; -1 is silence.

    Returns:
        List of (voice, first step, number of steps, pitch), voice by voice.
    """
    notes = []
    for voice, pitches in enumerate(np.asarray(steps).T):
        edges = [*np.flatnonzero(np.diff(pitches, prepend=SILENT - 1)), len(pitches)]
        for start, end in pairwise(edges):
            if pitches[start] != SILENT:
                notes.append((voice, int(start), int(end - start), int(pitches[start])))
    return notes


def write_midi(steps, path):
    """Writes music as a MIDI file with a track for each voice; it is complete or absent.

    Args:
        steps: int array (N, 4) of pitches, N > 0; -1 is silence. A step is a sixteenth note.
        path: str or Path.

    Raises:
        UserError: if there is no note, or the file cannot be written.
    """
    import mido  # here, because models of music need it only for files

    notes = notes_of(steps)
    if not notes:
        raise UserError(f"{path}: there is no note to write.")
    file = mido.MidiFile(ticks_per_beat=TICKS)
    tempo = mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(TEMPO))
    file.tracks.append(mido.MidiTrack([tempo]))
    for voice, name in enumerate(VOICES):
        track = mido.MidiTrack([mido.MetaMessage("track_name", name=name)])
        now = 0
        for _, start, length, pitch in (note for note in notes if note[0] == voice):
            on, off = (step * TICKS // STEPS_PER_BEAT for step in (start, start + length))
            track.append(mido.Message("note_on", note=pitch, velocity=VELOCITY, channel=voice, time=on - now))
            track.append(mido.Message("note_off", note=pitch, channel=voice, time=off - on))
            now = off
        end = len(steps) * TICKS // STEPS_PER_BEAT
        track.append(mido.MetaMessage("end_of_track", time=end - now))
        file.tracks.append(track)
    content = io.BytesIO()
    file.save(file=content)
    with whole_file(path, "wb") as output:
        output.write(content.getvalue())


def read_midi(path):
    """Reads the notes of a MIDI file, rounded to sixteenths.

    Four tracks of one note at a time are the voices, the highest on average first. From other files, the highest note
    that sounds at a step is the soprano, the next one the alto, and so on. Drums (channel 10) are left out.

    Args:
        path: str or Path.

    Returns:
        int32 array (N, 4) of pitches; -1 is silence. Silence before the first note is left out.

    Raises:
        UserError: if the file is no MIDI file, has no note, more than four notes at once, or is too long.
    """
    import mido

    if Path(path).is_file() and Path(path).stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: is larger than a piece of music. Expected: at most {MOST_BYTES:,} bytes.")
    content = read_bytes(path)
    try:
        file = mido.MidiFile(file=io.BytesIO(content), clip=True)
        tracks = [_track_notes(track, file.ticks_per_beat) for track in file.tracks]
    except DAMAGED as error:
        why = str(error) or type(error).__name__
        raise UserError(f"{path}: is no MIDI file, or damaged ({why:.60}). Expected: a standard MIDI file.") from error
    tracks = [notes for notes in tracks if notes]
    if not tracks:
        raise UserError(f"{path}: has no notes. Expected: music in up to four voices.")
    first, last = (edge(note[place] for notes in tracks for note in notes) for edge, place in ((min, 0), (max, 1)))
    if last - first > MOST_STEPS:
        raise UserError(f"{path}: has {last - first:,} sixteenths. Expected: at most {MOST_STEPS:,}.")
    if len(tracks) > MOST_TRACKS:
        raise UserError(f"{path}: has {len(tracks):,} tracks with notes. Expected: at most {MOST_TRACKS}.")
    if sum(end - start for notes in tracks for start, end, _ in notes) > MOST_TRACKS * MOST_STEPS:
        raise UserError(f"{path}: has too many notes at once. Expected: at most {len(VOICES)}.")
    tracks.sort(key=lambda notes: -sum(pitch for _, _, pitch in notes) / len(notes))
    rows = [_sounding(notes, first, last) for notes in tracks]
    if len(rows) == len(VOICES) and all(len(sounds) <= 1 for row in rows for sounds in row):
        return np.array([[max(sounds, default=SILENT) for sounds in row] for row in rows], np.int32).T
    steps = [sorted(set().union(*sounds), reverse=True) for sounds in zip(*rows, strict=True)]
    for number, sounds in enumerate(steps, start=first + 1):
        if len(sounds) > len(VOICES):
            what = counted(len(sounds), "note")
            raise UserError(f"{path}: {what} at once at sixteenth {number:,}. Expected: at most {len(VOICES)}.")
    return np.array([sounds + [SILENT] * (len(VOICES) - len(sounds)) for sounds in steps], np.int32)


def _track_notes(track, ticks_per_beat):
    """List of (first step, end, pitch) of a track; a note lasts one step or more."""
    if ticks_per_beat < 1:
        raise ValueError("its time is counted in seconds, not in beats")
    notes, sounding, now = [], {}, 0

    def step(ticks):
        return round(ticks * STEPS_PER_BEAT / ticks_per_beat)

    for message in track:
        now += message.time
        if message.type not in ("note_on", "note_off") or message.channel == 9:
            continue
        key = message.channel, message.note
        if key in sounding:
            start = step(sounding.pop(key))
            notes.append((start, max(step(now), start + 1), message.note))
        if message.type == "note_on" and message.velocity:
            sounding[key] = now
    return notes


def _sounding(notes, first, last):
    """The set of pitches that sound at each step from `first` to `last`."""
    row = [set() for _ in range(last - first)]
    for start, end, pitch in notes:
        for step in range(start, end):
            row[step - first].add(pitch)
    return row
