"""The head of a classifier, fitted to the vectors of its encoder, which pairs of texts may train first.

Linear start: a head with random weights learns slowly, and its first gradients distort the pre-trained features of the
encoder. Logistic regression on the vectors of the frozen encoder avoids both, and takes seconds.

Source: Kumar et al. (2022), "Fine-Tuning can Distort Pretrained Features", https://arxiv.org/abs/2202.10054 (LP-FT).
Difference: L-BFGS fits the linear model, and the validation rows determine its regularization.

Contrastive fine-tuning, for few rows: texts with the same label get similar vectors, other texts different ones, then
the head is fitted again. A few rows make many pairs: 16 rows have 120.

Source: Tunstall et al. (2022), "Efficient Few-Shot Learning Without Prompts" (SetFit), section 3,
https://arxiv.org/abs/2209.11055. Differences: the learning rate depends on the width of the model and decays to 0,
lower layers have lower rates, the number of pairs is limited, and the initial weights are kept if the validation score
gets worse.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from keras_attention.errors import UserError
from keras_attention.evaluation.classification_scores import cross_entropy
from keras_attention.finetuning.fitting import filled_in, freeze, make_optimizer
from keras_attention.finetuning.settings import parts_for
from keras_attention.pipelines.compiled import CompiledBert, traced
from keras_attention.tokenizers.special_tokens import PAD_ID
from keras_attention.training.objective import Loss
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session

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


def fit_linear(vectors, targets, kind, num_labels, held_vectors, held_targets, class_weights=None):
    """Fits logistic or ridge regression with decreasing regularization until the fit to the held-out rows gets worse.

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
    scaled = ((vectors - center) / spread).astype("float32")
    if kind == "regression":
        strengths, solve = RIDGE_PENALTIES, partial(_ridge, scaled, targets)
    else:
        strengths, solve = STRENGTHS, LogisticPath(scaled, targets, kind, num_labels, class_weights).fit
    best, least, rising = None, np.inf, 0
    for strength in strengths:
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
    """

    def __init__(self, vectors, targets, kind, num_labels, class_weights):
        several = kind == "multilabel"
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
            limits = {"maxiter": ITERATIONS, "gtol": TOLERANCE, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
            found = minimize(self._loss, self.weights.ravel(), (strength,), "L-BFGS-B", jac=True, options=limits)
            self.weights = found.x.reshape(self.weights.shape)
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

    Tracing a graph takes as long as running it on some hundred sequences. A graph for a single length is only a little
    faster. It is not stored on disk: a fine-tuning traces it once, and runs no compiled programs on a CPU (see
    `start.accelerated`).
    """

    def __init__(self):
        self._program = None

    def __call__(self, function, specs):
        if self._program is None:
            self._program = traced(function, {name: tf.TensorSpec((None, None), tf.int32) for name in specs})
        return self._program


PAIRS_PER_ROW = 20  # with the same label, and as many with another, as in the paper
MOST_PAIRS = 8_000
PAIRS_PER_BATCH = 16
KINDS = ("binary", "multiclass")


def check_contrastive(task, model, teacher=None):
    """Raises UserError if a task or a model does not suit contrastive training, or if there is a teacher."""
    if teacher is not None:
        raise UserError(
            "--contrastive trains on pairs of rows, a --teacher answers single ones. Leave out one of them."
        )
    if task.kind not in KINDS:
        raise UserError(f"--contrastive needs one label for each row. Found: a {task.kind} task")
    if model.pooler_dense is not None:
        raise UserError("--contrastive needs a trained encoder and its linear start. Found: --from none, or a pooler")


def contrastive_loss(model, inputs, labels):
    """The `Loss` of P pairs of texts: the mean of (cosine of their vectors - label)^2.

    Args:
        model: BertClassifier.
        inputs: dict of int tensors (P, T) "first_token_ids", "second_token_ids", and the same with "segment_ids".
        labels: float tensor (P,), 1 for pairs with the same label, else 0; NaN for padding pairs.
    """
    sides = [
        {name.removeprefix(f"{side}_"): values for name, values in inputs.items() if name.startswith(side)}
        for side in ("first", "second")
    ]
    both = {name: ops.concatenate([side[name] for side in sides], axis=0) for name in sides[0]}  # (2 P, T)
    vectors = ops.cast(model.pooled(both, training=True), "float32")  # (2 P, D)
    first, second = ops.split(vectors / (ops.norm(vectors, axis=-1, keepdims=True) + 1e-12), 2)
    cosines = ops.sum(first * second, axis=-1)  # (P,)
    real = ops.logical_not(ops.isnan(labels))
    labels = ops.where(real, labels, 0.0)
    apart = ops.where(real, ops.square(cosines - labels), 0.0)
    right = ops.logical_and(real, ops.equal(cosines > 0.5, labels > 0.5))
    return Loss(ops.sum(apart), ops.sum(ops.cast(real, "float32")), ops.sum(ops.cast(right, "float32")))


