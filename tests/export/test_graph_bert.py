"""Classifiers, encoders and fillers as graphs give the answers of their pipelines, also in a process of their own."""

import json
import os
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from bert_texts import bert_texts
from zoo.tiny_bert import (
    TEXTS,
    tiny_classifier,
    tiny_encoder,
    tiny_mask_filler,
    tiny_protein_model,
    tokenizer,
    write_tiny,
)

import keras_attention
from keras_attention.cli import main as cli
from keras_attention.evaluation.bag_of_words import Blend, fit_bag_of_words
from keras_attention.export.graph_bert import GraphClassifier, GraphEncoder, GraphFiller
from keras_attention.export.graph_texts import WordsInGraph
from keras_attention.pipelines.classifier import Classifier
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.support.blank_texts import is_blank

LONG = [
    " ".join(TEXTS * 3),
    "dog " * 19,
    "dog " * 20,
    "dog " * 21,
    "dog " * 22,
    "a" * 2000,
    "",
    " \u3000 ",
    "men\u2028sit",
]
MANY = [*LONG, *TEXTS, *bert_texts(187)]
WRITTEN = ["A dog." if is_blank(text) else text for text in MANY]  # blank texts have an answer in a graph alone
PLAIN = [*TEXTS * 9, *(f"{a} {b}" for a in TEXTS for b in ("Thank you!", "haha 😂", "Café Zoë", "ÉCOLE"))] * 4
PROGRAM = """
import json
import sys

import numpy as np

for name, inputs in json.load(sys.stdin).items():
    with open(f"{name}/README.txt", encoding="utf-8") as file:
        exec("".join(line[4:] for line in file if line.startswith("    ")))
    inputs = {key: tf.constant(texts) for key, texts in inputs.items()}
    answers = {key: value.numpy() for key, value in model.signatures["serving_default"](**inputs).items()}
    answers = {key: array.astype(bytes) if array.dtype == object else array for key, array in answers.items()}
    np.savez(f"{name}.npz", **answers)
assert "keras_attention" not in sys.modules
"""


def texts_of(array):
    return [value.decode() for value in np.asarray(array).tolist()]


def check_classes(actual, expected, atol=1e-5, separator="|"):
    """Compares the answers of a graph with Classifications."""
    assert texts_of(actual["label"]) == [
        separator.join(answer.label) if isinstance(answer.label, list) else answer.label or "" for answer in expected
    ]
    assert np.asarray(actual["truncated"]).tolist() == [answer.truncated for answer in expected]
    values = [list(answer.probabilities.values()) for answer in expected]
    np.testing.assert_allclose(actual["probabilities"], values, atol=atol)
    for row, answer in zip(np.asarray(actual["labels"]), expected, strict=True):
        assert texts_of(row)[0] == next(iter(answer.probabilities))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("long_texts", ["start", "ends", "whole"])
def test_a_classifier(kind, long_texts):
    usual = tiny_classifier(kind)
    task = usual.task | {"long_texts": long_texts}
    task |= {"threshold": [0.3, 0.5, 0.9]} if kind == "multilabel" else {"min_probability": 0.6}
    classifier = Classifier(usual.model, usual.tokenizer, 13, task)
    answer = GraphClassifier(classifier).answer(tf.constant(MANY))
    check_classes(answer, classifier.classifications(MANY))
    assert GraphClassifier(classifier).answer(tf.constant([], tf.string))["label"].shape == (0,)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
@pytest.mark.parametrize("pooling", ["cls", "pair"])
@pytest.mark.parametrize("long_texts", ["start", "ends"])
def test_pairs(long_texts, pooling):
    usual = tiny_classifier("multiclass", pair=True, pooling=pooling)
    classifier = Classifier(usual.model, usual.tokenizer, 13, usual.task | {"long_texts": long_texts})
    seconds = MANY[7:] + MANY[:7]
    answer = GraphClassifier(classifier).answer(tf.constant(MANY), tf.constant(seconds))
    check_classes(answer, classifier.classifications(MANY, seconds))


@pytest.mark.slow
def test_a_number_and_no_segments():
    classifier = tiny_classifier("regression", num_segments=0)
    answer = GraphClassifier(classifier).answer(tf.constant(TEXTS))
    np.testing.assert_allclose(answer["value"], classifier.classify(TEXTS), atol=1e-4)


def blended():
    classifier = tiny_classifier("multiclass")
    targets = np.arange(len(MANY)) % 3
    words = fit_bag_of_words(MANY, None, targets, "multiclass", 3)
    classifier.blend = Blend(words, 0.7)
    return classifier


