"""Tables and claims of the course and of docs/attention.md that come from stored results: new seeds change them."""

import ast
import json
import re
from pathlib import Path
from statistics import mean
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RESULTS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "benchmarks" / "results").glob("*.json")}
LANGUAGE_MODELS = RESULTS["language_models"]["results"]
NUMBER_WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}


def study(name):
    return RESULTS[f"studies_{name}"]["results"]


def of_seeds(name, variant, fact):
    return [one[fact] for one in study(name)[variant].values()]


def mean_by_length(variant):
    return [mean(values) for values in zip(*of_seeds("lengths", variant, "BLEU by length"), strict=True)]


def kept(variant):
    """The share of BLEU that is left from 11 to 15 words to 41 to 50 words."""
    values = mean_by_length(variant)
    return f"{100 * values[7] / values[2]:.0f} %"


def seeds_of(name):
    """The number of seeds as a word; all variants must have as many."""
    (count,) = {len(seeds) for seeds in study(name).values()}
    return NUMBER_WORDS[count]


def chapter(number):
    (path,) = (ROOT / "course").glob(f"{number:02}_*.ipynb")
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def prose(number):
    """The text of a chapter on one line."""
    return " ".join(" ".join("".join(cell["source"]) for cell in chapter(number)).split())


def literal(number, name):
    """The value of a variable that a chapter writes down."""
    code = "\n".join("".join(cell["source"]) for cell in chapter(number) if cell["cell_type"] == "code")
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(name)


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import attention_studies
    import language_models
    import translator_shapes

    return SimpleNamespace(studies=attention_studies, language_models=language_models, shapes=translator_shapes)


PAGE = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
PAGE_LINE = " ".join(PAGE.split())


def between_marks(name):
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", PAGE, re.DOTALL)[1]


def test_the_page_about_training_has_the_table_of_shapes(benchmarks):
    page = (ROOT / "docs" / "train.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- shapes -->\n(.*?)<!-- /shapes -->", page, re.DOTALL)
    results = RESULTS["translator_shapes"]["results"]
    ordered = {shape: results[shape] for shape in benchmarks.shapes.SHAPES if shape in results}
    assert table.strip() == benchmarks.shapes.table(ordered)
    assert {"4 + 4", "6 + 2", "6 + 2, SSRU"} <= set(results)


@pytest.mark.parametrize("name", ["heads", "depth", "norm", "lengths"])
def test_the_page_has_the_table_of_the_study(name, benchmarks):
    options = SimpleNamespace(study=name, up_to=RESULTS[f"studies_{name}"]["settings"]["up_to"])
    expected = benchmarks.studies.table(study(name), options).splitlines()
    shown = [line for line in between_marks(name).splitlines() if line.startswith("|")]
    assert shown[0] == expected[0]
    assert sorted(shown) == sorted(expected)


def test_the_page_has_the_table_of_language_models(benchmarks):
    assert benchmarks.language_models.table(LANGUAGE_MODELS) in between_marks("language_models")


def test_losses_by_context_are_means_of_the_stored_ones(benchmarks):
    starts, shown = literal(9, "starts"), literal(9, "by_context")
    for kind, values in zip(("lstm", "convolutional", "gpt", "lstmn"), shown.values(), strict=True):
        expected = benchmarks.language_models.means_by_context(LANGUAGE_MODELS[kind]["loss by position"])
        assert (starts, values) == (expected[0], pytest.approx(expected[1], abs=6e-4)), kind


def test_the_page_and_chapter_9_say_how_much_context_is_used(benchmarks):
    used = {
        kind: benchmarks.language_models.used_context(one["loss by position"]) for kind, one in LANGUAGE_MODELS.items()
    }
    assert used["lstm"] == used["lstmn"]
    claim = (
        "at {gpt} tokens of context for GPT, at {lstm} for LSTM and LSTMN, and at {convolutional} for the convolutions"
    )
    assert claim.format(**used) in PAGE_LINE
    outputs = "".join("".join(out.get("text", "")) for cell in chapter(9) for out in cell.get("outputs", ()))
    for kind, name in (("lstm", "LSTM"), ("convolutional", "convolution"), ("gpt", "GPT"), ("lstmn", "LSTMN")):
        assert re.search(rf"^{name} .*uses {used[kind]} tokens", outputs, re.MULTILINE), name
    updates = {kind: one["updates"] for kind, one in LANGUAGE_MODELS.items()}
    assert "({gpt} and {lstm})".format(**updates) in prose(9)
    assert "made only {lstmn} updates".format(**updates) in prose(9)
    assert "made only {lstmn} updates, GPT {gpt} and the LSTM {lstm}.".format(**updates) in PAGE_LINE


