"""One update of the weights, compiled: forward, loss, gradients, clipping, optimizer."""

from typing import NamedTuple

import keras

from keras_attention.training.losses import symmetric_divergence, token_loss


class StepResult(NamedTuple):
    """What one update tells; scalar tensors of the backend.

    `loss_sum` (nats) and `correct` are sums over the `tokens` real labels of the batch, whatever they label;
    `gradient_norm` is the global norm before clipping. Where loss or norm is not finite, nothing was updated.
    `weight_norm` is the global norm of the weights after the update: a NaN weight can hide from the loss behind a ReLU,
    but not from this.
    """

    loss_sum: object
    tokens: object
    correct: object
    gradient_norm: object
    weight_norm: object


def make_train_step(
    model,
    optimizer,
    *,
    loss=None,
    label_smoothing=0.0,
    r_drop=0.0,
    clip_norm=None,
    accumulate=1,
    jit_compile=True,
    pad_id=0,
):
    """Compiles `step(batch) -> StepResult`, which updates `model` and `optimizer` in place.

    The loss is divided by the number of real labels in the batch. With `r_drop` the
    batch passes twice under different dropout; the loss is the mean of both, plus `r_drop` / 2 times the divergence
    between the two predictions (half of Liang et al. 2021, equation 4). An update whose loss or gradient norm is not
    finite is not applied. Each new batch shape is compiled once. Under a strategy (`distribution.use_strategy`) the
    batch is split over its replicas, with the same result.

    Args:
        model: built `keras.Model`, called as `model(inputs, training=True)` -> logits (B, T, V), where `inputs` is the
            batch without its "labels".
        optimizer: `keras.Optimizer`. `LossScaleOptimizer` is understood: an overflow of its scaled gradients shows as
            a gradient norm that is not finite, and the scale is halved.
        loss: callable(labels, logits) -> (summed loss, number of real labels, how many of them are right), float32
            scalars; None is the label-smoothed cross-entropy of tokens, see `losses.token_loss`.
        label_smoothing: float in [0, 1), of the tokens' loss.
        r_drop: float >= 0 (alpha in the paper). 0 passes each batch once.
        clip_norm: float > 0 or None. Gradients of a larger global norm are scaled down to it.
        accumulate: int > 0. Parts of the batch that are computed one after the other, which saves memory; the update
            is that of the whole batch.
        jit_compile: bool. Compile with XLA; JAX always does.
        pad_id: int, the label that counts nothing in the tokens' loss.

    Returns:
        A callable with the method `sync()`, which must be called before anything reads the variables.

    Raises:
        ValueError: if `clip_norm`, `r_drop` or `accumulate` is out of range, or the backend is neither "tensorflow" nor
            "jax".
    """
    if clip_norm is not None and clip_norm <= 0:
        raise ValueError(f"`clip_norm` must be positive or None. Received: clip_norm={clip_norm}")
    if r_drop < 0:
        raise ValueError(f"`r_drop` must not be negative. Received: r_drop={r_drop}")
    if accumulate < 1:
        raise ValueError(f"`accumulate` must be a positive integer. Received: accumulate={accumulate}")
    loss_of = loss or token_loss(label_smoothing, pad_id)

    def loss_and_counts(batch, call):
        """`call(inputs)` gives (logits, anything); returns (mean loss, (loss_sum, tokens, correct, anything))."""
        passes = 2 if r_drop else 1
        batch = {name: keras.ops.concatenate([value] * passes) for name, value in batch.items()}
        labels = batch.pop("labels")
        logits, extra = call(batch)
        loss_sum, tokens, correct = (x / passes for x in loss_of(labels, logits))
        loss = loss_sum
        if r_drop:
            rows = labels.shape[0] // 2
            apart = symmetric_divergence(labels[:rows], logits[:rows], logits[rows:], pad_id)
            loss = loss + r_drop / 2 * apart
        return loss / keras.ops.maximum(tokens, 1.0), (loss_sum, tokens, correct, extra)

    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        from keras_attention.training.split_step import SplitStep
        from keras_attention.training.tensorflow_step import TensorFlowStep

        if accumulate > 1 or tf.distribute.has_strategy():
            return SplitStep(model, optimizer, loss_and_counts, clip_norm, jit_compile, accumulate)
        return TensorFlowStep(model, optimizer, loss_and_counts, clip_norm, jit_compile)
    if keras.backend.backend() == "jax":
        from keras_attention.training.jax_step import JaxStep

        return JaxStep(model, optimizer, loss_and_counts, clip_norm, accumulate)
    raise ValueError(f'The backend must be "tensorflow" or "jax". Received: backend="{keras.backend.backend()}"')


def global_norm(tensors):
    """The root of the summed squares of all numbers in a list of tensors, a float32 scalar."""
    ops = keras.ops
    squares = [ops.sum(ops.square(ops.cast(tensor, "float32"))) for tensor in tensors]
    return ops.sqrt(sum(squares[1:], squares[0]))


def clip_by_norm(gradients, norm, clip_norm):
    """Scales all gradients down together where their global norm `norm` exceeds `clip_norm` (None: never).

    Source: Pascanu et al. (2013), algorithm 1, over all weights at once.
    """
    if clip_norm is None:
        return gradients
    factor = clip_norm / keras.ops.maximum(norm, clip_norm)
    return [gradient * keras.ops.cast(factor, gradient.dtype) for gradient in gradients]
