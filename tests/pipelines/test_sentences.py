"""Texts of several sentences: split, translated sentence by sentence, and joined again."""

import functools
import time

import numpy as np
import pytest
from pipelines.sentence_lines import LINES
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts

from keras_attention.pipelines.sentences import split_text, with_line_breaks
from keras_attention.pipelines.translations import Translation, joined_hypotheses
from keras_attention.pipelines.translator import Translator
from keras_attention.support.errors import UserError

SEVERAL = f"{ENGLISH[0]}  {ENGLISH[3]}\r\n\n- {ENGLISH[1]}"
WRAPPED = "The quick brown fox jumps over the lazy dog because it\ncan."
DOCUMENT = f"My list:\n\n  1. Milk\n  2. Bread and\nbutter\n\n{WRAPPED} Yes!\n"


@functools.cache
def translator(**settings):
    model, *tokenizers = tiny_parts()
    return Translator(model, *tokenizers, DECODING, source_language="en", target_language="de", **settings)


def sentences(text, language="en"):
    return [piece.sentence for piece in split_text(text, language).pieces]


def marked(text, language):
    """The text with "|" before each sentence but the first; the marker of a list item belongs to its sentence."""
    parts, marks = split_text(text, language), ""
    for number, (before, sentence) in enumerate(parts.pieces):
        blanks = before[: len(before) - len(before.lstrip())]
        marks += f"{blanks}{'|' * bool(number)}{before.lstrip()}{sentence}"
    return marks + parts.after


def test_sentences_are_found_in_98_percent_of_the_lines():
    assert len(LINES) == 200
    wrong = [line for language, line in LINES if marked(line.replace("|", ""), language) != line]
    assert len(wrong) <= 4, wrong


@pytest.mark.parametrize("text", [DOCUMENT, SEVERAL, "", " \n", *(line for _, line in LINES[::7])])
def test_nothing_of_a_text_is_lost(text):
    parts = split_text(text, "en")
    assert parts.joined([piece.sentence.replace("\n", " ") for piece in parts.pieces]) == text


@pytest.mark.parametrize("text", ["How are you? ", "We like e.g. this ", '"Stop!" ', "hi! how are you? ", "1. ", "« "])
def test_the_time_to_split_grows_no_faster_than_the_text(text):
    begun = time.process_time()
    split_text(text * 16_000, "en")
    assert time.process_time() - begun < 3.0


def test_lines_are_sentences_unless_they_go_on():
    assert sentences(DOCUMENT) == ["My list:", "Milk", "Bread and\nbutter", WRAPPED, "Yes!"]
    assert sentences("Dear Anna\nHow are you?\r\nYours\nTom") == ["Dear Anna", "How are you?", "Yours", "Tom"]


def test_control_characters_between_sentences_are_left_out():
    parts = split_text("Yes.\x00 \u202eNo.\u202c\r\n\tOh.\x1b ", "en")
    assert parts.joined(["Ja."] * len(parts.pieces)).count("Ja.") == len(parts.pieces) >= 2
    assert not set("\x00\u202e\u202c\x1b") & set(parts.joined(["Ja."] * len(parts.pieces)))
    assert "\r\n\t" in parts.joined(["Ja."] * len(parts.pieces))


def test_a_chat_in_lower_case_has_sentences():
    assert sentences("hi! how are you? i am fine. see you") == ["hi!", "how are you?", "i am fine.", "see you"]


def test_other_languages_are_split_too():
    assert sentences("你好。你好吗？", "zh") == ["你好。", "你好吗？"]
    assert sentences("¿Qué tal? Estoy bien.", "es-MX") == ["¿Qué tal?", "Estoy bien."]


def test_line_breaks_within_a_sentence_are_set_at_about_their_place():
    assert with_line_breaks("one two\nthree four", "eins zwei drei vier") == "eins zwei\ndrei vier"
    assert with_line_breaks("one\r\n  two", "eins zwei") == "eins\r\n  zwei"
    assert with_line_breaks("one\ntwo", "einszwei") == "einszwei\n"


@pytest.mark.slow
def test_each_sentence_is_translated_as_by_itself():
    alone = translator().translate([ENGLISH[0], ENGLISH[3], ENGLISH[1]], return_attention=True)
    answer = translator().translate(SEVERAL, return_attention=True)
    assert answer == f"{alone[0]}  {alone[1]}\r\n\n- {alone[2]}".strip()
    assert answer.sentences == tuple(alone)
    assert answer.log_prob == pytest.approx(sum(one.log_prob for one in alone), abs=1e-4)
    lengths = [len(one.tokens) for one in alone]
    mean = sum(one.score * length for one, length in zip(alone, lengths, strict=True)) / sum(lengths)
    assert answer.score == pytest.approx(mean, abs=1e-5)
    assert answer.tokens == [token for one in alone for token in one.tokens]
    assert answer.source_tokens == [token for one in alone for token in one.source_tokens]
    assert answer.attention.shape == (len(answer.tokens), len(answer.source_tokens))
    np.testing.assert_allclose(answer.attention.sum(axis=1), 1, atol=1e-5)
    rows, columns = len(alone[0].tokens), len(alone[0].source_tokens)
    np.testing.assert_allclose(answer.attention[:rows, :columns], alone[0].attention, atol=1e-5)
    assert not answer.attention[:rows, columns:].any()


