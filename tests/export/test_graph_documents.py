"""A classifier of documents in a graph has the rows, the answers and the refusals of the pipeline."""

import numpy as np
import pytest
import tensorflow as tf
from pipelines.test_document_classifier import TEXT, W, classifier, network
from zoo.tiny_bert import task, write_tiny

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.export.graph_documents import DocumentsInGraph

TEXTS = [
    TEXT,
    "Mr. A. Dog met Mrs. J. R. Men vs. Dr. Red etc. and sat... near. Bushes!",
    'He said "Stop!" (No.) e.g. men\u00a0are.\u2003Two dogs.\r\nA girl<BR>sings',
    "Mr.\nA dog. \x01 B. C",
    "",
    " \n <br /> ",
    " ".join(["Two men sit near a red dog."] * 9),
    "a" * 40 + ". 3.5 dogs? ²., b.c. ...",
]


@pytest.mark.parametrize("long_texts", ["start", "ends", "whole"])
def test_the_rows_are_those_of_the_pipeline(long_texts):
    model = classifier(long_texts)
    sequences, truncated = DocumentsInGraph(model).sequences(tf.constant(TEXTS))
    expected = model.sequences(TEXTS)
    owners = [number for number, some in enumerate(expected) for _ in some]
    assert sequences.owners.numpy().tolist() == owners
    for ids, length, sequence in zip(
        sequences.token_ids.numpy(), sequences.lengths.numpy(), sum(expected, []), strict=True
    ):
        assert ids[:length].reshape(-1, W).tolist() == sequence.token_ids.reshape(-1, W).tolist()
        assert not ids[length:].any()
    assert truncated.numpy().tolist() == [some[0].truncated for some in expected]


@pytest.mark.slow
def test_an_exported_model_gives_the_answers_of_the_pipeline(tmp_path, capsys):
    write_tiny(tmp_path / "mine", network(), task=task())
    assert main(["export", str(tmp_path / "mine"), str(tmp_path / "exported")]) == 0
    answers = tf.saved_model.load(str(tmp_path / "exported")).signatures["serving_default"](texts=tf.constant(TEXTS))
    expected = load(tmp_path / "mine").classifications(TEXTS)
    for label, probability, answer in zip(answers["label"], answers["probabilities"], expected, strict=True):
        assert label.numpy().decode() == answer.label
        np.testing.assert_allclose(probability.numpy()[0], answer.probabilities[answer.label], atol=1e-5)
    assert main(["export", str(tmp_path / "mine"), str(tmp_path / "other"), "--format", "onnx"]) == 2
    assert "Formats for this kind of model: saved_model" in capsys.readouterr().err
