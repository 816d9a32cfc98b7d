"""Contrastive fine-tuning: texts with the same label get similar vectors, then the head is fitted to them again.

It comes before the training on labels. If there are few rows, it replaces it: a few rows make many pairs.

Sources: Khosla et al. (2020), "Supervised Contrastive Learning", https://arxiv.org/abs/2004.11362; Tunstall et al.
(2022), "Efficient Few-Shot Learning Without Prompts" (SetFit), section 3, https://arxiv.org/abs/2209.11055.
Differences: lower layers have lower learning rates, the number of texts is limited, and the trained weights are mixed
with the initial ones.
"""

import numpy as np
from keras import ops

from keras_attention.data.batches import ClassificationBatches, length_of, random_order
from keras_attention.finetuning.label_training import (
    BUCKETS,
    MANY_BUCKETS,
    filled_in,
    freeze,
    learns_from_trained,
    make_optimizer,
    reads_segments,
)
from keras_attention.finetuning.settings import contrastive_rate_for, parts_for
from keras_attention.support.errors import UserError
from keras_attention.training.devices import workers
from keras_attention.training.losses import NO_CLASS, Loss
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session

TEXTS_PER_BATCH, LEAST_TEXTS = 32, 4  # the latter in a part of a batch; only texts of a part are compared
TEMPERATURE = 0.1  # Khosla et al. (2020), section 4
# The number of twins, pairs of texts with the same label: that of the rows, within limits.
LEAST_TWINS, MOST_TWINS, TWINS_PER_ROW = 4_000, 10_000, 20
MOST_TOKENS = 1_000_000  # of all twins; they take two minutes on two cores
SHARES = (1.0, 0.75, 0.5, 0.25)  # of the trained weights in the mix
COST_OF_START = 2.0  # negative log of a prior, in nats
KINDS = ("binary", "multiclass")
FEW_ROWS, MOST_FEW_ROWS = 64, 1_000  # of each class and in all; up to them, there is no training on labels
MOST_ROWS = 10_000  # with more, training on labels alone is as good
CONTRASTIVE, ON_LABELS = "contrastive", "on labels"


def stages_for(examples, task, settings, suitable):
    """The stages of a training in their order: CONTRASTIVE, ON_LABELS or both.

    Args:
        examples: Examples to train on.
        task: Task.
        settings: FinetuneSettings. Epochs and a learning rate are for the training on labels.
        suitable: bool, whether the start suits contrastive training.
    """
    contrastive = settings.contrastive
    if contrastive is None:
        suitable = suitable and task.kind in KINDS and examples.texts_b is None and workers().count == 1
        suitable = suitable and len(examples) <= MOST_ROWS
        contrastive = suitable and not (settings.epochs or settings.learning_rate or settings.lora)
    if not contrastive:
        return (ON_LABELS,)
    few = len(examples) <= min(FEW_ROWS * len(task.label_names), MOST_FEW_ROWS)
    of_labels = settings.epochs, settings.learning_rate, settings.class_weights, settings.label_smoothing
    return (CONTRASTIVE,) if few and not any(of_labels) else (CONTRASTIVE, ON_LABELS)


def check_contrastive(task, model, teacher=None):
    """Raises UserError if a task or a model does not suit contrastive training, or if there is a teacher."""
    if teacher is not None:
        raise UserError(
            "--contrastive compares texts with each other, a --teacher answers single ones. Leave out one of them."
        )
    if task.kind not in KINDS:
        raise UserError(f"--contrastive needs one label for each row. Found: a {task.kind} task")
    if not learns_from_trained(model):
        raise UserError("--contrastive needs a trained encoder and its linear start. Found: --from none, or a pooler")


def contrastive_loss(model, inputs, labels):
    """The `supervised_contrastive_loss` of the vectors of B texts.

    Args:
        model: FinetunableNetwork.
        inputs: dict of tensors, the inputs of the network.
        labels: int tensor (B,), NO_CLASS for padding texts.
    """
    return supervised_contrastive_loss(labels, model.pooled(inputs, training=True))