def test_a_bag_of_words():
    words = blended().blend.words
    texts = [*MANY, "ΣΊΣΥΦΟΣ İSTANBUL ǅ a_b x²½ e\u0301", "\x85a\x1cb\u3000c"]
    lower = texts_of(tf.strings.lower(tf.constant([text.replace("\0", "") for text in texts]), "utf-8"))
    known = [text for text, other in zip(texts, lower, strict=True) if other == text.replace("\0", "").lower()]
    assert len(known) > 0.97 * len(texts)  # TensorFlow's tables of letters are older than Python's
    texts = [text for text in known if not any(unicodedata.category(sign) == "Cn" for sign in text)]
    texts += ["很好 iPhone手机!", "ที่ดีมาก abcดี", "か\u3099x\u0323 とて"]
    texts += ["cafe\u0301 CAFE\u0301 \u092e\u0947\u0902 \u2764\ufe0f", "\u2764\ufe0f 1\ufe0f\u20e3 caf\xe9"]
    graph = WordsInGraph(words)
    np.testing.assert_allclose(graph.logits(tf.constant(texts)), words.logits(texts), atol=1e-5)
    seconds = texts[::-1]
    logits = graph.logits(tf.constant(texts), tf.constant(seconds))
    np.testing.assert_allclose(logits, words.logits(texts, seconds), atol=1e-5)
    seconds = [*texts[:30], "", *(f"{text} more words" for text in texts[30:60]), *texts[61:][::-1]]
    targets = np.arange(len(texts)) % 3
    of_pairs = fit_bag_of_words(texts, seconds, targets, "multiclass", 3)
    assert any(term.startswith("both:") for term in of_pairs.terms)
    logits = WordsInGraph(of_pairs).logits(tf.constant(texts), tf.constant(seconds))
    np.testing.assert_allclose(logits, of_pairs.logits(texts, seconds), atol=1e-5)


def test_a_bag_of_letters():
    texts = [text for text in MANY if text.isascii()]
    texts += [
        "Größe ÉTÉ cafe\u0301",
        "很好。手机",
        "",
        " ",
        "a",
        "\x85b\u3000c",
    ]
    letters = fit_bag_of_words(texts, None, np.arange(len(texts)) % 3, "multiclass", 3, units="letters")
    assert {"好", " a ", "größe", "é "} <= set(letters.terms)
    graph = WordsInGraph(letters)
    np.testing.assert_allclose(graph.logits(tf.constant(texts)), letters.logits(texts), atol=1e-5)
    seconds = texts[::-1]
    logits = graph.logits(tf.constant(texts), tf.constant(seconds))
    np.testing.assert_allclose(logits, letters.logits(texts, seconds), atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False)])
def test_an_encoder(pooling, normalize):
    encoder = TextEncoder(tiny_encoder(), tokenizer(), 13, pooling=pooling, normalize=normalize)
    answer = GraphEncoder(encoder).answer(tf.constant(MANY))
    expected = encoder.encode(MANY)
    written = [not is_blank(text) for text in MANY]  # the graph has vectors of blank texts, too
    np.testing.assert_allclose(answer["vectors"].numpy()[written], expected.pooled[written], atol=1e-4)
    assert answer["truncated"].numpy().tolist() == expected.truncated


MASKED = [
    "A [MASK] runs.",
    "[MASK] men [MASK] near [MASK][MASK].",
    " \u3000[MASK]",
    "A [mask] runs to [Mask].",
    "[MASK] " * 5,
    "dog " * 30 + "[MASK]",
]


