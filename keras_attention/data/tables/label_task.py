"""The labels of a table: their task, their encoding as numbers, and a split that is stratified by label."""

import re
from collections import Counter
from typing import NamedTuple

import numpy as np

from keras_attention.data.tables.raw_rows import listed, shown
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, is_a_name
from keras_attention.support.normalization import normalized

KINDS = ("binary", "multiclass", "multilabel", "regression")
MOST_NUMBERS = 20  # With more different numbers than this, the labels are measurements, not classes.
MOST_CLASSES = 1_000
LARGEST = float(np.finfo(np.float32).max)
NUMBER = re.compile(r"[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?", re.ASCII)
# Characters that show nothing: soft hyphen, marks of direction, zero-width spaces, variation selectors. The two joiners
# (U+200C, U+200D) show nothing beside Latin, Greek and Cyrillic letters; elsewhere they are part of the spelling.
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0100-\U000e01ef]|(?<![\u0590-\U0010ffff])[\u200c\u200d]|[\u200c\u200d](?![\u0590-\U0010ffff])"
)


def spelling_key(label):
    """What labels that look the same have in common: NFKC (Unicode Annex 15), without characters that show nothing and
    without surrounding blanks.

    A word has the same key with composed and with combining accents, and another one without accents. A full-width 1
    has the key of 1.
    """
    return (label if label.isascii() else normalized("NFKC", INVISIBLE.sub("", label))).strip()


class Task(NamedTuple):
    """A classification or regression task.

    Attributes:
        kind: str, one of `KINDS`.
        label_names: tuple of str, sorted; by value if all are numbers; empty for regression.
        separator: str or None, separates the labels of a text in a multilabel task.
        because: str, a sentence for the user with the reason for this task.
        main_score: str, the score by which models are chosen, see `classification_scores.main_score_of`; None: not
            determined yet, or the usual one of the kind.
    """

    kind: str
    label_names: tuple
    separator: str | None
    because: str
    main_score: str | None = None


def find_task(labels, *, task=None, separator=None, lists=False):
    """Determines the task from the labels.

    With a separator, the task is multilabel. If all labels are numbers, and one has a fractional part or more than
    `MOST_NUMBERS` are different, it is regression. Otherwise it is binary with 2 different labels, and multiclass
    with more. Spellings with the same `spelling_key` are one label, which has the most frequent of them.

    Args:
        labels: list of str, one for each text.
        task: one of `KINDS`, or None to determine it.
        separator: str or None. Splits a label into several, without surrounding blanks; empty parts are dropped.
        lists: bool. Whether the labels were lists in Python, joined by the separator.

    Returns:
        Task.

    Raises:
        UserError: if the labels do not fit the task, there is only one label, two labels differ only in the notation
            of a number, or there are so many that the column is probably not the label.
    """
    if task not in (None, *KINDS):
        raise UserError(f"The task must be one of {', '.join(KINDS)}. Received: --task {task}")
    if not labels:
        raise UserError("There are no labels. Expected: one for each text.")
    if separator is not None or task == "multilabel":
        return _multilabel(labels, task, separator, lists)
    different, merged = _one_spelling(Counter(labels))
    fraction = next((label for label in different if _is_number(label) and not _as_float(label).is_integer()), None)
    numbers = all(_is_number(label) for label in different)
    if task == "regression" or (task is None and numbers and (fraction is not None or len(different) > MOST_NUMBERS)):
        return _regression(labels, different, fraction, task)
    _check_names(different, len(labels), task)
    kind = task or ("binary" if len(different) == 2 else "multiclass")
    if kind == "binary" and len(different) != 2:
        raise UserError(f"Binary classification needs 2 different labels. Found: {listed(_in_order(different))}.")
    name = {"binary": "binary", "multiclass": "multi-class"}[kind]
    asked = "" if task is None else ", as asked"
    because = f"{len(different):,} different labels: {name} classification{asked}"
    return Task(kind, _in_order(different), None, because + _joined_hint(different) + merged)


def encode_labels(labels, task, lines=None, where=""):
    """Converts labels to training targets.

    Args:
        labels: list of str, N of them.
        task: Task.
        lines: list of int or None, the line of each label, for messages; None counts the rows from 1.
        where: str or Path, the file of the labels, for messages.

    Returns:
        Array: int32 (N,) for binary and multiclass, the index in `task.label_names`; float32 (N, labels) of 0 and 1
        for multilabel; float32 (N,) for regression.

    Raises:
        UserError: if a label is not in `task.label_names`, or not a number for regression.
    """
    if task.kind == "regression":
        return np.array([_number(label, row, lines, where) for row, label in enumerate(labels)], dtype=np.float32)
    places = {name: place for place, name in enumerate(task.label_names)}
    for name, place in list(places.items()):
        places.setdefault(spelling_key(name), place)
    if task.kind == "multilabel":
        targets = np.zeros((len(labels), len(places)), dtype=np.float32)
        for row, label in enumerate(labels):
            for part in _parts(label, task.separator):
                targets[row, _place(part, places, task, row, lines, where)] = 1.0
        return targets
    return np.array(
        [_place(label, places, task, row, lines, where) for row, label in enumerate(labels)], dtype=np.int32
    )


