"""Translations that begin with a given text, use given terms, and keep names."""

import functools
import time

import numpy as np
import pytest
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts, tiny_translator

from keras_attention.pipelines.control import alternatives, constrained_answers
from keras_attention.pipelines.control.constrained_answers import boundaries, prefixes_of_sentences
from keras_attention.pipelines.control.terms import Terms, read_names, read_terms
from keras_attention.pipelines.translations import Translation
from keras_attention.pipelines.translator import Translator
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import SentencePieceTokenizer

GERMAN = ["Ein Hund läuft durch den Schnee.", "Zwei Männer sind bei den Büschen.", "Ein Mädchen steigt Treppen hinauf."]


@functools.cache
def translator():
    """An untrained translator from English to German."""
    tokenizers = SentencePieceTokenizer.train(ENGLISH, 61), SentencePieceTokenizer.train(GERMAN, 97)
    model, source, target = tiny_parts(seed=5, tokenizers=tokenizers)
    return Translator(model, source, target, DECODING, source_language="en", target_language="de")


@pytest.mark.slow
def test_every_answer_begins_with_the_prefix():
    for prefix in ("Zwei Hund", "Ein Mädchen", "d", "Ein  Hund. "):
        translations = translator().hypotheses(ENGLISH[:2], prefix=prefix, n_best=3)
        assert [len(some) for some in translations] == [3, 3]
        for answer in (one for some in translations for one in some):
            assert answer.text.startswith(prefix.strip())
            following = answer.text[len(prefix.strip()) :][:1]
            assert prefix == prefix.rstrip() or not following.isalnum()
    alone = translator().translate(ENGLISH[0], prefix="Zwei ")
    assert alone == translator().translate(ENGLISH, prefix=["Zwei ", None, None, ""])[0]


