"""Hard attention: one position is sampled, and the score function gives its gradient (Xu et al. 2015)."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers.additive import AdditiveAttention
from keras_attention.layers.dropout import random_bits
from keras_attention.layers.masks import Tensor, combined_mask, used_keys, zero_masked

SMALLEST = 1e-30  # a weight below it counts as this in logarithms


@keras.saving.register_keras_serializable(package="keras_attention")
class HardAttention(keras.layers.Layer):
    """Attends to one position: a sampled one in training, the most probable one otherwise.

        a = softmax(scores of AdditiveAttention)        s ~ Categorical(a), or arg max a        context = value[s]

    Sampling has no gradient, so the scores learn from a second loss, `score_function_loss`.

    Shapes: B batch, T queries, S keys. In a decoder loop, compute `projected_key = layer.project_keys(key)` once and
    pass it to every step.

    Args:
        units: int > 0. Width of the scoring network, see `AdditiveAttention`.
        reward_weight: float >= 0, factor of the score-function gradient (lambda_r in the paper).
        entropy_weight: float >= 0, factor of the entropy of the weights (lambda_e), which keeps the sampling open.
        baseline_decay: float in [0, 1), share of its former value in a new value of the baseline.
        baseline_steps: int > 0. Steps with a baseline of their own; later steps share the last one.
        seed: int or None, of the sampling.

    Call arguments:
        query: float tensor (B, T, Dq).
        value: float tensor (B, S, Dv).
        key: float tensor (B, S, Dk), by default `value`.
        attention_mask: bool tensor that broadcasts to (B, T, S). True means "may be attended to". Keys and values
            masked for every query have no effect, even if they are NaN.
        return_attention_scores: bool. Whether to return the weights a too.
        return_choices: bool. Whether to return weights and choices.
        training: bool. Whether to sample.
        projected_key: float tensor (B, S, units), the result of `project_keys`; `key` is then not used.
        choices: int tensor (B, T), positions that are attended to in place of sampled ones; or None.
        expected: bool tensor (B,). Examples that get the expected context, the mean of all values weighted by a, in
            training; or None.
        query_mask, value_mask, key_mask, projected_key_mask: bool tensors (B, T) for the query, else (B, S), or None:
            padding masks. Keras passes the implicit masks of the inputs.

    Returns:
        Context (B, T, Dv); or the pair of context and weights (B, T, S), float32; or context, weights and choices (B,
        T, S), float32, 1 at the chosen position and 0 elsewhere. Choices are 0 for `expected` examples. If all keys of
        a query are masked, its weights, choices and context are exactly 0.

    Raises:
        TypeError: if `attention_mask` is not boolean.
        ValueError: if an argument is out of range.

    Source: Xu et al. (2015), "Show, Attend and Tell", section 4.1, https://arxiv.org/abs/1502.03044. `expected` is
    their robust variant, in which half of the images get the expected context. Differences: the baseline may have a
    value for each step; the most probable position is used where the paper samples in decoding.

    Example:
        layer = HardAttention(units=64)
        context, weights = layer(query, value, attention_mask=mask, return_attention_scores=True)
    """

    def __init__(
        self,
        units: int,
        reward_weight: float = 1.0,
        entropy_weight: float = 0.01,
        baseline_decay: float = 0.9,
        baseline_steps: int = 1,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        _check_weights(reward_weight=reward_weight, entropy_weight=entropy_weight)
        if not 0 <= baseline_decay < 1:
            raise ValueError(f"`baseline_decay` must be in [0, 1). Received: baseline_decay={baseline_decay}")
        if not isinstance(baseline_steps, int) or isinstance(baseline_steps, bool) or baseline_steps < 1:
            raise ValueError(f"`baseline_steps` must be a positive integer. Received: baseline_steps={baseline_steps}")
        self.units, self.reward_weight, self.entropy_weight = units, reward_weight, entropy_weight
        self.baseline_decay, self.baseline_steps, self.seed = baseline_decay, baseline_steps, seed
        self.supports_masking = True
        self.attention = AdditiveAttention(units, dtype=self.dtype_policy, name="attention")
        # The generator's state is a variable of the layer, so that a resumed training samples the same positions.
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, query_shape, value_shape, key_shape=None):
        self.attention.build(query_shape, value_shape, key_shape)
        self.baseline = self.add_weight(
            (self.baseline_steps,), "zeros", dtype="float32", trainable=False, aggregation="mean", name="baseline"
        )
        self.built = True

    def project_keys(self, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """See `AdditiveAttention.project_keys`."""
        return self.attention.project_keys(key, attention_mask)

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        return_choices: bool = False,
        training: bool | None = None,
        projected_key: Tensor | None = None,
        choices: Tensor | None = None,
        expected: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        projected_key_mask: Tensor | None = None,
    ) -> Any:
        attention_mask = combined_mask(query_mask, value_mask, key_mask, attention_mask)
        attention_mask = combined_mask(key_mask=projected_key_mask, attention_mask=attention_mask)
        mean, weights = self.attention(
            query,
            value,
            key,
            attention_mask=attention_mask,
            return_attention_scores=True,
            projected_key=projected_key,
        )  # (B, T, Dv), (B, T, S)
        if choices is None:
            choices = self._sampled(weights) if training else ops.argmax(weights, axis=-1)  # (B, T)
        places = ops.arange(ops.shape(weights)[-1], dtype="int32")  # (S,)
        chosen = ops.equal(places, ops.cast(choices, "int32")[:, :, None])  # (B, T, S)
        chosen = ops.stop_gradient(ops.cast(ops.logical_and(chosen, weights > 0), "float32"))
        value = zero_masked(value, used_keys(attention_mask))
        context = ops.matmul(ops.cast(chosen, value.dtype), value)  # (B, T, Dv)
        if expected is not None and training:
            expected = ops.reshape(expected, (-1, 1, 1))
            context, chosen = ops.where(expected, mean, context), ops.where(expected, 0.0, chosen)
        if return_choices:
            return context, weights, chosen
        return (context, weights) if return_attention_scores else context

    def _sampled(self, weights):
        """A position (B, T) for each row of weights (B, T, S), drawn with these probabilities."""
        bits = random_bits(self.seed_generator.next(), ops.shape(weights)[:2])  # (B, T)
        uniform = (ops.cast(ops.right_shift(bits, ops.cast(9, "uint32")), "float32") + 0.5) / 2**23
        sums = ops.cumsum(ops.cast(weights, "float32"), axis=-1)
        above = ops.cast(sums > uniform[:, :, None] * sums[:, :, -1:], "int32")
        return ops.argmax(above, axis=-1)  # the first one: its weight is above 0

    def score_function_loss(
        self,
        rewards: Tensor,
        weights: Tensor,
        choices: Tensor,
        mask: Tensor | None = None,
        training: bool = True,
        entropy_weight: float | None = None,
    ) -> Tensor:
        """What teaches the weights: a loss whose gradient is an estimate of that of the expected reward.

            loss = -lambda_r (R - b) log a[s] - lambda_e H[a]        b <- decay b + (1 - decay) mean R

        Over the samples, the mean gradient of the first term (lambda_r = 1) is that of -E[R] through the choices,
        whatever b is; b only lowers its variance.

        Args:
            rewards: float tensor (B, T), R: log p(caption) in the paper, the same at each step; or the part of it that
                the choice can change, log p of this word and of those after it. No gradient flows through it.
            weights, choices: float32 tensors (B, T, S), from `call` with `return_choices`.
            mask: bool tensor (B, T), False at steps that do not count; None: all count.
            training: bool. Whether to update the baseline b.
            entropy_weight: float >= 0, lambda_e; None: that of the layer.

        Returns:
            float32 tensor (B, T), 0 where `mask` is False.

        Raises:
            ValueError: if `entropy_weight` is below 0.
        """
        mask = ops.ones(ops.shape(rewards), "bool") if mask is None else mask  # (B, T)
        rewards = ops.stop_gradient(ops.cast(rewards, "float32"))
        steps = ops.minimum(ops.arange(ops.shape(rewards)[1], dtype="int32"), self.baseline_steps - 1)  # (T,)
        advantages = rewards - ops.take(self.baseline, steps)  # (B, T)
        chosen = ops.sum(weights * choices, axis=-1)  # (B, T), 0 if nothing was chosen
        log_chosen = ops.log(ops.where(chosen > 0, ops.maximum(chosen, SMALLEST), 1.0))
        entropy = -ops.sum(weights * ops.log(ops.maximum(weights, SMALLEST)), axis=-1)  # (B, T)
        if training:
            self._update_baseline(rewards, mask, steps)
        entropy_weight = self.entropy_weight if entropy_weight is None else entropy_weight
        _check_weights(entropy_weight=entropy_weight)
        loss = -self.reward_weight * ops.stop_gradient(advantages) * log_chosen - entropy_weight * entropy
        return ops.where(mask, loss, 0.0)

    def _update_baseline(self, rewards, mask, steps):
        counted = ops.cast(mask, "float32")
        groups = ops.one_hot(steps, self.baseline_steps, dtype="float32")  # (T, steps)
        sums = ops.matmul(ops.sum(ops.where(mask, rewards, 0.0), axis=0), groups)  # (steps,)
        counts = ops.matmul(ops.sum(counted, axis=0), groups)
        decay = ops.where(counts > 0, self.baseline_decay, 1.0)
        self.baseline.assign(decay * self.baseline + (1 - decay) * sums / ops.maximum(counts, 1.0))

    def compute_output_shape(
        self, query_shape, value_shape, key_shape=None, return_attention_scores=False, return_choices=False
    ):
        context_shape = (*query_shape[:-1], value_shape[-1])
        weights_shape = (*query_shape[:-1], value_shape[-2])
        shapes = (context_shape, weights_shape, weights_shape)
        return shapes if return_choices else shapes[:2] if return_attention_scores else context_shape

    def compute_output_spec(self, *args, **kwargs):
        # Traced from `call`: Keras's default uses `compute_output_shape` and assumes one dtype for all outputs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        names = ("units", "reward_weight", "entropy_weight", "baseline_decay", "baseline_steps", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _check_weights(**weights):
    for name, value in weights.items():
        if not value >= 0:
            raise ValueError(f"`{name}` must be 0 or more. Received: {name}={value}")


def rewards_to_go(log_probs: Tensor) -> Tensor:
    """The sum (B, T) of the log probabilities (B, T) of each word and of all after it."""
    return ops.flip(ops.cumsum(ops.flip(log_probs, axis=1), axis=1), axis=1)