def draw_pairs(targets, per_row, seed):
    """Draws pairs of rows: for each row, `per_row` partners with its label, and as many with another label.

    A row whose label occurs only once has no partners with its label.

    Args:
        targets: int array (N,), the labels as numbers.
        per_row: int > 0.
        seed: list of int.

    Returns:
        Int array (P, 2) of row numbers and float32 array (P,), 1 for equal labels; in random order.
    """
    random = np.random.default_rng(seed)
    rows, numbers, pairs, same = np.arange(len(targets)), np.unique(targets), [], []
    for label in numbers:
        mine, others = rows[targets == label], rows[targets != label]
        for row in mine:
            alike = mine[mine != row]
            for partners, equal in ((alike, 1.0), (others, 0.0)):
                if len(partners):
                    pairs += [(row, partner) for partner in random.choice(partners, per_row)]
                    same += [equal] * per_row
    order = random.permutation(len(pairs))
    return np.array(pairs)[order], np.array(same, "float32")[order]


class PairBatches:
    """Batches of pairs of sequences, padded to the longest; a pure function of (seed, epoch).

    Args:
        sequences: list of N TokenSequence.
        targets: int array (N,).
        size: int > 0, pairs in a batch.
        seed: int >= 0.
        with_segments: bool, whether batches have segment ids.
    """

    def __init__(self, sequences, targets, size, seed, with_segments):
        self.sequences, self.targets, self.size, self.seed = sequences, targets, size, seed
        self.names = ("token_ids", "segment_ids") if with_segments else ("token_ids",)
        self.longest = max(len(sequence.token_ids) for sequence in sequences)
        self.per_row = int(np.clip(MOST_PAIRS // (2 * len(sequences)), 1, PAIRS_PER_ROW))

    @property
    def count(self):
        """Number of pairs in an epoch: int."""
        return len(self.epoch(0).pairs)

    def epoch(self, epoch):
        """The batches of an epoch: `len()` and `[i]`, a dict of arrays, see `contrastive_loss`."""
        return _Pairs(self, *draw_pairs(self.targets, self.per_row, [self.seed, epoch]))


class _Pairs:
    def __init__(self, batches, pairs, labels):
        self.batches, self.pairs, self.labels = batches, pairs, labels

    def __len__(self):
        return -(-len(self.pairs) // self.batches.size)

    def __getitem__(self, index):
        start, size = index * self.batches.size, self.batches.size
        pairs = self.pairs[start : start + size]
        labels = np.full(size, np.nan, "float32")
        labels[: len(pairs)] = self.labels[start : start + size]
        batch = {"labels": labels}
        for side, name in enumerate(("first", "second")):
            for ids in self.batches.names:
                batch[f"{name}_{ids}"] = values = np.full((size, self.batches.longest), PAD_ID, "int32")
                for place, row in enumerate(pairs[:, side]):
                    sequence = self.batches.sequences[row]
                    values[place, : len(sequence.token_ids)] = getattr(sequence, ids)
        return batch


def pair_batches(model, rows, targets, settings):
    """The PairBatches of `fit_contrastive`."""
    return PairBatches(rows, targets, PAIRS_PER_BATCH, settings.seed, model.encoder.num_segments > 1)


def fit_contrastive(
    model, rows, targets, settings, *, refit, validate, checkpoint_dir=None, resume=False, restart=False, **watching
):
    """Trains the encoder on pairs, then refits the head. The model keeps its weights if the validation is worse.

    Args:
        model: BertClassifier, built, whose head is fitted to its vectors.
        rows: list of N TokenSequence.
        targets: int array (N,).
        settings: FinetuneSettings.
        refit: callable() that fits the head to the vectors of the rows.
        validate: callable(model) -> dict with `val_score`, where higher is better.
        checkpoint_dir, resume, restart: see `fitting.fit_classifier`.
        watching: log_dir and verbose, likewise.

    Returns:
        TrainResult; its best epoch is 0 if the initial model was better.
    """
    longest = max(len(row.token_ids) for row in rows)
    run = RunSettings(
        accumulate=settings.accumulate or parts_for(PAIRS_PER_BATCH, 2 * longest),
        jit_compile=settings.jit_compile,
        resume=resume,
        restart=restart,
        log_dir=watching.get("log_dir") or "",
    )
    session = Session(run, checkpoint_dir=checkpoint_dir, verbose=watching.get("verbose", 1), unit="pairs")
    settings = filled_in(settings, model, len(rows))
    batches = pair_batches(model, rows, targets, settings)
    before, score = model.get_weights(), validate(model)["val_score"]
    frozen = freeze(model, settings)
    try:
        optimizer = make_optimizer(model, settings, settings.epochs * len(batches.epoch(0)))
        update = session.compile(model, optimizer, contrastive_loss, clip_norm=1.0)
        with session:
            for epoch in session.epochs(batches, settings.epochs):
                for batch in epoch:
                    epoch.record(update(batch))
    finally:
        for layer in frozen:
            layer.trainable = True
    refit()
    found = validate(model)["val_score"]
    if found >= score:
        return session.result._replace(best=found, best_epoch=session.result.history[-1]["epoch"])
    model.set_weights(before)
    return session.result._replace(best=score, best_epoch=0)
