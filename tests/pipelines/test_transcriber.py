"""A transcriber as a pipeline, as an entry, on the command line and at the server."""

import base64
import io
import itertools
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from inputs.sounds import hostile
from PIL import Image
from pipelines.tiny_transcriber import RATE, tiny_strings, tiny_transcriber

import keras_attention as ka
from keras_attention.cli import main as cli
from keras_attention.pipelines.base import failing_examples
from keras_attention.pipelines.media.transcriber import Transcript
from keras_attention.publishing.speech_entries import transcription_scores
from keras_attention.support.errors import EntryError, UserError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a zoo with the entry `tiny_speech`; tests do not change it."""
    zoo = tmp_path_factory.mktemp("zoo")
    tiny_transcriber().save(zoo / "tiny_speech")
    return zoo


@pytest.fixture(scope="module")
def transcriber(saved):
    return ka.load(saved / "tiny_speech")


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    for number, one in enumerate(tiny_strings()):
        soundfile.write(folder / f"{number}.wav", one.waveform, RATE, subtype="FLOAT")
    return [str(folder / f"{number}.wav") for number in range(len(tiny_strings()))]


@pytest.mark.slow
def test_a_transcript_has_the_probability_and_the_attention_of_the_network(transcriber, clips):
    transcripts = transcriber.transcribe(clips, n_best=2)
    for clip, (best, second) in zip(clips, transcripts, strict=True):
        assert best.score >= second.score
        values = transcriber.kind.arrays(transcriber.kind.read(clip))["values"]
        for one in (best, second):
            ids = np.array(one.token_ids)
            inputs = {"values": values[None], "target_ids": np.append(2, ids[:-1])[None]}
            logits, weights = (np.asarray(x)[0] for x in transcriber.model(inputs, return_attention_scores=True))
            log_probs = logits - np.log(np.exp(logits.astype("float64")).sum(axis=-1, keepdims=True))
            assert one.log_prob == pytest.approx(log_probs[np.arange(len(ids)), ids].sum(), abs=1e-3)
            np.testing.assert_allclose(one.attention, weights[: len(one.words)], atol=1e-4)
            assert str(one) == "".join(one.words)


@pytest.mark.slow
def test_forms_of_recordings_and_the_numbers_of_answers(transcriber, clips):
    alone = transcriber.transcribe(clips[0])
    assert isinstance(alone, Transcript)
    pairs = [(one.waveform, RATE) for one in tiny_strings()]
    assert transcriber.transcribe(pairs) == transcriber.transcribe(clips)
    assert transcriber.transcribe(Path(clips[0]).read_bytes()) == alone
    assert transcriber.transcribe([]) == []
    assert pickle.loads(pickle.dumps(alone)).times == alone.times
    done = []
    transcriber.transcribe(clips * 9, progress=lambda *both: done.append(both))
    assert done == [(32, 45), (45, 45)]


def test_times_are_the_means_of_the_attention_over_cells():
    attention = np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5]], "float32")
    assert Transcript("12", words=["1", "2"], attention=attention, cell=0.04).times == pytest.approx([0.06, 0.08])
    assert Transcript().times == []


@pytest.mark.slow
def test_an_answer_is_never_longer_than_words_can_be_spoken(transcriber):
    silence = np.zeros(RATE // 2)
    assert len(transcriber.transcribe((silence, RATE)).token_ids) <= 7


def test_transcripts_of_parts_become_those_of_the_whole():
    attention = np.array([[0.0, 1.0], [0.5, 0.5]], "float32")
    part = Transcript("12", -1.5, -1.0, [4, 5, 3], ["1", "2"], attention, 0.04)
    later = Transcript("3", -0.5, -0.25, [6, 3], ["3"], np.array([[0.0, 0.0, 1.0]], "float32"), 0.04)
    both = part.followed_by(later, 5)
    assert (both, both.words, both.token_ids) == ("123", ["1", "2", "3"], (4, 5, 6, 3))
    assert (both.score, both.log_prob) == (-2.0, -1.25)
    assert both.attention.shape == (3, 8)
    np.testing.assert_array_equal(both.attention.sum(axis=1), 1)
    assert both.times == pytest.approx([*part.times, later.times[0] + 5 * 0.04])


def test_times_count_from_the_beginning_although_the_first_parts_are_left_out():
    part = Transcript("1", -1.0, -1.0, [4, 3], ["1"], np.array([[0.0, 1.0]], "float32"), 0.04)
    (joined,) = tiny_transcriber().joined([(40, [part])], 1)
    assert joined.times == pytest.approx([(40 / 4 + 1.5) * 0.04])
    assert (joined, joined.token_ids, joined.score) == ("1", (4, 3), -1.0)


def test_the_best_sequences_of_transcripts_are_found():
    random = np.random.default_rng(2)
    parts = [
        (40 * i, [Transcript(f"{i}{j}", score, score) for j, score in enumerate(sorted(-random.random(3))[::-1])])
        for i in range(4)
    ]
    joined = tiny_transcriber().joined(parts, 3)
    every = itertools.product(*(transcripts for _, transcripts in parts))
    expected = sorted((sum(one.score for one in some) for some in every), reverse=True)[:3]
    np.testing.assert_allclose([one.score for one in joined], expected)
    assert joined[0] == "00102030"


@pytest.mark.slow
def test_a_long_recording_is_transcribed_in_parts(transcriber):
    strings = [one.waveform for one in tiny_strings(5)]
    waveform = np.concatenate([part for one in strings for part in (one, np.zeros(RATE // 2, "float32"))])
    kind = transcriber.kind
    try:
        kind.part_seconds = 1.5
        parts = kind.parts(kind.read((waveform, RATE)))
        transcript = transcriber.transcribe((waveform, RATE))
    finally:
        kind.part_seconds = None
    assert len(parts) > 2
    separate = transcriber.transcribe([part for _, part in parts])
    assert transcript == "".join(separate)
    assert transcript.log_prob == pytest.approx(sum(one.log_prob for one in separate), abs=1e-3)
    np.testing.assert_allclose(transcript.attention.sum(axis=1), 1, atol=1e-4)
    assert len(transcriber.alignment((waveform, RATE), transcript).weights[0]) >= len(waveform) // 320


@pytest.mark.slow
def test_its_entry_reproduces_its_examples(saved, transcriber, tmp_path):
    assert failing_examples(saved / "tiny_speech") == (2, [])
    again = transcriber.save(tmp_path / "again")
    assert failing_examples(again) == (2, [])
    assert (saved / "tiny_speech" / "example_1.flac").read_bytes() == (again.folder / "example_1.flac").read_bytes()
    copy = pickle.loads(pickle.dumps(transcriber))
    clip = (tiny_strings()[3].waveform, RATE)
    assert copy.transcribe(clip) == transcriber.transcribe(clip)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sound": {"rate": 8000, "window": 256, "hop": 80}}, "frames"),
        ({"sound": {"rate": 8000, "window": 256, "hop": 80, "frames": 1001}}, "frames a multiple of 4"),
        ({"sound": {"rate": 1000, "window": 256, "hop": 16000, "frames": 60000}}, "at most 600 seconds"),
        ({"sound": {"rate": 8000, "window": 4096, "hop": 80, "frames": 1000}}, "window must be"),
        ({"sound": {"rate": 8000, "window": 256, "hop": 80, "frames": 1000, "part_seconds": 0}}, "from 1 to 600"),
        ({"decoding": {"beam_size": 1000}}, "beam_size must be an integer from 1 to 64"),
        ({"language": "a\nb"}, "language must be"),
    ],
)
def test_its_config_is_as_strict_as_any(tmp_path, changes, message):
    with pytest.raises(EntryError, match=message):
        tiny_transcriber().save(tmp_path / "other", **changes)


def test_scores_of_transcripts_that_are_right_and_wrong(monkeypatch):
    transcriber = tiny_transcriber()
    strings = tiny_strings()[:3]
    answers = []
    for one in strings:
        attention = np.zeros((len(one.text), len(one.waveform)), "float32")
        for row, (start, end) in zip(attention, one.places, strict=True):
            row[(start + end) // 2] = 1
        answers.append(Transcript(one.text, words=list(one.text), attention=attention, cell=1 / RATE))
    answers[0] = Transcript(answers[0] + "7", words=[*answers[0].words, "7"], attention=answers[0].attention)
    monkeypatch.setattr(type(transcriber), "transcribe", lambda self, sounds, **search: answers)
    scores = transcription_scores(transcriber, strings)
    words = sum(len(one.text) for one in strings)
    assert scores == {"word errors": pytest.approx(100 / words), "exact": pytest.approx(200 / 3), "pointing": 100}
    answers[1].attention[:] = 0
    assert transcription_scores(transcriber, strings)["pointing"] < 100


@pytest.fixture
def run(saved, monkeypatch, capsys):
    """Runs a command in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(saved))

    def run_command(*words, stdin=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run_command


@pytest.mark.slow
def test_the_command_line_transcribes_recordings(run, transcriber, clips, tmp_path):
    expected = transcriber.transcribe(clips)
    lines = "".join(f"{one}\n" for one in expected)
    assert run("transcribe", "--model", "tiny_speech", *clips) == (0, lines, "")
    code, out, _ = run("transcribe", "--model", "tiny_speech", "--json", clips[2])
    (answer,) = map(json.loads, out.splitlines())
    assert (code, answer["file"]) == (0, clips[2])
    assert answer["transcripts"][0]["text"] == expected[2]
    assert answer["transcripts"][0]["times"] == [round(time, 3) for time in expected[2].times]
    names = "".join(f"{path}\n" for path in clips)
    assert run("transcribe", "--model", "tiny_speech", stdin=names.encode()) == (0, lines, "")
    drawn = tmp_path / "look.png"
    code, out, err = run("transcribe", "--model", "tiny_speech", "--attention", drawn, *clips[:2])
    assert (code, out) == (0, "".join(f"{one}\n" for one in expected[:2]))
    assert err.count("where each word looks") == 2
    for number in (1, 2):
        assert Image.open(tmp_path / f"look-{number}.png").size[0] > 300


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile())
def test_hostile_sounds_are_one_line(run, clips, tmp_path, name):
    content, message = hostile()[name]
    (tmp_path / "hostile.wav").write_bytes(content)
    code, out, err = run("transcribe", "--model", "tiny_speech", clips[0], tmp_path / "hostile.wav")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.slow
