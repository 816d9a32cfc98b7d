"""Texts in, labels out: against the model called by hand."""

import numpy as np
import pytest
from keras import ops
from zoo.tiny_bert import LABELS, TEXTS, task, tiny_classifier, write_tiny

import keras_attention
from keras_attention.inputs.token_sequences import text_sequences
from keras_attention.layers.fast import blocks, chunked_attention
from keras_attention.pipelines.base import failing_examples
from keras_attention.pipelines.classifier import Classification, Classifier
from keras_attention.support.errors import EntryError, UserError


def logits_by_hand(classifier, text, text_b=None):
    (row,) = text_sequences(
        classifier.tokenizer, [text], None if text_b is None else [text_b], max_tokens=23, warn=False
    )
    inputs = {"token_ids": row.token_ids[None], "segment_ids": row.segment_ids[None]}
    return ops.convert_to_numpy(classifier.model(inputs))[0].astype("float64")


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_the_most_probable_label(kind):
    classifier = tiny_classifier(kind)
    answers = classifier.classify(TEXTS, return_scores=True)
    assert classifier.classify(TEXTS) == [answer.label for answer in answers]
    for text, answer in zip(TEXTS, answers, strict=True):
        p = np.exp(logits_by_hand(classifier, text))
        expected = dict(zip(LABELS[kind], p / p.sum(), strict=True))
        assert answer.probabilities == pytest.approx(expected, abs=1e-5)
        assert answer.label == max(expected, key=expected.get) == next(iter(answer.probabilities))
    assert classifier.classify(TEXTS[0], threshold=1.0) is None


def test_long_texts_whose_attention_is_computed_in_chunks(monkeypatch):
    classifier = tiny_classifier("binary")
    expected = [logits_by_hand(classifier, text) for text in TEXTS]
    monkeypatch.setattr(chunked_attention, "MOST_AT_ONCE", 0)
    monkeypatch.setattr(blocks, "LONGEST_CHUNK", 4)
    monkeypatch.setattr(blocks, "SHORTEST_CHUNK", 4)
    np.testing.assert_allclose(classifier.logits(classifier.sequences(TEXTS)), expected, atol=1e-5)


def test_every_label_that_reaches_the_threshold():
    classifier = tiny_classifier("multilabel")
    for text in TEXTS:
        p = 1 / (1 + np.exp(-logits_by_hand(classifier, text)))
        order = np.argsort(-p)
        for threshold in (None, 0.0, 0.3, 0.9):
            expected = [LABELS["multilabel"][i] for i in order if p[i] >= (0.5 if threshold is None else threshold)]
            assert classifier.classify(text, threshold=threshold) == expected


@pytest.mark.slow
def test_each_label_may_have_a_threshold_of_its_own(tmp_path):
    settings = task("multilabel") | {"threshold": [0.9, 0.1, 0.5]}
    classifier = keras_attention.load(
        write_tiny(tmp_path / "own", tiny_classifier("multilabel").model, task=settings).folder
    )
    for text in TEXTS:
        p = 1 / (1 + np.exp(-logits_by_hand(classifier, text)))
        reached = {name for name, value, needed in zip("xyz", p, [0.9, 0.1, 0.5], strict=True) if value >= needed}
        assert set(classifier.classify(text)) == reached
        assert set(classifier.classify(text, threshold=0.3)) == {n for n, v in zip("xyz", p, strict=True) if v >= 0.3}


def test_a_number():
    classifier = tiny_classifier("regression")
    expected = [logits_by_hand(classifier, text)[0] for text in TEXTS]
    assert classifier.classify(TEXTS) == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_pairs_in_any_company():
    classifier = tiny_classifier(pair=True)
    first, second = TEXTS * 2, TEXTS + TEXTS[::-1]
    together = classifier.classify(first, second, return_scores=True)
    for a, b, answer in zip(first, second, together, strict=True):
        alone = classifier.classify(a, b, return_scores=True)
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-5)
        p = np.exp(logits_by_hand(classifier, a, b))
        assert answer.probabilities["good"] == pytest.approx(p[1] / p.sum(), abs=1e-5)


def test_long_texts_are_cut_and_marked():
    classifier = tiny_classifier()
    with pytest.warns(UserWarning, match="more than the 23 tokens"):
        answers = classifier.classify(["a " * 100, "a"], return_scores=True)
    assert [answer.truncated for answer in answers] == [True, False]


def test_an_older_entry_reads_the_start_of_long_texts(tmp_path):
    older = {name: value for name, value in task().items() if name != "long_texts"}
    entry = write_tiny(tmp_path / "older", tiny_classifier().model, task=older)
    assert keras_attention.load(entry.folder).long_texts == "start"


def test_of_a_long_text_both_ends_may_count():
    usual = tiny_classifier()
    classifier = Classifier(usual.model, usual.tokenizer, 9, usual.task | {"long_texts": "ends"})
    texts = [f"a {'b ' * middle}c" for middle in (40, 60, 5)]
    with pytest.warns(UserWarning, match="2 of 3 .* their middle was left out"):
        answers = classifier.classify(texts, return_scores=True)
    for answer in answers:
        assert answer.probabilities == pytest.approx(answers[2].probabilities, abs=1e-6)
    with pytest.warns(UserWarning, match="left out"):
        assert classifier.encode(texts).tokens[0] == classifier.encode(texts).tokens[2]
    with pytest.warns(UserWarning, match="left out"):
        assert "its middle was left out" in classifier.attention_view(texts[0]).html


