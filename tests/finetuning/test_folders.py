"""Folders of pictures and sounds, a folder for each label, become classifiers."""

import json
import re
from dataclasses import replace

import keras
import numpy as np
import pytest
import soundfile
from PIL import Image
from sklearn.datasets import load_digits

import keras_attention
from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.finetuning.examples import Examples, read_examples, read_folder, with_files
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.workflow import prepare
from keras_attention.inputs.image import ImageInput
from keras_attention.inputs.sound import SoundInput
from keras_attention.support.errors import UserError
from keras_attention.training.history import Epoch
from keras_attention.zoo.entry import EntryError, read_entry

RATE = 4001
TINY = ("--size", "tiny", "--no-jit-compile", "--json")


def write_pictures(folder, numbers):
    """Digits of scikit-learn as PNG files of 8 x 8 pixels."""
    data = load_digits()
    for number in numbers:
        place = folder / f"digit {data.target[number]}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((data.images[number] * 15.9).astype("uint8")).save(place / f"{number}.png")
    return str(folder)


def write_sounds(folder, count, seed=3):
    """Noisy tones, low and high ones, of different lengths."""
    random = np.random.default_rng(seed)
    for number in range(count):
        name = ("low", "high")[number % 2]
        times = np.arange(random.integers(1200, 2400)) / RATE
        pitch = random.uniform(*((200, 500) if name == "low" else (900, 1700)))
        waveform = np.sin(2 * np.pi * pitch * times) + random.normal(0, 0.3, len(times))
        (folder / name).mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / name / f"{number}.wav", 0.2 * waveform, RATE)
    return str(folder)


