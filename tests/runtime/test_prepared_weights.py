"""Compiled searches read copies of weights: no older than the weights, in whatever way these change."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts, write_tiny_entry

from keras_attention.models import Transformer
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.translator import Translator
from keras_attention.runtime import batching
from keras_attention.server import ServerSettings
from keras_attention.tokenizers.special_tokens import END_ID, START_ID

BATCH = {"source_ids": np.array([[5, 7, 11, 3]], "int32"), "target_ids": np.array([[2, 5, 7]], "int32")}
LABELS = np.array([[5, 7, 3]], "int32")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def transformer_parts(**settings):
    _, source, target = tiny_parts()
    keras.utils.set_random_seed(5)
    sizes = {"hidden_dim": 12, "intermediate_dim": 19, "num_heads": 3, "num_decoder_layers": 2, "dropout": 0.0}
    model = Transformer(source.vocabulary_size, target.vocabulary_size, **sizes, tie_embeddings="target", **settings)
    model.build()
    return model, source, target


PARTS = {"recurrent": tiny_parts, "transformer": transformer_parts}
every_model = pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)


def check(translator, text=ENGLISH[0], **options):
    """The first answer has the log probability that the model itself computes for its tokens: returns it."""
    model = translator.network
    answer = translator.hypotheses([text], **options)[0][0]
    source_ids = np.append(translator.source_tokenizer.encode([text])[0], END_ID)[None].astype("int32")
    logits = model({"source_ids": source_ids, "target_ids": np.array([[START_ID, *answer.token_ids[:-1]]])})
    log_probs = keras.ops.convert_to_numpy(ops.log_softmax(logits))[0]  # (T, V)
    expected = log_probs[np.arange(len(answer.token_ids)), list(answer.token_ids)].sum()
    np.testing.assert_allclose(answer.log_prob, expected, atol=1e-4)
    return answer.log_prob


def scaled(model):
    return [1.2 * weight for weight in model.get_weights()]


def set_all(model, tmp_path):
    model.set_weights(scaled(model))


def assign_one(model, tmp_path):
    last = [weight for weight in model.weights if len(weight.shape) == 1][-1]
    last.assign(last + np.linspace(0, 1, last.shape[0]))


def load_file(model, tmp_path):
    before = model.get_weights()
    model.set_weights(scaled(model))
    model.save_weights(tmp_path / "other.weights.h5")
    model.set_weights(before)
    model.load_weights(tmp_path / "other.weights.h5")


def restore_checkpoint(model, tmp_path):
    before, variables = model.get_weights(), {str(i): w.value for i, w in enumerate(model.weights)}
    model.set_weights(scaled(model))
    path = tf.train.Checkpoint(**variables).save(tmp_path / "checkpoint")
    model.set_weights(before)
    tf.train.Checkpoint(**variables).restore(path)


def fit(model, tmp_path):
    model.compile(keras.optimizers.Adam(0.1), LOSS)
    model.fit(BATCH, LABELS, verbose=0)


def own_compiled_loop(model, tmp_path):
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build(model.trainable_variables)

    @tf.function
    def update():
        with tf.GradientTape() as tape:
            loss = LOSS(LABELS, model(BATCH))
        optimizer.apply(tape.gradient(loss, [v.value for v in model.trainable_variables]))

    update()


def averaged_weights(model, tmp_path):
    optimizer = keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.5)
    optimizer.build(model.trainable_variables)
    for average, weight in zip(optimizer._model_variables_moving_average, model.trainable_variables, strict=True):
        average.assign(1.2 * weight)
    optimizer.finalize_variable_values(model.trainable_variables)


def raw_operation(model, tmp_path):
    for weight in model.weights:
        tf.raw_ops.AssignVariableOp(resource=weight.value.handle, value=weight.value * 1.2)


WAYS = (
    set_all,
    assign_one,
    load_file,
    restore_checkpoint,
    fit,
    own_compiled_loop,
    averaged_weights,
    raw_operation,
)


@functools.cache
def loaded(make_parts, folder):
    write_tiny_entry(folder / "tiny", make_parts())
    return load_pipeline(folder / "tiny", "translate")


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("change", WAYS)
def test_changed_weights_are_used(parts, change, tmp_path, tmp_path_factory):
    translator = loaded(parts, tmp_path_factory.getbasetemp() / parts.__name__)
    before = check(translator)
    "".join(translator.stream(ENGLISH[0]))
    change(translator.model, tmp_path)
    streamed = "".join(translator.stream(ENGLISH[0]))
    assert abs(check(translator) - before) > 1e-3
    assert streamed == translator.translate(ENGLISH[0], beam_size=1)


@pytest.mark.slow
@every_model
def test_a_model_that_was_given_is_followed(parts):
    model, source, target = parts()
    translator = Translator(model, source, target, DECODING)
    before = check(translator)
    set_all(model, None)
    assert abs(check(translator) - before) > 1e-3


@pytest.mark.slow
@every_model
def test_only_an_unreferenced_model_is_prepared_once(parts, tmp_path):
    write_tiny_entry(tmp_path / "tiny", parts())
    translator = load_pipeline(tmp_path / "tiny", "translate")
    before = check(translator)
    translator.attention_view(ENGLISH[0])  # the package itself reads the network without giving it away
    network = translator.network
    set_all(network, None)
    unnoticed = translator.hypotheses(ENGLISH[:1])[0][0].log_prob  # the small weights are copies
    assert translator.model is network
    assert abs(check(translator) - unnoticed) > 1e-3
    network.set_weights([weight / 1.2 for weight in network.get_weights()])
    np.testing.assert_allclose(check(translator), before, atol=1e-4)


@pytest.mark.slow
def test_weights_may_change_during_a_stream():
    """From then on, the decoder's output is one vector, so that each step gives the same token."""
    translator = Translator(*transformer_parts(), DECODING)
    tokens = translator.compiled.stream(np.array([[5, 7, 11, 3]], "int32"), 13, 13)
    next(tokens)
    table, wanted = ops.convert_to_numpy(translator.network.target_embedding.embeddings), 11
    scale, shift = [weight for weight in translator.network.weights if len(weight.shape) == 1][-2:]
    scale.assign(0.0 * scale)
    shift.assign(table[wanted])
    expected = END_ID + 1 + np.argmax(table[END_ID + 1 :] @ table[wanted])
    assert list(tokens) == [expected] * 12


