"""Comparing the results of two commits: a single bit, name or digit is seen, and what may differ is not."""

import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "compare_commits.py"
spec = importlib.util.spec_from_file_location("compare_commits", SCRIPT)
compare_commits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare_commits)

KERNEL = np.arange(15, dtype="float32").reshape(3, 5)
ANSWERS = {"dates": {"texts": [[{"text": "1978-04-23", "score": -0.1}]]}}


def write_results(folder, kernel=KERNEL, name="dense.kernel", loss=0.7, seconds=1.0, answers=ANSWERS):
    """A folder as the script keeps it: one trained model and the answers of one entry."""
    trained = folder / "recipes" / "transformer"
    trained.mkdir(parents=True)
    with h5py.File(trained / "model.weights.h5", "w") as file:
        file.create_dataset(name, data=kernel)
    metrics = {
        "training": {"history": [{"epoch": 1, "loss": loss, "seconds": seconds}]},
        "scores": [{"set": "test", "metric": "exact", "value": 5.0, "signature": "any"}],
        "examples": [{"source": "a", "output": "b"}],
    }
    (trained / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    (folder / "zoo").mkdir()
    (folder / "zoo" / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    return folder


@pytest.fixture
def compared(tmp_path):
    """Compares the results as they are with results that differ as the arguments say."""
    old = write_results(tmp_path / "old")
    return lambda **changed: compare_commits.compare(old, write_results(tmp_path / "new", **changed))


def test_equal_results_are_equal_whatever_time_they_took(compared):
    assert compared(seconds=2.0) == {"recipes/transformer": None, "zoo/dates": None}


def test_one_bit_of_one_weight_is_seen(compared):
    kernel = KERNEL.copy()
    kernel[2, 3] = np.nextafter(kernel[2, 3], np.float32(np.inf))
    assert compared(kernel=kernel)["recipes/transformer"].startswith("weights dense.kernel: 1 of 15 values differ")


def test_the_sign_of_a_zero_is_seen(compared):
    kernel = KERNEL.copy()
    kernel[0, 0] = -0.0
    assert compared(kernel=kernel)["recipes/transformer"].startswith("weights dense.kernel")


def test_another_name_or_dtype_is_seen(compared, tmp_path):
    assert "dense.weight" in compared(name="dense.weight")["recipes/transformer"]
    other = write_results(tmp_path / "half", kernel=KERNEL.astype("float16"))
    assert "float32 (3, 5) -> float16" in compare_commits.compare(tmp_path / "old", other)["recipes/transformer"]


def test_the_first_other_figure_is_named(compared):
    assert compared(loss=0.7000000000000001)["recipes/transformer"] == "history[0].loss: 0.7 -> 0.7000000000000001"


@pytest.mark.parametrize(
    ("answers", "difference"),
    [
        ({"dates": {"texts": [[{"text": "1978-04-24", "score": -0.1}]]}}, "'1978-04-23' -> '1978-04-24'"),
        ({"dates": {"texts": [[]]}}, "texts[0]"),
        ({}, "-> None"),
    ],
)
def test_another_answer_is_seen(compared, answers, difference):
    assert difference in compared(answers=answers)["zoo/dates"]


def test_a_model_that_one_commit_lacks_is_a_difference(compared, tmp_path):
    new = tmp_path / "old" / "recipes" / "rnn_attention"
    (tmp_path / "old" / "recipes" / "transformer").rename(new)
    differences = compared()
    assert all("there is no " in differences[f"recipes/{name}"] for name in ("rnn_attention", "transformer"))


def test_answers_become_json_that_keeps_every_bit():
    class Answer(NamedTuple):
        text: str
        score: float
        attention: np.ndarray
        added_later: int

    answer = Answer("a", np.float32(0.1), KERNEL, 7)
    kept = compare_commits.plain([answer])
    assert [*kept[0]] == ["text", "score", "attention"]
    assert np.float32(json.loads(json.dumps(kept))[0]["score"]) == answer.score
    assert kept[0]["attention"] != compare_commits.plain(-KERNEL)


class ClassifierWithoutVectors:
    def classify(self, texts, return_scores):
        return [{"label": text} for text in texts]

    def encode(self, texts):
        raise ValueError("gives labels, but no vectors of tokens")


def test_classifiers_without_vectors_are_compared_by_their_labels(tmp_path):
    answers = compare_commits.answers_of(ClassifierWithoutVectors(), tmp_path, [{"source": "a"}, {"source": "b"}])
    assert answers == {"texts": [{"label": "a"}, {"label": "b"}], "vectors": []}


def test_a_commit_that_is_not_there_is_named(capsys):
    assert compare_commits.main(["no-such-commit", "HEAD"]) == 2
    assert "compare_commits.py: " in capsys.readouterr().err