def _one_spelling(counts):
    """Counts of labels after their spellings are merged, and a sentence about the merged ones, or an empty str.

    The spelling that stays is the most frequent one without invisible characters and surrounding blanks; of equally
    frequent ones, the first.
    """
    spellings = {}
    for name in counts:
        spellings.setdefault(spelling_key(name), []).append(name)
    if len(spellings) == len(counts):
        return counts, ""
    merged, sentences = Counter(), []
    for names in spellings.values():
        kept = max(names, key=lambda name: (is_a_name(name) and name == name.strip(), counts[name]))
        merged[kept] = sum(counts[name] for name in names)
        others = ", ".join(f"{name!a} ({counts[name]:,})" for name in names if name != kept)
        sentences += [f"{kept!a} ({counts[kept]:,}) stands for {others} too"] if others else []
    more = f", and {len(sentences) - 3} more" if len(sentences) > 3 else ""
    return merged, f"; spellings that look the same are one label: {'; '.join(sentences[:3])}{more}"


def respelled(labels, task):
    """The labels (list of str) of single-label rows in the spelling that the Task keeps; others are unchanged."""
    if task.kind not in ("binary", "multiclass"):
        return labels
    kept = {spelling_key(name): name for name in task.label_names} | {name: name for name in task.label_names}
    return [kept.get(label) or kept.get(spelling_key(label), label) for label in labels]


def _multilabel(labels, task, separator, lists):
    if lists and task not in (None, "multilabel"):
        raise UserError(f"Lists of labels, and columns of 0 and 1, are for the task multilabel. Received: {task}")
    if task not in (None, "multilabel"):
        raise UserError(f"A separator goes with the task multilabel. Received: --task {task} --separator {separator!r}")
    if not separator:
        raise UserError("The task multilabel needs a separator between the labels of a text, such as --separator ','.")
    if not lists and not any(separator in label for label in labels):
        raise UserError(
            f"The separator {separator!r} does not occur in any of the {len(labels):,} labels, such as "
            f"{listed(labels, 3)}. Check it, or leave it out if each text has one label."
        )
    parts = [_parts(label, separator) for label in labels]
    _check_no_columns(labels, parts, separator)
    different, merged = _one_spelling(Counter(part for some in parts for part in some))
    _check_names(different, len(labels), "multilabel" if lists else task)
    if len({frozenset(map(spelling_key, some)) for some in parts}) == 1:
        raise UserError(
            f"Every text has the labels {listed(_in_order(different))}: there is nothing to learn. Check the labels."
        )
    each = sum(different.values()) / len(labels)
    because = f"{len(different):,} different labels, {each:.2f} for each text: multi-label classification"
    return Task("multilabel", _in_order(different), separator, because + merged)


def _check_no_columns(labels, parts, separator):
    """Raises UserError if the labels are 0 and 1 for each of several labels, such as "1,0,1"."""
    if not all(part in ("0", "1") for some in parts for part in some):
        return
    counts = [len(list(filter(str.strip, label.split(separator)))) for label in labels]
    row = next((row for row, count in enumerate(counts) if count > len(parts[row])), None)
    if row is not None:
        raise UserError(
            f"The labels look like a 0 or 1 for each of several labels, such as {shown(labels[row])}. Expected: the "
            "names of the labels of each text. In Python, keras_attention.finetune takes columns of 0 and 1."
        )


def _regression(labels, different, fraction, task):
    for row, label in enumerate(labels):
        _number(label, row, None, "")
    if len(different) == 1:
        raise UserError(f"Every label is {shown(labels[0])}: there is nothing to learn. Check the label column.")
    if task is not None:
        because = f"{len(different):,} different numbers: regression, as asked"
    elif fraction is not None:
        because = f"numbers with fractions, such as {fraction}: regression"
    else:
        because = f"{len(different):,} different numbers: regression (--task multiclass if they stand for classes)"
    return Task("regression", (), None, because)


def _check_names(different, num_rows, task):
    """Raises UserError if the labels are unlikely to be class names."""
    if len(different) < 2:
        problem = f"Every label is {listed(different)}" if different else "Every label is empty"
        raise UserError(f"{problem}: there is nothing to learn. Check the label column.")
    if task is None and (len(different) > MOST_CLASSES or 2 < len(different) > num_rows / 2):
        raise UserError(
            f"There are {len(different):,} different labels in {num_rows:,} rows, such as {listed(different, 3)}. Was "
            "the column of the texts given as label? If these are classes, pass --task multiclass or multilabel."
        )
    alike = {}
    for name in filter(_is_number, different):
        other = alike.setdefault(_as_float(name), name)
        if other != name:
            raise UserError(
                f"The labels {shown(other)} ({different[other]:,} rows) and {shown(name)} ({different[name]:,} rows) "
                "are too similar to be two classes. Use one spelling."
            )


