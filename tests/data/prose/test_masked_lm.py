"""Masks: the published shares, never a special place, whole words whole, and the same wherever they are computed."""

import subprocess
import sys
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from keras_attention.data import MaskedLMBatches, PackedSequences
from keras_attention.data.prose.documents import pair_sentences

VOCABULARY = 1_009
TOKENIZER = SimpleNamespace(
    pad_id=0,
    unknown_id=101,
    start_id=5,
    end_id=3,
    mask_id=7,
    is_continuation=np.arange(VOCABULARY) % 3 == 2,
)
SPECIALS = [0, 101, 5, 3, 7]


def make_rows(texts=307, seed=3, sequence_length=61):
    generator = np.random.default_rng(seed)
    encoded = [generator.integers(11, VOCABULARY, size=generator.integers(1, 83)) for _ in range(texts)]
    return PackedSequences.pack(encoded, sequence_length, pad_id=0, start_id=5, end_id=3)


ROWS = make_rows()


def make_batches(rows=ROWS, rows_per_batch=13, **options):
    return MaskedLMBatches(rows, TOKENIZER, rows_per_batch, **{"seed": 5, **options})


def fingerprint(epoch):
    return zlib.crc32(b"".join(array.tobytes() for batch in epoch for array in batch.values()))


def restored(batch):
    """The batch's rows as they were before the masks."""
    token_ids = batch["token_ids"].copy()
    rows, places = np.nonzero(batch["labels"])
    token_ids[rows, batch["masked_positions"][rows, places]] = batch["labels"][rows, places]
    return token_ids


def all_choices(batches, epochs=11):
    """(originals, what stands there now) of the chosen positions, and the number that could have been chosen."""
    labels, inputs, candidates = [], [], 0
    for epoch in range(epochs):
        for batch in batches.epoch(epoch):
            rows, places = np.nonzero(batch["labels"])
            labels.append(batch["labels"][rows, places])
            inputs.append(batch["token_ids"][rows, batch["masked_positions"][rows, places]])
            candidates += np.count_nonzero(~np.isin(restored(batch), SPECIALS))
    return np.concatenate(labels), np.concatenate(inputs), candidates


def assert_share(count, total, share):
    assert abs(count - total * share) < 4 * np.sqrt(total * share * (1 - share))


def test_all_chosen_tokens_are_masked_on_request():
    labels, inputs, _ = all_choices(make_batches(always=True), epochs=3)
    usual, _, _ = all_choices(make_batches(), epochs=3)
    assert (inputs == TOKENIZER.mask_id).all()
    assert labels.tolist() == usual.tolist()


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("mask_rate", [0.15, 0.37])
def test_shares_are_the_published_ones(mask_rate, whole_words):
    labels, inputs, candidates = all_choices(make_batches(mask_rate=mask_rate, whole_words=whole_words))
    assert_share(len(labels), candidates, mask_rate)
    masked, kept = inputs == TOKENIZER.mask_id, inputs == labels
    assert_share(masked.sum(), len(labels), 0.8)
    same_by_chance = 0.1 / (VOCABULARY - len(SPECIALS))
    assert_share(kept.sum(), len(labels), 0.1 + same_by_chance)
    drawn = inputs[~masked & ~kept]
    assert not np.isin(drawn, SPECIALS).any()
    assert (drawn < VOCABULARY // 2).sum() == pytest.approx(len(drawn) / 2, abs=2 * np.sqrt(len(drawn)))
    assert drawn.min() < 11 or drawn.max() > 980


@pytest.mark.parametrize("whole_words", [False, True])
def test_rows_are_all_there_once_and_nothing_but_the_masks_is_changed(whole_words):
    originals = {(row.tobytes(), blocks.tobytes()) for row, blocks in zip(ROWS.token_ids, ROWS.block_ids, strict=True)}
    seen = []
    for batch in make_batches(whole_words=whole_words).epoch(2):
        for row, blocks, positions in zip(restored(batch), batch["block_ids"], batch["position_ids"], strict=True):
            if blocks.any():
                seen.append((row.tobytes(), blocks.tobytes()))
            else:
                assert not row.any()
                assert not positions.any()
    assert len(seen) == len(ROWS) == len(originals)
    assert set(seen) == originals


def test_the_parts_of_a_pass_have_its_rows_once_in_its_order():
    whole, parted = make_batches(), make_batches(parts=3)
    for number in range(2):
        parts = [batch for part in range(3) for batch in parted.epoch(3 * number + part)]
        expected = whole.epoch(number)
        assert len(parts) == len(expected)
        for batch, other in zip(parts, expected, strict=True):
            np.testing.assert_array_equal(restored(batch), restored(other))


def test_no_special_place_is_chosen_and_positions_rise():
    for batch in make_batches(mask_rate=0.97).epoch(0):
        assert not np.isin(batch["labels"], SPECIALS[1:]).any()
        for positions, labels in zip(batch["masked_positions"], batch["labels"], strict=True):
            count = np.count_nonzero(labels)
            assert (np.diff(positions[:count]) > 0).all()
            assert not labels[count:].any()
            assert not positions[count:].any()


def test_whole_words_are_chosen_whole():
    chosen_words = long_words = 0
    for batch in make_batches(whole_words=True).epoch(0):
        for row, positions, labels in zip(restored(batch), batch["masked_positions"], batch["labels"], strict=True):
            chosen = np.zeros(len(row), bool)
            chosen[positions[labels > 0]] = True
            start = 0
            while start < len(row):
                end = start + 1
                while row[start] not in SPECIALS and end < len(row) and row[end] % 3 == 2 and row[end] not in SPECIALS:
                    end += 1
                assert len(set(chosen[start:end].tolist())) == 1
                chosen_words += chosen[start]
                long_words += chosen[start] and end - start > 1
                start = end
    assert long_words > chosen_words / 7


def test_a_text_that_begins_inside_a_word_begins_a_word():
    inside = [np.array([11]), np.array([14])] * 23  # single pieces that continue what is not there
    rows = PackedSequences.pack(inside, 7, pad_id=0, start_id=5, end_id=3)
    labels, _, candidates = all_choices(make_batches(rows, mask_rate=0.37, whole_words=True), epochs=23)
    assert_share(len(labels), candidates, 0.37)


def test_shapes_are_fixed_and_arrays_are_int32():
    batches = make_batches()
    assert batches.num_masked == 9  # 15 % of 59
    for batch in batches.epoch(1):
        shapes = {name: array.shape for name, array in batch.items()}
        wide, narrow = (13, 61), (13, 9)
        assert shapes == {
            "token_ids": wide,
            "block_ids": wide,
            "position_ids": wide,
            "masked_positions": narrow,
            "labels": narrow,
        }
        assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}


