"""Published checkpoints by name, from a hub on this machine: converted once, then found in the cache."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from convert.fake_hub import COMMIT, PUBLISHED, running_hub
from convert.tiny_checkpoints import inputs, tiny_tensors, write_checkpoint
from keras import ops

import keras_attention
from keras_attention.convert import load_checkpoint, published
from keras_attention.pipelines.base import failing_examples
from keras_attention.support.errors import UserError
from keras_attention.zoo.entry import read_entry

NAME = f"hf://{PUBLISHED}"
PINNED = f"{NAME}@{COMMIT}"
LOAD = "import sys, keras_attention as ka; print(type(ka.load(sys.argv[1])).__name__)"


def environment(caches, hub):
    """The variables of a process that knows the fake hub and has caches of its own."""
    own = {"KERAS_ATTENTION_CACHE": str(caches / "ours"), "HF_HOME": str(caches / "theirs"), "HF_ENDPOINT": hub}
    return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def run(caches, hub, *arguments):
    """Runs Python or, with the arguments of the command, `keras-attention`."""
    start = ["-c", LOAD] if arguments[0].startswith("hf://") else ["-m", "keras_attention"]
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.run(command, env=environment(caches, hub), capture_output=True, text=True)


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """Caches into which the checkpoint was loaded by name, after a hub had answered, which is then gone."""
    folder = tmp_path_factory.mktemp("caches")
    tensors = {name: values for name, values in tiny_tensors().items() if not name.startswith("cls.")}
    checkpoint = write_checkpoint(folder / "checkpoint", tensors, architectures=["BertModel"])
    with running_hub() as hub:
        hub.publish(checkpoint)
        process = run(folder, hub.endpoint, NAME)
        assert process.returncode == 0, process.stderr
        assert process.stdout == "TextEncoder\n"
    return folder


@pytest.fixture
def folder(caches):
    return next((caches / "ours" / "published" / "entries").glob(f"*@{COMMIT}/*/manifest.json")).parent


@pytest.mark.slow
def test_the_entry_and_its_card_name_the_commit(folder):
    entry = read_entry(folder)
    assert entry.name == "tiny_bert_v1"
    assert entry.metrics["source"] == PINNED
    for part in (
        f"The Hugging Face checkpoint {PINNED}, converted.",
        f"keras-attention convert {PINNED}\n",
        f"the weights under the licence apache-2.0 <https://huggingface.co/{PUBLISHED}/tree/{COMMIT}>",
        "Not measured here: the scores of this model are its publisher's, see <https://huggingface.co/",
        f"keras_attention.load({PINNED!r}).encode(",
    ):
        assert part in entry.card
    assert "| set |" not in entry.card
    expected = load_checkpoint(folder.parents[4] / "checkpoint").model(inputs())
    actual = keras_attention.load(folder).model(inputs())
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (actual, expected)), atol=1e-6)


@pytest.mark.slow
def test_afterwards_it_works_without_network(caches):
    nowhere = "http://127.0.0.1:9"
    assert run(caches, nowhere, NAME).stdout == "TextEncoder\n"
    assert run(caches, nowhere, "convert", PINNED, "--out", caches / "copy").returncode == 0
    assert read_entry(caches / "copy").metrics["source"] == PINNED
    assert "keras_attention.load('copy')" in read_entry(caches / "copy").card
    process = run(caches, nowhere, "zoo", "show", "hf://small/other")
    assert (process.returncode, process.stdout, process.stderr.count("\n")) == (2, "", 1)
    assert "hf://small/other is not in the cache" in process.stderr


@pytest.mark.slow
def test_finetuning_starts_from_it_and_says_so(caches):
    rows = "".join(f"a b {number},x\nc ab {number},y\n" for number in range(20))
    (caches / "table.csv").write_text(f"text,label\n{rows}")
    start = ["finetune", caches / "table.csv", "--text", "text", "--label", "label", "--from", NAME, "--epochs", "1"]
    process = run(caches, "http://127.0.0.1:9", *start, "--out", caches / "tuned")
    assert process.returncode == 0, process.stderr
    metrics = read_entry(caches / "tuned").metrics
    assert metrics["training"]["start"] == PINNED
    assert f"Fine-tuned from `{PINNED}`" in metrics["description"]


@pytest.mark.slow
def test_a_failed_conversion_leaves_no_files(tmp_path):
    checkpoint = write_checkpoint(tmp_path / "checkpoint", hidden_size=12)
    with running_hub() as hub:
        hub.publish(checkpoint)
        process = run(tmp_path, hub.endpoint, "convert", NAME, "--out", tmp_path / "out")
        assert "has the shape" in process.stderr
        assert (process.returncode, process.stderr.count("\n")) == (2, 1)
        assert not (tmp_path / "out").exists()
        process = run(tmp_path, hub.endpoint, "zoo", "show", NAME)
        assert "has the shape" in process.stderr
        assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert not list((tmp_path / "ours" / "published" / "entries").rglob("manifest.json"))


@pytest.mark.slow
def test_a_card_has_a_true_example(run_convert, tmp_path):
    """With room for whole texts; what the vocabulary does not know is unknown to the example, too."""
    tensors = {name: values for name, values in tiny_tensors().items() if not name.startswith("cls.")}
    positions = np.random.default_rng(0).normal(size=(70, 6)).astype("float32")
    tensors["bert.embeddings.position_embeddings.weight"] = positions
    options = {"architectures": ["BertModel"], "max_position_embeddings": 70}
    write_checkpoint(tmp_path / "checkpoint", tensors, **options)
    run_convert(tmp_path / "checkpoint", "--out", tmp_path / "out")
    entry = read_entry(tmp_path / "out")
    example = entry.metrics["examples"][0]
    first, second = keras_attention.load(tmp_path / "out").encode([example["source"], example["source_b"]]).pooled
    cosine = f"{first @ second / np.linalg.norm(first) / np.linalg.norm(second):.2f}"
    assert example["output"] == cosine
    assert f"# an array (2, 6). Their cosine is {cosine}" in entry.card
    assert failing_examples(tmp_path / "out") == (2, [])
    code = (
        entry.card.partition("```python\n")[2]
        .partition("```")[0]
        .replace("load('out')", f"load({str(tmp_path / 'out')!r})")
    )
    rows = {}
    exec(code, {"keras_attention": keras_attention}, rows)
    assert rows["vectors"].shape == (2, 6)


def test_only_a_classifier_reads_pairs(tmp_path, capsys):
    from keras_attention.cli.main import main

    write_checkpoint(tmp_path / "checkpoint", tiny_tensors(), architectures=["BertForMaskedLM"])
    assert main(["convert", str(tmp_path / "checkpoint"), "--out", str(tmp_path / "out"), "--pair"]) == 2
    assert "--pair is for classifiers" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def run_convert():
    from keras_attention.cli.main import main

    def run(*arguments):
        assert main(["convert", *map(str, arguments)]) == 0

    return run


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("hf://sentence-transformers/all-MiniLM-L6-v2@main", "all_minilm_l6_v2"),
        ("hf://a/b.c", "b_c"),
        ("kaggle://keras/bert/keras/bert_tiny_en_uncased/2", "bert_tiny_en_uncased"),
        ("some/My-BERT", "my_bert"),
    ],
)
def test_names_of_folders(path, name):
    assert published.default_folder(path) == name


KAGGLE = "kaggle://keras/bert/keras/tiny"


@pytest.fixture
def kaggle(tmp_path, monkeypatch):
    """kagglehub with one preset, version 3, in its cache; a folder of files that it was asked for."""
    import kagglehub

    monkeypatch.setenv("KERAS_ATTENTION_CACHE", str(tmp_path / "ours"))
    folder = tmp_path / "models" / "keras" / "bert" / "keras" / "tiny" / "3"
    for name in published.PRESET:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"registered_name": "keras_hub>BertBackbone"}))
    asked = []

    def download(handle, path):
        asked.append((handle, path))
        if "tiny" not in handle:
            raise OSError("404 Client Error\nmore")
        return str(folder / path)

    monkeypatch.setattr(kagglehub, "model_download", download)
    return folder, asked


def test_presets_of_kaggle(kaggle, monkeypatch):
    folder, asked = kaggle
    fetched = published.fetched(KAGGLE)
    assert (fetched.name, fetched.folder) == (f"{KAGGLE}/3", folder)
    assert fetched.link == "https://www.kaggle.com/models/keras/bert/keras/tiny/3"
    assert asked[-1] == ("keras/bert/keras/tiny/3", "model.weights.h5")
    assert published.fetched(f"{KAGGLE}/2").name == f"{KAGGLE}/2"
    asked.clear()
    (folder / "config.json").write_text(json.dumps({"registered_name": "keras_hub>GemmaBackbone"}))
    with pytest.raises(UserError, match="registered_name is 'keras_hub>GemmaBackbone'. Supported: one of"):
        published.fetched(f"{KAGGLE}/3")
    assert [path for _, path in asked] == ["config.json"]


def test_presets_that_cannot_be_had(kaggle):
    with pytest.raises(UserError, match="config.json cannot be downloaded from Kaggle: 404 Client Error$"):
        published.fetched("kaggle://keras/bert/keras/other")
    for name in ("kaggle://a/b/keras", "kaggle://a/b/pytorch/c", "kaggle://a/b/keras/..", "kaggle://a/b/keras/c/x"):
        with pytest.raises(UserError, match="Expected kaggle://ORG/MODEL/keras/VARIANT"):
            published.fetched(name)


def test_the_cached_version_counts_where_kaggle_cannot_be_reached(kaggle):
    entry = Path(os.environ["KERAS_ATTENTION_CACHE"], "published", "entries", "keras--bert--keras--other--12")
    (entry / "other").mkdir(parents=True)
    assert published.published_entry("kaggle://keras/bert/keras/other") == entry / "other"
