"""Without XLA, one program serves batches of all lengths, with the numbers of programs for each."""

import keras
import numpy as np
import pytest
from zoo.tiny_bert import tiny_classifier

from keras_attention.finetuning.label_training import classification_loss
from keras_attention.training.backends import compile_update


def loss(model, inputs, labels):
    return classification_loss(model, inputs, labels, "binary")


@pytest.mark.slow
def test_one_program_for_all_lengths():
    results = {}
    for any_length in (True, False):
        model, random = tiny_classifier(dropout=0.0, pooling="mean", num_layers=1).model, np.random.default_rng(5)
        update = compile_update(model, keras.optimizers.SGD(0.1), loss, jit_compile=False)
        update.any_length = any_length
        norms = []
        for length in (5, 11, 7):
            ids = random.integers(5, 23, (3, length)).astype("int32")
            batch = {"token_ids": ids, "segment_ids": ids * 0, "labels": np.array([0, 1, 1], "int32")}
            norms.append(float(update(batch).gradient_norm))
        results[any_length] = norms, len(update._compiled)
    assert (results[True][1], results[False][1]) == (1, 3)
    np.testing.assert_allclose(results[True][0], results[False][0], rtol=1e-4)
