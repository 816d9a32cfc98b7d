import numpy as np
import pytest

from keras_attention.evaluation.caption_scores import exact_captions, pointing


def test_exact_captions():
    assert exact_captions(["a b", "a", "b", "c d"], [("a b",), ("b",), ("c", "b"), ("c",)]) == 50


def test_pointing():
    attention = np.zeros((2, 3, 4))  # cells of 10 x 5 pixels
    attention[0, 1, 2], attention[0, 0, 0] = 0.75, 0.25  # its middle is at (25, 7.5)
    attention[1] = 1 / 12
    boxes = {0: (21, 6, 30, 9), 1: (0, 0, 20, 5), 2: (0, 0, 40, 15)}
    found = pointing(attention, boxes, (15, 40))
    assert found == [(True, 0.75), (True, pytest.approx(2 / 12)), (False, 0.0)]
    assert pointing(attention, {0: (25, 7, 26, 8)}, (15, 40)) == [(True, 0.75)]
    assert pointing(attention, {0: (26, 7, 35, 8)}, (15, 40)) == [(False, 0.0)]
