"""WordPiece: ids of the reference, equal in Python and in a graph, and special pieces that no text can forge."""

import json

import numpy as np
import pytest
import tensorflow as tf
from bert_texts import bert_texts

from keras_attention.support.errors import UserError
from keras_attention.tokenizers import WordPieceTokenizer, load_tokenizer
from keras_attention.tokenizers import wordpiece_tokenizer as piece_cutter
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    "un",
    "##known",
    "##able",
    "dog",
    "##s",
    "the",
    "don",
    "'",
    "t",
    ",",
    ".",
    "s",
    "##k",
    "[",
    "]",
    "sep",
    "mask",
]
SMALL = WordPieceTokenizer(SPECIALS + PIECES)


def pieces_of(text, **options):
    return SMALL.tokens(SMALL.encode([text], **options)[0])


@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_are_those_of_the_reference_and_of_the_graph(lowercase):
    texts = bert_texts(2_003, seed=3)
    tokenizer = WordPieceTokenizer.train(texts[::3], 4_001, lowercase)
    encoded = tokenizer.encode(texts)
    in_graph = tf.function(tokenizer.tokenize_in_graph)(tf.constant(texts))
    assert in_graph.dtype == tf.int32
    for text, ids, expected in zip(texts, in_graph.to_list(), encoded, strict=True):
        assert ids == expected.tolist(), repr(text)
    assert 0.5 < np.mean(np.concatenate(encoded) != UNKNOWN_ID) < 0.99


@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_are_those_of_the_library_tokenizers(lowercase):
    reference = pytest.importorskip("tokenizers.implementations", reason="the library tokenizers is not installed")
    texts = bert_texts(10_007, seed=5)
    tokenizer = WordPieceTokenizer.train(texts[::7], 4_001, lowercase)
    ids = {piece: number for number, piece in enumerate(tokenizer.vocabulary)}
    other = reference.BertWordPieceTokenizer(ids, lowercase=lowercase)
    other._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is mere text
    expected = other.encode_batch(texts, add_special_tokens=False)
    for text, actual, encoding in zip(texts, tokenizer.encode(texts), expected, strict=True):
        assert actual.tolist() == encoding.ids, ascii(text)


def test_odd_pieces_are_those_of_the_library_tokenizers():
    reference = pytest.importorskip("tokenizers.implementations", reason="the library tokenizers is not installed")
    odd = ["#", "##", "###", "##a", "a", " ", "\u3000", "##\u3000", "a b", "x" * 101, "##" + "é" * 99, "é", "##[UNK]"]
    vocabulary = [*SPECIALS, *odd, "[unused1]", "\ufffd"]
    other = reference.BertWordPieceTokenizer({piece: i for i, piece in enumerate(vocabulary)}, lowercase=False)
    texts = ["# ## a ##a aa", "x" * 101, "é" * 100, "a b", "[unused1]", "\ufffd", *bert_texts(307, seed=9)]
    expected = [other.encode(text, add_special_tokens=False).ids for text in texts]
    assert [ids.tolist() for ids in WordPieceTokenizer(vocabulary, lowercase=False).encode(texts)] == expected


def test_the_longest_piece_comes_first_and_a_word_is_whole_or_unknown():
    assert pieces_of("Unknowns THE dogs, dog unable.") == (
        ["un", "##known", "##s", "the", "dog", "##s", ",", "dog", "un", "##able", "."]
    )
    assert pieces_of("dogz the") == ["[UNK]", "the"]


def test_special_pieces_in_a_text_are_mere_text():
    assert pieces_of("the [SEP] [MASK]") == ["the", "[", "sep", "]", "[", "mask", "]"]
    masked = pieces_of("the [MASK]s [mask], [SEP]", masks=True)
    assert masked == ["the", "[MASK]", "s", "[", "mask", "]", ",", "[", "sep", "]"]
    assert [ids.tolist() for ids in SMALL.encode(["", "[MASK]", "dog"], masks=True)] == [[], [4], [8]]


def test_words_of_more_than_100_characters_are_unknown():
    tokenizer = WordPieceTokenizer([*SPECIALS, "한", "##한"], lowercase=False)
    at_most, too_long = tokenizer.encode(["한" * 100, "한" * 101])
    assert at_most.tolist() == [5] + [6] * 99
    assert too_long.tolist() == [UNKNOWN_ID]


def test_published_vocabularies_keep_their_ids():
    tokenizer = WordPieceTokenizer(["[PAD]", "[unused0]", "dog", "[MASK]", "[SEP]", "[CLS]", "##s", "[UNK]"])
    actual = tokenizer.pad_id, tokenizer.unknown_id, tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id
    assert actual == (0, 7, 5, 4, 3)
    assert tokenizer.encode(["dogs cats"])[0].tolist() == [2, 6, 7]
    assert tokenizer.is_continuation.tolist() == [False] * 6 + [True, False]
    assert tokenizer.decode([[5, 2, 6, 3, 7, 4, 0]]) == ["dogs [MASK] ⁇"]


