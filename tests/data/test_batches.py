"""Every pair once per epoch, few shapes, and the same order wherever it is computed."""

import subprocess
import sys
import zlib

import numpy as np
import pytest

from keras_attention.data import BucketedBatches
from keras_attention.data.batches import check_tokens_at_once
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, TokenSequences
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID


def make_corpus(count=1_009, seed=3, longest=41):
    """A corpus whose target repeats, behind its number, the source's number: pairs can be recognised."""
    generator = np.random.default_rng(seed)

    def sequences(lengths):
        parts = [np.r_[[10 + n] * (length - 1), END_ID] for n, length in enumerate(lengths)]
        return TokenSequences(np.concatenate(parts).astype(np.int32), np.r_[0, np.cumsum(lengths)])

    lengths = generator.integers(2, longest, size=count)
    other_lengths = np.maximum(2, lengths + generator.integers(-3, 4, size=count))
    return ParallelCorpus(sequences(lengths), sequences(other_lengths))


CORPUS = make_corpus()


def make_batches(seed=5, shuffle=True, corpus=CORPUS, tokens=1_031, num_buckets=5):
    return BucketedBatches(corpus, tokens_per_batch=tokens, num_buckets=num_buckets, seed=seed, shuffle=shuffle)


def pairs_of(batch):
    """The numbers of the pairs in a batch, padding rows left out."""
    first = batch["source_ids"][:, 0]
    return (first[first != PAD_ID] - 10).tolist()


def fingerprint(epoch):
    return zlib.crc32(b"".join(array.tobytes() for batch in epoch for array in batch.values()))


@pytest.mark.parametrize("shuffle", [False, True])
def test_every_pair_is_there_once(shuffle):
    epoch = make_batches(shuffle=shuffle).epoch(0)
    seen = [pair for batch in epoch for pair in pairs_of(batch)]
    assert sorted(seen) == list(range(len(CORPUS)))


def test_rows_are_the_sequences_of_one_pair():
    for batch in make_batches().epoch(2):
        for source, target, label in zip(*(batch[k] for k in ("source_ids", "target_ids", "labels")), strict=True):
            if source[0] == PAD_ID:
                assert not np.concatenate([source, target, label]).any()
                continue
            pair = source[0] - 10
            expected = CORPUS.target[pair]
            np.testing.assert_array_equal(source[source != PAD_ID], CORPUS.source[pair])
            np.testing.assert_array_equal(label[: len(expected)], expected)
            np.testing.assert_array_equal(target[: len(expected)], [START_ID, *expected[:-1]])
            assert not label[len(expected) :].any()
            assert not target[len(expected) :].any()


def test_shapes_come_from_the_list_and_batches_are_int32():
    batches = make_batches()
    assert len(batches.shapes) == 5
    for rows, source_length, target_length in batches.shapes:
        longer = max(source_length, target_length)
        assert rows % 8 == 0
        assert rows == 8 or rows * longer <= 1_031 < (rows + 8) * longer
    seen = set()
    for batch in batches.epoch(0):
        rows, source_length = batch["source_ids"].shape
        seen.add((rows, source_length, batch["labels"].shape[1]))
        assert batch["target_ids"].shape == batch["labels"].shape
        assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}
    assert seen <= set(batches.shapes)


def test_order_is_a_function_of_seed_and_epoch():
    first = fingerprint(make_batches().epoch(3))
    assert fingerprint(make_batches().epoch(3)) == first
    assert fingerprint(make_batches().epoch(2)) != first
    assert fingerprint(make_batches(seed=7).epoch(3)) != first


def test_another_process_computes_the_same_batches():
    code = f"import sys; sys.path.insert(0, {str(__file__).rsplit('/', 1)[0]!r}); import test_batches as t; "
    code += "print(t.fingerprint(t.make_batches().epoch(3)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(answer.stdout) == fingerprint(make_batches().epoch(3))


def test_any_step_can_be_the_first():
    epoch = make_batches().epoch(3)
    in_order = list(epoch)
    assert len(in_order) == len(epoch)
    for number in (len(epoch) - 1, 2, 0):
        for name, array in make_batches().epoch(3)[number].items():
            np.testing.assert_array_equal(array, in_order[number][name])


