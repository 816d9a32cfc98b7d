"""The graph of a language model writes what the pipeline writes, from strings to strings."""

import functools
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tiny_byte_level import tiny_byte_level
from zoo.tiny_gpt import TEXTS, tiny_generator

from keras_attention.cli.main import main
from keras_attention.export import graph_writers as chunks
from keras_attention.export.graph_writers import GraphWriter
from keras_attention.export.signatures import CONTINUED
from keras_attention.models import GPT
from keras_attention.pipelines.text_generator import TextGenerator
from keras_attention.support.errors import UserError

PROMPTS = ["A dog", "", "Two men", "m\nA", "A\u00e9 \u72ac"]
generator = functools.cache(tiny_generator)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["char", pytest.param("bpe", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_it_writes_what_the_pipeline_writes(level, temperature, monkeypatch):
    monkeypatch.setattr(chunks, "BATCH_SIZES", (3,))  # is traced faster than three sizes
    graph = GraphWriter(generator(level))
    answer = graph.answer(tf.constant(PROMPTS), tf.constant(7), tf.constant(temperature), tf.constant(5))
    expected = generator(level).generations(PROMPTS, max_tokens=7, temperature=temperature, seed=5)
    assert [text.decode() for text in answer["text"].numpy()] == [one.text for (one,) in expected]
    np.testing.assert_allclose(answer["log_prob"], [sum(one.log_probs) for (one,) in expected], atol=1e-4)
    assert not answer["truncated"].numpy().any()
    for name, (kind, _) in CONTINUED["outputs"].items():
        assert (answer[name].dtype.name, answer[name].shape.rank) == (kind.split()[0], 1)


@pytest.mark.parametrize("begins_with", ["end", "line_break", "nothing"])
def test_it_reads_what_the_pipeline_reads(begins_with):
    usual = generator("char")
    writer = TextGenerator(usual.model, usual.tokenizer, usual.line_break, begins_with)
    token_ids, lengths, _ = GraphWriter(writer)._read(tf.constant(PROMPTS))
    actual = [row[len(row) - length :].tolist() for row, length in zip(token_ids.numpy(), lengths.numpy(), strict=True)]
    assert actual == writer.token_ids_of(PROMPTS)


@pytest.mark.slow
def test_extreme_temperatures_write_text(monkeypatch):
    monkeypatch.setattr(chunks, "BATCH_SIZES", (5,))
    graph, writer = GraphWriter(generator("char")), generator("char")

    def written(temperature):
        answer = graph.answer(tf.constant(PROMPTS), tf.constant(7), tf.constant(temperature), tf.constant(5))
        return [text.decode() for text in answer["text"].numpy()]

    greedy = writer.generate(PROMPTS, max_tokens=7, temperature=0)
    assert written(1e-40) == written(float("nan")) == greedy
    assert all(written(float("inf")))  # all tokens are equally probable


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["lstm", "gru", "lstmn", "convolutional"])
def test_other_kinds_write_what_their_pipelines_write(kind, monkeypatch):
    monkeypatch.setattr(chunks, "BATCH_SIZES", (3,))
    writer = tiny_generator("char", kind=kind)
    answer = GraphWriter(writer).answer(tf.constant(PROMPTS), tf.constant(7), tf.constant(1.3), tf.constant(5))
    expected = writer.generations(PROMPTS, max_tokens=7, temperature=1.3, seed=5)
    assert [text.decode() for text in answer["text"].numpy()] == [one.text for (one,) in expected]
    np.testing.assert_allclose(answer["log_prob"], [sum(one.log_probs) for (one,) in expected], rtol=1e-4)


@pytest.mark.slow
def test_of_a_long_beginning_the_end_is_read(monkeypatch):
    monkeypatch.setattr(chunks, "BATCH_SIZES", (2,))
    graph, text = GraphWriter(generator("char")), " ".join(TEXTS)
    assert graph.room == generator("char").window // 2 == 14
    answer = graph.answer(tf.constant([text, text[-5:]]), tf.constant(100), tf.constant(0.0), tf.constant(0))
    ids = generator("char").token_ids_of([text])[0][-14:]
    logits = generator("char").model({"token_ids": np.array([ids], "int32")})
    assert answer["truncated"].numpy().tolist() == [True, False]
    tokens = [len(text.decode()) for text in answer["text"].numpy()]
    assert max(tokens) <= 14
    first = answer["text"].numpy()[0].decode()[:1]
    best = np.argsort(-np.asarray(logits)[0, -1])
    allowed = [token for token in best if token not in generator("char").steps.never]
    assert first == generator("char").text_of(allowed[:1])


def test_a_byte_level_tokenizer_is_refused_in_one_line():
    tokenizer = tiny_byte_level()
    model = GPT(tokenizer.vocabulary_size, 6, 7, 1, 1, 11, pad_id=None)
    model.build()
    with pytest.raises(UserError, match="A byte-level tokenizer cannot be part of a TensorFlow graph. Supported: sent"):
        GraphWriter(TextGenerator(model, tokenizer))


PROGRAM = """
with open("written/README.txt", encoding="utf-8") as file:
    exec("".join(line[4:] for line in file if line.startswith("    ")))
"""


@pytest.mark.slow
def test_a_fresh_process_runs_the_lines_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(chunks, "BATCH_SIZES", (1,))
    generator("char").save(tmp_path / "writer")
    assert main(["export", str(tmp_path / "writer"), str(tmp_path / "written")]) == 0
    assert "temperature    float32 ()" in capsys.readouterr().out
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "3"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == generator("char").generate("The", max_tokens=14, temperature=0.8) + "\n"
