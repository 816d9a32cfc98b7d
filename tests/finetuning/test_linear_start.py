"""The head begins as the best linear model on the vectors, and the training never ends below it."""

from types import SimpleNamespace

import numpy as np
import pytest
from finetuning.test_workflow import QUIET, examples
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, Ridge
from zoo.tiny_bert import tiny_encoder, write_tiny

import keras_attention
from keras_attention.data.tables.label_task import Task
from keras_attention.finetuning import label_training, preparation
from keras_attention.finetuning.calibration import where_as_good
from keras_attention.finetuning.linear_probe import STRENGTHS, fit_linear
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.workflow import finetune_lists, fit, prepare
from keras_attention.support.errors import UserError
from keras_attention.zoo.entry import read_entry

N, M, D, K = 61, 23, 7, 3
SETTINGS = FinetuneSettings(epochs=1, max_tokens=17, jit_compile=False)


def problem(kind, seed=1):
    """Vectors with labels that depend on them, to fit and to choose by."""
    random = np.random.default_rng(seed)
    vectors = random.normal(3.0, [[1.0, 2.0, 0.5, 1.0, 1.0, 1.0, 5.0]], (N + M, D))
    signs = vectors @ random.normal(size=(D, K)) + random.normal(size=(N + M, K))
    signs -= signs.mean(axis=0)
    if kind == "regression":
        targets = (signs[:, 0] / signs[:, 0].std()).astype("float32")
    elif kind == "multilabel":
        targets = (signs > 0).astype("float32")
    else:
        targets = signs[:, : 2 if kind == "binary" else K].argmax(axis=1)
    return vectors[:N], targets[:N], vectors[N:], targets[N:]


def log_softmax(logits):
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


@pytest.mark.parametrize("weights", [None, [1.0, 3.0, 0.5]])
@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_logits_are_those_of_scikit_learn(kind, weights):
    vectors, targets, *held = problem(kind)
    fitted = fit_linear(vectors, targets, kind, 2 if kind == "binary" else K, *held, weights)
    class_weight = weights and dict(zip(sorted(set(targets)), weights, strict=False))
    options = {"max_iter": 1000, "tol": 1e-7, "class_weight": class_weight}
    center, spread = vectors.mean(axis=0), vectors.std(axis=0)
    losses, costs = {}, {}
    for strength in STRENGTHS:
        theirs = LogisticRegression(C=strength, **options).fit((vectors - center) / spread, targets)
        log_probabilities = theirs.predict_log_proba((held[0] - center) / spread)
        losses[strength] = -log_probabilities[np.arange(M), held[1]].mean()
        costs[strength] = M * losses[strength] - norm.logpdf(np.log(strength), np.log(0.005), 1.0)
        if strength == fitted.strength:
            np.testing.assert_allclose(log_softmax(fitted.logits(held[0])), log_probabilities, atol=1e-2)
    assert fitted.strength == min(costs, key=costs.get)
    assert fitted.loss == pytest.approx(losses[fitted.strength], abs=1e-3)


@pytest.mark.parametrize("rows", [2, 2_000])
def test_few_held_out_rows_leave_the_strength_near_the_usual_one(rows):
    """The held-out rows equal some of the others, so that they ask for as little regularization as possible."""
    vectors, targets, *_ = problem("binary")
    chosen = np.arange(rows) % N
    fitted = fit_linear(vectors, targets, "binary", 2, vectors[chosen], targets[chosen])
    assert fitted.strength in ([max(STRENGTHS)] if rows > N else [0.003, 0.01])


@pytest.mark.parametrize("weights", [None, [1.0, 3.0, 0.5]])
def test_each_label_of_several_is_a_question(weights):
    vectors, targets, *held = problem("multilabel")
    fitted = fit_linear(vectors, targets, "multilabel", K, *held, weights)
    center, spread = vectors.mean(axis=0), vectors.std(axis=0)
    for label in range(K):
        options = {"max_iter": 1000, "tol": 1e-7, "class_weight": weights and {0: 1.0, 1: weights[label]}}
        theirs = LogisticRegression(C=fitted.strength, **options).fit((vectors - center) / spread, targets[:, label])
        expected = theirs.decision_function((held[0] - center) / spread)
        np.testing.assert_allclose(fitted.logits(held[0])[:, label], expected, atol=1e-2)


def test_numbers_by_ridge_regression():
    vectors, targets, *held = problem("regression")
    fitted = fit_linear(vectors, targets, "regression", 1, *held)
    center, spread = vectors.mean(axis=0), vectors.std(axis=0)
    theirs = Ridge(alpha=fitted.strength).fit((vectors - center) / spread, targets)
    np.testing.assert_allclose(fitted.logits(held[0])[:, 0], theirs.predict((held[0] - center) / spread), atol=1e-4)


def test_labels_that_no_row_has_or_all_rows_have():
    vectors, targets, *held = problem("multiclass")
    targets = np.where(targets == 1, 2, targets)  # two of three are left
    logits = fit_linear(vectors, targets, "multiclass", K, *held).logits(held[0])
    assert set(logits.argmax(axis=1)) <= {0, 2}
    several = np.stack([np.zeros(N), np.ones(N), targets == 2], axis=1).astype("float32")
    logits = fit_linear(vectors, several, "multilabel", K, held[0], several[:M]).logits(held[0])
    assert (logits[:, 0] < 0).all()
    assert (logits[:, 1] > 0).all()
    logits = fit_linear(vectors, several[:, :2], "multilabel", 2, held[0], several[:M, :2]).logits(held[0])
    assert (logits[:, 0] < 0).all()
    assert (logits[:, 1] > 0).all()


