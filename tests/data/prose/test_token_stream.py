"""Texts as one stream of tokens, and its windows."""

from dataclasses import replace

import numpy as np
import pytest

from keras_attention.data.prose.token_stream import StreamSettings, TokenStream, WindowBatches, Windows, load_stream
from keras_attention.support.errors import UserError
from keras_attention.training.run import RunSettings

T, B = 7, 3


class Settings(StreamSettings, RunSettings):
    pass


def test_windows_are_a_function_of_seed_and_epoch():
    stream = np.arange(5, 500, dtype="int32")
    batches = WindowBatches(stream, T, B, seed=2)
    epochs = [batches.epoch(epoch) for epoch in (0, 1, 0)]
    firsts = []
    for epoch in epochs:
        rows = np.concatenate([epoch[i]["token_ids"] for i in range(len(epoch))])
        labels = np.concatenate([epoch[i]["labels"] for i in range(len(epoch))])
        np.testing.assert_array_equal(labels, rows + 1)  # the token after each
        assert rows.shape == (len(epoch) * B, T)
        assert len(np.unique(rows)) == rows.size > len(stream) - T * (B + 1)
        assert rows.dtype == labels.dtype == np.int32
        firsts.append(rows[:, 0])
    np.testing.assert_array_equal(firsts[0], firsts[2])
    assert set(firsts[0]) != set(firsts[1])  # other windows, not the same ones in another order
    assert (WindowBatches(stream, T, B, seed=3).epoch(0)[0]["labels"] != epochs[0][0]["labels"]).any()


@pytest.mark.parametrize("length", [2, 8, 9, 64, 65])
def test_validation_windows_have_each_label_once(length):
    stream = np.arange(5, 5 + length, dtype="int32")
    windows = Windows.all(stream, T, B)
    batches = [windows[i] for i in range(len(windows))]
    labels = np.concatenate([batch["labels"].ravel() for batch in batches])
    inputs = np.concatenate([batch["token_ids"].ravel() for batch in batches])
    np.testing.assert_array_equal(np.sort(labels[labels > 0]), stream[1:])
    np.testing.assert_array_equal(inputs, np.where(labels > 0, labels - 1, 0))
    assert {batch["labels"].shape for batch in batches} == {(B, T)}


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return (str(path),)


def test_documents_stand_between_ends(tmp_path):
    text = write(tmp_path / "a.txt", "".join(f"word{i} is here.\n\n" for i in range(40)))
    stream = load_stream(Settings(text=text, level="char", validation_split=0.1))
    texts = stream.tokenizer.decode(
        [[i for i in part] for part in np.split(stream.train, np.flatnonzero(stream.train == 3))]
    )
    assert [text for text in texts if text] == [f"word{i} is here." for i in range(40) if i % 10]
    assert stream.train[0] == stream.train[-1] == 3
    assert stream.words == 4 * 3
    assert stream.pipeline_options == {}


def test_other_files_are_for_validation(tmp_path):
    text = write(tmp_path / "a.txt", "".join(f"word{i} is here.\n\n" for i in range(40)))
    config = Settings(text=text, validation=write(tmp_path / "b.txt", "is this\n\nhere?\n"), level="char")
    stream = load_stream(config)
    ids = np.concatenate([[3], *([*part, 3] for part in stream.tokenizer.encode(["is this", "here?"]))])
    np.testing.assert_array_equal(stream.validation, ids)
    assert stream.words == 3
    assert np.sum(stream.train == 3) == 41  # all documents of the other file
    assert config.file_names == {"text": ["a.txt"], "validation": ["b.txt"]}


def test_validation_files_do_not_go_with_lines(tmp_path):
    text = write(tmp_path / "a.txt", "a line\n" * 9)
    with pytest.raises(UserError, match="--validation is for documents"):
        load_stream(Settings(text=text, validation=text, lines=True))


@pytest.mark.parametrize("level", ["char", "bpe"])
def test_lines_are_kept(tmp_path, level):
    text = "To be, or not to be:\nthat is the question.\n\n" * 30
    config = Settings(text=write(tmp_path / "a.txt", text), level=level, lines=True, validation_split=0.1)
    stream = load_stream(replace(config, vocabulary_size=60))
    whole = "".join(stream.tokenizer.decode([part])[0] for part in (stream.train, stream.validation))
    assert whole.replace("␤", "\n") == text
    assert len(stream.tokenizer.decode([stream.validation])[0]) == pytest.approx(0.1 * len(text), abs=1)
    assert 3 not in stream.train
    assert stream.pipeline_options == {"line_break": "␤", "begins_with": "line_break"}


def test_saved_values_are_read_back(tmp_path):
    text = write(tmp_path / "a.txt", "One text\n\nAnother text\n\nA third one\n\n" * 9)
    stream = load_stream(Settings(text=text, level="bpe", vocabulary_size=40))
    stream.save(tmp_path / "new")
    actual = load_stream(Settings(encoded=str(tmp_path / "new")))
    for name in ("train", "validation", "words", "lines"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(stream, name))
    assert actual.tokenizer.encode(["Another"])[0].tolist() == stream.tokenizer.encode(["Another"])[0].tolist()
    assert isinstance(actual, TokenStream)


def test_wrong_settings_and_short_texts_are_named(tmp_path):
    with pytest.raises(UserError, match="200 tokens to train on. Expected: 300 for a batch of 9 windows of 30"):
        WindowBatches(np.zeros(200, "int32"), 30, 9)
    with pytest.raises(ValueError, match="`max_tokens` must be positive. Received: max_tokens=0"):
        WindowBatches(np.zeros(200, "int32"), 0, 9)
    with pytest.raises(UserError, match="--lines is for the files"):
        load_stream(Settings(lines=True))
    with pytest.raises(UserError, match="too little text"):
        load_stream(Settings(lines=True, level="char", text=write(tmp_path / "a.txt", "few")))
    with pytest.raises(UserError, match="no encoded text"):
        load_stream(Settings(encoded=str(tmp_path)))
