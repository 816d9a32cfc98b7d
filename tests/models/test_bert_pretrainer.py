"""BERT's two objectives: the equation of the second, the loss of both, and that they are learned together."""

import keras
import numpy as np
import pytest
from layer_checks import assert_all_close, random_array
from models.tiny_bert import TINY, V, make_masked_lm, make_texts, with_weights
from recipe_modules import load_recipe

from keras_attention.evaluation.masked_lm_scores import MaskedLMScores
from keras_attention.models import BertMaskedLM, BertPretrainer
from keras_attention.training.backends import compile_update
from keras_attention.training.devices import in_float32

loss = load_recipe("bert_pretrain").loss
POSITIONS = np.array([[1, 2], [1, 0], [0, 0]], "int32")


def make_pretrainer():
    return with_weights(BertPretrainer(make_masked_lm()))


def make_batch():
    """Three rows, of which the last is padding; the masked tokens are guessed from themselves."""
    texts = make_texts()
    labels = np.where(POSITIONS, np.take_along_axis(texts["token_ids"], POSITIONS, axis=1), 0)
    texts["token_ids"][2] = 0
    labels = np.c_[labels, [1, 0, -1]].astype("int32")
    return {**texts, "masked_positions": POSITIONS, "labels": labels}


def test_equation():
    model, texts = make_pretrainer(), make_texts()
    masked, following = model(texts)
    assert_all_close([masked], [model.masked_lm(texts)], 1e-6)
    x = np.asarray(model.masked_lm.encoder(texts))[:, 0]
    (pooler, pooler_bias), (kernel, bias) = model.pooler_dense.get_weights(), model.next_dense.get_weights()
    for row, expected in zip(x, np.asarray(following), strict=True):
        pooled = [np.tanh(sum(row[i] * pooler[i, j] for i in range(12)) + pooler_bias[j]) for j in range(12)]
        logits = [sum(pooled[i] * kernel[i, j] for i in range(12)) + bias[j] for j in range(2)]
        np.testing.assert_allclose(expected, logits, atol=1e-5)


def test_loss_of_both():
    labels = make_batch()["labels"]
    masked, following = random_array(3, 2, V, seed=1), random_array(3, 2, seed=2)
    summed, tokens, correct, _ = loss(lambda inputs, training: (masked, following), {}, labels)

    def log_probability(logits, label):
        return logits[label] - np.log(np.exp(logits).sum())

    places = [(row, i) for row in range(2) for i in range(2) if labels[row, i]]
    guessed = -sum(log_probability(masked[row, i], labels[row, i]) for row, i in places)
    pair_loss = -sum(log_probability(following[row], labels[row, -1]) for row in range(2))
    np.testing.assert_allclose(summed, guessed + 2 * pair_loss, rtol=1e-5)
    assert float(tokens) == len(places) == 3
    assert float(correct) == sum(masked[row, i].argmax() == labels[row, i] for row, i in places)


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 3])
def test_both_are_learned(accumulate):
    keras.utils.set_random_seed(3)
    model = BertPretrainer(BertMaskedLM(**TINY))
    model.build()
    options = {"accumulate": accumulate, "jit_compile": False}
    step = compile_update(model, keras.optimizers.Adam(0.01), loss, **options)
    for _ in range(40):
        step(make_batch())
    scores = MaskedLMScores(model, jit_compile=False)([make_batch()])
    assert scores["accuracy"] == scores["next_accuracy"] == 100
    assert scores["loss"] < 0.1


@pytest.mark.slow
def test_parts_of_a_batch_make_the_same_update():
    after = []
    for accumulate in (1, 3):
        model = make_pretrainer()
        options = {"accumulate": accumulate, "jit_compile": False}
        result = compile_update(model, keras.optimizers.SGD(0.1), loss, **options)(make_batch())
        after.append([*model.get_weights(), float(result.total)])
    assert_all_close(*after, 1e-5)


def test_scores_count_real_rows_alone():
    model, batch = make_pretrainer(), make_batch()
    _, following = model({name: values for name, values in batch.items() if name != "labels"})
    right = np.asarray(following).argmax(axis=1)[:2] == [1, 0]
    assert MaskedLMScores(model, jit_compile=False)([batch])["next_accuracy"] == 50 * right.sum()


def test_config_and_precision():
    model = make_pretrainer()
    again = BertPretrainer.from_config(model.get_config())
    again.build()
    again.set_weights(model.get_weights())
    assert_all_close(again(make_texts()), model(make_texts()), 1e-6)
    half = BertPretrainer(BertMaskedLM(**TINY, dtype="mixed_bfloat16"))
    half.build()
    assert half.compute_dtype == "bfloat16"
    whole = in_float32(half)
    assert whole.compute_dtype == whole.masked_lm.compute_dtype == whole.masked_lm.encoder.compute_dtype == "float32"
    assert_all_close(whole.get_weights(), half.get_weights(), 0)
    assert not [weight.path for weight in whole.masked_lm.weights if "pretrainer" in weight.path]


def test_a_model_of_one_segment_is_refused():
    with pytest.raises(ValueError, match="`masked_lm` must have two segments. Received: num_segments=0"):
        BertPretrainer(BertMaskedLM(**TINY, num_segments=0))
