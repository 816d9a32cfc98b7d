"""A bag of words as plain arrays judges as scikit-learn's does."""

import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from varied_texts import varied_texts

from keras_attention.data.tables.label_task import find_task
from keras_attention.evaluation import bag_of_words
from keras_attention.evaluation.bag_of_words import Blend, bag_of_words_scores, best_weight, fit_bag_of_words
from keras_attention.finetuning.examples import Examples

TEXTS = ["It goes up!", "it goes down", "up, up and away", "Down a hole", "nothing known", "so very up"] * 3
NEW = ["up or down?", "a hole goes away", "zzz", "It goes up! It goes up!"]
LABELS = {"binary": [1, 0, 1, 0, 0, 1] * 3, "multiclass": [2, 0, 2, 0, 1, 2] * 3}


@pytest.mark.parametrize("kind", LABELS)
def test_equals_scikit_learn(kind):
    targets = np.array(LABELS[kind])
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    model = LogisticRegression(C=10.0, max_iter=1000).fit(words.fit_transform(TEXTS), targets)
    bag = fit_bag_of_words(TEXTS, None, targets, kind, len(set(targets)))
    assert bag.terms == list(words.get_feature_names_out())
    logits = bag.logits(NEW)
    expected = model.predict_log_proba(words.transform(NEW))
    np.testing.assert_allclose(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True), expected, atol=1e-3)


@pytest.mark.parametrize("scale", [1.0, 1e20])
def test_numbers(scale):
    targets = np.arange(18.0)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    model = Ridge().fit(words.fit_transform(TEXTS), targets)
    bag = fit_bag_of_words(TEXTS, None, (scale * targets).astype("float32"), "regression", 1)
    np.testing.assert_allclose(bag.logits(NEW)[:, 0] / scale, model.predict(words.transform(NEW)), atol=1e-3)


@pytest.mark.parametrize(("scale", "rounded"), [(1e6, False), (1.0, True), (1e-7, False)])
def test_numbers_that_float16_lacks_are_not_rounded(scale, rounded):
    words = fit_bag_of_words(TEXTS, None, scale * np.arange(18.0), "regression", 1)
    stored = words.stored()
    np.testing.assert_allclose(stored.logits(NEW), words.logits(NEW), atol=0.01 * scale)
    assert np.array_equal(stored.kernel.astype("float16"), stored.kernel) is rounded


def test_texts_without_any_term_are_judged_alike():
    texts = [sign * 65 for sign in "ACGT"]
    bag = fit_bag_of_words(texts, None, np.array([0, 1, 1, 1]), "binary", 2)
    logits = bag.logits(texts)
    np.testing.assert_array_equal(logits, logits[:1].repeat(4, axis=0))
    assert logits[0, 1] - logits[0, 0] == pytest.approx(np.log(3), abs=1e-3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CAFE\u0301 ole\u0301!", ["caf\xe9", "ol\xe9", "!"]),
        ("हिन्दी, नमस्ते", ["हिन्दी", ",", "नमस्ते"]),
        ("مُحَمَّد جيد", ["مُحَمَّد", "جيد"]),
        ("ที่ ดี", ["ที่", "ดี"]),
        ("\u2764\ufe0f x\u0323 1", ["\u2764", "\ufe0f", "x\u0323", "1"]),
        ("a\x1fb\u0323", ["a", "\u1e05"]),
        ("很好 iPhone手机!", ["很", "好", "iphone", "手", "机", "!"]),
        ("とてもABC", ["と", "て", "も", "abc"]),
        ("か\u3099x\u0323", ["が", "x\u0323"]),
        ("ที่ดีมาก", ["ที่", "ดี", "ม", "า", "ก"]),
        ("한국어 text", ["한국어", "text"]),  # written with blanks
    ],
)
def test_combining_marks_belong_to_their_word(text, words):
    assert bag_of_words.words_of(text) == words


def test_texts_without_combining_marks_have_the_words_of_earlier_versions():
    unspaced = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
    texts = [text for text in varied_texts(997, seed=7) if not re.search(f"[\u0300-\u036f{unspaced}]", text)]
    assert len(texts) > 500
    texts += ["İstanbul 1\ufe0f\u20e3", "\u2764\ufe0f\u2764\ufe0f wow", "\u212b ½x², don't"]
    assert [bag_of_words.words_of(text) for text in texts] == [re.findall(r"\w+|[^\w\s]", t.lower()) for t in texts]


def test_chinese_texts_are_judged_by_characters_and_their_pairs():
    good, bad = ["房间很好", "服务很好", "早餐不错很好"], ["房间很差", "服务很差", "早餐不行很差"]
    bag = fit_bag_of_words(good + bad, None, np.array([1, 1, 1, 0, 0, 0]), "binary", 2)
    assert {"很 好", "好", "差"} <= set(bag.terms)
    assert bag.logits(["位置很好", "位置很差"]).argmax(axis=1).tolist() == [1, 0]


def test_an_accent_counts_alike_in_both_spellings():
    bag = fit_bag_of_words(["un caf\xe9", "un the"] * 3, None, np.array([0, 1] * 3), "binary", 2)
    np.testing.assert_array_equal(bag.logits(["cafe\u0301"]), bag.logits(["caf\xe9"]))


