"""Text in, text out: the same answer alone and in company, and everything known about it on request."""

import copy
import functools
import json
import pickle
import warnings

import numpy as np
import pytest
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts, tiny_translator

from keras_attention.decoding import greedy_search
from keras_attention.pipelines.translator import Translation, Translator
from keras_attention.runtime.buckets import BATCH_SIZES, answer_limit, batches
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, START_ID, UNKNOWN_ID


@functools.cache
def translator(attention="additive"):
    """One translator for all tests, which keeps its compiled programs."""
    return tiny_translator(attention=attention)


@pytest.mark.thorough
def test_answers_are_independent_of_batch_and_order():
    texts = [*ENGLISH, "", *reversed(ENGLISH), "A girl sits."]
    together = translator().hypotheses(texts)
    assert len({answer.text for (answer,) in together}) >= 4
    for text, (answer,) in zip(texts, together, strict=True):
        ((alone,),) = translator().hypotheses([text])
        assert (alone.text, alone.tokens, alone.source_tokens) == (answer.text, answer.tokens, answer.source_tokens)
        np.testing.assert_allclose(alone.score, answer.score, atol=1e-5)


@pytest.mark.slow
def test_one_beam_is_greedy_search_of_the_model():
    model, source, target = tiny_parts()
    ids = np.append(source.encode(ENGLISH[:1])[0], END_ID)[None].astype("int32")  # (1, S), without padding
    memory = model.encode(ids)
    hypotheses = greedy_search(
        lambda token_ids, state: model.step(token_ids, state, memory),
        model.initial_state(memory),
        1,
        start_id=START_ID,
        end_id=END_ID,
        unknown_id=UNKNOWN_ID,
        max_length=answer_limit(ids.shape[1], translator().decoding),
    )
    ((answer,),) = translator().hypotheses(ENGLISH[:1], beam_size=1)
    length = int(hypotheses.lengths[0, 0])
    assert answer.tokens == target.tokens(np.asarray(hypotheses.token_ids)[0, 0, :length])
    np.testing.assert_allclose(answer.log_prob, hypotheses.log_probs[0, 0], atol=1e-4)


@pytest.mark.slow
def test_translate_returns_texts_with_their_attention_and_hypotheses():
    texts = ENGLISH[:2]
    plain = translator().translate(texts)
    assert [type(answer) for answer in plain] == [Translation, Translation]
    assert plain == [str(answer) for answer in plain] == [answer.text for answer in plain]
    assert translator().translate(texts[0]) == plain[0]
    full = translator().translate(texts, return_attention=True)
    assert [answer.text for answer in full] == plain
    best = translator().translate(texts, n_best=3)
    assert [answers[0].text for answers in best] == plain
    for answers in best:
        assert len({tuple(answer.tokens) for answer in answers}) == 3
        scores = [answer.score for answer in answers]
        assert scores == sorted(scores, reverse=True)
        assert all(answer.attention is None for answer in answers)
    assert isinstance(translator().translate(texts[0], return_attention=True), Translation)


@pytest.mark.slow
def test_attention_is_that_of_the_step_by_step_search():
    model, source, target = tiny_parts()
    text = ENGLISH[1]
    for answer in translator().translate(text, n_best=3, return_attention=True):
        assert answer.attention.dtype == np.float32
        assert answer.attention.shape == (len(answer.tokens), len(answer.source_tokens))
        np.testing.assert_allclose(answer.attention.sum(axis=1), 1.0, atol=1e-5)
        memory = model.encode(np.append(source.encode([text])[0], END_ID)[None].astype("int32"))
        state, token = model.initial_state(memory), START_ID
        for row, piece in zip(answer.attention, answer.tokens, strict=True):
            _, state = model.step(np.array([token], "int32"), state, memory)
            np.testing.assert_allclose(row, np.asarray(state["attention"])[0], atol=1e-5)
            token = END_ID if piece == "</s>" else int(target.encode([piece])[0][0])
        assert answer.source_tokens[-1] == "</s>"


def test_empty_sentences():
    for empty in ("", "   ", "\n", "\u200b", "\0"):
        assert translator().translate(empty) == ""
        ((answer,),) = translator().hypotheses([empty], attention=True)
        assert (answer.text, answer.score, answer.tokens, answer.attention.shape) == ("", 0.0, [], (0, 0))
    assert translator().translate([]) == []


@pytest.mark.slow
def test_a_very_long_line_is_cut_with_a_warning():
    text = "A dog runs. " * 100_000
    with pytest.warns(UserWarning, match=r"1 of 2 sentences \(the first is number 2\) have more than the 28 tokens"):
        (short,), (long,) = translator().hypotheses([ENGLISH[0], text])
    assert (short.truncated, long.truncated) == (False, True)
    assert len(long.source_tokens) == DECODING["max_source_length"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator().hypotheses([" " * 1_000_000])
        ((fits,),) = translator().hypotheses(["M" * 13 + "e" * 14])  # 28 pieces with the blank at the start
    assert not fits.truncated


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([None], "Sentence 1 must be a str. Received: NoneType"),
        (["A dog.", 3], "Sentence 2 must be a str. Received: int 3"),
        ([b"A dog."], "Received: bytes"),
        (None, "`texts` must be a str or a list of str. Received: NoneType"),
        (b"A dog.", "`texts` must be.* Received: bytes"),
        ({"A dog.": 1}, "Received: dict"),
        (["\ud800"], "Sentence 1 contains half of a surrogate pair"),
    ],
)
def test_values_other_than_texts_are_refused(texts, message):
    with pytest.raises(UserError, match=message):
        translator().translate(texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size=0"),
        ({"beam_size": 2.0}, "beam_size=2.0"),
        ({"beam_size": True}, "beam_size=True"),
        ({"max_length": -1}, "max_length=-1"),
        ({"length_penalty": -0.5}, "length_penalty=-0.5"),
        ({"coverage_penalty": float("nan")}, "coverage_penalty=nan"),
        ({"length_penalty": float("inf")}, "length_penalty=inf"),
        ({"n_best": 4}, "between 1 and the beam size 3. Received: 4"),
        ({"n_best": 0}, "Received: 0"),
    ],
)
def test_settings_out_of_range(options, message):
    with pytest.raises(UserError, match=message):
        translator().translate("A dog.", **options)


