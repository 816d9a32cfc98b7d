"""What a report counts, against counting by hand."""

import numpy as np
import pytest
from inputs.toy_classifier import digits, trained_classifier
from PIL import Image
from zoo.tiny_bert import LABELS, TEXTS, tiny_classifier

from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.report import measure, report_text


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
    assert report.mistake_columns == ["line", "true", "predicted", "error", "text"]
    assert sorted((line, true, answer) for line, true, answer, *_ in report.mistakes) == [
        (line, labels[row], given[row]) for row, line in ((1, 3), (2, 5), (3, 7))
    ]


@pytest.mark.parametrize("of_names", [True, False])
def test_mistakes_of_pictures_name_their_row_and_file(tmp_path, of_names):
    images, _ = digits()
    pictures = [str(tmp_path / f"{number}.png") for number in range(3)] if of_names else list(images[:3])
    for name, image in zip(pictures if of_names else (), images, strict=False):
        Image.fromarray((image * 255).astype("uint8")).save(name)
    wrong = [str((int(label) + 1) % 10) for label in trained_classifier().classify(pictures)]
    text = report_text(measure(trained_classifier(), Examples(pictures, wrong)))
    assert f"| row | true | predicted | error | {'file' if of_names else 'input'} |" in text
