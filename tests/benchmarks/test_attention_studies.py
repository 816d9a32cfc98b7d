"""The tables behind the chapters: what differs between the trainings, what is stored, and what is printed."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_attention.models.transformer import Transformer
from keras_attention.support.errors import UserError

PAIRS = [(f"{'a ' * (n % 11)}dog {n}", f"{'un ' * (n % 11)}chien {n}") for n in range(60)]
SIZES = {"hidden_dim": 14, "intermediate_dim": 13, "num_heads": 7, "num_encoder_layers": 1, "num_decoder_layers": 2}
SMALL = ["--vocabulary-size", "41", "--width", "16", "--layers", "1", "--updates", "2", "--tokens-per-batch", "32"]
SMALL += ["--buckets", "1", "--no-xla"]


@pytest.fixture
def studies(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import attention_studies

    return attention_studies


@pytest.fixture
def command(studies, tmp_path):
    """Runs a study of tiny data, by its name and further arguments."""
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")

    def run(study, *arguments):
        files = ["--data", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / f"{study}.json")]
        studies.main([study, *files, "--test-size", "12", *SMALL, *map(str, arguments)])

    return run


def built(kind, **switches):
    model = kind(17, 19, **SIZES, dropout=0.1, attention_dropout=0.0, tie_embeddings="target", **switches)
    model.build()
    return model


def inputs_of(seed):
    generator = np.random.default_rng(seed)
    source, target = generator.integers(4, 17, (2, 5)), generator.integers(4, 19, (2, 3))
    source[1, 3:] = 0
    return {"source_ids": source.astype("int32"), "target_ids": target.astype("int32")}


def test_the_studied_transformer_is_the_transformer_of_the_library(studies):
    theirs, ours = built(Transformer), built(studies.StudiedTransformer)
    ours.set_weights(theirs.get_weights())
    inputs = inputs_of(1)
    np.testing.assert_allclose(np.array(ours(inputs)), np.array(theirs(inputs)), atol=1e-5)


@pytest.mark.parametrize("switches", [{"norm": False}, {"residual": False}])
def test_steps_of_the_studied_transformer_equal_the_full_pass(studies, switches):
    model, inputs = built(studies.StudiedTransformer, **switches), inputs_of(2)
    expected = np.array(model(inputs))
    memory = model.encode(inputs["source_ids"])
    state = model.initial_state(memory, 3)
    for t in range(3):
        logits, state = model.step(inputs["target_ids"][:, t], state, memory)
        np.testing.assert_allclose(np.array(logits), expected[:, t], atol=1e-4)


def test_without_norms_no_norm_has_trainable_weights(studies):
    whole = {weight.path for weight in built(studies.StudiedTransformer).trainable_weights}
    without = {weight.path for weight in built(studies.StudiedTransformer, norm=False).trainable_weights}
    assert {path.split("/")[-2] for path in whole} - {path.split("/")[-2] for path in without} == {
        "self_attention_norm",
        "cross_attention_norm",
        "feed_forward_norm",
    }


def test_without_residuals_a_layer_forgets_its_input(studies):
    """If a sub-layer gives 0, the sum is what came in, and the result without a residual is 0."""
    for residual, expected in ((True, 3.0), (False, 0.0)):
        layer = studies.StudiedEncoderLayer(5, 1, residual=residual, norm=False)
        layer.build((None, None, 3))
        layer.set_weights([np.zeros_like(weight) for weight in layer.get_weights()])
        np.testing.assert_array_equal(np.array(layer(np.full((1, 2, 3), 3.0, "float32"))), expected)


def test_test_pairs_have_all_lengths_and_are_not_trained_on(studies):
    options = SimpleNamespace(study="lengths", up_to=[7, 11], test_size=18, train_size=31, data=Path("pairs.tsv"))
    pairs = [*PAIRS, ("dog 0", "chien zéro"), ("dog zero", "chien 0")]
    train, test = studies.split(pairs, options)
    lengths = [len(source.split()) for source, _ in test]
    assert [sum(low <= n < high for n in lengths) for low, high in ((1, 6), (6, 11), (11, 12))] == [6, 6, 5]
    assert len(train) == 31
    assert all({pair[side] for pair in train}.isdisjoint(pair[side] for pair in test) for side in (0, 1))
    assert studies.split(pairs, options) == (train, test)
    options.up_to = [0]
    with pytest.raises(UserError, match=r"pairs.tsv: 0 training and 0 test pairs of at most 0 words. Expected"):
        studies.split(pairs, options)


@pytest.mark.parametrize(
    ("study", "names", "columns"),
    [
        ("heads", ["1", "2", "4", "8"], ["heads", "BLEU"]),
        ("depth", [*"123456", *(f"{layers}, pre-norm" for layers in "123456")], ["layers", "BLEU"]),
        ("norm", ["post-norm", "pre-norm", "no norm", "no residuals", "neither"], ["Transformer", "BLEU"]),
        (
            "lengths",
            [f"{kind} attention, up to {words}" for kind in ("with", "without") for words in (9, 4)],
            ["network", "1 to 5 words", "6 to 9 words", "all"],
        ),
    ],
)
def test_an_interrupted_study_resumes(study, names, columns, studies, command, tmp_path, monkeypatch, capsys):
    made = []

    def measure(kind, settings, longest, seed, data, options):
        if len(made) == 3:
            made.append("interrupted")
            raise KeyboardInterrupt
        made.append((kind(9, 9, **settings), longest, seed))
        lengths = [10.0 + seed, None][: len(studies.edges_of(options)) + 1]
        scores = {"BLEU": 20.0 + seed, "BLEU by length": lengths, "loss": 3.0 + seed / 10}
        return scores | {"parameters": 1234, "training pairs": 7, "seconds": 60.0, "example": "un chien"}

    monkeypatch.setattr(studies, "measure", measure)
    words = [9, 4] if study == "lengths" else [9]
    arguments = ("--up-to", *words, "--seeds", 1, 3, "--docs")
    monkeypatch.setattr(studies, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(studies, "PLOT", tmp_path / "lengths.png")
    (tmp_path / "page.md").write_text(f"before\n<!-- {study} -->\nold\n<!-- /{study} -->\nafter\n", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        command(study, *arguments)
    command(study, *arguments)
    assert len(made) == 1 + 2 * len(names)  # none of them twice
    results = json.loads((tmp_path / f"{study}.json").read_text(encoding="utf-8"))["results"]
    assert {name: list(seeds) for name, seeds in results.items()} == dict.fromkeys(names, ["1", "3"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    head, _, *rows = [line.strip("| ").split(" | ") for line in lines]
    assert head == [*columns, "loss", "parameters", "seconds", "seeds"]
    assert [row[0] for row in rows] == names
    assert {row[-5] for row in rows} == {"22.0 (21.0 to 23.0)"}
    assert {tuple(row[-4:]) for row in rows} == {("3.200 (3.100 to 3.300)", "1,234", "60", "2")}
    picture = ["", "![BLEU by source length](images/lengths.png)"] if study == "lengths" else []
    page = ["before", f"<!-- {study} -->", "", *lines, *picture, "", f"<!-- /{study} -->", "after"]
    assert (tmp_path / "page.md").read_text(encoding="utf-8").splitlines() == page
    assert (tmp_path / "lengths.png").exists() == (study == "lengths")
    with pytest.raises(UserError, match=r"has results with updates=2; the command has updates=3. Give the same"):
        command(study, *arguments, "--updates", 3)
    with pytest.raises(UserError, match=rf"--only: {study} has no '5 heads'. Expected some of: {names[0]}; "):
        command(study, *arguments, "--only", "5 heads")


@pytest.mark.slow
@pytest.mark.parametrize("study", ["norm", "lengths"])
def test_a_training_is_measured(study, command, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_ATTENTION_EAGER", "1")  # compiles nothing
    names = {"norm": "neither", "lengths": "without attention, up to 4"}
    command(study, "--seeds", 3, "--up-to", 9, 4, "--only", names[study])
    (answer,) = json.loads((tmp_path / f"{study}.json").read_text(encoding="utf-8"))["results"][names[study]].values()
    assert 2 < answer["loss"] < 9  # log 41 is 3.7
    assert 0 <= answer["BLEU"] <= 100
    assert answer["training pairs"] < 50
    assert len(answer["BLEU by length"]) == (2 if study == "lengths" else 1)
    assert f"| {names[study]} |" in capsys.readouterr().out


def test_joined_pairs_are_all_words_in_order_up_to_the_most(studies):
    pairs = studies.joined(PAIRS, 30)
    assert [" ".join(side) for side in zip(*pairs, strict=True)] == [
        " ".join(side) for side in zip(*PAIRS, strict=True)
    ]
    assert len(pairs) < len(PAIRS)
    assert max(map(studies.words_of, pairs)) <= 30
    assert studies.joined([], 30) == []
