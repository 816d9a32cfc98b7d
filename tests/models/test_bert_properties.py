"""What must hold for a BERT whatever its weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close, weighted_sum
from models.tiny_bert import (
    EVERY_FORM,
    EVERY_MODEL,
    FORMS,
    MODELS,
    TINY,
    B,
    T,
    check_rows,
    make_classifier,
    make_encoder,
    make_masked_lm,
    make_texts,
    outputs_of,
    packed,
)

pytestmark = pytest.mark.sampled(4)


@EVERY_FORM
@EVERY_MODEL
def test_packing_changes_nothing(form, model):
    model, texts = MODELS[model](**FORMS[form]), make_texts()
    first, second = ({name: ids[row, :length] for name, ids in texts.items()} for row, length in ((0, T), (1, 4)))
    together, weights = outputs_of(model, packed([first, second]))
    alone = [outputs_of(model, {name: ids[None] for name, ids in text.items()}) for text in (first, second)]
    assert np.isfinite(together).all()
    blocks = [slice(0, T), slice(T, T + 4)]
    parts = [together] if together.ndim == 2 else [together[:, block] for block in blocks]  # a classifier sees one
    assert_all_close(parts, [outputs for outputs, _ in alone[: len(parts)]], 1e-5)
    between = np.ones(weights.shape, bool)
    for block, (_, expected) in zip(blocks, alone, strict=True):
        assert_all_close([weights[..., block, block]], [expected], 1e-5)
        between[..., block, block] = False
    assert not weights[between].any()


@EVERY_FORM
@EVERY_MODEL
def test_padding_and_company_change_nothing(form, model):
    model, texts = MODELS[model](**FORMS[form]), make_texts()
    (expected,) = outputs_of(model, texts, scores=False)
    assert np.isfinite(expected).all()
    for row in range(B):
        length = np.count_nonzero(texts["token_ids"][row])
        alone = {name: ids[row : row + 1, :length] for name, ids in texts.items()}
        kept = expected[row : row + 1] if expected.ndim == 2 else expected[row : row + 1, :length]
        assert_all_close(outputs_of(model, alone, scores=False), [kept], 1e-5)


@EVERY_FORM
@pytest.mark.parametrize("scores", [False, True])
def test_vectors_of_padding_change_nothing(form, scores):
    encoder, texts = make_encoder(**FORMS[form]), make_texts()
    expected = outputs_of(encoder, texts, scores=scores)[0]
    table = np.array(encoder.token_embedding.embeddings)
    table[0] = 1e4
    encoder.token_embedding.embeddings.assign(table)
    changed = {**texts, "segment_ids": np.where(texts["token_ids"] == 0, 1, texts["segment_ids"])}
    check_rows(outputs_of(encoder, changed, scores=scores)[0], expected, texts)


def test_token_ids_need_no_dict():
    token_ids = make_texts()["token_ids"]
    for make in MODELS.values():
        model, by_name = make(), {"token_ids": token_ids}
        assert_all_close([model(token_ids)], [model(by_name)], 0)
        options = {"return_attention_scores": True}
        assert_all_close(model(token_ids, **options), model(by_name, **options), 0)


def test_a_row_of_padding_is_finite():
    for make in MODELS.values():
        for outputs in outputs_of(make(), {"token_ids": np.zeros((2, T), "int32")}):
            assert np.isfinite(outputs).all()


def test_inputs_left_out_have_their_defaults():
    encoder, texts = make_encoder(), make_texts()
    texts["segment_ids"] = np.zeros((B, T), "int32")
    texts["position_ids"] = np.tile(np.arange(T, dtype="int32"), (B, 1))
    texts["block_ids"] = np.full((B, T), 3, "int32")
    check_rows(encoder({"token_ids": texts["token_ids"]}), encoder(texts), texts)


@EVERY_FORM
def test_masked_positions_pick_from_all_logits(form):
    model, texts = make_masked_lm(**FORMS[form]), make_texts()
    positions = np.array([[5, 0, 2], [3, 3, 0], [1, 0, 0]], "int32")
    expected = np.take_along_axis(np.asarray(model(texts)), positions[:, :, None], axis=1)
    for execution in ("eager", "graph", "xla"):
        logits, _ = outputs_of(model, {**texts, "masked_positions": positions}, execution)
        assert_all_close([logits], [expected], 1e-5)
        assert logits.dtype == np.float32


@EVERY_FORM
def test_positions_pick_from_all_vectors(form):
    """Also of packed texts, where every token has a mask of its own."""
    encoder, texts = make_encoder(**FORMS[form]), packed([{n: x[0] for n, x in make_texts().items()}] * 2)
    positions = np.array([[0, 9, 3, 9]], "int32")
    expected = np.take_along_axis(np.asarray(encoder(texts)), positions[:, :, None], axis=1)
    assert_all_close([encoder(texts, output_positions=positions)], [expected], 1e-5)
    with pytest.raises(ValueError, match="output_positions"):
        encoder(texts, output_positions=positions, return_attention_scores=True)


@EVERY_FORM
def test_the_last_layer_of_a_classifier_computes_one_vector(form):
    model, texts = make_classifier(**FORMS[form]), make_texts()
    whole, _ = model(texts, return_attention_scores=True)
    assert_all_close([model(texts)], [whole], 1e-5)
    graph = tf.function(model).get_concrete_function(texts).graph
    wide = [
        operation.outputs[0].shape.as_list()
        for operation in graph.get_operations()
        if operation.type == "MatMul" and operation.outputs[0].shape[-1] == TINY["intermediate_dim"]
    ]
    assert wide == [[B * T, TINY["intermediate_dim"]], [B, TINY["intermediate_dim"]]]


@EVERY_FORM
@EVERY_MODEL
def test_gradients_flow_to_every_weight(form, model):
    model, texts = MODELS[model](**FORMS[form], dropout=0.1), make_texts()
    texts["token_ids"][texts["token_ids"] == 0] = 3
    with tf.GradientTape() as tape:
        loss = weighted_sum(model(texts, training=True))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        gradient = np.asarray(tf.convert_to_tensor(gradient))
        assert np.isfinite(gradient).all(), weight.path
        assert gradient.any() or "key/bias" in weight.path, weight.path


@EVERY_FORM
@EVERY_MODEL
@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_graph_and_xla_compute_the_same(form, model, execution):
    model, inputs = MODELS[model](**FORMS[form]), packed([{n: x[0] for n, x in make_texts().items()}])
    assert_all_close(outputs_of(model, inputs, execution), outputs_of(model, inputs), 1e-5)


@EVERY_MODEL
@pytest.mark.parametrize(("dtype", "tolerance"), [("mixed_float16", 0.1), ("mixed_bfloat16", 0.5)])
def test_half_precision_stays_near(model, dtype, tolerance):
    texts = make_texts()
    half, whole = (outputs_of(MODELS[model](**options), texts) for options in ({"dtype": dtype}, {}))
    assert_all_close(half, whole, tolerance)
    assert model == "encoder" or {x.dtype for x in half} == {np.dtype("float32")}


@EVERY_FORM
@EVERY_MODEL
def test_saved_weights_give_the_same_bits(form, model, tmp_path):
    model, texts = MODELS[model](**FORMS[form], activation="gelu_approximate"), make_texts()
    model.save_weights(tmp_path / "model.weights.h5")
    other = type(model).from_config(model.get_config())
    other.build()
    other.load_weights(tmp_path / "model.weights.h5")
    assert_all_close(outputs_of(other, texts), outputs_of(model, texts), 0)
    for name, value in {**TINY, **FORMS[form]}.items():
        assert other.get_config()[name] == value
    model.save(tmp_path / "model.keras")
    whole = keras.saving.load_model(tmp_path / "model.keras")
    assert_all_close(outputs_of(whole, texts), outputs_of(model, texts), 0)


@EVERY_FORM
def test_a_classifier_starts_from_a_language_model(form):
    masked_lm, classifier, texts = make_masked_lm(**FORMS[form]), make_classifier(**FORMS[form]), make_texts()
    for weight in classifier.encoder.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    classifier.encoder.set_weights(masked_lm.encoder.get_weights())
    names = [
        [weight.path.partition("encoder/")[2] for weight in model.encoder.weights] for model in (masked_lm, classifier)
    ]
    assert names[0] == names[1]
    assert_all_close(outputs_of(classifier.encoder, texts), outputs_of(masked_lm.encoder, texts), 0)


@pytest.mark.parametrize("pooler", [True, False])
def test_pooling_over_all_tokens(pooler):
    texts = make_texts()
    vectors = None
    for pooling in ("cls", "mean", "both"):
        model = make_classifier(pooler=pooler, pooling=pooling)
        if vectors is None:
            weights, vectors = model.encoder.get_weights(), np.array(model.encoder(texts))
            lengths = np.sum(np.array(texts["token_ids"]) != 0, axis=1)
            means = np.stack([row[:length].mean(axis=0) for row, length in zip(vectors, lengths, strict=True)])
        model.encoder.set_weights(weights)
        expected = {"cls": vectors[:, 0], "mean": means, "both": np.concatenate([vectors[:, 0], means], axis=1)}
        np.testing.assert_allclose(model.pooled(texts), expected[pooling], atol=1e-5)
        logits, _ = model(texts, return_attention_scores=True)
        np.testing.assert_allclose(model(texts), logits, atol=1e-5)
        padded = {name: np.pad(np.array(ids), ((0, 0), (0, 3))) for name, ids in texts.items()}
        np.testing.assert_allclose(model(padded), logits, atol=1e-5)


def test_pooling_leaves_out_the_padding_of_blocks():
    model = make_classifier(pooling="mean")
    text = {"token_ids": np.array([[2, 5, 3]]), "block_ids": np.array([[1, 1, 1]])}
    padded = {"token_ids": np.array([[2, 5, 3, 4, 7]]), "block_ids": np.array([[1, 1, 1, 0, 0]])}
    np.testing.assert_allclose(model.pooled(padded), model.pooled(text), atol=1e-5)


def test_poolers():
    texts = make_texts()
    plain, relu = make_classifier(pooler=False), make_classifier(pooler_activation="relu")
    for model, activation in ((plain, None), (relu, lambda x: np.maximum(x, 0))):
        x = np.asarray(model.encoder(texts))[:, 0]
        if activation is not None:
            kernel, bias = model.pooler_dense.get_weights()
            x = activation(x @ kernel + bias)
        kernel, bias = model.output_dense.get_weights()
        assert_all_close([model(texts)], [x @ kernel + bias], 1e-5)


def test_no_segments():
    encoder, texts = make_encoder(num_segments=0), make_texts()
    assert not any("segment" in weight.path for weight in encoder.weights)
    with_segments = make_encoder()
    table = with_segments.segment_embedding.embeddings
    table.assign(np.zeros(table.shape))
    for name in ("token_embedding", "position_embedding", "embedding_norm"):
        getattr(with_segments, name).set_weights(getattr(encoder, name).get_weights())
    for layer, other in zip(with_segments.encoder_layers, encoder.encoder_layers, strict=True):
        layer.set_weights(other.get_weights())
    check_rows(encoder({"token_ids": texts["token_ids"]}), with_segments(texts), texts)
    with pytest.raises(ValueError, match="inputs are token_ids, position_ids, block_ids. Received: segment_ids"):
        encoder(texts)
