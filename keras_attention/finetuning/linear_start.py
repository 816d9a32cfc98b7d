"""Logistic regression on the vectors of a frozen encoder: a good classifier in seconds, and the head for fine-tuning.

A head with random weights learns slowly, and its first gradients distort the pre-trained features of the encoder. A
linear model that is fitted to these features first avoids both.

Source: Kumar et al. (2022), "Fine-Tuning can Distort Pretrained Features", https://arxiv.org/abs/2202.10054 (LP-FT).
Difference: L-BFGS fits the linear model, and the validation rows determine its regularization.
"""

import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attention.evaluation.classification_scores import cross_entropy
from keras_attention.pipelines.compiled import CompiledBert, traced

# Inverse regularization strengths (C in scikit-learn), for vectors with mean 0 and standard deviation 1.
STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
RIDGE_PENALTIES = (10_000.0, 3_000.0, 1_000.0, 300.0, 100.0, 30.0, 10.0, 3.0)  # for numbers of mean 0 and deviation 1
ITERATIONS = 300


class LinearModel(NamedTuple):
    """logits = vectors @ kernel + bias.

    Attributes:
        kernel: float32 array (D, K).
        bias: float32 array (K,).
        strength: float, the chosen one of `STRENGTHS` or `RIDGE_PENALTIES`.
        loss: float, mean cross-entropy (or squared error) on the rows that chose it.
    """

    kernel: np.ndarray
    bias: np.ndarray
    strength: float
    loss: float

    def logits(self, vectors):
        """Float array (N, K)."""
        return vectors @ self.kernel + self.bias


def fit_linear(vectors, targets, kind, num_labels, held_vectors, held_targets, class_weights=None):
    """Fits logistic or ridge regression with weaker and weaker regularization until the held-out loss increases.

    Args:
        vectors, held_vectors: arrays (N, D) and (M, D).
        targets, held_targets: arrays, see `label_task.encode_labels`.
        kind: str, one of `label_task.KINDS`.
        num_labels: int > 0, K.
        class_weights: list of K floats, see `fitting.class_weights`, or None for 1 each.

    Returns:
        LinearModel for vectors that are not standardized; it includes the standardization.
    """
    center, spread = vectors.mean(axis=0, dtype="float64"), vectors.std(axis=0, dtype="float64")
    spread = np.maximum(spread, 1e-3 * spread.max() + 1e-12)  # limits the scaling of nearly constant components
    scaled = (vectors - center) / spread
    best, rising = None, 0
    for strength in RIDGE_PENALTIES if kind == "regression" else STRENGTHS:
        kernel, bias = _solve(scaled, targets, kind, num_labels, strength, class_weights)
        kernel = kernel / spread[:, None]
        model = LinearModel(kernel.astype("float32"), (bias - center @ kernel).astype("float32"), strength, 0.0)
        loss = cross_entropy(model.logits(held_vectors), held_targets, kind)
        rising = 0 if best is None or loss < best.loss else rising + 1
        if rising == 0:
            best = model._replace(loss=loss)
        elif rising == 2:
            break
    return best


def _solve(vectors, targets, kind, num_labels, strength, weights):
    """Kernel (D, K) and bias (K,), in float64."""
    from sklearn.linear_model import Ridge

    if kind == "regression":
        ridge = Ridge(alpha=strength).fit(vectors, targets)
        return ridge.coef_.reshape(-1, 1), np.reshape(ridge.intercept_, 1)
    if kind == "multilabel":
        weights = weights or [1.0] * num_labels
        columns = [
            _logistic(vectors, targets[:, label] > 0.5, strength, {True: weights[label], False: 1.0})
            for label in range(num_labels)
        ]
        return np.stack([kernel for kernel, _ in columns], axis=1), np.array([bias for _, bias in columns])
    known = np.unique(targets)
    weights = weights and {label: weights[label] for label in known}
    kernel = np.zeros((vectors.shape[1], num_labels))
    bias = np.full(num_labels, -np.log(2.0 * len(targets)))  # for labels that do not occur
    if len(known) == 2:
        weights = weights and {True: weights[known[1]], False: weights[known[0]]}
        one, offset = _logistic(vectors, targets == known[1], strength, weights)
        kernel[:, known], bias[known] = np.stack([-one / 2, one / 2], axis=1), (-offset / 2, offset / 2)
    else:
        found = _fitted(vectors, targets, strength, weights)
        kernel[:, known], bias[known] = found.coef_.T, found.intercept_
    return kernel, bias


def _logistic(vectors, yes, strength, weights):
    """Kernel (D,) and bias for one label; if all rows agree, only the bias is not 0."""
    if yes.all() or not yes.any():
        return np.zeros(vectors.shape[1]), (1 if yes.all() else -1) * np.log(2.0 * len(yes))
    found = _fitted(vectors, yes, strength, weights)
    return found.coef_[0], found.intercept_[0]


def _fitted(vectors, targets, strength, weights):
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # models that do not converge lose on the held-out rows
        return LogisticRegression(C=strength, max_iter=ITERATIONS, class_weight=weights).fit(vectors, targets)


class PooledVectors:
    """Computes the input vectors of the head of a BertClassifier.

    Args:
        model: BertClassifier, built.
        max_tokens: int, limit of a sequence.
    """

    def __init__(self, model, max_tokens):
        segments = model.encoder.num_segments
        self._compiled = CompiledBert(lambda inputs: model.pooled(inputs, training=False), max_tokens, segments)
        self._compiled.trace = TracedOnce()

    def __call__(self, sequences):
        """Float32 array (N, D) for N lists of sequences; the mean for a text with several sequences."""
        found = [vector for (vector,) in self._compiled.run([sequence for some in sequences for sequence in some])]
        ends = np.cumsum([len(some) for some in sequences])
        return np.stack([np.mean(part, axis=0) for part in np.split(found, ends[:-1])])


class TracedOnce:
    """A `CompiledBert.trace` that makes one graph for sequences of all lengths.

    To trace a graph takes as long as to run it on some hundred sequences. Those of a single length are a little faster.
    """

    def __init__(self):
        self._program = None

    def __call__(self, function, specs):
        if self._program is None:
            self._program = traced(function, {name: tf.TensorSpec((None, None), tf.int32) for name in specs})
        return self._program
