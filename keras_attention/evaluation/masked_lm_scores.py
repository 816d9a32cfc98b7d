"""Loss and accuracy of masked language models, with next-sentence accuracy where it applies."""

import tensorflow as tf

from keras_attention.training.devices import add_up, workers
from keras_attention.training.losses import class_cross_entropy, token_cross_entropy

SCORE_NAMES = {"loss": "masked loss", "accuracy": "masked accuracy", "next_accuracy": "next-sentence accuracy"}


def scores_text(scores):
    """The scores as one line of text."""
    return "validation: " + ", ".join(f"{SCORE_NAMES[name]} {value:.3f}" for name, value in scores.items())


class MaskedLMScores:
    """Loss and accuracy over batches whose labels are the masked tokens; compiled once per shape.

    Several workers share the batches and sum their results; all of them must call the object.

    Args:
        model: built `keras.Model`, called as `model(inputs, training=False)` -> logits (B, P, V); or a BertPretrainer.
        jit_compile: bool, compile with XLA.
    """

    def __init__(self, model, jit_compile=True):
        @tf.function(jit_compile=jit_compile, autograph=False)
        def sums(batch):
            labels = batch["labels"]
            logits = model({name: value for name, value in batch.items() if name != "labels"}, training=False)
            rows = right = 0.0
            if isinstance(logits, tuple):
                logits, next_logits = logits
                labels, is_next = labels[:, :-1], labels[:, -1]
                _, rows, right, _ = class_cross_entropy(is_next, next_logits)
            loss, tokens, correct, _ = token_cross_entropy(labels, logits)
            return loss, tokens, correct, rows, right

        self._sums = sums

    def __call__(self, batches):
        """Scores all batches.

        Args:
            batches: object with `len()` and `[i]` -> dict of int32 arrays, with "labels" (B, P), 0 for no label; for
                a BertPretrainer (B, P + 1), see `MaskedLMEpoch`.

        Returns:
            dict with "loss" in nats per token and "accuracy" in per cent, and for a BertPretrainer "next_accuracy", the
            accuracy of the next-sentence prediction in per cent.
        """
        totals = [0.0] * 5
        index, count = workers()
        for i in range(index, len(batches), count):
            sums: tuple = self._sums({name: tf.constant(value) for name, value in batches[i].items()})
            totals = [total + float(value) for total, value in zip(totals, sums, strict=True)]
        loss, tokens, correct, rows, right = add_up(totals)
        scores = {"loss": loss / max(tokens, 1.0), "accuracy": 100 * correct / max(tokens, 1.0)}
        return scores | ({"next_accuracy": 100 * right / rows} if rows else {})
