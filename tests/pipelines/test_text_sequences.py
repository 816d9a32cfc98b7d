"""Texts and pairs as rows of ids, cut where they are too long."""

import numpy as np
import pytest
from zoo.tiny_bert import TEXTS, tokenizer

from keras_attention.inputs import token_sequences
from keras_attention.inputs.token_sequences import text_sequences, whole_text_sequences
from keras_attention.support.errors import UserError


def test_a_text_is_framed_by_start_and_end_tokens():
    (row,) = text_sequences(tokenizer(), TEXTS[:1], max_tokens=97)
    assert tokenizer().tokens(row.token_ids)[0] == "[CLS]"
    assert tokenizer().tokens(row.token_ids)[-1] == "[SEP]"
    np.testing.assert_array_equal(row.token_ids[1:-1], tokenizer().encode(TEXTS[:1])[0])
    assert not row.segment_ids.any()
    assert not row.truncated


def test_a_pair_has_two_segments():
    (row,) = text_sequences(tokenizer(), TEXTS[3:], TEXTS[:1], max_tokens=97)
    first, second = (len(ids) for ids in tokenizer().encode([TEXTS[3], TEXTS[0]]))
    assert row.segment_ids.tolist() == [0] * (first + 2) + [1] * (second + 1)
    assert tokenizer().tokens(row.token_ids).count("[SEP]") == 2


@pytest.mark.parametrize(("first", "second", "kept"), [(3, 50, (3, 14)), (50, 3, (14, 3)), (50, 40, (9, 8))])
def test_of_a_pair_the_longer_text_loses_its_end_first(first, second, kept):
    (a, b) = tokenizer().encode(["a", "b"])
    assert len(a) == len(b) == 1
    with pytest.warns(UserWarning, match="1 of 1 texts"):
        (row,) = text_sequences(tokenizer(), ["a " * first], ["b " * second], max_tokens=20)
    assert (int((row.token_ids == a[0]).sum()), int((row.token_ids == b[0]).sum())) == kept
    assert len(row.token_ids) == 20
    assert row.truncated


def test_a_long_text_is_cut_with_a_warning():
    with pytest.warns(UserWarning, match="1 of 2 texts .the first is number 2."):
        rows = text_sequences(tokenizer(), ["a", "a " * 31], max_tokens=7)
    assert [len(row.token_ids) for row in rows] == [3, 7]
    assert rows[1].token_ids[-1] == tokenizer().end_id


@pytest.mark.parametrize("length", [8, 9, 5000])  # tokens, the last beyond the characters that are looked at
def test_a_long_text_may_keep_both_ends(length):
    a, b, c = (int(ids[0]) for ids in tokenizer().encode(["a", "b", "c"]))
    text = f"a {'b ' * (length - 2)}c"
    with pytest.warns(UserWarning, match="their middle was left out"):
        (row,) = text_sequences(tokenizer(), [text], max_tokens=9, long_texts="ends")
    assert row.token_ids.tolist() == [tokenizer().start_id, a, *[b] * 5, c, tokenizer().end_id]
    assert row.truncated


def test_of_two_long_texts_each_may_keep_both_ends():
    a, b = (int(ids[0]) for ids in tokenizer().encode(["a", "b"]))
    (row,) = text_sequences(
        tokenizer(), ["a" + " b" * 9 + " a"], ["b" + " a" * 9 + " b"], max_tokens=9, long_texts="ends", warn=False
    )
    end = tokenizer().end_id
    assert row.token_ids.tolist() == [tokenizer().start_id, a, b, a, end, b, a, b, end]


@pytest.mark.parametrize(("length", "count"), [(0, 1), (1, 1), (7, 1), (8, 2), (14, 2), (15, 3), (300, 43)])
def test_rows_hold_all_of_a_long_text(length, count):
    text = " ".join(np.random.default_rng(length).choice(["a", "b"], length))
    ids = tokenizer().encode([text])[0].tolist()
    (rows,) = whole_text_sequences(tokenizer(), [text], max_tokens=9)
    assert len(ids) == length
    assert len(rows) == count
    held = [row.token_ids.tolist() for row in rows]
    assert all(row[0] == tokenizer().start_id and row[-1] == tokenizer().end_id for row in held)
    assert all(len(row) == min(length, 7) + 2 for row in held)
    assert not any(row.truncated for row in rows)
    end = 0
    for row in held:  # each begins in, or right behind, what the ones before it hold
        inner = row[1:-1]
        end = max(at + len(inner) for at in range(end + 1) if ids[at : at + len(inner)] == inner)
    assert end == length


def test_the_mask_only_where_asked_for():
    plain, masked = (
        text_sequences(tokenizer(), ["a [MASK]"], max_tokens=31, masks=m)[0].token_ids for m in (False, True)
    )
    assert tokenizer().mask_id not in plain
    assert list(masked).count(tokenizer().mask_id) == 1


@pytest.mark.parametrize(
    ("texts", "texts_b", "message"),
    [(["a"], ["b", "c"], "1 texts and 2"), ([3], None, "Received: int 3"), (b"abc", None, "Received: bytes")],
)
def test_values_other_than_texts_are_refused(texts, texts_b, message):
    with pytest.raises(UserError, match=message):
        text_sequences(tokenizer(), texts, texts_b, max_tokens=7)


def test_a_text_that_is_read_whole_has_a_limit(monkeypatch):
    monkeypatch.setattr(token_sequences, "MOST_TOKENS_OF_WHOLE", 31)
    words = TEXTS[0].split() * 40
    cut, short = whole_text_sequences(tokenizer(), [" ".join(words), TEXTS[0]], max_tokens=9)
    ids = [token for sequence in cut for token in sequence.token_ids[1:-1].tolist()]
    every = tokenizer().encode([" ".join(words)])[0].tolist()
    assert (len(cut), cut[0].truncated, short[0].truncated) == (5, True, False)
    assert (ids[:7], ids[-7:]) == (every[:7], every[-7:])
    (long,) = whole_text_sequences(tokenizer(), ["x" * 31 * 65], max_tokens=9)
    assert long[0].truncated
