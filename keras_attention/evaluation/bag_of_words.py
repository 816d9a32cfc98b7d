"""Logistic regression on counted words or letters: a baseline for networks, and a classifier to blend with them."""

import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import regex

from keras_attention.evaluation.classification_scores import best_thresholds, cross_entropy, predictions, scores
from keras_attention.support.cores import one_thread
from keras_attention.support.moved import RenamedAttribute
from keras_attention.support.normalization import normalized

# Letters of scripts without blanks between words: Thai, Lao, Burmese, Khmer, kana, Han. Each counts as a word.
UNSPACED = ((0xE01, 0xE30), (0xE32, 0xE33), (0xE40, 0xE46), (0xE81, 0xEB0), (0xEB2, 0xEB3), (0xEC0, 0xEC6))
UNSPACED += ((0x1000, 0x102A), (0x1050, 0x1055), (0x1075, 0x1081), (0x1780, 0x17B3))
UNSPACED += ((0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF))
UNSPACED += ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))
_CHARACTERS = "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSPACED)
# Single letters and signs count as words too, so that every text has a word.
TERM = re.compile(rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]+|[^\w\s]")
VARIATION_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
COMBINING = regex.compile(rf"(?![{VARIATION_SELECTORS}])[\p{{Mn}}\p{{Mc}}]")
# `\w` of Python has no combining marks, so that it would cut words of Hindi, and of French with combining accents.
MARKED_TERM = regex.compile(
    rf"[{_CHARACTERS}][\p{{Mn}}\p{{Mc}}]*|(?:(?![{_CHARACTERS}])[\p{{L}}\p{{N}}_][\p{{Mn}}\p{{Mc}}]*)+|[^\s\x1c-\x1f]"
)
BETWEEN = " \N{SYMBOL FOR UNIT SEPARATOR} "  # between the two texts of a pair
MOST_TERMS, MOST_NUMBERS = 50_000, 4_000_000  # maximum sizes of a vocabulary and of a kernel
LONGEST_TERM = 64  # characters
TINY = 1e-12  # the least length of a vector; only a damaged model has an idf of 0
NO_TERM = "-"  # the vocabulary of texts without any term, such as DNA without spaces: all of them are judged alike
SHARE_COUNT = 5  # count of each term for a share of common words
TOLERANCE, QUICK_TOLERANCE = 1e-4, 1e-3  # of the gradient
QUICK_ROWS = 3_000
CANDIDATE_WEIGHTS = np.linspace(0, 1, 21)


# What is counted. n-grams of letters suit languages that join words or change their endings, and any script.
BY_WORDS, BY_LETTERS = "words", "letters"
SHORTEST, LONGEST = 1, 5  # letters of an n-gram


class BagOfWords(NamedTuple):
    """Classifies a text by its words and pairs of neighbouring words, and two texts by the words that they share.

    Or it classifies a text by the n-grams of letters in its words.

        x_t = (1 + log count(t)) idf(t) for each term t of the vocabulary        logits = W x / |x| + b

    Attributes:
        terms: list of V different str, see `terms_of`, `terms_of_pair` and `letters_of`.
        idf: float32 array (V,).
        kernel: float32 array (V, K).
        bias: float32 array (K,).
        units: str, BY_WORDS or BY_LETTERS.
    """

    terms: list
    idf: np.ndarray
    kernel: np.ndarray
    bias: np.ndarray
    units: str = BY_WORDS

    @property
    def name(self):
        """str, what a person calls it."""
        return "bag of words"

    def logits(self, texts, texts_b=None):
        """Float32 array (N, K) for a list of N texts, or of pairs; equal to scikit-learn's."""
        places = {term: place for place, term in enumerate(self.terms)}
        logits = np.tile(self.bias.astype("float32"), (len(texts), 1))
        for row, terms in enumerate(all_terms(texts, texts_b, self.units)):
            counts = Counter(places[term] for term in terms if term in places)
            if counts:
                ids = np.fromiter(counts, int, len(counts))
                values = (1 + np.log(np.fromiter(counts.values(), float, len(counts)))) * self.idf[ids]
                logits[row] += (values / max(np.linalg.norm(values), TINY)) @ self.kernel[ids]
        return logits

    def scaled(self, factor):
        """A BagOfWords whose logits are `factor` times as large."""
        return self._replace(kernel=self.kernel * factor, bias=self.bias * factor)

    def stored(self):
        """A BagOfWords whose kernel is rounded to float16, as in a file, unless that loses very large or tiny numbers.

        In a regression on prices, for example, the kernel has numbers that float16 lacks.
        """
        with np.errstate(over="ignore"):
            rounded = self.kernel.astype("float16").astype("float32")
        close = np.allclose(rounded, self.kernel, rtol=0, atol=1e-3 * np.abs(self.kernel).max())
        return self._replace(kernel=rounded) if close else self