@pytest.mark.slow
def test_all_of_a_long_text_may_count(recwarn):
    usual = tiny_classifier()
    classifier = Classifier(usual.model, usual.tokenizer, 9, usual.task | {"long_texts": "whole"})
    texts = [f"a {'b ' * 5}c {'c ' * 5}b a", "b", "a b"]  # 14 tokens: two rows of 7
    done = []
    answers = classifier.classify(texts, return_scores=True, progress=lambda *counts: done.append(counts))
    first, second = (logits_by_hand(usual, text) for text in (f"a {'b ' * 5}c", f"{'c ' * 5}b a"))
    by_hand = [(first + second) / 2, *(logits_by_hand(usual, text) for text in texts[1:])]
    for answer, logits in zip(answers, by_hand, strict=True):
        p = np.exp(logits)
        assert answer.probabilities["good"] == pytest.approx(p[1] / p.sum(), abs=1e-5)
    assert not any(answer.truncated for answer in answers)
    assert not recwarn.list
    assert done[-1] == (3, 3)
    assert classifier.classify([]) == []
    with pytest.warns(UserWarning, match="its middle was left out|their middle was left out"):
        assert "its middle was left out" in classifier.attention_view(texts[0]).html


def test_of_long_pairs_the_ends_count_even_if_texts_are_read_whole():
    usual = tiny_classifier(pair=True)
    ends, whole = (
        Classifier(usual.model, usual.tokenizer, 9, usual.task | {"long_texts": w}) for w in ("ends", "whole")
    )
    with pytest.warns(UserWarning, match="their middle was left out"):
        answers = [one.classify("a " * 9, "b " * 9, return_scores=True) for one in (ends, whole)]
    assert answers[0] == answers[1]


def test_no_text_and_no_texts():
    classifier = tiny_classifier()
    assert classifier.classify([]) == []


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "regression"])
def test_a_blank_text_has_no_answer(kind):
    classifier = tiny_classifier(kind)
    texts = [TEXTS[0], "", TEXTS[1], " \t\u3000\n", "\u200b\ufeff"]
    known = classifier.classify(TEXTS[:2], return_scores=True)
    nothing = Classification(None, {}, False)
    answers = classifier.classify(texts, return_scores=True)
    assert [answers[1], *answers[3:]] == [nothing, nothing, nothing]
    assert [answer.label for answer in answers] == classifier.classify(texts)
    for answer, alone in ((answers[0], known[0]), (answers[2], known[1])):
        assert answer.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert answer.label is not None
    assert classifier.classify("") is None
    assert classifier.answers(["", TEXTS[0]])[0] == ""
    explanation = classifier.explain(" ")
    assert (explanation.label, explanation.value, explanation.words) == (None, None, [])
    assert "<article>" in explanation.page().html


def test_a_pair_with_a_blank_text_has_no_answer():
    classifier = tiny_classifier(pair=True)
    labels = classifier.classify([TEXTS[0], "", TEXTS[1]], [TEXTS[1], TEXTS[0], " \xad "])
    assert (labels[0] is None, labels[1:]) == (False, [None, None])


def test_the_effect_of_the_only_word():
    (word,) = tiny_classifier().explain("dog").words
    assert word.effect != 0


def test_a_model_without_segments_judges_pairs():
    classifier = tiny_classifier(pair=True, num_segments=0)
    assert classifier.classify(TEXTS[0], TEXTS[1]) in LABELS["binary"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": ["a"], "texts_b": ["b"]}, "single texts"),
        ({"texts": ["a"], "threshold": 1.5}, "threshold=1.5"),
        ({"texts": [None]}, "Received: NoneType"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(UserError, match=message):
        tiny_classifier().classify(**arguments)


def test_a_number_has_no_threshold():
    with pytest.raises(UserError, match="predicts a number: leave out `threshold`"):
        tiny_classifier("regression").classify("a", threshold=0.5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", list(LABELS))
def test_an_entry_answers_the_same(tmp_path, kind):
    classifier = tiny_classifier(kind, pair=kind == "binary")
    sides = (TEXTS, TEXTS[::-1]) if kind == "binary" else (TEXTS, None)
    outputs = classifier.answers(*sides)
    examples = [{"source": text, "output": output} for text, output in zip(TEXTS, outputs, strict=True)]
    for example, second in zip(examples, sides[1] or (), strict=False):
        example["source_b"] = second
    entry = write_tiny(tmp_path / "tiny", classifier.model, examples, task=classifier.task)
    assert (f"{kind} classification" if kind != "regression" else "; regression") in entry.card
    assert ".classify([" in entry.card
    assert failing_examples(entry.folder) == (len(TEXTS), [])
    loaded = keras_attention.load(entry.folder)
    assert isinstance(loaded, Classifier)
    assert loaded.task == classifier.task


@pytest.fixture(scope="module")
def binary_model():
    return tiny_classifier().model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_names": ["a", "b", "c"]}, "2 label_names and num_labels=2. Received: 3"),
        ({"kind": "multiclass", "label_names": ["a"]}, "1 label_names and num_labels=1. Received: 1 and num_labels=2"),
        ({"label_names": ["a", "a"]}, "different names"),
        ({"label_names": ["a", "\x1b"]}, "different names"),
        ({"separator": ","}, "a multilabel task needs a separator"),
        ({"threshold": 2}, "threshold=2"),
        ({"threshold": [0.5, 2]}, "threshold=.0.5, 2"),
        ({"threshold": [0.5]}, "one for each of the 2 labels. Received: 1"),
        ({"pair": "no"}, "pair"),
        ({"long_texts": "middle"}, "long_texts"),
        ({"kind": "Lambda"}, "kind must be one of"),
    ],
)
def test_a_task_that_does_not_fit_the_labels_is_refused(binary_model, tmp_path, change, message):
    with pytest.raises(EntryError, match=message):
        write_tiny(tmp_path / "tiny", binary_model, task={**task(), **change})
    assert not list(tmp_path.iterdir())
