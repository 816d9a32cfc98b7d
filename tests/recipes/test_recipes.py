"""Each recipe from end to end, in the small: the dates, files of one's own, and what is wrong with files."""

import gzip
import importlib.util
import io
import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import h5py
import keras
import mido
import numpy as np
import pytest
import tensorflow  # before the tests look at what is written to stderr
import tensorflow_text  # noqa: F401
from data.images.test_digit_canvases import write_table
from data.prose.test_pixels import write_images
from finetuning.test_folders import write_pictures
from inputs.sounds import encoded, tone
from PIL import Image
from recipe_modules import load_recipe
from zoo.tiny_entry import write_tiny_entry

import keras_attention as ka
from keras_attention.cli import main as cli
from keras_attention.data.prose.distillation import EpochBatches
from keras_attention.data.prose.masked_lm import MaskedLMEpoch, ProseSettings, load_prose
from keras_attention.data.prose.token_stream import Windows
from keras_attention.data.proteins.protein_files import KINDS_OF_RESIDUES, rule_proteins
from keras_attention.data.translation.parallel_corpus import load_encoded
from keras_attention.models import LANGUAGE_MODELS
from keras_attention.publishing.protein_report import protein_report
from keras_attention.support.atomic_files import release_claims
from keras_attention.support.flags import read_settings
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS
from keras_attention.zoo.entry import read_entry

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.py"))
TRANSLATING = [path for path in RECIPES if path.stem.endswith(("attention", "transformer"))]
SMOKES = [TRANSLATING[0], *(pytest.param(path, marks=pytest.mark.thorough) for path in TRANSLATING[1:])]
BERT = {path.stem: path for path in RECIPES if path.stem.startswith("bert")}
TRANSLATION, TRANSFORMER = TRANSLATING
DISTILL = TRANSLATION.with_name("distill.py")
ENGLISH = [f"{who} {does}." for who in ("A dog", "A girl", "One man", "The old woman") for does in ("runs", "sits")] * 3
GERMAN = [
    f"{wer} {tut}." for wer in ("Ein Hund", "Ein Mädchen", "Ein Mann", "Die alte Frau") for tut in ("rennt", "sitzt")
] * 3


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Runs a recipe as a script in an empty folder, in this process: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run_recipe(path, *arguments):
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(path), run_name="__main__")
        return stop.value.code, *capfd.readouterr()

    return run_recipe


@pytest.fixture
def complains(run, tmp_path):
    """Runs a recipe that must end with exit code 2 and one line on stderr, and leave nothing; returns the line."""

    def run_recipe(path, *arguments):
        before = sorted(tmp_path.rglob("*"))
        code, out, err = run(path, *arguments)
        assert (code, out) == (2, "")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return run_recipe


