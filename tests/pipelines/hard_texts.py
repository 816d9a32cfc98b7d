"""Texts that break careless programs, and how each pipeline is asked about one."""

import math

import numpy as np
from hypothesis import strategies

from keras_attention.support.errors import UserError

CONTROL = ["[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "</s>", "<s>", "<pad>", "<unk>", "▁"]
WRITTEN = {
    "empty": "",
    "blanks": " \t\u00a0\u2003\u3000",
    "line ends": "a\nb\r\nc\u2028d\x85",
    "a million characters": "a dog " * 166_667,
    "a million letters": "x" * 1_000_000,
    "a million blanks": " " * 1_000_000 + "a",
    "a million ideographs": "犬" * 1_000_000,
    "NUL": "a\x00dog",
    "half of a surrogate pair": "a\ud83d dog",
    "bytes that were no UTF-8": b"Gr\xfc\xdfe".decode("utf-8", errors="surrogateescape"),
    "control characters": "".join(map(chr, range(32))) + "\x7f\x9b",
    "right to left": "a \u202edog\u202c \u2066runs\u2069 شلومو שלום",
    "10,000 combining marks": "a" + "\u0301\u0327" * 5_000,
    "marks alone": "\u0301\u0308\u20dd",
    "families": "👩‍👩‍👧‍👦👨🏽‍🚀🏴\U000e0067\U000e0062\U000e007f🇩🇪",
    "no characters": "\ufffe\uffff\U0010ffff\ufdd0\ufffd",
    "private characters": "\ue000\U000f0000",
    "zero width": "a\u200bb\u200dc\ufeffd\u00ad",
    "ligatures and widths": "ﬁ ﷺ Ａ ① ½ ™ ǅ ẞ İ",
    "quotes and slashes": "\"'`\\/%s{}$(touch pwned);--",
    "control tokens": " ".join(CONTROL),
    "no mask": "a dog runs",
    "one mask": "a [MASK] runs",
    "50 masks": "[MASK] " * 50,
    "half a mask": "[MASK a MASK] [mask]",
    "a mask behind a million letters": "x" * 1_000_000 + " [MASK]",
}
NO_TEXTS = [
    None,
    3,
    3.5,
    float("nan"),
    True,
    b"a dog",
    {"text": "a dog"},
    range(3),
    {"a"},
    [None],
    [3],
    [["a"]],
    [b"a"],
]
NO_TEXTS += [[{"a": 1}], np.zeros(3), range(3)]
FRAGMENTS = strategies.sampled_from([*CONTROL, "a dog", "[MASK]", "\u202e", "👩‍👧", "e\u0301", "##", "\x00", "犬"])
ANY_TEXT = strategies.one_of(
    strategies.text(max_size=200),
    strategies.text(strategies.characters(categories=["Cs", "Cc", "Cf", "Co", "Cn", "Mn", "Zs", "Lo"]), max_size=40),
    strategies.lists(FRAGMENTS, max_size=12).map(" ".join),
)


def answer(pipeline, text):
    """Asks a pipeline about a text in every way it has.

    Returns:
        Dict from the way to "refused" or to bool, whether the answer says that the text was cut.

    Raises:
        AssertionError: if a number of an answer is not finite.
    """
    ways = ["translate"] if hasattr(pipeline, "translate") else [way for way in WAYS if hasattr(pipeline, way)]
    return {way: _asked(WAYS[way], pipeline, text) for way in ways}


def _asked(ask, pipeline, text):
    try:
        return ask(pipeline, text)
    except UserError:
        return "refused"


def _translate(translator, text):
    best, *_ = translator.hypotheses(text)[0]
    assert math.isfinite(best.score)
    assert math.isfinite(best.log_prob)
    best.text.encode()
    return best.truncated


def _classify(classifier, text):
    answers = classifier.classify(text, *([text] if classifier.task["pair"] else []), return_scores=True)
    answers = answers[0] if isinstance(answers, list) else answers
    assert all(math.isfinite(value) for value in answers.probabilities.values())
    return answers.truncated


def _fill(filler, text):
    fillings = filler.fill_mask(text, top_k=2)
    fillings = fillings[0] if fillings and isinstance(fillings[0], list) else fillings
    assert all(math.isfinite(one.score) and one.text.encode() for one in fillings)
    return any(one.truncated for one in fillings)


def _encode(encoder, text):
    embeddings = encoder.encode(text)
    assert np.isfinite(embeddings.pooled).all()
    assert all(np.isfinite(vectors).all() for vectors in embeddings.vectors)
    return embeddings.truncated[0]


WAYS = {"translate": _translate, "classify": _classify, "fill_mask": _fill, "encode": _encode}