@pytest.mark.slow
@every_model
def test_attention_weights_follow_changes(parts):
    translator = Translator(*parts(), DECODING)
    before = translator.compiled.attention(BATCH["source_ids"], LABELS[:, None])
    set_all(translator.network, None)
    after = translator.compiled.attention(BATCH["source_ids"], LABELS[:, None])[0, 0]
    weights = translator.network.cross_attention(BATCH)[0]  # (layers, heads, L, S)
    np.testing.assert_allclose(after, weights, atol=1e-5)
    assert np.abs(after - before[0, 0]).max() > 1e-3


@pytest.mark.slow
def test_batches_of_the_server_use_changed_weights():
    translator = Translator(*transformer_parts(), DECODING)
    batching.share_batches(translator, ServerSettings(max_batch=2).checked(), lambda size: None)
    before = check(translator)
    set_all(translator.model, None)
    assert abs(check(translator) - before) > 1e-3


@pytest.mark.slow
def test_few_and_many_hypotheses_have_the_scores_of_the_model():
    """Up to 16 hypotheses are multiplied by the prepared output kernel."""
    translator = Translator(*transformer_parts(normalize_first=True), DECODING)
    scores = [check(translator, beam_size=beam_size) for beam_size in (1, 16, 17)]
    assert scores[1] >= scores[0] - 1e-5
