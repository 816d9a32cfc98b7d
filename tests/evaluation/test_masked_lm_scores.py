"""Loss and accuracy of a masked language model over a few batches, against counting by hand."""

import numpy as np
import pytest
from keras import ops
from zoo.tiny_bert import tiny_mask_filler

from keras_attention.evaluation.masked_lm_scores import MaskedLMScores

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("jit_compile", [True, False])
def test_equals_the_mean_over_all_hidden_tokens(jit_compile):
    model = tiny_mask_filler().model
    random = np.random.default_rng(3)
    batches = []
    for rows in (3, 5):
        batch = {"token_ids": random.integers(1, 31, (rows, 11)), "masked_positions": random.integers(0, 11, (rows, 2))}
        batch |= {"labels": random.integers(0, 3, (rows, 2))}  # 0 is none
        batches.append({name: values.astype("int32") for name, values in batch.items()})
    loss = correct = count = 0
    for batch in batches:
        inputs = {name: values for name, values in batch.items() if name != "labels"}
        logits = ops.convert_to_numpy(model(inputs)).astype("float64")
        for label, row in zip(batch["labels"].flat, logits.reshape(-1, logits.shape[-1]), strict=True):
            if label:
                loss += np.log(np.exp(row - row.max()).sum()) + row.max() - row[label]
                correct += row.argmax() == label
                count += 1
    scores = MaskedLMScores(model, jit_compile)(batches)
    assert scores == pytest.approx({"loss": loss / count, "accuracy": 100 * correct / count}, rel=1e-4)