def test_batches_are_a_function_of_seed_epoch_and_number():
    first = fingerprint(make_batches().epoch(3))
    assert fingerprint(make_batches().epoch(3)) == first
    assert fingerprint(make_batches().epoch(2)) != first
    assert fingerprint(make_batches(seed=7).epoch(3)) != first
    epoch = make_batches().epoch(3)
    for number in (len(epoch) - 1, 2, 0, -1):
        for name, array in make_batches().epoch(3)[number].items():
            np.testing.assert_array_equal(array, epoch[number % len(epoch)][name])


def test_another_process_computes_the_same_batches():
    code = f"import sys; sys.path.insert(0, {str(__file__).rsplit('/', 1)[0]!r}); import test_masked_lm as t; "
    code += "print(t.fingerprint(t.make_batches().epoch(3)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(answer.stdout) == fingerprint(make_batches().epoch(3))


def test_each_epoch_chooses_other_places():
    rows = make_rows(texts=1)
    chosen = {tuple(make_batches(rows, 1).epoch(epoch)[0]["masked_positions"][0].tolist()) for epoch in range(23)}
    assert len(chosen) > 17


def test_past_the_end_is_an_index_error():
    epoch = make_batches().epoch(0)
    with pytest.raises(IndexError):
        epoch[len(epoch)]


@pytest.mark.parametrize(
    ("name", "value"), [("rows_per_batch", 0), ("mask_rate", 0.0), ("mask_rate", 1.0), ("seed", -1), ("parts", 0)]
)
def test_wrong_arguments_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value}"):
        make_batches(**{name: value})


def test_ids_of_another_vocabulary_are_refused():
    rows = PackedSequences.pack([np.array([VOCABULARY])], 7, pad_id=0, start_id=5, end_id=3)
    with pytest.raises(ValueError, match=f"0 to {VOCABULARY}"):
        make_batches(rows)


def test_rows_of_two_texts_tell_which_follows():
    generator = np.random.default_rng(7)
    documents = [[generator.integers(11, VOCABULARY, size=5) for _ in range(9)] for _ in range(13)]
    rows = pair_sentences(documents, 31, pad_id=0, start_id=5, end_id=3)
    count = 0
    for batch in make_batches(rows).epoch(0):
        assert batch["labels"].shape == (13, make_batches(rows).num_masked + 1)
        *_, is_next = batch["labels"].T
        batch["labels"] = batch["labels"][:, :-1]
        for tokens, segments, follows in zip(restored(batch), batch["segment_ids"], is_next, strict=True):
            if follows == -1:
                assert not tokens.any()
                continue
            (row,) = np.flatnonzero((rows.token_ids == tokens).all(axis=1))
            assert follows == rows.is_next[row]
            np.testing.assert_array_equal(segments, rows.segment_ids[row])
            count += 1
    assert count == len(rows)
