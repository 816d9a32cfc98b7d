import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from recipe_modules import load_recipe
from training.tiny_run import VOCABULARY, Steep, TinyBatches, TinyModel, arrays_of, run, token_loss

from keras_attention.models.transformer import Transformer
from keras_attention.support.errors import TrainingDivergedError
from keras_attention.training.backends import compile_update


def built(dropout=0.0, dtype=None):
    model = TinyModel(dropout=dropout, dtype=dtype)
    model(TinyBatches().epoch(0)[0])
    return model


def gradient_of_mean_loss(model, batch, smoothing):
    """By Keras's own dense loss on one-hot labels, smoothed by hand."""
    real = batch["labels"] != 0
    targets = np.eye(VOCABULARY, dtype="float32")[batch["labels"]] * (1 - smoothing) + smoothing / VOCABULARY
    with tf.GradientTape() as tape:
        losses = keras.losses.categorical_crossentropy(targets, model(batch), from_logits=True)
        loss = tf.reduce_sum(tf.where(real, losses, 0.0)) / real.sum()
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return float(loss), [tf.convert_to_tensor(g).numpy() for g in gradients]


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("clip_norm", [None, 0.01, 97.0])
def test_one_step_is_gradient_descent_on_the_mean_loss(jit_compile, clip_norm):
    model, batch = built(), TinyBatches().epoch(0)[0]
    before = [v.numpy() for v in model.trainable_variables]
    loss, gradients = gradient_of_mean_loss(model, batch, 0.1)
    norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in gradients))
    smoothed = functools.partial(token_loss, label_smoothing=0.1)
    step = compile_update(model, keras.optimizers.SGD(0.7), smoothed, clip_norm=clip_norm, jit_compile=jit_compile)
    result = step(batch)
    assert float(result.count) == (batch["labels"] != 0).sum()
    assert float(result.total) / float(result.count) == pytest.approx(loss, rel=1e-5)
    assert float(result.gradient_norm) == pytest.approx(norm, rel=1e-5)
    factor = 1.0 if clip_norm is None else min(1.0, clip_norm / norm)
    for variable, old, gradient in zip(model.trainable_variables, before, gradients, strict=True):
        np.testing.assert_allclose(variable.numpy(), old - 0.7 * factor * gradient, atol=1e-6)
    weights = np.sqrt(sum((v.numpy().astype("float64") ** 2).sum() for v in model.trainable_variables))
    assert float(result.weight_norm) == pytest.approx(weights, rel=1e-5)


def r_drop_loss(recipe, r_drop):
    """The loss of a recipe of translation."""
    return functools.partial(load_recipe(recipe).loss, label_smoothing=0.0, r_drop=r_drop)


RECIPES = pytest.mark.parametrize("recipe", ["rnn_attention", "transformer"])


@RECIPES
def test_r_drop_without_dropout_is_the_plain_update(recipe):
    batch, results = TinyBatches().epoch(0)[0], []
    for r_drop in (0.0, 3.0):
        model = built()
        result = compile_update(model, keras.optimizers.SGD(0.7), r_drop_loss(recipe, r_drop), jit_compile=False)(batch)
        results.append([*map(float, result), *(v.numpy() for v in model.trainable_variables)])
    for plain, twice in zip(*results, strict=True):
        np.testing.assert_allclose(plain, twice, rtol=1e-5, atol=1e-6)