def test_pairs_are_judged_by_what_they_share():
    assert bag_of_words.terms_of_pair("Dogs run, dogs!", "The dogs run") == [
        *("both:dogs", "both:run", "one:!", "one:,", "one:the"),
        *("shared/all:4", "shared/first:5", "shared/second:7") * bag_of_words.SHARE_COUNT,
    ]
    assert set(bag_of_words.terms_of_pair("", "")) == {"shared/all:0", "shared/first:0", "shared/second:0"}
    pairs = [(first, second) for first in TEXTS[:6] for second in TEXTS[:6]]
    targets = np.array([int(first == second) for first, second in pairs])
    words = TfidfVectorizer(analyzer=lambda pair: bag_of_words.terms_of_pair(*pair), sublinear_tf=True)
    model = LogisticRegression(C=10.0, max_iter=1000).fit(words.fit_transform(pairs), targets)
    bag = fit_bag_of_words(*zip(*pairs, strict=True), targets, "binary", 2)
    new = [(text, text) for text in NEW] + [(text, "a new one") for text in NEW]
    logits = bag.logits(*zip(*new, strict=True))
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], model.decision_function(words.transform(new)), atol=1e-3)
    assert (logits.argmax(axis=1) == [1, 1, 1, 1, 0, 0, 0, 0]).all()


def test_pairs_of_an_earlier_version_are_judged_as_before():
    """It counted the words of the joined texts, with a separator between them."""
    terms = ["dogs", "run the", "cats \N{SYMBOL FOR UNIT SEPARATOR}", "the"]
    words = bag_of_words.BagOfWords(terms, np.ones(4, "float32"), np.eye(4, dtype="float32"), np.zeros(4, "float32"))
    logits = words.logits(["run the cats"], ["dogs or the dogs"])
    counts = 1 + np.log([2.0, 1.0, 1.0, 2.0])
    np.testing.assert_allclose(logits[0], counts / np.linalg.norm(counts), atol=1e-6)


def test_labels_that_no_row_has_are_improbable():
    bag = fit_bag_of_words(TEXTS, None, np.array([0, 3] * 9), "multiclass", 5)
    assert set(bag.logits(NEW).argmax(axis=1)) <= {0, 3}
    several = np.stack([np.zeros(18), np.ones(18), np.array([0, 1] * 9)], axis=1)
    logits = fit_bag_of_words(TEXTS, None, several, "multilabel", 3).logits(NEW)
    assert (logits[:, 0] < 0).all()
    assert (logits[:, 1] > 0).all()


def test_the_vocabulary_is_bounded(monkeypatch):
    monkeypatch.setattr(bag_of_words, "MOST_NUMBERS", 14)
    texts = [*TEXTS, "x" * 65, "bell\7 rings"]
    bag = fit_bag_of_words(texts, None, np.array([0, 1] * 10), "binary", 2)
    assert len(bag.terms) == 7
    monkeypatch.setattr(bag_of_words, "MOST_NUMBERS", 10_000)
    terms = fit_bag_of_words(texts, None, np.array([0, 1] * 10), "binary", 2).terms
    assert max(map(len, terms)) <= 64
    assert all(term.isprintable() for term in terms)


def test_a_blend_weighs_both():
    words = fit_bag_of_words(TEXTS, None, np.array(LABELS["binary"]), "binary", 2)
    network = np.array([[1.0, -1.0]] * 4, "float32")
    np.testing.assert_allclose(
        Blend(words, 0.25).logits(network, NEW), 0.75 * network + 0.25 * words.logits(NEW), atol=1e-6
    )


@pytest.mark.parametrize(("better", "expected"), [(0, 0.0), (1, 1.0)])
def test_the_better_model_gets_the_larger_weight(better, expected):
    targets = np.array([0, 1] * 11)
    good, bad = np.eye(2)[targets] * 9, np.eye(2)[1 - targets] * 9
    assert best_weight(*[(good, bad), (bad, good)][better], targets, "binary") == expected


@pytest.mark.parametrize(
    ("labels", "separator", "texts_b"),
    [
        (["up", "down"] * 10, None, None),
        (["up", "down"] * 10, None, ["same"] * 20),
        (["u,v", "v"] * 10, ",", None),
        (["1.5", "2.5"] * 10, None, None),
    ],
)
def test_a_bag_of_words_learns_what_words_say(labels, separator, texts_b):
    examples = Examples(["it goes up", "it goes down"] * 10, labels, texts_b)
    task = find_task(labels, separator=separator)
    targets = examples.targets(task)
    words = fit_bag_of_words(examples.texts, texts_b, targets, task.kind, max(1, len(task.label_names)))
    name, value = next(iter(bag_of_words_scores(words, examples, examples, task).items()))
    assert value > 95, name


def test_the_letters_of_a_text_are_counted_word_by_word():
    actual = bag_of_words.letters_of("Ab\u00a0C")
    expected = []
    for word in (" ab ", " c "):
        for size in range(1, 6):
            expected += [word[start : start + size] for start in range(5) if start + size <= len(word)]
    assert sorted(actual) == sorted(expected)
    assert bag_of_words.letters_of(" \n") == []
    assert "\xe9" in bag_of_words.letters_of("e\u0301")  # composed


def test_letters_know_words_by_their_parts():
    texts = ["unfair", "unklug", "fairer", "kluges", "untreu", "treuer"] * 3
    targets = np.array([1, 1, 0, 0, 1, 0] * 3)
    by_words, by_letters = (
        bag_of_words.fit_bag_of_words(texts, None, targets, "binary", 2, units=units) for units in ("words", "letters")
    )
    new = ["ungern", "gerner"]
    assert np.ptp(by_words.logits(new), axis=0).max() == 0
    assert by_letters.logits(new).argmax(axis=1).tolist() == [1, 0]
