"""Versions of Keras and TensorFlow that lack a private part: another way, or an error before anything is computed."""

import importlib.util
import sys
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import MultiHeadAttention, masks
from keras_attention.support import keras_private
from keras_attention.support.errors import UserError
from keras_attention.training.optim import Muon

IDS = np.array([[3, 5, 2, 0, 0], [4, 0, 0, 0, 0]])


@pytest.fixture
def imported_again():
    """Imports the file a second time, under another name, and returns it with the texts of its warnings."""

    def load():
        spec = importlib.util.spec_from_file_location("keras_private_again", keras_private.__file__)
        module = importlib.util.module_from_spec(spec)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            spec.loader.exec_module(module)
        return module, [str(warning.message) for warning in caught]

    return load


@pytest.fixture
def without_masks(imported_again, monkeypatch):
    monkeypatch.setitem(sys.modules, keras_private.MASKS, None)
    module, messages = imported_again()
    monkeypatch.setattr(masks, "keras_private", module)
    return module, messages


def attended(ids):
    """The output of an attention layer that sees padding through the implicit mask alone, and its own mask."""
    keras.utils.set_random_seed(3)
    x = keras.layers.Embedding(7, 6, mask_zero=True)(ids)
    y = MultiHeadAttention(num_heads=2, key_dim=3)(x, x)
    return np.asarray(y), np.asarray(masks.keras_mask(y))


def test_a_supported_keras_gives_no_warning(imported_again):
    assert imported_again()[1] == []


def test_masks_are_read_and_attached_without_the_private_module(without_masks):
    module, messages = without_masks
    assert messages == [
        f"Keras {keras.__version__} lacks keras.src.backend.common.masking, which Keras {module.TESTED} has: "
        "the attribute `_keras_mask` of tensors is used instead."
    ]
    output, mask = attended(IDS)
    np.testing.assert_array_equal(mask, IDS != 0)
    np.testing.assert_allclose(output[0, :3], attended(IDS[:1, :3])[0][0], atol=1e-6)


def test_a_mask_that_cannot_be_attached_is_an_error(without_masks):
    module, _ = without_masks
    with pytest.raises(UserError, match="a mask cannot be attached to a ndarray"):
        module.set_keras_mask(np.zeros(3), np.ones(3, bool))


def test_masks_of_keras_that_stand_elsewhere_are_an_error_and_not_overlooked(without_masks, monkeypatch):
    monkeypatch.setattr(keras.layers, "Masking", lambda: lambda x: x)  # as if it attached its mask in another way
    with pytest.raises(UserError, match=f"Keras {keras.__version__} lacks .* cannot be read"):
        masks.keras_mask(ops.ones((1, 2)))


def test_layers_are_found_by_their_attributes(imported_again, monkeypatch):
    class Inner(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.parts = [keras.layers.Dense(3), {"a": keras.layers.Dropout(0.1)}]

    class Outer(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner, self.norm = Inner(), keras.layers.LayerNormalization()

    model = Outer()
    expected = {id(layer) for layer in keras_private.layers_within(model)}
    assert len(expected) >= 4
    monkeypatch.delattr(keras.Layer, "_flatten_layers")
    module, messages = imported_again()
    assert "lacks Layer._flatten_layers" in messages[0]
    actual = module.layers_within(model)
    assert {id(layer) for layer in actual} == expected
    assert len(actual) == len(expected)


def test_weights_are_added_to_a_built_layer_while_it_is_unlocked():
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    with keras_private.adding_weights(layer):
        layer.add_weight(shape=(5,), name="more")
    assert len(layer.weights) == 3
    with pytest.raises(ValueError, match="You cannot add new elements"):
        layer.add_weight(shape=(5,), name="later")


def test_without_the_lock_keras_decides_about_further_weights():
    with keras_private.adding_weights(object()):
        pass


class OtherOptimizer:
    """Without Keras's method that sums the gradients of all replicas."""


def test_gradients_that_would_be_summed_twice_stop_a_training_on_several_devices():
    with pytest.raises(UserError, match=rf"Keras {keras.__version__} lacks Optimizer.* of 3 devices .* summed twice"):
        keras_private.keep_summed_gradients(OtherOptimizer(), 3)
    keras_private.keep_summed_gradients(OtherOptimizer(), 1)  # the sum over one device changes nothing
    optimizer = keras.optimizers.SGD()
    keras_private.keep_summed_gradients(optimizer, 3)
    assert optimizer._all_reduce_sum_gradients(["as", "given"]) == ["as", "given"]


@pytest.mark.parametrize("name", ["_should_use_adamw", "_muon_update_step"])
def test_a_method_of_muon_that_nothing_would_call_is_an_error(name, monkeypatch):
    monkeypatch.delattr(keras.optimizers.Muon, name)
    with pytest.raises(UserError, match=rf"Keras {keras.__version__} lacks Muon\.{name}, .* another optimizer"):
        Muon(0.1)


def test_a_program_is_traced_where_tensorflow_lacks_the_private_part(monkeypatch):
    import tensorflow as tf

    from keras_attention.runtime.stored_programs import stored_program
    from keras_attention.support import compile_cache

    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", None)
    dense = keras.layers.Dense(3)
    dense.build((None, 2))
    program = stored_program(dense.call, [tf.TensorSpec((None, 2))], dense, "private")
    x = np.ones((5, 2), "float32")
    np.testing.assert_allclose(program(tf.constant(x)), dense(x), atol=1e-6)
    assert compile_cache.has_cache()
