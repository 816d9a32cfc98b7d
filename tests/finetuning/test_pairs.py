"""Fine-tuning on text pairs: read as one sequence, or apart with a comparison of their vectors."""

import re

import numpy as np
import pytest
from zoo.tiny_bert import scaled, tiny_encoder, tokenizer, write_tiny

import keras_attention
from keras_attention.finetuning.calibration import finish
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.workflow import finetune_classifier, fit, prepare
from keras_attention.models import BertMaskedLM
from keras_attention.pipelines.base import load_pipeline
from keras_attention.support.errors import UserError

QUICK = {"epochs": 1, "rows_per_batch": 16, "jit_compile": False, "learning_rate": 1e-4}
SAY = {"notify": lambda _: None}


def pairs(count=96):
    """Pairs that are the same or another sentence: a model that sees only one of both texts cannot tell."""
    random = np.random.default_rng(5)
    words = ["dog", "men", "girl", "grass", "bushes", "dress", "red", "green", "runs", "sings"]
    texts, texts_b, labels = [], [], []
    for row in range(count):
        first, other = random.choice(words, 4), random.choice(words, 4)
        texts.append(" ".join(first))
        texts_b.append(" ".join(first if row % 2 else other))
        labels.append("same" if row % 2 else "other")
    return Examples(texts, labels, texts_b)


def start_of(folder, **settings):
    """An entry with an untrained sentence encoder, whose vectors tell words apart well enough."""
    return write_tiny(folder / "encoder", tiny_encoder(num_layers=1, **settings)).folder


def pooling_of(start, examples=None, **settings):
    chosen = FinetuneSettings(**QUICK, **settings)
    return prepare(examples or pairs(), None, start, chosen, **SAY).classifier.model.settings["pooling"]


def test_pairs_are_compared_where_the_start_encodes_sentences(tmp_path):
    start = start_of(tmp_path)
    assert pooling_of(start) == "pair"
    assert pooling_of(start, pairs="joint") == "mean"
    assert pooling_of(start, contrastive=True) == "mean"
    data = pairs()
    assert pooling_of(start, Examples(data.texts, data.labels)) == "mean"


def test_a_masked_language_model_reads_pairs_as_one_sequence(tmp_path):
    sizes = {"hidden_dim": 14, "intermediate_dim": 19, "num_heads": 2, "num_layers": 1, "max_length": 29}
    start = write_tiny(tmp_path / "masked", scaled(BertMaskedLM(tokenizer().vocabulary_size, **sizes))).folder
    assert pooling_of(start) == "mean"
    assert pooling_of(start, pairs="apart") == "pair"


def test_a_start_without_a_second_segment_reads_pairs_as_one_sequence(tmp_path):
    start = start_of(tmp_path, num_segments=1)
    assert pooling_of(start) == "mean"
    with pytest.raises(UserError, match=f"{re.escape(str(start))}: .* needs a network with two segments. Received: 1"):
        pooling_of(start, pairs="apart")


@pytest.mark.parametrize(
    ("settings", "single", "complaint"),
    [
        ({}, True, "--pairs apart needs rows with two texts"),
        ({"contrastive": True}, False, "and no --contrastive"),
        ({"linear_start": False}, False, "--pairs apart needs a trained start and its linear start"),
    ],
)
def test_pairs_apart_need_pairs_and_a_linear_start(settings, single, complaint, tmp_path):
    data = pairs()
    rows = Examples(data.texts, data.labels) if single else data
    with pytest.raises(UserError, match=complaint):
        pooling_of(start_of(tmp_path), rows, pairs="apart", **settings)


def test_compared_pairs_are_learned_saved_and_fine_tuned_further(tmp_path):
    start, held = start_of(tmp_path), pairs(120)
    prepared = prepare(pairs(240), None, start, FinetuneSettings(**QUICK), **SAY)
    joint = prepare(pairs(240), None, start, FinetuneSettings(**QUICK, pairs="joint"), **SAY)
    assert prepared.linear_score > joint.linear_score + 15
    finished = finish(prepared, fit(prepared, FinetuneSettings(**QUICK), verbose=0), FinetuneSettings(**QUICK))
    folder = tmp_path / "compared"
    finished.classifier.save(folder)
    loaded = load_pipeline(folder)
    expected = finished.classifier.classify(held.texts, held.texts_b, return_scores=True)
    for mine, its in zip(expected, loaded.classify(held.texts, held.texts_b, return_scores=True), strict=True):
        assert mine.label == its.label
        assert mine.probabilities == pytest.approx(its.probabilities, abs=1e-4)
    assert pooling_of(folder) == "pair"
    data = pairs()
    assert pooling_of(folder, Examples(data.texts, data.labels)) == "mean"  # single texts
    assert keras_attention.load(folder).explain("red dog", "red dog").words


def test_regression_compares_pairs_too(tmp_path):
    data = pairs(80)
    numbers = ["3.5" if label == "same" else "0.5" for label in data.labels]
    numbered = Examples(data.texts, numbers, data.texts_b)
    finetuned = finetune_classifier(
        numbered, None, start_of(tmp_path), FinetuneSettings(**QUICK), task="regression", verbose=0, **SAY
    )
    assert finetuned.classifier.model.settings["pooling"] == "pair"
