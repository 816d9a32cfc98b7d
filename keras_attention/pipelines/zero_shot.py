"""Labels without training: the label whose vector is nearest to that of the text."""

import numpy as np

from keras_attention.errors import UserError
from keras_attention.pipelines.classifier import Classification
from keras_attention.pipelines.explanation import explain
from keras_attention.pipelines.text_encoder import unit
from keras_attention.pipelines.texts import as_pair

SCALE = 20.0  # of cosines, as in the training of sentence encoders: Reimers & Gurevych's multiple negatives ranking


class ZeroShotClassifier:
    """Gives each text the label whose own vector has the largest cosine to the text's.

        p(label) = softmax(20 cos(encode(text), encode(label)))

    The probabilities are those of the encoder's training objective ("which of these texts belongs to this one?") and
    are not calibrated. An encoder that was not trained for similarity, such as a masked language model, guesses.

    Args:
        encoder: TextEncoder.
        labels: list of at least two different str. What describes a label well ("politics and elections") works best.

    Attributes:
        task: dict, see `schema.TASK`.

    Raises:
        UserError: if there are not two different labels.
    """

    def __init__(self, encoder, labels):
        labels = [label.strip() for label in labels]
        if len(labels) < 2 or len(set(labels)) < len(labels) or not all(labels):
            raise UserError(f"Expected at least two different labels, separated by commas. Received: {labels!r:.200}")
        self.encoder = encoder
        self.task = {"kind": "multiclass", "label_names": labels, "pair": False, "separator": None}
        self._vectors = encoder.directions([label.replace("_", " ") for label in labels])  # (K, D)

    def sides(self, line):
        """See `Pipeline.sides`."""
        return (line,)

    def classify(self, texts, texts_b=None, *, threshold=None, return_scores=False, progress=None):
        """See `Classifier.classify`."""
        if texts_b is not None:
            raise UserError("Labels by similarity are for single texts: leave out the second texts.")
        if threshold is not None and not 0 <= threshold <= 1:
            raise UserError(f"`threshold` must be a number from 0 to 1. Received: threshold={threshold!r}")
        texts, _, alone = as_pair(texts, None)
        found = self.encoder.encode(texts, progress=progress)
        logits = SCALE * unit(found.pooled) @ self._vectors.T  # (B, K)
        answers = [
            self._answer(row, threshold, cut)
            for row, cut in zip(logits.astype("float64"), found.truncated, strict=True)
        ]
        answers = answers if return_scores else [answer.label for answer in answers]
        return answers[0] if alone else answers

    def explain(self, text, text_b=None, *, label=None):
        """See `explanation.explain`."""
        return explain(self, text, text_b, label)

    def _answer(self, logits, threshold, truncated):
        values = np.exp(logits - np.logaddexp.reduce(logits))
        order = np.argsort(-values, kind="stable")
        probabilities = {self.task["label_names"][i]: float(values[i]) for i in order}
        best = self.task["label_names"][order[0]]
        return Classification(best if values[order[0]] >= (threshold or 0.0) else None, probabilities, truncated)
