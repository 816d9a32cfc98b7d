"""Which words decide a word of an answer: the effects equal those of texts computed one at a time."""

import json

import numpy as np
import pytest
from zoo.tiny_entry import ENGLISH, tiny_translator
from zoo.tiny_gpt import tiny_generator

from keras_attention.pipelines.control import word_effects
from keras_attention.pipelines.control.word_effects import left_out
from keras_attention.runtime.work_budget import MemoryBudget, Unwanted, working
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, START_ID


def by_hand(translator, text, ids):
    """The log probability of each token of a forced answer to one text."""
    source = [*translator.source_tokenizer.encode([text.strip()])[0].tolist(), END_ID]
    batch = {"source_ids": np.array([source], "int32"), "target_ids": np.array([[START_ID, *ids[:-1]]], "int32")}
    logits = np.asarray(translator.network(batch, training=False))[0].astype("float64")
    return np.array([row[token] - np.log(np.sum(np.exp(row))) for row, token in zip(logits, ids, strict=True)])


def test_effects_of_a_translation_are_those_of_each_word_left_out_alone():
    translator, text = tiny_translator(), "A dog runs near bushes."
    (sentence,) = translator.explain(text).sentences
    answer = translator.translate(text)
    ids = [token for token in answer.token_ids if token != END_ID]
    assert (sentence.text, sentence.answer, sentence.truncated) == (text, answer, False)
    assert sentence.sources == ["A", "dog", "runs", "near", "bushes", "."]
    assert "".join(sentence.targets) == answer
    whole = by_hand(translator, text, ids)
    hidden = ["dog runs near bushes.", "A runs near bushes.", "A dog near bushes.", "A dog runs bushes."]
    hidden += ["A dog runs near.", "A dog runs near bushes"]
    others = [by_hand(translator, one, ids) for one in hidden]
    begin = 0
    for row, target in enumerate(sentence.targets):  # a token is a character
        some = slice(begin, begin := begin + len(target))
        assert sentence.log_probs[row] == pytest.approx(whole[some].sum(), abs=1e-4)
        expected = [whole[some].sum() - other[some].sum() for other in others]
        assert sentence.effects[row] == pytest.approx(expected, abs=1e-4)
    assert np.abs(sentence.effects).max() > 1e-2


def test_a_contrast_is_the_log_ratio_of_two_words():
    translator, text, target = tiny_translator(), "A dog runs.", "2023-12-07"
    view = translator.explain(text, target=target, contrast=("12", "31"))
    contrast = view.sentences[0].contrast
    assert (view.answer, contrast.word, contrast.other, contrast.position) == (target, "12", "31", 2)

    def ratio(text):
        ids, others = (translator.target_tokenizer.encode([one])[0].tolist() for one in (target, "2023-31"))
        return (by_hand(translator, text, ids)[5:7] - by_hand(translator, text, others)[5:7]).sum()

    assert contrast.log_ratio == pytest.approx(ratio(text), abs=1e-4)
    expected = [ratio(text) - ratio(one) for one in ("dog runs.", "A runs.", "A dog.", "A dog runs")]
    assert contrast.effects == pytest.approx(expected, abs=1e-4)
    assert json.dumps(view.as_json(), allow_nan=False)
    dashes = translator.explain(text, target=target, contrast=("-", "1"), position=3).sentences[0].contrast
    assert dashes.position == 3


class Copying:
    """A network that copies its source: the token at a place of the answer is that of the same place of the source."""

    def __init__(self, size):
        self.size = size

    def get_config(self):
        return {}

    def __call__(self, batch, training=False):
        source, target = batch["source_ids"], batch["target_ids"]
        width = max(source.shape[1], target.shape[1])
        padded = np.pad(source, ((0, 0), (0, width - source.shape[1])))[:, : target.shape[1]]
        return 9.0 * np.eye(self.size, dtype="float32")[padded]


