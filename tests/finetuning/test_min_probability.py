"""`--min-probability auto`: rows of no class are mostly unsure, and the right answers mostly stay."""

import numpy as np
import pytest
from finetuning.test_workflow import SAY
from zoo.tiny_bert import tiny_encoder, write_tiny

from keras_attention.cli.finetune import settings_of
from keras_attention.cli.main import make_parser
from keras_attention.finetuning.calibration import min_probability_of
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.settings import FinetuneSettings, check_settings
from keras_attention.finetuning.workflow import finetune_classifier
from keras_attention.support.errors import UserError

SUBJECTS = {"bill": ["pay", "invoice", "money"], "route": ["drive", "map", "road"], "food": ["eat", "soup", "bread"]}
FOREIGN = ["violin", "planet", "goat", "justice", "fog", "winter"]
FILLERS = ["please", "tell", "me", "about", "the", "my", "now"]


def questions(count, out_of_scope, seed):
    """Texts of three subjects, and of none: their label is "oos"."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for label, amount in [*((subject, count) for subject in SUBJECTS), ("oos", out_of_scope)]:
        words = SUBJECTS.get(label, FOREIGN)
        texts += [
            " ".join(random.permutation([*random.choice(FILLERS, 4), random.choice(words)])) for _ in range(amount)
        ]
        labels += [label] * amount
    return Examples(texts, labels)


@pytest.mark.slow
@pytest.mark.parametrize("trained", [0, 7])
def test_rows_of_no_class_get_no_answer(trained, tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    settings = FinetuneSettings(quick=True, min_probability="auto", max_tokens=17, jit_compile=False)
    train, test = questions(101, trained, 3), questions(67, 211, 5)
    finetuned = finetune_classifier(train, None, tmp_path / "start", settings, **SAY).classifier
    assert 0 < finetuned.task["min_probability"] < 1
    answers = finetuned.classify(test.texts)
    scope = np.array([label != "oos" for label in test.labels])
    right = np.array([answer == label for answer, label in zip(answers, test.labels, strict=True)])
    refused = np.array([answer in (None, "oos") for answer in answers])
    assert right[scope].mean() > 0.9
    assert refused[~scope].mean() > 0.8


def test_a_share_of_the_right_answers_reaches_the_threshold():
    random = np.random.default_rng(2)
    logits = random.normal(size=(401, 3)) * 2
    targets = np.where(random.random(401) < 0.8, logits.argmax(axis=1), 0)
    threshold = min_probability_of(logits, targets)
    values = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    right = values.max(axis=1)[logits.argmax(axis=1) == targets]
    assert 0.95 <= (right >= threshold).mean() < 0.96
    assert min_probability_of(logits, 3 + 0 * targets) == 0.0


def test_the_flag_takes_a_number_or_auto():
    def settings(value):
        command = ["finetune", "a.csv", "--text", "a", "--label", "b", "--min-probability", value]
        return settings_of(make_parser().parse_args(command))

    assert settings("auto").min_probability == "auto"
    assert settings("0.25").min_probability == 0.25
    with pytest.raises(SystemExit):
        settings("car")
    with pytest.raises(UserError, match="--min-probability must be at least 0 and less than 1. Found: 1.5"):
        check_settings(FinetuneSettings(min_probability=1.5))