def test_other_commands_refuse_it_in_one_line(run, clips, tmp_path):
    for words in (["classify", clips[0]], ["caption", clips[0]]):
        code, out, err = run(words[0], "--model", "tiny_speech", *words[1:])
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "it can transcribe" in err
    code, _, err = run("export", "tiny_speech", tmp_path / "exported")
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot be exported" in err
    code, _, err = run("transcribe", clips[0])
    assert (code, err.count("\n")) == (0, 1)
    assert "speech_digits answers" in err
    soundfile.write(tmp_path / "long.wav", np.zeros(12 * RATE), RATE)
    code, out, err = run("transcribe", "--model", "tiny_speech", tmp_path / "long.wav")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "long.wav has 12.0 seconds. This model reads up to 10" in err


@pytest.mark.slow
def test_a_request_is_answered(transcriber, clips):
    sound = base64.b64encode(Path(clips[1]).read_bytes()).decode()
    (answer,) = transcriber.reply(sounds=[sound], n_best=2, attention=True)
    best, second = answer["transcripts"]
    assert best["text"] == transcriber.transcribe(clips[1])
    assert best["log_prob"] >= second["log_prob"]
    assert len(best["attention"]) == len(best["words"]) == len(best["times"])
    assert transcriber.reply(sounds=[sound])[0]["transcripts"][0]["attention"] is None
    json.dumps(answer)
    with pytest.raises(UserError, match="A sound must be base64"):
        transcriber.reply(sounds=["no base64!"])
