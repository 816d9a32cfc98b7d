"""Muon, an optimizer that learns from about half as many tokens as AdamW."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_attention")
class Muon(keras.optimizers.Muon):
    """Steps whose directions have equal lengths for kernels; AdamW for embeddings, biases and norms.

        m = beta m + g,    kernel -= rate * 0.2 sqrt(max(n, k)) * orthogonal(g + beta m)

    `orthogonal` replaces all singular values of a matrix (n, k) by about 1, with five Newton-Schulz iterations. Keras's
    optimizer does so for matrices. This one also takes the kernels with an axis of heads, such as (D, H, K) and
    (H, K, D), as the matrices (D, H K) and (H K, D), and leaves biases with that axis to AdamW.

    Args:
        learning_rate: float > 0 or schedule, of kernels. The factor 0.2 sqrt(max(n, k)) makes their steps as large as
            AdamW's.
        weight_decay: float >= 0 or None, of all weights.
        adam_lr_ratio: float > 0. The learning rate of AdamW, as a multiple of that of kernels.
        options: further arguments of `keras.optimizers.Muon`.

    Source: Jordan et al. (2024), https://kellerjordan.github.io/posts/muon; factor and weight decay: Liu et al. (2025),
    https://arxiv.org/abs/2502.16982, equation 4. Difference: all heads of a kernel share one matrix.

    Example:
        optimizer = Muon(3e-3, weight_decay=0.1)
    """

    def __init__(self, learning_rate=1e-3, weight_decay=0.1, adam_lr_ratio=0.5, **options):
        options = {"adam_weight_decay": weight_decay, "adam_beta_2": 0.99} | options
        super().__init__(learning_rate, weight_decay=weight_decay, adam_lr_ratio=adam_lr_ratio, **options)
        self._matrices = {}

    def build(self, variables):
        self._matrices = {i: _matrix(v.shape) for i, v in enumerate(variables) if _is_kernel(v)}
        super().build(variables)

    def _should_use_adamw(self, variable):
        return self._get_variable_index(variable) not in self._matrices

    def _muon_update_step(self, gradient, variable, lr, m):
        self.assign_add(m, ops.add(gradient, m * (self.momentum - 1)))
        direction = ops.add(gradient, self.momentum * m) if self.nesterov else m
        matrix = ops.reshape(direction, self._matrices[self._get_variable_index(variable)])
        step = self.lr_adjust(lr * self.zeropower_via_newtonschulz5(matrix, self.ns_steps))
        self.assign_sub(variable, ops.reshape(step, variable.shape))


def _is_kernel(variable):
    return variable.path.endswith("kernel") and len(variable.shape) in (2, 3)


def _matrix(shape):
    """The shape (inputs, outputs) of a kernel: the axis of heads joins the side to which it belongs."""
    first, *others = shape
    if len(others) == 1:
        return tuple(shape)
    middle, last = others
    return (first, middle * last) if first >= middle * last else (first * middle, last)
