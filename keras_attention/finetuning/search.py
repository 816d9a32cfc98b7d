"""Search for settings of a fine-tuning with Optuna."""

from dataclasses import asdict, replace
from importlib.util import find_spec

from keras_attention.finetuning.contrastive import CONTRASTIVE, ON_LABELS
from keras_attention.finetuning.label_training import filled_in
from keras_attention.finetuning.preparation import validator
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.workflow import fit, fit_encoder, prepare
from keras_attention.support.errors import TrainingDivergedError, UserError
from keras_attention.support.installation import install_command
from keras_attention.support.moved import renamed_arguments
from keras_attention.training.devices import workers

STUDY, GIVEN = "finetune", "given"  # names in the journal: of the study, and of the settings of the user
ENDED = ("COMPLETE", "PRUNED")  # the states of trials with a result


FIRST_RECORD = b'{"op_code":'  # the beginning of a journal of optuna


def check_search(trials, folds, journal, resume, restart):
    """Checks that a search can begin.

    Args:
        trials: int, number of trainings.
        folds: int or None, the folds of a cross-validation.
        journal: Path of the file with the results of the trials.
        resume, restart: bools, whether to continue the trials in `journal`, or to begin a new search.

    Raises:
        UserError: if optuna is missing, an option does not fit, or `journal` exists and is not a journal, or neither
            flag is given.
    """
    if trials < 1:
        raise UserError(f"--search must be at least 1, the number of trainings. Found: {trials}")
    if folds is not None:
        raise UserError("--search and --folds cannot be combined: search first, then give --folds with the settings.")
    if find_spec("optuna") is None:
        raise UserError(f"--search needs optuna: {install_command('search')}")
    if journal.exists() and not _is_journal(journal):
        raise UserError(f"{journal} is not the file of an earlier search, so it is not used. Choose another --out.")
    if journal.exists() and not (resume or restart):
        raise UserError(f"{journal} has the trials of an earlier search: go on with --resume, or begin with --restart.")


def _is_journal(path):
    """Whether a file begins with a record of optuna, or with a part of one that a killed process wrote."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return FIRST_RECORD.startswith(file.read(len(FIRST_RECORD)))


@renamed_arguments(say="notify")
def search_settings(examples, validation, start, settings, trials, journal, *, notify=print, **options):
    """Trains with several settings and returns the best ones; the first trial has the default settings.

    The learning rate, the number of epochs and the factor between layers are searched, unless the user chose them.

    Args:
        examples, validation, start, settings, notify: see `workflow.prepare`.
        trials: int > 0, number of trainings, including those in `journal`.
        journal: Path of a file that keeps the result of each trial, so that a search can be resumed. The caller holds
            a lock, so that no other process writes there.
        options: test, task, separator and validation_share of `prepare`.

    Returns:
        FinetuneSettings.

    Raises:
        UserError: see `workflow.prepare`; or if there are several workers, nothing is left to choose, `journal` is
            damaged or of a search with other settings, or all trainings diverge.
    """
    import optuna

    if workers().count > 1:
        raise UserError("--search runs in a single process. Leave out --strategy multiworker.")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    prepared = prepare(examples, validation, start, settings, notify=notify, **options)
    model, rows = prepared.classifier.model, len(prepared.sequences)
    contrastive = CONTRASTIVE in prepared.stages  # the search chooses settings of the training on labels
    settings, prepared = replace(settings, contrastive=contrastive), prepared._replace(stages=(ON_LABELS,))
    space = search_space(settings, filled_in(settings, model, rows))
    if not space:
        raise UserError("--search chooses --learning-rate, --epochs and --layer-decay: leave out at least one of them.")
    study = _study(optuna, journal, settings.seed, {name: default for name, (default, *_) in space.items()})
    anywhere = replace(settings, mixed_precision=None, jit_compile=None)  # chosen for the device
    _check_same_search(study, {**asdict(anywhere), "rows": rows}, journal)
    left = trials - _finished(study)
    if prepared.minutes is not None:
        notify(f"Search: {max(left, 0)} trainings, in about {max(1, round(max(left, 0) * prepared.minutes))} min.")
    if contrastive and left > 0:
        fit_encoder(prepared, settings, verbose=0)
    began = model.get_weights()

    while _finished(study) < trials:
        trial = study.ask()
        chosen = {name: _suggested(trial, name, *bounds) for name, (_, *bounds) in space.items()}
        model.set_weights(began)
        try:
            fit(prepared, replace(settings, **chosen), verbose=0)
        except TrainingDivergedError:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        score = validator(prepared)(model)["val_score"]
        study.tell(trial, score)
        notify(f"Trial {trial.number + 1}: score {score:.2f} with {_listed(chosen)}")
    if all(trial.state.name != "COMPLETE" for trial in study.get_trials(deepcopy=False)):
        raise UserError("All trainings of the search diverged. Give a lower --learning-rate, and --restart.")
    best_settings = study.best_params
    notify(f"Best settings on the validation rows: {_listed(best_settings)}. The model is trained with them.")
    return replace(settings, **best_settings)


def search_space(settings, filled):
    """The search space: dict from the name of a setting to (default, lowest, highest, whether it is logarithmic).

    Args:
        settings: FinetuneSettings as the user gave them.
        filled: FinetuneSettings with their defaults filled in.
    """
    space = {}
    if settings.learning_rate is None:
        space["learning_rate"] = (filled.learning_rate, filled.learning_rate / 4, filled.learning_rate * 3, True)
    if settings.epochs is None:
        space["epochs"] = (filled.epochs, max(1, filled.epochs // 2), 2 * filled.epochs, False)
    if settings.layer_decay == FinetuneSettings.layer_decay:
        space["layer_decay"] = (filled.layer_decay, 0.7, 1.0, False)
    return space


def _suggested(trial, name, low, high, log):
    if isinstance(low, int):
        return trial.suggest_int(name, low, high)
    return trial.suggest_float(name, low, high, log=log)


class _NoLock:
    """No lock: the caller holds one, and optuna's own lock would outlive a killed process."""

    def acquire(self):
        return True

    def release(self):
        pass


