"""A small classifier learns from a larger one."""

import json
import re

import numpy as np
import pytest
from finetuning.test_workflow import QUICK, QUIET, examples, write_csv
from zoo.tiny_bert import LABELS, task, tiny_classifier, tiny_encoder, write_tiny

import keras_attention
from keras_attention.cli.main import main
from keras_attention.data.tables.label_task import Task
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.label_training import fit_classifier
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.teacher import load_teacher
from keras_attention.finetuning.workflow import finetune_classifier, prepare
from keras_attention.support.errors import UserError

SETTINGS = {"epochs": 1, "max_tokens": 17, "jit_compile": False}


def write_teacher(folder, labels=("good", "bad"), kind="binary", pair=False):
    """An entry of random weights whose labels stand in this order."""
    about = task(kind, pair) | {"label_names": list(labels)}
    write_tiny(folder, tiny_classifier(kind, pair, num_layers=1).model, task=about)
    return folder


def test_answers_come_in_the_order_of_the_table(tmp_path):
    known = Task("binary", ("bad", "good"), None, "")
    texts = ["A dog runs.", "Men sit.", "A girl in a red dress sings."]
    teacher = load_teacher(write_teacher(tmp_path / "teacher"), known, False)
    actual = teacher.logits(Examples(texts, ["bad"] * 3))
    answers = keras_attention.load(tmp_path / "teacher").classify(texts, return_scores=True)
    for logits, answer in zip(actual, answers, strict=True):
        probability = 1 / (1 + np.exp(logits[0] - logits[1]))
        assert answer.probabilities["good"] == pytest.approx(probability, abs=1e-5)


@pytest.mark.slow
def test_the_student_has_fewer_layers_and_learns_the_answers(tmp_path):
    """With alpha = 1 the labels do not matter: the student learns what its teacher says, even if it is wrong."""
    data = examples("binary", 120)
    wrong = {"good": "bad", "bad": "good"}
    opposite = Examples(data.texts, [wrong[label] for label in data.labels])
    settings = {**QUICK, "epochs": 6}
    taught = finetune_classifier(opposite, None, "none", FinetuneSettings(**settings | {"layers": 2}), **QUIET)
    taught.classifier.save(tmp_path / "teacher")
    settings = FinetuneSettings(**settings, teacher=str(tmp_path / "teacher"), alpha=1.0)
    prepared = prepare(data, None, "none", settings, notify=QUIET["notify"])
    student = prepared.classifier
    assert (student.model.encoder.num_layers, taught.classifier.model.encoder.num_layers) == (1, 2)
    learning = {"soft_labels": prepared.soft_labels, "verbose": 0}
    fit_classifier(student.model, prepared.sequences, prepared.rows.targets, "binary", settings, **learning)
    agreed = np.mean([a == b for a, b in zip(student.classify(data.texts), opposite.labels, strict=True)])
    assert agreed > 0.9


@pytest.mark.slow
def test_the_lowest_layers_of_the_start_are_kept(tmp_path):
    encoder = tiny_encoder(num_layers=2)
    write_tiny(tmp_path / "start", encoder)
    prepared = prepare(
        examples("binary", 30), None, tmp_path / "start", FinetuneSettings(**SETTINGS, layers=1), notify=QUIET["notify"]
    )
    kept = prepared.classifier.model.encoder
    assert kept.num_layers == 1
    for ours, theirs in zip(kept.encoder_layers, encoder.encoder_layers, strict=False):
        for weight, original in zip(ours.get_weights(), theirs.get_weights(), strict=True):
            np.testing.assert_allclose(weight, original, atol=1e-6)
    with pytest.raises(UserError, match="has 2 layers. Received: --layers 5"):
        prepare(
            examples("binary", 30),
            None,
            tmp_path / "start",
            FinetuneSettings(**SETTINGS, layers=5),
            notify=QUIET["notify"],
        )


@pytest.mark.parametrize(
    ("labels", "kind", "pair", "complaint"),
    [
        (
            ("good", "awful"),
            "binary",
            False,
            "binary ('good', 'awful'). Expected, as in the table: binary ('bad', 'good')",
        ),
        (LABELS["multiclass"], "multiclass", False, "has the task multiclass"),
        (("bad", "good"), "binary", True, "reads pairs of texts. The table has single texts"),
    ],
)
def test_a_teacher_of_another_task_is_refused(tmp_path, labels, kind, pair, complaint):
    teacher = write_teacher(tmp_path / "teacher", labels, kind, pair)
    with pytest.raises(UserError, match=re.escape(complaint)):
        load_teacher(teacher, Task("binary", ("bad", "good"), None, ""), False)


@pytest.mark.slow
def test_from_the_command_line(tmp_path, capsys):
    table = write_csv(tmp_path / "train.csv", examples("binary", 60))
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=2))
    teacher = write_teacher(tmp_path / "teacher")
    flags = ["--from", str(tmp_path / "start"), "--layers", "1", "--max-tokens", "17", "--epochs", "1", "--json"]
    flags += ["--text", "review", "--label", "mood", "--out", str(tmp_path / "mine"), "--teacher"]
    assert main(["finetune", table, *flags, str(teacher)]) == 0
    capsys.readouterr()
    metrics = json.loads((tmp_path / "mine" / "metrics.json").read_text(encoding="utf-8"))
    assert "Fine-tuned from `start` and distilled from `teacher` on" in metrics["description"]
    assert (metrics["training"]["teacher"], metrics["training"]["layers"]) == ("teacher", 1)
    assert str(tmp_path) not in json.dumps(metrics["training"])
    assert main(["finetune", table, *flags, str(tmp_path / "start"), "--overwrite"]) == 2
    assert "is a BertEncoder. Expected: a classifier as the --teacher." in capsys.readouterr().err
    assert main(["finetune", table, *flags, str(teacher), "--overwrite", "--alpha", "1.5"]) == 2
    assert capsys.readouterr().err == "keras-attention: --alpha must be from 0 to 1. Found: 1.5\n"
