"""Contrastive fine-tuning for few rows: texts with the same label get similar vectors, then the head is fitted again.

A few rows make many pairs: 16 rows have 120.

Source: Tunstall et al. (2022), "Efficient Few-Shot Learning Without Prompts" (SetFit), section 3,
https://arxiv.org/abs/2209.11055. Differences: the learning rate depends on the width of the model and decays to 0,
lower layers have lower rates, the number of pairs is limited, and the trained weights are mixed with the initial ones.
"""

import numpy as np
from keras import ops

from keras_attention.errors import UserError
from keras_attention.finetuning.fitting import filled_in, freeze, make_optimizer
from keras_attention.finetuning.settings import parts_for
from keras_attention.tokenizers.special_tokens import PAD_ID
from keras_attention.training.devices import workers
from keras_attention.training.objective import Loss
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session

PAIRS_PER_ROW = 20  # with the same label, and as many with another, as in the paper
MOST_PAIRS, MOST_TOKENS = 8_000, 1_000_000  # of an epoch; a million tokens take two minutes on two cores
PAIRS_PER_BATCH = 16
COST_OF_START = 2.0  # negative log of a prior, in nats
KINDS = ("binary", "multiclass")
FEW_ROWS, MOST_FEW_ROWS = 64, 1_000  # of each class and in all; up to them, training is contrastive by default


def has_few_rows(examples, task, settings):
    """Whether contrastive training suits Examples of a Task, and no setting is for the training on single rows."""
    few = task.kind in KINDS and len(examples) <= min(FEW_ROWS * len(task.label_names), MOST_FEW_ROWS)
    asked = settings.epochs, settings.learning_rate, settings.lora, settings.class_weights, settings.label_smoothing
    return few and examples.texts_b is None and not any(asked) and workers().count == 1


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
        most = min(MOST_PAIRS, MOST_TOKENS // (2 * self.longest))
        self.per_row = int(np.clip(most // (2 * len(sequences)), 1, PAIRS_PER_ROW))

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
    model,
    rows,
    targets,
    settings,
    *,
    refit,
    validate,
    held,
    checkpoint_dir=None,
    resume=False,
    restart=False,
    **watching,
):
    """Trains the encoder on pairs of rows, then mixes its weights with the initial ones, see `_best_mix`.

    Args:
        model: BertClassifier, built, whose head is fitted to its vectors.
        rows: list of N TokenSequence.
        targets: int array (N,).
        settings: FinetuneSettings.
        refit: callable() that fits the head to the vectors of the rows.
        validate: callable(model) -> dict with `val_score`, where higher is better, and `val_loss`.
        held: int, the number of validation rows.
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
    before = model.get_weights()
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
    share, score = _best_mix(model, before, refit, validate, held)
    return session.result._replace(best=score, best_epoch=session.result.history[-1]["epoch"] if share else 0)


def _best_mix(model, before, refit, validate, held):
    """Sets the weights to the best mix of the trained weights and those before; returns its share and `val_score`.

        weights = before + share (trained - before)

    The head is fitted to each mix. With many classes of few rows, mixes are better than both ends. Few validation rows
    say little: a share s costs 2 (1 - s) in addition to the summed loss of these rows.

    Source: see `fitting.best_mix`.
    """
    trained, best, least = model.get_weights(), None, np.inf
    for share in (1.0, 0.75, 0.5, 0.25, 0.0):
        model.set_weights([start + share * (end - start) for start, end in zip(before, trained, strict=True)])
        refit()
        scores = validate(model)
        cost = held * scores["val_loss"] + COST_OF_START * (1 - share)
        if cost < least:
            best, least = (share, scores["val_score"], model.get_weights()), cost
    share, score, weights = best
    model.set_weights(weights)
    return share, score
