"""The recipes of one page: each runs short, sees no future and no padding, and learns."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "recipes" / "one_page"
TEXT = ["Return the name of the file.", "Raise an error if the list is empty.", "A set of numbers."] * 20
SHORT = {
    "rnn_attention": {"UNITS": 7, "EMBEDDING": 5, "PAIRS": 101, "BATCH": 3, "STEPS": 2, "SOURCE_LENGTH": 13},
    "transformer": {"WIDTH": 8, "HEADS": 2, "INNER": 11, "LAYERS": 1, "PAIRS": 101, "BATCH": 3, "STEPS": 2},
    "bert": {"WIDTH": 8, "HEADS": 2, "LAYERS": 1, "BATCH": 3, "STEPS": 2, "FINE_TUNING_STEPS": 2},
    "gpt": {"WIDTH": 8, "HEADS": 2, "LAYERS": 1, "BATCH": 3, "STEPS": 2, "WARMUP": 1, "WINDOW": 13},
}


@pytest.fixture
def page(monkeypatch):
    """page(name, **settings): the module of a recipe, with other settings."""

    def load(name, **settings):
        spec = importlib.util.spec_from_file_location(f"one_page_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        for setting, value in settings.items():
            assert hasattr(module, setting)
            setattr(module, setting, value)
        return module

    return load


def test_every_page_is_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_a_page_is_short_and_has_few_settings(name):
    lines = (FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
    settings = [line for line in lines if line[:1].isupper() and " = " in line and "  # " in line]
    assert len(lines) <= 205
    assert len(settings) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_a_page_runs_from_start_to_end(name, page, monkeypatch, capsys):
    module = page(name, **SHORT[name])
    if name == "gpt":
        monkeypatch.setattr(module, "docstrings", lambda: TEXT)
    scores = module.main()
    assert all(np.isfinite(list(scores.values())))
    assert capsys.readouterr().out.count("\n") >= 4


def test_the_schedule_of_the_transformer_is_equation_3(page):
    module = page("transformer", WIDTH=64, WARMUP=400)
    rates = [module.learning_rate(step) for step in range(1, 2000)]
    assert np.argmax(rates) + 1 == 400
    assert rates[0] == pytest.approx(64**-0.5 * 400**-1.5)
    assert rates[1599] == pytest.approx(rates[399] / 2)


def test_no_target_character_sees_a_later_one(page):
    module = page("transformer", **SHORT["transformer"])
    model = module.Transformer(11, 13)
    source, target = np.array([[5, 7, 0]]), np.array([[2, 7, 5, 11]])
    changed = np.array([[2, 7, 3, 5]])
    first, second = (model(source, ids).numpy() for ids in (target, changed))
    np.testing.assert_allclose(first[:, :2], second[:, :2], atol=1e-6)
    assert np.abs(first[:, 2:] - second[:, 2:]).max() > 1e-3


def test_no_character_of_gpt_sees_a_later_one(page):
    model = page("gpt", **SHORT["gpt"]).GPT(17)
    first, second = (model(np.array([ids])).numpy() for ids in ([2, 7, 5, 11], [2, 7, 3, 5]))
    np.testing.assert_allclose(first[:, :2], second[:, :2], atol=1e-6)
    assert np.abs(first[:, 2:] - second[:, 2:]).max() > 1e-3


@pytest.mark.parametrize("name", ["rnn_attention", "transformer"])
def test_padding_of_the_source_changes_nothing(name, page):
    module = page(name, **SHORT[name])
    model = (module.Translator if name == "rnn_attention" else module.Transformer)(11, 13)
    target = np.array([[2, 7, 5]], "int32")
    short, padded = (model(np.array([source], "int32"), target).numpy() for source in ([5, 7, 9], [5, 7, 9, 0, 0]))
    np.testing.assert_allclose(short, padded, atol=1e-5)


def test_words_are_masked_as_in_bert(page):
    module = page("bert")
    random = np.random.default_rng(3)
    ids = np.full((503, module.LENGTH), 11)
    ids[:, 0], ids[:, -1] = module.CLS, module.PAD
    masked, chosen = module.mask_words(random, ids)
    assert not chosen[:, [0, -1]].any()
    assert chosen[:, 1:-1].mean() == pytest.approx(0.15, abs=0.02)
    assert (masked[~chosen] == ids[~chosen]).all()
    assert (masked[chosen] == module.MASK).mean() == pytest.approx(0.8, abs=0.03)
    assert (masked[chosen] == 11).mean() == pytest.approx(0.1, abs=0.03)


LEARNS = {
    "rnn_attention": {"PAIRS": 20_000, "STEPS": 250},
    "transformer": {"PAIRS": 20_000, "STEPS": 400, "WARMUP": 200},
    "bert": {"STEPS": 300},
    "gpt": {"WIDTH": 64, "LAYERS": 2, "STEPS": 300, "WARMUP": 20, "WINDOW": 32},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNS)
def test_a_page_learns(name, page):
    module = page(name, **LEARNS[name])
    if name == "gpt":
        documents = module.docstrings(most_files=60)
        module.docstrings = lambda: documents
    scores = module.main()
    if name == "bert":
        assert scores["masked"] > 3 * scores["unigram"]
    elif name == "gpt":
        assert scores["validation"] < scores["bigram"] < scores["unigram"]
    else:
        assert scores["exact match"] > 30
