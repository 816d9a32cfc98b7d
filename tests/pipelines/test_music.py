"""A text generator of music: which notes it takes, and the attention of a note as loops compute it."""

import functools

import numpy as np
import pytest
from zoo.tiny_gpt import tiny_generator
from zoo.tiny_music import PIECES, note_tokenizer, tiny_musician

from keras_attention.data.music.chorales import as_text, steps_of
from keras_attention.pipelines.base import load_pipeline
from keras_attention.support.errors import UserError

musician = functools.cache(tiny_musician)
TEXT = as_text(PIECES[0])


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("Once upon a time", "The soprano of step 1 is no note of this model: 'Once'"),
        ("12,60,55,48", "The soprano of step 1"),
        (TEXT[: TEXT.index(" ")] + " 70,66,60,127", "The bass of step 2 is no note of this model: '70,66,60,127'"),
        (TEXT[: TEXT.index(" ")] + ",1", "The soprano of step 2"),
    ],
)
def test_unknown_notes_are_refused_in_one_line(prompt, message):
    with pytest.raises(UserError, match=message) as error:
        musician().score(prompt)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("num_steps", [2, 5, 17, 36])
def test_attention_of_a_note_equals_loops(num_steps):
    generator = musician()
    text = as_text(PIECES[1][:num_steps] if num_steps > 4 else PIECES[1][[0, 5]])  # chords of four equal steps
    view = generator.music_view(text)
    steps = steps_of(text)
    voice, step = view.chosen
    assert steps[step, voice] != steps[step - 1, voice]
    assert (steps[step + 1 :] == steps[step]).all()  # no note begins later
    (ids,) = note_tokenizer().encode([text])
    token_ids = np.array([[3, *ids]], "int32")
    weights = np.asarray(generator.model({"token_ids": token_ids}, return_attention_scores=True)[1][0])  # (L, H, T, T)
    bars = np.zeros((2, -(-num_steps // 16), -(-num_steps // 16)))
    for layer in range(2):
        for place in range(4 * num_steps):
            for key in range(1, place + 1):  # the query at `place` predicts the note `place`; key 0 is END
                weight = weights[layer, :, place, key].mean()
                if place == 4 * step + voice:
                    np.testing.assert_allclose(view.weights[layer, (key - 1) // 4, (key - 1) % 4], weight, atol=1e-6)
                bars[layer, place // 64, (key - 1) // 64] += weight
    sizes = [min(16, num_steps - 16 * bar) * 4 for bar in range(bars.shape[1])]
    np.testing.assert_allclose(view.bars, bars / np.array(sizes)[None, :, None], atol=1e-5)


def test_a_long_piece_shows_its_last_bars():
    view = musician().music_view(TEXT)
    assert len(PIECES[0]) == 112
    assert view.num_steps == 32  # whole bars were left out until 37 steps were enough
    assert "(bar 1 is bar 6 of the piece)" in view.title


@pytest.mark.parametrize("text", ["", "-1,-1,-1,-1 -1,-1,-1,-1", TEXT[: TEXT.index(" ")]])
def test_nothing_to_show(text):
    with pytest.raises(UserError, match="no note with others before it"):
        musician().music_view(text)


def test_other_models_have_no_such_picture():
    with pytest.raises(UserError, match="writes texts, not music"):
        tiny_generator("char").music_view("A dog")
    with pytest.raises(UserError, match="has no attention"):
        tiny_musician("lstm").music_view(TEXT)


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_writes_steps_of_four_voices(positions, tmp_path):
    generator = musician(positions=positions)
    text = generator.generate(TEXT[:11], max_tokens=43, temperature=1.0, seed=5)
    assert all(len(step.split(",")) == 4 for step in (TEXT[:11] + text).split()[:-1])
    generator.save(tmp_path / "entry")
    assert generator.samples == [""]
    loaded = load_pipeline(tmp_path / "entry")
    assert loaded.generate(TEXT[:11], max_tokens=43, temperature=1.0, seed=5) == text