@RECIPES
def test_r_drop_adds_the_divergence_of_two_passes(recipe):
    batch, alpha = TinyBatches().epoch(0)[0], 3.0
    model = built(dropout=0.4)
    before = [v.numpy() for v in model.trainable_variables]
    states = [v for v in model.non_trainable_variables if "seed" in v.path]
    start = [v.numpy() for v in states]
    compile_update(model, keras.optimizers.SGD(0.7), r_drop_loss(recipe, alpha), jit_compile=False)(batch)
    after = [v.numpy() for v in model.trainable_variables]
    for variable, value in zip(model.trainable_variables + states, before + start, strict=True):
        variable.assign(value)
    labels, real = batch["labels"], batch["labels"] != 0
    twice = {name: np.concatenate([array] * 2) for name, array in batch.items() if name != "labels"}
    with tf.GradientTape() as tape:
        p, q = tf.split(tf.nn.log_softmax(model(twice, training=True)), 2)
        both = sum(-tf.gather(x, labels, axis=2, batch_dims=2) for x in (p, q)) / 2
        apart = tf.reduce_sum(tf.exp(p) * (p - q) + tf.exp(q) * (q - p), axis=-1) / 2
        loss = tf.reduce_sum(tf.where(real, both + alpha / 2 * apart, 0.0)) / real.sum()
    for old, new, gradient in zip(before, after, tape.gradient(loss, model.trainable_weights), strict=True):
        np.testing.assert_allclose(new, old - 0.7 * tf.convert_to_tensor(gradient).numpy(), atol=2e-6)


@pytest.mark.parametrize("clip_norm", [None, 0.01])
def test_accumulated_parts_make_the_update_of_the_whole_batch(clip_norm):
    """The parts have 5, 3 and 1 real labels."""
    batch = {name: np.concatenate([array] * 3)[:3] for name, array in TinyBatches().epoch(0)[1].items()}
    batch["labels"] = np.where(np.arange(7) < np.array([[5], [3], [1]]), 2 + batch["source_ids"] % 5, 0).astype("int32")
    results = []
    for accumulate in (1, 3):
        model = built()
        options = {"clip_norm": clip_norm, "accumulate": accumulate, "jit_compile": False}
        result = compile_update(model, keras.optimizers.SGD(0.7), token_loss, **options)(batch)
        results.append([*map(float, result), *(v.numpy() for v in model.trainable_variables)])
    for whole, parts in zip(*results, strict=True):
        np.testing.assert_allclose(whole, parts, rtol=1e-5, atol=1e-6)


def test_padding_rows_change_nothing():
    batch = TinyBatches().epoch(0)[0]
    filled = {name: np.concatenate([array, np.zeros((4, array.shape[1]), "int32")]) for name, array in batch.items()}
    results = []
    for rows in (batch, filled):
        model = built()
        compile_update(model, keras.optimizers.SGD(0.7), token_loss, jit_compile=False)(rows)
        results.append([v.numpy() for v in model.trainable_variables])
    for plain, padded in zip(*results, strict=True):
        np.testing.assert_allclose(plain, padded, atol=1e-7)


