"""The projections of multi-head attention."""

import math

import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable(package="keras_attention")
class HeadProjection(keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` as one matrix product, with a bias that is correct for all sizes.

    The product sums over the last axes of the input (B, T, ...) and the first axes of the kernel. It avoids two faults
    of Keras 3.15 on TensorFlow. `keras.ops.einsum` multiplies each of the B sequences separately, so that the gradient
    of the kernel is computed B times and then summed. And `keras.ops.add` may broadcast a bias (H, 1) along axis 1 of
    (B, H, H, 1), so that heads of width 1 get a wrong bias if there are as many positions as heads.
    """

    def compute_mask(self, inputs, previous_mask):
        return None  # the enclosing layer applies the mask

    def call(self, inputs, training=None):
        kernel = ops.convert_to_tensor(self.kernel)
        inner, outer = kernel.shape[: len(inputs.shape) - 2], kernel.shape[len(inputs.shape) - 2 :]
        width = math.prod(inner)
        outputs = ops.matmul(ops.reshape(inputs, (-1, width)), ops.reshape(kernel, (width, -1)))  # (B T, ...)
        outputs = ops.reshape(outputs, (*ops.shape(inputs)[:2], *outer))
        return outputs if self.bias is None else outputs + ops.convert_to_tensor(self.bias)


def project(projections, inputs, joined):
    """Applies several projections to one input (B, T, D) each; returns their outputs (B, T, H, K).

    With `joined`, and if all inputs are the same tensor, the projections are one matrix product. In a decoder loop, XLA
    concatenates the kernels before the loop. For a single example, this makes projections five times as fast on a CPU,
    because XLA uses no vector instructions for a kernel that is reshaped inside the loop.
    """
    if not (joined and all(x is inputs[0] for x in inputs)):
        return [projection(x) for projection, x in zip(projections, inputs, strict=True)]
    kernels = [ops.reshape(projection.kernel, (projection.kernel.shape[0], -1)) for projection in projections]
    outputs = ops.matmul(inputs[0], ops.concatenate(kernels, axis=1))  # (B, T, sum of H K)
    if projections[0].bias is not None:
        outputs += ops.concatenate([ops.reshape(projection.bias, (-1,)) for projection in projections], axis=0)
    ends = np.cumsum([kernel.shape[1] for kernel in kernels])
    return [
        ops.reshape(part, (*ops.shape(inputs[0])[:2], *projection.kernel.shape[1:]))
        for part, projection in zip(ops.split(outputs, ends[:-1].tolist(), axis=-1), projections, strict=True)
    ]
