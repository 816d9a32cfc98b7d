"""`BertClassifier` with pooling "pair": against the equations, with an encoder that reads each text alone."""

import numpy as np
import pytest
from layer_checks import assert_all_close
from models.tiny_bert import LABELS, make_classifier, outputs_of

CLS, SEP = 2, 3
PAIRS = [([7, 9, 30], [11, 4]), ([5], [21, 8, 8, 17, 6]), ([12, 13, 14, 15], [16])]


def inputs_of(pairs, longest=11):
    """[CLS] a [SEP] b [SEP] and padding, with segment 1 for b [SEP]."""
    token_ids, segment_ids = np.zeros((2, len(pairs), longest), "int32")
    for row, (first, second) in enumerate(pairs):
        ids = [CLS, *first, SEP, *second, SEP]
        token_ids[row, : len(ids)] = ids
        segment_ids[row, len(first) + 2 : len(ids)] = 1
    return {"token_ids": token_ids, "segment_ids": segment_ids}


def alone(model, ids):
    """The mean vector of one text that the encoder reads alone."""
    (vectors,) = outputs_of(model.encoder, {"token_ids": np.array([ids])}, scores=False)
    return vectors[0].mean(axis=0)


@pytest.mark.parametrize("execution", ["eager", "xla"])
def test_equals_the_equations(execution):
    model = make_classifier(pooling="pair", pooler=False)
    kernel, bias = (np.asarray(weight) for weight in model.output_dense.get_weights())
    logits, weights = outputs_of(model, inputs_of(PAIRS), execution)
    assert kernel.shape == (4 * 12, LABELS)
    for row, (first, second) in enumerate(PAIRS):
        u, v = (alone(model, [CLS, *text, SEP]) for text in (first, second))
        features = np.concatenate([u, v, np.abs(u - v), u * v])
        assert_all_close(logits[row], features @ kernel + bias, 1e-5)
        end = len(first) + 2
        assert not weights[row, :, :, :end, end:].any()
        assert not weights[row, :, :, end : end + len(second) + 2, :end].any()
        np.testing.assert_allclose(weights[row, :, :, end : end + len(second) + 2].sum(axis=-1), 1, atol=1e-5)


def test_the_pooler_reads_all_four_vectors():
    model = make_classifier(pooling="pair")
    assert model.pooler_dense.kernel.shape == (48, 12)
    (logits,) = outputs_of(model, inputs_of(PAIRS), scores=False)
    assert logits.shape == (3, LABELS)
    assert np.isfinite(logits).all()


def test_other_rows_and_padding_change_nothing():
    model = make_classifier(pooling="pair", pooler=False)
    (together,) = outputs_of(model, inputs_of(PAIRS), scores=False)
    for row, pair in enumerate(PAIRS):
        (single,) = outputs_of(model, inputs_of([pair], longest=8 if row < 1 else 9), scores=False)
        assert_all_close(single[0], together[row], 1e-5)


def test_texts_may_have_all_positions():
    model = make_classifier(pooling="pair", pooler=False)
    longest = model.encoder.max_length
    rows = [([7] * (longest - 4), [9]), ([7], [9] * (longest - 4))]
    (logits,) = outputs_of(model, inputs_of(rows, longest), scores=False)
    for row, (first, second) in enumerate(rows):
        u, v = (alone(model, [CLS, *text, SEP]) for text in (first, second))
        features = np.concatenate([u, v, np.abs(u - v), u * v])
        kernel, bias = (np.asarray(weight) for weight in model.output_dense.get_weights())
        assert_all_close(logits[row], features @ kernel + bias, 1e-5)


def test_half_precision_and_a_missing_second_text_give_numbers():
    model = make_classifier(pooling="pair", pooler=False, dtype="mixed_bfloat16")
    (logits,) = outputs_of(model, {"token_ids": inputs_of(PAIRS)["token_ids"]}, scores=False)
    assert logits.dtype == np.float32
    assert np.isfinite(logits).all()


def test_pooling_of_pairs_needs_segments_and_other_inputs_are_refused():
    with pytest.raises(ValueError, match='`pooling="pair"` needs `num_segments` of at least 2. Received: 1'):
        make_classifier(pooling="pair", num_segments=1)
    model = make_classifier(pooling="pair")
    with pytest.raises(ValueError, match="the inputs are token_ids, segment_ids. Received: position_ids"):
        model({**inputs_of(PAIRS), "position_ids": np.zeros((3, 11), "int32")})