def words_of(text):
    """The words of a text in lower case: list of str. Combining marks belong to their letter, composed if possible.

    In scripts without blanks between words, such as Chinese and Thai, the words are the characters.
    """
    if text.isascii() or not COMBINING.search(text):
        return TERM.findall(text.lower())
    return MARKED_TERM.findall(normalized("NFC", text.lower()))


def terms_of(text):
    """The words of a text and its pairs of neighbouring words: list of str."""
    words = words_of(text)
    return words + [f"{first} {second}" for first, second in zip(words, words[1:], strict=False)]


def terms_of_pair(first, second):
    """The terms of a pair of texts: list of str.

    Args:
        first, second: str.

    Returns:
        `both:word` for each word of both texts and `one:word` for each word of only one; and, `SHARE_COUNT` times each,
        the share of the common words among all words, those of the first and those of the second text, in tenths:
        `shared/all:7`, `shared/first:8`, `shared/second:9`.
    """
    a, b = (set(words_of(text)) for text in (first, second))
    sizes = {"all": len(a | b), "first": len(a), "second": len(b)}
    shares = [f"shared/{name}:{tenths(len(a & b), size)}" for name, size in sizes.items()]
    return [f"both:{word}" for word in sorted(a & b)] + [f"one:{word}" for word in sorted(a ^ b)] + shares * SHARE_COUNT


def tenths(part, whole):
    """part / whole in tenths, rounded half up: int. 0 of 0 is 0."""
    return (20 * part + whole) // (2 * whole) if whole else 0


def letters_of(text):
    """The n-grams of 1 to 5 letters of each word in lower case, with a blank before and after it: list of str.

    Words are what blanks separate, with their punctuation. In scripts without blanks, a clause is a word.
    """
    text = text.lower()
    grams = []
    for word in (text if text.isascii() else normalized("NFC", text)).split():
        word = f" {word} "
        for size in range(SHORTEST, LONGEST + 1):
            grams += [word[start : start + size] for start in range(len(word) - size + 1)]
    return grams


def all_terms(texts, texts_b=None, units=BY_WORDS):
    """The terms of each text or pair; for pairs, also those of the joined texts, for models of an earlier version."""
    if units == BY_LETTERS:
        return [letters_of(text) for text in joined(texts, texts_b)]
    if texts_b is None:
        return [terms_of(text) for text in texts]
    pairs = list(zip(texts, texts_b, strict=True))
    return [terms_of_pair(a, b) + terms_of(f"{a}{BETWEEN}{b}") for a, b in pairs]


def joined(texts, texts_b=None):
    """The texts, or each pair as one text: list of str."""
    return texts if texts_b is None else [f"{a}{BETWEEN}{b}" for a, b in zip(texts, texts_b, strict=True)]