def test_every_epoch_has_the_same_number_of_batches():
    batches = make_batches()
    assert len({len(batches.epoch(number)) for number in range(11)}) == 1


def test_pairs_and_shapes_are_mixed():
    batches = make_batches()
    epoch = batches.epoch(0)
    numbers = [pair for batch in epoch for pair in pairs_of(batch)]
    assert abs(np.corrcoef(numbers, np.arange(len(numbers)))[0, 1]) < 0.1
    widths = [batch["source_ids"].shape[1] for batch in epoch]
    assert widths != sorted(widths)


def test_without_shuffling_pairs_stay_in_order_within_a_shape():
    batches = make_batches(shuffle=False)
    assert fingerprint(batches.epoch(0)) == fingerprint(batches.epoch(7))
    widths = [batch["source_ids"].shape[1] for batch in batches.epoch(0)]
    assert widths == sorted(widths)
    assert pairs_of(batches.epoch(0)[0]) == sorted(pairs_of(batches.epoch(0)[0]))


def test_share_of_real_tokens_is_counted_right():
    batches = make_batches()
    real = sum(np.count_nonzero(batch[name]) for batch in batches.epoch(0) for name in ("source_ids", "labels"))
    total = sum(batch[name].size for batch in batches.epoch(0) for name in ("source_ids", "labels"))
    assert batches.real_token_share() == pytest.approx(real / total)


def test_most_tokens_are_real():
    batches = make_batches(corpus=make_corpus(20_011), num_buckets=8, tokens=4_096)
    assert batches.real_token_share() > 0.85


def test_pairs_wait_for_a_longer_bucket_only_where_padding_rows_cost_more():
    small = make_batches(corpus=make_corpus(3), tokens=2_003, num_buckets=3)
    assert len(small.epoch(0)) == 1
    assert sorted(pairs_of(small.epoch(0)[0])) == [0, 1, 2]


def test_one_pair_makes_one_batch():
    epoch = make_batches(corpus=make_corpus(1)).epoch(0)
    assert len(epoch) == 1
    assert pairs_of(epoch[0]) == [0]


def test_past_the_end_is_an_index_error():
    epoch = make_batches().epoch(0)
    with pytest.raises(IndexError):
        epoch[len(epoch)]


@pytest.mark.parametrize(("name", "value"), [("tokens_per_batch", 0), ("num_buckets", 0), ("seed", -1)])
def test_wrong_arguments_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value}"):
        BucketedBatches(CORPUS, **{"tokens_per_batch": 1_031, name: value})


def test_corpora_take_turns_in_the_same_shapes():
    corpora = [make_corpus(), make_corpus(seed=4, longest=53)]
    batches = make_batches(corpus=corpora)
    assert max(max(shape[1:]) for shape in batches.shapes) >= 52
    for number in range(4):
        seen = []
        for batch in batches.epoch(number):
            assert (batch["source_ids"].shape, batch["labels"].shape[1]) in [((b, s), t) for b, s, t in batches.shapes]
            for source in batch["source_ids"]:
                if source[0] != PAD_ID:
                    seen.append(source[0] - 10)
                    np.testing.assert_array_equal(source[source != PAD_ID], corpora[number % 2].source[seen[-1]])
        assert sorted(seen) == list(range(len(CORPUS)))


@pytest.mark.parametrize(("corpora", "sizes"), [([], r"\[\]"), ([CORPUS, make_corpus(count=7)], r"\[7, 1009\]")])
def test_corpora_of_different_pairs_are_refused(corpora, sizes):
    with pytest.raises(ValueError, match=f"Received: {sizes}"):
        make_batches(corpus=corpora)


def test_a_batch_that_fits_into_no_memory_is_refused():
    """The system killed the training."""
    check_tokens_at_once(512, 2048)
    check_tokens_at_once(100_000, 128, accumulate=16)
    with pytest.raises(UserError, match="100,000 rows of 128 tokens does not fit into memory. Lower --rows-per-batch"):
        check_tokens_at_once(100_000, 128)
