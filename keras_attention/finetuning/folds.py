"""Cross-validation: one training per fold, scored on the rows of that fold."""

import numpy as np

from keras_attention.data.tables.label_task import find_task
from keras_attention.errors import UserError
from keras_attention.finetuning.report import make_report
from keras_attention.finetuning.workflow import finetune_classifier


def fold_rows(examples, task, folds, seed):
    """Divides rows into folds, stratified by label. Rows with the same text are in the same fold.

    Args:
        examples: Examples.
        task: Task.
        folds: int > 1.
        seed: int.

    Returns:
        List of `folds` arrays of row numbers.

    Raises:
        UserError: if there are fewer different texts than folds.
    """
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    texts = examples.texts if examples.texts_b is None else list(zip(examples.texts, examples.texts_b, strict=True))
    numbers = {}
    groups = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    if folds < 2 or len(numbers) < folds:
        raise UserError(f"--folds must be from 2 to {len(numbers)}, the number of different texts. Found: {folds}")
    kind = StratifiedGroupKFold if task.kind in ("binary", "multiclass") else GroupKFold
    splitter = kind(n_splits=folds, shuffle=True, random_state=seed)
    return [held for _, held in splitter.split(groups, examples.labels, groups)]


def cross_validate(examples, start, settings, folds, *, say=print, **options):
    """Trains once for each fold, on all other folds.

    Args:
        examples, start, settings, say: see `workflow.prepare`.
        folds: int > 1.
        options: task, separator, validation_share and verbose of `finetune_classifier`.

    Returns:
        List of [name, mean, standard deviation, mean of the bag of words] for each score of the held-out folds.

    Raises:
        UserError: see `workflow.prepare` and `fold_rows`.
    """
    task = find_task(examples.labels, task=options.get("task"), separator=options.get("separator"))
    found, beside = [], []
    for number, held in enumerate(fold_rows(examples, task, folds, settings.seed), start=1):
        kept = np.setdiff1d(np.arange(len(examples)), held)
        finetuned = finetune_classifier(examples.some(kept), None, start, settings, say=_silent, **options)
        report = make_report(finetuned, examples.some(held))
        found.append(list(report.scores.values()))
        beside.append(list(report.baseline.values()))
        name, value = next(iter(report.scores.items()))
        say(f"Fold {number} of {folds}: {name} {value:.1f} on {len(held):,} rows")
    rows = zip(report.scores, np.mean(found, 0), np.std(found, 0, ddof=1), np.mean(beside, 0), strict=True)
    return [[name, *(float(value) for value in values)] for name, *values in rows]


def _silent(_):
    pass