def supervised_contrastive_loss(labels, vectors, temperature=TEMPERATURE):
    """The `Loss` of B vectors, where the other vectors i of a label should be nearer to vector a than all others:

        loss of a = -mean over i of log( exp(cos(a, i) / t) / sum over b != a of exp(cos(a, b) / t) )

    A vector without another one of its label counts nothing. `correct` counts those whose nearest has their label.

    Args:
        labels: int tensor (B,), NO_CLASS for padding vectors.
        vectors: float tensor (B, D).
        temperature: float t > 0.

    Source: Khosla et al. (2020), equation 2.
    """
    vectors = ops.cast(vectors, "float32")
    vectors = vectors / (ops.norm(vectors, axis=-1, keepdims=True) + 1e-12)
    real = ops.not_equal(labels, NO_CLASS)  # (B,)
    others = ops.logical_not(ops.cast(ops.eye(ops.shape(labels)[0]), "bool"))
    others = ops.logical_and(others, ops.logical_and(real[:, None], real[None]))  # (B, B)
    alike = ops.logical_and(others, ops.equal(labels[:, None], labels[None]))
    scores = ops.where(others, ops.matmul(vectors, ops.transpose(vectors)) / temperature, -1e9)
    log_shares = scores - ops.logsumexp(scores, axis=-1, keepdims=True)
    number = ops.sum(ops.cast(alike, "float32"), axis=-1)  # (B,)
    losses = -ops.sum(ops.where(alike, log_shares, 0.0), axis=-1) / ops.maximum(number, 1.0)
    nearest = ops.take(labels, ops.argmax(scores, axis=-1))
    counted = number > 0
    right = ops.logical_and(counted, ops.equal(nearest, labels))
    return Loss(*(ops.sum(ops.cast(each, "float32")) for each in (losses, counted, right)))


class TwinBatches(ClassificationBatches):
    """Batches of texts, half of which have a partner with the same label in the other half; see `draw_twins`.

    Args:
        sequences, seed, num_buckets, with_segments: see `ClassificationBatches`.
        targets: int array (N,).
        count: int > 0, the number of pairs; None: by the numbers of rows and tokens.
    """

    def __init__(self, sequences, targets, seed, num_buckets=BUCKETS, with_segments=True, count=None):
        super().__init__(sequences, targets, TEXTS_PER_BATCH, num_buckets, seed, with_segments)
        tokens = np.mean([length_of(sequence) for sequence in sequences])
        wanted = np.clip(len(sequences), LEAST_TWINS, MOST_TWINS)
        self.count = count or int(max(1, min(wanted, TWINS_PER_ROW * len(sequences), MOST_TOKENS / (2 * tokens))))

    def epoch(self, epoch):
        """The batches of an epoch, see `ClassificationBatches.epoch`."""
        generator = np.random.PCG64([self.seed, epoch])
        return self._in_batches(draw_twins(self.labels, self.count, generator), generator)


