"""Byte-level pieces: the ids of the library's own file, and of merges that are applied one by one in Python."""

import json
import random

import numpy as np
import pytest
import regex
from tiny_byte_level import END, TEXTS, pieces, tiny_byte_level, write_published
from tokenizers import Tokenizer
from varied_texts import varied_texts

from keras_attention.support.errors import UserError
from keras_attention.tokenizers import ByteLevelTokenizer, load_tokenizer
from keras_attention.tokenizers.byte_level_tokenizer import BYTE_OF, read_merges, read_pieces

PARTS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")  # of the authors


def random_texts(count, seed):
    """Texts of any characters but surrogates, with blanks, letters and typed special pieces among them."""
    draw = random.Random(seed)
    plain = ["a", " ", "  ", "\n", "'s", "'LL", "7", "é", "e\u0301", "犬", "🐕", END, "\u00a0", "\t"]

    def character():
        point = draw.choice((draw.randrange(0xD800), draw.randrange(0xE000, 0x30000)))
        return draw.choice(plain) if draw.random() < 0.7 else chr(point)

    return ["".join(character() for _ in range(draw.randrange(31))) for _ in range(count)]


def merged(text, vocabulary, merges):
    """Ids by the equations of the paper: of all neighbours, the pair that was learned first is joined."""
    character_of = {byte: character for character, byte in BYTE_OF.items()}
    rank, pieces = {pair: number for number, pair in enumerate(merges)}, []
    for part in PARTS.findall(text):
        parts = [character_of[byte] for byte in part.encode()]
        while pairs := [pair for pair in zip(parts, parts[1:], strict=False) if pair in rank]:
            best, joined = min(pairs, key=rank.get), []
            while parts:
                size = 2 if tuple(parts[:2]) == best else 1
                joined.append("".join(parts[:size]))
                parts = parts[size:]
            parts = joined
        pieces += [vocabulary.index(part) for part in parts]
    return pieces


def test_ids_and_texts_are_those_of_the_library(tmp_path):
    write_published(tmp_path, 1009, varied_texts(307, seed=5))
    library = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = ByteLevelTokenizer(read_pieces(tmp_path / "vocab.json"), read_merges(tmp_path / "merges.txt"), {"end": END})
    texts = [text.replace(END, "<>") for text in random_texts(4001, seed=3)] + varied_texts(1009, seed=7) + TEXTS
    for text, ids in zip(texts, ours.encode(texts), strict=True):
        assert ids.dtype == np.int32
        assert ids.tolist() == library.encode(text, add_special_tokens=False).ids, repr(text)
        assert ours.decode([ids]) == [text]
    draw = np.random.default_rng(5)
    for ids in draw.integers(1, 1009, (307, 11)):  # also of what is no UTF-8; id 0 is END
        assert ours.decode([ids]) == [library.decode(ids.tolist())]


def test_ids_are_those_of_the_merges_one_by_one():
    tokenizer = tiny_byte_level()
    for text in (*TEXTS, *(text for text in random_texts(307, seed=11) if text.isascii())):
        assert tokenizer.encode([text])[0].tolist() == merged(text, *pieces()), repr(text)
    assert len(tokenizer.encode(["A dog runs"])[0]) < len("A dog runs")


def test_a_typed_special_piece_is_text():
    tokenizer = tiny_byte_level()
    for text in (END, f"a{END}", f"{END} {END}"):
        (ids,) = tokenizer.encode([text])
        assert tokenizer.end_id not in ids
        assert tokenizer.decode([[tokenizer.end_id, *ids, tokenizer.end_id]]) == [text]


def test_tokens_are_readable_one_for_each_id():
    tokenizer = tiny_byte_level()
    (ids,) = tokenizer.encode(["A dog runs over"])
    tokens = tokenizer.tokens([*ids, tokenizer.end_id])
    assert "".join(tokens) == f"A dog runs over{END}"
    assert len(tokens) == len(ids) + 1 < len("A dog runs over")
    assert "\ufffd" in "".join(tokenizer.tokens(tokenizer.encode(["\U0010ffff"])[0]))
    for wrong in (-1, tokenizer.vocabulary_size):
        with pytest.raises(ValueError, match=f"Received: {wrong}"):
            tokenizer.decode([[wrong]])


def test_saved_and_loaded_is_the_same(tmp_path):
    tokenizer = tiny_byte_level()
    tokenizer.save(tmp_path / "new" / "folder")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(tokenizer.files)
    loaded = load_tokenizer(tmp_path / "new" / "folder")
    assert type(loaded) is ByteLevelTokenizer
    assert (loaded.vocabulary, loaded.merges, loaded.end_id) == (tokenizer.vocabulary, tokenizer.merges, 0)
    assert (loaded.pad_id, loaded.special_ids) == (None, (0,))
    for ids, expected in zip(loaded.encode(TEXTS), tokenizer.encode(TEXTS), strict=True):
        np.testing.assert_array_equal(ids, expected)


