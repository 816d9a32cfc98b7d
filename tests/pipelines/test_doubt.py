"""Reasons to doubt a translation, and texts that are copied."""

from types import SimpleNamespace

import numpy as np
import pytest
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts

from keras_attention.data.dates import generate_dates
from keras_attention.decoding import Hypotheses
from keras_attention.pipelines.doubt import copied_text, has_other_numbers, reason_to_doubt, repeats_itself
from keras_attention.pipelines.languages import language_code
from keras_attention.pipelines.translator import Translator
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer
from keras_attention.tokenizers.special_tokens import END_ID

GERMAN = ["Ein Hund rennt.", "Nein, nein, das ist nicht wahr!", "Die Frau sitzt; sie lacht, und er geht."]
PIECES = SentencePieceTokenizer.train([*ENGLISH, *GERMAN], 97)


def reason(source, text, mean=-0.1, *, threshold=-0.7, tokenizer=PIECES, target_language="de", source_language=None):
    """The reason to doubt that `text` translates `source`, of a model with this mean log probability per token."""
    translator = SimpleNamespace(
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        target_language=target_language,
        source_language=source_language,
        low_score_threshold=threshold,
    )
    source_ids, ids = (np.append(one, END_ID) for one in tokenizer.encode([source, text]))
    return reason_to_doubt(translator, source, source_ids, text, ids, mean * len(ids))


def test_the_mean_log_probability_of_a_token_decides_whatever_the_length():
    for answer in (GERMAN[0], " ".join(GERMAN)):
        assert reason(ENGLISH[0], answer, mean=-0.69) is None
        assert reason(ENGLISH[0], answer, mean=-0.71) == "low score"
        assert reason(ENGLISH[0], answer, mean=-9.0, threshold=None) is None


@pytest.mark.parametrize("source", ["Собака бежит.", "狗在跑", "A пёс", "A dog runs in Łódź."])
def test_unknown_letters_in_many_words_are_doubted(source):
    assert reason(source, GERMAN[0]) == "many unknown pieces"


def test_a_text_in_another_language_is_doubted():
    assert reason("Ich bin müde und möchte schlafen.", GERMAN[0], source_language="en") == "wrong language"
    assert reason("Собака бежит по улице.", GERMAN[0], source_language="en") == "wrong language"
    assert reason(ENGLISH[1], GERMAN[0], source_language="en") is None
    assert reason(GERMAN[2], ENGLISH[1], source_language="German", target_language="en") is None


@pytest.mark.parametrize("source", ["A dog runs ☃ 7 %", "“A dog” – runs…", "Two men near bushes in red near Łódź."])
def test_unknown_signs_and_a_single_unknown_name_are_not_doubted(source):
    assert reason(source, GERMAN[0]) is None


LOOPS = [
    "Die sitzsitzsitzsitzsitzt.",
    "Er rennt und sie rennt und sie rennt und sie rennt und sie",
    "ein ein ein ein ein",
]


@pytest.mark.parametrize("answer", LOOPS)
def test_an_answer_in_a_loop_is_doubted(answer):
    assert reason(ENGLISH[0], answer) == "repetition"
    assert reason(answer, answer) is None  # the source repeats itself as often


def test_a_repetition_of_the_source_may_be_translated():
    assert reason("No, no, no, no!", "Nein, nein, nein, nein!") is None
    assert reason("no no no no", "nein, nein, nein, nein") is None


@pytest.mark.parametrize("answer", [*GERMAN, " ".join(GERMAN), "Die Frau sitzt, und die Frau lacht."])
def test_an_ordinary_answer_is_not_in_a_loop(answer):
    assert reason(ENGLISH[0], answer) is None


def test_a_loop_of_a_model_of_characters_is_one_of_words():
    characters = CharacterTokenizer("abcdefghijklmnopqrstuvwxyz ")
    assert reason("a dog", "eine eine", tokenizer=characters) is None
    assert reason("a dog", "der eine der eine der eine der eine", tokenizer=characters) == "repetition"


def test_repetitions_are_counted():
    assert repeats_itself([1, 2, 3] * 3, [1, 2, 3, 4])
    assert not repeats_itself([1, 2, 3] * 2, [1, 2, 3, 4])
    assert not repeats_itself([1, 2, 3] * 3, [5, 6] * 2)
    assert repeats_itself([1, 2, 3] * 4, [5, 6] * 2)
    assert not repeats_itself([], [])


def test_an_answer_that_is_no_day_is_doubted_for_a_date_model_only():
    characters = CharacterTokenizer("0123456789-")
    assert reason("2", "2022-02-22", tokenizer=characters, target_language="iso") is None
    assert reason("2", "2022-02-30", tokenizer=characters, target_language="iso") == "not a date"
    assert reason("2", "2022-02-30", tokenizer=characters) is None