def _study(optuna, journal, seed, defaults):
    """The study of a journal; its first completed trial has the default settings."""
    _drop_half_a_record(journal)
    try:
        file = optuna.storages.journal.JournalFileBackend(str(journal), _NoLock())
        storage = optuna.storages.JournalStorage(file)
        known = storage.get_all_studies()
        number = 0
        if known:
            number = len(storage.get_all_trials(storage.get_study_id_from_name(known[0].study_name)))
        sampler = optuna.samplers.TPESampler(seed=seed + number)
        options = {"storage": storage, "sampler": sampler, "direction": "maximize", "load_if_exists": True}
        study = optuna.create_study(study_name=STUDY, **options)
    except (ValueError, LookupError, TypeError, AssertionError) as error:  # raised by optuna for invalid records
        raise UserError(f"{journal} is damaged. Begin the search anew with --restart.") from error
    if not any(trial.state.name in (*ENDED, "WAITING") for trial in study.get_trials(deepcopy=False)):
        study.enqueue_trial(defaults)
    return study


def _check_same_search(study, given, journal):
    """Keeps the settings of a new search in its journal; raises UserError if those of a resumed search differ."""
    kept = study.user_attrs.get(GIVEN)
    if kept is None:
        study.set_user_attr(GIVEN, given)
        return
    for name, value in given.items():
        if kept.get(name) != value:
            raise UserError(
                f"{journal} has the trials of a search with other settings: {name} was {kept.get(name)}, now it is "
                f"{value}. Give the same ones, or begin a new search with --restart."
            )


def _drop_half_a_record(journal):
    """Removes an incomplete last line, left by a killed process: optuna could not read the lines after it."""
    if not journal.exists():
        return
    with open(journal, "rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def _finished(study):
    """Number of trials with a result. An interrupted trial has none."""
    return sum(trial.state.name in ENDED for trial in study.get_trials(deepcopy=False))


def _listed(chosen):
    return ", ".join(f"{name} {value:.3g}" for name, value in chosen.items())
