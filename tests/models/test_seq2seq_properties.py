"""What must hold for the model whatever its weights."""

import numpy as np
import pytest
from layer_checks import assert_all_close
from models.tiny_models import FORMS, B, S, T, make_batch, make_model, outputs_of, shared_model

pytestmark = pytest.mark.sampled(4)

EVERY_FORM = pytest.mark.parametrize("form", FORMS)


def seed_state(model):
    return model.dropout_layer.seed_generator.state


def assert_same(outputs, expected, tolerance=0.0):
    pairs = [(a, e) for a, e in zip(outputs, expected, strict=True) if e is not None]
    assert_all_close([a for a, _ in pairs], [e for _, e in pairs], tolerance)


def rows(outputs, which):
    return [None if output is None else output[which] for output in outputs]


@EVERY_FORM
def test_padding_changes_nothing(form):
    model, batch = shared_model(form), make_batch()
    longer = {**batch, "source_ids": np.pad(batch["source_ids"], ((0, 0), (0, 4)))}
    logits, attention = outputs_of(model, longer)
    if attention is not None:
        assert (attention[:, :, S:] == 0).all()
        attention = attention[:, :, :S]
    assert_same([logits, attention], outputs_of(model, batch), 1e-6)


@EVERY_FORM
def test_rows_are_independent(form):
    model, batch = shared_model(form), make_batch()
    outputs = outputs_of(model, batch)
    for row in range(B):
        alone = {name: ids[row : row + 1] for name, ids in batch.items()}
        assert_same(outputs_of(model, alone), rows(outputs, slice(row, row + 1)), 1e-5)
    other = {name: ids.copy() for name, ids in batch.items()}
    other["source_ids"][1], other["target_ids"][1] = 5, 7
    others = outputs_of(model, other)
    assert_same(rows(others, [0, 2]), rows(outputs, [0, 2]))
    assert (others[0][1] != outputs[0][1]).any()


@EVERY_FORM
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_later_targets_change_nothing_before_them(form, training):
    model, batch = shared_model(form, dropout=0.3), make_batch()
    state = np.asarray(seed_state(model))
    outputs = outputs_of(model, batch, training=training)
    for t in range(1, T):
        changed = {**batch, "target_ids": batch["target_ids"].copy()}
        changed["target_ids"][:, t:] += 1
        seed_state(model).assign(state)
        others = outputs_of(model, changed, training=training)
        assert_same(rows(others, np.s_[:, :t]), rows(outputs, np.s_[:, :t]))
        assert (others[0][:, t] != outputs[0][:, t]).any()


@EVERY_FORM
def test_every_source_token_matters(form):

    model, batch = shared_model(form), make_batch()
    logits, _ = outputs_of(model, batch)
    for s in range(S - 1):
        changed = {**batch, "source_ids": batch["source_ids"].copy()}
        changed["source_ids"][0, s] = 1
        others, _ = outputs_of(model, changed)
        assert (np.abs(others[0] - logits[0]).max(axis=-1) > 1e-6).all()


@EVERY_FORM
def test_attention_is_a_distribution_over_real_tokens(form):
    model, batch = shared_model(form), make_batch()
    _, attention = outputs_of(model, batch)
    if form == "none":
        with pytest.raises(ValueError, match='A model with attention="none" has no attention scores to return.'):
            model(batch, return_attention_scores=True)
        return
    assert attention.shape == (B, T, S)
    assert attention.dtype == "float32"
    real = batch["source_ids"] != 0
    assert (attention[~np.broadcast_to(real[:, None], attention.shape)] == 0).all()
    distance = np.abs(np.arange(S) - np.arange(T)[:, None])
    if form == "local_m":
        expected = (real[:, None] & (distance <= 2)).any(axis=-1)  # the window lies behind a short sentence
        assert (attention[:, distance > 2] == 0).all()
    else:
        expected = np.ones((B, T))
    if form == "local_p":
        assert (attention.sum(axis=-1) <= 1 + 1e-6).all()
        assert (attention.sum(axis=-1) > 0).all()
    else:
        np.testing.assert_allclose(attention.sum(axis=-1), expected, atol=1e-6)


@EVERY_FORM
def test_dropout_acts_only_while_training(form):
    model, batch = shared_model(form, dropout=0.3), make_batch()
    expected = outputs_of(shared_model(form), batch)
    assert_same(outputs_of(model, batch), expected)
    assert_same(outputs_of(shared_model(form), batch, training=True), expected, 1e-5)
    dropped, others = (outputs_of(model, batch, training=True)[0] for _ in range(2))
    assert np.abs(dropped - expected[0]).max() > 1e-2
    assert np.abs(dropped - others).max() > 1e-2


@EVERY_FORM
def test_dropout_draws_one_mask_for_each_place(form):
    """Before each encoder layer, after the last, on the target embeddings, between decoder layers and on o_t."""
    model = shared_model(form, dropout=0.3)
    before = np.asarray(seed_state(model))
    outputs_of(model, make_batch(), training=True)
    places = model.num_layers + 1 + 1 + (model.num_layers > 1) + 1
    np.testing.assert_array_equal(np.asarray(seed_state(model)) - before, [0, places])


@EVERY_FORM
def test_a_graph_computes_the_same(form):
    model, batch = shared_model(form), make_batch()
    assert_same(outputs_of(model, batch, "graph"), outputs_of(model, batch), 1e-5)


@pytest.mark.parametrize("form", ["local_m", "local_p", "none"])
def test_xla_computes_the_same(form):
    model, batch = shared_model(form), make_batch()
    assert_same(outputs_of(model, batch, "xla"), outputs_of(model, batch), 1e-5)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_a_graph_for_all_shapes(training):
    import tensorflow as tf

    model = shared_model("additive", dropout=0.3)
    ids = tf.TensorSpec((None, None), tf.int32)

    @tf.function(input_signature=[{"source_ids": ids, "target_ids": ids}])
    def compute(batch):
        return model(batch, training=training, return_attention_scores=True)

    state = np.asarray(seed_state(model))
    for batch in (make_batch(), {name: ids[1:, :2] for name, ids in make_batch().items()}):
        seed_state(model).assign(state)
        outputs = compute(batch)
        seed_state(model).assign(state)
        assert_same([np.asarray(x) for x in outputs], outputs_of(model, batch, training=training), 1e-5)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "float16"])
@pytest.mark.parametrize("form", ["additive", "local_p", "none"])
def test_half_precision_stays_near(form, dtype):
    model, batch = make_model(dtype=dtype, **FORMS[form]), make_batch()
    half, whole = outputs_of(model, batch), outputs_of(shared_model(form), batch)
    assert model.encode(batch["source_ids"])["value"].dtype == dtype.removeprefix("mixed_")
    for output, expected in zip(half, whole, strict=True):
        assert expected is None or output.dtype == "float32"
    assert_same(half, whole, 0.15 if "bfloat16" in dtype else 0.02)
    training, _ = outputs_of(make_model(0.3, dtype=dtype, **FORMS[form]), batch, training=True)
    assert np.isfinite(training).all()
    assert training.dtype == "float32"