def test_learnt_vocabularies_have_the_ids_of_all_tokenizers():
    tokenizer = WordPieceTokenizer.train(["a dog runs"], 61)
    actual = tokenizer.pad_id, tokenizer.unknown_id, tokenizer.start_id, tokenizer.end_id
    assert actual == (PAD_ID, UNKNOWN_ID, START_ID, END_ID)
    assert tokenizer.vocabulary[:5] == SPECIALS


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ("un ##known ##able dog ##s", "unknownable dogs"),
        ("don ' t , the dog ##s ' s .", "don't, the dogs's."),
        ('the " dog " ( " the " ) .', 'the "dog" ("the").'),
    ],
)
def test_decoding_reads_like_english(pieces, text):
    vocabulary = list(dict.fromkeys([*SPECIALS, *pieces.split()]))
    ids = [vocabulary.index(piece) for piece in pieces.split()]
    assert WordPieceTokenizer(vocabulary).decode([ids]) == [text]


def test_an_id_out_of_range_is_an_error():
    with pytest.raises(ValueError, match=f"Received: {SMALL.vocabulary_size}"):
        SMALL.tokens([SMALL.vocabulary_size])


def test_many_batches_give_the_same_ids_as_one(monkeypatch):
    texts = bert_texts(211, seed=7)
    expected = SMALL.encode(texts)
    monkeypatch.setattr("keras_attention.tokenizers.wordpiece_tokenizer.BATCH_CHARACTERS", 37)
    for ids, one in zip(SMALL.encode(texts), expected, strict=True):
        np.testing.assert_array_equal(ids, one)
    assert SMALL.encode([]) == []


def test_short_texts_have_the_ids_of_long_ones(monkeypatch):
    """Their words are remembered, and forgotten when there are too many."""
    monkeypatch.setattr(piece_cutter, "MAX_KNOWN_WORDS", 89)
    texts = [*bert_texts(53, seed=11), "", "a" * 101, "a" * 4_099]
    tokenizer = WordPieceTokenizer.train(texts, 409)
    expected = tokenizer.encode(texts)
    assert not tokenizer._cutter._known
    for _ in range(2):
        for text, ids in zip(texts, expected, strict=True):
            (actual,) = tokenizer.encode([text])
            assert (actual.dtype, actual.tolist()) == (ids.dtype, ids.tolist()), repr(text)
    assert 0 < len(tokenizer._cutter._known) <= 89


def test_text_that_is_no_unicode_is_an_error():
    with pytest.raises(UserError, match=r"broken .* UTF-8"):
        SMALL.encode(["fine", "broken \udcff"])


def test_saved_and_loaded_is_the_same(tmp_path):
    tokenizer = WordPieceTokenizer([*SPECIALS, "\u2028", "Dog", "##\u3000", "##g"], lowercase=False)
    tokenizer.save(tmp_path / "new" / "folder")
    loaded = load_tokenizer(tmp_path / "new" / "folder")
    assert isinstance(loaded, WordPieceTokenizer)
    assert (loaded.vocabulary, loaded.lowercase) == (tokenizer.vocabulary, False)


def test_a_vocabulary_with_windows_line_ends_loads(tmp_path):
    SMALL.save(tmp_path)
    path = tmp_path / "vocab.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert WordPieceTokenizer.load(tmp_path).vocabulary == SMALL.vocabulary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Piece 1 .*''"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\ndog\n", r"\[MASK\] missing"),
        ("dog\n[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", r"'dog'\] at the beginning"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n\ndog\n", "Piece 6 .*''"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ndog\ndog\n", "Piece 7 occurs twice.*'dog'"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nd\x07g\n", "Piece 6 .*control"),
        ("x\n" * 1_000_001, "1,000,001"),
    ],
)
def test_a_damaged_vocabulary_is_an_error(tmp_path, content, message):
    SMALL.save(tmp_path)
    (tmp_path / "vocab.txt").write_text(content)
    with pytest.raises(UserError, match=rf"vocab\.txt: .*{message}"):
        WordPieceTokenizer.load(tmp_path)


def test_bytes_that_are_no_text_are_an_error(tmp_path):
    SMALL.save(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n\xff\xfe\n")
    with pytest.raises(UserError, match=r"vocab\.txt: is not UTF-8"):
        WordPieceTokenizer.load(tmp_path)


@pytest.mark.parametrize("settings", [{"kind": "wordpiece"}, {"kind": "wordpiece", "lowercase": 1}, []])
def test_damaged_settings_are_an_error(tmp_path, settings):
    SMALL.save(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        WordPieceTokenizer.load(tmp_path)