def test_a_batch_without_labels_does_no_harm():
    model, batch = built(), TinyBatches().epoch(0)[0]
    before = [v.numpy() for v in model.trainable_variables]
    result = compile_update(model, keras.optimizers.SGD(0.7), token_loss)(
        {**batch, "labels": np.zeros_like(batch["labels"])}
    )
    assert float(result.total) == float(result.count) == 0.0
    for old, variable in zip(before, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(old, variable.numpy())


def test_each_shape_is_compiled_once():
    model = built()
    calls = []
    original = model.call
    model.call = lambda *arguments, **keywords: (calls.append(1), original(*arguments, **keywords))[1]
    step = compile_update(model, keras.optimizers.SGD(0.7), token_loss, jit_compile=False)
    for epoch in range(2):
        for index in range(7):
            step(TinyBatches().epoch(epoch)[index])
    assert len(calls) == 2


@pytest.mark.parametrize("jit_compile", [False, True])
def test_an_update_with_a_gradient_that_is_not_finite_is_not_applied(jit_compile):
    model = Steep()
    model(TinyBatches().epoch(0)[0])
    optimizer = keras.optimizers.Adam(0.1)
    step = compile_update(model, optimizer, token_loss, clip_norm=1.0, jit_compile=jit_compile)
    before = arrays_of(model, optimizer)
    result = step(TinyBatches().epoch(0)[0])
    assert np.isfinite(float(result.total))
    assert not np.isfinite(float(result.gradient_norm))
    for old, new in zip(before, arrays_of(model, optimizer), strict=True):
        np.testing.assert_array_equal(old, new)


class Poisoned(TinyBatches):
    """Makes a weight NaN before step 4 of epoch 1, both counted from 0."""

    def __init__(self, model, value):
        super().__init__()
        self.model = model
        self.value = value

    def epoch(self, epoch):
        class Epoch(type(super().epoch(epoch))):
            def __getitem__(self, step):
                if (self.number, step) == (1, 4):
                    bias = self.batches.model.projection.bias
                    bias.assign(np.full(VOCABULARY, self.batches.value, "float32"))
                return super().__getitem__(step)

        return Epoch(self, epoch)


@pytest.mark.parametrize("value", [float("nan"), pytest.param(float("inf"), marks=pytest.mark.slow)])
def test_a_loss_that_is_not_finite_stops_within_the_step(tmp_path, value):
    model = TinyModel()
    with pytest.raises(TrainingDivergedError, match="epoch 2, step 5: the loss is nan"):
        run(model=model, batches=Poisoned(model, value), epochs=3, checkpoint_dir=tmp_path, checkpoint_every=1)
    (last,) = sorted(tmp_path.iterdir())[-1:]
    assert last.name == "step-000000011"  # the one before
    resumed, again, _ = run(epochs=3, checkpoint_dir=tmp_path, checkpoint_every=1, resume=True)
    assert resumed.steps == 21
    assert all(np.all(np.isfinite(array)) for array in arrays_of(again, keras.optimizers.SGD(0.1)))


def test_a_nan_weight_before_a_relu_stops_the_training():
    """The fused CPU kernel of a dense layer with ReLU turns NaN into 0, so that the loss stays finite."""

    class Hiding(TinyModel):
        def __init__(self):
            super().__init__(dropout=0.0)
            self.hidden = keras.layers.Dense(13, activation="relu")

        def call(self, inputs, training=None):
            one_hot = keras.ops.one_hot(inputs["source_ids"], VOCABULARY)
            return self.projection(self.hidden(one_hot))

    model = Hiding()
    model(TinyBatches().epoch(0)[0])
    model.hidden.kernel.assign(np.full((VOCABULARY, 13), np.nan, "float32"))
    with pytest.raises(TrainingDivergedError, match="epoch 1, step 1"):
        run(model=model, max_steps=3)


def test_a_rate_that_destroys_the_weights_stops_in_that_step():
    with pytest.raises(TrainingDivergedError, match="epoch 1, step 1: the norm of the weights is"):
        run(optimizer=keras.optimizers.SGD(float("inf")), max_steps=3)


def test_bfloat16_trains_resumes_and_keeps_float32_weights(tmp_path):
    policy = keras.DTypePolicy("mixed_bfloat16")
    result, model, _ = run(model=TinyModel(dtype=policy), epochs=7)
    assert result.history[-1]["loss"] < 0.6 * result.history[0]["loss"]
    assert {v.dtype for v in model.trainable_variables} == {"float32"}


@pytest.mark.slow
def test_weights_of_pure_bfloat16_go_through_a_checkpoint(tmp_path):
    undisturbed, *expected = run(model=TinyModel(dtype="bfloat16"), epochs=2)
    run(model=TinyModel(dtype="bfloat16"), max_steps=5, checkpoint_dir=tmp_path)
    resumed, *actual = run(model=TinyModel(dtype="bfloat16"), epochs=2, checkpoint_dir=tmp_path, resume=True)
    assert actual[0].projection.kernel.dtype == "bfloat16"
    for before, after in zip(arrays_of(*expected), arrays_of(*actual), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.slow
def test_float16_recovers_from_an_overflow_of_its_scaled_gradients(jit_compile):
    inner = keras.optimizers.Adam(0.03)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**40)
    model = TinyModel(dtype=keras.DTypePolicy("mixed_float16"))
    result, model, _ = run(model=model, optimizer=optimizer, epochs=9, clip_norm=1.0, jit_compile=jit_compile)
    assert float(optimizer.dynamic_scale) < 2.0**40  # it did overflow
    assert 0 < int(inner.iterations) < result.steps  # and those steps were skipped
    assert result.history[-1]["loss"] < 0.6 * result.history[0]["loss"]
    assert all(np.all(np.isfinite(v.numpy())) for v in model.trainable_variables)


def test_float16_clips_the_true_gradient_not_the_scaled_one():
    batch = TinyBatches().epoch(0)[0]
    results = []
    for wrap in (lambda o: o, lambda o: keras.optimizers.LossScaleOptimizer(o, initial_scale=2.0**7)):
        model = built()
        result = compile_update(model, wrap(keras.optimizers.SGD(0.7)), token_loss, clip_norm=0.01)(batch)
        results.append((float(result.gradient_norm), [v.numpy() for v in model.trainable_variables]))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    for plain, scaled in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(plain, scaled, atol=1e-6)


def test_float16_stops_when_no_scale_is_small_enough():
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.03), initial_scale=2.0**3)
    with pytest.raises(TrainingDivergedError, match="epoch 1, step 4: the gradient norm is"):
        run(model=Steep(), optimizer=optimizer, epochs=1)


