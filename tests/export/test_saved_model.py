"""A saved model in a process of its own, with TensorFlow and its text operations alone."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from keras_attention import load
from keras_attention.cli import main as cli
from keras_attention.data.dates import generate_dates
from keras_attention.export import graph_writers as chunks
from keras_attention.pipelines import translator as translator_module

PROGRAM = """
import json
import sys

import numpy as np

for name, texts in json.load(sys.stdin).items():
    with open(f"{name}/README.txt", encoding="utf-8") as file:
        exec("".join(line[4:] for line in file if line.startswith("    ")))
    answers = model.signatures["serving_default"](texts=tf.constant(texts))
    arrays = {key: value.numpy() for key, value in answers.items()}
    arrays |= {key: array.astype(bytes) for key, array in arrays.items() if array.dtype == object}
    np.savez(f"{name}.npz", **arrays)
assert {"tensorflow", "tensorflow_text"} <= set(sys.modules)
assert "keras_attention" not in sys.modules
"""
PEOPLE = ["A man", "Two women", "A girl in a red dress", "The brown dog", "Several children", "An old farmer"]
ACTIONS = ["sleeps", "are running", "is playing the guitar", "jumps over a fence", "look at 3 birds", "eats: an apple!"]
PLACES = ["", "in the park", "near the river, at night", "on a busy street", "in front of Café Zoë"]


def english_sentences(count):
    """Sentences of one to four clauses."""
    draw = random.Random(7)
    for _ in range(count):
        clauses = (" ".join(map(draw.choice, (PEOPLE, ACTIONS, PLACES))).strip() for _ in range(draw.randrange(1, 5)))
        yield " while ".join(clauses) + draw.choice([".", "", "?", " ."])


def of_one_shape(texts, tokenizer, shortest, longest):
    """96 different texts of `shortest` to `longest` tokens, which the translator pads alike, and 4 empty ones."""
    texts = list(dict.fromkeys(texts))
    lengths = [len(ids) for ids in tokenizer.encode(texts)]
    chosen = [text for text, length in zip(texts, lengths, strict=True) if shortest <= length <= longest][:96]
    return [*chosen[:11], "", " \t ", "\u3000", "", *chosen[11:]]


@pytest.mark.thorough
def test_fresh_process_gives_the_answers_of_translate(tmp_path, capsys, monkeypatch):
    models = {"dates": load("rnn_attention_dates"), "english": load("rnn_attention_multi30k_en_de")}
    dates = generate_dates(499, seed=3, split="test")[0]
    texts = {
        "dates": of_one_shape(dates, models["dates"].source_tokenizer, 1, 15),
        "english": of_one_shape(english_sentences(499), models["english"].source_tokenizer, 16, 31),
    }
    assert sum(map(len, texts.values())) == 200
    assert cli.main(["export", "rnn_attention_dates", str(tmp_path / "dates")]) == 0
    assert "attention      float32 (B, T, S)" in capsys.readouterr().out
    monkeypatch.setattr(chunks, "BATCH_SIZES", (19,))  # is traced faster than three sizes
    assert cli.main(["export", "rnn_attention_multi30k_en_de", str(tmp_path / "english"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"]["texts"]["type"] == "string (B)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(texts),
        cwd=tmp_path,
        env=environment,
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    assert len(done.stdout.splitlines()) == len(models)  # what the example in README.txt prints
    monkeypatch.setattr(translator_module, "_loops", lambda hypotheses: False)  # an exported model searches once
    for name, translator in models.items():
        expected = translator.translate(texts[name], return_attention=True, split=False)
        with np.load(tmp_path / f"{name}.npz") as answers:
            assert [text.decode() for text in answers["text"]] == [answer.text for answer in expected]
            np.testing.assert_allclose(answers["score"], [answer.score for answer in expected], atol=1e-4)
            for weights, answer in zip(answers["attention"], expected, strict=True):
                weights = weights[: len(answer.tokens), : len(answer.source_tokens)]
                np.testing.assert_allclose(weights, answer.attention, atol=1e-5)
        assert len({answer.text for answer in expected}) > 40
