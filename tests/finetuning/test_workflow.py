"""Fine-tuning end to end on tables that a tiny model learns in seconds."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from zoo.tiny_bert import tiny_encoder, tokenizer, write_tiny

import keras_attention
from keras_attention.cli.main import main
from keras_attention.evaluation.classification_scores import best_thresholds
from keras_attention.finetuning import label_training
from keras_attention.finetuning.calibration import finish
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.label_training import class_weights, filled_in
from keras_attention.finetuning.report import make_report
from keras_attention.finetuning.settings import FinetuneSettings, epochs_for, parts_for
from keras_attention.finetuning.starting_model import accelerated, starting_classifier
from keras_attention.finetuning.workflow import finetune_classifier, fit, prepare
from keras_attention.support.errors import UserError
from keras_attention.training import devices
from keras_attention.zoo.entry import read_entry

QUICK = {"size": "tiny", "vocabulary_size": 67, "max_tokens": 17, "rows_per_batch": 16, "jit_compile": False}
QUICK |= {"layers": 1, "epochs": 3, "dropout": 0.0, "learning_rate": 1e-3}
SAY = {"notify": lambda _: None}
QUIET = {**SAY, "verbose": 0}
WORDS = {"good": "fine", "bad": "poor", "so": "plain"}


def examples(kind, count=120):
    """Texts whose words give their labels away."""
    random = np.random.default_rng(3)
    texts, labels = [], []
    for _ in range(count):
        known = ["good", "bad"] if kind == "binary" else list(WORDS)
        chosen = random.permutation(known)[: 2 if kind == "multilabel" else 1]
        noise = random.choice(["a", "film", "the", "this", "day"], size=4)  # of one length: one shape to trace
        number = int(random.integers(1, 6))
        very = ["very"] * number if kind == "regression" else []
        texts.append(" ".join([*noise, *(WORDS[label] for label in chosen), *very]))
        labels.append(f"{number + 0.5}" if kind == "regression" else "|".join(sorted(chosen)))
    return Examples(texts, labels)


@pytest.mark.parametrize(
    "kind",
    [
        "binary",
        pytest.param("multiclass", marks=pytest.mark.slow),
        *(pytest.param(k, marks=pytest.mark.thorough) for k in ("multilabel", "regression")),
    ],
)
def test_learns_what_the_words_say(kind):
    messages = []
    separator = "|" if kind == "multilabel" else None
    settings = FinetuneSettings(**{**QUICK, "epochs": 4 if kind == "binary" else 8})
    data = examples(kind, 240)
    result = finetune_classifier(data, None, "none", settings, separator=separator, notify=messages.append, verbose=0)
    assert result.task.kind == kind
    assert messages[0].startswith(f"Task: {kind} (")
    assert len(result.train) + len(result.validation) == 240
    report = make_report(result, examples(kind, 60))
    name, value = next(iter(report.scores.items()))
    assert value > (80 if kind == "regression" else 92), report.scores
    assert report.baseline_name == "TF-IDF + linear"
    assert (report.confusion is not None) == (kind in ("binary", "multiclass"))
    if kind != "regression":
        assert [row[0] for row in report.per_class] == list(result.task.label_names)
        assert report.baseline[name] > 95


def test_reads_longer_texts_than_its_start_with_sparse_attention(tmp_path):
    encoder = tiny_encoder()
    write_tiny(tmp_path / "start", encoder)
    settings = FinetuneSettings(max_tokens=67, attention_pattern="bigbird:block=8", layers=1, jit_compile=False)
    model, _ = starting_classifier(tmp_path / "start", 2, settings, [])
    actual, expected = (x.position_embedding.embeddings.numpy() for x in (model.encoder, encoder))
    assert (model.settings["max_length"], model.settings["attention_pattern"]) == (67, "bigbird:block=8")
    np.testing.assert_array_equal(actual, np.concatenate([expected, expected, expected[:9]]))  # of 29 positions
    assert np.isfinite(model({"token_ids": np.full((1, 67), 5)})).all()


@pytest.mark.slow
def test_starts_from_the_encoder_of_an_entry(tmp_path):
    encoder = tiny_encoder(num_layers=1)
    write_tiny(tmp_path / "start", encoder)
    settings = FinetuneSettings(epochs=1, max_tokens=17, learning_rate=1e-12, weight_decay=0.0, jit_compile=False)
    finetuned = finetune_classifier(examples("binary", 30), None, tmp_path / "start", settings, **QUIET)
    for ours, theirs in zip(finetuned.classifier.model.encoder.get_weights(), encoder.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert finetuned.classifier.tokenizer.vocabulary == tokenizer().vocabulary
    with pytest.raises(UserError, match="reads at most 29 tokens. Received: max_tokens=31"):
        finetune_classifier(examples("binary"), None, tmp_path / "start", FinetuneSettings(max_tokens=31), **QUIET)
    with pytest.raises(UserError, match="must be one of window, .* Received: sparse"):
        finetune_classifier(examples("binary"), None, "none", FinetuneSettings(attention_pattern="sparse"), **QUIET)
    with pytest.raises(UserError, match="Expected: a network with or for a classifier, such as BERT"):
        finetune_classifier(examples("binary"), None, "rnn_attention_dates", settings, **QUIET)


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_weights():
    settings = FinetuneSettings(**{**QUICK, "epochs": 1, "dropout": 0.2})
    one, other = (finetune_classifier(examples("binary", 30), None, "none", settings, **QUIET) for _ in range(2))
    for a, b in zip(one.classifier.model.get_weights(), other.classifier.model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_seed_decides_the_first_weights():
    prepared = [
        prepare(examples("binary", 30), None, "none", FinetuneSettings(**QUICK, seed=seed), notify=lambda _: None)
        for seed in (3, 3, 5)
    ]
    first, same, other = (each.classifier.model.output_dense.kernel.numpy() for each in prepared)
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3
    assert prepared[0].rows.validation == prepared[1].rows.validation != prepared[2].rows.validation


@pytest.mark.parametrize("scale", [1, 10**20])  # the square of the latter is no float32
def test_numbers_are_learned_around_0_and_given_as_they_were(scale):
    data, settings = examples("regression", 40), FinetuneSettings(**QUICK)
    data = Examples(data.texts, [f"{scale * float(label)}" for label in data.labels])
    prepared = prepare(data, None, "none", settings, task="regression", notify=lambda _: None)
    assert np.mean(prepared.rows.targets) == pytest.approx(0.0, abs=1e-5)
    assert np.std(prepared.rows.targets) == pytest.approx(1.0, abs=1e-5)
    numbers = [float(label) for label in prepared.rows.train.labels]
    before = prepared.classifier.logits(prepared.validation_sequences)
    after = finish(prepared, None, settings).classifier.logits(prepared.validation_sequences)
    np.testing.assert_allclose(after, before * np.std(numbers) + np.mean(numbers), rtol=1e-4)


@pytest.mark.slow
def test_words_for_prices_are_blended_in(tmp_path):
    """Their kernel has numbers that float16 lacks."""
    data = examples("regression", 150)
    prices = [f"{1e6 * float(label)}" for label in data.labels]
    options = {"start": "none", "task": "regression", "out": tmp_path / "mine", **QUICK, "epochs": 1}
    classifier = keras_attention.finetune(data.texts, prices, **options)
    assert classifier.blend is not None
    loaded = keras_attention.load(tmp_path / "mine")
    assert loaded.classify(data.texts) == pytest.approx(classifier.classify(data.texts), rel=1e-5)
    assert np.corrcoef(loaded.classify(data.texts), np.array(prices, float))[0, 1] > 0.9


def test_thresholds_of_several_labels_are_those_of_the_validation_rows():
    settings = FinetuneSettings(**QUICK | {"blend": "none"})
    prepared = prepare(examples("multilabel", 60), None, "none", settings, separator="|", notify=lambda _: None)
    classifier = finish(prepared, None, settings).classifier
    probabilities = 1 / (1 + np.exp(-classifier.logits(prepared.validation_sequences).astype("float64")))  # calibrated
    best = best_thresholds(prepared.rows.validation_targets, probabilities)
    assert classifier.task["threshold"] == pytest.approx(best, abs=1e-3)


@pytest.mark.slow
def test_texts_read_whole_are_learned_by_their_ends():
    rows = examples("binary", 40)
    rows.texts[:] = [f"{text} {'day ' * 40}" for text in rows.texts]
    messages = []
    settings = FinetuneSettings(**QUICK | {"epochs": 1, "long_texts": "whole"})
    prepared = prepare(rows, None, "none", settings, notify=messages.append)
    assert len(prepared.sequences) == len(prepared.rows.train)
    assert all(len(row.token_ids) == 17 for row in prepared.sequences)
    assert all(len(some) > 1 for some in prepared.validation_sequences)
    assert any("lose their middle" in line for line in messages)
    assert finish(prepared, fit(prepared, settings, verbose=0), settings).classifier.task["long_texts"] == "whole"


def plain_bert(hidden_dim, num_layers, pooler=None):
    """The sizes of a model, from which the defaults follow."""
    sizes = {"hidden_dim": hidden_dim, "num_layers": num_layers, "max_length": 512, "num_labels": 2}
    head = ["output"] if pooler is None else [pooler, "output"]
    return SimpleNamespace(settings=sizes, head=head, usual_learning_rate=None)


def test_long_texts_are_trained_in_parts():
    """Batches of the default sizes are not split with up to 256 tokens, and 32 texts of 2,048 tokens need 20 GB."""
    assert {parts_for(rows, tokens) for rows in (8, 16, 32, 64) for tokens in (1, 128, 256)} == {1}
    assert [parts_for(32, tokens) for tokens in (512, 513, 1024, 2048)] == [1, 2, 2, 4]
    assert parts_for(8, 10**6) == 8  # a part has at least one text


def test_batches_that_fit_into_no_memory_are_computed_in_parts_or_cut():
    """A training with --rows-per-batch 100000 was killed: each batch was padded to 100,000 rows."""
    settings = filled_in(FinetuneSettings(rows_per_batch=100_000), plain_bert(128, 2), 1009)
    assert settings.rows_per_batch == 1009
    assert parts_for(settings.rows_per_batch, 1024) == 64
    assert [parts_for(rows, None) for rows in (64, 65, 1009)] == [1, 2, 16]  # of pictures


class Stop(Exception):
    pass


@pytest.mark.parametrize(("asked", "parts"), [(None, 4), (1, 1), (8, 8)])
def test_the_longest_text_decides_the_number_of_parts(monkeypatch, asked, parts):
    def no_session(run, **_):
        raise Stop(run.accumulate)

    monkeypatch.setattr(label_training, "Session", no_session)
    rows = [SimpleNamespace(token_ids=np.ones(tokens)) for tokens in (5, 2_048, 7) * 11]
    settings = FinetuneSettings(rows_per_batch=32, max_tokens=4_096, accumulate=asked)
    with pytest.raises(Stop, match=f"^{parts}$"):
        label_training.fit_classifier(plain_bert(256, 4), rows, np.zeros(33), "binary", settings)


@pytest.mark.parametrize("rows", [20, 90, 101, 300, 301, 900, 1_001, 4_999, 50_000, 10**6])
def test_a_small_table_gets_hundreds_of_updates_too(rows):
    model = plain_bert(256, 4)
    filled = filled_in(FinetuneSettings(), model, rows)
    updates = filled.epochs * math.ceil(rows / filled.rows_per_batch)
    assert updates >= (120 if rows >= 90 else 60)
    assert filled.epochs * rows <= max(10_500, 6 * rows)
    assert 2 <= filled.patience <= filled.epochs
    asked = FinetuneSettings(epochs=7, rows_per_batch=5, patience=2)
    assert filled_in(asked, model, rows) == replace(
        asked,
        learning_rate=filled.learning_rate,
        max_tokens=256,
        freeze_embeddings=rows <= 20_000,
        ema_decay=1 - 1 / min(max(rows // 5, 10), 1_000),
    )


def test_a_new_model_is_not_averaged():
    """It learns from random weights, so the average over an epoch would still be near them."""
    new, trained = (plain_bert(384, 3, pooler) for pooler in ("dense", None))
    without, averaged = (filled_in(FinetuneSettings(), model, 3_000) for model in (new, trained))
    assert (without.ema_decay, averaged.ema_decay) == (0.0, 1 - 1 / 93)
    assert (without.learning_rate, averaged.learning_rate) == (2e-4, 8e-4)
    assert without.epochs > averaged.epochs
    unaveraged = filled_in(FinetuneSettings(ema_decay=0.0), trained, 3_000)
    assert (unaveraged.learning_rate, unaveraged.epochs) == (without.learning_rate, without.epochs)


def test_many_classes_get_more_epochs():
    assert epochs_for(4_000, 77) == epochs_for(4_000, 2) + 2
    assert epochs_for(9_000, 150) == epochs_for(9_000)
    assert epochs_for(15_000, 150) == epochs_for(15_000)


@pytest.mark.slow
def test_half_precision_while_training_only():
    settings = FinetuneSettings(**QUICK | {"epochs": 1}, mixed_precision=True)
    model = finetune_classifier(examples("binary", 40), None, "none", settings, **QUIET).classifier.model
    assert (model.compute_dtype, model.encoder.compute_dtype) == ("float32", "float32")


def test_wide_models_are_accelerated(monkeypatch):
    monkeypatch.setattr(devices, "find_device", lambda: devices.GPU)
    for size, gains in (("tiny", False), ("mini", True)):
        chosen = accelerated("none", FinetuneSettings(size=size))
        assert (chosen.mixed_precision, chosen.jit_compile) == (gains, True)


@pytest.mark.slow
def test_from_lists_in_python(tmp_path):
    data = examples("multilabel", 60)
    labels = [label.split("|") for label in data.labels]
    settings = {**QUICK, "epochs": 1}
    classifier = keras_attention.finetune(data.texts, labels, start="none", out=tmp_path / "mine", **settings)
    assert classifier.task["kind"] == "multilabel"
    loaded = keras_attention.load(tmp_path / "mine")
    assert loaded.classify(data.texts) == classifier.classify(data.texts)
    with pytest.raises(UserError, match="60 and 59"):
        keras_attention.finetune(data.texts, labels[1:], start="none")
    with pytest.raises(UserError, match=r"must not contain '\|'"):
        keras_attention.finetune(data.texts, [["a|b"]] * 60, start="none")
    with pytest.raises(UserError, match="no setting 'epoch'"):
        keras_attention.finetune(data.texts, labels, epoch=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"freeze": -1}, "--freeze must be at least 0. Found: -1"),
        ({"dropout": 1.5}, "--dropout must be at least 0 and less than 1. Found: 1.5"),
        ({"long_texts": "middle"}, "--long-texts must be one of start, ends, whole. Found: middle"),
    ],
)
def test_settings_from_python_are_checked(settings, message):
    with pytest.raises(UserError, match=message):
        keras_attention.finetune(["x", "y"] * 5, ["a", "b"] * 5, start="none", **settings)


def test_as_much_is_read_as_the_start_reads_and_256_tokens_at_most(tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder())
    settings = FinetuneSettings(**{name: value for name, value in QUICK.items() if name != "max_tokens"})
    for start, tokens in ((tmp_path / "start", 29), ("none", 256)):
        prepared = prepare(examples("binary", 30), None, start, settings, notify=lambda _: None)
        assert prepared.classifier.max_tokens == tokens
        assert prepared.classifier.long_texts == "ends"
        assert filled_in(settings, prepared.classifier.model, 30).max_tokens == tokens


@pytest.mark.slow
def test_the_card_names_where_the_training_began_without_its_folder(tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    data = examples("binary", 30)
    keras_attention.finetune(
        data.texts, data.labels, start=tmp_path / "start", out=tmp_path / "mine", **{**QUICK, "epochs": 1}
    )
    metrics = read_entry(tmp_path / "mine").metrics
    assert "Fine-tuned from `start` on" in metrics["description"]
    assert metrics["training"]["start"] == "start"


def test_a_test_row_that_cannot_be_asked_stops_before_the_training():
    data, settings = examples("binary", 30), FinetuneSettings(**QUICK)
    strange = Examples(["a text"], ["maybe"], lines=[7], where="test.csv")
    with pytest.raises(UserError, match="test.csv.*7.*maybe"):
        finetune_classifier(data, None, "none", settings, test=strange, **QUIET)
    pair = Examples(["a text"], ["good"], ["another"])
    with pytest.raises(UserError, match="must both hold pairs"):
        finetune_classifier(data, None, "none", settings, test=pair, **QUIET)


@pytest.mark.parametrize("kind", ["multilabel", "regression"])
def test_labels_that_occur_twice_do_not_decide_how_many_rows_are_held_out(kind):
    numbers = [*range(2, 24), 2, 2, 3]  # 22 different labels, of which two occur more than once
    labels = ["|".join(sign for place, sign in enumerate("abcde") if number >> place & 1) for number in numbers]
    labels = labels if kind == "multilabel" else [f"{number}.5" for number in numbers]
    data = Examples([f"text {row}" for row in range(len(labels))], labels)
    separator = "|" if kind == "multilabel" else None
    prepared = prepare(data, None, "none", FinetuneSettings(**QUICK), separator=separator, validation_share=0.2, **SAY)
    assert (len(prepared.rows.train), len(prepared.rows.validation)) == (20, 5)


def test_a_lowest_probability_needs_one_label_for_each_row():
    with pytest.raises(UserError, match="--min-probability needs one label for each row. Found: a regression task"):
        prepare(examples("regression", 30), None, "none", FinetuneSettings(**QUICK, min_probability=0.9), **SAY)


def test_one_label_left_to_train_on_is_an_error():
    data = Examples(["a text"] * 9 + ["another"], ["good"] * 9 + ["bad"], where="few.csv")
    with pytest.raises(
        UserError, match="few.csv: with 1 row held out .* all others are .*Rows with the same text stay on one"
    ):
        finetune_classifier(data, None, "none", FinetuneSettings(**QUICK), **QUIET)


def test_weights_of_rare_labels():
    assert class_weights(np.array([0, 0, 0, 1]), "binary", 2) == pytest.approx([4 / 6, 2.0])
    targets = np.array([[1, 0, 1], [1, 0, 1], [1, 1, 0], [1, 0, 1], [1, 0, 0]])
    assert class_weights(targets, "multilabel", 3) == pytest.approx([1.0, 2.0, 1.0])  # at least 1; the root of 4 / 1


FLAGS = [
    "--size",
    "tiny",
    "--layers",
    "1",
    "--vocabulary-size",
    "67",
    "--max-tokens",
    "17",
    "--no-jit-compile",
    "--from",
    "none",
]
FLAGS += ["--rows-per-batch", "16", "--dropout", "0", "--learning-rate", "1e-3", "--text", "review", "--label", "mood"]


def write_csv(path, data):
    rows = [f'"{text}",{label}\n' for text, label in zip(data.texts, data.labels, strict=True)]
    path.write_text("review,mood\n" + "".join(rows))
    return str(path)


@pytest.mark.slow
def test_from_a_csv_to_answers(tmp_path, capsys):
    table = write_csv(tmp_path / "train.csv", examples("multiclass"))
    test = write_csv(tmp_path / "test.csv", examples("multiclass", 30))
    out = str(tmp_path / "mine")
    assert main(["finetune", table, "--test", test, "--out", out, "--epochs", "8", *FLAGS]) == 0
    printed = capsys.readouterr().out
    for part in (
        "read 120, used 120, skipped 0",
        "Task: multiclass",
        "On test, 30 rows",
        "TF-IDF",
        "| good |",
        "Saved",
    ):
        assert part in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "test.csv", "train.csv"]
    card = (tmp_path / "mine" / "CARD.md").read_text()
    assert "![Confusion matrix: true labels (rows) and predicted labels (columns)](confusion.png)" in card
    assert main(["classify", "--model", out, "a fine day", "--top", "2"]) == 0
    assert capsys.readouterr().out.startswith("good ")
    assert main(["classify", "--model", out, "a fine day", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == "good"
    assert main(["zoo", "verify", out]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "moods"], "moods"),
        (["--epochs", "0"], "--epochs must be greater than 0. Found: 0"),
        (["--validation-split", "1.5"], "--validation-split must be at least 0"),
        (["--freeze", "-1"], "--freeze must be at least 0. Found: -1"),
        (["--seed", "-1"], "--seed must be at least 0 and less than 4,294,967,296. Found: -1"),
        (["--learning-rate", "nan"], "--learning-rate must be greater than 0. Found: nan"),
        (["--from", "bert_maxi"], "bert_maxi"),
        (["--task", "regression"], "Expected: a number"),
        (["--test", "nothing.csv"], "nothing.csv"),
    ],
)
def test_an_error_that_the_user_can_fix_is_one_line(tmp_path, capsys, arguments, message):
    table = write_csv(tmp_path / "train.csv", examples("binary", 40))
    assert main(["finetune", table, "--out", str(tmp_path / "mine"), *FLAGS, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]


@pytest.mark.parametrize(("rows", "is_reported"), [(30, True), (400, False)])
def test_few_validation_rows_are_reported(rows, is_reported):
    messages = []
    prepare(examples("binary", rows), None, "none", FinetuneSettings(**QUICK), notify=messages.append)
    assert ("validation rows mean little" in " ".join(messages)) is is_reported
    assert ("measure on all rows: --folds 5." in " ".join(messages)) is is_reported


def test_checkpoints_of_another_training_are_noticed_before_the_table_is_read(tmp_path, capsys):
    words = ["finetune", str(tmp_path / "nowhere.csv"), "--text", "a", "--label", "b", "--out", str(tmp_path / "mine")]
    for name in ("mine_checkpoints", "mine_checkpoints_contrastive"):
        (tmp_path / name / "step-000000002").mkdir(parents=True)
        assert main(words) == 2
        error = capsys.readouterr().err
        assert f"{name} already holds checkpoints of another training" in error
        assert "--resume continues it, --restart starts from the beginning" in error
        for way_out in ("--resume", "--restart"):
            assert main([*words, way_out]) == 2
            assert "nowhere.csv" in capsys.readouterr().err
        (tmp_path / name / "step-000000002").rmdir()
