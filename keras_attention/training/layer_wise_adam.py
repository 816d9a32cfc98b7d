"""AdamW whose steps are smaller for some weights than for others."""

import keras


@keras.saving.register_keras_serializable(package="keras_attention")
class LayerWiseAdamW(keras.optimizers.AdamW):
    """AdamW with a factor for the learning rate of each weight.

        w <- w - learning_rate (factor(w) m / (sqrt(v) + epsilon) + weight_decay w)

    The lower layers of a pre-trained network know what is common to all texts, and shall move less than the upper ones.

    Args:
        learning_rate: float or schedule.
        factors: dict from the path of a variable to a float > 0; a variable that is not named has factor 1.
        weight_decay: float >= 0.
        **kwargs: further arguments of `keras.optimizers.AdamW`.

    Source: Loshchilov & Hutter (2019), algorithm 2; factors: Howard & Ruder (2018), section 3.2, "discriminative
    fine-tuning", there for plain gradient descent.
    """

    def __init__(self, learning_rate, factors, weight_decay=0.01, **kwargs):
        super().__init__(learning_rate, weight_decay=weight_decay, **kwargs)
        self.factors = dict(factors)

    def build(self, variables):
        super().build(variables)
        self._factor_by_index = [self.factors.get(variable.path, 1.0) for variable in variables]

    def update_step(self, gradient, variable, learning_rate):
        factor = self._factor_by_index[self._get_variable_index(variable)]  # on TensorFlow it comes without its path
        super().update_step(gradient, variable, learning_rate * factor)

    def get_config(self):
        return {**super().get_config(), "factors": self.factors}


def layer_factors(layers, decay):
    """Factors that grow from layer to layer.

    Args:
        layers: list of lists of variables, from the lowest layer to the highest; what is above them has factor 1.
        decay: float in (0, 1]. The factor of the highest of them, and of each layer with respect to the one above.

    Returns:
        dict from path to factor, for `LayerWiseAdamW`.

    Raises:
        ValueError: if `decay` is out of range.
    """
    if not 0 < decay <= 1:
        raise ValueError(f"`decay` must be in (0, 1]. Received: decay={decay}")
    depth = len(layers)
    return {v.path: decay ** (depth - i) for i, variables in enumerate(layers) for v in variables}