@pytest.mark.slow
def test_from_a_folder_of_pictures_to_answers(tmp_path, capsys):
    folder, test = write_pictures(tmp_path / "train", range(600)), write_pictures(tmp_path / "test", range(900, 1100))
    (tmp_path / "train" / "readme.txt").write_text("digits")
    out = tmp_path / "zoo" / "mine"
    assert main(["finetune", folder, *TINY, "--test", test, "--out", str(out), "--epochs", "5"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scores"]["accuracy"] > 92
    assert report["baseline_name"] == "logistic regression on HOG"
    assert report["baseline"]["accuracy"] > 90
    assert main(["zoo", "verify", str(out)]) == 0
    capsys.readouterr()
    files = [str(path) for path in sorted((tmp_path / "test").glob("*/*.png"))[:7]]
    assert main(["classify", "--model", str(out), *files, "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["file"] for answer in answers] == files
    assert [answer["label"] for answer in answers] == load(out).classify(files)
    assert (out / "confusion.png").is_file()
    card = (out / "CARD.md").read_text()
    assert "Multiclass classification of images: digit 0" in card
    assert "logistic regression on HOG" in card


@pytest.mark.slow
def test_from_a_folder_of_sounds_to_answers(tmp_path, capsys):
    folder, test = write_sounds(tmp_path / "train", 60), write_sounds(tmp_path / "test", 24, seed=5)
    out = tmp_path / "mine"
    assert main(["finetune", folder, *TINY, "--test", test, "--out", str(out), "--epochs", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scores"]["accuracy"] > 95
    assert report["baseline_name"] == "logistic regression on MFCC"
    assert main(["zoo", "verify", str(out)]) == 0
    classifier = load(out)
    files = [str(path) for path in sorted((tmp_path / "test").glob("*/*.wav"))]
    labels = [path.split("/")[-2] for path in files]
    assert np.mean(np.array(classifier.classify(files)) == labels) > 0.95
    waveform, rate = soundfile.read(files[0])
    assert classifier.classify((waveform, rate)) == classifier.classify(files[0])
    assert not classifier.classify(files[0], return_scores=True).truncated
    assert classifier.classify((np.tile(waveform, 50), rate), return_scores=True).truncated


@pytest.mark.slow
def test_an_interrupted_training_resumes(tmp_path, capsys, monkeypatch):
    folder = write_sounds(tmp_path / "sounds", 40)
    command = ["finetune", folder, *TINY, "--epochs", "2", "--kind", "sounds"]
    keras.backend.clear_session()
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    keras.backend.clear_session()
    usual, steps = Epoch.record, iter(range(1, 100))

    def interrupted(epoch, measured):
        usual(epoch, measured)
        if next(steps) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Epoch, "record", interrupted)
        assert main([*command, "--out", str(tmp_path / "parts")]) == 130
    keras.backend.clear_session()
    assert main([*command, "--out", str(tmp_path / "parts"), "--resume"]) == 0
    capsys.readouterr()
    whole, parts = (load(tmp_path / name).model.get_weights() for name in ("whole", "parts"))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_from_python_and_on_from_there(tmp_path):
    folder = write_pictures(tmp_path / "digits", range(200))
    options = {"size": "tiny", "epochs": 1, "jit_compile": False}
    classifier = keras_attention.finetune(folder, out=tmp_path / "mine", **options)
    assert classifier.blend is not None  # one epoch teaches the network little
    pictures = load_digits().images[900:911] / 16
    loaded = load(tmp_path / "mine")
    assert loaded.classify(pictures) == classifier.classify(pictures)
    all_of_them, one = loaded.classify(pictures, return_scores=True), loaded.classify(pictures[3], return_scores=True)
    assert all_of_them[3].probabilities == pytest.approx(one.probabilities, abs=1e-5)
    loaded.save(tmp_path / "again")
    assert load(tmp_path / "again").classify(pictures) == classifier.classify(pictures)
    damaged = tmp_path / "again" / "features.h5"
    damaged.unlink()
    with pytest.raises(EntryError, match=r"features\.h5"):
        read_entry(tmp_path / "again")
    more = write_pictures(tmp_path / "more", range(300, 400))
    further = keras_attention.finetune(more, start=tmp_path / "mine", epochs=1, jit_compile=False)
    assert further.model.input_size == classifier.model.input_size
    with pytest.raises(UserError, match="has no images"):
        keras_attention.finetune(write_sounds(tmp_path / "s", 4), start=tmp_path / "mine")


def test_the_network_suits_the_files(tmp_path):
    from keras_attention.finetuning.starting_model import open_start

    start = open_start(None, "patches")
    kinds = start.architecture.task.inputs
    for folder, sizes in (
        (write_pictures(tmp_path / "digits", range(30)), ([8, 8, 1], [2, 2])),
        (write_sounds(tmp_path / "sounds", 8), ([56, 64, 1], [8, 8])),
    ):
        examples, _, _ = read_folder(folder, kinds)
        settings = FinetuneSettings(size="tiny", network="patches")
        prepared = prepare(examples, None, start, settings, notify=lambda _: None)
        model = prepared.classifier.model
        assert (model.input_size, model.patch_size) == sizes
        assert prepared.sequences[0]["values"].shape == tuple(sizes[0])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--text", "review"), "--text is for tables"),
        (("--separator", "|"), "--separator is for tables"),
        (("--kind", "sounds"), "has no sounds"),
        (("--from", "minilm_small_en"), "reads texts. Leave out --from"),
        (("--network", "lstm"), "reads texts"),
        (("--contrastive",), "--contrastive needs a trained encoder"),
    ],
)
def test_options_for_texts_are_refused_with_a_folder(tmp_path, capsys, flags, message):
    folder = write_pictures(tmp_path / "digits", range(30))
    assert main(["finetune", folder, "--out", str(tmp_path / "mine"), *flags]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "mine").exists()


def test_a_table_needs_columns(tmp_path, capsys):
    (tmp_path / "table.csv").write_text("text,label\na,b\n")
    columns = "--text", "text", "--label", "label"
    pairs = *columns, "--kind", "images", "--text-b", "other"
    cases = ((), "required for a table: --text, --label"), (pairs, "--text-b is for tables of texts, not of images")
    for flags, message in cases:
        assert main(["finetune", str(tmp_path / "table.csv"), *flags]) == 2
        assert message in capsys.readouterr().err


def write_table(path, rows):
    """A table with the names of the files (name, label)."""
    path.write_text("file,label\n" + "".join(f"{name},{label}\n" for name, label in rows))
    return str(path)


COLUMNS = ("--text", "file", "--label", "label")


@pytest.mark.slow
def test_from_a_table_of_names_to_answers(tmp_path, capsys):
    write_sounds(tmp_path / "sounds", 40)
    files = sorted((tmp_path / "sounds").glob("*/*.wav"))
    rows = [(file.relative_to(tmp_path), f"{file.parent.name} one") for file in files]
    table, out = write_table(tmp_path / "table.csv", rows), tmp_path / "mine"
    assert main(["finetune", table, *COLUMNS, *TINY, "--epochs", "2", "--out", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["baseline_name"] == "logistic regression on MFCC"
    assert load(out).classify([str(file) for file in files[:2]]) == ["high one"] * 2


@pytest.mark.parametrize("flags", [(), ("--kind", "images"), ("--network", "patches")])
def test_a_table_of_names_is_of_the_files(tmp_path, capsys, flags):
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(b"no picture")
    table = write_table(tmp_path / "table.csv", [(f"{number}.png", "ab"[number % 2]) for number in range(4)])
    assert main(["finetune", table, *COLUMNS, "--out", str(tmp_path / "mine"), *flags]) == 2
    assert f"{tmp_path / '0.png'} is not a picture that can be read" in capsys.readouterr().err
    (tmp_path / "2.png").unlink()
    assert main(["finetune", table, *COLUMNS, "--out", str(tmp_path / "mine"), *flags]) == 2
    err = capsys.readouterr().err
    assert f"{table}, line 4: there is no file '{tmp_path / '2.png'}' of the kind images" in err
    assert len(err.splitlines()) == 1


def test_rows_whose_files_are_missing_or_damaged_are_skipped(tmp_path, capsys):
    write_pictures(tmp_path, range(6))
    files = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.glob("*/*.png"))
    (tmp_path / files[2]).write_bytes(b"no picture")
    rows = [(f"{name} ", "ab"[number in (2, 6)]) for number, name in enumerate([*files, "gone.png"])]
    table = write_table(tmp_path / "table.csv", rows)
    examples, _ = read_examples(table, "file", "label")
    with pytest.raises(UserError, match=r"line 8: there is no file .*gone\.png.* --skip-bad-rows leaves such rows out"):
        with_files(examples, [ImageInput, SoundInput])
    kind, kept = with_files(examples, [ImageInput, SoundInput], skip_bad_files=True)
    names = [str(tmp_path / name) for name in files[:2] + files[3:]]
    assert (kind, kept.texts, kept.lines) == ("images", names, [2, 3, 5, 6, 7])
    flags = (*COLUMNS, "--out", str(tmp_path / "mine"))
    assert main(["finetune", table, *flags]) == 2
    assert "line 8: there is no file" in capsys.readouterr().err
    assert main(["finetune", table, *flags, "--skip-bad-rows"]) == 2  # only one label is left
    out, err = capsys.readouterr()
    assert f"{table}: skipped 2 files that cannot be read\n" in out
    assert f"{table}: without the skipped rows, none has the label 'b'\n" in out
    assert (err.count("\n"), "there is no file" in err) == (1, False)
    for name in files:
        (tmp_path / name).unlink()
    with pytest.raises(UserError, match=r"table\.csv: none of 7 files can be read"):
        with_files(examples, [ImageInput, SoundInput], skip_bad_files=True)


def test_names_from_python_are_files_of_the_kind(tmp_path):
    (tmp_path / "0.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"0\.png is not a picture that can be read"):
        keras_attention.finetune([str(tmp_path / "0.png")] * 4, ["a", "b"] * 2, kind="images")


def test_texts_that_name_a_file_now_and_then_are_texts():
    examples = Examples(["see a.png", "a dog runs", "two men sit", "b.jpg"], ["a", "b"] * 2)
    assert with_files(examples, [ImageInput, SoundInput]) == (None, examples)
    with pytest.raises(UserError, match="has 2 images and 1 sounds. Choose with --kind images or --kind sounds"):
        with_files(replace(examples, texts=["a.png", "b.png", "c.wav", "d"]), [ImageInput, SoundInput])


@pytest.mark.parametrize("flags", [(), ("--kind", "images")])
def test_a_missing_folder_is_named(tmp_path, capsys, flags):
    assert main(["finetune", str(tmp_path / "digits"), *flags, "--out", str(tmp_path / "mine")]) == 2
    err = capsys.readouterr().err
    assert f"{tmp_path / 'digits'} does not exist. Expected: a table, or a folder of files" in err
    assert len(err.splitlines()) == 1


def test_damaged_files_are_named_or_skipped(tmp_path, capsys):
    folder = write_pictures(tmp_path / "digits", range(30))
    damaged = tmp_path / "digits" / "digit 1" / "1.png"
    damaged.write_bytes(damaged.read_bytes()[:60])
    assert main(["finetune", folder, "--out", str(tmp_path / "mine")]) == 2
    assert re.search(r"1\.png is (damaged|not a picture)", capsys.readouterr().err)
    examples, kind, messages = read_folder(folder, [ImageInput], skip_bad_files=True)
    assert (len(examples), kind) == (29, "images")
    assert messages.endswith("; skipped 1 that cannot be read")
