"""The projections of multi-head attention."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_attention")
class HeadProjection(keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` whose bias goes where it belongs whatever the sizes.

    `keras.ops.add` on TensorFlow (Keras 3.15) takes a bias (H, 1) for one of axis 1 of (B, H, H, 1): with heads of
    width 1 and as many positions as heads the bias went to the positions.
    """

    def call(self, inputs, training=None):
        outputs = ops.einsum(self.equation, inputs, self.kernel)
        return outputs if self.bias is None else outputs + ops.convert_to_tensor(self.bias)
