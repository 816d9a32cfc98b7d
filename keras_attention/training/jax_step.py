"""The training step on JAX: a pure function from variables to variables."""

import functools

import jax
import keras

from keras_attention.training.train_step import StepResult, clip_by_norm, global_norm


class JaxStep:
    """`step(batch) -> StepResult`; see `train_step.make_train_step`.

    Between steps the newest values live here, and `sync()` writes them into the Keras variables.
    """

    def __init__(self, model, optimizer, loss_and_counts, clip_norm):
        self.model = model
        self.optimizer = optimizer
        self.loss_and_counts = loss_and_counts
        self.clip_norm = clip_norm
        self._state = None
        self._compiled = jax.jit(self._update, donate_argnums=0)

    def __call__(self, batch):
        if self._state is None:
            # Copied, because the compiled function reuses the memory of what it is given.
            self._state = [[jax.numpy.array(v.value) for v in group] for group in self._variables()]
        self._state, result = self._compiled(self._state, batch)
        return result

    def sync(self):
        """Writes the newest values into the variables; the next step reads the variables again."""
        if self._state is not None:
            for variables, values in zip(self._variables(), self._state, strict=True):
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(value)
            self._state = None

    def _variables(self):
        return self.model.trainable_variables, self.model.non_trainable_variables, self.optimizer.variables

    def _update(self, state, batch):
        trainable, non_trainable, optimizer_state = state
        with keras.StatelessScope(state_mapping=list(zip(self.optimizer.variables, optimizer_state, strict=True))):
            scale = self.optimizer.scale_loss(jax.numpy.float32(1.0))

        def scaled_loss(trainable):
            call = functools.partial(self.model.stateless_call, trainable, non_trainable, training=True)
            loss, extra = self.loss_and_counts(batch, call)
            return loss * scale, (loss, extra)

        gradients, (loss, (*counts, new_non_trainable)) = jax.grad(scaled_loss, has_aux=True)(trainable)
        norm = global_norm(gradients) / scale
        gradients = clip_by_norm(gradients, norm, self.clip_norm)
        may_apply = jax.numpy.isfinite(loss)
        if not isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):  # which looks at the gradients itself
            may_apply = may_apply & jax.numpy.isfinite(norm)
        trainable, optimizer_state = jax.lax.cond(
            may_apply,
            lambda: self.optimizer.stateless_apply(optimizer_state, gradients, trainable),
            lambda: (trainable, optimizer_state),
        )
        return [trainable, new_non_trainable, optimizer_state], StepResult(*counts, norm, global_norm(trainable))
