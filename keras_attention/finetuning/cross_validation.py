"""Cross-validation: one training for each fold of a table."""

from collections import Counter

import numpy as np

from keras_attention.evaluation.classification_scores import main_score_of
from keras_attention.finetuning.report import make_report
from keras_attention.finetuning.training_rows import task_of
from keras_attention.finetuning.workflow import finetune_classifier
from keras_attention.support.errors import UserError
from keras_attention.support.moved import renamed_arguments


def fold_rows(examples, task, folds, seed):
    """Divides rows into folds, stratified by label. Rows with the same text are in the same fold.

    Folds are not stratified if every label has fewer rows than there are folds.

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

    numbers = {}
    groups = np.array([numbers.setdefault(key, len(numbers)) for key in examples.keys])
    if folds < 2 or len(numbers) < folds:
        raise UserError(f"--folds must be from 2 to {len(numbers)}, the number of different texts. Found: {folds}")
    classes = task.kind in ("binary", "multiclass")
    kind = StratifiedGroupKFold if classes and max(Counter(examples.labels).values()) >= folds else GroupKFold
    splitter = kind(n_splits=folds, shuffle=True, random_state=seed)
    return [held for _, held in splitter.split(groups, examples.labels, groups)]


@renamed_arguments(say="notify")
def cross_validate(examples, start, settings, folds, *, notify=print, **options):
    """Trains once for each fold, on all other folds.

    Args:
        examples, start, settings, notify: see `workflow.prepare`.
        folds: int > 1.
        options: task, separator, validation_share and verbose of `finetune_classifier`.

    Returns:
        List of [name, mean, standard deviation, mean of the bag of words] for each score of the held-out folds.

    Raises:
        UserError: see `workflow.prepare` and `fold_rows`.
    """
    task = task_of(examples, options.get("task"), options.get("separator"))  # a fold may lack a label
    examples = examples.respelled(task)
    task = task._replace(main_score=main_score_of(examples.targets(task), task.kind))  # the same for all folds
    options |= {"task": task}
    fold_scores, baseline_scores = [], []
    for number, held in enumerate(fold_rows(examples, task, folds, settings.seed), start=1):
        kept = np.setdiff1d(np.arange(len(examples)), held)
        finetuned = finetune_classifier(examples.some(kept), None, start, settings, notify=_silent, **options)
        report = make_report(finetuned, examples.some(held))
        fold_scores.append(list(report.scores.values()))
        baseline_scores.append(list(report.baseline.values()))
        name, value = next(iter(report.scores.items()))
        notify(f"Fold {number} of {folds}: {name} {value:.1f} on {len(held):,} rows")
    rows = zip(
        report.scores, np.mean(fold_scores, 0), np.std(fold_scores, 0, ddof=1), np.mean(baseline_scores, 0), strict=True
    )
    return [[name, *(float(value) for value in values)] for name, *values in rows]


def _silent(_):
    pass
