import re
import signal

import keras
import numpy as np
import pytest
from training.tiny_run import TinyBatches, TinyModel, arrays_of, make_optimizer, run, token_loss, untimed

from keras_attention.training import session as session_module
from keras_attention.training.history import EarlyStopping
from keras_attention.training.session import Session


def constant_validation(model):
    return {"val_loss": 1.0}


def test_the_loss_falls():
    result, _, _ = run(epochs=11)
    losses = [entry["loss"] for entry in result.history]
    assert losses[-1] < 0.3 * losses[0]
    assert result.history[-1]["accuracy"] > 0.9
    assert [entry["epoch"] for entry in result.history] == list(range(1, 12))
    assert result.steps == 77
    assert result.stopped_because == "all 11 epochs are done"


def test_max_steps_ends_within_an_epoch(capsys):
    result, _, optimizer = run(max_steps=9, verbose=2)
    steps = re.findall(r"^(\d+)/(\d+) ", capsys.readouterr().out, re.MULTILINE)
    assert steps == [("7", "7"), ("2", "2")]  # the bar of the last epoch ends where the training does
    assert result.steps == int(optimizer.iterations) == 9
    assert result.stopped_because == "the limit of 9 steps is reached"
    assert len(result.history) == 2  # the second epoch is in it as far as it went


def test_time_limit_ends_the_training_with_a_message():
    result, _, _ = run(time_limit_s=0.5, batches=TinyBatches(steps=1000003))
    assert "time limit of 0.5 s" in result.stopped_because
    assert 0.5 <= result.seconds < 20


@pytest.mark.slow
def test_resume_is_exact_in_the_middle_of_an_epoch(tmp_path):
    arguments = {"epochs": 3, "average_last": 2, "clip_norm": 0.5, "label_smoothing": 0.1}
    undisturbed, *expected = run(**arguments)
    with pytest.raises(OSError, match="the data went away"):
        run(batches=TinyBatches(fail_at=(1, 4)), checkpoint_dir=tmp_path, checkpoint_every=3, **arguments)
    resumed, *actual = run(checkpoint_dir=tmp_path, resume=True, **arguments)
    assert untimed(resumed.history) == untimed(undisturbed.history)
    for before, after in zip(arrays_of(*expected), arrays_of(*actual), strict=True):
        np.testing.assert_array_equal(before, after)


def test_dropout_generators_are_among_the_saved_variables():
    model = TinyModel()
    run(model=model, max_steps=3)
    states = [v for v in model.variables if "seed_generator_state" in v.path]
    assert len(states) == 1
    assert int(states[0].numpy()[1]) == 3  # one draw a step


@pytest.mark.slow
@pytest.mark.parametrize("kept", [{"ema_decay": 0.7}, {"restore_best": True, "validate": constant_validation}])
def test_resume_is_exact_with_what_is_kept_besides(tmp_path, kept):
    undisturbed, *expected = run(epochs=3, **kept)
    run(max_steps=10, checkpoint_dir=tmp_path, **kept)
    resumed, *actual = run(epochs=3, checkpoint_dir=tmp_path, resume=True, **kept)
    assert untimed(resumed.history) == untimed(undisturbed.history)
    for before, after in zip(arrays_of(*expected), arrays_of(*actual), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_finished_training_resumes_to_the_same_end(tmp_path):
    first, *expected = run(epochs=2, average_last=2, checkpoint_dir=tmp_path)
    again, *actual = run(epochs=2, average_last=2, checkpoint_dir=tmp_path, resume=True)
    assert again.stopped_because == "all 2 epochs are done"
    assert untimed(again.history) == untimed(first.history)
    for before, after in zip(arrays_of(*expected), arrays_of(*actual), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("kept", [{"average_last": 2}, {"restore_best": True}])
def test_a_training_that_a_limit_ended_within_an_epoch_resumes_to_the_same_end(tmp_path, kept):
    """Killed before its model was saved: the history of the resumed run had no last epoch."""
    arguments = {"max_steps": 9, "validate": constant_validation, "checkpoint_dir": tmp_path, **kept}
    first, *expected = run(**arguments)
    again, *actual = run(**arguments, resume=True)
    assert len(first.history) == 2
    assert untimed(again.history) == untimed(first.history)
    assert again[3:] == first[3:]
    for before, after in zip(arrays_of(*expected), arrays_of(*actual), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"label_smoothing": 0.2}, "`loss.label_smoothing` was 0.0 and is now 0.2"),
        ({"optimizer": keras.optimizers.SGD}, "`optimizer.class` was 'Adam' and is now 'SGD'"),
        ({"batches": TinyBatches(seed=1)}, "`data.sha256_of_first_batch` was"),
        ({"model": TinyModel(dropout=0.5)}, "`model.dropout` was 0.3 and is now 0.5"),
    ],
)
def test_resume_with_another_setting_names_it(tmp_path, changed, named):
    run(max_steps=2, checkpoint_dir=tmp_path)
    if "optimizer" in changed:
        changed = {"optimizer": changed["optimizer"](0.1)}
    with pytest.raises(ValueError, match="made with another setting") as error:
        run(max_steps=4, checkpoint_dir=tmp_path, resume=True, **changed)
    assert named in str(error.value)


def test_a_second_training_does_not_overwrite_the_first(tmp_path):
    run(max_steps=2, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="already holds checkpoints"):
        run(max_steps=2, checkpoint_dir=tmp_path)


def test_restart_begins_anew_and_resume_prevails(tmp_path):
    run(max_steps=2, checkpoint_dir=tmp_path)
    assert run(max_steps=3, checkpoint_dir=tmp_path, resume=True, restart=True)[0].steps == 3
    run(max_steps=1, checkpoint_dir=tmp_path, restart=True)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]


