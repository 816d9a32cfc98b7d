"""The update on JAX: a pure function from variables to variables."""

import jax
import keras

from keras_attention.support.errors import UserError
from keras_attention.training.devices import split_batch
from keras_attention.training.gradients import Update, clip_by_norm, global_norm, split_labels


class JaxUpdate:
    """`update(batch) -> Update`; see `backends.compile_update`.

    Under `keras.distribution.DataParallel`, each device gets its share of the examples. `turns` is the number of parts
    of a batch, computed one after the other. Between updates, this object holds the newest values; `sync()` writes them
    into the Keras variables.
    """

    def __init__(self, model, optimizer, loss, clip_norm, turns=1):
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.clip_norm = clip_norm
        self.turns = turns
        self._state = None
        self._compiled = jax.jit(self._update, donate_argnums=0)

    def __call__(self, batch):
        if self._state is None:
            # Copied, because the compiled function reuses the memory of its arguments.
            self._state = [[jax.numpy.array(v.value) for v in group] for group in self._variables()]
        self._state, result = self._compiled(self._state, _on_devices(batch))
        return result

    def sync(self):
        """Writes the newest values into the variables; the next update starts from the variables."""
        if self._state is not None:
            for variables, values in zip(self._variables(), self._state, strict=True):
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(value)
            self._state = None

    def _variables(self):
        return self.model.trainable_variables, self.model.non_trainable_variables, self.optimizer.variables

    def _gradients(self, trainable, non_trainable, batch, scale):
        """The gradients of the scaled mean loss, the loss, its counts, and the non-trainable variables."""

        def scaled_loss(trainable):
            values = zip(self.model.trainable_variables, trainable, strict=True)
            others = zip(self.model.non_trainable_variables, non_trainable, strict=True)
            with keras.StatelessScope(state_mapping=[*values, *others]) as scope:
                loss = self.loss(self.model, *split_labels(batch))
            changed = [scope.get_current_value(v) for v in self.model.non_trainable_variables]
            mean = loss.mean()
            return mean * scale, (mean, [loss.total, loss.count, loss.correct], changed)

        gradients, (mean, counts, changed) = jax.grad(scaled_loss, has_aux=True)(trainable)
        return gradients, mean, counts, changed

    def _summed_gradients(self, trainable, non_trainable, batch, scale):
        """The results of `_gradients` for the whole batch, computed in parts that are weighted by their labels."""
        sums = None
        for part in split_batch(batch, self.turns):
            *results, non_trainable = self._gradients(trainable, non_trainable, part, scale)
            weight = jax.numpy.maximum(results[-1][1], 1.0)  # the divisor of the mean
            results[:2] = jax.tree.map(lambda x, weight=weight: x * weight, results[:2])
            sums = results if sums is None else jax.tree.map(jax.numpy.add, sums, results)
            # Forces JAX to compute one part at a time, which saves memory.
            sums, non_trainable, trainable = jax.lax.optimization_barrier((sums, non_trainable, trainable))
        gradients, loss, counts = sums
        gradients, loss = jax.tree.map(lambda x: x / jax.numpy.maximum(counts[1], 1.0), (gradients, loss))
        return gradients, loss, counts, non_trainable

    def _update(self, state, batch):
        trainable, non_trainable, optimizer_state = state
        with keras.StatelessScope(state_mapping=list(zip(self.optimizer.variables, optimizer_state, strict=True))):
            scale = self.optimizer.scale_loss(jax.numpy.float32(1.0))

        compute = self._gradients if self.turns == 1 else self._summed_gradients
        gradients, loss, counts, new_non_trainable = compute(trainable, non_trainable, batch, scale)
        norm = global_norm(gradients) / scale
        gradients = clip_by_norm(gradients, norm, self.clip_norm)
        may_apply = jax.numpy.isfinite(loss)
        if not isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):  # it checks the gradients itself
            may_apply = may_apply & jax.numpy.isfinite(norm)
        trainable, optimizer_state = jax.lax.cond(
            may_apply,
            lambda: self.optimizer.stateless_apply(optimizer_state, gradients, trainable),
            lambda: (trainable, optimizer_state),
        )
        return [trainable, new_non_trainable, optimizer_state], Update(*counts, norm, global_norm(trainable))


def _on_devices(batch):
    """The batch with its examples divided among the devices of Keras's distribution, if there is one."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return batch
    size, devices = len(batch["labels"]), distribution.device_mesh.devices.size
    if size % devices:
        raise UserError(
            f"A batch of {size} examples cannot be divided among {devices} devices. Use a multiple of that."
        )
    layouts = {name: distribution.get_data_layout(value.shape) for name, value in batch.items()}
    return {name: keras.distribution.distribute_tensor(value, layouts[name]) for name, value in batch.items()}