def check_fillings(actual, filler, texts):
    for number, text in enumerate(texts):
        try:
            expected = filler.fill_mask(text)
        except ValueError:
            expected = []
        if not expected:  # an empty text, no gap, or too many
            assert texts_of(actual["fillings"][number]) == [""] * 5
            assert np.asarray(actual["scores"][number]).tolist() == [0.0] * 5
            continue
        assert texts_of(actual["fillings"][number]) == [filling.text for filling in expected]
        assert [word for word in texts_of(actual["words"][number][0]) if word] == expected[0].words
        np.testing.assert_allclose(actual["scores"][number], [filling.score for filling in expected], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
def test_a_filler():
    filler = tiny_mask_filler()
    texts = [*MASKED, "no gap", "[MASK] " * 33, "", "[MASK] a " + "dog " * 30]
    check_fillings(GraphFiller(filler).answer(tf.constant(texts)), filler, texts)
    nothing = GraphFiller(filler).answer(tf.constant(["a", "b"]))
    assert nothing["words"].shape == (2, 5, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
def test_a_filler_of_proteins():
    filler = tiny_protein_model()
    texts = ["mkv[MASK]L A-W*", "[MASK]", "ACDEFGHIKL[MASK]MNPQRSTVWY[MASK]BX", "[MASK]" + "MKVLAA" * 9]
    check_fillings(GraphFiller(filler).answer(tf.constant(texts)), filler, texts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
def test_a_process_with_tensorflow_alone(tmp_path, capsys, monkeypatch):
    """Equal to `classify`, `encode` and `fill_mask` on 200 texts; the commands write what is loaded."""
    models = {"moods": tiny_classifier(), "blended": blended(), "pairs": tiny_classifier("multilabel", pair=True)}
    models |= {"apart": tiny_classifier("binary", pair=True, pooling="pair")}
    models |= {"vectors": TextEncoder(tiny_encoder(), tokenizer(), 23), "gaps": tiny_mask_filler()}
    inputs = {name: {"texts": WRITTEN} for name in models}
    inputs["pairs"]["texts_b"] = inputs["apart"]["texts_b"] = WRITTEN[::-1]
    inputs["blended"]["texts"] = PLAIN[:200]
    inputs["gaps"]["texts"] = MASKED
    assert len(WRITTEN) == 200
    for name, pipeline in models.items():
        pipeline.save(tmp_path / "zoo" / name)
        assert cli.main(["export", str(tmp_path / "zoo" / name), str(tmp_path / name)]) == 0
    assert "fillings       string (B, 5)" in capsys.readouterr().out
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", PROGRAM]
    subprocess.run(command, input=json.dumps(inputs), cwd=tmp_path, env=environment, text=True, check=True)
    answers = {name: dict(np.load(tmp_path / f"{name}.npz")) for name in models}
    for name in ("moods", "blended", "pairs", "apart"):
        expected = models[name].classify(*inputs[name].values(), return_scores=True)
        check_classes(answers[name], expected, atol=1e-4)  # that process optimizes its graphs, this one does not
    np.testing.assert_allclose(answers["vectors"]["vectors"], models["vectors"].encode(WRITTEN).pooled, atol=1e-4)
    check_fillings(answers["gaps"], models["gaps"], MASKED)


@pytest.mark.thorough
def test_a_model_of_the_zoo(tmp_path):
    classifier = keras_attention.load("minilm_small_goemotions")
    texts = [
        f"{text} {other}" for text in TEXTS * 5 for other in ("", "Thank you!", "I hate it.", "haha 😂", "Why?")
    ] * 2
    assert len(texts) == 200
    answer = GraphClassifier(classifier).answer(tf.constant(texts))
    check_classes(answer, classifier.classify(texts, return_scores=True), separator=classifier.task["separator"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "encoder", "filler"])
def test_litert_carries_the_network(tmp_path, capsys, kind):
    made = {"classifier": tiny_classifier, "filler": tiny_mask_filler}
    model = tiny_encoder() if kind == "encoder" else made[kind]().model
    write_tiny(tmp_path / "model", model, **({"task": tiny_classifier().task} if kind == "classifier" else {}))
    command = ["export", str(tmp_path / "model"), str(tmp_path / "new"), "--format", "litert", "--json"]
    assert cli.main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["inputs"]["token_ids"]["type"] == "int32 (1, 23)"
    ids = {name: np.zeros((1, 23), "int32") for name in ("token_ids", "segment_ids")}
    ids["token_ids"][0, :5] = (2, 7, 11, 13, 3)
    network = tf.lite.Interpreter(str(tmp_path / "new" / "model.tflite")).get_signature_runner("serving_default")
    (logits,) = network(**ids).values()
    expected = np.asarray(model(ids))
    read = slice(None) if kind == "classifier" else slice(0, 5)  # what stands at padding is of no use
    np.testing.assert_allclose(logits[:, read], expected[:, read], atol=1e-3)


@pytest.mark.slow
def test_onnx_carries_the_network_or_says_what_is_missing(tmp_path, capsys):
    write_tiny(tmp_path / "model", tiny_encoder())
    code = cli.main(["export", str(tmp_path / "model"), str(tmp_path / "new"), "--format", "onnx"])
    try:
        import onnx  # noqa: F401
        import tf2onnx  # noqa: F401
    except ImportError:
        assert code == 2
        assert "needs other packages: pip install onnx" in capsys.readouterr().err
        return
    assert code == 0
    runtime = pytest.importorskip("onnxruntime")
    ids = {name: np.zeros((2, 7), "int32") for name in ("token_ids", "segment_ids")}
    ids["token_ids"][:, :5] = (2, 7, 11, 13, 3)
    (logits,) = runtime.InferenceSession(str(tmp_path / "new" / "model.onnx")).run(None, ids)
    np.testing.assert_allclose(logits[:, :5], np.asarray(tiny_encoder()(ids))[:, :5], atol=1e-3)