def test_text_that_is_no_unicode_is_an_error():
    with pytest.raises(UserError, match="UTF-8"):
        tiny_byte_level().encode(["fine", "broken \udcff"])


def test_tokenizing_in_a_graph_is_refused():
    with pytest.raises(UserError, match="cannot be part of a TensorFlow graph. Supported: SentencePiece"):
        tiny_byte_level().tokenize_in_graph(["a"])


WRONG = {
    "a piece twice": (lambda v, m, s: v.append(v[7]), "is there twice"),
    "no piece for a byte": (lambda v, m, s: v.__setitem__(7, "aaaaaa"), "a piece for each byte. Found: none for byte"),
    "a number as piece": (lambda v, m, s: v.append(7), "Piece 283 must be a text without control characters. Found: 7"),
    "a command to the terminal": (lambda v, m, s: v.append("\x1b[2J"), "Piece 283 must be a text"),
    "a long piece": (lambda v, m, s: v.append("x" * 1025), "Piece 283 has 1,025 characters. Allowed: 1,024"),
    "a merge of what is no piece": (lambda v, m, s: m.append(("zz", "q")), r"Found: \('zz', 'q'\)"),
    "a merge to what is no piece": (lambda v, m, s: m.append((v[7], v[7])), "A merge joins two pieces to a third one"),
    "a merge twice": (lambda v, m, s: m.append(m[3]), "A merge is there twice"),
    "a merge to the end": (
        lambda v, m, s: s.update(end="".join(m[3])),
        "A text could contain the special piece .*, which a merge makes",
    ),
    "a byte as end": (lambda v, m, s: s.update(end="!"), "The special piece end must be .* Found: '!'"),
    "no end": (lambda v, m, s: s.pop("end"), r"end at least. Found: \[\]"),
    "another role": (lambda v, m, s: s.update(system=END), "Special pieces have the roles"),
    "a piece that is not there": (lambda v, m, s: s.update(mask="<mask>"), "The special piece mask"),
    "a list as piece": (lambda v, m, s: s.update(mask=[END]), "The special piece mask"),
}


@pytest.mark.parametrize("case", WRONG)
def test_inconsistent_vocabulary_and_merges_are_refused(case, tmp_path):
    change, message = WRONG[case]
    vocabulary, merges = (list(part) for part in pieces())
    special = {"end": END}
    change(vocabulary, merges, special)
    with pytest.raises(UserError, match=message):
        ByteLevelTokenizer(vocabulary, merges, special)


def write(name, content):
    def changed(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return changed


DAMAGED = {
    "no pieces": (lambda folder: (folder / "vocab.json").unlink(), r"vocab\.json: cannot be read"),
    "no merges": (lambda folder: (folder / "merges.txt").unlink(), r"merges\.txt: cannot be read"),
    "half a file": (write("vocab.json", '{"a": 0'), r"vocab\.json: is not valid JSON"),
    "a list of pieces": (write("vocab.json", '["a"]'), r"vocab\.json: expected pieces with the ids from 0 on"),
    "ids with a gap": (write("vocab.json", '{"a": 0, "b": 2}'), "expected pieces with the ids from 0 on, each once"),
    "true as id": (write("vocab.json", '{"a": 0, "b": true}'), "expected pieces with the ids"),
    "a piece twice in the file": (write("vocab.json", '{"a": 0, "a": 1}'), "stands twice"),
    "deep pieces": (write("vocab.json", "[" * 100_000), "is not valid JSON"),
    "merges of one piece": (write("merges.txt", "#version: 0.2\nab\n"), "line 2: expected two pieces. Found: 'ab'"),
    "merges of three pieces": (write("merges.txt", "a b c\n"), "line 1: expected two pieces"),
    "merges in Latin-1": (write("merges.txt", b"a \xff\n"), r"merges\.txt: is not UTF-8"),
    "a pickle as merges": (write("merges.txt", b"\x80\x04\x95"), r"merges\.txt: is not UTF-8"),
    "a list of special pieces": (
        write("tokenizer.json", json.dumps({"kind": "byte-level", "special_pieces": ["end"]})),
        "`special_pieces` must map roles to pieces",
    ),
    "one more setting": (
        write("tokenizer.json", json.dumps({"kind": "byte-level", "special_pieces": {}, "dropout": 0.1})),
        "expected kind, special_pieces. Found: kind",
    ),
    "another end": (
        write("tokenizer.json", json.dumps({"kind": "byte-level", "special_pieces": {"end": "nothing"}})),
        "The special piece end must be a piece",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused(case, tmp_path):
    change, message = DAMAGED[case]
    tiny_byte_level().save(tmp_path)
    change(tmp_path)
    with pytest.raises(UserError, match=message):
        load_tokenizer(tmp_path)
