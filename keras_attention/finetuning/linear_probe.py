"""The head of a classifier, fitted to the vectors of its encoder.

A head with random weights learns slowly, and its first gradients distort the pre-trained features of the encoder.
Logistic regression on the vectors of the frozen encoder avoids both, and takes seconds.

Source: Kumar et al. (2022), "Fine-Tuning can Distort Pretrained Features", https://arxiv.org/abs/2202.10054 (LP-FT).
Difference: L-BFGS fits the linear model, and the validation rows determine its regularization.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attention.evaluation.classification_scores import cross_entropy
from keras_attention.inputs.token_sequences import TOKEN_PADDING
from keras_attention.runtime.compiled_forward import CompiledForward, traced
from keras_attention.support.cores import one_thread

# Inverse regularization strengths (C in scikit-learn), for vectors with mean 0 and standard deviation 1.
STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# The loss of few held-out rows says little: a normal prior on log(strength) keeps the strength near this one, which is
# among the best on several data sets with 8 to 64 rows of each class.
USUAL_STRENGTH, STRENGTH_DEVIATION = 0.005, 1.0
RIDGE_PENALTIES = (10_000.0, 3_000.0, 1_000.0, 300.0, 100.0, 30.0, 10.0, 3.0)  # for numbers of mean 0 and deviation 1
ITERATIONS = 300
TOLERANCE = 3e-5  # of the largest component of the gradient


class LinearModel(NamedTuple):
    """logits = vectors @ kernel + bias.

    Attributes:
        kernel: float32 array (D, K).
        bias: float32 array (K,).
        strength: float, the chosen value of `STRENGTHS` or `RIDGE_PENALTIES`.
        loss: float, mean cross-entropy (or squared error) on the held-out rows.
    """

    kernel: np.ndarray
    bias: np.ndarray
    strength: float
    loss: float

    def logits(self, vectors):
        """Float array (N, K)."""
        return vectors @ self.kernel + self.bias


QUICK_STRENGTHS = (0.01, 0.03, 0.1, 0.3)
QUICK_TOLERANCE = 1e-3  # for `finetune --quick`: a tenth of the time, at 0.1 points less with 64 classes


def fit_linear(vectors, targets, kind, num_labels, held_vectors, held_targets, class_weights=None, quick=False):
    """Fits logistic or ridge regression with decreasing regularization until the fit to the held-out rows gets worse.

    Args:
        vectors, held_vectors: arrays (N, D) and (M, D).
        targets, held_targets: arrays, see `label_task.encode_labels`.
        kind: str, one of `label_task.KINDS`.
        num_labels: int > 0, K.
        class_weights: list of K floats, see `label_training.class_weights`, or None for 1 each.
        quick: bool. Whether to try fewer strengths, and to end each fit earlier.

    Returns:
        LinearModel for vectors that are not standardized; it includes the standardization.
    """
    center, spread = vectors.mean(axis=0, dtype="float64"), vectors.std(axis=0, dtype="float64")
    spread = np.maximum(spread, 1e-3 * spread.max() + 1e-12)  # limits the scaling of nearly constant components
    scaled = ((vectors - center) / spread).astype("float32")
    if kind == "regression":
        strengths, solve = RIDGE_PENALTIES, partial(_ridge, scaled, targets)
    else:
        strengths, tolerance = (QUICK_STRENGTHS, QUICK_TOLERANCE) if quick else (STRENGTHS, TOLERANCE)
        solve = LogisticPath(scaled, targets, kind, num_labels, class_weights, tolerance).fit
    best, least, rising = None, np.inf, 0
    for strength in strengths:
        with one_thread():
            kernel, bias = solve(strength)
        kernel = kernel / spread[:, None]
        model = LinearModel(kernel.astype("float32"), (bias - center @ kernel).astype("float32"), strength, 0.0)
        loss = cross_entropy(model.logits(held_vectors), held_targets, kind)
        cost = np.size(held_targets) * loss + (_surprise(strength) if kind != "regression" else 0.0)
        rising = 0 if best is None or cost < least else rising + 1
        if rising == 0:
            best, least = model._replace(loss=loss), cost
        elif rising == 2:
            break
    return best


def _surprise(strength):
    """Negative log density of the prior of a strength, up to a constant."""
    return (np.log(strength / USUAL_STRENGTH) / STRENGTH_DEVIATION) ** 2 / 2


def _ridge(vectors, targets, penalty):
    """Kernel (D, 1) and bias (1,)."""
    from sklearn.linear_model import Ridge

    ridge = Ridge(alpha=penalty).fit(vectors, targets)
    return ridge.coef_.reshape(-1, 1), np.reshape(ridge.intercept_, 1)


class LogisticPath:
    """Logistic regression for a series of strengths: each fit starts from the weights of the one before.

    It solves the same problem as `sklearn.linear_model.LogisticRegression`, but in float32, and for all labels of a
    multilabel task at once.

    Args:
        vectors: float32 array (N, D), standardized.
        targets, kind, num_labels, class_weights: as in `fit_linear`.
        tolerance: float > 0, the largest component of the gradient at which a fit ends.
    """

    def __init__(self, vectors, targets, kind, num_labels, class_weights, tolerance=TOLERANCE):
        self.tolerance, several = tolerance, kind == "multilabel"
        yes = targets > 0.5 if several else targets[:, None] == np.arange(num_labels)  # (N, K)
        differ = yes.any(axis=0) & ~yes.all(axis=0)
        self.fitted = np.flatnonzero(differ)  # the labels that some, but not all rows have
        self.bias = np.where(differ, 0.0, np.where(yes.all(axis=0), 1, -1) * np.log(2.0 * len(yes)))  # others: fixed
        self.two_sides = not several and len(self.fitted) == 2  # two labels need one column of logits
        self.softmax = not several and not self.two_sides
        columns = self.fitted[1:] if self.two_sides else self.fitted
        weights = np.ones(num_labels) if class_weights is None else np.array(class_weights)
        rows = np.where(yes, weights, 1.0)[:, columns] if several else weights[targets][:, None]  # (N, C) or (N, 1)
        self.rows, self.vectors, self.yes = rows.astype("float32"), vectors, yes[:, columns].astype("float32")
        self.weights = np.zeros((vectors.shape[1] + 1, len(columns)))  # kernel and bias, of the last fit

    def fit(self, strength):
        """Kernel (D, K) and bias (K,) in float64. `strength` is C in scikit-learn."""
        from scipy.optimize import minimize

        if len(self.fitted):
            limits = {"maxiter": ITERATIONS, "gtol": self.tolerance, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
            optimum = minimize(self._loss, self.weights.ravel(), (strength,), "L-BFGS-B", jac=True, options=limits)
            self.weights = optimum.x.reshape(self.weights.shape)
        columns = np.concatenate([-self.weights, self.weights], axis=1) / 2 if self.two_sides else self.weights
        kernel, bias = np.zeros((len(columns) - 1, len(self.bias))), self.bias.copy()
        kernel[:, self.fitted], bias[self.fitted] = columns[:-1], columns[-1]
        return kernel, bias

    def _loss(self, weights, strength):
        """The regularized mean loss of weights (D + 1) C, and its gradient."""
        kernel, bias = np.split(weights.reshape(self.weights.shape), [-1])
        logits = self.vectors @ kernel.astype("float32") + bias.astype("float32")  # (N, C)
        if self.softmax:
            logits -= logits.max(axis=1, keepdims=True)
            weighted = np.exp(logits)
            total = weighted.sum(axis=1, keepdims=True)  # (N, 1)
            probabilities, losses = weighted / total, np.log(total) - (logits * self.yes).sum(axis=1, keepdims=True)
        else:
            losses = np.logaddexp(0, logits)  # (N, C)
            probabilities = np.exp(logits - losses)
            losses -= logits * self.yes
        mean = 1 / self.rows.sum(axis=0, dtype="float64").mean()
        decay = mean / strength
        errors = self.rows * (probabilities - self.yes)
        gradient = [self.vectors.T @ errors * mean + decay * kernel, errors.sum(axis=0, keepdims=True) * mean]
        loss = (self.rows * losses).sum(dtype="float64") * mean + decay * np.square(kernel).sum() / 2
        return loss, np.concatenate(gradient).ravel().astype("float64")


class PooledVectors:
    """Computes the vectors that the head of a network reads.

    Args:
        classifier: pipeline with the network.
    """

    def __init__(self, classifier):
        self._inputs, forward = classifier.inputs, classifier.compiled
        self._compiled = CompiledForward(
            partial(classifier.model.pooled, training=False),
            forward.padding,
            forward.longest,
            steps_per_batch=forward.steps_per_batch,
        )
        self._compiled.trace = TracedOnce(forward.padding)

    def __call__(self, sequences):
        """Float32 array (N, D) for N lists of sequences; the mean for a text with several sequences."""
        rows = [sequence for some in sequences for sequence in some]
        vectors = [vector for (vector,) in self._compiled.run(self._inputs(rows))]
        ends = np.cumsum([len(some) for some in sequences])
        return np.stack([np.mean(part, axis=0) for part in np.split(vectors, ends[:-1])])


class TracedOnce:
    """A `CompiledForward.trace` that makes one graph for sequences of all lengths; `padding` as there.

    Tracing a graph takes as long as running it on some hundred sequences. A graph for a single length is only a little
    faster. It is not stored on disk: a fine-tuning traces it once, and runs no compiled programs on a CPU (see
    `starting_model.accelerated`).
    """

    def __init__(self, padding=TOKEN_PADDING):
        self._program, self._padding = None, padding

    def __call__(self, function, specs):
        if self._program is None:
            any_length = {
                name: tf.TensorSpec((None, None, *spec.shape[2:]), spec.dtype) if name in self._padding else spec
                for name, spec in specs.items()
            }
            self._program = traced(function, any_length)
        return self._program
