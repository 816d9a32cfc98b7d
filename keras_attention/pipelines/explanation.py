"""Which words of a text decide its label: each is hidden in turn, and the classifier asked again."""

import re
import warnings
from typing import NamedTuple

from keras_attention.errors import UserError, quoted
from keras_attention.pipelines.texts import TruncatedText, as_texts
from keras_attention.visualize.explanation_page import ExplanationPage

MOST_UNITS = 500  # of a text that are hidden one by one; in longer texts, neighbours are hidden together
IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"  # written without blanks
LETTER = rf"[^\W{IDEOGRAPHS}]"
# An ideograph; a word from its first letter to its last ("don't", "well-known"); signs that stand together.
UNIT = re.compile(rf"[{IDEOGRAPHS}]|{LETTER}[^\s{IDEOGRAPHS}]*{LETTER}|{LETTER}|[^\s\w]+")


class HiddenWord(NamedTuple):
    """A word, and what hiding it changes.

    Attributes:
        text: str.
        second: bool, whether it is in the second text of a pair.
        start, end: int, where it stands in its text.
        effect: float, how much the probability of the label falls when the word is left out; below 0 if it rises.
    """

    text: str
    second: bool
    start: int
    end: int
    effect: float


class Explanation(NamedTuple):
    """What the words of a text contribute to its label. A notebook displays it in colours.

    Attributes:
        text: str.
        text_b: str, the second text of a pair, or None.
        label: str, the label that is explained; None of a regression.
        value: float, its probability; of a regression the number itself.
        words: list of HiddenWord, in the order of the text.
        truncated: bool, whether the text is longer than the model reads. Without a word, it reads one more at the cut.
    """

    text: str
    text_b: str | None
    label: str | None
    value: float
    words: list
    truncated: bool

    def as_json(self):
        """A dict of JSON types."""
        return {**self._asdict(), "words": [word._asdict() for word in self.words]}

    def page(self):
        """The ExplanationPage with the text in colours."""
        return ExplanationPage([self.as_json()])

    def _repr_html_(self):
        return self.page()._repr_html_()


def explain(classifier, text, text_b=None, label=None):
    """Hides each word of a text in turn: `effect` is the probability of the label with the word, less that without it.

    Each of these probabilities is what `classify` gives for the text without the word, so the effects are exact for
    what the model computes, which attention weights are not. They need not add up to anything. All texts are computed
    in batches.

    Args:
        classifier: pipeline with `classify` and `task`, see `Classifier`.
        text: str.
        text_b: str, the second text of a pair, or None.
        label: str, the label to explain; None for the most probable one.

    Returns:
        Explanation.

    Raises:
        UserError: if a text is no text, the label is unknown, or the classifier judges pairs or single texts only.

    Source: Zeiler & Fergus (2014), section 4.2, for patches of pictures, https://arxiv.org/abs/1311.2901; Li et al.
    (2016), "erasure" of words, https://arxiv.org/abs/1612.08220.
    """
    sides = [as_texts([side], "text")[0][0] for side in ((text,) if text_b is None else (text, text_b))]
    words = [(number, start, end) for number, side in enumerate(sides) for start, end in units(side)]
    hidden = [sides, *(without(sides, *word) for word in words)]
    texts, *texts_b = (list(column) for column in zip(*hidden, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedText)
        whole, *others = classifier.classify(texts, *texts_b, return_scores=True)
    if label is not None and label not in whole.probabilities:
        known = ", ".join(sorted(whole.probabilities)) or "none, this model gives a number"
        raise UserError(f"There is no label {quoted(label)}. Labels: {known:.300}")
    if label is None:
        label = next(iter(whole.probabilities), None)

    def value_of(answer):
        return answer.label if label is None else answer.probabilities[label]

    found = [
        HiddenWord(sides[number][start:end], bool(number), start, end, value_of(whole) - value_of(answer))
        for (number, start, end), answer in zip(words, others, strict=True)
    ]
    return Explanation(text, text_b, label, value_of(whole), found, whole.truncated)


def units(text):
    """Where the words of a text are: list of (start, end), at most `MOST_UNITS`."""
    places = [match.span() for match in UNIT.finditer(text)]
    together = -(-len(places) // MOST_UNITS)
    return [(places[i][0], places[i : i + together][-1][1]) for i in range(0, len(places), max(1, together))]


def without(sides, number, start, end):
    """The texts, of which one lacks the characters from `start` to `end`."""
    return [*sides[:number], sides[number][:start] + sides[number][end:], *sides[number + 1 :]]
