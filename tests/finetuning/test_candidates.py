"""What is saved is the best of the candidates on the validation rows, by a score that suits the table."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from finetuning.test_workflow import QUIET, SAY, examples, write_csv
from zoo.tiny_bert import TEXTS, tiny_classifier, tiny_encoder, tokenizer, write_tiny

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.data.tables.label_task import Task
from keras_attention.evaluation.bag_of_words import fit_bag_of_words
from keras_attention.evaluation.classification_scores import (
    Predictions,
    main_score_of,
    rarely_answered,
    score_of,
    scores,
)
from keras_attention.finetuning import preparation
from keras_attention.finetuning.calibration import (
    LETTERS,
    LINEAR,
    TUNED,
    WORDS,
    best_bag,
    calibrate,
    choose_network,
    finish,
    prior_shift,
    where_as_good,
)
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.label_training import nothing_left_to_learn
from keras_attention.finetuning.preparation import pieces_per_word, unknown_characters
from keras_attention.finetuning.report import make_report, report_text
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.workflow import finetune_classifier, fit, prepare

SETTINGS = FinetuneSettings(epochs=1, max_tokens=17, jit_compile=False)


@pytest.mark.parametrize(
    ("counts", "kind", "score"),
    [
        ((59, 41), "binary", "accuracy"),
        ((61, 39), "binary", "macro-F1"),
        ((41, 29, 11), "multiclass", "accuracy"),
        ((41, 29, 7), "multiclass", "macro-F1"),
        ((41, 29, 0), "multiclass", "accuracy"),  # a class without rows
    ],
)
def test_skewed_classes_are_judged_by_macro_f1(counts, kind, score):
    targets = np.repeat(np.arange(len(counts)), counts)
    assert main_score_of(targets, kind) == score
    task = Task(kind, tuple("abc"[: len(counts)]), None, "", score)
    assert next(iter(scores(targets, Predictions(None, targets), task))) == score


def test_other_tasks_keep_their_scores():
    assert main_score_of(np.eye(3), "multilabel") is None
    assert main_score_of(np.array([0.5, 3.0]), "regression") is None


def test_a_label_that_is_hardly_answered_is_named():
    task = Task("multiclass", ("a", "b", "c"), None, "")
    targets = np.repeat([0, 1, 2], [31, 17, 7])
    actual = Predictions(None, np.repeat([0, 1], [52, 3]))
    assert rarely_answered(targets, actual, task) == [("b", 17, 3)]  # there are too few rows of c to say
    assert rarely_answered(targets, Predictions(None, targets), task) == []


def skewed(count=130):
    """Texts of which a tenth have the label that their words give away."""
    data = examples("binary", count)
    random = np.random.default_rng(5)
    kept = [i for i, label in enumerate(data.labels) if label == "good" or random.random() < 0.15]
    return data.some(kept)


def held(targets, main_score="macro-F1"):
    task = Task("binary", ("bad", "good"), None, "", main_score)
    return SimpleNamespace(task=task, validation_targets=np.asarray(targets), validation=Examples(["x"], ["bad"]))


def test_the_shift_lets_rare_labels_be_answered():
    targets = np.repeat([0, 1], [50, 7])
    rare = np.where(targets == 1, 1.2, -1.0)
    logits = np.stack([np.full(57, 1.5), rare], axis=1)  # no row is answered "good"
    shift = prior_shift(logits, held(targets))
    assert score_of(logits + shift, targets, held(targets).task)[1] == 100.0
    assert prior_shift(logits, held(targets, "accuracy")) is None
    assert prior_shift(logits + shift, held(targets)) is None  # nothing to gain


def test_the_shift_reaches_network_and_words():
    targets = np.repeat([0, 1], [50, 7])
    logits = np.stack([np.full(57, 1.5), np.where(targets == 1, 1.2, -1.0)], axis=1)
    classifier = tiny_classifier(num_layers=1)
    before = classifier.model.head[-1].bias.numpy()
    calibrate(classifier, logits, None, held(targets))
    moved = classifier.model.head[-1].bias.numpy() - before
    assert moved[1] > moved[0]
    texts = ["a fine day", "a poor day"] * 9
    words = fit_bag_of_words(texts, None, np.array([1, 0] * 9), "binary", 2)
    blended = tiny_classifier(num_layers=1)
    rows = held(targets)
    rows.validation = Examples(["a day"] * 57, ["bad"] * 57)
    calibrate(blended, logits, words, rows, lambda *_: (0.5, "because"))
    scale = np.linalg.norm(blended.blend.words.kernel) / np.linalg.norm(words.kernel)
    moved = blended.blend.words.bias - scale * words.bias
    assert moved[1] > moved[0]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts") / "start"
    write_tiny(folder, tiny_encoder(num_layers=1))
    return folder


TARGETS = np.array([0, 1] * 10)


def answers(right):
    """Logits (20, 2) of which the first `right` are right."""
    sure = np.where(np.arange(20) < right, 1.0, -1.0) * np.where(TARGETS == 1, 1.0, -1.0)
    return np.stack([-sure, sure], axis=1)


class Network:
    """A network whose only weight is its logits, and its pipeline."""

    def __init__(self, logits):
        self.weights, self.model = [logits], self

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = weights

    def logits(self, texts, texts_b=None):
        return self.weights[0]


@pytest.mark.parametrize(
    ("tuned", "linear", "words", "saved"),
    [
        (17, 16, 3, TUNED),
        (16, 17, 3, LINEAR),
        (17, 17, 3, TUNED),
        (12, 13, 20, WORDS),
        (17, None, 3, TUNED),
    ],
)
def test_the_best_candidate_is_saved(tuned, linear, words, saved):
    rows = held(TARGETS, "accuracy")
    rows.spread, rows.center = 1.0, 0.0
    weights = None if linear is None else [answers(linear)]
    prepared = SimpleNamespace(
        rows=rows,
        classifier=Network(answers(tuned)),
        validation_sequences=[],
        linear_weights=weights,
        stages=("on labels",),
    )
    candidates, bag = choose_network(prepared, {WORDS: Network(answers(words))}, where_as_good)
    assert bag == WORDS
    assert [name for name, _, chosen in candidates if chosen] == [saved]
    assert max(score for _, score, _ in candidates) == next(score for _, score, chosen in candidates if chosen)
    expected = linear if saved == LINEAR else tuned
    if saved != WORDS:
        np.testing.assert_array_equal(prepared.classifier.weights[0], answers(expected))


@pytest.mark.parametrize(
    ("words", "letters", "saved"), [(3, 20, LETTERS), (20, 3, WORDS), (20, 20, WORDS), (2, 3, TUNED)]
)
def test_the_better_bag_is_saved(words, letters, saved):
    rows = held(TARGETS, "accuracy")
    rows.spread, rows.center = 1.0, 0.0
    prepared = SimpleNamespace(
        rows=rows, classifier=Network(answers(13)), validation_sequences=[], linear_weights=None, stages=("on labels",)
    )
    bags = {WORDS: Network(answers(words)), LETTERS: Network(answers(letters))}
    candidates, bag = choose_network(prepared, bags, where_as_good)
    assert [name for name, _, chosen in candidates if chosen] == [saved]
    assert {LETTERS, WORDS} <= {name for name, *_ in candidates}
    assert saved == TUNED or bag == saved
    assert best_bag(bags, rows) is bags[LETTERS if letters > words else WORDS]


def test_words_that_the_tokenizer_does_not_know_have_many_pieces():
    assert pieces_per_word(tokenizer(), ["grass dress 17 !", "men"]) == 1.0
    assert pieces_per_word(tokenizer(), ["17 !"]) == 1.0
    pieces = len(tokenizer().encode(["grassmen"])[0])
    assert pieces_per_word(tokenizer(), ["grass", "grassmen"]) == 0.5 * (1 + pieces) > 1.0


@pytest.mark.slow
def test_an_unknown_language_gets_a_bag_of_letters(start, tmp_path, capsys):
    random = np.random.default_rng(2)
    ends = {"gut": "tum", "schlecht": "ung"}  # only the ends of the words tell; the encoder knows all letters
    rows = [(f"das {''.join(random.choice(list('abdegimn'), 7))}{ends[label]}", label) for label in [*ends] * 130]
    lines = ["review,mood", *(",".join(row) for row in rows)]
    (tmp_path / "train.csv").write_text("\n".join(lines), encoding="utf-8")
    flags = ["--text", "review", "--label", "mood", "--from", str(start), "--quick", "--language", "de"]
    assert main(["finetune", str(tmp_path / "train.csv"), *flags, "--out", str(tmp_path / "mine")]) == 0
    printed = capsys.readouterr().out
    assert "so it has hardly read this language. A bag of letters is tried, too." in printed
    config = json.loads((tmp_path / "mine" / "config.json").read_text(encoding="utf-8"))
    assert config["words"]["units"] == "letters"
    answers = load(tmp_path / "mine").classify(["das nmgiedatum", "das mmaingdung"])
    assert answers == ["gut", "schlecht"]
    assert main(["zoo", "verify", str(tmp_path / "mine")]) == 0


@pytest.mark.slow
def test_the_linear_start_is_restored_as_it_was(start):
    prepared = prepare(examples("binary", 90), None, start, SETTINGS, **SAY)
    linear = [weight.copy() for weight in prepared.linear_weights]
    for ours, theirs in zip(prepared.classifier.model.get_weights(), linear, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    fit(prepared, SETTINGS, verbose=0)
    for kept, before in zip(prepared.linear_weights, linear, strict=True):
        np.testing.assert_array_equal(kept, before)


@pytest.mark.slow
def test_a_skewed_table_from_end_to_end(start, tmp_path, capsys):
    table = write_csv(tmp_path / "train.csv", skewed(260))
    words = ["finetune", table, "--text", "review", "--label", "mood", "--from", str(start), "--no-jit-compile"]
    assert main([*words, "--out", str(tmp_path / "mine"), "--epochs", "1", "--max-tokens", "17"]) == 0
    printed = capsys.readouterr().out
    assert "The labels are skewed, so models are compared by macro-F1." in printed
    assert "Candidates, macro-F1 on the validation rows:" in printed
    assert printed.index("macro-F1  ") < printed.index("accuracy  ")
    metrics = json.loads((tmp_path / "mine" / "metrics.json").read_text())
    assert metrics["scores"][0]["metric"] == "macro-F1"
    assert "Candidates" in [table["title"] for table in metrics["tables"]]
    assert main(["zoo", "verify", str(tmp_path / "mine")]) == 0


def test_class_weights_are_used_where_they_help_the_linear_start(start, monkeypatch):
    actual = iter([("macro-F1", 50.0, 1.0), ("macro-F1", 60.0, 2.0), ("macro-F1", 50.0, 1.0), ("macro-F1", 40.0, 2.0)])
    monkeypatch.setattr(preparation, "held_scores", lambda _: next(actual))
    first, second = (prepare(skewed(), None, start, SETTINGS, **SAY) for _ in range(2))
    assert (first.class_weights, second.class_weights) == (True, False)
    assert (first.linear_score, second.linear_score) == (60.0, 50.0)
    kernels = [one.classifier.model.head[-1].kernel.numpy() for one in (first, second)]
    assert np.abs(kernels[0] - kernels[1]).max() > 1e-4


def test_folds_of_a_skewed_table_have_one_main_score():
    data = skewed(200)
    task = Task("binary", ("bad", "good"), None, "", "macro-F1")
    rows = prepare(data, None, "none", FinetuneSettings(size="tiny", max_tokens=17), task=task, **SAY).rows
    assert rows.task.main_score == "macro-F1"


@pytest.mark.parametrize(
    ("entry", "ends"),
    [
        ({"val_score": 100.0, "loss": 0.001}, True),
        ({"val_score": 100.0, "loss": 0.1}, False),
        ({"val_score": 99.9, "loss": 0.001}, False),
        ({"loss": 0.001}, False),
    ],
)
def test_training_ends_where_nothing_is_left_to_learn(entry, ends):
    assert nothing_left_to_learn(entry) is ends


@pytest.mark.slow
def test_an_easy_table_takes_few_epochs(capsys):
    settings = FinetuneSettings(size="tiny", vocabulary_size=67, max_tokens=17, layers=1, epochs=40, dropout=0.0)
    settings = FinetuneSettings(**{**vars(settings), "learning_rate": 5e-3, "jit_compile": False, "patience": 40})
    finetuned = finetune_classifier(examples("binary", 240), None, "none", settings, **{**QUIET, "verbose": 1})
    assert len(finetuned.result.history) < 40
    assert "Training ended: nothing is left to learn." in capsys.readouterr().out


def test_the_report_warns_of_a_label_without_answers(start):
    prepared = prepare(skewed(260), None, start, SETTINGS, **SAY)
    finetuned = finish(prepared, None, SETTINGS)
    output = finetuned.classifier.model.head[-1]
    output.bias.assign(output.bias + np.array([-50.0, 50.0], "float32"))
    finetuned.classifier.blend = None
    bad = Examples(["a poor film"] * 11 + ["a fine day"] * 13, ["bad"] * 11 + ["good"] * 13)
    report = make_report(finetuned, bad)
    assert report.warnings == ["'bad' is hardly ever answered: 11 rows have this label, 0 get it."]
    assert "Warning: 'bad' is hardly ever answered" in report_text(report)


def test_unknown_characters_are_counted_without_blanks():
    known = "A dog runs"
    assert unknown_characters(tokenizer(), [known]) == 0.0
    assert unknown_characters(tokenizer(), [f"{known} 很好 好", "  "]) == pytest.approx(3 / 11)


@pytest.mark.parametrize(("noise", "is_reported"), [("很好的房间很好的房间", True), ("grass", False)])
def test_an_unknown_script_is_reported(start, noise, is_reported):
    texts = [f"{text} {noise}" for text in TEXTS * 6]
    data, lines = Examples(texts, ["good", "bad", "bad", "good"] * 6), []
    prepare(data, None, start, SETTINGS, notify=lines.append)
    assert any("of the characters are unknown to this encoder" in line for line in lines) is is_reported
