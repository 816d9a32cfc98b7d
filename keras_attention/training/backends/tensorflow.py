"""The update on TensorFlow: a traced function with a gradient tape, for a whole batch or for a batch in parts."""

import keras
import numpy as np
import tensorflow as tf

from keras_attention.support.keras_private import keep_summed_gradients
from keras_attention.training.devices import named_loss_of_a_worker, split_batch
from keras_attention.training.gradients import Update, clip_by_norm, global_norm, split_labels


class TensorFlowUpdate:
    """`update(batch) -> Update`; see `backends.compile_update`.

    Attributes:
        any_length: bool. Whether one program, traced once, serves batches of all lengths. This is not possible with XLA
            or with models that unroll a loop over the tokens.
    """

    def __init__(self, model, optimizer, loss, clip_norm, jit_compile):
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.clip_norm = clip_norm
        self._function = tf.function(self._update, jit_compile=jit_compile, autograph=False)
        self._apply = tf.function(self._apply, autograph=False)  # traced once, for all batch shapes
        self.any_length = False
        self._compiled = {}  # one function for each batch shape

    def __call__(self, batch):
        shapes = tuple((name, self._shape(value)) for name, value in batch.items())
        if shapes not in self._compiled:
            specs = {name: tf.TensorSpec(self._shape(value), value.dtype) for name, value in batch.items()}
            eager = tf.config.functions_run_eagerly()
            self._compiled[shapes] = self._function if eager else self._function.get_concrete_function(specs)
        return Update(*self._compiled[shapes]({name: tf.convert_to_tensor(value) for name, value in batch.items()}))

    def _shape(self, value):
        return (value.shape[0], *(None if self.any_length else length for length in value.shape[1:]))

    def sync(self):
        """TensorFlow's variables are always up to date."""

    def _update(self, batch):
        """Forward pass, loss, gradient, clipping, optimizer."""
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.loss(self.model, *split_labels(batch))
            mean = loss.mean()
            scaled = self.optimizer.scale_loss(mean)
        gradients = tape.gradient(scaled, [v.value for v in variables])
        # The norm needs dense gradients: a sparse gradient lists a token that occurs twice as two separate slices.
        gradients = [
            tf.zeros(v.shape, v.dtype) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, v in zip(gradients, variables, strict=True)
        ]
        norm = global_norm(gradients) / self.optimizer.scale_loss(tf.constant(1.0))
        gradients = clip_by_norm(gradients, norm, self.clip_norm)
        may_apply = tf.math.is_finite(mean)
        if not isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):  # it checks the gradients itself
            may_apply = tf.logical_and(may_apply, tf.math.is_finite(norm))
        tf.cond(may_apply, lambda: self._apply(gradients), lambda: None)
        return loss.total, loss.count, loss.correct, norm, global_norm([v.value for v in variables])

    def _apply(self, gradients):
        self.optimizer.apply(gradients, self.model.trainable_variables)


SEED_STEP = 1_000_003  # difference between the dropout seeds of two replicas


class SplitUpdate:
    """`update(batch) -> Update` in parts, equal to the update of the whole batch; see `backends.compile_update`.

        gradient = sum over parts of (labels of the part * gradient of its mean loss) / labels of the batch

    Each replica computes its parts one after the other and sums gradients and counts in one vector. One all-reduce sums
    the vectors of all replicas; then each replica applies the same update. XLA compiles the forward and backward pass,
    but not the all-reduce and the optimizer.

    Args:
        model, optimizer, loss, clip_norm, jit_compile: see `compile_update`. Create model and optimizer under the
            strategy. The optimizer cannot be used elsewhere afterwards.
        turns: int > 0, number of parts that a replica computes one after the other.

    Raises:
        ValueError: if the optimizer is a `LossScaleOptimizer`: it checks the gradients itself, before they are summed.
    """

    def __init__(self, model, optimizer, loss, clip_norm, jit_compile, turns):
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            raise ValueError("A split batch needs an optimizer without loss scale: use bfloat16 instead of float16.")
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.clip_norm = clip_norm
        self.turns = turns
        self.strategy = tf.distribute.get_strategy()
        keep_summed_gradients(optimizer, self.strategy.num_replicas_in_sync)
        self._part_sums = tf.function(self._part_sums, jit_compile=jit_compile, autograph=False)
        self._compiled = tf.function(self._update, autograph=False)
        self._seeds_differ = self.strategy.num_replicas_in_sync == 1

    def __call__(self, batch):
        if not self._seeds_differ:
            self._let_seeds_differ()
        parts = split_batch(batch, self.strategy.num_replicas_in_sync * self.turns)

        def of_replica(context):
            first = context.replica_id_in_sync_group * self.turns
            return [{k: tf.constant(v) for k, v in part.items()} for part in parts[first : first + self.turns]]

        with named_loss_of_a_worker():
            return Update(*self._compiled(self.strategy.experimental_distribute_values_from_function(of_replica)))

    def sync(self):
        """TensorFlow's variables are always up to date."""

    def _let_seeds_differ(self):
        """Gives each replica other seeds, derived from those of the first replica, which checkpoints store."""
        states = [v for v in self.model.variables if v.path.endswith("seed_generator_state")]

        def add_number():
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            for state in states:
                state.value.assign(state.value + tf.cast([SEED_STEP, 0], state.dtype) * tf.cast(number, state.dtype))

        for state in states:
            state.assign(state.value)
        tf.function(lambda: self.strategy.run(add_number))()
        self._seeds_differ = True

    def _update(self, parts):
        sums = self.strategy.run(self._replica_sums, args=(parts,))  # (N + 4,), the same in each replica
        total = self.strategy.experimental_local_results(sums)[0]
        mean, loss, count, correct = tf.unstack(total[-4:])
        share = 1.0 / tf.maximum(count, 1.0)
        norm = tf.norm(total[:-4]) * share
        factor = share if self.clip_norm is None else share * self.clip_norm / tf.maximum(norm, self.clip_norm)
        may_apply = tf.logical_and(tf.math.is_finite(mean), tf.math.is_finite(norm))
        tf.cond(may_apply, lambda: self.strategy.run(self._apply, args=(sums, factor)), lambda: None)
        return loss, count, correct, norm, global_norm([v.value for v in self.model.trainable_variables])

    def _replica_sums(self, parts):
        """The sums over the parts of all replicas (N + 4,), the same in each replica."""
        sums = self._part_sums(parts[0])
        for part in parts[1:]:
            with tf.control_dependencies([sums]):  # one part at a time, to save memory
                sums = sums + self._part_sums(part)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)

    def _part_sums(self, part):
        """All N gradient values, then minimized loss, reported loss, labels and correct labels: (N + 4,)."""
        variables = [v.value for v in self.model.trainable_variables]
        with tf.GradientTape() as tape:
            loss = self.loss(self.model, *split_labels(part))
            mean = loss.mean()
        gradients = tape.gradient(mean, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        weight = tf.maximum(loss.count, 1.0)  # the divisor of the mean
        numbers = [weight * tf.cast(tf.reshape(tf.convert_to_tensor(x), [-1]), "float32") for x in (*gradients, mean)]
        return tf.concat([*numbers, tf.stack([loss.total, loss.count, loss.correct])], axis=0)

    def _apply(self, sums, factor):
        variables = self.model.trainable_variables
        pieces = tf.split(sums[:-4] * factor, [int(np.prod(v.shape)) for v in variables])
        gradients = [tf.cast(tf.reshape(g, v.shape), v.dtype) for g, v in zip(pieces, variables, strict=True)]
        self.optimizer.apply(gradients, variables)
