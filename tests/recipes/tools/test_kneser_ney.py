"""The n-gram model that language models are compared with, against its equations in loops."""

import math
import runpy
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from keras_attention.data.prose.token_stream import load_stream
from keras_attention.support.errors import UserError

TOOL = Path(__file__).parents[3] / "recipes" / "tools" / "kneser_ney.py"
V = 41
TEXT = np.minimum(np.random.default_rng(3).zipf(1.4, size=311), V - 1)  # a few tokens often, many rarely, 0 never


@pytest.fixture(scope="module")
def tool():
    return runpy.run_path(str(TOOL))


def by_loops(text, order):
    """A function (context, token) -> probability; contexts are tuples of up to `order` - 1 tokens."""
    ngrams = [Counter(tuple(text[i : i + n]) for i in range(len(text) - n + 1)) for n in range(1, order + 2)]
    counts = [Counter(gram[1:] for gram in ngrams[n]) for n in range(1, order)] + [ngrams[order - 1]]
    discounts = []
    for of_length in counts:
        n = [sum(value == i for value in of_length.values()) for i in range(5)]
        y = n[1] / max(1, n[1] + 2 * n[2])
        discounts.append([0.0] + [min(i, max(0.1, i - (i + 1) * y * n[i + 1] / max(1, n[i]))) for i in (1, 2, 3)])

    def probability(context, token):
        shorter = probability(context[1:], token) if context else 1 / V
        of_length, cut = counts[len(context)], discounts[len(context)]
        after = {w: of_length[(*context, w)] for w in range(V)}
        total = sum(after.values())
        if not total:
            return shorter
        rest = sum(cut[min(3, value)] for value in after.values())
        return (max(after[token] - cut[min(3, after[token])], 0) + rest * shorter) / total

    return probability


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_equal_the_equations(tool, order):
    model, probability = tool["KneserNey"](TEXT, V, order), by_loops(TEXT.tolist(), order)
    new = np.minimum(np.random.default_rng(5).zipf(1.4, size=43) - 1, V - 1)
    expected = [math.log(probability(tuple(new[max(0, i - order + 1) : i]), new[i])) for i in range(len(new))]
    np.testing.assert_allclose(model.log_probabilities(new), expected, rtol=1e-9)


@pytest.mark.parametrize("context", [[1, 1, 2, 1], [3, 1], [0, 0, 1], [2]])
def test_probabilities_after_a_context_sum_to_one(tool, context):
    model = tool["KneserNey"](TEXT, V, 4)
    total = sum(math.exp(model.log_probabilities([*context, token])[-1]) for token in range(V))
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("order", ["0", "-1"])
def test_an_order_below_one_is_refused(tool, monkeypatch, order):
    monkeypatch.setattr(sys, "argv", ["kneser_ney.py", "nowhere", "--order", order])
    with pytest.raises(UserError, match=f"--order must be at least 1. Found: {order}"):
        tool["main"]()


def test_the_command_measures_encoded_texts(tool, tmp_path, monkeypatch, capsys):
    text = tmp_path / "a.txt"
    text.write_text("".join(f"word{i % 7} is here with word{i % 3}.\n\n" for i in range(60)), encoding="utf-8")
    stream = load_stream(tool["Settings"](text=(str(text),), level="char", validation_split=0.1))
    stream.save(tmp_path / "encoded")
    monkeypatch.setattr(sys, "argv", ["kneser_ney.py", str(tmp_path / "encoded"), "--order", "4"])
    tool["main"]()
    loss = -tool["KneserNey"](stream.train, stream.tokenizer.vocabulary_size, 4).log_probabilities(stream.validation)
    by_word = math.exp(loss[1:].sum() / stream.words)
    assert f"per token {math.exp(loss[1:].mean()):.2f}, per word {by_word:.2f}" in capsys.readouterr().out