def test_rare_classes_can_count_more():
    vectors, targets, *held = problem("binary")
    plain, balanced = (fit_linear(vectors, targets, "binary", 2, *held, weights) for weights in (None, [1.0, 9.0]))
    assert (balanced.logits(held[0]).argmax(axis=1) == 1).sum() > (plain.logits(held[0]).argmax(axis=1) == 1).sum()


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts") / "start"
    write_tiny(folder, tiny_encoder(num_layers=2))
    return folder


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "regression"])
def test_the_untouched_network_is_the_linear_model(start, kind):
    separator = "|" if kind == "multilabel" else None
    prepared = prepare(examples(kind, 90), None, start, SETTINGS, separator=separator, notify=lambda _: None)
    classifier = prepared.classifier
    assert (classifier.model.pooling, classifier.model.pooler_dense) == ("mean", None)
    vectors = prepared.vectors(prepared.validation_sequences)
    encoded = classifier.encode(prepared.rows.validation.texts)
    for vector, tokens in zip(vectors, encoded.vectors, strict=True):
        np.testing.assert_allclose(vector, tokens.mean(axis=0), atol=1e-5)  # with [CLS] and [SEP]
    linear = fit_linear(
        prepared.vectors([[row] for row in prepared.sequences]),
        prepared.rows.targets,
        kind,
        classifier.model.settings["num_labels"],
        vectors,
        (prepared.rows.validation_targets - prepared.rows.center) / prepared.rows.spread
        if kind == "regression"
        else prepared.rows.validation_targets,
    )
    np.testing.assert_allclose(classifier.logits(prepared.validation_sequences), linear.logits(vectors), atol=1e-4)
    assert prepared.linear_score is not None


@pytest.mark.slow
def test_a_training_that_lowers_the_score_returns_the_start(start, monkeypatch):
    prepared = prepare(examples("binary", 60), None, start, SETTINGS, notify=lambda _: None)
    before = prepared.classifier.model.get_weights()
    losses = iter([0.5, 0.6, 0.7, 0.8, 0.9])
    monkeypatch.setattr(preparation, "held_scores", lambda _: ("accuracy", 70.0, next(losses)))
    result = fit(prepared, SETTINGS, verbose=0)
    assert (result.best, result.best_epoch) == (0.5, 0)
    for ours, theirs in zip(prepared.classifier.model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("freeze", "moving"), [(0, 2), (1, 1)])
def test_frozen_weights_do_not_change(start, freeze, moving):
    settings = FinetuneSettings(epochs=1, max_tokens=17, jit_compile=False, freeze=freeze, learning_rate=1e-2)
    prepared = prepare(examples("binary", 40), None, start, settings, notify=lambda _: None)
    encoder = prepared.classifier.model.encoder
    layers = [encoder.token_embedding, encoder.position_embedding, *encoder.encoder_layers]
    before = [layer.get_weights() for layer in layers]
    model = prepared.classifier.model
    rows = prepared.sequences, prepared.rows.targets, "binary"
    label_training.fit_classifier(model, *rows, settings, verbose=0)
    changed = [
        any((ours != theirs).any() for ours, theirs in zip(layer.get_weights(), weights, strict=True))
        for layer, weights in zip(layers, before, strict=True)
    ]
    assert changed == [False] * (len(layers) - moving) + [True] * moving
    assert all(layer.trainable for layer in layers)
    with pytest.raises(UserError, match="--freeze may be at most 2, the number of layers. Found: 5"):
        label_training.fit_classifier(model, *rows, FinetuneSettings(freeze=5), **{"verbose": QUIET["verbose"]})


@pytest.mark.parametrize(
    ("words", "weight", "says"),
    [
        # Always right, hardly sure: every blend is as wrong as the network.
        ([0.1] * 10, 1.0, "answers with the bag of words alone"),
        ([3.0, -2.0] + [3.0] * 8, None, "and reaches 100.0."),  # right where the network is wrong
        ([-3.0] * 10, 0.0, None),
    ],
)
def test_no_model_is_below_its_words_on_the_validation(words, weight, says):
    network = np.array([-1.0, -1.0] + [3.0] * 8)
    network = network if weight is not None else np.array([-1.0] + [3.0] * 9)
    targets = np.ones(10, int)
    held = SimpleNamespace(validation_targets=targets, task=Task("binary", ("bad", "good"), None, ""))
    both_sides = (np.stack([np.zeros(10), side], axis=1) for side in (network, np.array(words)))
    actual, reason = where_as_good(*both_sides, held)
    assert (reason is None) == (says is None)
    assert weight is None or actual == weight
    assert reason is None or says in reason


@pytest.mark.slow
def test_words_are_blended_in_where_they_win(start, tmp_path):
    data = examples("multiclass", 120)
    rows = [data.texts, data.labels, None, start, None, None, tmp_path / "mine", False]
    classifier = finetune_lists(*rows, {"epochs": 1, "max_tokens": 17, "jit_compile": False})
    assert classifier.blend.weight > 0.5  # the vectors of random weights say little, the words all
    entry = read_entry(tmp_path / "mine")
    assert "On the validation rows, a bag of words reaches accuracy 100.0" in entry.metrics["description"]
    assert entry.config["words"]["num_terms"] == len(classifier.blend.words.terms)
    loaded = keras_attention.load(tmp_path / "mine")
    for one, other in zip(*(c.classify(data.texts, return_scores=True) for c in (classifier, loaded)), strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
