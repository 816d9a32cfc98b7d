"""MIDI files, read back by the library that players use."""

from contextlib import suppress

import mido
import numpy as np
import pytest

from keras_attention.data.music.midi_files import notes_of, read_midi, write_midi
from keras_attention.support.errors import UserError

STEPS = np.array(
    [[74, 70, 65, 58]] * 3 + [[74, 69, -1, 57]] * 2 + [[76, 69, -1, 57]] + [[-1, 69, 64, 55]] * 5, np.int32
)


def sounding(file):
    """{(channel, pitch, first sixteenth, number of sixteenths)} of a mido.MidiFile, by its own clock."""
    notes = set()
    for track in file.tracks:
        now, begun = 0, {}
        for message in track:
            now += message.time
            if message.type == "note_on" and message.velocity:
                begun[message.channel, message.note] = now
            elif message.type in ("note_on", "note_off"):
                start = begun.pop((message.channel, message.note))
                unit = file.ticks_per_beat / 4
                notes.add((message.channel, message.note, start / unit, (now - start) / unit))
        assert not begun
    return notes


def test_a_player_reads_the_notes_with_their_lengths(tmp_path):
    write_midi(STEPS, tmp_path / "song.mid")
    file = mido.MidiFile(tmp_path / "song.mid")
    assert sounding(file) == {
        (0, 74, 0, 5), (0, 76, 5, 1), (1, 70, 0, 3), (1, 69, 3, 8), (2, 65, 0, 3), (2, 64, 6, 5), (3, 58, 0, 3),
        (3, 57, 3, 3), (3, 55, 6, 5),
    }  # fmt: skip
    assert sounding(file) == {(voice, pitch, start, length) for voice, start, length, pitch in notes_of(STEPS)}
    assert file.length == pytest.approx(11 / 4 * 60 / 96)  # seconds, at 96 beats a minute


def test_reads_what_it_wrote(tmp_path):
    write_midi(STEPS, tmp_path / "song.mid")
    np.testing.assert_array_equal(read_midi(tmp_path / "song.mid"), STEPS)


def one_track(path, notes, channel=0, ticks=96):
    """Writes notes (first tick, end, pitch) as a file with one track."""
    events = sorted([(end, 0, pitch) for _, end, pitch in notes] + [(start, 64, pitch) for start, _, pitch in notes])
    track, now = mido.MidiTrack(), 0
    for tick, velocity, pitch in events:
        track.append(mido.Message("note_on", note=pitch, velocity=velocity, time=tick - now, channel=channel))
        now = tick
    mido.MidiFile(ticks_per_beat=ticks, tracks=[track]).save(path)
    return path


def test_chords_of_one_track_are_voices_from_the_top(tmp_path):
    notes = [(48, 98, 60), (50, 96, 67), (48, 96, 64), (96, 120, 48), (96, 121, 72)]  # a sixteenth is 24 ticks
    song = read_midi(one_track(tmp_path / "song.mid", notes))
    assert song.tolist() == [[67, 64, 60, -1]] * 2 + [[72, 48, -1, -1]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no MIDI file"),
        (b"MThd", "no MIDI file"),
        (b"\xff" * 97, "no MIDI file"),
        (b"MThd\0\0\0\6\0\1\0\1\0\x60MTrk\0\0\0\x10\0\x90", "no MIDI file"),
        (b"MThd\0\0\0\6\0\1\0\0\0\x60", "has no notes"),
        (b"MThd\0\0\0\6\0\1\0\1\0\0MTrk\0\0\0\4\0\xff\x2f\0", "counted in seconds"),
    ],
)
def test_damaged_files_are_refused_in_one_line(content, message, tmp_path):
    (tmp_path / "song.mid").write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        read_midi(tmp_path / "song.mid")
    assert "\n" not in str(error.value)


def test_cut_and_changed_files_never_fail_otherwise(tmp_path):
    write_midi(STEPS, tmp_path / "song.mid")
    content, random = (tmp_path / "song.mid").read_bytes(), np.random.default_rng(3)
    for _ in range(211):
        damaged = bytearray(content[: random.integers(len(content))])
        for place in random.integers(0, max(1, len(damaged)), 3):
            damaged[place : place + 1] = bytes([random.integers(256)])
        (tmp_path / "song.mid").write_bytes(damaged)
        with suppress(UserError):
            assert read_midi(tmp_path / "song.mid").shape[1] == 4


def test_limits(tmp_path):
    path = tmp_path / "song.mid"
    chord = [(0, 24, pitch) for pitch in (60, 64, 67, 71, 74)]
    with pytest.raises(UserError, match="5 notes at once at sixteenth 1. Expected: at most 4"):
        read_midi(one_track(path, chord))
    with pytest.raises(UserError, match="has no notes"):
        read_midi(one_track(path, [(0, 24, 60)], channel=9))
    with pytest.raises(UserError, match="has 200,000 sixteenths"):
        read_midi(one_track(path, [(0, 24 * 200_000, 60)]))
    track = b"MTrk\0\0\0\x0d\0\x90\x3c\x40\x81\x00\x80\x3c\0\0\xff\x2f\0"  # one note
    path.write_bytes(b"MThd\0\0\0\6\0\1\0\x25\0\x60" + 37 * track)
    with pytest.raises(UserError, match="has 37 tracks with notes. Expected: at most 32"):
        read_midi(path)
    with pytest.raises(UserError, match="has too many notes at once"):
        read_midi(one_track(path, [(0, 24 * 90_000, pitch) for pitch in range(20, 61)]))
    with pytest.raises(UserError, match="no such file"):
        read_midi(tmp_path / "other.mid")
    with pytest.raises(UserError, match="there is no note to write"):
        write_midi(np.full((3, 4), -1), tmp_path / "silence.mid")
    assert not (tmp_path / "silence.mid").exists()
    (tmp_path / "large.mid").write_bytes(bytes(5_000_001))
    with pytest.raises(UserError, match="larger than a piece of music"):
        read_midi(tmp_path / "large.mid")
