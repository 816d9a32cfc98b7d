"""Texts in, labels out."""

from typing import NamedTuple

import numpy as np

from keras_attention.errors import UserError
from keras_attention.pipelines.attention_view import bert_view
from keras_attention.pipelines.compiled_bert import CompiledBert
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.pipelines.text_rows import START, WHOLE, text_rows, whole_text_rows


class Classification(NamedTuple):
    """One answer.

    Attributes:
        label: str; None (unsure) if the best label is less probable than the threshold. Of a multilabel task the list
            of str of the labels that reach it, the most probable first; of a regression the float.
        probabilities: dict from label to float in [0, 1], the most probable first. They sum to 1, except those of a
            multilabel task, where each label is a question of its own. Empty for a regression.
        truncated: bool, whether the text was longer than the model reads, and was cut.
    """

    label: object
    probabilities: dict
    truncated: bool


class Classifier:
    """Says which label a text has, with a fine-tuned BERT.

    Args:
        model: BertClassifier, built.
        tokenizer: WordPieceTokenizer.
        max_tokens: int, of a row with [CLS] and [SEP]. What is longer is cut, with a warning, or read in several rows.
        task: dict, see `schema.TASK`.
        blend: Blend, the bag of words that judges together with the network, or None.
    """

    def __init__(self, model, tokenizer, max_tokens, task, blend=None):
        self.model = model
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.task = task
        self.blend = blend
        self.long_texts = task.get("long_texts", START)
        self.compiled = CompiledBert(
            lambda inputs: model(inputs, training=False), max_tokens, model.encoder.num_segments
        )
        self.encode = TextEncoder(model, tokenizer, max_tokens, self.long_texts).encode

    def classify(self, texts, texts_b=None, *, threshold=None, return_scores=False, progress=None):
        """Classifies one text or many.

        Args:
            texts: str or list of str.
            texts_b: second texts, likewise, for a model of pairs; else None.
            threshold: float in [0, 1] or None. The probability that a label needs; default: what the model's task says.
            return_scores: bool.
            progress: callable (texts done, texts in all) or None.

        Returns:
            For each text its label, see `Classification`, or with `return_scores` the Classification; in a list, or
            alone if `texts` is a str.

        Raises:
            UserError: if a text is no text, a second text is missing or in vain, or `threshold` is out of range.
        """
        if threshold is not None and not (type(threshold) in (int, float) and 0 <= threshold <= 1):
            raise UserError(f"`threshold` must be a number from 0 to 1. Received: threshold={threshold!r}")
        if self.task["pair"] != (texts_b is not None):
            needed = "pairs: give the second texts too" if self.task["pair"] else "single texts: leave out the second"
            raise UserError(f"This model classifies {needed}.")
        alone = isinstance(texts, str)
        texts, texts_b = ([side] if isinstance(side, str) else side for side in (texts, texts_b))
        rows = self.rows(texts, texts_b, warn=True)
        answers = [
            self.answer(logits, threshold)._replace(truncated=some[0].truncated)
            for some, logits in zip(rows, self.blended(self.logits(rows, progress), texts, texts_b), strict=True)
        ]
        answers = answers if return_scores else [answer.label for answer in answers]
        return answers[0] if alone else answers

    def rows(self, texts, texts_b=None, *, warn=False):
        """What the model reads of each text or pair: list of lists of Row; several only of long texts read whole."""
        if self.long_texts == WHOLE and texts_b is None:
            return whole_text_rows(self.tokenizer, texts, max_tokens=self.max_tokens)
        return [[row] for row in self.single_rows(texts, texts_b, warn=warn)]

    def single_rows(self, texts, texts_b=None, *, warn=False):
        """One row for each text or pair, as the model learns from them: list of Row, see `text_rows`."""
        limits = {"max_tokens": self.max_tokens, "long_texts": self.long_texts}
        return text_rows(self.tokenizer, texts, texts_b, **limits, warn=warn)

    def logits(self, rows, progress=None):
        """The logits of each text, the mean of those of its rows.

        Args:
            rows: list of N lists of Row, see `rows`.
            progress: callable (texts done, texts in all) or None.

        Returns:
            Float array (N, K).
        """
        flat = [row for some in rows for row in some]
        told = progress and (lambda done, total: progress(done * len(rows) // total, len(rows)))
        found = [logits for (logits,) in self.compiled.run(flat, told)]
        means, first = [], 0
        for some in rows:
            means.append(np.mean(found[first : first + len(some)], axis=0))
            first += len(some)
        return np.stack(means) if means else np.zeros((0, max(1, len(self.task["label_names"]))), "float32")

    def blended(self, logits, texts, texts_b=None):
        """Logits (N, K) of the network, together with those of the bag of words where there is one."""
        return logits if self.blend is None else self.blend.logits(logits, texts, texts_b)

    def attention_view(self, text, text_b=None):
        """What each token looked at in every layer and head, as a page: see `attention_view.bert_view`."""
        return bert_view(self, text, text_b)

    def answer(self, logits, threshold=None):
        """The Classification that logits (K,) mean."""
        kind = self.task["kind"]
        if kind == "regression":
            return Classification(float(logits[0]), {}, False)
        logits = np.asarray(logits, "float64")
        if kind == "multilabel":
            values = np.exp(-np.logaddexp(0.0, -logits))  # the sigmoid
        else:
            values = np.exp(logits - np.logaddexp.reduce(logits))
        order = np.argsort(-values, kind="stable")
        probabilities = {self.task["label_names"][i]: float(values[i]) for i in order}
        if kind == "multilabel":
            given = values >= np.asarray(self.task["threshold"] if threshold is None else threshold)
            label = [self.task["label_names"][i] for i in order if given[i]]
        else:
            best, value = next(iter(probabilities.items()))
            needed = self.task.get("min_probability") if threshold is None else threshold
            label = best if needed is None or value >= needed else None
        return Classification(label, probabilities, False)
