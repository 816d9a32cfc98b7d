"""Whether one classifier is better than another, or was lucky with the rows."""

from typing import NamedTuple

import numpy as np

from keras_attention.evaluation.classification_scores import Predictions, scores

SAMPLES = 1000


class Comparison(NamedTuple):
    """A second classifier beside a first one, on the same rows.

    Attributes:
        score: str, the name of the score that is compared.
        difference: float, how much larger it is with the second.
        p_value: float in [0, 1], how often chance alone would make as large a difference, in either direction.
        test: str, the name of the test.
    """

    score: str
    difference: float
    p_value: float
    test: str

    def text(self, first, second):
        """The comparison as a sentence; `first` and `second` are the names of the classifiers."""
        doubt = "more than chance explains" if self.p_value < 0.05 else "chance may explain it"
        found = f"{self.score} {self.difference:+.2f}, p = {self.p_value:.3f} ({self.test})"
        return f"{second} beside {first}: {found}: {doubt}"


def compare(targets, first, second, task, seed=0):
    """Compares two classifiers on rows that neither was trained on.

    Of classes: the exact test of McNemar, on the rows that one of them alone has right. Otherwise a paired bootstrap of
    the first score of `classification_scores.scores`.

    Args:
        targets: array, see `label_task.encode_labels`.
        first, second: Predictions of the same rows.
        task: Task.
        seed: int, of the bootstrap.

    Returns:
        Comparison.

    Source: McNemar (1947); Efron & Tibshirani (1993), section 16.4, for the bootstrap.
    """
    from scipy.stats import binomtest

    name, before = next(iter(scores(targets, first, task).items()))
    difference = scores(targets, second, task)[name] - before
    if task.kind in ("binary", "multiclass"):
        right = first.chosen == targets, second.chosen == targets
        lost, won = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
        p_value = float(binomtest(won, lost + won).pvalue) if lost + won else 1.0
        return Comparison(name, difference, p_value, "exact McNemar test")
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(SAMPLES):
        rows = random.integers(0, len(targets), len(targets))
        both = (Predictions(found.values[rows], found.chosen[rows]) for found in (first, second))
        one, other = (scores(targets[rows], found, task)[name] for found in both)
        drawn.append(other - one)
    drawn = np.array(drawn)
    p_value = 2 * min((drawn <= 0).mean(), (drawn >= 0).mean())
    return Comparison(name, difference, float(min(1.0, p_value)), f"paired bootstrap, {SAMPLES} samples")
