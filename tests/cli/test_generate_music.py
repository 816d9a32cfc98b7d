"""`keras-attention generate` of a model of music: MIDI files in and out, and pictures."""

import mido
import numpy as np
import pytest
from data.music.test_midi_files import sounding
from zoo.tiny_gpt import tiny_generator
from zoo.tiny_music import PIECES, tiny_musician

from keras_attention.data.music.chorales import as_text, steps_of
from keras_attention.data.music.midi_files import notes_of, read_midi, write_midi
from keras_attention.pipelines.base import load_pipeline

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "musician"
    tiny_musician().save(folder)
    return folder


def test_writes_a_file_that_plays(run, model, tmp_path):
    code, out, _ = run("generate", "--model", model, "--out", tmp_path / "new.mid", "--max-tokens", "67")
    text = load_pipeline(model).generate("", max_tokens=67)
    steps = steps_of(text)
    assert code == 0
    assert out == f"{tmp_path / 'new.mid'}: {len(steps) / 16:.1f} bars, {len(notes_of(steps))} notes\n"
    expected = {(voice, pitch, start, length) for voice, start, length, pitch in notes_of(steps)}
    assert sounding(mido.MidiFile(tmp_path / "new.mid")) == expected


def test_continues_a_midi_file(run, model, tmp_path):
    write_midi(PIECES[0][:13], tmp_path / "song.mid")
    code, out, err = run("generate", "--model", model, tmp_path / "song.mid", "--max-tokens", "23")
    prompt = as_text(PIECES[0][:13])
    answer = prompt + load_pipeline(model).generate(prompt, max_tokens=23)
    assert (code, out, err) == (0, f"{answer}\n", "")
    files = "--out", tmp_path / "new.mid", "--attention", tmp_path / "map.png"
    assert run("generate", "--model", model, tmp_path / "song.mid", "--max-tokens", "23", *files)[0] == 0
    np.testing.assert_array_equal(read_midi(tmp_path / "new.mid")[:13], PIECES[0][:13])
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    page = "--attention", tmp_path / "map.html"
    assert run("generate", "--model", model, prompt, "--max-tokens", "5", *page)[0] == 0
    assert "<html" in (tmp_path / "map.html").read_text()


def test_mistakes_are_one_line_and_leave_nothing(complains, model, tmp_path):
    (tmp_path / "bad.mid").write_bytes(b"no music")
    before = sorted(tmp_path.rglob("*"))
    out = "--out", tmp_path / "new.mid"
    flags = "generate", "--model", model
    assert "bad.mid: is no MIDI file" in complains(*flags, tmp_path / "bad.mid", *out)
    assert "ends with .mid" in complains(*flags, "--out", tmp_path / "new.wav")
    assert "one prompt and one answer" in complains(*flags, "", "", *out)
    assert "one prompt and one answer" in complains(*flags, "--n", "2", *out)
    assert "leave out --json" in complains(*flags, "--json", *out)
    assert "The soprano of step 1" in complains(*flags, "Hello", *out)
    assert "The soprano of step 1" in complains(*flags, "Hello")
    assert "missing" in complains(*flags, "--out", tmp_path / "missing" / "new.mid")
    assert "must end with" in complains(*flags, "--attention", tmp_path / "map.txt")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_model_of_texts_writes_no_music(complains, run, tmp_path):
    tiny_generator("char").save(tmp_path / "writer")
    write_midi(PIECES[0], tmp_path / "song.mid")
    flags = "generate", "--model", tmp_path / "writer"
    for more in (("--out", tmp_path / "new.mid"), (tmp_path / "song.mid",)):
        assert "the model writes texts, not music" in complains(*flags, *more)
    assert "is a page (.html)" in complains(*flags, "A", "--attention", tmp_path / "map.png")
    code, out, err = run(*flags, "A dog", "--max-tokens", "3", "--attention", tmp_path / "map.html")
    assert (code, out.startswith("A dog")) == (0, True)
    assert "attention weights" in err
