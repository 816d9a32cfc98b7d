"""Texts as a teacher and its student read them."""

from dataclasses import dataclass

import numpy as np
import pytest

from keras_attention.data.prose.distillation import (
    DistillationBatches,
    MaskedTexts,
    TextSettings,
    align_texts,
    distillation_batches,
    piece_counts,
    prune,
)
from keras_attention.data.prose.masked_lm import Masking
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import WordPieceTokenizer

TEXTS = [f"the {who} {does} over {'the old ' * i}bridges" for i in range(13) for who in ("dog", "gnu") for does in
         ("runs", "jumped")]  # fmt: skip
FULL = WordPieceTokenizer.train(TEXTS, 97)


def make_rows(max_tokens=29):
    pruned, kept = prune(FULL, piece_counts(FULL, FULL.encode(TEXTS)), 46)
    return align_texts(TEXTS, TEXTS, FULL, pruned, kept, max_tokens), pruned, kept


def test_rows():
    rows, pruned, kept = make_rows()
    fit = [t for t in TEXTS if max(len(tok.encode([t])[0]) for tok in (FULL, pruned)) <= 27]
    assert 0 < len(fit) < len(TEXTS)
    assert len(rows) == len(fit)
    for i in (0, 5, len(rows) - 1):
        ids = rows.token_ids[rows.starts[i] : rows.starts[i + 1]]
        teacher_ids = rows.teacher_ids[rows.teacher_starts[i] : rows.teacher_starts[i + 1]]
        np.testing.assert_array_equal(ids, [pruned.start_id, *pruned.encode(fit[i : i + 1])[0], pruned.end_id])
        np.testing.assert_array_equal(teacher_ids, [FULL.start_id, *FULL.encode(fit[i : i + 1])[0], FULL.end_id])
        aligned = rows.aligned[rows.starts[i] : rows.starts[i + 1]]
        assert (aligned[0], aligned[-1]) == (0, len(teacher_ids) - 1)
        there = aligned >= 0
        np.testing.assert_array_equal(kept[ids[there]], teacher_ids[aligned[there]])


def test_batches_are_a_function_of_seed_and_epoch():
    rows, *_ = make_rows()
    batches = DistillationBatches(rows, tokens_per_batch=96, seed=3)
    first, again, other = (
        [DistillationBatches(rows, 96, 3).epoch(epoch)[i]["token_ids"].tolist() for i in range(4)]
        for epoch in (0, 0, 1)
    )
    assert first == again != other
    epoch = batches.epoch(0)
    lengths = {epoch[i]["token_ids"].shape for i in range(len(epoch))}
    longest = max(np.diff(rows.starts).max(), np.diff(rows.teacher_starts).max())
    assert 20 < longest < 32
    assert lengths == {(4, 20), (96 // longest, longest)}
    for batch in map(epoch.__getitem__, range(len(epoch))):
        assert {value.dtype.name for value in batch.values()} == {"int32"}
        assert ((batch["labels"] >= 0) <= (batch["token_ids"] > 0)).all()
    seen = sum((batch["token_ids"][:, 0] > 0).sum() for batch in map(epoch.__getitem__, range(len(epoch))))
    assert len(rows) - 4 < seen <= len(rows)


def test_no_text_is_short_enough():
    with pytest.raises(UserError, match="None of the 52 texts has at most 5 tokens"):
        make_rows(max_tokens=5)


def masked_batches(epoch, seed=3):
    rows, pruned, kept = make_rows()
    masks = DistillationBatches(rows, 96, seed, Masking(pruned, 0.37), kept).epoch(epoch)
    return masks, DistillationBatches(rows, 96, seed).epoch(epoch), pruned, kept


def test_the_same_tokens_are_hidden_from_both():
    hidden, shown, pruned, kept = masked_batches(2)
    count = masks = candidates = 0
    for number in range(len(hidden)):
        batch, original = hidden[number], shown[number]
        rows, columns = np.nonzero(batch["masked_ids"])
        places, teacher_places = (batch[f"{who}_positions"][rows, columns] for who in ("masked", "teacher"))
        is_shared = original["labels"] >= 0
        assert is_shared[rows, places].all()
        np.testing.assert_array_equal(original["labels"][rows, places], teacher_places)
        np.testing.assert_array_equal(original["token_ids"][rows, places], batch["masked_ids"][rows, columns])
        np.testing.assert_array_equal(
            kept[batch["token_ids"][rows, places]], batch["teacher_ids"][rows, teacher_places]
        )
        masks += (batch["teacher_ids"][rows, teacher_places] == FULL.mask_id).sum()
        for name, at in (("token_ids", places), ("teacher_ids", teacher_places)):
            restored = batch[name].copy()
            restored[rows, at] = original[name][rows, at]
            np.testing.assert_array_equal(restored, original[name])
        np.testing.assert_array_equal(batch["labels"], original["labels"])
        padding = batch["masked_ids"] == 0
        assert not batch["masked_positions"][padding].any()
        assert not batch["teacher_positions"][padding].any()
        count += len(rows)
        candidates += (is_shared & (original["token_ids"] >= len(pruned.special_ids))).sum()
    assert 0.3 < count / candidates < 0.44
    assert 0.7 < masks / count < 0.9


def test_masks_are_a_function_of_seed_and_epoch():
    first, again, other_epoch, other_seed = (
        [batch["masked_positions"].tolist() for batch in map(epoch.__getitem__, range(len(epoch)))]
        for epoch in (masked_batches(*arguments)[0] for arguments in ((1,), (1,), (2,), (1, 5)))
    )
    assert first == again
    assert first != other_epoch
    assert first != other_seed


def test_the_students_part_of_a_batch_with_masks():
    hidden, *_ = masked_batches(0)
    texts, batch = MaskedTexts(hidden), hidden[1]
    assert len(texts) == len(hidden)
    assert {name: ids.tolist() for name, ids in texts[1].items()} == {
        "token_ids": batch["token_ids"].tolist(),
        "masked_positions": batch["masked_positions"].tolist(),
        "labels": batch["masked_ids"].tolist(),
    }


@dataclass(frozen=True)
class Settings(TextSettings):
    seed: int = 1


def test_the_teacher_reads_the_source_of_a_translation():
    pairs = [("the dog jumped", "runs the gnu"), ("the gnu runs", ""), ("the gnu runs over bridges", "old dog")]
    settings = Settings(vocabulary_size=46, tokens_per_batch=10**6, validation_split=0.001)
    pruned, _, batches, held_out = distillation_batches(TEXTS, pairs, FULL, settings)
    batch = batches.epoch(0)[0]
    readings = {
        tuple(np.trim_zeros(ids)): (np.trim_zeros(teacher_ids).tolist(), labels.tolist())
        for ids, teacher_ids, labels in zip(batch["token_ids"], batch["teacher_ids"], batch["labels"], strict=True)
    }
    assert len(readings) == len(TEXTS) - 1 + 2  # without the one held out, and without the empty translation
    for source, translation in (pairs[0], pairs[2]):
        ids = [pruned.start_id, *pruned.encode([translation])[0], pruned.end_id]
        teacher_ids = [FULL.start_id, *FULL.encode([source])[0], FULL.end_id]
        read, places = readings[tuple(ids)]
        assert read == teacher_ids
        assert [place for place in places if place >= 0] == [0, len(teacher_ids) - 1]  # [CLS] and [SEP] alone
    assert len(held_out) == 1
