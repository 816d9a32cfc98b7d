"""A student made of its teacher's layers, and both side by side."""

import numpy as np
import pytest
from keras import ops
from layer_checks import assert_all_close
from models.tiny_bert import FORMS, make_encoder, make_masked_lm
from recipe_modules import load_recipe

from keras_attention.models.distiller import Distiller, student_of

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


KEPT = np.array([0, 2, 3, 4, 5, 9, 11, 17, 30])  # 4 is [MASK]
TEACHER_IDS = np.array([[2, 17, 4, 9, 30, 3, 0], [2, 7, 8, 5, 4, 3, 0]], "int32")
TOKEN_IDS = np.array([[1, 7, 3, 5, 8, 2], [1, 6, 4, 3, 2, 0]], "int32")  # in the second text, 11 instead of 7 and 8
ALIGNED = np.array([[0, 1, 2, 3, 4, 5], [0, -1, 3, 4, 5, -1]], "int32")
MASKED = {
    "masked_positions": np.array([[2, 3], [3, 0]], "int32"),
    "teacher_positions": np.array([[2, 3], [4, 0]], "int32"),
    "masked_ids": np.array([[6, 5], [7, 0]], "int32"),
}
BOTH = {"token_ids": TOKEN_IDS, "teacher_ids": TEACHER_IDS, **MASKED}


@pytest.mark.parametrize("form", FORMS)
def test_the_head_is_the_teachers_for_fewer_tokens(form):
    teacher = make_masked_lm(num_layers=3, **FORMS[form])
    student = student_of(teacher, [0, 1, 2], KEPT)
    assert (type(student), student.settings["vocabulary_size"]) == (type(teacher), 9)
    new = np.searchsorted(KEPT, TEACHER_IDS[:1]).astype("int32")
    actual = ops.convert_to_numpy(student({"token_ids": new}))[:, :6]
    assert_all_close(actual, ops.convert_to_numpy(teacher({"token_ids": TEACHER_IDS[:1]}))[:, :6, KEPT], 1e-5)
    assert student_of(teacher, [1]).settings == teacher.settings | {"num_layers": 1}


def test_predictions_at_the_masked_positions_of_each():
    teacher = make_masked_lm(num_layers=3)
    student = student_of(teacher, [0, 2], KEPT)
    learnt, wanted = Distiller(student, teacher, KEPT)(BOTH)
    of_student, of_teacher = (
        ops.convert_to_numpy(model({"token_ids": ids})) for model, ids in ((student, TOKEN_IDS), (teacher, TEACHER_IDS))
    )
    for text, i, place, teacher_place in ((0, 0, 2, 2), (0, 1, 3, 3), (1, 0, 3, 4)):
        assert_all_close(learnt["logits"][text, i], of_student[text, place], 1e-5)
        assert_all_close(wanted["logits"][text, i], of_teacher[text, teacher_place, KEPT], 1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_the_last_layer(form):
    encoder = make_encoder(num_layers=2, **FORMS[form])
    read, _ = Distiller(encoder, make_encoder(), None, True, True)({"token_ids": TEXTS[:, :6], "teacher_ids": TEXTS})
    first, last = encoder.encoder_layers
    _, (x, before_last) = encoder({"token_ids": TEXTS[:, :6]}, return_layer_inputs=True)
    mask = ops.convert_to_tensor(TEXTS[:, :6] != 0)
    assert_all_close(before_last, first(x, padding_mask=mask), 1e-6)
    inputs = last.self_attention_norm(before_last) if encoder.normalize_first else before_last
    expected = last.self_attention(inputs, inputs, attention_mask=mask[:, None])
    context = np.einsum("bhts,bshk->bthk", *map(ops.convert_to_numpy, (read["weights"], read["values"])))
    assert_all_close(last.self_attention.output_projection(ops.convert_to_tensor(context)), expected, 1e-5)


def test_padding_does_not_change_the_loss():
    model = Distiller(make_masked_lm(vocabulary_size=9), make_masked_lm(num_layers=3), KEPT, True, True)
    weights = dict(zip(("vector", "hidden", "attention", "value", "prediction"), (1, 2, 3, 5, 7), strict=True))
    loss, fillers = load_recipe("distill").loss, {"labels": -1}
    totals = []
    for width in (0, 3):
        padded = {
            name: np.pad(ids, ((0, 0), (0, width)), constant_values=fillers.get(name, 0))
            for name, ids in {**BOTH, "labels": ALIGNED}.items()
        }
        labels = padded.pop("labels")
        totals.append([float(x) for x in loss(model, padded, labels, weights, temperature=2.0)[:3]])
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)


@pytest.mark.parametrize("name", ["attention", "value", "prediction"])
def test_each_weight_has_its_loss(name):
    teacher = make_masked_lm(num_layers=3)
    model = Distiller(student_of(teacher, [0, 2], KEPT), teacher, KEPT, True, True)
    loss, weights = load_recipe("distill").loss, dict.fromkeys(("vector", "hidden", "attention", "value"), 0.0)
    totals = [float(loss(model, BOTH, ALIGNED, weights | {"prediction": 0.0, name: w}, 2.0).total) for w in (0, 1, 3)]
    assert totals[0] == 0 < totals[1]
    assert totals[2] == pytest.approx(3 * totals[1], rel=1e-5)