TEXTS_WITH_DATES = {
    "3 May 2021": None,
    "20210503": None,
    "3.5.21": None,
    "٣ مايو ٢٠٢١": None,
    "May": None,
    "4 May 2021": "numbers differ",
    "from 3 May 2021 to 4 June 2022": "numbers differ",
    "20210504": "numbers differ",
    "03052021": None,
    "030521": None,
    "3 May 2021 17:45": None,
    "3 May 2021, 5 p.m.": None,
    "3 May 2021, 7 p.m.": "numbers differ",
    "3 May 2021" + 5_000 * "1": "numbers differ",
}


@pytest.mark.parametrize(("source", "expected"), TEXTS_WITH_DATES.items())
def test_a_date_that_lacks_a_number_of_the_text_is_doubted(source, expected):
    letters = CharacterTokenizer("".join(sorted({*"-", *"".join(TEXTS_WITH_DATES)})))
    assert reason(source, "2021-05-03", tokenizer=letters, target_language="iso") == expected


def test_generated_dates_have_no_other_numbers():
    assert not any(map(has_other_numbers, *generate_dates(1_000, seed=1)))


def test_natural_languages():
    for name in ("en", "de", "pt-BR", "zh_Hant", "DE", "German", "english"):
        assert language_code(name)
    for name in ("dates", "iso", "ISO 8601", "digits", "source", "tgt", "mul", "", None):
        assert not language_code(name)


COPIES = {
    "42": "42",
    " 12:45\n": "12:45",
    "3,14  – 7 %": "3,14 – 7 %",
    "😀👨‍👩‍👧🇩🇪": "😀👨‍👩‍👧🇩🇪",
    "+49 (30) 1234-5": "+49 (30) 1234-5",
    "...?!": "...?!",
    "1\n2": "1 2",
    "\x1b7": "7",
    "": "",
    "  ": "",
    "\u200b\u2060": "",
    "\N{BRAILLE PATTERN BLANK}": "",
    "3 apples": "",
    "四": "",
    "5 км": "",
}


@pytest.mark.parametrize("text", COPIES)
def test_texts_without_letters_are_copied_between_natural_languages_only(text):
    for languages, copied in ((("en", "de"), COPIES[text]), (("dates", "iso"), ""), ((None, "de"), "")):
        translator = SimpleNamespace(source_language=languages[0], target_language=languages[1])
        assert copied_text(translator, text) == copied


@pytest.mark.parametrize(
    ("languages", "text", "copied"),
    [
        (("en", "de"), "Peter Young", "Peter Young"),
        (("de", "en"), "Anna,  Jean-Paul", "Anna, Jean-Paul"),
        (("de", "en"), "Peter Schulz", "Peter Schulz"),
        (("de", "en"), "Anna Hilfe!", ""),
        (("en", "de"), "Tom and Anna", ""),
        (("en", "ru"), "Peter Young", ""),
    ],
)
def test_names_alone_are_copied_between_three_languages(languages, text, copied):
    translator = SimpleNamespace(source_language=languages[0], target_language=languages[1])
    assert copied_text(translator, text) == copied


def test_a_copied_text_is_not_given_to_the_model(monkeypatch):
    translator = Translator(*tiny_parts(), DECODING, -0.001, target_language="de", source_language="en")
    monkeypatch.delattr(translator, "compiled")
    long = "7 " * 999 + "7"
    (first,), (second,), _ = translator.hypotheses(["😀 12:45", long, ""], n_best=3)
    assert (first.text, first.tokens, first.low_score, first.reason) == ("😀 12:45", [], False, None)
    assert (second.text, second.truncated) == (long, False)
    assert translator.translate("☃") == "☃"
    assert list(translator.stream("17:45")) == ["17:45"]
    assert translator.translate("42", return_attention=True).attention.shape == (0, 0)
    assert translator.reply(["42"])[0]["translations"][0]["reason"] is None


class LoopingSearch:
    """Searches whose answers are in a loop, unless sequences may not be repeated."""

    def __init__(self, loop, other):
        self.answers, self.searches = (loop, other), []

    def search(self, source_ids, limits, max_steps, *, n_best, no_repeat_ngram_size=0, **others):
        self.searches.append((len(source_ids), no_repeat_ngram_size))
        ids = np.append(PIECES.encode([self.answers[no_repeat_ngram_size > 0]])[0], END_ID)
        token_ids = np.zeros((len(limits), n_best, max(max_steps, len(ids))), "int32")
        token_ids[:, :, : len(ids)] = ids
        shape = token_ids.shape[:2]
        return Hypotheses(token_ids, np.full(shape, len(ids)), np.full(shape, -1.0), np.full(shape, -1.0))


@pytest.mark.parametrize(("other", "answer"), [(GERMAN[0], GERMAN[0]), (LOOPS[2], LOOPS[1])])
def test_a_sentence_whose_answer_is_in_a_loop_is_searched_again(other, answer):
    translator = Translator(tiny_parts()[0], PIECES, PIECES, DECODING)
    translator.compiled = LoopingSearch(LOOPS[1], other)
    first, second = translator.hypotheses(["A dog runs.", "Men sit."], n_best=2)
    assert [one.text for one in first + second] == [answer] * 4
    assert first[0].reason == (None if other == GERMAN[0] else "repetition")
    assert translator.compiled.searches == [(8, 0), (1, 3), (1, 3)]