def check_entry(folder, source):
    """The entry loads, answers, and has the picture that the recipe drew."""
    translator = ka.load(folder)
    answer = translator.translate(source, return_attention=True)
    assert isinstance(answer.text, str)
    assert answer.attention.shape == (len(answer.tokens), len(answer.source_tokens))
    picture = folder.with_name(folder.name + "_attention.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def check_same_weights(*folders):
    first, second = (Path(folder, "model.weights.h5") for folder in folders)
    with h5py.File(first) as whole, h5py.File(second) as cut:
        assert sorted(whole) == sorted(cut)
        for name in whole:
            np.testing.assert_array_equal(cut[name], whole[name])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_help_has_the_names_of_the_command_line(run, path):
    code, out, _ = run(path, "--help")
    flags = {word for word in out.replace("[", " ").replace("=", " ").split() if word.startswith("--")}
    assert code == 0
    assert ("--validation-split" in flags) == (path.stem != "recommend")
    assert ("--from" in flags) == (path.stem not in ("distill", "recommend"))
    assert flags.isdisjoint({"--start", "--start-from", "--validation-share"})
    assert not any("_" in flag for flag in flags)


UNREADABLE = {"bert_finetune": "--table", "bert_pretrain": "--text", "distill": "--teacher", "language_model": "--text"}


@pytest.mark.parametrize("path", [path for path in RECIPES if path.stem != "recommend"], ids=lambda path: path.stem)
def test_a_recipe_notices_what_is_in_its_folder_before_it_reads_data(complains, path, tmp_path):
    flags = ("--out=taken", f"{UNREADABLE.get(path.stem, '--data')}=nowhere.tsv")
    flags += ("--from=none",) * (path.stem == "bert_finetune")
    write_tiny_entry(tmp_path / "taken")
    assert "taken already contains a trained model. Choose another name, or pass --overwrite" in complains(path, *flags)
    (tmp_path / "taken_checkpoints" / "step-000000002").mkdir(parents=True)
    error = complains(path, *flags, "--overwrite")
    assert "taken_checkpoints already holds checkpoints of another training" in error
    assert "--resume" in error
    assert "--restart" in error
    for way_out in ("--resume", "--restart"):
        assert "nowhere" in complains(path, *flags, "--overwrite", way_out)


def test_encoding_texts_needs_no_free_folder(run, tmp_path):
    write_tiny_entry(tmp_path / "runs" / "transformer_dates_smoke")
    (tmp_path / "runs" / "transformer_dates_smoke_checkpoints" / "step-000000002").mkdir(parents=True)
    assert run(TRANSLATION.with_name("transformer.py"), "--smoke", "--encode-to=pairs.npz")[0] == 0


def check_last_command(out):
    """The last line that a recipe prints has a command that uses the model."""
    sentence, command = out.splitlines()[-1].split(" Try: ")
    words = shlex.split(command)
    assert words[0] == "keras-attention"
    assert sentence == f"Saved to {words[words.index('--model') + 1]}."
    assert cli.main(words[1:]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", SMOKES, ids=lambda path: path.stem)
def test_smoke_writes_an_entry_and_a_picture(run, tmp_path, path):
    code, out, err = run(path, "--smoke")
    assert code == 0
    assert "parameters" in out
    assert err.count("that this model reads") == 1  # a warning that each validation would repeat
    check_last_command(out)
    (folder,) = (manifest.parent for manifest in (tmp_path / "runs").glob("*/manifest.json"))
    check_entry(folder, "3 March 2021")


@pytest.mark.slow
def test_patches_are_trained_continued_and_used(run, tmp_path):
    recipe = TRANSLATION.with_name("patches.py")
    code, out, _ = run(recipe, "--epochs=2", "--hidden-dim=16", "--num-heads=2", "--num-layers=1", "--out=first")
    assert code == 0
    check_last_command(out)
    entry = read_entry(tmp_path / "first")
    assert {"confusion.png", "example_1.png"} < set(entry.files)
    (model, *_), (simple, *_) = entry.metrics["tables"][0]["rows"]
    assert (model, simple) == ("this model", "logistic regression on pixels")
    code, out, _ = run(recipe, "--from=first", "--epochs=1", "--shift=0", "--stem=convolutional", "--out=second")
    assert code == 0
    later = read_entry(tmp_path / "second")
    assert later.config["model"] == {**entry.config["model"]}
    assert later.metrics["scores"][0]["value"] > entry.metrics["scores"][0]["value"]


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_captions_are_trained_continued_and_used(run, tmp_path, attention):
    recipe = TRANSLATION.with_name("captions.py")
    small = ("--annotation-dim=8", "--hidden-dim=13", "--beam-size=1", "--ema-decay=none")
    once = ("--epochs=1", "--out=first")
    code, out, _ = run(recipe, *small, f"--attention={attention}", "--train-size=1280", *once)
    assert code == 0
    check_last_command(out)
    entry = read_entry(tmp_path / "first")
    assert {"spotlights.png", "example_1.png"} < set(entry.files)
    assert [score["metric"] for score in entry.metrics["scores"]] == [
        "exact captions (%)",
        "pointing (%)",
        "attention in the box (%)",
    ]
    assert cli.main(["zoo", "verify", str(entry.folder)]) == 0
    code, out, _ = run(recipe, "--from=first", "--smoke", "--out=second")
    assert code == 0
    later = read_entry(tmp_path / "second")
    assert later.config["model"] == entry.config["model"]
    assert later.metrics["training"]["history"][0]["loss"] < entry.metrics["training"]["history"][0]["loss"]
    other = {"soft": "hard", "hard": "soft"}[attention]
    code, out, _ = run(recipe, "--from=first", f"--attention={other}", "--entropy=0.001", "--smoke", "--out=third")
    assert code == 0
    third = read_entry(tmp_path / "third")
    assert third.config["model"] == {**entry.config["model"], "attention": other}
    assert third.metrics["training"]["history"][0]["loss"] < entry.metrics["training"]["history"][0]["loss"]


@pytest.mark.slow
def test_speech_is_learned_continued_and_transcribed(run, tmp_path):
    recipe = TRANSLATION.with_name("speech.py")
    small = ("--convolution-dim=8", "--encoder-dim=8", "--hidden-dim=13", "--beam-size=1", "--test-strings=7")
    fast = ("--learning-rate=0.02", "--ema-decay=none", "--most-words=3")
    code, out, _ = run(recipe, *small, *fast, "--train-size=640", "--epochs=1", "--out=first")
    assert code == 0
    check_last_command(out)
    entry = read_entry(tmp_path / "first")
    assert {"alignment.png", "example_1.flac"} < set(entry.files)
    assert [score["metric"] for score in entry.metrics["scores"][:3]] == [
        "word errors (%)",
        "exact transcripts (%)",
        "pointing (%)",
    ]
    assert cli.main(["zoo", "verify", str(entry.folder)]) == 0
    code, out, _ = run(recipe, "--from=first", "--smoke", "--most-words=3", "--out=second")
    assert code == 0
    later = read_entry(tmp_path / "second")
    assert later.config["model"] == entry.config["model"]
    assert later.metrics["training"]["history"][0]["loss"] < entry.metrics["training"]["history"][0]["loss"]


@pytest.mark.slow
def test_captions_of_a_table(run, tmp_path):
    write_table(tmp_path / "photos")
    code, out, _ = run(TRANSLATION.with_name("captions.py"), "--data=photos/captions.csv", "--smoke")
    assert code == 0
    check_last_command(out)
    entry = read_entry(tmp_path / "runs" / "captions_captions_soft_smoke")
    assert entry.config["model"]["input_size"] == [16, 24, 1]
    assert [score["metric"] for score in entry.metrics["scores"]] == ["exact captions (%)", "BLEU"]
    assert entry.metrics["data"][0]["name"] == "captions.csv"
    assert cli.main(["zoo", "verify", str(entry.folder)]) == 0


@pytest.mark.slow
def test_patches_of_a_folder(run, tmp_path):
    write_pictures(tmp_path / "my_digits", range(80))
    code, out, _ = run(TRANSLATION.with_name("patches.py"), "--data=my_digits", "--smoke")
    assert code == 0
    entry = read_entry(tmp_path / "runs" / "patches_my_digits_smoke")
    assert (entry.config["model"]["input_size"], entry.config["model"]["patch_size"]) == ([8, 8, 1], [2, 2])
    assert entry.config["task"]["label_names"] == [f"digit {label}" for label in range(10)]
    assert entry.metrics["data"][0]["name"] == "my_digits"


@pytest.mark.slow
def test_patches_are_pretrained_without_labels(run, tmp_path):
    recipe = TRANSLATION.with_name("patches.py")
    assert run(recipe, "--pretrain", "--smoke", "--labels=7", "--out=first")[0] == 0
    entry = read_entry(tmp_path / "first_smoke" if (tmp_path / "first_smoke").exists() else tmp_path / "first")
    assert entry.metrics["scores"][0]["value"] > 15  # of ten labels, by the vectors alone
    code, _, _ = run(recipe, f"--from={entry.folder}", "--smoke", "--labels=7", "--out=second")
    assert code == 0
    code, _, err = run(recipe, "--smoke", "--labels=700", "--out=third")
    assert (code, "--labels must be from 1 to" in err) == (2, True)


@pytest.mark.slow
def test_patches_of_sounds_and_of_series(run, tmp_path):
    recipe = TRANSLATION.with_name("patches.py")
    for number in range(24):
        folder = tmp_path / "tones" / ("low", "high")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        sound = tone(seconds=0.31 + number / 100, hertz=(220, 1300)[number % 2])
        (folder / f"{number}.wav").write_bytes(encoded(sound))
    assert run(recipe, "--data=tones", "--smoke")[0] == 0
    entry = read_entry(tmp_path / "runs" / "patches_tones_smoke")
    assert entry.input.name == "sound"
    assert "example_1.flac" in entry.files
    assert [row[0] for row in entry.metrics["tables"][0]["rows"]] == ["this model", "logistic regression on MFCC"]
    assert cli.main(["zoo", "verify", str(entry.folder)]) == 0
    assert run(recipe, "--data=tones", "--smoke", "--stem=linear", "--patch-size", "1", "64", "--out=frames")[0] == 0
    model = read_entry(tmp_path / "frames").config["model"]
    assert (model["patch_size"], model["input_size"][1:]) == ([1, 64], [64, 1])

    random = np.random.default_rng(3)
    for part in ("TRAIN", "TEST"):
        rows = [[("up", "down")[n % 2], *((1 - n % 2 * 2) * np.arange(19) + random.normal(size=19))] for n in range(24)]
        (tmp_path / f"lines_{part}.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    assert run(recipe, "--data=lines_TRAIN.csv", "--smoke")[0] == 0
    entry = read_entry(tmp_path / "runs" / "patches_lines_TRAIN_smoke")
    assert entry.input.name == "series"
    compared = {row[0]: row[2] for row in entry.metrics["tables"][0]["rows"]}
    assert compared["1-nearest neighbour with dynamic time warping"] == 100
    assert "lines_TRAIN.csv, test, 24 series" in entry.metrics["scores"][0]["set"]
    assert cli.main(["zoo", "verify", str(entry.folder)]) == 0


@pytest.mark.slow
def test_a_translator_is_trained_and_scored_under_a_strategy(tmp_path):
    """With the folder of compiled programs, which other tests do without: scoring must not store such models there."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(TRANSLATION.parents[1]),
        "KERAS_ATTENTION_CACHE": str(tmp_path / "cache"),
    }
    command = [sys.executable, str(TRANSLATION), "--smoke", "--strategy=mirrored"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "exact match" in done.stdout


class Reached(Exception):
    """Where the gradient is computed; `frames` lead there from the recipe."""

    def __init__(self, frames):
        super().__init__()
        self.frames = frames


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [TRANSLATION, *(pytest.param(p, marks=pytest.mark.thorough) for p in RECIPES if p != TRANSLATION)]
)
def test_the_gradient_is_near_the_recipe(path, monkeypatch, tmp_path):
    """At most four frames of ours in two files, the recipe among them."""
    root = path.parents[1]

    def gradient(*_, **__):
        places = root / "recipes", root / "keras_attention"
        stack = traceback.extract_stack()
        ours = [frame for frame in stack if any(map(Path(frame.filename).is_relative_to, places))]
        raise Reached([(Path(frame.filename).name, frame.name) for frame in ours])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tensorflow.GradientTape, "gradient", gradient)
    with pytest.raises(Reached) as reached:
        load_recipe(path.stem).main(["--smoke", "--strategy=none"])
    release_claims()
    frames = reached.value.frames
    assert frames[0] == (path.name, "main")
    assert len(frames) <= 4, frames
    assert len({name for name, _ in frames}) <= 2, frames


@pytest.mark.thorough
def test_bert_is_pre_trained_and_then_fine_tuned(run, tmp_path):
    code, out, _ = run(BERT["bert_pretrain"], "--smoke")
    assert code == 0
    assert "validation: masked loss" in out
    assert "  ->  " in out
    check_last_command(out)
    (filling, *_) = ka.load(tmp_path / "runs" / "bert_pretrain_smoke").fill_mask("This [MASK] is it.")
    assert filling.text.startswith("This ")
    start = "--from=runs/bert_pretrain_smoke"
    code, out, _ = run(BERT["bert_finetune"], "--smoke", start)
    assert code == 0
    assert "On test, 40 rows:" in out
    assert ka.load(tmp_path / "runs" / "bert_finetune_smoke").classify("3 March 2021") in ("date", "no date")
    assert not list(tmp_path.rglob("*_checkpoints"))


@pytest.mark.slow
def test_a_language_model_is_trained_on_lines(run, tmp_path):
    Path("verses.txt").write_text("To be, or not to be:\nthat is the question.\n" * 20, encoding="utf-8")
    recipe = TRANSLATION.with_name("language_model.py")
    code, out, _ = run(recipe, "--smoke", "--level=char", "--text=verses.txt", "--lines", "--out=one")
    assert code == 0
    assert "validation: loss per token" in out
    check_last_command(out)
    writer = ka.load(tmp_path / "one_smoke")
    assert writer.score("To be\n").tokens == list("To be\n")
    assert "\n" in writer.generate("", max_tokens=60, temperature=2.0)
    assert not list(tmp_path.rglob("*_checkpoints"))


@pytest.mark.thorough
def test_a_language_model_is_trained_further(run, tmp_path):
    recipe = TRANSLATION.with_name("language_model.py")
    assert run(recipe, "--smoke")[0] == 0
    start = "--from=runs/language_model_smoke"
    Path("held.txt").write_text("Return the name of the file.\n" * 9, encoding="utf-8")
    assert run(recipe, "--smoke", start, "--max_tokens=16", "--validation=held.txt", "--out=runs/more")[0] == 0
    metrics = json.loads((tmp_path / "runs" / "more_smoke" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["command"].count("language_model.py") == 2
    assert {score["set"] for score in metrics["scores"]} == {"held.txt"}
    assert ka.load(tmp_path / "runs" / "more_smoke").model.max_length == 32


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [kind for kind in LANGUAGE_MODELS if kind != "gpt"])
def test_other_kinds_of_language_models(kind, run, tmp_path):
    recipe = TRANSLATION.with_name("language_model.py")
    assert run(recipe, "--smoke", f"--model={kind}")[0] == 0
    writer = ka.load(tmp_path / "runs" / "language_model_smoke")
    assert writer.generate("Return", max_tokens=5)
    assert writer.score("Return the").tokens
    start = ("--smoke", "--from=runs/language_model_smoke", "--out=runs/more")
    code, _, err = run(recipe, *start)
    assert (code, "Expected: a GPT. Choose the kind of network with --model." in err) == (2, True)
    assert run(recipe, *start, f"--model={kind}")[0] == 0


@pytest.mark.slow
def test_a_sparse_language_model_of_images(run, tmp_path):
    write_images(tmp_path / "images", 101)
    recipe = TRANSLATION.with_name("language_model.py")
    flags = ("--smoke", "--data=pixels", "--text=images", "--out=drawn")
    code, out, _ = run(recipe, *flags, "--attention-pattern=strided:stride=28")
    assert code == 0
    assert "nats per image" in out
    writer = ka.load(tmp_path / "drawn_smoke")
    assert writer.model.attention_pattern == "strided:stride=28"
    assert set(writer.generate("0110", max_tokens=20, temperature=1.0)) <= set("01")
    assert (tmp_path / "drawn_smoke" / "images.png").stat().st_size > 1000
    code, _, err = run(recipe, *flags, "--out=other", "--attention-pattern=circle")
    assert (code, "Received: circle" in err) == (2, True)


@pytest.mark.slow
def test_a_language_model_of_music(run, tmp_path):
    recipe = TRANSLATION.with_name("language_model.py")
    code, out, _ = run(recipe, "--smoke", "--data=music", "--out=music")
    assert code == 0
    assert "nats per time step" in out
    check_last_command(out)
    notes = mido.MidiFile(tmp_path / "song.mid")
    assert sum(message.type == "note_on" for track in notes.tracks for message in track) > 3
    entry = read_entry(tmp_path / "music_smoke")
    assert entry.metrics["data"][0]["name"] == "music in four voices, made by rules"
    assert "continues and scores music in four voices" in entry.metrics["description"]
    assert run(recipe, "--smoke", "--data=music", "--from=music_smoke", "--out=more")[0] == 0
    code, _, err = run(recipe, "--smoke", "--from=music_smoke", "--out=other")
    assert (code, err.count("\n")) == (2, 1)
    assert "is a model of music" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["gpt", *(pytest.param(kind, marks=pytest.mark.thorough) for kind in LANGUAGE_MODELS if kind != "gpt")]
)
def test_a_language_model_resumes_after_ctrl_c(kind, run, monkeypatch):
    flags = ("--smoke", "--max_steps=7", "--dropout=0.3", f"--model={kind}")
    check_goes_on_after_ctrl_c(run, monkeypatch, TRANSLATION.with_name("language_model.py"), flags, Windows)


def check_goes_on_after_ctrl_c(run, monkeypatch, recipe, flags, batches):
    """Sends SIGINT as batch 3 is read from `batches`, a class; then a resumed run gives the weights of a whole one."""
    real = batches.__getitem__
    assert run(recipe, *flags, "--out=whole")[0] == 0

    def interrupted(some, index):
        if index == 3:
            signal.raise_signal(signal.SIGINT)
        return real(some, index)

    with monkeypatch.context() as patch:
        patch.setattr(batches, "__getitem__", interrupted)
        assert run(recipe, *flags, "--out=cut")[0] == 130
    assert run(recipe, *flags, "--out=cut", "--resume")[0] == 0
    check_same_weights("whole_smoke", "cut_smoke")


PROTEINS = ("--alphabet=protein", "--smoke", "--num_layers=1", "--hidden_dim=32", "--intermediate_dim=37")


@pytest.mark.slow
def test_a_model_of_proteins_from_fasta(run, tmp_path, complains):
    records = [f">{protein.name}\n{protein.residues}\n" for protein in rule_proteins(300, seed=3)]
    Path("some.fasta").write_text("".join(records), encoding="utf-8")
    code, out, _ = run(BERT["bert_pretrain"], *PROTEINS, "--text=some.fasta", "--out=proteins")
    assert code == 0
    assert "test, no similar protein in training: perplexity of a trigram" in out
    assert "rank correlation with BLOSUM62, by places" in out
    check_last_command(out)
    entry = read_entry(tmp_path / "proteins_smoke")
    assert entry.metrics["data"][0]["name"] == "some.fasta"
    assert "Fills gaps in proteins" in entry.metrics["description"]
    assert "![The amino acids that the model finds alike, and BLOSUM62](amino_acids.png)" in entry.card
    assert ka.load(tmp_path / "proteins_smoke").encode("MKVLAA").pooled.shape == (1, 32)
    code, _, err = run(BERT["bert_pretrain"], "--smoke", "--from=proteins_smoke", "--out=other")
    assert (code, err.count("\n"), "--from has another --alphabet than text" in err) == (2, 1, True)
    assert run(BERT["bert_pretrain"], *PROTEINS, "--from=proteins_smoke", "--out=more")[0] == 0


@pytest.mark.slow
def test_encoded_proteins_keep_their_test_and_their_alphabet(run):
    """The report failed behind the training, for which the test was missing, or its gaps were English."""
    assert run(BERT["bert_pretrain"], *PROTEINS, "--encode_to=encoded")[0] == 0
    code, out, _ = run(BERT["bert_pretrain"], *PROTEINS, "--encoded=encoded", "--out=proteins")
    assert (code, "test, no similar protein in training" in out) == (0, True)
    code, _, err = run(BERT["bert_pretrain"], "--smoke", "--encoded=encoded", "--out=other")
    assert (code, err.count("\n"), "--encoded has another --alphabet than text" in err) == (2, 1, True)


@pytest.mark.slow
def test_a_model_of_proteins_finds_kinds_of_residues(run, tmp_path):
    """On proteins made by rules, it is far better than a trigram, and residues of one kind are alike."""
    flags = ("--max_tokens=64", "--rows_per_batch=16", "--epochs=4", "--hidden_dim=32", "--num_layers=2")
    flags += ("--intermediate_dim=64", "--learning_rate=0.01", "--out=made")
    assert run(BERT["bert_pretrain"], "--alphabet=protein", *flags)[0] == 0
    prose = load_prose(SimpleNamespace(**vars(ProseSettings(alphabet="protein", max_tokens=64, validation_split=0.05))))
    report = protein_report(ka.load(tmp_path / "made").model, prose)
    perplexity = {score["metric"]: score["value"] for score in report.scores if score["set"].startswith("validation")}
    assert perplexity["perplexity"] < 12 < 17 < perplexity["perplexity of a trigram"]
    kind = np.array([[letter in kind for kind in KINDS_OF_RESIDUES].index(True) for letter in AMINO_ACIDS])
    nearest = (report.similarities - 2 * np.eye(20)).argmax(axis=1)
    assert (kind[nearest] == kind).mean() > 0.9


@pytest.mark.slow
def test_a_model_of_proteins_resumes_after_ctrl_c(run, monkeypatch):
    flags = (*PROTEINS, "--max_steps=7", "--dropout=0.3")
    check_goes_on_after_ctrl_c(run, monkeypatch, BERT["bert_pretrain"], flags, MaskedLMEpoch)


def test_files_that_are_no_proteins(complains):
    """With too few residues, the report failed behind the training."""
    Path("a.fasta").write_text(">a\nMKVL1\n", encoding="utf-8")
    Path("b.fasta").write_text(">a\nMKVL\n", encoding="utf-8")
    path, flags = BERT["bert_pretrain"], ("--smoke", "--alphabet=protein")
    assert "a.fasta, line 1, protein 'a': Expected a protein" in complains(path, *flags, "--text=a.fasta")
    assert "1 protein in 1 cluster of similar ones" in complains(path, *flags, "--text=b.fasta")
    assert "there is no such file" in complains(path, *flags, "--text=c.fasta")
    Path("x.fasta").write_text("".join(f">p{i}\n{'X' * (50 + i)}\n" for i in range(60)), encoding="utf-8")
    Path("few.fasta").write_text(">a\nMKVLAA\n>b\nGGGPPP\n>c\nWWWKKK\n", encoding="utf-8")
    assert "between 0 and 0.5, as" in complains(path, *flags, "--text=b.fasta", "--validation_split=0.5")
    assert "The train part has 0 known amino acids of" in complains(path, *flags, "--text=x.fasta")
    assert "part has 6 known amino acids of 1 protein." in complains(path, *flags, "--text=few.fasta")
    assert "leave out --validation" in complains(path, *flags, "--text=b.fasta", "--validation=b.fasta")
    assert "leave out --validation and --next-sentence" in complains(path, *flags, "--next_sentence")


@pytest.mark.thorough
def test_bert_learns_which_text_follows(run, tmp_path):
    code, out, _ = run(BERT["bert_pretrain"], "--smoke", "--next_sentence", "--mixed_precision")
    assert code == 0
    assert "next-sentence accuracy" in out
    assert ka.load(tmp_path / "runs" / "bert_pretrain_smoke").fill_mask("This [MASK] is it.")


@pytest.mark.thorough
def test_bert_is_pre_trained_further(run, tmp_path):
    assert run(BERT["bert_pretrain"], "--smoke")[0] == 0
    more = ("--smoke", "--parts=2", "--from=runs/bert_pretrain_smoke", "--out=runs/more")
    assert run(BERT["bert_pretrain"], *more)[0] == 0
    metrics = json.loads((tmp_path / "runs" / "more_smoke" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["command"].count("bert_pretrain.py") == 2
    assert [epoch["steps"] for epoch in metrics["training"]["history"]] == [3, 6]


RECURRENT = TRANSLATION.with_name("rnn_attention.py")


@pytest.mark.slow
@pytest.mark.parametrize("tied", ["all", "target"])
def test_a_translator_starts_from_word_vectors(run, tmp_path, tied):
    rows = (f"{english}\t{german}\n" for english, german in zip(ENGLISH, GERMAN, strict=True))
    Path("pairs.tsv").write_text("".join(rows), encoding="utf-8")
    words = ("A", "The", "dog", "girl", "man", "ein", "mann")  # the last two are no sources
    Path("vectors.txt").write_text("".join(f"{word} {len(word)} 0 1\n" for word in words), encoding="utf-8")
    files = ("--data=pairs.tsv", f"--vectors={tmp_path / 'vectors.txt'}", "--embedding-dim=3", "--out=mine")
    code, out, _ = run(RECURRENT, "--smoke", *files, f"--tie-embeddings={tied}", "--learning-rate=1e-9")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("Word vectors: ")]
    assert " tokens have one, which are " in line
    translator = ka.load(tmp_path / "mine")
    assert (translator.model.source_embedding is translator.model.target_embedding) == (tied == "all")
    token_ids = translator.source_tokenizer.encode(["A girl"])[0]
    assert translator.source_tokenizer.tokens(token_ids)[0] == "▁A"
    np.testing.assert_allclose(
        np.asarray(translator.model.source_embedding.embeddings)[token_ids[0]], [1, 0, 1], atol=1e-3
    )
    made = json.loads((tmp_path / "mine" / "metrics.json").read_text(encoding="utf-8"))
    assert made["training"]["vectors"] == "vectors.txt"
    assert str(tmp_path) not in made["command"]


def test_word_vectors_that_do_not_fit(complains):
    Path("vectors.txt").write_text("dog 1 2 3\n")
    Path("wrong.txt").write_text("dog 1 2 3\ncat 1 nan 3\n")

    def error(*arguments):
        return complains(RECURRENT, "--smoke", *arguments)

    own = ("--data=pairs.tsv", "--embedding-dim=3")
    assert "Pass --embedding-dim 3" in error("--data=pairs.tsv", "--vectors=vectors.txt")
    assert "not finite" in error(*own, "--vectors=wrong.txt")
    assert "nowhere.txt" in error(*own, "--vectors=nowhere.txt")
    for other in ("--data=dates", "--from=first", "--encoded=pairs.npz", "--encode-to=pairs.npz"):
        assert "`vectors` are for new embeddings of words" in error(*own, "--vectors=vectors.txt", other)


@pytest.mark.thorough
def test_two_files_and_a_start_from_what_was_trained_on_them(run, tmp_path):
    Path("a.en").write_text("\n".join(ENGLISH), encoding="utf-8")
    Path("a.de").write_text("\n".join(GERMAN), encoding="utf-8")
    files = ("--smoke", "--data=files", "--source=a.en", "--target=a.de")
    run(TRANSLATION, *files, "--vocabulary_size=60", "--hidden_dim=18", "--out=first")
    check_entry(tmp_path / "first", ENGLISH[0])
    code, *_ = run(TRANSLATION, *files, "--from=first", "--learning_rate=1e-9", "--out=second")
    assert code == 0
    first, second = (ka.load(tmp_path / name) for name in ("first", "second"))
    assert second.model.hidden_dim == 18
    for before, after in zip(first.model.trainable_weights, second.model.trainable_weights, strict=True):
        np.testing.assert_allclose(after, before, atol=1e-6)
    metrics = json.loads((tmp_path / "second" / "metrics.json").read_text(encoding="utf-8"))
    assert [line.split()[-1] for line in metrics["command"].splitlines()] == ["--out=first", "--out=second"]
    assert ", then " in metrics["commit"]
    code, _, err = run(TRANSLATION, *files, "--start_from=first", "--hidden_dim=20", "--out=third")
    assert (code, "only --intermediate-dim may be larger" in err) == (2, True)
    code, *_ = run(TRANSLATION, "--config=first/config.json", "--epochs=1", "--out=fourth")
    assert code == 0
    assert ka.load(tmp_path / "fourth").model.hidden_dim == 18


def test_a_compressed_table(run, tmp_path):
    rows = (f"{english}\t{german}\n" for english, german in zip(ENGLISH, GERMAN, strict=True))
    Path("pairs.tsv.gz").write_bytes(gzip.compress("".join(rows).encode()))
    path = TRANSLATION.with_name("transformer.py")
    assert run(path, "--smoke", "--data=pairs.tsv.gz", "--vocabulary_size=60", "--encode_to=pairs.npz")[0] == 0
    (corpus,), _ = load_encoded("pairs.npz")
    assert len(corpus) == 8  # as many as --smoke keeps


def test_sentences_longer_than_the_learned_positions_are_refused_before_the_training(complains, run):
    """Training stopped at the first batch with a message of Keras."""
    words = (TRANSLATION.with_name("transformer.py"), "--smoke", "--positions=learned")
    message = "A sentence has 8 tokens, but only 7 learned positions: raise --max-length or lower --max-tokens."
    assert message in complains(*words, "--max-length=7")


@pytest.mark.parametrize(
    ("name", "row"),
    [("captions", "720 attention weights"), ("patches", "16 patches"), ("speech", "frames"), ("recommend", "6 items")],
)
def test_batches_that_fit_into_no_memory_are_refused_before_the_training(name, row, complains):
    """The system killed the training."""
    message = complains(TRANSLATION.with_name(f"{name}.py"), "--smoke", "--rows-per-batch=1000000000")
    assert "A batch of 1,000,000,000 rows of " in message
    assert f"{row} does not fit into memory. Lower --rows-per-batch, or raise --accumulate." in message


def train_on_jax(path, *flags):
    """Runs a recipe in a process that has JAX and no TensorFlow."""
    program = "import runpy, sys; sys.modules['tensorflow'] = None; sys.argv = sys.argv[1:]; "
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(path.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), *flags], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
@pytest.mark.parametrize("name", ["rnn_attention", "transformer"])
def test_training_elsewhere_on_jax(name, run, complains, tmp_path):
    """Texts become arrays here, a process without TensorFlow trains on them, and the weights are scored here."""
    path = TRANSLATION.with_name(f"{name}.py")
    code, *_ = run(path, "--smoke", "--encode_to=pairs.npz")
    assert code == 0
    train_on_jax(path, "--smoke", "--encoded=pairs.npz", "--out=there/trained")
    code, out, _ = run(path, "--smoke", "--weights=there/trained", "--out=here")
    assert code == 0
    check_entry(tmp_path / "here", "3 March 2021")
    metrics = json.loads((tmp_path / "here" / "metrics.json").read_text(encoding="utf-8"))
    assert "--encoded=pairs.npz" in metrics["command"]
    code, _, err = run(path, "--smoke", "--weights=there/trained", "--hidden_dim=32")
    assert (code, err.count("\n")) == (2, 1)
    assert "no weights for this model" in err
    assert "no encoded pairs" in complains(path, "--smoke", "--encoded=nowhere.npz")


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_a_language_model_is_trained_elsewhere_on_jax(run, tmp_path):
    path = TRANSLATION.with_name("language_model.py")
    assert run(path, "--smoke", "--encode_to=tokens")[0] == 0
    train_on_jax(path, "--smoke", "--encoded=tokens", "--out=there/trained")
    code, out, _ = run(path, "--smoke", "--weights=there/trained_smoke", "--out=here")
    assert (code, "validation: loss per token" in out) == (0, True)
    assert ka.load(tmp_path / "here_smoke").generate("Return", max_tokens=5)
    metrics = json.loads((tmp_path / "here_smoke" / "metrics.json").read_text(encoding="utf-8"))
    assert "--encoded=tokens" in metrics["command"]


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_fine_tuning_elsewhere_on_jax(run, complains, tmp_path):
    path = BERT["bert_finetune"]
    assert run(path, "--smoke", "--encode_to=rows")[0] == 0
    train_on_jax(path, "--smoke", "--encoded=rows", "--epochs=30", "--learning_rate=2e-3", "--out=there/trained")
    with np.load("there/trained_smoke.npz") as trained:
        result, weights = (
            json.loads(trained["told"].item())["result"],
            [trained[name] for name in trained.files if name != "told"],
        )
    assert result["history"][-1]["accuracy"] > 0.95
    assert run(path, "--smoke", "--weights=there/trained_smoke", "--out=here")[0] == 0
    with h5py.File("here_smoke/model.weights.h5") as file:
        stored = {name: file[name][()] for name in file}
    assert any(np.array_equal(stored["pooler_dense.kernel"], weight) for weight in weights)
    # Calibration here divides kernel and bias of the output by one temperature.
    kernel, bias = weights[-2:]
    temperature = np.divide(kernel, stored["output_dense.kernel"])
    assert temperature.min() > 0
    np.testing.assert_allclose(temperature, temperature[0, 0], rtol=1e-4)
    np.testing.assert_allclose(stored["output_dense.bias"] * temperature[0, 0], bias, rtol=1e-4)
    metrics = json.loads((tmp_path / "here_smoke" / "metrics.json").read_text(encoding="utf-8"))
    assert "--encoded=rows" in metrics["command"]
    assert "no encoded examples" in complains(path, "--smoke", "--encoded=nowhere")


@pytest.mark.slow
def test_fine_tuning_elsewhere_gives_the_same_classifier(run, tmp_path):
    """Encoded here, trained in a run without the texts, calibrated here: to the bit what one run gives."""
    path = BERT["bert_finetune"]
    code, out, _ = run(path, "--smoke", "--out=whole")
    assert code == 0
    check_last_command(out)
    assert run(path, "--smoke", "--encode_to=rows")[0] == 0
    code, out, _ = run(path, "--smoke", "--encoded=rows", "--out=there")
    assert (code, out.splitlines()[-1].split(" Where ")[0]) == (0, "Saved the weights to there_smoke.npz.")
    assert "--weights there_smoke" in out
    assert run(path, "--smoke", "--weights=there_smoke", "--out=here")[0] == 0
    with h5py.File("whole_smoke/model.weights.h5") as whole, h5py.File("here_smoke/model.weights.h5") as here:
        assert sorted(whole) == sorted(here)
        for name in whole:
            np.testing.assert_array_equal(here[name], whole[name])
    configs = [json.loads(Path(f"{name}_smoke/config.json").read_text(encoding="utf-8")) for name in ("whole", "here")]
    assert configs[0] == configs[1]


def test_options_of_the_command_alone(complains):
    assert "`teacher` is an option of `keras-attention finetune`" in complains(
        BERT["bert_finetune"], "--smoke", "--teacher=bert_mini_sst2"
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_unknown_flag(complains, path):
    Path("wrong.yaml").write_text("epoch: 3")
    assert "'epoch'. Did you mean epochs?" in complains(path, "--config=wrong.yaml")
    assert "--epoch" in complains(path, "--smoke", "--epoch=3")
    assert "'many'" in complains(path, "--smoke", "--epochs=many")


OF_ARCHITECTURE = {
    "AttentionSeq2Seq": "rnn_attention",
    "Transformer": "transformer",
    "BertMaskedLM": "bert_pretrain",
    "BertClassifier": "bert_finetune",
    "BertEncoder": "distill",
    "GPT": "language_model",
    "PatchClassifier": "patches",
    "AttentionCaptioner": "captions",
    "SpeechRecognizer": "speech",
}
CONFIGS = sorted((RECIPES[0].parents[1] / "saved_models").glob("*/config.json"))


BY_THE_COMMAND = {"audio_digits", "han_imdb"}  # trained by `keras-attention finetune`, whose networks have no recipe
CONFIGS = [path for path in CONFIGS if path.parent.name not in BY_THE_COMMAND]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_a_recipe_reads_the_settings_of_the_models_that_it_has_made(path):
    architecture = json.loads(path.read_text(encoding="utf-8"))["architecture"]
    config_class = load_recipe(OF_ARCHITECTURE[architecture]).Config
    made = json.loads(path.with_name("metrics.json").read_text(encoding="utf-8"))["training"]
    settings = read_settings(path, config_class)
    assert settings["epochs"] == made["epochs"]
    if architecture == "BertClassifier" and made.get("teacher"):  # distilled by the command, as its recipe does not
        with pytest.raises(ValueError, match="`teacher` is an option of `keras-attention finetune`"):
            config_class(**settings)
    else:
        config_class(**settings)


@pytest.mark.thorough
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_new_process_writes_one_line_about_a_mistake(path, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    environment["PYTHONPATH"] = str(path.parents[1])
    command = [sys.executable, str(path), "--seed=nought"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "nought" in done.stderr


@pytest.mark.slow
def test_files_that_are_wrong(complains):
    Path("a.en").write_text("\n".join(ENGLISH), encoding="utf-8")
    Path("short.de").write_text("\n".join(GERMAN[:-2]), encoding="utf-8")
    Path("empty.de").touch()
    Path("latin.de").write_bytes(b"Hund\nM\xe4dchen\n")
    Path("one_column.tsv").write_text("A dog runs.\n" * 7, encoding="utf-8")

    def error(*arguments):
        return complains(TRANSLATION, "--smoke", *arguments)

    def with_target(target):
        return error("--data=files", "--source=a.en", f"--target={target}")

    assert "nowhere.de" in with_target("nowhere.de")
    assert f"{len(ENGLISH)}" in with_target("short.de")
    assert f"{len(ENGLISH) - 2}" in with_target("short.de")
    assert "empty" in with_target("empty.de")
    assert "line 2" in with_target("latin.de")
    assert "one_column.tsv" in error("--data=one_column.tsv")
    assert "nowhere.tsv" in error("--data=nowhere.tsv")
    assert "'poems'" in error("--data=poems")


@pytest.mark.slow
def test_settings_that_are_wrong(complains):
    assert "`hidden_dim`" in complains(TRANSLATION, "--smoke", "--hidden_dim=-13")
    assert "'dotted'" in complains(TRANSLATION, "--smoke", "--attention=dotted")
    assert "Received: r_drop=-1.0" in complains(TRANSLATION, "--smoke", "--r-drop=-1")


def test_a_negative_weight_of_guided_alignment_is_refused(complains):
    assert "Received: guided_alignment=-1.0" in complains(TRANSFORMER, "--smoke", "--guided-alignment=-1")


@pytest.mark.slow
def test_a_guided_head_aligns_the_answers(run, tmp_path):
    assert run(TRANSFORMER, "--smoke", "--guided-alignment=0.3", "--num-decoder-layers=3")[0] == 0
    entry = read_entry(tmp_path / "runs" / "transformer_dates_smoke")
    assert entry.config["alignment_heads"] == [[1, 0]]
    answer = ka.load(entry.folder).translate("7 March 1998", return_attention=True)
    np.testing.assert_allclose(answer.alignment[:-1], answer.heads[1, 0, 1:], rtol=1e-6)


@pytest.mark.slow
def test_distilling_writes_an_encoder(run, tmp_path):
    code, out, err = run(DISTILL, "--smoke", "--attention_weight", "0.5")
    assert (code, "Traceback" in err) == (0, False)
    assert "2 updates" in out
    check_last_command(out)
    entry = read_entry(tmp_path / "runs" / "distill_smoke")
    assert (entry.config["pooling"], entry.config["normalize"], entry.config["weights_dtype"]) == (
        "mean",
        True,
        "float16",
    )
    assert entry.config["model"]["num_layers"] == 2
    vectors = ka.load(entry.folder).encode(["A list of strings.", "A float."]).pooled
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1.0, atol=1e-5)
    assert 0 < entry.metrics["scores"][0]["value"] <= 1


@pytest.mark.slow
def test_distilling_from_translations_brings_both_sides_together(run, tmp_path):
    words = ("dog", "cat", "tree", "house", "street", "car"), ("Hund", "Katze", "Baum", "Haus", "Straße", "Auto")
    words = tuple(zip(*words, strict=True))
    lines = [f"The {a} and the {b}.\tDas {c} und das {d}." for a, c in words for b, d in words]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    flags = ("--smoke", "--max-steps=1", "--pairs=pairs.tsv", "--language=mul")
    code, out, err = run(DISTILL, *flags)
    assert (code, "Traceback" in err) == (0, False), err
    assert "36 texts" not in out
    assert "val_cosine" in out
    entry = read_entry(tmp_path / "runs" / "distill_smoke")
    assert entry.metrics["training"]["pairs"] == ["pairs.tsv"]
    assert ka.load(entry.folder).encode(["Das Haus."]).pooled.shape == (1, 24)


@pytest.mark.slow
def test_distilling_predictions_writes_a_masked_language_model(run, tmp_path):
    flags = ("--prediction-weight=1", "--attention-weight=1", "--value-weight=1", "--temperature=3")
    code, out, err = run(DISTILL, "--smoke", *flags, "--mask-rate=0.2")
    assert (code, "Traceback" in err) == (0, False)
    assert "val_accuracy" in out
    check_last_command(out)
    entry = read_entry(tmp_path / "runs" / "distill_smoke")
    assert (entry.architecture.name, entry.config["model"]["num_layers"]) == ("BertMaskedLM", 2)
    assert {score["metric"]: score["signature"] for score in entry.metrics["scores"]} == {
        "cosine to the teacher's vectors": "",
        "masked loss": "20% masked, seed 0",
        "masked accuracy": "20% masked, seed 0",
    }
    assert len(ka.load(entry.folder).fill_mask("A [MASK] of strings.")) == 5
    texts = [f"{word} {number}" for word in ("good", "bad") for number in range(20)]
    classifier = ka.finetune(texts, ["yes"] * 20 + ["no"] * 20, start=entry.folder, epochs=1, blend="none")
    assert classifier.classify("good 7") in ("yes", "no")


@pytest.mark.thorough
def test_distilling_resumes_after_ctrl_c(run, monkeypatch):
    flags = ("--smoke", "--max-steps=5", "--prediction-weight=1", "--value-weight=1")
    check_goes_on_after_ctrl_c(run, monkeypatch, DISTILL, flags, EpochBatches)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "The teacher is missing: pass the name or folder of an encoder with --teacher."),
        (
            ("--teacher", "bert_mini_en"),
            "bert_mini_en is a BertMaskedLM. Expected: a BertEncoder. To distil its predictions, add "
            "--prediction-weight 1.",
        ),
        (
            ("--teacher", "minilm_small_en", "--prediction-weight", "1"),
            "minilm_small_en is a BertEncoder. Expected: a BertMaskedLM. It has no predictions: leave out "
            "--prediction-weight.",
        ),
        (
            ("--teacher", "bert_mini_sst2", "--prediction-weight", "1"),
            "bert_mini_sst2 is a BertClassifier. Expected: a BertMaskedLM. To distil a classifier, use "
            "keras-attention finetune --teacher.",
        ),
    ],
)
def test_no_teacher_to_learn_from(run, tmp_path, arguments, complaint):
    code, _, err = run(DISTILL, *arguments)
    assert (code, err.splitlines()[-1]) == (2, f"distill.py: {complaint}")
    assert not any(tmp_path.rglob("*"))


RECOMMEND = TRANSLATION.with_name("recommend.py")


def test_recommendations_of_a_table(run, tmp_path):
    answers = [(user, (time + 5 * user) % 31, time) for user in range(7) for time in range(31)]
    rows = [f"user {u},{('milk', 'tea')[item % 2]} {item},{1 + 4 * (item % 2)},{time}" for u, item, time in answers]
    (tmp_path / "ratings.csv").write_text("user,item,rating,time\n" + "\n".join(rows) + "\n", encoding="utf-8")
    code, out, _ = run(
        RECOMMEND,
        "--data=ratings.csv",
        "--smoke",
        "--epochs=7",
        "--rows-per-batch=11",
        "--learning-rate=1e-2",
        "--out=mine",
    )
    assert code == 0
    assert "network, sequence transformer" in out
    report = json.loads((tmp_path / "mine" / "report.json").read_text(encoding="utf-8"))
    assert report["held_answers"] == 7 * 10
    assert report["auc"]["network, sequence transformer"] > 0.9  # the item's name tells
    assert Image.open(tmp_path / "mine" / "because.png").size[0] > 300
    assert keras.saving.load_model(tmp_path / "mine" / "model.keras").count_params() > 0
    assert not (tmp_path / "mine_checkpoints").exists()
    code, _, err = run(RECOMMEND, "--data=ratings.csv", "--smoke", "--out=mine")
    assert code == 2
    assert "mine exists already. Choose another --out, or give --overwrite" in err
    (tmp_path / "mine_checkpoints" / "step-000000002").mkdir(parents=True)
    _, _, err = run(RECOMMEND, "--data=nowhere.csv", "--smoke", "--out=mine", "--overwrite")
    assert "mine_checkpoints already holds checkpoints of another training" in err
    code, _, err = run(RECOMMEND, "--data=ratings.csv", "--smoke", "--like=6")
    assert code == 2
    assert "no rating is 6 or more: nothing can be learned" in err


@pytest.mark.slow
def test_generated_clicks_are_learned_best_with_the_history(run, tmp_path):
    results = {}
    for sequence in ("none", "transformer"):
        flags = [f"--sequence={sequence}", f"--out={sequence}", "--choose"]
        assert run(RECOMMEND, *flags)[0] == 0
        report = json.loads((tmp_path / sequence / "report.json").read_text(encoding="utf-8"))
        results[sequence] = report["auc"][f"network, sequence {sequence}"]
        assert (tmp_path / sequence / "because.png").exists() == (sequence == "transformer")
    assert results["transformer"] > results["none"] + 0.01
