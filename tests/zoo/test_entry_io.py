"""Entries: written whole or not at all, and loaded only if they are exactly what they claim."""

import hashlib
import json
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from tiny_byte_level import tiny_byte_level
from zoo.tiny_entry import DECODING, ENGLISH, METRICS, tiny_parts, write_tiny_entry

import keras_attention
from keras_attention.models import AttentionSeq2Seq
from keras_attention.pipelines.base import failing_examples
from keras_attention.support.errors import EntryError, UserError
from keras_attention.tokenizers import CharacterTokenizer
from keras_attention.zoo import entry_io
from keras_attention.zoo.entry import read_entry, write_manifest
from keras_attention.zoo.entry_io import load_entry, rewrite_entry, write_entry

FILES = [
    "CARD.md",
    "config.json",
    "metrics.json",
    "model.weights.h5",
    "source_tokenizer/tokenizer.json",
    "source_tokenizer/tokenizer.model",
    "target_tokenizer/tokenizer.json",
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """An entry that nobody changes."""
    return write_tiny_entry(tmp_path_factory.mktemp("zoo") / "tiny_entry").folder


@pytest.fixture
def entry(sound, tmp_path):
    """A copy of it, to be changed."""
    shutil.copytree(sound, tmp_path / "tiny_entry")
    return tmp_path / "tiny_entry"


def change_json(path, change):
    """Rewrites a JSON file after `change` worked on its content, with a manifest that agrees."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    write_manifest(path.parent)


def test_a_written_entry_has_its_files_and_manifest(sound):
    entry = read_entry(sound)
    assert entry.files == FILES
    assert entry.name == "tiny_entry"
    assert entry.bytes == sum((sound / name).stat().st_size for name in FILES)
    assert entry.card.startswith("# tiny_entry\n")
    assert entry.metrics["training"] == METRICS["training"]
    assert (sound.stat().st_mode & 0o777) == 0o755
    assert [path.name for path in sound.parent.iterdir()] == ["tiny_entry"]
    manifest = json.loads((sound / "manifest.json").read_text())
    content = (sound / "config.json").read_bytes()
    facts = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert manifest["files"]["config.json"] == facts


def test_the_model_is_loaded_again(sound):
    model, source, target = tiny_parts()
    loaded = load_entry(sound)
    for a, b in zip(model.get_weights(), loaded.model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.model.settings == model.settings
    assert loaded.tokenizers["source"].encode(ENGLISH)[2].tolist() == source.encode(ENGLISH)[2].tolist()
    assert loaded.tokenizers["target"].characters == target.characters


def test_reading_and_listing_import_nothing_heavy(sound):
    program = (
        "import sys, keras_attention\n"
        "from keras_attention.zoo.entry import read_entry\n"
        f"read_entry({str(sound)!r}); keras_attention.list_models()\n"
        "assert not {'tensorflow', 'keras', 'numpy', 'h5py', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_one_tokenizer_for_both_sides_is_stored_once(tmp_path):
    _, _, tokenizer = tiny_parts()
    size = tokenizer.vocabulary_size
    model = AttentionSeq2Seq(size, size, embedding_dim=7, hidden_dim=10, tie_embeddings="all")
    model.build()
    entry = write_tiny_entry(tmp_path / "shared", (model, tokenizer, tokenizer))
    assert entry.config["tokenizer"] == {"source": "tokenizer", "target": "tokenizer"}
    assert [name for name in entry.files if "/" in name] == ["tokenizer/tokenizer.json"]
    _, model, tokenizers = load_entry(entry.folder)
    assert tokenizers["source"] is tokenizers["target"]
    again = write_tiny_entry(tmp_path / "again", (model, *tokenizers.values()))
    assert again.config["tokenizer"] == entry.config["tokenizer"]


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_in_any_file(entry, name):
    content = bytearray((entry / name).read_bytes())
    content[len(content) // 2] ^= 1
    (entry / name).write_bytes(content)
    with pytest.raises(EntryError, match=f"{name}.*SHA-256"):
        keras_attention.load(entry)


@pytest.mark.parametrize("name", ["manifest.json", *FILES])
def test_any_file_cut_or_missing(entry, name):
    content = (entry / name).read_bytes()
    (entry / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(EntryError, match=name):
        load_entry(entry)
    (entry / name).unlink()
    with pytest.raises(EntryError, match=name):
        load_entry(entry)


@pytest.mark.parametrize("name", FILES)
def test_manifest_that_does_without(entry, name):
    (entry / name).unlink()
    write_manifest(entry)
    with pytest.raises(UserError, match=name.split("/")[0]):  # a folder whose only file it was is named itself
        load_entry(entry)


def test_extra_file(entry):
    (entry / "model.pkl").write_bytes(b"cos\nsystem\n")
    with pytest.raises(EntryError, match="'model.pkl' does not belong"):
        load_entry(entry)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: config.update(loader="os.system"), "unknown key 'loader'"),
        (lambda config: config.update(architecture="Lambda"), "architecture='Lambda'"),
        (lambda config: config["model"].update(hidden_dim=1000), "needs about .* bytes of weights"),
        (lambda config: config["model"].update(hidden_dim=8192, num_layers=16), "parameters. Allowed"),
        (lambda config: config["model"].update(hidden_dim=13), "`hidden_dim` must be even"),
        (lambda config: config["model"].update(tie_embeddings="all"), "one vocabulary for both sides"),
        (lambda config: config["model"].update(attention="dot"), "attention.*which the model of config.json does not"),
        (lambda config: config["model"].update(attention="none"), "does not have"),
        (lambda config: config["model"].update(embedding_dim=13), "Expected"),
        (lambda config: config["model"].update(target_vocabulary_size=16), "target tokenizer has 15 ids"),
        (lambda config: config["tokenizer"].update(target="tokens"), "lacks 'tokens/tokenizer.json'"),
        (lambda config: config.update(weights_dtype="float16"), "float32.*Expected.*float16"),
    ],
)
def test_configuration_that_does_not_fit(entry, change, message):
    change_json(entry / "config.json", change)
    with pytest.raises(EntryError, match=message):
        load_entry(entry)


@pytest.mark.parametrize("examples", ["x", [{"source": "A"}], [{"source": "A", "output": 3}], ["A"], [{}] * 1001])
def test_unsound_examples(entry, examples):
    change_json(entry / "metrics.json", lambda metrics: metrics.update(examples=examples))
    with pytest.raises(EntryError, match="examples must be"):
        read_entry(entry)


def test_weight_that_is_no_number(entry):
    with h5py.File(entry / "model.weights.h5", "r+") as file:
        file["output_bias"][7] = np.nan
    write_manifest(entry)
    with pytest.raises(EntryError, match="output_bias.*NaN"):
        load_entry(entry)


def test_never_overwrites_by_itself(sound, entry):
    model, source, target = tiny_parts(seed=5)
    before = (entry / "model.weights.h5").read_bytes()
    with pytest.raises(EntryError, match="already contains a trained model"):
        write_tiny_entry(entry, (model, source, target))
    assert (entry / "model.weights.h5").read_bytes() == before
    write_tiny_entry(entry, (model, source, target), overwrite=True)
    assert (entry / "model.weights.h5").read_bytes() != before
    assert [path.name for path in entry.parent.iterdir()] == ["tiny_entry"]


@pytest.mark.parametrize("step", ["save_weights", "write_manifest", "load_entry"])
def test_a_write_that_fails_leaves_nothing(entry, monkeypatch, step):
    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(entry_io, step, fail)
    before = {path.name: path.stat().st_mtime_ns for path in entry.iterdir()}
    for folder in (entry, entry.parent / "new"):
        with pytest.raises(UserError, match="No space"):
            write_tiny_entry(folder, overwrite=True)
    assert [path.name for path in entry.parent.iterdir()] == ["tiny_entry"]
    assert {path.name: path.stat().st_mtime_ns for path in entry.iterdir()} == before


def test_never_writes_what_it_could_not_read(tmp_path):
    model, source, target = tiny_parts()
    with pytest.raises(EntryError, match="source tokenizer has"):
        write_tiny_entry(tmp_path / "entry", (model, CharacterTokenizer("abc"), target))
    with pytest.raises(EntryError, match="is of the kind byte-level. Expected: characters or marian or sent"):
        write_tiny_entry(tmp_path / "entry", (model, source, tiny_byte_level()))
    about = {"source_language": "en", "target_language": "de", "decoding": DECODING}
    options = {"tokenizers": {"source": source, "target": target}, "about": about, "metrics": METRICS}
    with pytest.raises(EntryError, match="beam_size=0"):
        write_entry(tmp_path / "entry", model, **{**options, "about": {**about, "decoding": {"beam_size": 0}}})
    metrics = {key: value for key, value in METRICS.items() if key != "limits"}
    with pytest.raises(EntryError, match="lacks 'limits'"):
        write_entry(tmp_path / "entry", model, **{**options, "metrics": metrics})
    picture = tmp_path / "config.json"
    picture.touch()
    with pytest.raises(EntryError, match=r"may not be called 'config\.json'"):
        write_entry(tmp_path / "entry", model, extra_files=[picture], **options)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_extra_files_and_half_precision(tmp_path):
    (tmp_path / "plot.png").write_bytes(b"picture")
    entry = write_tiny_entry(
        tmp_path / "entry",
        about={"low_score_threshold": -0.5},
        extra_files=[tmp_path / "plot.png"],
        weights_dtype="float16",
    )
    assert "plot.png" in entry.files
    loaded = load_entry(entry.folder)
    assert loaded.entry.config["low_score_threshold"] == -0.5
    np.testing.assert_allclose(loaded.model.output_bias, tiny_parts()[0].output_bias, rtol=1e-3)


def test_a_rewritten_entry_keeps_the_bytes_of_its_weights(tmp_path):
    for name in ("old.png", "new.png"):
        (tmp_path / name).write_bytes(name.encode())
    old = [{"file": "old.png", "caption": "Old"}]
    entry = write_tiny_entry(tmp_path / "entry", weights_dtype="int8_deflate", extra_files=[tmp_path / "old.png"])
    rewrite_entry(entry.folder, metrics={"pictures": old})
    stored = [name for name in FILES if "/" in name or name == "model.weights.h5"]
    before = {name: (entry.folder / name).read_bytes() for name in [*stored, "old.png"]}
    changed = rewrite_entry(entry.folder, config={"low_score_threshold": -0.7}, metrics={"limits": ["None."]})
    assert {name: (entry.folder / name).read_bytes() for name in before} == before
    assert changed.config == {**entry.config, "low_score_threshold": -0.7}
    assert changed.metrics == {**entry.metrics, "limits": ["None."], "pictures": old}
    assert "- None." in changed.card
    new = [{"file": "new.png", "caption": "New"}]
    changed = rewrite_entry(entry.folder, metrics={"pictures": new}, extra_files=[tmp_path / "new.png"])
    assert changed.files == sorted([*FILES, "new.png"])
    assert {name: (entry.folder / name).read_bytes() for name in stored} == {name: before[name] for name in stored}
    with pytest.raises(EntryError, match="low_score_threshold=1"):
        rewrite_entry(entry.folder, config={"low_score_threshold": 1})
    assert read_entry(entry.folder) == changed


def test_a_licence_travels_with_the_entry(entry, tmp_path):
    licence = tmp_path / "LICENSE.txt"
    licence.write_text("You may use it on Sundays.")
    changed = rewrite_entry(entry, extra_files=[licence])
    assert (changed.folder / "LICENSE.txt").read_text() == licence.read_text()
    licence.write_text("x" * 65537)
    with pytest.raises(EntryError, match="'LICENSE.txt' has 65537 bytes. Allowed: 65536"):
        rewrite_entry(entry, extra_files=[licence])


@pytest.mark.parametrize("rule", ["x", {"share": 2, "set": "val", "sentences": 7}, {"share": 0.05}])
def test_unsound_facts_about_low_scores(entry, rule):
    change_json(entry / "metrics.json", lambda metrics: metrics.update(low_score=rule))
    with pytest.raises(EntryError, match="low_score"):
        read_entry(entry)


@pytest.mark.slow
def test_examples_are_run_again(sound, entry):
    assert failing_examples(sound) == (2, [])
    change_json(entry / "metrics.json", lambda metrics: metrics["examples"][1].update(output="2023-02-30"))
    count, problems = failing_examples(entry)
    assert count == 2
    assert len(problems) == 1
    assert ENGLISH[3] in problems[0]
    assert "2023-02-30" in problems[0]


def test_settings_of_the_search_are_kept(sound):
    assert {name: keras_attention.load(sound).decoding[name] for name in DECODING} == DECODING