@pytest.mark.slow
def test_one_sentence_is_translated_as_without_splitting():
    for text in (*ENGLISH, "- A dog runs.", ""):
        answer, whole = (translator().translate(text, split=split) for split in (True, False))
        assert vars(answer) == vars(whole)
        assert answer == whole
    assert not translator().translate(SEVERAL, split=False).sentences


@pytest.mark.slow
def test_the_best_of_several_sentences_in_order():
    translations = translator().translate(SEVERAL, n_best=3)
    assert len({tuple(one.tokens) for one in translations}) == 3
    sums = [sum(sentence.score for sentence in one.sentences) for one in translations]
    assert sums == sorted(sums, reverse=True)
    assert translations[0] == translator().translate(SEVERAL)


@pytest.mark.slow
def test_one_doubtful_sentence_makes_a_text_doubtful():
    doubtful = f"{ENGLISH[0]} Собака бежит."
    assert not translator().translate(ENGLISH[0]).low_score
    answer = translator().translate(doubtful)
    assert (answer.low_score, answer.reason) == (True, "wrong language")
    assert [one.low_score for one in answer.sentences] == [False, True]


@pytest.mark.slow
def test_texts_of_several_sentences_among_others():
    texts = [ENGLISH[0], SEVERAL, "", ENGLISH[2]]
    done = []
    answers = translator().hypotheses(texts, progress=lambda *counts: done.append(counts))
    assert [best for best, *_ in answers] == [translator().translate(text) for text in texts]
    assert done[-1] == (4, 4)


@pytest.mark.slow
def test_streams_go_through_all_sentences():
    text = f"- {SEVERAL}"
    expected = translator().translate(text, beam_size=1)
    assert "".join(translator().stream(text)) == expected
    assert "".join(translator().stream(text, split=False)) == translator().translate(text, beam_size=1, split=False)


@pytest.mark.slow
def test_the_attention_page_shows_all_sentences():
    one, several = (len(translator().attention_view(text).data["answers"]) for text in (ENGLISH[0], SEVERAL))
    assert (one, several) == (1, 3)


def test_ten_thousand_sentences_are_joined_in_linear_time():
    parts = split_text("Yes. " * 10_000, "en")
    assert len(parts.pieces) == 10_000
    actual = [[Translation("Ja.", -0.5, ["Ja", "."]), Translation("Doch.", -0.75, ["Doch", "."])] for _ in parts.pieces]
    begun = time.process_time()
    first, second = joined_hypotheses(parts, actual, 2)
    assert time.process_time() - begun < 3.0
    assert first == " ".join(["Ja."] * 10_000)
    assert second.count("Doch.") == 1
    assert first.score == pytest.approx(-0.5)


def test_the_attention_of_too_many_sentences_is_an_error_before_it_fills_the_memory():
    parts = split_text("Yes. " * 300, "en")
    weights = np.ones((2, 3), "float32"), np.ones((7, 5, 2, 3), "float32")
    one = [Translation("Ja.", -0.5, ["Ja", "."], ["Yes", ".", "</s>"], *weights)]
    assert joined_hypotheses(parts, [one] * 300, 1)[0].heads.shape == (7, 5, 600, 900)
    parts = split_text("Yes. " * 1_300, "en")
    with pytest.raises(UserError, match=r"attention of 1,300 sentences .* Translate fewer sentences"):
        joined_hypotheses(parts, [one] * 1_300, 1)


def test_models_without_a_natural_language_split_nothing():
    model, *tokenizers = tiny_parts()
    for language in (None, "dates"):
        assert Translator(model, *tokenizers, DECODING, source_language=language).sentences(SEVERAL) is None
    with pytest.raises(UserError, match="beam_size=0"):
        translator().translate(SEVERAL, beam_size=0)


def test_a_french_title_at_the_beginning_of_a_line_marks_no_list():
    pieces = split_text("Bonjour.\nM. Garnier est là. Mme. Leroy aussi.", "fr").pieces
    assert [piece.sentence for piece in pieces] == ["Bonjour.", "M. Garnier est là.", "Mme. Leroy aussi."]