def test_a_model_that_copies_is_decided_by_the_copied_word(monkeypatch):
    translator = tiny_translator()
    tokenizer = translator.target_tokenizer
    translator.source_tokenizer = tokenizer
    monkeypatch.setattr(type(translator), "network", Copying(tokenizer.vocabulary_size))
    (sentence,) = translator.explain("2023-12-07", target="2023-12-07").sentences
    assert sentence.sources == sentence.targets == ["2023", "-", "12", "-", "07"]
    assert np.exp(sentence.log_probs).min() > 0.9
    # Each character that is not copied costs 9; without 2023, -12-07 has its third character in common with it.
    assert [sentence.effects[0, 0], sentence.effects[4, 4]] == pytest.approx([27, 18], abs=1e-3)
    assert np.abs(np.triu(sentence.effects, 1)).max() < 1e-4  # words that come later decide nothing


def test_sentences_are_explained_one_by_one():
    translator = tiny_translator()
    translator.source_language = "en"
    text = f"{ENGLISH[0]} {ENGLISH[3]}"
    view = translator.explain(text)
    assert [one.text for one in view.sentences] == [ENGLISH[0], ENGLISH[3]]
    assert view.answer == translator.translate(text)
    alone = translator.explain(ENGLISH[3]).sentences[0]
    assert view.sentences[1].effects == pytest.approx(alone.effects, abs=1e-4)
    assert len(translator.explain(text, split=False).sentences) == 1
    (nothing,) = translator.explain("").sentences
    assert (nothing.targets, nothing.effects.shape) == ([], (0, 0))
    assert translator.explain(" ".join(["dog"] * 60), split=False).sentences[0].truncated


