"""One compiled update of the weights: forward pass, loss, gradient, clipping, optimizer. One file per backend."""

import keras

from keras_attention.support.compile_cache import is_eager


def compile_update(model, optimizer, loss, *, clip_norm=None, accumulate=1, jit_compile=True):
    """Compiles `update(batch) -> Update`, which changes `model` and `optimizer` in place. Eager mode compiles nothing.

    The minimized loss is the summed loss divided by the number of labels in the batch, without padding. If the loss or
    the gradient norm is not finite, the update is not applied. Each new batch shape is compiled once. Under a strategy
    (`devices.use_strategy`), the batch is split over the replicas, with the same result.

    Args:
        model: built `keras.Model`.
        optimizer: `keras.Optimizer`. A `LossScaleOptimizer` works too: if its scaled gradients overflow, the gradient
            norm is not finite, and the scale is halved.
        loss: callable(model, inputs, labels) -> `losses.Loss`, written with `keras.ops`; calls the model with
            `training=True`. `inputs` is the batch without its "labels".
        clip_norm: float > 0 or None. Gradients with a larger global norm are scaled down to this norm.
        accumulate: int > 0. Number of parts of the batch, computed one after the other to save memory. The update
            equals that of an undivided batch.
        jit_compile: bool. Whether to compile with XLA; JAX always does.

    Returns:
        A callable with the method `sync()`. Call `sync()` before you read the variables.

    Raises:
        ValueError: if `clip_norm` or `accumulate` is out of range, or the backend is neither "tensorflow" nor "jax".
    """
    if clip_norm is not None and clip_norm <= 0:
        raise ValueError(f"`clip_norm` must be positive or None. Received: clip_norm={clip_norm}")
    if accumulate < 1:
        raise ValueError(f"`accumulate` must be a positive integer. Received: accumulate={accumulate}")
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        from keras_attention.training.backends.tensorflow import SplitUpdate, TensorFlowUpdate

        if is_eager():
            tf.config.run_functions_eagerly(True)
        if accumulate > 1 or tf.distribute.has_strategy():
            return SplitUpdate(model, optimizer, loss, clip_norm, jit_compile, accumulate)
        return TensorFlowUpdate(model, optimizer, loss, clip_norm, jit_compile)
    if keras.backend.backend() == "jax":
        import jax

        from keras_attention.training.backends.jax import JaxUpdate

        if is_eager():
            jax.config.update("jax_disable_jit", True)
        return JaxUpdate(model, optimizer, loss, clip_norm, accumulate)
    raise ValueError(f'The backend must be "tensorflow" or "jax". Received: backend="{keras.backend.backend()}"')
