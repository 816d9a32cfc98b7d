"""Hidden words: the effects are what `classify` says of the text without the word."""

import numpy as np
import pytest
from zoo.tiny_bert import TEXTS, tiny_classifier, tiny_encoder, tiny_mask_filler, tokenizer

from keras_attention.evaluation.bag_of_words import BagOfWords, Blend
from keras_attention.pipelines import explanation
from keras_attention.pipelines.classifier import ZeroShotClassifier
from keras_attention.pipelines.explanation import units
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.support.errors import UserError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A dog, and 2.5 cats!", ["A", "dog", ",", "and", "2.5", "cats", "!"]),
        ("don't be well-known :-)", ["don't", "be", "well-known", ":-)"]),
        ("犬が running。", ["犬", "が", "running", "。"]),
        ("नमस्ते é", ["नमस्ते", "é"]),
        ("cafe\u0301, ole\u0301!", ["cafe\u0301", ",", "ole\u0301", "!"]),
        ("مُحَمَّد جيد", ["مُحَمَّد", "جيد"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("ที่ กินข้าว ดี", ["ที่", "กินข้าว", "ดี"]),
        ("\u2764\ufe0f, 1\ufe0f\u20e3", ["\u2764\ufe0f,", "1\ufe0f\u20e3"]),
        ("\U0001f469\u200d\U0001f4bb ok", ["\U0001f469\u200d\U0001f4bb", "ok"]),
        ("葛\U000e0100城", ["葛\U000e0100", "城"]),
        ("a\x1fb x_y", ["a", "b", "x_y"]),
        (" \t\n", []),
        ("", []),
    ],
)
def test_words(text, words):
    assert [text[start:end] for start, end in units(text)] == words


def by_hand(classifier, texts, label):
    """The probability of a label for a text or pair."""
    return classifier.classify(*texts, return_scores=True).probabilities[label]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_effects_are_exact(kind):
    classifier = tiny_classifier(kind)
    text = "A girl in a red dress sings, and men sit."
    explained = classifier.explain(text)
    answer = classifier.classify(text, return_scores=True)
    assert (explained.label, explained.value) == (
        next(iter(answer.probabilities)),
        pytest.approx(max(answer.probabilities.values())),
    )
    assert "".join(word.text for word in explained.words) == text.replace(" ", "")
    for word in explained.words:
        other = text[: word.start] + text[word.end :]
        assert word.effect == pytest.approx(explained.value - by_hand(classifier, [other], explained.label), abs=1e-5)
    assert max(abs(word.effect) for word in explained.words) > 1e-3
    other = classifier.task["label_names"][0]
    assert classifier.explain(text, label=other).value == pytest.approx(answer.probabilities[other], abs=1e-6)


def test_words_of_both_texts_of_a_pair():
    classifier = tiny_classifier(pair=True)
    explained = classifier.explain(TEXTS[0], TEXTS[3])
    assert [word.text for word in explained.words if word.second] == ["Men", "sit", "."]
    for word in explained.words:
        sides = [TEXTS[0], TEXTS[3]]
        sides[word.second] = sides[word.second][: word.start] + sides[word.second][word.end :]
        assert word.effect == pytest.approx(explained.value - by_hand(classifier, sides, explained.label), abs=1e-5)


@pytest.mark.slow
def test_a_number_and_a_blend_and_labels_by_similarity():
    number = tiny_classifier("regression")
    explained = number.explain("Two men sit.")
    assert explained.label is None
    assert explained.words[0].effect == pytest.approx(
        number.classify("Two men sit.") - number.classify(" men sit."), abs=1e-4
    )

    blended = tiny_classifier()
    words = BagOfWords(["men"], np.ones(1, "float32"), np.array([[-3.0, 3.0]], "float32"), np.zeros(2, "float32"))
    blended.blend = Blend(words, 1.0)  # the bag alone decides
    effects = {word.text: word.effect for word in blended.explain("Two men sit.", label="good").words}
    assert effects["men"] == pytest.approx(1 / (1 + np.exp(-6)) - 0.5, abs=1e-5)
    assert effects["Two"] == pytest.approx(0, abs=1e-6)

    nearest = ZeroShotClassifier(TextEncoder(tiny_encoder(), tokenizer(), 23), ["a dog", "men sit"])
    explained = nearest.explain("Two men sit.")
    other = nearest.classify(" men sit.", return_scores=True).probabilities[explained.label]
    assert explained.words[0].effect == pytest.approx(explained.value - other, abs=1e-5)


def test_long_texts_are_occluded_in_groups_of_adjacent_words(monkeypatch, recwarn):
    monkeypatch.setattr(explanation, "MOST_UNITS", 7)
    explained = tiny_classifier().explain("dog " * 40)
    assert [word.text for word in explained.words] == ["dog dog dog dog dog dog"] * 6 + ["dog dog dog dog"]
    assert explained.truncated
    assert not recwarn.list


@pytest.mark.slow
def test_wrong_labels_pairs_and_models_are_not_explained():
    with pytest.raises(UserError, match="no label 'ugly'. Labels: bad, good"):
        tiny_classifier().explain("a", label="ugly")
    with pytest.raises(UserError, match="single texts"):
        tiny_classifier().explain("a", "b")
    with pytest.raises(UserError, match="must be a str"):
        tiny_classifier().explain(None)
    with pytest.raises(UserError, match="gives no labels"):
        tiny_mask_filler().explain("a")
    assert tiny_classifier().explain("").words == []
    assert tiny_classifier().explain("", label="good").value is None
