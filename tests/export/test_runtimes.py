"""ONNX and LiteRT files with weights of 8 bits: a quarter of the size, nearly the same answers, and told how near."""

import json
import sys

import numpy as np
import pytest
from zoo.tiny_bert import SIZES, TEXTS, scaled, tiny_classifier, tiny_encoder, tiny_mask_filler, tokenizer, write_tiny

from keras_attention.cli import main as cli
from keras_attention.models import BertClassifier
from keras_attention.pipelines.text_encoder import TextEncoder

MASKED = ["A [MASK] runs.", "[MASK] men are near many bushes."]


class Shifted:
    """A network that adds a number to each output of another one."""

    def __init__(self, network, shift):
        self.network, self.shift = network, shift

    def run(self, examples, progress=None):
        return [(output + self.shift,) for (output,) in self.network.run(examples, progress)]


@pytest.mark.slow
def test_agreement_counts_equal_labels_and_changes():
    classifier = tiny_classifier("binary")
    exact = classifier.with_network(classifier.compiled)
    assert exact.agreement(exact, TEXTS) == {"same labels (%)": 100.0, "largest change of a probability": 0.0}
    turned = classifier.with_network(Shifted(classifier.compiled, np.array([100.0, 0.0])))
    agreement = exact.agreement(turned, TEXTS)
    answers = classifier.classify(TEXTS, return_scores=True)
    assert agreement["same labels (%)"] == 100.0 * sum(answer.label == "bad" for answer in answers) / len(TEXTS)
    expected = max(answer.probabilities["good"] for answer in answers)
    np.testing.assert_allclose(agreement["largest change of a probability"], expected, atol=1e-6)

    number = tiny_classifier("regression")
    shifted = number.with_network(Shifted(number.compiled, 0.25))
    np.testing.assert_allclose(number.agreement(shifted, TEXTS)["largest change"], 0.25, atol=1e-5)

    encoder = TextEncoder(tiny_encoder(), tokenizer(), 23)
    other = encoder.with_network(Shifted(encoder.compiled, 7.0))
    agreement, vectors = encoder.agreement(other, TEXTS), encoder.encode(TEXTS).pooled
    cosines = [a @ (a + 7.0) / np.linalg.norm(a) / np.linalg.norm(a + 7.0) for a in vectors]
    np.testing.assert_allclose(list(agreement.values()), [np.mean(cosines), np.min(cosines)], atol=1e-5)

    filler = tiny_mask_filler()
    best = filler.answers(MASKED)
    only = np.where(np.arange(tokenizer().vocabulary_size) == 40, 1e3, 0.0)
    forced = filler.with_network(Shifted(filler.compiled, only))
    same = sum(map(str.__eq__, best, forced.answers(MASKED)))
    assert filler.agreement(forced, MASKED) == {"same words (%)": 50.0 * same}
    assert same < len(MASKED)


@pytest.mark.slow
def test_a_bag_of_words_is_left_out():
    classifier = tiny_classifier("binary")
    classifier.blend = object()  # would fail
    exact = classifier.with_network(classifier.compiled)
    assert exact.blend is None
    assert exact.classify(TEXTS) == tiny_classifier("binary").classify(TEXTS)


def written(folder, kind):
    """Writes a tiny model as an entry."""
    if kind == "classifier":
        sizes = SIZES | {"intermediate_dim": 79}  # LiteRT leaves weights of less than 1,024 numbers as they are
        model = scaled(BertClassifier(tokenizer().vocabulary_size, **sizes, num_labels=3))
        examples = [{"source": text, "output": "a"} for text in TEXTS]
        write_tiny(folder, model, examples, task=tiny_classifier("multiclass").task)
    elif kind == "filler":
        write_tiny(folder, tiny_mask_filler().model, [{"source": text, "output": "a"} for text in MASKED])
    else:
        write_tiny(folder, tiny_encoder(), [{"source": "a dog", "source_b": TEXTS[1], "output": "0.10"}])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file_format", "kind"), [("onnx", "classifier"), ("onnx", "encoder"), ("onnx", "filler"), ("litert", "classifier")]
)
def test_the_command_reports_the_changes_by_8_bits(tmp_path, capsys, file_format, kind):
    if file_format == "onnx":
        for package in ("onnx", "onnxruntime", "tf2onnx"):
            pytest.importorskip(package)
    written(tmp_path / "model", kind)
    command = ["export", str(tmp_path / "model"), str(tmp_path / "new"), "--format", file_format, "--int8"]
    table = tmp_path / "table.csv"
    table.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(TEXTS, "abca", strict=True)))
    if kind == "classifier":
        command += ["--table", str(table)]
    assert cli.main([*command, "--json"]) == 0
    change = json.loads(capsys.readouterr().out)["int8"]
    kept = {"classifier": "same labels (%)", "encoder": "least cosine", "filler": "same words (%)"}[kind]
    assert change["agreement"][kept] > (0.95 if kind == "encoder" else 40)
    if kind == "classifier":
        assert set(change["before"]) == set(change["after"]) == {"accuracy", "macro-F1", "Matthews"}
        assert change["agreement"]["largest change of a probability"] > 1e-6  # it is the file that is measured
    name = {"onnx": "model.onnx", "litert": "model.tflite"}[file_format]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["CARD.md", name, "tokenizer"]


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["cls", "pair"])
@pytest.mark.parametrize("file_format", ["onnx", "litert"])
def test_a_file_answers_as_its_model(tmp_path, monkeypatch, file_format, pooling):
    if file_format == "onnx":
        for package in ("onnx", "onnxruntime", "tf2onnx"):
            pytest.importorskip(package)
    from keras_attention.export import runtimes

    classifier = tiny_classifier("multiclass", pair=True, pooling=pooling)
    runtimes.export_bert(tmp_path, classifier, file_format)
    exact, other = runtimes.without_and_with(tmp_path, file_format, classifier)
    agreement_of_pairs = exact.agreement(other, TEXTS, TEXTS[::-1])
    assert agreement_of_pairs["same labels (%)"] == 100.0
    assert agreement_of_pairs["largest change of a probability"] < 1e-3
    if file_format == "litert":
        monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)  # as where it is not installed
        exact, other = runtimes.without_and_with(tmp_path, file_format, classifier)
        assert exact.agreement(other, TEXTS, TEXTS[::-1]) == agreement_of_pairs


def test_bad_usage(tmp_path, capsys):
    written(tmp_path / "model", "encoder")
    classifier = tiny_classifier("binary", pair=True)
    write_tiny(tmp_path / "pairs", classifier.model, [], task=classifier.task)

    def complaint(name, *options):
        assert cli.main(["export", str(tmp_path / name), str(tmp_path / "new"), *options]) == 2
        assert not (tmp_path / "new").exists()
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "--int8 needs --format litert or --format onnx" in complaint("model", "--int8")
    assert "need --int8" in complaint("model", "--table", "x.csv")
    assert "--table is for classifiers" in complaint("model", "--int8", "--format", "onnx", "--table", "x.csv")
    assert "which is missing" in complaint("model", "--int8", "--format", "onnx", "--text", "review")
    assert "--text-b COLUMN" in complaint("pairs", "--int8", "--format", "onnx", "--table", "x.csv")