def draw_twins(targets, count, generator):
    """Draws pairs of rows with the same label; each row is the first of a pair equally often.

    A row whose label occurs only once is its own partner: dropout makes two vectors of it.

    Args:
        targets: int array (N,), the labels as numbers.
        count: int > 0.
        generator: np.random.PCG64.

    Returns:
        Int array (count, 2) of row numbers.
    """
    rounds = -(-count // len(targets))
    first = np.concatenate([random_order(generator, len(targets)) for _ in range(rounds)])[:count]
    by_label, sizes = np.argsort(targets, kind="stable"), np.bincount(targets)
    begins = np.cumsum(sizes) - sizes
    places = np.empty_like(by_label)
    places[by_label] = np.arange(len(targets))  # of a row in `by_label`
    label = targets[first]
    steps = 1 + generator.random_raw(count) % np.maximum(sizes[label] - 1, 1).astype("uint64")
    partners = begins[label] + (places[first] - begins[label] + steps.astype("int64")) % sizes[label]
    return np.stack([first, by_label[partners]], axis=1)


def twin_batches(model, rows, targets, settings):
    """The TwinBatches of `fit_contrastive`."""
    buckets = BUCKETS if settings.jit_compile is not False else MANY_BUCKETS
    return TwinBatches(rows, targets, settings.seed, buckets, reads_segments(model), settings.contrastive_pairs)


def fit_contrastive(
    model,
    rows,
    targets,
    settings,
    *,
    refit,
    validate,
    held,
    on_labels=False,
    checkpoint_dir=None,
    resume=False,
    restart=False,
    **watching,
):
    """Trains the encoder for an epoch of TwinBatches, then mixes its weights with the initial ones, see `_best_mix`.

    Args:
        model: FinetunableNetwork, built, whose head is fitted to its vectors.
        rows: list of N TokenSequence.
        targets: int array (N,).
        settings: FinetuneSettings.
        refit: callable() that fits the head to the vectors of the rows.
        validate: callable(model) -> dict with `val_score`, where higher is better, and `val_loss`.
        held: int, the number of validation rows.
        on_labels: bool, whether the training on labels follows, which mixes weights itself.
        checkpoint_dir, resume, restart: see `label_training.fit_classifier`.
        watching: log_dir and verbose, likewise.

    Returns:
        TrainResult; its best epoch is 0 if the initial model was better.
    """
    settings = filled_in(settings, model, len(rows))
    rate = contrastive_rate_for(model.settings["hidden_dim"])
    parts = settings.accumulate or parts_for(TEXTS_PER_BATCH, max(map(length_of, rows)))
    run = RunSettings(
        accumulate=min(parts, TEXTS_PER_BATCH // LEAST_TEXTS),
        jit_compile=settings.jit_compile,
        resume=resume,
        restart=restart,
        log_dir=watching.get("log_dir") or "",
    )
    session = Session(run, checkpoint_dir=checkpoint_dir, verbose=watching.get("verbose", 1), unit="rows")
    batches, before = twin_batches(model, rows, targets, settings), model.get_weights()
    found_before = validate(model)
    frozen = freeze(model, settings)
    try:
        optimizer = make_optimizer(model, settings, len(batches.epoch(0)), rate)
        update = session.compile(model, optimizer, contrastive_loss, clip_norm=1.0)
        update.any_length = settings.jit_compile is False
        with session:
            for epoch in session.epochs(batches, 1):
                for batch in epoch:
                    epoch.record(update(batch))
    finally:
        for layer in frozen:
            layer.trainable = True
    shares = (1.0,) if on_labels else SHARES
    best, best_share = _best_mix(model, before, found_before, shares, refit, validate, held)
    scores = f"validation score {best:.1f}, before the training {found_before['val_score']:.1f}"
    session.notify(f"Logistic regression on the vectors of the encoder: {scores}.")
    return session.result._replace(best=best, best_epoch=1 if best_share else 0)


def _best_mix(model, before, found_before, shares, refit, validate, held):
    """Sets the weights to the best mix of the trained weights and those before; returns its `val_score` and share.

        weights = before + share (trained - before)

    The head is fitted to each mix. With many classes of few rows, mixes are better than both ends. Few validation rows
    say little: a share s costs 2 (1 - s) in addition to the summed loss of these rows.

    Source: see `label_training.best_mix`.
    """

    def cost(scores, share):
        return held * scores["val_loss"] + COST_OF_START * (1 - share)

    trained, best, least = model.get_weights(), (found_before["val_score"], 0.0, before), cost(found_before, 0.0)
    for share in shares:
        model.set_weights([start + share * (end - start) for start, end in zip(before, trained, strict=True)])
        refit()
        scores = validate(model)
        if cost(scores, share) < least:
            best, least = (scores["val_score"], share, model.get_weights()), cost(scores, share)
    model.set_weights(best[2])
    return best[:2]