def test_an_answer_that_begins_so_anyway_is_the_usual_one():
    usual = translator().translate(ENGLISH[0])
    begun = translator().translate(ENGLISH[0], prefix=usual.text[: len(usual.text) // 2])
    assert (begun.text, begun.token_ids) == (usual.text, usual.token_ids)
    assert begun.score == pytest.approx(usual.score, abs=1e-4)
    assert translator().translate(ENGLISH[0], prefix="") == usual


def test_the_attention_of_a_forced_answer_is_that_of_its_tokens():
    answer = translator().translate(ENGLISH[0], prefix="Zwei", return_attention=True)
    assert answer.attention.shape == (len(answer.tokens), len(answer.source_tokens))
    np.testing.assert_allclose(answer.attention.sum(axis=1), 1.0, atol=1e-5)


def test_a_forced_answer_with_tags_has_no_weights_that_nobody_asked_for():
    answer = translator().translate("A <b>black</b> dog runs.", prefix="Zwei")
    assert (answer.attention, answer.heads, answer.alignment) == (None, None, None)


def test_a_prefix_of_several_sentences_is_shared_among_them():
    text = f"{ENGLISH[0]} {ENGLISH[3]}"
    first, second = translator().translate(text).sentences
    translation = translator().translate(text, prefix=f"{first} Zwei Männer ")
    assert translation.text.startswith(f"{first} Zwei Männer")
    assert translation.sentences[0].token_ids == first.token_ids
    assert prefixes_of_sentences("Ja. Nein. Gut", ["Ja. Nein.", "x"], "de") == ["Ja. Nein.", "Gut"]
    assert prefixes_of_sentences("Doch. Nein. Gut ", ["Ja.", "x"], "de") == ["Doch.", "Nein. Gut "]
    assert prefixes_of_sentences("Do", ["Ja.", "x", "y"], "de") == ["Do", "", ""]
    assert prefixes_of_sentences("", ["Ja.", "x"], "de") == ["", ""]


@pytest.mark.slow
def test_terms_are_in_the_answers_to_sentences_that_have_them():
    usual = translator().translate(ENGLISH)
    terms = {"dog": "Männer", "red dress": "Treppen", "cat": "Hund"}
    translations = translator().translate([*ENGLISH, "A DOG, a dog."], terms=terms)
    assert translations[1] == usual[1]
    assert translations[3] == usual[3]
    assert "Männer" in translations[0].split() + translations[0].replace(".", "").split()
    assert "Treppen" in translations[2].replace(",", " ").replace(".", " ").split()
    assert translations[4].count("Männer") >= 2 or translations[4].reason == "terms differ"


def test_a_missing_term_or_prefix_is_a_doubt(monkeypatch):
    monkeypatch.setattr(constrained_answers, "search_with_constraints", lambda *_, **options: [usual])
    usual = translator().translate(ENGLISH[0])
    translation = translator().translate(ENGLISH[0], terms={"dog": "Treppen"})
    assert (translation.reason, translation.low_score) == ("terms differ", True)
    translation = translator().translate(ENGLISH[0], prefix="Treppen")
    assert (translation.reason, translation.low_score) == ("prefix differs", True)


def test_a_lost_amount_is_searched_again_with_terms(monkeypatch):
    """With terms, "€5" became "$5", which was doubted but not searched again."""

    def search(translator, text, prefix, terms, **options):
        searches.append(text)
        return [Translation(f"{prefix}{text.replace('€5', '$5')} {' '.join(terms)}", tokens=["x"])]

    searches = []
    usual = translator().translate(ENGLISH[0])
    monkeypatch.setattr(Translator, "hypotheses", lambda self, texts, split=True, **options: [[usual]] * len(texts))
    monkeypatch.setattr(constrained_answers, "search_with_constraints", search)
    ((answer, *_),) = constrained_answers.controlled_hypotheses(
        translator(), ["Dogs cost €5."], prefix="Zwei ", terms={"dogs": "Treppen"}
    )
    assert (answer.text, answer.reason) == ("Zwei Dogs cost €5. Treppen", None)
    assert searches == ["Dogs cost €5.", "Dogs cost 100."]


def test_a_prefix_has_the_stand_ins_of_its_items():
    sentence, prefix = "Pay €5, 25 or 5 to {name}.", "Zahle {name} €5, 25 oder 5 von 255"
    _, mask, masked_prefix = constrained_answers.masked(sentence, prefix, None, ("en", "de"), attempt=1)
    stand_ins = {item: stand_in for stand_in, item in mask.pairs}
    expected = f"Zahle {stand_ins['{name}']} {stand_ins['€5']}, {stand_ins['25']} oder {stand_ins['5']} von 255"
    assert masked_prefix == expected


def test_names_stay_as_they_are(monkeypatch):
    seen = []
    encode = translator().source_tokenizer.encode
    monkeypatch.setattr(translator().source_tokenizer, "encode", lambda texts: seen.extend(texts) or encode(texts))
    translation = translator().translate("A dog runs in Red Hat.", do_not_translate=["Red Hat"])
    assert any("Red Hat" not in text and "runs in" in text for text in seen), "the model reads a stand-in"
    assert "Red Hat" in translation or translation.reason == "items differ"


def test_alternatives_keep_names_and_terms(monkeypatch):
    """The model read the names when it looked for the next words."""
    read, options = [], {"do_not_translate": ["dog"], "terms": {"runs": "Treppen"}}
    next_log_probs = alternatives.next_log_probs
    monkeypatch.setattr(alternatives, "next_log_probs", lambda *given: read.append(given[1]) or next_log_probs(*given))
    (one,) = translator().alternatives("A dog runs.", 0, n=1, translation="Ein", **options)
    assert read == ["A Paris runs."]
    assert "dog" in one.translation or one.translation.reason in ("items differ", "terms differ")
    assert "Treppen" in one.translation or one.translation.reason == "terms differ"


def test_a_word_ends_before_a_blank_or_a_sign():
    tokenizer = translator().target_tokenizer
    pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
    actual = dict(zip(pieces, boundaries(tokenizer).tolist(), strict=True))
    assert (actual["▁Hund"] if "▁Hund" in actual else actual["▁"], actual["."], actual["</s>"]) == (True, True, True)
    assert not any(actual[piece] for piece in ("n", "e", "<pad>", "<s>") if piece in actual and piece.isalnum())


@pytest.mark.parametrize(
    ("sentence", "allowed"),
    [("A dog runs.", False), ("A dog runs!”", False), ("No. A dog runs.", True), ("3 dogs", True)],
)
def test_terms_stand_before_the_full_stop(sentence, allowed):
    """The small models wrote their own word, a full stop and then the term: "... kam heute an. Rechnung."."""
    tokenizer = translator().target_tokenizer
    constraints = constrained_answers._constraints(translator(), sentence, "", ["Hund"])
    progress = constraints.first()
    stop = tokenizer.tokens(range(tokenizer.vocabulary_size)).index(".")
    assert (constraints.after(progress, stop) is not None) == allowed
    for token in tokenizer.encode(["Hund"])[0].tolist():
        progress = constraints.after(progress, token)
    assert constraints.after(progress, stop) is not None
    dotted = constrained_answers._constraints(translator(), sentence, "Hund.", ["Hund."])
    progress = dotted.first()
    for token in tokenizer.encode(["Hund."])[0].tolist():  # of the prefix and of the term itself
        progress = dotted.after(progress, token)
    assert dotted.may_end(progress)


def test_terms_are_whole_words_the_longest_first():
    terms = Terms({"bank": "Bank", "bank account": "Konto", "US": "USA"})
    assert terms.translations_in("My Bank  account, bank; banks us US bank-account") == ["Konto", "Bank", "USA", "Bank"]
    assert Terms({}).translations_in("bank") == []
    assert Terms({"@home": "zu Hause", "c++": "C"}).translations_in("I am @home with C++, c++ and x@home") == [
        "zu Hause",
        "C",
        "C",
    ]


def test_a_long_list_of_terms_takes_no_longer_to_search():
    terms = Terms({f"a{number} word": f"w{number}" for number in range(30_011)})
    text, start = "a17 word and a30010  word of a5 words, " * 1009, time.process_time()
    assert terms.translations_in(text) == ["w17", "w30010"] * 1009
    assert time.process_time() - start < 3


@pytest.mark.slow
def test_each_alternative_at_a_position_has_a_whole_translation():
    text = f"{ENGLISH[0]} {ENGLISH[3]}"
    usual = translator().translate(text)
    words = usual.split()
    for position in (0, len(usual.sentences[0].split()), len(words) - 1):
        words_found = translator().alternatives(text, position, n=3)
        assert 1 <= len(words_found) <= 3
        assert len({one.word for one in words_found}) == len(words_found)
        probabilities = [one.probability for one in words_found]
        assert probabilities == sorted(probabilities, reverse=True)
        for one in words_found:
            assert one.translation.split()[: position + 1] == [*words[:position], one.word]
            assert one.translation.startswith(one.prefix.rstrip())
    best = translator().alternatives(text, 0, n=20)
    assert best[0].probability <= 1.0
    again = translator().alternatives(text, 1, translation=str(best[-1].translation), n=1)
    assert again[0].translation.split()[0] == best[-1].word


@pytest.mark.parametrize(
    ("position", "n", "message"),
    [
        (99, 5, "`position` is a word of the translation, from 0 to "),
        (-1, 5, "Received: -1"),
        (0, 21, "`n` must lie between 1 and 20. Received: 21"),
        (0, 0, "Received: 0"),
    ],
)
def test_places_that_do_not_exist_are_one_line(position, n, message):
    with pytest.raises(UserError) as error:
        translator().alternatives(ENGLISH[0], position, n=n, translation="Ein Hund")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": "漢"}, "The model cannot write '漢': it does not know all letters of this `prefix`."),
        ({"prefix": "Hund " * 99}, "`prefix` is longer than an answer, which has at most 19 tokens."),
        ({"prefix": 7}, "`prefix` must be a str, or a list of one str or None a text. Received: 7"),
        ({"prefix": ["a", "b"]}, "`prefix` must be a str, or a list of one str or None a text."),
        ({"prefix": "Ein", "coverage_penalty": 0.3}, "no coverage penalty: leave out `coverage_penalty`."),
        ({"terms": {"dog": "漢"}}, "The model cannot write the term '漢'"),
        ({"terms": {"dog": " "}}, "a term must be a text. Received: ' '"),
        ({"terms": {"dog": "a\nb"}}, "a term must be one line without control characters"),
        ({"terms": ["dog"]}, "`terms` must be a dict from term to translation. Received: list"),
        ({"terms": {"d" * 201: "Hund"}}, "a term has at most 200 characters. Received: 201"),
        ({"do_not_translate": "dog"}, "`do_not_translate` must be a list of str. Received: str"),
        ({"do_not_translate": [""]}, "a term must be a text. Received: ''"),
        ({"do_not_translate": ["dog"], "keep_items": False}, "`do_not_translate` needs a model between natural"),
    ],
)
def test_demands_that_cannot_be_met_are_one_line(options, message):
    with pytest.raises(UserError) as error:
        translator().translate(ENGLISH[0], **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_model_of_characters_has_a_prefix_of_characters():
    translation = tiny_translator().translate(ENGLISH[0], prefix="20")
    assert translation.text.startswith("20")
    with pytest.raises(UserError, match="writes characters, not words"):
        tiny_translator().alternatives(ENGLISH[0], 0)
    with pytest.raises(UserError, match="between natural languages"):
        tiny_translator().translate(ENGLISH[0], do_not_translate=["dog"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "terms.tsv"),
        (b"\n \n", "there is no term"),
        (b"dog\tHund\ncat\n", "line 2: found 'cat'. Expected: a term, a tab, and its translation."),
        (b"dog\tHund\tx\n", "line 1: found"),
        (b"\tHund\n", "line 1: found"),
        (b"dog\tHund\n\ndog\tKatze\n", "line 3: 'dog' has two translations, 'Hund' and 'Katze'."),
        (b"dog\tHu\x00nd\n", "line 1, column 7: found a NUL character."),
        (b"dog\tHu\x07nd\n", "line 1: a term must be one line without control characters"),
        (b"dog\t\xff\n", "UTF-8"),
        (b"d" * 300 + b"\tHund\n", "line 1: a term has at most 200 characters"),
    ],
)
def test_a_broken_file_of_terms_is_one_line(tmp_path, content, message):
    path = tmp_path / "terms.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        read_terms(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_files_of_terms_and_names_are_read(tmp_path):
    path = tmp_path / "list"
    path.write_text("\ufeffdog\tHund\r\n\r\n red  dress\trotes Kleid \n", encoding="utf-8")
    assert read_terms(path) == {"dog": "Hund", "red dress": "rotes Kleid"}
    path.write_text("Red Hat\n\nSAP\n")
    assert read_names(path) == ["Red Hat", "SAP"]
    path.write_text("\n")
    with pytest.raises(UserError, match="there is no name"):
        read_names(path)