@pytest.mark.parametrize("level", ["bpe", "char"])
def test_effects_of_a_continuation(level):
    generator, prompt = tiny_generator(level), "A dog runs"
    view = generator.explain(prompt, max_tokens=9, seed=4)
    (sentence,), (generation,) = view.sentences, generator.generations(prompt, max_tokens=9, seed=4)
    assert view.answer == generation.text
    assert sentence.sources == ["A", "dog", "runs", *sentence.targets]
    (beginning,) = generator.token_ids_of([prompt])

    def log_probs(*ids):
        logits = np.asarray(generator.model({"token_ids": np.array([ids], "int32")}))[0].astype("float64")
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return [logits[k - 1, ids[k]] for k in range(1, len(ids))]

    count = len(generation.token_ids)
    total = sum(log_probs(*beginning, *generation.token_ids)[-count:])
    counted = sum(len(group) for group in word_effects._Continued(generator, prompt, generation).groups)
    if counted == count:
        assert sentence.log_probs.sum() == pytest.approx(total, abs=1e-3)
    for column, hidden in enumerate(["dog runs", "A runs", "A dog"]):
        without = log_probs(*generator.token_ids_of([hidden])[0], *generation.token_ids)[-count:]
        whole = log_probs(*beginning, *generation.token_ids)[-count:]
        groups = word_effects._Continued(generator, prompt, generation).groups
        expected = [sum(whole[k] - without[k] for k in group) for group in groups]
        assert sentence.effects[:, column] == pytest.approx(expected, abs=1e-3)
    own = sentence.effects[:, 3:]
    assert np.isnan(own[np.triu_indices(len(own))]).all()
    assert not np.isnan(own[np.tril_indices(len(own), -1)]).any()
    assert json.dumps(view.as_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contrast": "12=31"}, "`contrast` must be two words"),
        ({"contrast": ("12", " ")}, "`contrast` must be two words"),
        ({"contrast": ("12", "12")}, "two different words"),
        ({"contrast": ("13", "31")}, "The answer has no word '13'. Its words: 2023, -, 12, -, 07"),
        ({"contrast": ("12", "31"), "position": 0}, "no word '12' at position 0"),
        ({"contrast": ("12", "31"), "position": -1}, "`position` must be an int"),
        ({"contrast": ("12", "犬")}, "The model cannot write '犬'"),
        ({"contrast": ("12", "3" * 99)}, "is too long"),
        ({"position": 1}, "`position` needs `contrast`"),
        ({"label": "good"}, "are for classifiers"),
        ({"target": "2" * 99}, "A translation has at most 18 tokens here. Received: 99 tokens"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(UserError, match="^[^\n]*$") as caught:
        tiny_translator().explain("A dog runs.", **{"target": "2023-12-07", **options})
    assert message in str(caught.value)


def test_long_texts_are_refused(monkeypatch):
    with pytest.raises(UserError, match="Prompt and answer are explained if the model reads both at once: 29 tokens"):
        tiny_generator("char").explain("A dog", max_tokens=60, seed=1)
    monkeypatch.setattr(word_effects, "MOST_EFFECTS", 3)
    with pytest.raises(UserError, match=r"The text is too long to explain: \d+ pairs of words. Expected: at most 3"):
        tiny_translator().explain("A dog runs.", target="2023-12-07")


def test_a_continuation_without_a_length_ends_where_the_window_does(monkeypatch):
    generator = tiny_generator("char")  # reads 29 tokens
    (sentence,) = generator.explain("A dog", seed=1).sentences
    assert sentence.targets
    whole = generator.explain("A dog", max_tokens=generator.window - len(generator.token_ids_of(["A dog"])[0]), seed=1)
    assert whole.answer.startswith(sentence.answer)
    with pytest.raises(UserError, match="29 tokens. Received: 30. Shorten"):
        generator.explain("A dog", max_tokens=generator.window + 1 - len(generator.token_ids_of(["A dog"])[0]), seed=1)
    monkeypatch.setattr(type(generator), "generations", None)  # refused before it is written
    with pytest.raises(UserError, match="reads both at once: 29 tokens. Received: at least 32. Shorten the prompt"):
        generator.explain("A dog runs near bushes. A dog.")


def test_a_prompt_that_has_more_tokens_without_a_word_is_read_whole_or_refused(monkeypatch):
    generator = tiny_generator("char")
    monkeypatch.setattr(word_effects, "left_out", lambda text, start, end: text + "dog")
    with pytest.raises(UserError, match="29 tokens. Received: 3[0-9]. Shorten"):
        generator.explain("A dog", seed=1)


@pytest.mark.parametrize("target", ["2023-12-07", ""])
def test_many_words_are_refused_whatever_the_answer(monkeypatch, target):
    monkeypatch.setattr(word_effects, "left_out", None)  # each copy of such a text takes memory
    with pytest.raises(UserError, match="pairs of words. Expected: at most 5,000"):
        tiny_translator().explain("1 " * 6000, target=target)


def test_small_batches_give_the_same_effects(monkeypatch):
    translator, text, target = tiny_translator(), "A dog runs near bushes.", "2023-12-07"
    expected = translator.explain(text, target=target).sentences[0]
    for limit in ("BYTES_AT_ONCE", "CHARACTERS_AT_ONCE"):
        monkeypatch.setattr(word_effects, limit, 1)
    actual = translator.explain(text, target=target).sentences[0]
    np.testing.assert_allclose(actual.effects, expected.effects, atol=1e-4)
    np.testing.assert_allclose(actual.log_probs, expected.log_probs, atol=1e-4)


def test_the_effects_take_memory_from_the_budget_and_stop_when_unwanted(monkeypatch):
    translator, taken = tiny_translator(), []
    budget = MemoryBudget(1 << 30)
    with monkeypatch.context() as watched, working(lambda: True, budget):
        of = budget.taken
        watched.setattr(budget, "taken", lambda amount: taken.append(amount) or of(amount))
        translator.explain("A dog runs.", target="2023-12-07")
    assert taken
    assert 0 < sum(taken) < 1 << 27
    monkeypatch.setattr(word_effects, "BYTES_AT_ONCE", 1)
    wanted = iter([True] * 4)
    with pytest.raises(Unwanted), working(lambda: next(wanted, False)):
        translator.explain("A dog runs.", target="2023-12-07")


def test_a_removed_word_takes_one_blank_with_it():
    assert [left_out("A big dog.", *place) for place in ((0, 1), (2, 5), (6, 9), (9, 10))] == [
        "big dog.",
        "A dog.",
        "A big.",
        "A big dog",
    ]


def test_an_answer_of_the_search_is_explained_as_it_is(monkeypatch):
    translator = tiny_translator()
    translator.source_language = "en"
    for text in ("", ENGLISH[0], f"{ENGLISH[0]} {ENGLISH[3]}"):
        expected = translator.explain(text)
        ((best,),) = translator.hypotheses([text])
        with monkeypatch.context() as without_search:
            without_search.setattr(translator, "hypotheses", None)
            view = translator.explain(text, target=best)
        assert json.dumps(view.as_json()) == json.dumps(expected.as_json())


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (tiny_translator, {"target": "2016-08-21"}),
        (lambda: tiny_generator("bpe"), {"max_tokens": 7, "temperature": 0.0}),
    ],
    ids=["translator", "generator"],
)
def test_all_words_of_an_answer_share_the_forward_passes(make, options, monkeypatch):
    calls = []
    for kind in (word_effects._Translated, word_effects._Continued):
        log_probs = kind.log_probs
        monkeypatch.setattr(kind, "log_probs", lambda self, ids, of=log_probs: calls.append(1) or of(self, ids))
    (sentence,) = make().explain("A dog runs near bushes.", **options).sentences
    assert len(sentence.targets) > 1
    assert len(calls) == 1