def fit_bag_of_words(texts, texts_b, targets, kind, num_labels, quick=False, units=BY_WORDS):
    """Fits logistic regression, or ridge regression for numbers, to TF-IDF features.

    Args:
        texts: list of str.
        texts_b: list of str, or None.
        targets: array, see `label_task.encode_labels`.
        kind: str, one of `label_task.KINDS`.
        num_labels: int > 0, K; 1 for a regression.
        quick: bool. Whether to leave out the terms of a single text, if the table is large, and to end the fit earlier.
        units: str, BY_WORDS or BY_LETTERS.

    Returns:
        BagOfWords.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    most = min(MOST_TERMS, max(1, MOST_NUMBERS // num_labels))
    if units == BY_LETTERS:
        texts, analyzer = joined(texts, texts_b), _printable_letters
    else:
        texts, analyzer = texts if texts_b is None else list(zip(texts, texts_b, strict=True)), _short_terms
    vocabulary = None if any(map(analyzer, texts)) else [NO_TERM]
    options = {"analyzer": analyzer, "sublinear_tf": True, "max_features": most, "dtype": np.float32}
    fewest = 2 if quick and len(texts) >= QUICK_ROWS else 1  # texts with a term
    words = TfidfVectorizer(**options, vocabulary=vocabulary, min_df=fewest)
    counts = words.fit_transform(texts)
    tolerance = QUICK_TOLERANCE if quick else TOLERANCE

    def fitted(targets):
        with one_thread():
            return LogisticRegression(C=10.0, max_iter=1000, tol=tolerance).fit(counts, targets)

    kernel, bias = np.zeros((counts.shape[1], num_labels)), np.full(num_labels, -np.log(2.0 * len(texts)))
    if kind == "regression":
        largest = float(np.abs(targets).max()) or 1.0  # in float32, the squares of large numbers would be infinite
        ridge = Ridge().fit(counts, targets / largest)
        kernel, bias = largest * ridge.coef_.reshape(-1, 1), largest * np.reshape(ridge.intercept_, 1)
    elif kind == "multilabel":
        for label in range(num_labels):
            yes = targets[:, label] > 0.5
            if yes.all():
                bias[label] *= -1
            elif yes.any():
                model = fitted(yes)
                kernel[:, label], bias[label] = model.coef_[0], model.intercept_[0]
    else:
        class_ids = np.unique(targets)
        model = fitted(targets)
        two = len(class_ids) == 2  # two labels share one column
        kernel[:, class_ids] = np.stack([-model.coef_[0] / 2, model.coef_[0] / 2], axis=1) if two else model.coef_.T
        bias[class_ids] = (-model.intercept_[0] / 2, model.intercept_[0] / 2) if two else model.intercept_
    names = list(words.get_feature_names_out())
    return BagOfWords(names, words.idf_.astype("float32"), kernel.astype("float32"), bias.astype("float32"), units)


def _short_terms(text_or_pair):
    terms = terms_of(text_or_pair) if isinstance(text_or_pair, str) else terms_of_pair(*text_or_pair)
    return [term for term in terms if len(term) <= LONGEST_TERM and term.isprintable()]


def _printable_letters(text):
    return [gram for gram in letters_of(text) if gram.isprintable()]


def bag_of_words_scores(words, validation, test, task):
    """The scores of a bag of words.

    Args:
        words: BagOfWords.
        validation, test: Examples; the validation set determines the thresholds of a multilabel task.
        task: Task.

    Returns:
        dict, see `classification_scores.scores`.
    """
    predicted = predictions(words.logits(test.texts, test.texts_b), task)
    if task.kind == "multilabel":
        held = predictions(words.logits(validation.texts, validation.texts_b), task)
        thresholds = best_thresholds(validation.targets(task), held.values)
        predicted = predictions(words.logits(test.texts, test.texts_b), task, thresholds)
    return scores(test.targets(task), predicted, task)


class Blend(NamedTuple):
    """A network together with a bag of words or another simple model: logits = (1 - weight) network + weight words.

    For single-label tasks, this is the weighted mean of both log probabilities, up to a constant.

    Attributes:
        words: BagOfWords, or a model with the same methods.
        weight: float in [0, 1].
    """

    words: Any
    weight: float
    described = RenamedAttribute("config_keys")

    def config_keys(self):
        """The key `words` of config.json: dict."""
        units = {} if self.words.units == BY_WORDS else {"units": self.words.units}  # as in earlier versions
        return {"num_terms": len(self.words.terms), "weight": self.weight, **units}

    def logits(self, network_logits, texts, texts_b=None):
        """The blended logits, float array (N, K), from the network's logits and the texts."""
        return (1 - self.weight) * network_logits + self.weight * self.words.logits(texts, texts_b)

    def attention_note(self):
        """A sentence for a picture of attention weights, which explain the network only; "" for a weight of 0."""
        if self.weight == 1:
            return f"The answer is from a {self.words.name} alone: these weights of the network have no part in it"
        share = f"{self.weight:.0%} of the answer is from a {self.words.name}, which has no attention"
        return share if self.weight else ""


def best_weight(network_logits, word_logits, targets, kind):
    """The weight of the words with the lowest cross-entropy (regression: squared error) on held-out rows: float."""
    blends = [(1 - weight) * network_logits + weight * word_logits for weight in CANDIDATE_WEIGHTS]
    losses = [cross_entropy(logits, targets, kind) for logits in blends]
    return float(CANDIDATE_WEIGHTS[int(np.argmin(losses))])
