"""Chorales: their files, the rules, transposition, and windows."""

import gzip
from dataclasses import dataclass

import numpy as np
import pytest

from keras_attention.data.music.chorales import (
    PieceWindows,
    TransposedStreams,
    as_stream,
    as_text,
    read_chorales,
    rule_chorales,
    split_stream,
    steps_of,
)
from keras_attention.data.music.midi_files import write_midi
from keras_attention.data.prose.token_stream import StreamSettings, load_stream
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import NoteTokenizer
from keras_attention.training.run import RunSettings

LINE = "74,70,65,58 74,-1,65,57"


@dataclass(frozen=True)
class Config(StreamSettings, RunSettings):
    pass


def test_reads_texts_and_midi_files(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(f"{LINE}\n\n {LINE}  71,67,62,55\n".encode()))
    write_midi(steps_of(LINE), tmp_path / "b.mid")
    pieces = read_chorales([tmp_path / "a.txt.gz", tmp_path / "b.mid"])
    expected = [[74, 70, 65, 58], [74, -1, 65, 57]]
    assert [piece.tolist() for piece in pieces] == [expected, [*expected, [71, 67, 62, 55]], expected]
    assert as_text(pieces[0]) == LINE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n \n", "found no music"),
        (b"74,70,65,58 74,70,65\n", "line 1, step 2: expected 4 MIDI pitches.*Found: '74,70,65'"),
        (LINE.encode() + b"\n74,70,65,128\n", "line 2, step 1: expected 4 MIDI pitches"),
        (b"74,70,65,-2\n", "line 1, step 1"),
        (b"74, 70, 65, 58\n", "line 1, step 1"),
        ("74,70,65,٥٨\n".encode(), "line 1, step 1"),
        (b"7" * 100_000, "line 1, step 1"),
        (b"\xff\xfe", "line 1"),
    ],
)
def test_other_files_are_refused_in_one_line(content, message, tmp_path):
    (tmp_path / "music.txt").write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        read_chorales([tmp_path / "music.txt"])
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_rules_make_chords_in_four_voices():
    pieces = rule_chorales(17, seed=3)
    for piece in pieces:
        assert (np.diff(piece, axis=1) < 0).all()  # from soprano to bass
        assert len(piece) == 24 * 4 + 16
        chords = piece[::4] % 12
        assert all(len(set(chord)) <= 3 for chord in chords.tolist())
        np.testing.assert_array_equal(chords[:8, 3], chords[16:24, 3])  # A B A
    again = rule_chorales(17, seed=3)
    assert all((one == other).all() for one, other in zip(pieces, again, strict=True))
    assert any((one != other).any() for one, other in zip(pieces, rule_chorales(17, seed=4), strict=True))


def test_texts_of_damaged_steps_are_silent():
    assert steps_of("74,?,65").tolist() == [[74, -1, 65, -1]]
    assert steps_of("").shape == (0, 4)


def test_an_epoch_has_each_piece_once_in_some_key():
    pieces = rule_chorales(7, seed=2)
    tokenizer = NoteTokenizer.train(pieces)
    stream = as_stream(pieces, tokenizer)
    assert (stream == 3).sum() == 8
    streams = TransposedStreams(stream, tokenizer, seed=5)
    seen = []
    for epoch in (0, 1, 0):
        actual = [tokenizer.pitch_of[piece].reshape(-1, 4) for piece in split_stream(streams.epoch(epoch))]
        assert sorted(map(len, actual)) == sorted(map(len, pieces))
        intervals = {tuple(np.diff(piece, axis=0).ravel().tolist()) for piece in pieces}
        assert {tuple(np.diff(piece, axis=0).ravel().tolist()) for piece in actual} == intervals
        seen.append(np.concatenate(actual))
    np.testing.assert_array_equal(seen[0], seen[2])
    assert (seen[0] != seen[1]).any()


@pytest.mark.parametrize("length", [1, 5, 6, 7, 13, 14, 29])
@pytest.mark.parametrize("window", [7, 8, 13])
def test_each_note_is_a_label_once_and_has_enough_before_it(length, window):
    pieces = [np.arange(5, 5 + 4 * size) for size in (length, 3)]
    end = np.array([3])
    stream = np.concatenate([end, pieces[0], end, pieces[1], end]).astype("int32")
    windows = PieceWindows(stream, window, rows_per_batch=3)
    labels, inputs = [], []
    for i in range(len(windows)):
        batch = windows[i]
        assert batch["labels"].shape == batch["token_ids"].shape == (3, window)
        for ids, row in zip(batch["token_ids"], batch["labels"], strict=True):
            for place in np.flatnonzero(row):
                labels.append(row[place])
                inputs.append(ids[place])
                assert place + 1 >= window // 2 or ids[0] == 3  # from the beginning, or half a window
    np.testing.assert_array_equal(sorted(labels), sorted(stream[1:]))
    expected = sorted(zip(stream[:-1], stream[1:], strict=True))
    assert sorted(zip(inputs, labels, strict=True)) == expected


def test_music_as_a_stream(tmp_path):
    stream = load_stream(Config(data="music", max_tokens=61, rows_per_batch=5, seed=1))
    assert stream.is_music
    training, validation = stream.batches(Config(data="music", max_tokens=61, rows_per_batch=5))
    epoch = training.epoch(0)
    assert epoch[0]["token_ids"].shape == validation[0]["labels"].shape == (5, 61)
    np.testing.assert_array_equal(epoch[0]["token_ids"][:, 1:], epoch[0]["labels"][:, :-1])
    notes = (stream.validation != 3).sum()
    assert stream.words * 4 == notes
    scores = stream.scores({"loss": 0.5, "accuracy": 70.0})
    assert scores["nats per time step"] == pytest.approx(0.5 * (len(stream.validation) - 1) / stream.words)
    stream.save(tmp_path / "encoded")
    again = load_stream(Config(data="music", encoded=str(tmp_path / "encoded")))
    assert again.is_music
    np.testing.assert_array_equal(again.train, stream.train)


def test_too_little_music_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text(LINE)
    with pytest.raises(UserError, match="There is 1 piece"):
        load_stream(Config(data="music", text=(str(tmp_path / "a.txt"),)))
    (tmp_path / "a.txt").write_text(f"{LINE}\n{LINE}\n")
    stream = load_stream(Config(data="music", text=(str(tmp_path / "a.txt"),)))
    with pytest.raises(UserError, match="tokens to train on"):
        stream.batches(Config(data="music", max_tokens=61))