def _joined_hint(different):
    """Returns a hint if labels look like combinations of other labels."""
    for separator in (",", ";", "|", " "):
        joined = [label for label in different if separator in label]
        if joined and all(part in different for label in joined for part in _parts(label, separator)):
            return f" ({shown(joined[0])} looks like several labels: --separator {separator!r} if it is)"
    return ""


def _in_order(names):
    return tuple(sorted(names, key=_as_float) if all(_is_number(name) for name in names) else sorted(names))


def _parts(label, separator):
    """Returns the different parts of a label."""
    return list(dict.fromkeys(part.strip() for part in label.split(separator) if not is_blank(part)))


def _is_number(label):
    return NUMBER.fullmatch(spelling_key(label)) is not None


def _as_float(label):
    return float(spelling_key(label))


def _number(label, row, lines, where):
    value = _as_float(label) if _is_number(label) else np.inf
    if abs(value) > LARGEST:
        raise UserError(
            f"{_place_name(row, lines, where)}: found the label {shown(label)}. Expected: a number, in float32."
        )
    return value


def _place(label, places, task, row, lines, where):
    place = places.get(label, places.get(spelling_key(label)))
    if place is None:
        raise UserError(
            f"{_place_name(row, lines, where)}: found the label {shown(label)}, which training did not have. "
            f"Known labels: {listed(task.label_names)}."
        )
    return place


def _place_name(row, lines, where):
    name = f"row {row + 1}" if lines is None else f"line {lines[row]}"
    return f"{where}, {name}" if str(where) else name


def split_validation(labels_or_targets, share, seed, texts=None):
    """Chooses the rows for training and for validation; the same arguments give the same rows.

    Rows with the same text stay together, so that no validation text was seen in training. The split is stratified:
    about the same share of each label goes to validation, and at least one row to each side if the label has two
    different texts. A text with several labels counts for the rarest of them; a label with mostly such texts may be
    missing on one side.

    Args:
        labels_or_targets: (N,) labels as int or str, or float targets, (N,) or (N, labels), which are not balanced.
        share: float in (0, 1), share of the rows for validation.
        seed: int >= 0.
        texts: list of N hashables (str, or pairs of str), or None if no two rows are the same.

    Returns:
        (training rows, validation rows): sorted, non-empty int64 arrays.

    Raises:
        UserError: if `share` is out of range or there are not two different texts.
    """
    if not 0 < share < 1:
        raise UserError(f"The share of the rows for validation must be between 0 and 1. Received: {share}")
    targets = np.asarray(labels_or_targets)
    if texts is not None and len(texts) != len(targets):
        raise ValueError(f"Expected one text for each label. Received: {len(texts)} texts and {len(targets)} labels")
    groups = _group_numbers(range(len(targets)) if texts is None else texts)
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise UserError(f"Validation needs rows with 2 different texts. Found: {len(sizes)}.")
    strata = _strata(targets, groups, len(sizes))
    random = np.random.default_rng(seed)
    in_validation = np.zeros(len(sizes), dtype=bool)
    for stratum in range(strata.max() + 1):
        members = random.permutation(np.flatnonzero(strata == stratum))
        in_validation[_choose(members, sizes, share)] = True
    if not in_validation.any():  # Every label has a single text.
        in_validation[_choose(random.permutation(len(sizes)), sizes, share)] = True
    rows = in_validation[groups]
    return np.flatnonzero(~rows), np.flatnonzero(rows)


def _group_numbers(texts):
    """Returns int64 (N,): rows with the same text have the same number."""
    numbers = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)


def _strata(targets, groups, num_groups):
    """Returns int64 (groups,), the index of each group's label; the rarest one if there are several."""
    if targets.ndim != 1 or targets.dtype.kind == "f":
        return np.zeros(num_groups, dtype=np.int64)
    _, label, counts = np.unique(targets, return_inverse=True, return_counts=True)
    strata = np.empty(num_groups, dtype=np.int64)
    by_count = np.argsort(-counts[label], kind="stable")  # The rarest comes last and overwrites the others.
    strata[groups[by_count]] = label[by_count]
    return strata


def _choose(members, sizes, share):
    """Returns the first groups, in the given order, that fill the share of the rows; never all groups."""
    if len(members) < 2:
        return members[:0]
    num_rows = sizes[members].sum()
    wanted = min(max(1, round(share * num_rows)), num_rows - 1)
    chosen, taken = [], 0
    for member in members:
        if taken + sizes[member] <= wanted:
            chosen.append(member)
            taken += sizes[member]
    return chosen or [members[np.argmin(sizes[members])]]
