"""Every model is a plain `keras.Model`: compile, fit, predict, save, clone, in any precision, on any batches.

Without XLA, which takes seconds to compile a model; `test_fit_learns_from_arrays` asks for it.
"""

import keras
import numpy as np
import pytest

from keras_attention.data.keras_batches import KerasBatches
from keras_attention.models import (
    GPT,
    AttentionSeq2Seq,
    BertClassifier,
    BertMaskedLM,
    ConvolutionalLM,
    RecurrentLM,
    Transformer,
)

pytestmark = pytest.mark.sampled(7)

ROWS, S, T, V, CLASSES = 11, 7, 5, 23, 3
BERT = {"vocabulary_size": V, "hidden_dim": 12, "intermediate_dim": 17, "num_heads": 2, "num_layers": 1}
WHAT = {
    "transformer": lambda **options: Transformer(V, V, 12, 17, 2, 1, 1, **options),
    "seq2seq": lambda **options: AttentionSeq2Seq(V, V, 13, 12, **options),
    "classifier": lambda **options: BertClassifier(**BERT, num_labels=CLASSES, **options),
    "masked_lm": lambda **options: BertMaskedLM(**BERT, **options),
    "gpt": lambda **options: GPT(**BERT, max_length=S, **options),
    "recurrent": lambda **options: RecurrentLM(V, 13, 2, max_length=S, **options),
    "convolutional": lambda **options: ConvolutionalLM(V, 13, 2, max_length=S, **options),
}
TRANSLATORS = ("transformer", "seq2seq")


@pytest.fixture(params=WHAT)
def kind(request):
    return request.param


def make(kind, **options):
    keras.utils.set_random_seed(7)
    model = WHAT[kind](**options)
    model.jit_compile = False
    return model


def ids(rows, length, seed, low=4):
    """Rows of different lengths, filled up with 0."""
    random = np.random.default_rng(seed)
    tokens = random.integers(low, V, (rows, length)).astype("int32")
    lengths = random.integers(1, length + 1, rows)
    return np.where(np.arange(length) < lengths[:, None], tokens, 0)


def arrays(kind, rows=ROWS):
    """Inputs and labels; the labels of padding are 0."""
    if kind in TRANSLATORS:
        targets = ids(rows, T, 2)
        return {"source_ids": ids(rows, S, 1), "target_ids": targets}, targets
    texts = ids(rows, S, 1)
    if kind in ("masked_lm", "gpt", "recurrent", "convolutional"):
        return {"token_ids": texts}, texts
    return {"token_ids": texts}, np.arange(rows, dtype="int32") % CLASSES


def compiled(kind, jit_compile=False, **options):
    model = make(kind, **options)
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight"),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=jit_compile,
    )
    return model


def test_token_ids_need_no_dict(kind, tmp_path):
    inputs, labels = arrays(kind)
    model = compiled(kind)
    if kind in TRANSLATORS:
        with pytest.raises(ValueError, match="must be a dict with source_ids and target_ids"):
            model(inputs["source_ids"])
        with pytest.raises(ValueError, match="must have `target_ids`. Received: source_ids"):
            model({"source_ids": inputs["source_ids"]})
        return
    texts = inputs["token_ids"]
    model.fit(texts, labels, epochs=1, verbose=0)
    np.testing.assert_array_equal(model.predict(texts, verbose=0), model.predict(inputs, verbose=0))
    by_name, alone = (model.evaluate(given, labels, verbose=0) for given in (inputs, texts))
    assert by_name == alone  # padding is left out of both
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(texts, verbose=0), model.predict(texts, verbose=0), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method:UserWarning")
@pytest.mark.parametrize(("mode", "tolerance"), [("int8", 0.05), ("int4", 0.5)])
def test_a_quantized_model_gives_nearly_the_same_logits_and_can_be_saved(kind, mode, tolerance, tmp_path):
    model, (inputs, _) = make(kind), arrays(kind)
    before = np.asarray(model(inputs))
    model.quantize(mode)
    after = np.asarray(model(inputs))
    assert 0 < np.abs(after - before).max() < tolerance * np.abs(before).max()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(np.asarray(again(inputs)), after)


def mean_loss_of_real_tokens(logits, labels):
    """Cross-entropy in NumPy, averaged over labels that are no padding (a class may be 0)."""
    logits = logits.astype("float64")
    log_sum = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    losses = log_sum - np.take_along_axis(logits, labels[..., None], -1)[..., 0]
    real = np.ones_like(losses) if labels.ndim == 1 else (labels != 0).astype("float64")
    return (losses * real).sum() / real.sum()