def test_clip_norm_must_be_positive():
    with pytest.raises(ValueError, match=r"Received: clip_norm=0\.0"):
        compile_update(built(), keras.optimizers.SGD(0.1), token_loss, clip_norm=0.0)


def aligned_batch():
    """A translator of two decoder layers, and a batch with alignments of some target tokens."""
    batch = TinyBatches().epoch(0)[0]
    target_ids = np.roll(batch["labels"], 1, axis=1)
    batch = {"source_ids": batch["source_ids"], "target_ids": target_ids, "labels": batch["labels"]}
    links = np.random.default_rng(3).integers(0, 2, (*target_ids.shape, batch["source_ids"].shape[1]))
    links = links * (target_ids != 0)[..., None] * (batch["source_ids"] != 0)[:, None, :]
    batch["alignment"] = (links / np.maximum(links.sum(axis=-1, keepdims=True), 1)).astype("float32")
    sizes = {"hidden_dim": 14, "intermediate_dim": 11, "num_heads": 2, "num_encoder_layers": 1}
    keras.utils.set_random_seed(5)
    model = Transformer(VOCABULARY, VOCABULARY, **sizes, num_decoder_layers=2, dropout=0.0)
    model.build()
    return model, batch


@pytest.mark.parametrize(
    ("r_drop", "jit_compile"),
    [(0.0, False), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((3, False), (3, True)))],
)
def test_guided_alignment_adds_the_loss_of_one_head(r_drop, jit_compile):
    """Without dropout, R-Drop changes nothing. The reported loss is the cross-entropy alone."""
    model, batch = aligned_batch()
    before = [v.numpy() for v in model.trainable_variables]
    inputs = {name: batch[name] for name in ("source_ids", "target_ids")}
    labels, real = batch["labels"], batch["labels"] != 0
    with tf.GradientTape() as tape:
        logits, weights = model(inputs, training=True, return_attention_scores=True)
        losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        plain = tf.reduce_sum(tf.where(real, losses, 0.0)) / real.sum()
        head = tf.where(batch["alignment"] > 0, tf.math.log(weights["cross"][:, 1, 0]), 0.0)
        guided = plain - 0.3 * tf.reduce_sum(batch["alignment"] * head) / real.sum()
    gradients = tape.gradient(guided, [v.value for v in model.trainable_variables])
    objective = functools.partial(
        load_recipe("transformer").loss, label_smoothing=0.0, r_drop=r_drop, guided=(0.3, 1, 0)
    )
    result = compile_update(model, keras.optimizers.SGD(0.7), objective, jit_compile=jit_compile)(batch)
    assert float(result.total) / float(result.count) == pytest.approx(float(plain), rel=1e-5)
    assert float(guided) > float(plain) + 0.1
    for old, new, gradient in zip(before, model.trainable_variables, gradients, strict=True):
        np.testing.assert_allclose(new.numpy(), old - 0.7 * tf.convert_to_tensor(gradient).numpy(), atol=2e-6)
