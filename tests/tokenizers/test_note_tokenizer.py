"""Time steps of four voices <-> ids."""

import json

import numpy as np
import pytest

from keras_attention.support.errors import UserError
from keras_attention.tokenizers import NoteTokenizer, load_tokenizer

TEXT = "74,70,65,58 74,-1,64,57"
PIECES = [np.array([[74, 70, 65, 58], [79, -1, 60, 51]]), np.array([[71, 67, -1, 53]])]


def tokenizer():
    return NoteTokenizer.train(PIECES)


def test_ranges_come_from_the_pieces():
    known = tokenizer()
    assert (known.lowest, known.highest) == ([71, 67, 60, 51], [79, 70, 65, 58])
    assert known.vocabulary_size == 4 + (9 + 1) + (4 + 1) + (6 + 1) + (8 + 1)


def test_every_voice_has_its_own_ids():
    known = tokenizer()
    (ids,) = known.encode([TEXT])
    assert known.tokens(ids) == ["S74", "A70", "T65", "B58", "S74", "A-", "T64", "B57"]
    assert known.voice_of[ids].tolist() == [0, 1, 2, 3] * 2
    assert known.pitch_of[ids].tolist() == [74, 70, 65, 58, 74, -1, 64, 57]
    assert known.decode([[2, *ids, 3, 0]]) == [TEXT]
    assert len(set(range(known.vocabulary_size)) - set(known._ids.values())) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("74", ["S74"]),
        ("74,70", ["S74", "A70"]),
        ("74 75,70,65,58", ["S74", *["<unk>"] * 3, "S75", "A70", "T65", "B58"]),
        ("99,x,65,58", ["<unk>", "<unk>", "T65", "B58"]),
        ("74,70,65,58,51", ["S74", "A70", "T65", "B58", "<unk>"]),
        ("٧٤,1e1,+65,0058", ["<unk>"] * 4),
        (",,,", ["<unk>"] * 4),
    ],
)
def test_text_other_than_notes_is_unknown(text, expected):
    known = tokenizer()
    assert known.tokens(known.encode([text])[0]) == expected


def test_decoded_text_grows_at_its_end_and_has_all_voices():
    known, random = tokenizer(), np.random.default_rng(5)
    for _ in range(31):
        ids = random.integers(0, known.vocabulary_size, 23)
        texts = known.decode([ids[:end] for end in range(24)])
        for shorter, longer in zip(texts, texts[1:], strict=False):
            assert longer.startswith(shorter)
        steps = [step.split(",") for step in texts[-1].split()]
        assert all(len(step) == 4 for step in steps[:-1])
        if (ids != 1).all():  # each note is in its voice
            (again,) = known.encode([texts[-1]])
            assert known.decode([again]) == [texts[-1]]
            assert [i for i in again if known.pitch_of[i] >= 0] == [i for i in ids if known.pitch_of[i] >= 0]


def test_transposes_within_the_ranges():
    known = tokenizer()
    (ids,) = known.encode([TEXT])
    keys = known.transpositions(ids)
    assert keys == range(-3, 1)  # the alto is at its highest note, and 3 semitones above its lowest
    for key in keys:
        moved = known.transposed(ids, key)
        expected = np.where(known.pitch_of[ids] < 0, -1, known.pitch_of[ids] + key)
        np.testing.assert_array_equal(known.pitch_of[moved], expected)
        np.testing.assert_array_equal(known.voice_of[moved], known.voice_of[ids])
    assert known.transpositions(known.encode(["-1,-1,-1,-1"])[0]) == range(1)


def test_saves_and_loads(tmp_path):
    tokenizer().save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert isinstance(loaded, NoteTokenizer)
    assert (loaded.lowest, loaded.highest) == (tokenizer().lowest, tokenizer().highest)


@pytest.mark.parametrize(
    "ranges",
    [
        {},
        {"lowest": 5, "highest": 7},
        {"lowest": [1, 2, 3], "highest": [5, 5, 5]},
        {"lowest": [1, 2, 3, 4], "highest": [5, 5, 5, 3]},
        {"lowest": [1, 2, 3, 4], "highest": [5, 5, 5, 128]},
        {"lowest": [1, 2, 3, True], "highest": [5, 5, 5, 5]},
        {"lowest": [1, 2, 3, 4.5], "highest": [5, 5, 5, 5]},
        {"lowest": ["1", 2, 3, 4], "highest": [5, 5, 5, 5]},
    ],
)
def test_damaged_files_are_refused(ranges, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"kind": "notes", **ranges}))
    with pytest.raises(UserError):
        NoteTokenizer.load(tmp_path)


def test_a_silent_voice_is_refused():
    with pytest.raises(UserError, match="The tenor is always silent"):
        NoteTokenizer.train([np.array([[74, 70, -1, 58]])])


def test_an_id_beyond_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match="in \\[0, 35\\). Received: 35"):
        tokenizer().decode([[35]])