def test_bleu_by_length_is_that_of_the_study():
    shown = literal(1, "bleu")
    assert list(shown) == list(study("lengths"))
    for variant, values in shown.items():
        assert values == pytest.approx(mean_by_length(variant), abs=0.006), variant


def test_the_page_says_what_long_sentences_cost():
    names = [f"{kind} attention, up to {words}" for kind in ("with", "without") for words in (50, 30)]
    claim = "BLEU falls to {} if long pairs are in the training and to {} if they are not; "
    claim += "without attention, it falls to {} and {}."
    assert claim.format(*map(kept, names)) in PAGE_LINE


def test_chapter_6_has_the_table_of_heads(benchmarks):
    for heads, seeds in study("heads").items():
        of = {fact: [one[fact] for one in seeds.values()] for fact in ("BLEU", "loss")}
        row = f"| {heads} | {benchmarks.studies.cell(of['BLEU'])} | {mean(of['loss']):.3f} | "
        assert row in prose(6), row


def test_chapter_6_has_the_scores_of_each_seed():
    expected = {int(heads): of_seeds("heads", heads, "BLEU") for heads in study("heads")}
    assert literal(6, "bleu") == expected


def test_chapter_7_has_the_tables_of_depth_and_norm():
    for name, tail in (("post-norm", ""), ("pre-norm", ", pre-norm")):
        expected = [mean(of_seeds("depth", f"{layers}{tail}", "BLEU")) for layers in range(1, 7)]
        assert literal(7, "bleu")[name] == pytest.approx(expected, abs=0.051), name
    expected = {name: tuple(mean(of_seeds("norm", name, fact)) for fact in ("BLEU", "loss")) for name in study("norm")}
    assert list(literal(7, "by_change")) == list(expected)
    for name, (bleu, loss) in literal(7, "by_change").items():
        assert (bleu, loss) == (pytest.approx(expected[name][0], abs=0.051), pytest.approx(expected[name][1], abs=6e-3))


def test_four_heads_are_best():
    scores = {heads: mean(of_seeds("heads", heads, "BLEU")) for heads in study("heads")}
    losses = {heads: of_seeds("heads", heads, "loss") for heads in scores}
    assert max(scores, key=lambda heads: scores[heads]) == "4"
    assert set(np.argmax(list(losses.values()), axis=0)) == {0}
    assert set(np.argmin(list(losses.values()), axis=0)) == {2}
    claim = f"our heads are best, {scores['4'] - scores['1']:.1f} BLEU above one"
    assert claim in PAGE_LINE
    assert claim in prose(6)


def test_the_number_of_seeds_is_that_of_the_studies():
    counts = {name: seeds_of(name) for name in ("heads", "depth", "norm", "lengths")}
    assert (
        "`heads` with {heads} seeds, `norm` with {norm}, `depth` and `lengths` with {depth}:".format(**counts)
        in PAGE_LINE
    )
    assert counts["depth"] == counts["lengths"]
    assert f"rate 1e-3, {counts['norm']} seeds: after the same" in PAGE_LINE
    assert f"Means of {counts['heads']} seeds" in prose(6)
    assert f"{counts['lengths'].capitalize()} seeds, so small differences mean nothing" in prose(1)
    assert f"60,000 short pairs, 1,500 updates, {counts['depth']} seeds" in prose(7)
    assert f"with 4 layers in encoder and decoder, means of {counts['norm']} seeds" in prose(7)


def test_the_page_says_what_depth_and_norms_do():
    scores = {variant: mean(of_seeds("depth", variant, "BLEU")) for variant in study("depth")}
    post = [scores[str(layers)] for layers in range(1, 7)]
    pre = [scores[f"{layers}, pre-norm"] for layers in range(1, 7)]
    assert post.index(max(post)) == 1
    assert post[1:] == sorted(post[1:], reverse=True)
    assert pre[:4] == sorted(pre[:4])
    assert max(pre[3:]) - min(pre[3:]) < 1  # within the range of the seeds
    losses = [mean(of_seeds("depth", f"{layers}, pre-norm", "loss")) for layers in range(1, 7)]
    assert losses == sorted(losses, reverse=True)
    assert post[5] < post[1] / 3
    assert f"4 + 4 reach {pre[3]:.1f} instead of {post[3]:.1f}" in PAGE_LINE
    norms = {variant: mean(of_seeds("norm", variant, "BLEU")) for variant in study("norm")}
    assert norms["pre-norm"] > 2 * norms["post-norm"]
    assert max(norms["no norm"], norms["no residuals"], norms["neither"]) < 1
    losses = {variant: mean(of_seeds("norm", variant, "loss")) for variant in study("norm")}
    assert losses["no norm"] > 10
