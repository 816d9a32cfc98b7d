"""What each setting of a text generator does, on a model whose answers can be computed from its table."""

import random
import time
from collections import Counter

import numpy as np
import pytest
from pipelines.table_model import WINDOW, greedy, log_softmax, next_logits, possible, table_generator

from keras_attention.pipelines.generated_text import stop_overlap
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID

PROMPTS = ["a dog", "", "no", "bee"]
N = 64


@pytest.fixture(scope="module")
def one():
    return table_generator()


def first_tokens(generator, prompt, seeds, top_p=1.0, **settings):
    """The first token of 64 answers for each seed."""
    return [
        answer.token_ids[0]
        for seed in range(seeds)
        for answer in generator.generations(prompt, n=N, max_tokens=1, seed=seed, top_p=top_p, **settings)
    ]


def check_frequencies(drawn, probabilities):
    """Pearson's statistic lies within five standard deviations of its mean, the degrees of freedom."""
    counts = Counter(drawn)
    assert counts.keys() <= probabilities.keys()
    total = sum(probabilities.values())
    expected = {token: len(drawn) * probability / total for token, probability in probabilities.items()}
    statistic = sum((counts[token] - number) ** 2 / number for token, number in expected.items())
    freedom = len(expected) - 1
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


def test_greedy_answers_take_the_most_probable_token_and_tell_its_log_probability(one):
    answers = one.generations(PROMPTS, max_tokens=7, temperature=0.0)
    for prompt, (answer,) in zip(PROMPTS, answers, strict=True):
        ids, log_probs = greedy(one, prompt, 7)
        assert answer.token_ids == ids
        np.testing.assert_allclose(answer.log_probs, log_probs, atol=1e-5)
        assert answer.finish == ("end" if ids[-1] == END_ID else "length")
        assert answer.text == one.tokenizer.decode([[token for token in ids if token != END_ID]])[0]


@pytest.mark.parametrize("shift", [-11.0, 0.0, 11.0])
def test_the_penalty_makes_seen_tokens_less_probable_whatever_the_sign_of_their_logits(shift):
    one = table_generator(shift)
    generations = one.generations(PROMPTS, max_tokens=7, temperature=0.0, repetition_penalty=1.7)
    for prompt, (answer,) in zip(PROMPTS, generations, strict=True):
        ids, log_probs = greedy(one, prompt, 7, penalty=1.7)
        assert answer.token_ids == ids
        np.testing.assert_allclose(answer.log_probs, log_probs, atol=1e-5)
    assert generations != one.generations(PROMPTS, max_tokens=7, temperature=0.0)


def test_a_long_text_is_read_on_from_the_last_half_of_the_window(one):
    prompts = ["abcdefghijklmnoabcdefghi", "a dog"]
    answers = one.generations(prompts, max_tokens=2 * WINDOW + 3, temperature=0.0)
    for prompt, (answer,) in zip(prompts, answers, strict=True):
        ids, log_probs = greedy(one, prompt, 2 * WINDOW + 3)
        assert answer.token_ids == ids
        np.testing.assert_allclose(answer.log_probs, log_probs, atol=1e-5)
    assert len(answers[0][0].token_ids) == 2 * WINDOW + 3


@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.3])
def test_tokens_are_drawn_with_the_probabilities_at_a_temperature(one, temperature):
    drawn = first_tokens(one, "no", 7, temperature=temperature)
    check_frequencies(drawn, possible(one, "no", temperature))


@pytest.mark.parametrize("top_k", [1, 3, 17])
def test_top_k_draws_from_the_most_probable_tokens_only(one, top_k):
    probabilities = dict(list(possible(one, "bee", 5.0).items())[:top_k])
    drawn = first_tokens(one, "bee", 3, temperature=5.0, top_k=top_k)
    assert {*drawn} == {*probabilities}
    if top_k > 1:
        check_frequencies(drawn, probabilities)


@pytest.mark.parametrize(("top_p", "top_k"), [(0.3, 0), (0.8, 0), (0.999, 0), (1e-6, 0), (0.8, 5)])
def test_top_p_draws_from_the_fewest_tokens_that_reach_it(one, top_p, top_k):
    probabilities = dict(list(possible(one, "bee", 5.0).items())[: top_k or None])
    total, nucleus, reached = sum(probabilities.values()), {}, 0.0
    for token, probability in probabilities.items():
        if reached < top_p:
            nucleus[token] = probability
            reached += probability / total
    drawn = first_tokens(one, "bee", 5, temperature=5.0, top_p=top_p, top_k=top_k)
    assert {*drawn} == {*nucleus}
    if len(nucleus) > 1:
        check_frequencies(drawn, nucleus)


def test_the_penalty_comes_before_temperature_and_top_k(one):
    """As in the paper: the logits are penalized, divided by the temperature, and then cut."""
    ids = [END_ID, *one.tokenizer.encode(["bee"])[0].tolist()]
    logits = next_logits(one, ids, len(ids)).astype("float64")
    for token in {*ids} - {END_ID}:
        logits[token] = logits[token] / 3 if logits[token] > 0 else logits[token] * 3
    logits[: END_ID + 1] = np.where(np.arange(END_ID + 1) == END_ID, logits[: END_ID + 1], -np.inf)
    best = np.argsort(-logits)[:5]
    probabilities = np.exp(log_softmax(logits[best] / 2))
    drawn = first_tokens(one, "bee", 3, temperature=2.0, top_k=5, repetition_penalty=3.0)
    check_frequencies(drawn, dict(zip(best.tolist(), probabilities, strict=True)))


