"""The projections of multi-head attention."""

import math

import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable(package="keras_attention")
class HeadProjection(keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` as one product of matrices; its bias goes where it belongs whatever the sizes.

    The axes that are summed over are the last ones of the input (B, T, ...) and the first ones of the kernel. On
    TensorFlow, `keras.ops.einsum` (Keras 3.15) multiplies each of the B sequences by itself, so that the gradient of
    the kernel is made B times and then added up; and `keras.ops.add` takes a bias (H, 1) for one of axis 1 of
    (B, H, H, 1): with heads of width 1 and as many positions as heads the bias went to the positions.
    """

    def compute_mask(self, inputs, previous_mask):
        return None  # the layer around it obeys the mask

    def call(self, inputs, training=None):
        kernel = ops.convert_to_tensor(self.kernel)
        inner, outer = kernel.shape[: len(inputs.shape) - 2], kernel.shape[len(inputs.shape) - 2 :]
        width = math.prod(inner)
        outputs = ops.matmul(ops.reshape(inputs, (-1, width)), ops.reshape(kernel, (width, -1)))  # (B T, ...)
        outputs = ops.reshape(outputs, (*ops.shape(inputs)[:2], *outer))
        return outputs if self.bias is None else outputs + ops.convert_to_tensor(self.bias)


def project(projections, inputs, joined):
    """The outputs (B, T, H, K) of several projections for one input (B, T, D) each.

    With `joined` and the same tensor as every input, they are one matrix product. In the loop of a decoder XLA joins
    the kernels before the loop. For a single row that makes projections five times as fast on a CPU: by a kernel that
    is reshaped inside the loop, XLA multiplies without vector instructions.
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
