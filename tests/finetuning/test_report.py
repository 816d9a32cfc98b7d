"""What a report counts, against counting by hand."""

import numpy as np
from zoo.tiny_bert import LABELS, TEXTS, tiny_classifier

from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.report import measure


def test_rows_of_the_confusion_matrix_are_true_labels():
    classifier, names = tiny_classifier("multiclass"), LABELS["multiclass"]
    texts = [*TEXTS, *reversed(TEXTS), TEXTS[0]]
    given = classifier.classify(texts)
    labels = [names[(names.index(label) + i // 2) % 3] for i, label in enumerate(given)]
    counted = np.zeros((3, 3), int)
    for true, answer in zip(labels, given, strict=True):
        counted[names.index(true), names.index(answer)] += 1
    assert (counted != counted.T).any()
    np.testing.assert_array_equal(measure(classifier, Examples(texts, labels)).confusion, counted)


def test_mistakes_name_their_line_and_both_labels():
    classifier, names = tiny_classifier("multiclass"), LABELS["multiclass"]
    given = classifier.classify(TEXTS)
    labels = [given[0], *(names[(names.index(label) + 1) % 3] for label in given[1:])]
    report = measure(classifier, Examples(TEXTS, labels, lines=[2, 3, 5, 7]))
    assert sorted((line, true, answer) for line, true, answer, *_ in report.mistakes) == [
        (line, labels[row], given[row]) for row, line in ((1, 3), (2, 5), (3, 7))
    ]
