"""What is chosen for each device, and that nothing of it stays in a stored model."""

import keras
import numpy as np
import pytest
from models.tiny_bert import TINY, make_texts

from keras_attention.models import BertMaskedLM
from keras_attention.training import acceleration
from keras_attention.training.acceleration import (
    AMX,
    CLUSTERS,
    CPU,
    GPU,
    accelerate,
    description,
    in_float32,
)
from keras_attention.training.acceleration_settings import AccelerationSettings

BY_PARTS = "bfloat16 on a CPU with AMX, all but the products compiled with XLA."
MINE = "--tf_xla_clustering_debug=false"  # TensorFlow ends the process at a flag that it does not know


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    """The policy and the flags are as they were, afterwards."""
    monkeypatch.setenv("TF_XLA_FLAGS", MINE)
    monkeypatch.setenv("TF_SET_ONEDNN_FPMATH_MODE", "")
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize(
    ("device", "asked", "large", "chosen", "sentence"),
    [
        (GPU, (None, None), True, (True, True), "bfloat16 on a GPU, compiled with XLA."),
        (GPU, (None, None), False, (False, True), "float32 on a GPU, compiled with XLA."),
        (GPU, (False, None), True, (False, True), "float32 on a GPU, compiled with XLA."),
        (CPU, (None, None), True, (False, True), "float32 on a CPU, compiled with XLA."),
        (CPU, (True, False), True, (True, False), "bfloat16 on a CPU."),
        (AMX, (None, None), False, (False, True), "float32 on a CPU with AMX, compiled with XLA."),
        (AMX, (None, None), True, (True, False), BY_PARTS),
        (AMX, (None, False), True, (True, False), BY_PARTS),
        (AMX, (None, True), True, (False, True), "float32 on a CPU with AMX, compiled with XLA."),
        (AMX, (False, False), True, (False, False), "float32 on a CPU with AMX."),
        (AMX, (True, True), True, (True, True), "bfloat16 on a CPU with AMX, compiled with XLA."),
    ],
)
def test_what_is_left_open_is_chosen_for_the_device(monkeypatch, device, asked, large, chosen, sentence):
    monkeypatch.setattr(acceleration, "find_device", lambda: device)
    settings = accelerate(AccelerationSettings(*asked), large)
    assert (settings.mixed_precision, settings.jit_compile) == chosen
    assert description(settings) == f"Computing in {sentence}"
    assert keras.config.dtype_policy().name == ("mixed_bfloat16" if chosen[0] else "float32")
    by_parts = sentence == BY_PARTS
    assert acceleration.os.environ["TF_XLA_FLAGS"] == (f"{MINE} {CLUSTERS}" if by_parts else MINE)


def test_a_model_is_stored_in_float32():
    keras.config.set_dtype_policy("mixed_bfloat16")
    trained = BertMaskedLM(**TINY)
    trained.build()
    keras.config.set_dtype_policy("float32")
    model, texts = in_float32(trained), make_texts()
    plain = BertMaskedLM(**TINY)
    plain.build()
    plain.set_weights(trained.get_weights())
    np.testing.assert_array_equal(model(texts), plain(texts))
    assert np.abs(model(texts) - trained(texts)).max() > 0
    assert in_float32(plain) is plain
