"""What Python users may give: texts in any sequence, tables of any library; and what they do not get to see."""

import os
import subprocess
import sys

import numpy as np
import pytest

import keras_attention as ka
from keras_attention.inputs.given_texts import labelled_texts
from keras_attention.support.errors import UserError

TEXTS, LABELS = ["good film", "bad film", "fine"], ["yes", "no", "yes"]


class Frame:
    """As a pandas DataFrame: columns by name."""

    def __init__(self, **columns):
        self.columns = list(columns)
        self._columns = columns

    def __getitem__(self, name):
        return np.array(self._columns[name], dtype=object)

    def __iter__(self):
        return iter(self.columns)


FRAME = Frame(review=TEXTS, mood=LABELS, score=[1, 2, 3])


@pytest.mark.parametrize(
    "given",
    [
        {"texts": TEXTS, "labels": LABELS},
        {"texts": np.array(TEXTS), "labels": np.array(LABELS)},
        {"texts": (text for text in TEXTS), "labels": (label for label in LABELS)},
        {"texts": FRAME, "text": "review", "label": "mood"},
    ],
    ids=["lists", "arrays", "generators", "table"],
)
def test_labelled_texts_of_any_form(given):
    texts, labels, texts_b = labelled_texts(**given)
    assert (texts, [str(label) for label in labels], texts_b) == (TEXTS, LABELS, None)


def test_several_columns_of_a_table_are_the_columns_of_the_labels():
    frame = Frame(review=TEXTS, good=[1, 0, 1], long=[0, 0, 1])
    assert labelled_texts(frame, text="review", label=["good", "long"]) == (TEXTS, [[1, 0], [0, 0], [1, 1]], None)


def test_pairs():
    assert labelled_texts(FRAME, text="review", label="score", text_b="mood") == (TEXTS, [1, 2, 3], LABELS)
    assert labelled_texts(TEXTS, LABELS, tuple(TEXTS)) == (TEXTS, LABELS, TEXTS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"texts": FRAME, "text": "rewiew", "label": "mood"}, "no column 'rewiew'. Columns: review, mood, score"),
        ({"texts": TEXTS, "text": "review", "label": "mood"}, "no column 'review'. Columns: none, it is a list"),
        ({"texts": FRAME}, "text=COLUMN and label=COLUMN"),
        ({"texts": FRAME, "text": "review"}, "text=COLUMN and label=COLUMN"),
        ({"texts": FRAME, "labels": LABELS}, "Give one of its columns"),
        ({"texts": TEXTS, "labels": LABELS, "text": "a", "label": "b"}, "labels=given, text='a'"),
        ({"texts": TEXTS, "labels": "yes"}, "`labels` must be a list"),
        ({"texts": TEXTS, "labels": ["a", None, "b"]}, "Label 2 of `texts` is missing. Received: None"),
        ({"texts": TEXTS, "labels": ["a", "b", float("nan")]}, "Label 3 of `texts` is missing"),
        ({"texts": ["a", None, "b"], "labels": LABELS}, "Sentence 2 must be a str. Received: NoneType"),
        ({"texts": ["a", " \n", "b"], "labels": LABELS}, "Text 2 of `texts` is empty"),
        ({"texts": FRAME, "text": "review", "label": ["mood", "x"]}, "no column 'x'"),
    ],
)
def test_wrong_inputs_are_named(given, message):
    with pytest.raises(UserError, match=message):
        labelled_texts(**given)
    with pytest.raises(UserError, match=message):
        ka.finetune(**given)


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"review": TEXTS, "mood": LABELS})
    assert labelled_texts(frame, text="review", label="mood") == (TEXTS, LABELS, None)
    assert labelled_texts(frame["review"], frame["mood"]) == (TEXTS, LABELS, None)
    frame.loc[1, "mood"] = None
    with pytest.raises(UserError, match="Label 2 of `texts` is missing"):
        labelled_texts(frame, text="review", label="mood")


@pytest.mark.slow
def test_a_table_is_trained_on(tmp_path):
    frame = Frame(review=TEXTS * 8, mood=LABELS * 8)
    options = {"epochs": 1, "size": "tiny", "max_tokens": 16, "start": "none", "vocabulary_size": 200}
    judge = ka.finetune(frame, text="review", label="mood", validation=frame, **options)
    assert judge.task["label_names"] == ["no", "yes"]
    judge.save(tmp_path / "judge")
    assert ka.load(tmp_path / "judge").classify(np.array(TEXTS)) == judge.classify(tuple(TEXTS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "given", "silenced"),
    [("", {}, True), ("import tensorflow\n", {}, False), ("", {"TF_CPP_MIN_LOG_LEVEL": "0"}, False)],
    ids=["by default", "after tensorflow", "with a level of one's own"],
)
def test_tensorflow_starts_silently(zoo, before, given, silenced):
    program = (
        f"import os\n{before}import keras_attention as ka\nka.load('tiny').translate('A dog runs.')\n"
        "print(os.environ.get('TF_CPP_MIN_LOG_LEVEL'))\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    environment |= {"KERAS_ATTENTION_ZOO": str(zoo), "PYTHONPATH": os.getcwd(), **given}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout.strip() == "3") == silenced
    if silenced:
        assert done.stderr == ""