@pytest.mark.parametrize(
    "target", ["   20 16\n\n\n08", "2016" + " " * 9 + "-\r\n08", "\N{GRINNING FACE} 20 \N{PARTY POPPER} 16"]
)
def test_each_word_has_its_own_tokens_however_a_target_is_written(target):
    translator, text = tiny_translator(), "A dog runs."
    (sentence,) = translator.explain(text, target=target).sentences
    ids = translator.target_tokenizer.encode([target])[0].tolist()
    written = translator.target_tokenizer.decode([np.array(ids)])[0]
    assert "".join(sentence.targets) == "".join(written.split())
    own = by_hand(translator, text, ids)
    position = len(sentence.targets) - 1  # the last word has the last tokens, one for each character
    count = len(sentence.targets[-1])
    assert sentence.log_probs[position] == pytest.approx(own[-count:].sum(), abs=1e-4)


def test_a_copied_answer_has_no_words_of_the_model():
    translator = tiny_translator()
    translator.source_language, translator.target_language = "en", "de"
    view = translator.explain("12:45 " * 60)
    assert [one.targets for one in view.sentences] == [[]] * len(view.sentences)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (f"{ENGLISH[0]} {ENGLISH[3]} {ENGLISH[0]}", {}, "another text: it has 2 sentences, the text 3"),
        (ENGLISH[0], {}, "another text: it has 2 sentences, the text 1"),
        (f"{ENGLISH[0]} {ENGLISH[3]}", {"terms": {}}, "`terms` cannot be given"),
    ],
)
def test_a_translation_of_another_text_is_refused(text, options, message):
    translator = tiny_translator()
    translator.source_language = "en"
    ((best,),) = translator.hypotheses([f"{ENGLISH[0]} {ENGLISH[3]}"])
    with pytest.raises(UserError, match=message):
        translator.explain(text, target=best, **options)


def test_options_of_several_answers_are_refused():
    with pytest.raises(UserError, match="`n_best` and `prefix` cannot be given"):
        tiny_translator().explain("A dog.", prefix="a", n_best=2)
    with pytest.raises(UserError, match="leave out `n`"):
        tiny_generator("char").explain("A dog", n=2)
