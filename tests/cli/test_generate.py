"""generate and score from the shell."""

import json

import pytest
from zoo.tiny_gpt import tiny_generator

from keras_attention.pipelines.base import load_pipeline

pytestmark = pytest.mark.slow

PROMPTS = ["A dog", "Two men"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "writer"
    tiny_generator("char").save(folder)
    return folder


def test_generate(run, complains, model):
    expected = load_pipeline(model)
    code, out, err = run("generate", "--model", model, PROMPTS[0], "--max-tokens", "7")
    assert (code, out, err) == (0, f"{PROMPTS[0]}{expected.generate(PROMPTS[0], max_tokens=7)}\n", "")
    code, out, _ = run("generate", "--model", model, *PROMPTS, "--n", "2", "--max-tokens", "7", "--temperature", "1.5")
    answers = expected.generate(PROMPTS, max_tokens=7, n=2, temperature=1.5)
    texts = [prompt + text for prompt, texts in zip(PROMPTS, answers, strict=True) for text in texts]
    assert (code, out) == (0, "\n---\n".join(texts) + "\n")
    code, out, _ = run("generate", "--model", model, "--json", "--max-tokens", "3", "--seed", "4", "--stop", "e")
    (answer,) = json.loads(out)["generations"]
    (same,) = expected.generations("", max_tokens=3, seed=4, stop="e")
    assert answer == same._asdict()
    assert "max_tokens=0" in complains("generate", "--model", model, "A", "--max-tokens", "0")
    assert "it can generate and score. Expected: a model that can translate" in complains(
        "translate", "--model", model, "A"
    )


def test_score(run, complains, model, tmp_path):
    expected = load_pipeline(model).score(PROMPTS)
    code, out, _ = run("score", "--model", model, *PROMPTS)
    lines = [f"{s.log_prob:.4f}\t{s.perplexity:.2f}\t{text}" for s, text in zip(expected, PROMPTS, strict=True)]
    assert (code, out.splitlines()) == (0, lines)
    (tmp_path / "texts").write_text("A dog\n")
    _, out, _ = run("score", "--model", model, "--input", tmp_path / "texts", "--tokens")
    assert [line.split("\t")[1] for line in out.splitlines()] == list("A dog")
    _, out, _ = run("score", "--model", model, "--json", stdin=b"A dog\n\n")
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0] == {"text": "A dog", **expected[0]._asdict()}
    assert rows[1]["perplexity"] is None
    assert "not both" in complains("score", "--model", model, "A", "--input", tmp_path / "texts")
