"""A classifier of another kind of input: two dense layers over pictures of 8 x 8 pixels."""

import functools

import keras
import numpy as np
from keras import ops
from sklearn.datasets import load_digits

from keras_attention.catalog.classification import image_classification
from keras_attention.inputs.image import ImageInput
from keras_attention.pipelines.input_classifier import InputClassifier
from keras_attention.zoo.schema import Architecture, register, whole

LABELS = [str(digit) for digit in range(10)]
TASK = {"kind": "multiclass", "label_names": LABELS, "separator": None, "threshold": 0.5, "pair": False}


@keras.saving.register_keras_serializable(package="keras_attention_tests")
class DigitClassifier(keras.Model):
    """logits = W_2 relu(W_1 pixels)"""

    def __init__(self, num_labels, hidden_dim, height=8, width=8, **kwargs):
        super().__init__(**kwargs)
        self.num_labels, self.hidden_dim, self.height, self.width = num_labels, hidden_dim, height, width
        self.hidden = keras.layers.Dense(hidden_dim, activation="relu", name="hidden")
        self.head = keras.layers.Dense(num_labels, name="head")

    def build(self, input_shape=None):
        self.hidden.build((None, self.height * self.width))
        self.head.build((None, self.hidden_dim))
        self.built = True

    def call(self, inputs):
        pixels = ops.reshape(inputs["values"], (-1, self.height * self.width))  # (B, H W)
        return self.head(self.hidden(pixels))

    def get_config(self):
        sizes = {name: getattr(self, name) for name in ("num_labels", "hidden_dim", "height", "width")}
        return {**super().get_config(), **sizes}


def register_digit_classifier():
    """The one registration."""
    register(
        Architecture(
            name="DigitClassifier",
            model="inputs.toy_classifier:DigitClassifier",
            settings={name: whole(1, 1000) for name in ("num_labels", "hidden_dim", "height", "width")},
            parameters=lambda model: (
                (model["height"] * model["width"] + 1) * model["hidden_dim"]
                + (model["hidden_dim"] + 1) * model["num_labels"]
            ),
            task=image_classification(lambda model: (model["height"], model["width"], 1)),
        )
    )


def digits():
    """Pictures of handwritten digits, floats (N, 8, 8) from 0 to 1, and their labels as int (N,)."""
    data = load_digits()
    return data.images / 16, data.target


@functools.cache
def trained_classifier():
    """A DigitClassifier after a few epochs: about 90 % of the pictures that it has not seen are right."""
    keras.utils.set_random_seed(5)
    images, labels = digits()
    model = DigitClassifier(10, 37)
    model.build()
    kind = ImageInput((8, 8, 1), mean=[0.3], std=[0.4])
    values = np.stack([kind.arrays(kind.read(image))["values"] for image in images[:1200]])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit({"values": values}, labels[:1200], batch_size=32, epochs=11, verbose=0)
    return InputClassifier(model, kind, TASK, samples=images[1200:1221:7])