@pytest.mark.slow
def test_fit_learns_from_arrays(kind):
    model = compiled(kind, jit_compile=True)
    inputs, labels = arrays(kind)
    history = model.fit(inputs, labels, batch_size=4, epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert set(history) == {"loss", "accuracy"}


@pytest.mark.slow
def test_the_loss_of_fit_leaves_padding_out(kind):
    model = compiled(kind, dropout=0.0)
    inputs, labels = arrays(kind)
    expected = mean_loss_of_real_tokens(model.predict(inputs, verbose=0), labels)
    assert model.evaluate(inputs, labels, batch_size=ROWS, verbose=0)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_the_labels_of_padding_do_not_matter(kind):
    if kind == "classifier":
        pytest.skip("a label a text")
    inputs, labels = arrays(kind)
    others = np.where(labels == 0, 5, labels)
    losses = [compiled(kind, dropout=0.0).evaluate(inputs, y, batch_size=ROWS, verbose=0) for y in (labels, others)]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_predict_with_an_unequal_last_batch(kind):
    model = make(kind)
    inputs, _ = arrays(kind)
    whole = model.predict(inputs, batch_size=ROWS, verbose=0)
    np.testing.assert_allclose(model.predict(inputs, batch_size=4, verbose=0), whole, atol=1e-5)
    assert whole.dtype == np.float32


@pytest.mark.slow
def test_tf_data_and_callbacks(kind, tmp_path):
    tf = pytest.importorskip("tensorflow")
    inputs, labels = arrays(kind)
    model = compiled(kind)
    stop = keras.callbacks.EarlyStopping("loss", patience=0, min_delta=1e9)
    best = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="loss")
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(4)
    history = model.fit(dataset, epochs=9, callbacks=[stop, best], verbose=0).history
    assert len(history["loss"]) == 2
    assert keras.models.load_model(tmp_path / "best.keras").count_params() == model.count_params()


@pytest.mark.slow
def test_keras_file_round_trip(kind, tmp_path):
    model = compiled(kind)
    inputs, labels = arrays(kind)
    model.fit(inputs, labels, batch_size=4, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
    assert not loaded.jit_compile
    loaded.fit(inputs, labels, batch_size=4, verbose=0)  # the optimizer came along
    assert int(loaded.optimizer.iterations) == 2 * int(model.optimizer.iterations)


@pytest.mark.slow
def test_weights_file_round_trip(kind, tmp_path):
    inputs, _ = arrays(kind)
    model = make(kind)
    expected = model.predict(inputs, verbose=0)
    model.save_weights(tmp_path / "model.weights.h5")
    keras.utils.set_random_seed(8)
    other = WHAT[kind]()
    other.predict(inputs, verbose=0)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other.predict(inputs, verbose=0), expected)


@pytest.mark.slow
def test_clone_model(kind):
    model = make(kind)
    inputs, _ = arrays(kind)
    expected = model.predict(inputs, verbose=0)
    clone = keras.models.clone_model(model)
    assert type(clone) is type(model)
    assert clone.get_config() == model.get_config()
    clone.predict(inputs, verbose=0)
    assert not set(map(id, clone.variables)) & set(map(id, model.variables))
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone.predict(inputs, verbose=0), expected)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(kind, policy):
    inputs, labels = arrays(kind)
    model = compiled(kind, dtype=policy)
    history = model.fit(inputs, labels, batch_size=4, epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert {weight.dtype for weight in model.trainable_weights} == {"float32"}
    assert model.predict(inputs, verbose=0).dtype == np.float32


class Batches:
    """Batches as our own readers give them: `epoch(e)` has `len` and `[i]`; the order differs from epoch to epoch."""

    def __init__(self, kind):
        self.inputs, self.labels = arrays(kind)
        self.asked = []

    def epoch(self, epoch):
        self.asked.append(epoch)
        order = np.random.default_rng(epoch).permutation(ROWS - 1).reshape(2, -1)
        return [{**{k: v[rows] for k, v in self.inputs.items()}, "labels": self.labels[rows]} for rows in order]


@pytest.mark.slow
def test_our_batches_as_a_py_dataset(kind):
    batches = Batches(kind)
    dataset = KerasBatches(batches)
    assert isinstance(dataset, keras.utils.PyDataset)
    assert len(dataset) == 2
    history = compiled(kind).fit(dataset, epochs=3, verbose=0).history
    assert len(history["loss"]) == 3
    assert batches.asked == list(range(len(batches.asked)))
    assert len(batches.asked) > 3


@pytest.mark.slow
def test_rows_that_fill_a_batch_weigh_nothing():
    inputs, labels = arrays("classifier")
    batch = {**inputs, "labels": labels.copy()}
    batch["labels"][-2:] = -1

    class One:
        def epoch(self, epoch):
            return [batch]

    x, y, weight = KerasBatches(One())[0]
    assert set(x) == {"token_ids"}
    assert weight.tolist() == [1.0] * (ROWS - 2) + [0.0] * 2
    assert y.min() >= 0
    loss = compiled("classifier", dropout=0.0).evaluate(KerasBatches(One()), verbose=0)[0]
    real = {name: ids[:-2] for name, ids in inputs.items()}
    model = compiled("classifier", dropout=0.0)
    expected = mean_loss_of_real_tokens(model.predict(real, verbose=0), labels[:-2])
    assert loss == pytest.approx(expected, rel=1e-5)