def test_resume_without_a_checkpoint_starts_with_a_message(tmp_path, capsys):
    run(max_steps=1, checkpoint_dir=tmp_path, resume=True, verbose=2)
    assert "No checkpoint found: starting from the beginning." in capsys.readouterr().out


def test_patience_stops_and_the_best_is_restored():
    scores = iter([3.0, 1.0, 2.0, 2.0, 2.0])
    seen = []

    def validate(model):
        seen.append(model.get_weights()[0].copy())
        return {"val_loss": next(scores)}

    result, model, _ = run(epochs=5, validate=validate, patience=2, restore_best=True)
    assert (result.best, result.best_epoch, len(result.history)) == (1.0, 2, 4)
    assert "val_loss has not improved for 2 validations (best 1.0 in epoch 2)" in result.stopped_because
    np.testing.assert_array_equal(model.get_weights()[0], seen[1])


def test_every_second_epoch_is_validated():
    result, _, _ = run(epochs=5, validate=constant_validation, validate_every=2)
    assert [entry["epoch"] for entry in result.history if "val_loss" in entry] == [2, 4]


def test_average_is_what_is_validated_and_what_is_kept():
    ends, validated = [], []

    class Watched(TinyBatches):
        def epoch(self, epoch):
            if epoch:
                ends.append(model.get_weights()[0].copy())
            return super().epoch(epoch)

    def validate(model):
        validated.append(model.get_weights()[0].copy())
        return {"val_bleu": 1.0}

    model = TinyModel()
    run(model=model, batches=Watched(), epochs=4, average_last=3, validate=validate, monitor="val_bleu")
    # The model has its own weights again after each validation, so `ends` are the ends of epochs 1 to 3.
    np.testing.assert_allclose(validated[2], np.mean(ends, axis=0), atol=1e-7)
    assert np.abs(validated[2] - ends[2]).max() > 1e-3
    np.testing.assert_array_equal(model.get_weights()[0], validated[3])


def test_two_averages_are_refused():
    with pytest.raises(ValueError, match=r"Received: average_last=2, ema_decay=0\.9"):
        run(epochs=1, average_last=2, ema_decay=0.9)


def test_an_end_must_be_given():
    with pytest.raises(ValueError, match="`epochs`, `max_steps` and `time_limit_s`"):
        run()


def test_empty_batches_are_refused():
    with pytest.raises(ValueError, match="must not be empty"):
        run(batches=TinyBatches(steps=0), epochs=1)


def test_tensorboard_is_written_on_request(tmp_path):
    run(epochs=2, log_dir=tmp_path / "log", validate=constant_validation)
    from tensorflow.python.summary.summary_iterator import summary_iterator

    (path,) = (tmp_path / "log").iterdir()
    tags = {value.tag for event in summary_iterator(str(path)) for value in event.summary.value}
    assert {"loss", "accuracy", "rate", "val_loss", "seconds"} <= tags


def test_the_bar_shows_what_matters(capsys):
    run(epochs=2, verbose=1)
    out = capsys.readouterr().out
    assert "Epoch 2/2" in out
    for word in ("7/7", "loss:", "accuracy:", "tokens/s:", "rate:", "Training ended: all 2 epochs are done."):
        assert word in out


def test_scores_are_printed_in_words_on_request(capsys):
    session = Session(verbose=1, words={"val_loss": "validation loss"})
    session.stopping, session._restore_best = EarlyStopping("val_loss", None, None), False
    session.report(val_loss=0.25, val_score=3.0)
    assert capsys.readouterr().out == "  validation loss 0.2500\n"


def begun(**options):
    """A silent session with a compiled update."""
    model = TinyModel()
    model(TinyBatches().epoch(0)[0])
    session = Session(verbose=0, **options)
    return session, session.compile(model, make_optimizer(), token_loss)


@pytest.mark.slow
def test_the_first_checkpoint_comes_after_a_minute_and_the_next_after_ten(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(session_module.time, "perf_counter", lambda: now[0])
    session, update = begun(checkpoint_dir=tmp_path)
    written = []
    with session:
        for epoch in session.epochs(TinyBatches(), max_steps=36):
            for batch in epoch:
                now[0] += 25.0
                epoch.record(update(batch))
                newest = [path.name for path in sorted(tmp_path.glob("step-*"))][-1:]
                written += [name for name in newest if name not in written]
    # After 75 s, and then 600 s later; a step is looked at when the next one comes.
    assert written == ["step-000000003", "step-000000027"]


def test_each_batch_needs_one_record():
    session, _ = begun()
    with session, pytest.raises(ValueError, match="needs one `epoch.record"):
        list(next(session.epochs(TinyBatches(), 1)))


def test_epochs_need_an_open_session():
    session, _ = begun()
    with pytest.raises(ValueError, match="inside `with session:`"):
        next(session.epochs(TinyBatches(), 1))


def test_resume_needs_a_folder():
    with pytest.raises(ValueError, match="Received: checkpoint_dir=None"):
        run(epochs=1, resume=True)


def test_checkpoints_need_a_positive_distance(tmp_path):
    with pytest.raises(ValueError, match="Received: checkpoint_every=0"):
        run(epochs=1, checkpoint_dir=tmp_path, checkpoint_every=0)


def test_signals_are_as_before_after_an_error():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(OSError, match="the data went away"):
        run(batches=TinyBatches(fail_at=(0, 1)), epochs=1)
    assert signal.getsignal(signal.SIGINT) is before
