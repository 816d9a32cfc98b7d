"""Networks that compute NaN or infinity: every pipeline says so in one line, and gives no answer."""

import json

import numpy as np
import pytest
from zoo.tiny_bert import task, tiny_classifier, tiny_encoder, tiny_mask_filler, tokenizer, write_tiny
from zoo.tiny_entry import ENGLISH, tiny_translator
from zoo.tiny_gpt import tiny_generator

from keras_attention.cli.io.terminal import json_text
from keras_attention.cli.main import main
from keras_attention.evaluation.bag_of_words import BagOfWords, Blend
from keras_attention.models import BertClassifier
from keras_attention.pipelines.classifier import ZeroShotClassifier
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.support.errors import UserError, parse_json

ERROR = "The model computed NaN or infinity as .*, so there is no answer. Its weights are damaged or too large"


def damaged(pipeline, value=np.nan):
    """The pipeline, with weights that make every answer NaN or infinite."""
    for weight in pipeline.model.weights:
        weight.assign(np.full(weight.shape, value, "float32"))
    return pipeline


def encoder():
    return TextEncoder(tiny_encoder(), tokenizer(), 23)


@pytest.mark.parametrize("value", [np.nan, 1e30])
def test_no_label(value):
    classifier = damaged(tiny_classifier(), value)
    for answer in (classifier.classify, classifier.explain, classifier.attention_view):
        with pytest.raises(UserError, match=ERROR):
            answer("A dog runs.")
    with pytest.raises(UserError, match=ERROR):
        classifier.reply(texts=["A dog runs."])


@pytest.mark.parametrize("kind", ["multilabel", "regression"])
def test_no_label_of_other_tasks(kind):
    with pytest.raises(UserError, match=ERROR):
        damaged(tiny_classifier(kind)).classify(["A dog runs."])


def test_no_label_from_a_damaged_bag_of_words():
    classifier = tiny_classifier()
    kernel, bias = np.full((1, 2), np.inf, "float32"), np.zeros(2, "float32")
    classifier.blend = Blend(BagOfWords(["dog"], np.ones(1, "float32"), kernel, bias), 0.5)
    with pytest.raises(UserError, match=ERROR):
        classifier.classify("A dog runs.")


def test_no_perplexity_beyond_all_numbers():
    generator = tiny_generator()
    for weight in generator.model.weights:
        weight.assign(np.random.default_rng(7).choice([-1e8, 1e8], weight.shape).astype("float32"))
    with pytest.raises(UserError, match=ERROR):
        generator.score(["A dog"])


def test_an_idf_of_zero_counts_nothing():
    words = BagOfWords(["dog"], np.zeros(1, "float32"), np.ones((1, 2), "float32"), np.array([3.0, 5.0], "float32"))
    assert words.logits(["A dog runs."]).tolist() == [[3.0, 5.0]]


def test_no_vector():
    pipeline = damaged(encoder())
    for answer in (
        lambda: pipeline.encode("A dog"),
        lambda: pipeline.similar("A dog", ["Men sit."]),
        lambda: pipeline.reply(texts=["A dog"]),
        lambda: pipeline.attention_view("A dog"),
        lambda: ZeroShotClassifier(pipeline, ["dogs", "cats"]),
    ):
        with pytest.raises(UserError, match=ERROR):
            answer()


def test_vectors_of_length_zero_are_similar_to_nothing():
    pipeline = damaged(encoder(), 0.0)
    assert [one.score for one in pipeline.similar("A dog", ["Men sit.", "A dog"])] == [0.0, 0.0]


def test_no_word():
    filler = damaged(tiny_mask_filler())
    for answer in (filler.fill_mask, lambda text: filler.reply(texts=[text])):
        with pytest.raises(UserError, match=ERROR):
            answer("A [MASK] runs.")


@pytest.mark.slow
def test_no_translation():
    translator = damaged(tiny_translator())
    for answer in (
        lambda: translator.translate(ENGLISH[:2]),
        lambda: translator.translate(ENGLISH[0], beam_size=1),
        lambda: translator.translate(ENGLISH[0], return_attention=True),
        lambda: translator.reply(texts=ENGLISH[:1]),
        lambda: list(translator.stream(ENGLISH[0])),
        lambda: list(translator.stream(ENGLISH[0], temperature=0.7)),
        lambda: translator.attention_view(ENGLISH[0]),
    ):
        with pytest.raises(UserError, match=ERROR):
            answer()
    assert translator.translate("") == ""


@pytest.mark.slow
def test_no_continuation():
    generator = damaged(tiny_generator())
    for answer in (
        lambda: generator.generate("A dog", temperature=0),
        lambda: generator.generate("A dog"),
        lambda: generator.score("A dog runs"),
        lambda: list(generator.stream("A dog")),
        lambda: generator.reply(prompts=["A dog"]),
        lambda: generator.attention_view("A dog"),
    ):
        with pytest.raises(UserError, match=ERROR):
            answer()


def test_the_command_ends_with_one_line(tmp_path, capsys):
    model = BertClassifier(tokenizer().vocabulary_size, 14, 19, 2, 1, max_length=29, num_labels=2)
    model.build()
    for weight in model.weights:
        weight.assign(np.full(weight.shape, 1e19, "float32"))  # allowed in a file, but the products are infinite
    folder = write_tiny(tmp_path / "large", model, task=task()).folder
    for options in ([], ["--json"]):
        assert main(["classify", "--model", str(folder), *options, "A dog runs."]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert "NaN or infinity" in output.err.splitlines()[-1]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_json_never_contains_nan(number):
    with pytest.raises(UserError, match="NaN or infinity, which JSON cannot hold"):
        json_text({"score": number})


@pytest.mark.parametrize("number", ["1e999", "-1e400", "NaN", "Infinity"])
def test_json_of_others_holds_finite_numbers_only(number):
    with pytest.raises(ValueError, match="is not a|is too large"):
        parse_json(f'{{"x": {number}}}'.encode())
    assert parse_json(json.dumps({"x": 1e308}).encode()) == {"x": 1e308}
