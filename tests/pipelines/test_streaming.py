"""Answers piece by piece: together they are what the whole search writes."""

import functools

import numpy as np
import pytest
from zoo.tiny_entry import ENGLISH, tiny_parts, tiny_translator

from keras_attention.decoding import sample
from keras_attention.runtime.buckets import answer_limit
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, START_ID, UNKNOWN_ID

translator = functools.cache(tiny_translator)


@pytest.mark.slow
def test_pieces_are_those_of_greedy_search():
    for text in (*ENGLISH, "", "  "):
        pieces = list(translator().stream(text))
        assert "".join(pieces) == translator().translate(text, beam_size=1)
        assert all(pieces)
    assert len(list(translator().stream(ENGLISH[2]))) > 1


@pytest.mark.slow
def test_drawn_pieces_are_those_of_sampling():
    model, source, target = tiny_parts()
    drawing = {"temperature": 1.3, "top_k": 7, "top_p": 0.9}
    ids = np.append(source.encode(ENGLISH[2:3])[0], END_ID)[None].astype("int32")
    memory, answers = model.encode(ids), set()
    for seed in (3, 4, 3):
        hypotheses = sample(
            lambda token_ids, state: model.step(token_ids, state, memory),
            model.initial_state(memory),
            1,
            seed=seed,
            start_id=START_ID,
            end_id=END_ID,
            unknown_id=UNKNOWN_ID,
            max_length=answer_limit(ids.shape[1], translator().decoding),
            **drawing,
        )
        expected = target.decode([np.asarray(hypotheses.token_ids)[0, 0]])[0]
        answers.add("".join(translator().stream(ENGLISH[2], seed=seed, **drawing)))
        assert expected in answers
    assert len(answers) == 2


def test_a_limit_of_tokens_cuts():
    assert len("".join(translator().stream(ENGLISH[2], max_length=3))) <= 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1}, "`temperature` must be a number from 0 to 100. Received: temperature=-1"),
        ({"temperature": 1e300}, "Received: temperature=1e"),
        ({"temperature": float("nan")}, "Received: temperature=nan"),
        ({"temperature": "1"}, "Received: temperature='1'"),
        ({"top_k": -1}, "Received: top_k=-1"),
        ({"top_k": 10**30}, "`top_k` must be an integer"),
        ({"top_k": 2.5}, "Received: top_k=2.5"),
        ({"top_p": 0.0}, "`top_p` must be greater than 0"),
        ({"top_p": 1.5}, "Received: top_p=1.5"),
        ({"seed": -1}, "Received: seed=-1"),
        ({"seed": 2**40}, "`seed` must be an integer"),
        ({"max_length": 0}, "`max_length` must be an integer"),
    ],
)
def test_settings_out_of_range(wrong, message):
    with pytest.raises(UserError, match=message):
        next(translator().stream("A dog", **wrong))


@pytest.mark.parametrize(
    "limit", [{"temperature": 1e-40}, {"temperature": 1e-30}, {"temperature": 100, "top_p": 1e-50}]
)
def test_extreme_settings_that_leave_one_token_are_greedy(limit):
    assert list(translator().stream(ENGLISH[2], seed=3, **limit)) == list(translator().stream(ENGLISH[2]))