def test_an_answer_depends_on_its_prompt_seed_and_number_alone(one):
    settings = {"max_tokens": 7, "temperature": 1.5, "seed": 5}
    several = one.generate("no", n=3, **settings)
    assert len({*several}) == 3
    assert one.generate(["a dog", "no", "bee"], n=3, **settings)[1] == several
    assert one.generate("no", **settings) == several[0]
    assert one.generate("no", n=3, **settings) == several
    assert one.generate("no", n=3, **{**settings, "seed": 6}) != several


def test_each_step_draws_a_number_of_its_own(one):
    """Also after the window has slid, and from one chunk of tokens to the next."""
    (answer,) = one.generations("no", max_tokens=67, temperature=30.0)
    assert len({*answer.token_ids}) > 11


DEFAULTS = {"max_tokens": 200, "temperature": 0.8, "top_k": 0, "top_p": 0.9, "repetition_penalty": 1.0, "seed": 0}


def test_the_defaults_are_those_of_the_documentation(one):
    expected = one.generations("no", **DEFAULTS)
    assert one.generations("no") == expected
    assert one.generations("no", stop=[]) == expected
    assert "default 200" in one.generate.__doc__
    assert "default 0.8" in one.generate.__doc__
    assert "default 0.9" in one.generate.__doc__


@pytest.mark.parametrize(
    ("name", "low", "high", "outside"),
    [
        ("max_tokens", 1, 100_000, [0, 100_001, 2.0, True]),
        ("temperature", 0, 100.0, [-0.1, 100.1, float("nan"), "1"]),
        ("top_k", 0, 2**31 - 1, [-1, 2**31, 1.0]),
        ("top_p", 0.01, 1.0, [0.0, 1.01, float("nan")]),
        ("repetition_penalty", 0.01, 100, [0.0, 0.009, 101.0]),
        ("seed", 0, 2**31 - 1, [-1, 2**31]),
    ],
)
def test_each_setting_has_its_range(one, name, low, high, outside):
    for value in (low, high):
        assert one.generate("no", **{"max_tokens": 1, "stop": list(one.tokenizer.characters), name: value}) == ""
    for value in outside:
        with pytest.raises(UserError, match=f"`{name}` must be .* Received: {name}="):
            one.generate("no", **{"max_tokens": 1, name: value})


# Stop texts


def test_the_earliest_of_two_stop_texts_that_one_token_completes_is_cut_at(one):
    (whole,) = one.generations("a dog", max_tokens=11, seed=2)
    long, short = whole.text[2:5], whole.text[3:5]
    assert (whole.text.index(long), whole.text.index(short)) == (2, 3)
    for stop in ([long, short], [short, long], ["zz", short, long]):
        (answer,) = one.generations("a dog", max_tokens=11, seed=2, stop=stop)
        assert (answer.text, answer.finish) == (whole.text[:2], "stop")
        assert answer.token_ids == whole.token_ids[:5]


def test_a_stop_text_that_is_not_written_changes_nothing(one):
    (whole,) = one.generations("a dog", max_tokens=11, seed=2)
    assert one.generations("a dog", max_tokens=11, seed=2, stop=["zz", "a dog"]) == [whole]


def test_a_stop_text_is_one_of_the_answer_and_not_of_the_prompt(one):
    whole = one.generate("bee", max_tokens=7, seed=2)
    begins_in_the_prompt = "e" + whole[:1]
    assert begins_in_the_prompt not in whole
    assert one.generate("bee", max_tokens=7, seed=2, stop=begins_in_the_prompt) == whole


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"seed": 4}, {"seed": 2, "stop": ["o", "ab", "n"]}])
def test_pieces_together_are_the_text(one, settings):
    for prompt in PROMPTS:
        pieces = list(one.stream(prompt, max_tokens=11, **settings))
        assert "".join(pieces) == one.generate(prompt, max_tokens=11, **settings)
        assert all(pieces)


def test_no_piece_shows_the_beginning_of_a_stop_text(one):
    whole = one.generate("a dog", max_tokens=11, seed=2)
    shown = ""
    for piece in one.stream("a dog", max_tokens=11, seed=2, stop=whole[3:7]):
        shown += piece
        assert whole.startswith(shown)
        assert len(shown) <= 3
    assert shown == whole[:3]
    assert list(one.stream("a dog", max_tokens=11, seed=2, stop=whole[:3])) == []


def test_as_many_characters_are_held_back_as_may_begin_a_stop_text():
    letters = random.Random(7)
    for _ in range(2003):
        stop, text = ("".join(letters.choices("ab", k=letters.randrange(low, 11))) for low in (1, 0))
        expected = max((n for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0)
        assert stop_overlap(stop, text) == expected


def test_a_stream_with_a_stop_text_of_a_megabyte_takes_no_longer(one):
    whole = one.generate("a dog", max_tokens=11, seed=2)
    start = time.process_time()
    assert "".join(one.stream("a dog", max_tokens=11, seed=2, stop=whole[-1] * 1_000_003)) == whole
    assert time.process_time() - start < 5


def test_a_long_stream_begins_with_one_token_and_loses_none():
    """Its chunks grow with the time that one takes, up to those of an answer at once."""
    one = table_generator(window=211)
    expected = one.generations("no", max_tokens=151, temperature=0.0)[0]
    pieces = list(one.pieces(["no"], max_tokens=151, temperature=0.0))
    assert pieces[0].tokens == 1
    assert sum(piece.tokens for piece in pieces) == len(expected.token_ids) == 151
    assert "".join(piece.text for piece in pieces) == expected.text
    assert expected.token_ids == greedy(one, "no", 151)[0]
