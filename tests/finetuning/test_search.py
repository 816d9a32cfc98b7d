"""The search for settings: what is searched, the defaults first, resumed where it ended, and the best are used."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from finetuning.test_workflow import examples, write_csv
from zoo.tiny_bert import tiny_encoder, write_tiny

from keras_attention.cli.main import main
from keras_attention.finetuning import search
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.support.atomic_files import locked
from keras_attention.support.errors import TrainingDivergedError, UserError
from keras_attention.training.history import TrainResult

optuna = pytest.importorskip("optuna")
SETTINGS = FinetuneSettings(max_tokens=17, jit_compile=False)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts") / "start"
    write_tiny(folder, tiny_encoder(num_layers=1))
    return folder


@pytest.fixture
def fits(monkeypatch):
    """The settings of every training, whose score is 100 minus the distance of the rate from 1e-4, in tenths of it."""
    seen = []

    def fit(prepared, settings, verbose):
        seen.append(settings)
        return TrainResult([], 1, 0.0, 0.5, 1, "it is a stub")

    def validator(prepared):
        return lambda model: {"val_score": 100 - abs(seen[-1].learning_rate - 1e-4) / 1e-5, "val_loss": 0.5}

    monkeypatch.setattr(search, "fit", fit)
    monkeypatch.setattr(search, "validator", validator)
    return seen


def searched(start, tmp_path, count, messages, **given):
    settings = replace(SETTINGS, **given)
    data = examples("binary", 30)
    return search.search_settings(data, None, start, settings, count, tmp_path / "search.log", notify=messages.append)


def test_it_begins_with_the_defaults_and_ends_with_the_best(start, tmp_path, fits):
    messages = []
    best = searched(start, tmp_path, 5, messages)
    assert (fits[0].learning_rate, fits[0].epochs, fits[0].layer_decay) == (3e-4, 20, 0.9)
    assert len({one.learning_rate for one in fits}) == 5
    assert all(0.75e-4 <= one.learning_rate <= 9e-4 and 10 <= one.epochs <= 40 for one in fits)
    closest = min(fits, key=lambda one: abs(one.learning_rate - 1e-4))
    assert best == replace(closest, mixed_precision=best.mixed_precision)
    assert any(line.startswith("Search: 5 trainings, in about ") for line in messages)
    assert sum(line.startswith("Trial ") for line in messages) == 5


def test_every_trial_begins_with_the_same_weights(start, tmp_path, monkeypatch):
    kernels = []

    def fit(prepared, settings, verbose):
        kernel = prepared.classifier.model.output_dense.kernel
        kernels.append(kernel.numpy())
        kernel.assign(kernel + 1.0)
        return TrainResult([], 1, 0.0, 1.0, 1, "it is a stub")

    monkeypatch.setattr(search, "fit", fit)
    searched(start, tmp_path, 2, [])
    np.testing.assert_array_equal(*kernels)


@pytest.mark.slow
def test_a_search_resumes(start, tmp_path, fits, monkeypatch):
    usual, messages = search.fit, []

    def broken(prepared, settings, verbose):
        if len(fits) == 2:
            raise KeyboardInterrupt
        return usual(prepared, settings, verbose)

    with monkeypatch.context() as patch:
        patch.setattr(search, "fit", broken)
        with pytest.raises(KeyboardInterrupt):
            searched(start, tmp_path, 4, [])
    best = searched(start, tmp_path, 4, messages)
    assert len(fits) == 4
    assert any(line.startswith("Search: 2 trainings") for line in messages)
    assert best.learning_rate in {one.learning_rate for one in fits}
    assert searched(start, tmp_path, 4, []) == best  # nothing is left to train
    assert len(fits) == 4


def test_a_search_with_other_settings_is_not_resumed(start, tmp_path, fits):
    searched(start, tmp_path, 1, [], dropout=0.2)
    searched(start, tmp_path, 2, [], dropout=0.2)
    with pytest.raises(UserError, match="dropout was 0.2, now it is 0.3. Give the same ones, or"):
        searched(start, tmp_path, 3, [], dropout=0.3)
    assert len(fits) == 2


class KilledError(BaseException):
    """Stands for a kill in the midst of a training: nothing more is written."""


def killed(prepared, settings, verbose):
    raise KilledError


@pytest.mark.slow
def test_a_killed_search_leaves_no_lock_and_half_a_record_is_dropped(start, tmp_path, fits, monkeypatch):
    def no_lock(self):
        raise AssertionError("optuna's own lock would outlive a killed process")

    monkeypatch.setattr(optuna.storages.journal.JournalFileSymlinkLock, "acquire", no_lock)
    searched(start, tmp_path, 1, [])
    journal = tmp_path / "search.log"
    with open(journal, "ab") as file:
        file.write(b'{"op_code":6,"tri')
    searched(start, tmp_path, 2, [])
    assert len(fits) == 2
    journal.write_bytes(journal.read_bytes()[:5])
    search.check_search(2, None, journal, resume=True, restart=False)
    searched(start, tmp_path, 2, [])
    assert len(fits) == 4
    journal.write_bytes(b'{"op_code":77}\nand more\n')
    with pytest.raises(UserError, match="search.log is damaged. Begin the search anew with --restart"):
        searched(start, tmp_path, 2, [])


@pytest.mark.slow
def test_after_a_kill_in_the_first_training_the_defaults_come_first_again(start, tmp_path, fits, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(search, "fit", killed)
        with pytest.raises(KilledError):
            searched(start, tmp_path, 2, [])
    searched(start, tmp_path, 2, [])
    assert (fits[0].learning_rate, fits[0].epochs, fits[0].layer_decay) == (3e-4, 20, 0.9)
    assert len(fits) == 2


def test_search_keeps_given_settings_and_goes_on_after_a_diverged_training(start, tmp_path, monkeypatch):
    seen = []

    def fit(prepared, settings, verbose):
        seen.append(settings)
        if len(seen) == 2:
            raise TrainingDivergedError("the loss is nan")
        return TrainResult([], 1, 0.0, 0.5, 1, "it is a stub")

    monkeypatch.setattr(search, "fit", fit)
    monkeypatch.setattr(search, "validator", lambda prepared: lambda model: {"val_score": float(len(seen))})
    best = searched(start, tmp_path, 3, [], epochs=7, layer_decay=0.8)
    assert {(one.epochs, one.layer_decay) for one in seen} == {(7, 0.8)}
    assert best.learning_rate == seen[2].learning_rate


def test_a_search_without_a_choice_or_a_result_is_an_error(start, tmp_path, monkeypatch):
    def fit(prepared, settings, verbose):
        raise TrainingDivergedError("the loss is nan")

    monkeypatch.setattr(search, "fit", fit)
    with pytest.raises(UserError, match="All trainings of the search diverged"):
        searched(start, tmp_path, 2, [])
    with pytest.raises(UserError, match="leave out at least one of them"):
        searched(start, tmp_path, 2, [], epochs=7, layer_decay=0.8, learning_rate=1e-4)


def test_bad_usage(tmp_path, capsys, monkeypatch):
    table = write_csv(tmp_path / "table.csv", examples("binary", 30))
    usual = ["finetune", table, "--text", "review", "--label", "mood", "--out", str(tmp_path / "out")]

    def complaint(*options):
        assert main([*usual, *options]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "--search must be at least 1, the number of trainings. Found: 0" in complaint("--search", "0")
    assert "--search and --folds cannot be combined" in complaint("--search", "2", "--folds", "2")
    (tmp_path / "out_search.log").write_text("")
    assert "go on with --resume" in complaint("--search", "2")
    monkeypatch.setattr(search, "find_spec", lambda _: None)
    assert "needs optuna: pip install -e '" in complaint("--search", "2")


def test_foreign_files_are_kept(tmp_path, capsys):
    """Of a running search, which holds the lock of the model, and of the user."""
    table, journal = write_csv(tmp_path / "table.csv", examples("binary", 30)), tmp_path / "out_search.log"
    command = [
        "finetune",
        table,
        "--text",
        "review",
        "--label",
        "mood",
        "--out",
        str(tmp_path / "out"),
        "--search",
        "2",
    ]
    journal.write_text("precious\n")
    for flags in ([], ["--resume"], ["--restart"]):
        assert main([*command, *flags]) == 2
        assert "is not the file of an earlier search" in capsys.readouterr().err
    assert journal.read_text() == "precious\n"
    journal.write_text('{"op_code": 0}\n')
    with ThreadPoolExecutor(1) as other, ExitStack() as held:
        other.submit(held.enter_context, locked(tmp_path / "out")).result()
        assert main([*command, "--restart"]) == 2
        other.submit(held.close).result()
    assert "is in use" in capsys.readouterr().err
    assert journal.read_text() == '{"op_code": 0}\n'


@pytest.mark.slow
def test_the_command(start, tmp_path, capsys):
    table = write_csv(tmp_path / "table.csv", examples("binary", 30))
    command = ["finetune", table, "--text", "review", "--label", "mood", "--out", str(tmp_path / "out")]
    assert main([*command, "--from", str(start), "--search", "1", "--epochs", "1", "--max-tokens", "17"]) == 0
    out = capsys.readouterr().out
    assert "Best settings on the validation rows: learning_rate 0.0003" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "table.csv"]
