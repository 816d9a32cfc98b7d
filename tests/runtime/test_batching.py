"""The few programs of the server have the answers of a program for each shape."""

import pytest
from zoo.tiny_entry import ENGLISH, tiny_translator

from keras_attention.runtime import batching
from keras_attention.server import ServerSettings


def answers(translator, texts):
    return [[one.text for one in each] for each in translator.hypotheses(texts, n_best=2)]


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2, 8, 16])
def test_batches_of_every_size_and_length_have_the_answers_of_each_sentence_alone(most, monkeypatch):
    monkeypatch.setattr(batching, "USUAL_LENGTH", 20)
    translator = tiny_translator()
    texts = ["Men sit.", *(text[:-cut] for text in ENGLISH for cut in (1, 3, 5)), "A dog sits."]
    lengths = [len(ids) for ids in translator.encode(texts, 29)[0]]
    assert min(lengths) <= 20 < max(lengths)
    expected = [answers(translator, [text])[0] for text in texts]
    steps = batching.share_batches(translator, ServerSettings(max_batch=most).checked(), lambda size: None)
    assert len(steps) == len({1, min(8, most), most})
    for step in steps:
        step()
    for size in (1, 2, 3, 4, len(texts)):
        assert answers(translator, texts[:size]) == expected[:size]
        assert answers(translator, texts[-size:]) == expected[-size:]
