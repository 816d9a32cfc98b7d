"""A toy network of pictures is fine-tuned like one of texts; all of it is here: a network and a registration."""

import json

import keras
import numpy as np
import pytest
from inputs.toy_classifier import digits
from keras import ops
from PIL import Image

import keras_attention
from keras_attention import load
from keras_attention.catalog.classification import image_classification
from keras_attention.cli.main import main
from keras_attention.support.errors import UserError
from keras_attention.zoo.schema import ARCHITECTURES, Architecture, number, register, whole

SIDE = 8


@keras.saving.register_keras_serializable(package="keras_attention_tests")
class DigitNetwork(keras.Model):
    """logits = W_2 relu(W_1 pixels)"""

    presets = {"mini": {"hidden_dim": 53}}
    usual_learning_rate = 5e-3

    def __init__(self, num_labels, hidden_dim, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.settings = {"num_labels": num_labels, "hidden_dim": hidden_dim, "dropout": dropout}
        self.hidden = keras.layers.Dense(hidden_dim, activation="relu", name="hidden")
        self.dropout_layer = keras.layers.Dropout(dropout)
        self.output_dense = keras.layers.Dense(num_labels, name="output_dense")

    def build(self, input_shape=None):
        self.hidden.build((None, SIDE * SIDE))
        self.output_dense.build((None, self.settings["hidden_dim"]))
        self.built = True

    def pooled(self, inputs, training=None):
        return self.hidden(ops.reshape(inputs["values"], (-1, SIDE * SIDE)))

    def call(self, inputs, training=None):
        return self.output_dense(self.dropout_layer(self.pooled(inputs), training=training))

    @property
    def head(self):
        return [self.output_dense]

    def layer_groups(self):
        return []

    @classmethod
    def from_trained(cls, network, num_labels, *, head="new", dtype=None, **changes):
        model = cls(**network.settings | changes | {"num_labels": num_labels}, dtype=dtype)
        model.build()
        model.hidden.set_weights(network.hidden.get_weights())
        if head == "kept":
            model.output_dense.set_weights(network.output_dense.get_weights())
        return model

    def get_config(self):
        return {**super().get_config(), **self.settings}


@pytest.fixture(autouse=True)
def registered():
    register(
        Architecture(
            name="DigitNetwork",
            model="finetuning.test_pictures:DigitNetwork",
            settings={"num_labels": whole(1, 1000), "hidden_dim": whole(1, 1000), "dropout": number(0, 0.99)},
            parameters=lambda model: (SIDE * SIDE + 1 + model["num_labels"]) * model["hidden_dim"] + 1000,
            task=image_classification(lambda model: (SIDE, SIDE, 1)),
            classifier="DigitNetwork",
            networks={"digits": {}},
        )
    )
    yield
    del ARCHITECTURES["DigitNetwork"]


def write_table(folder, numbers, name="table.csv"):
    """A table with names of PNG files and digits."""
    images, labels = digits()
    rows = []
    for number_ in numbers:
        Image.fromarray((images[number_] * 255).astype("uint8")).save(folder / f"{number_}.png")
        rows.append(f"{number_}.png,digit {labels[number_]}\n")
    (folder / name).write_text("file,digit\n" + "".join(rows))
    return str(folder / name)


FLAGS = ("--text", "file", "--label", "digit", "--network", "digits", "--no-jit-compile", "--json")


@pytest.mark.slow
def test_from_a_table_of_files_to_answers(tmp_path, capsys):
    table, test = write_table(tmp_path, range(600)), write_table(tmp_path, range(900, 1000), "test.csv")
    out = tmp_path / "zoo" / "mine"
    assert main(["finetune", table, *FLAGS, "--test", test, "--out", str(out), "--epochs", "13"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scores"]["accuracy"] > 88
    assert report["baseline"]["accuracy"] > 80  # logistic regression on the pixels
    assert main(["zoo", "verify", str(out)]) == 0
    picture = str(tmp_path / "901.png")
    classifier = load(out)
    assert classifier.classify(picture) == classifier.classify([picture])[0] in classifier.task["label_names"]


@pytest.mark.slow
def test_from_arrays_in_python_and_on_from_there(tmp_path):
    images, labels = digits()
    names = [f"digit {label}" for label in labels[:300]]
    options = {"network": "digits", "epochs": 3, "jit_compile": False}
    classifier = keras_attention.finetune(images[:300], names, out=tmp_path / "mine", **options)
    assert load(tmp_path / "mine").classify(images[:7]) == classifier.classify(images[:7])
    even = ["even" if label % 2 == 0 else "odd" for label in labels[:200]]
    further = keras_attention.finetune(images[:200], even, start=tmp_path / "mine", epochs=2, jit_compile=False)
    right = np.mean(np.array(further.classify(images[300:500])) == np.where(labels[300:500] % 2, "odd", "even"))
    assert right > 0.75


def test_a_network_for_images_refuses_options_for_texts(tmp_path):
    images, labels = digits()
    names = [str(label) for label in labels[:40]]
    with pytest.raises(UserError, match="--freeze needs a network with layers in order. Found: a DigitNetwork"):
        keras_attention.finetune(images[:40], names, network="digits", freeze=1, task="multiclass", jit_compile=False)
    with pytest.raises(UserError, match="--layers has no effect on a DigitNetwork"):
        keras_attention.finetune(images[:40], names, network="digits", layers=1, task="multiclass")
    with pytest.raises(UserError, match="nowhere.png does not exist"):
        keras_attention.finetune(["nowhere.png", *images[1:40]], names, network="digits", task="multiclass")