def test_model_without_attention():
    assert isinstance(translator("none").translate("A dog."), str)
    for options in ({"return_attention": True}, {"coverage_penalty": 0.2}, {"replace_unknowns": True}):
        with pytest.raises(UserError, match="has no attention"):
            translator("none").translate("A dog.", **options)


@pytest.mark.slow
def test_maximum_length():
    ((answer,),) = translator().hypotheses([ENGLISH[2]], max_length=2)
    assert len(answer.tokens) <= 2


@pytest.mark.slow
def test_penalties_reach_the_search():
    ((plain,),) = translator().hypotheses([ENGLISH[2]])
    ((long,),) = translator().hypotheses([ENGLISH[2]], length_penalty=5.0)
    assert len(long.tokens) >= len(plain.tokens)
    assert long.score != pytest.approx(long.log_prob)
    ((covering,),) = translator().hypotheses([ENGLISH[2]], coverage_penalty=0.7)
    assert covering.score < covering.log_prob


@pytest.mark.slow
def test_low_score():
    parts = tiny_parts()
    ((plain,),) = translator().hypotheses([ENGLISH[0]])
    mean = plain.log_prob / len(plain.tokens)
    for threshold, low in ((mean + 0.1, True), (mean - 0.1, False)):
        judge = Translator(*parts, DECODING, low_score_threshold=threshold)
        judge.compiled = translator().compiled
        assert judge.hypotheses([ENGLISH[0]])[0][0].low_score is low


@pytest.mark.slow
def test_unknown_tokens_are_not_written_unless_asked_for():
    model, source, target = tiny_parts()
    bias = np.zeros(target.vocabulary_size, "float32")
    bias[UNKNOWN_ID] = 30.0  # the model wants to write nothing but unknown tokens
    model.output_bias.assign(bias)
    eager = Translator(model, source, target, DECODING)
    assert "<unk>" not in eager.translate("A dog.", return_attention=True).tokens
    answer = eager.translate("A ☃ dog.", replace_unknowns=True, return_attention=True, max_length=3)
    assert answer.tokens == ["<unk>"] * 3
    pieces = [piece if piece != "<unk>" else "☃" for piece in answer.source_tokens[:-1]]
    copied = [pieces[position] for position in answer.attention[:, :-1].argmax(axis=1)]
    assert answer.text == " ".join("".join(copied).replace("▁", " ").split())


@pytest.mark.slow
def test_progress_counts_every_sentence():
    seen = []
    translator().hypotheses([*ENGLISH, ""], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5, 5)
    assert seen == sorted(seen)


def test_batches_hold_every_sentence_once_in_few_shapes():
    lengths = np.random.default_rng(11).integers(1, 53, size=307).tolist()
    seen, shapes = [], set()
    for positions, size, padded in batches(lengths, longest=53):
        assert len(positions) <= size
        assert all(lengths[position] <= padded <= 53 for position in positions)
        seen += positions
        shapes.add((size, padded))
    assert sorted(seen) == list(range(307))
    assert len(shapes) <= 3 * len(BATCH_SIZES)


@pytest.mark.parametrize("options", [{}, {"return_attention": True}, {"beam_size": 1}])
def test_an_answer_is_a_text_that_says_how_it_was_found(options):
    answer = translator().translate(ENGLISH[0], **options)
    (in_a_list,) = translator().translate([ENGLISH[0]], **options)
    best = translator().translate(ENGLISH[0], n_best=1, **options)
    for one in (answer, in_a_list, best):
        assert isinstance(one, str)
        assert type(one) is Translation
        assert one == answer
        assert type(one.text) is str
        assert one.text == one
        assert one.score <= 0.0
        assert type(one.low_score) is bool
        assert (one.attention is not None) == bool(options.get("return_attention"))
        assert f"{one}|" == one + "|" == "|".join([one, ""])


@pytest.mark.parametrize("attention", [False, True])
def test_an_answer_is_pickled_copied_and_written_as_json(attention):
    answer = translator().translate(ENGLISH[0], return_attention=attention)
    for other in (pickle.loads(pickle.dumps(answer)), copy.copy(answer), copy.deepcopy(answer)):
        assert type(other) is Translation
        assert other == answer
        assert (other.score, other.tokens, other.token_ids) == (answer.score, answer.tokens, answer.token_ids)
        np.testing.assert_array_equal(other.attention, answer.attention)
    assert json.loads(json.dumps([answer, {answer: answer}])) == [answer.text, {answer.text: answer.text}]
    assert answer._replace(truncated=True).truncated
    assert answer._replace(text="other") == "other"
    assert answer._asdict()["text"] == answer
    assert translator().translate("").low_score is False
