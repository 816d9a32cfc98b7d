"""A student made of its teacher's layers, and both side by side."""

import numpy as np
import pytest
from keras import ops
from layer_checks import assert_all_close
from models.tiny_bert import FORMS, make_encoder

from keras_attention.models.bert_starts import Distiller, student_of

TEXTS = np.array([[2, 17, 5, 9, 30, 3, 0], [2, 11, 5, 3, 0, 0, 0]], "int32")


@pytest.mark.parametrize("form", FORMS)
def test_all_layers_and_tokens_are_the_teacher(form):
    teacher = make_encoder(num_layers=3, **FORMS[form])
    student = student_of(teacher, [0, 1, 2])
    assert_all_close(student({"token_ids": TEXTS}), teacher({"token_ids": TEXTS}), 1e-6)


def test_the_layers_before_those_left_out_are_the_teachers():
    teacher = make_encoder(num_layers=3)
    cut = student_of(teacher, [0, 1])
    x = cut({"token_ids": TEXTS})
    whole = teacher.encoder_layers[2](x, padding_mask=ops.convert_to_tensor(TEXTS != 0))
    tokens = TEXTS != 0  # the vectors of padding mean nothing
    assert_all_close(np.asarray(whole)[tokens], np.asarray(teacher({"token_ids": TEXTS}))[tokens], 1e-6)


def test_fewer_tokens():
    teacher, kept = make_encoder(), np.array([0, 2, 3, 5, 9, 11, 17, 30])
    student = student_of(teacher, [0, 1], kept, dropout=0.25)
    assert (student.vocabulary_size, student.num_layers, student.dropout) == (8, 2, 0.25)
    new = np.searchsorted(kept, TEXTS).astype("int32")
    assert_all_close(student({"token_ids": new}), teacher({"token_ids": TEXTS}), 1e-6)


def test_a_layer_that_is_not_there():
    with pytest.raises(ValueError, match=r"`layers` must be in \[0, 2\). Received: layers=\[0, 2\]"):
        student_of(make_encoder(), [0, 2])


def test_only_the_student_learns():
    teacher = make_encoder()
    student = student_of(teacher, [0])
    model = Distiller(student, teacher, with_attention=True)
    model.build()
    assert [id(v) for v in model.trainable_variables] == [id(v) for v in student.trainable_variables]
    learnt, wanted = model({"token_ids": TEXTS, "teacher_ids": TEXTS})
    hidden = ops.convert_to_numpy(learnt["hidden"])
    expected = np.stack([hidden[0, :6].mean(0), hidden[1, :4].mean(0)])
    assert_all_close(learnt["vector"], expected, 1e-5)
    _, weights = teacher({"token_ids": TEXTS}, return_attention_scores=True)
    assert_all_close(wanted["weights"], weights[:, -1], 1e-6)
