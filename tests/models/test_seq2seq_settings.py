"""Settings, their errors, saving, and training through Keras."""

import json

import keras
import numpy as np
import pytest
from layer_checks import assert_all_close
from models.tiny_models import FORMS, SIZES, make_batch, make_model, outputs_of, shared_model

from keras_attention.models import AttentionSeq2Seq

pytestmark = pytest.mark.sampled(4)

EVERY_FORM = pytest.mark.parametrize("form", FORMS)


def assert_same_model(model, other):
    """Equal settings and outputs, bit for bit."""
    assert type(other) is AttentionSeq2Seq
    assert other.get_config() == model.get_config()
    assert [weight.path for weight in other.weights] == [weight.path for weight in model.weights]
    batch = make_batch()
    for output, expected in zip(outputs_of(other, batch), outputs_of(model, batch), strict=True):
        np.testing.assert_array_equal(output, expected)


@EVERY_FORM
def test_the_config_makes_the_same_model(form):
    settings = {**SIZES, "dropout": 0.2, **FORMS[form]}
    model = make_model(**settings)
    config = json.loads(json.dumps(model.get_config()))
    for name, setting in settings.items():
        assert config[name] == setting, name
    copy = AttentionSeq2Seq.from_config(config)
    copy.build()
    copy.set_weights(model.get_weights())
    assert_same_model(model, copy)


@EVERY_FORM
def test_saving_keeps_settings_and_outputs(form, tmp_path):
    model = make_model(dropout=0.2, **FORMS[form])
    model.save(tmp_path / "model.keras")
    assert_same_model(model, keras.saving.load_model(tmp_path / "model.keras"))
    model.save_weights(tmp_path / "model.weights.h5")
    copy = make_model(dropout=0.2, seed=1, name=model.name, **FORMS[form])
    copy.load_weights(tmp_path / "model.weights.h5")
    assert_same_model(model, copy)


def test_saving_keeps_the_precision(tmp_path):
    model = make_model(dtype="mixed_bfloat16", **FORMS["general"])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.compute_dtype == loaded.attention_layer.compute_dtype == "bfloat16"
    assert_same_model(model, loaded)


def test_the_first_call_builds():
    model = AttentionSeq2Seq(**SIZES, **FORMS["additive"])
    model(make_batch())
    names = [weight.path.split("/", 1)[1] for weight in shared_model("additive").weights]
    assert [weight.path.split("/", 1)[1] for weight in model.weights] == names


def test_a_symbolic_call_knows_shapes_and_dtypes():
    model = make_model(dtype="mixed_bfloat16", **FORMS["additive"])
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source_ids", "target_ids")}
    logits, attention = model(inputs, return_attention_scores=True)
    assert (logits.shape, logits.dtype) == ((None, None, 17), "float32")
    assert (attention.shape, attention.dtype) == ((None, None, None), "float32")


ERRORS = {
    **{
        f"{name}={value}": ({name: value}, f"`{name}` must be a positive integer. Received: {name}={value}")
        for name in (*SIZES, "num_layers", "attention_window")
        for value in (0, -2, 2.5, True)
    },
    "cell": ({"cell": "rnn"}, "`cell` must be one of gru, lstm. Received: cell=rnn"),
    "attention": (
        {"attention": "multi"},
        "`attention` must be one of additive, dot, general, concat, none. Received: attention=multi",
    ),
    "attention_mode": (
        {"attention_mode": "local"},
        "`attention_mode` must be one of global, local_m, local_p. Received: attention_mode=local",
    ),
    "tie_embeddings": (
        {"tie_embeddings": True},
        "`tie_embeddings` must be one of none, target, all. Received: tie_embeddings=True",
    ),
    "odd": ({"hidden_dim": 11}, "`hidden_dim` must be even. Received: hidden_dim=11"),
    "dropout=1": ({"dropout": 1}, "`dropout` must be in [0, 1). Received: dropout=1"),
    "dropout<0": ({"dropout": -0.1}, "`dropout` must be in [0, 1). Received: dropout=-0.1"),
    "local additive": (
        {"attention": "additive", "attention_mode": "local_p"},
        "`attention_mode` local_p needs one of Luong's scores ('dot', 'general', 'concat'). "
        "Received: attention=additive",
    ),
    "local none": (
        {"attention": "none", "attention_mode": "local_m"},
        "`attention_mode` local_m needs one of Luong's scores ('dot', 'general', 'concat'). Received: attention=none",
    ),
    "two vocabularies": (
        {"tie_embeddings": "all"},
        '`tie_embeddings="all"` needs one vocabulary for both sides. Received: '
        "source_vocabulary_size=13, target_vocabulary_size=17",
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("settings", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_value(settings, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        AttentionSeq2Seq(**{**SIZES, **settings})
    assert str(caught.value) == message


@pytest.mark.slow
def test_two_steps_of_fit():
    model = make_model(dropout=0.2, **FORMS["general"])
    batch = {name: np.tile(ids[:, :3], (2, 1)) for name, ids in make_batch().items()}
    labels = np.roll(batch["target_ids"], -1, axis=1)
    before = [np.array(weight) for weight in model.trainable_weights]
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0))
    history = model.fit(batch, labels, batch_size=3, epochs=1, verbose=0)
    assert model.optimizer.iterations == 2
    assert np.isfinite(history.history["loss"]).all()
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert not np.array_equal(weight, old), weight.path
    predicted = model.predict(batch, batch_size=3, verbose=0)
    assert_all_close([predicted], [outputs_of(model, batch)[0]], 1e-5)
