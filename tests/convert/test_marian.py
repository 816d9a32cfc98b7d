"""Marian checkpoints: logits and texts are those of transformers, and what is not supported or damaged is refused."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from convert.fake_hub import COMMIT, running_hub
from convert.hostile_checkpoints import CHECKPOINTS
from convert.marian_models import CASES, TINY_MARIAN
from convert.tiny_checkpoints import safetensors_bytes

import keras_attention
from keras_attention.cli.convert import about_converted
from keras_attention.cli.main import main
from keras_attention.convert import hub, load_checkpoint
from keras_attention.convert.marian_weights import sinusoids
from keras_attention.convert.published_weights import SafetensorsFile
from keras_attention.pipelines import translator
from keras_attention.pipelines.base import make_pipeline
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, START_ID

STORED = ("swish", "languages")
WEIGHTS, OTHER_WEIGHTS = "model.safetensors", "tf_model.h5"


def copy_of(folder, case="swish", tensorflow=False):
    """A copy of a stored checkpoint with one of its weights files."""
    shutil.copytree(TINY_MARIAN / case, folder)
    (folder / (WEIGHTS if tensorflow else OTHER_WEIGHTS)).unlink(missing_ok=True)
    return folder


def changed(folder, name="config.json", **fields):
    """Changes fields of a JSON file; None removes one."""
    content = json.loads((folder / name).read_text()) | fields
    (folder / name).write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return folder


def tensors_of(folder):
    file = SafetensorsFile(folder / WEIGHTS)
    return {name: file.read(name) for name in file.shapes}


def our_ids(converted, folder):
    """Array from the ids of Marian to ours; the id with which Marian starts is our padding here."""
    ids = json.loads((folder / "vocab.json").read_text())
    numbers = {piece: number for number, piece in enumerate(converted.vocabulary) if number != START_ID}
    return np.array([numbers[piece] for piece in sorted(ids, key=ids.get)])


def check_logits(converted, folder, expected):
    ids = our_ids(converted, folder)
    for i, text in enumerate(expected["texts"].tolist()):
        source, target = ids[expected[f"source_{i}"]], ids[expected[f"target_{i}"]]
        assert [*converted.tokenizers["source"].encode([text])[0], END_ID] == source.tolist()
        target[0] = START_ID
        logits = np.asarray(converted.model({"source_ids": source[None], "target_ids": target[None]}))[0]
        np.testing.assert_allclose(logits[:, ids], expected[f"logits_{i}"], atol=1e-4)
        assert (logits[:, START_ID] < -1000).all()  # it is no token of Marian


def check_texts(converted, expected):
    translator = make_pipeline(converted.model, converted.tokenizers, about_converted(converted, "en"))
    beams = translator.translate(expected["texts"].tolist(), n_best=2)
    greedy = translator.translate(expected["texts"].tolist(), beam_size=1)
    for i, actual in enumerate(beams):
        assert list(map(str, actual)) == expected[f"beam_{i}"].tolist()
        np.testing.assert_allclose([one.score for one in actual], expected[f"scores_{i}"], rtol=1e-4)
        assert str(greedy[i]) == expected[f"greedy_{i}"][0]


@pytest.fixture(autouse=True)
def one_search(monkeypatch):
    """Random models write loops; transformers does not search such answers again."""
    monkeypatch.setattr(translator, "_loops", lambda hypotheses: False)


@pytest.mark.parametrize("case", STORED)
def test_logits_are_those_of_transformers(case):
    folder = TINY_MARIAN / case
    check_logits(load_checkpoint(folder), folder, np.load(folder / "expected.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("case", STORED)
def test_texts_are_those_of_generate(case):
    check_texts(load_checkpoint(TINY_MARIAN / case), np.load(TINY_MARIAN / case / "expected.npz"))


def test_a_file_of_tensorflow_holds_the_same_weights(tmp_path):
    folder = copy_of(tmp_path / "marian", tensorflow=True)
    check_logits(load_checkpoint(folder), folder, np.load(folder / "expected.npz"))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of all cases, written by transformers now."""
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"without {' and '.join(missing)}: pip install '.[benchmarks]'")
    folder = tmp_path_factory.mktemp("transformers")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "USE_TF": "0"}
    command = [sys.executable, Path(__file__).with_name("marian_models.py"), str(folder)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_case_of_transformers(case, written):
    converted, expected = load_checkpoint(written / case), np.load(written / case / "expected.npz")
    check_logits(converted, written / case, expected)
    check_texts(converted, expected)


def test_the_search_is_that_of_the_files(tmp_path):
    decoding = load_checkpoint(TINY_MARIAN / "swish").decoding
    expected = {"beam_size": 4, "length_penalty": 1.0, "patience": None, "ranking": "length", "force_end": True}
    assert decoding == decoding | expected | {"max_length": 36, "max_source_length": 61}
    folder = copy_of(tmp_path / "marian")
    changed(folder, "generation_config.json", early_stopping=True, num_beams=7, length_penalty=0.5, max_length=None)
    changed(folder, "generation_config.json", forced_eos_token_id=None, no_repeat_ngram_size=3, bad_words_ids=[[5]])
    converted = load_checkpoint(folder)
    expected = {"beam_size": 7, "length_penalty": 0.5, "patience": 1.0, "force_end": False, "max_length": 61}
    assert converted.decoding == converted.decoding | expected
    (note,) = converted.notes
    assert "also sets no_repeat_ngram_size, bad_words_ids, which is not applied" in note
    (folder / "generation_config.json").unlink()
    changed(folder, num_beams=5)
    assert load_checkpoint(folder).decoding["beam_size"] == 5  # of an older config.json


def test_languages_come_from_the_files_or_the_name(tmp_path):
    converted = load_checkpoint(TINY_MARIAN / "languages")
    assert converted.languages == ("en", "ro")
    assert "token of one of 2 target languages, such as >>fra<<" in converted.notes[0]
    folder = copy_of(tmp_path / "marian")
    (folder / "tokenizer_config.json").unlink()
    converted = load_checkpoint(folder)
    assert converted.languages == ("und", "und")
    for name, pair in {
        "opus_mt_en_ro": ("en", "ro"),
        "opus_mt_tc_big_fi_en": ("fi", "en"),
        "x": ("und", "und"),
    }.items():
        about = about_converted(converted, "en", name=name)
        assert (about["source_language"], about["target_language"]) == pair


def test_stored_positions_and_copies_must_be_the_expected_ones(tmp_path):
    folder = copy_of(tmp_path / "marian")
    tensors = tensors_of(folder)
    positions, copy = "model.encoder.embed_positions.weight", "lm_head.weight"
    more = {positions: sinusoids(61, 14).astype("float32"), copy: tensors["model.shared.weight"]}
    (folder / WEIGHTS).write_bytes(safetensors_bytes(tensors | more))
    check_logits(load_checkpoint(folder), folder, np.load(folder / "expected.npz"))
    for name in more:
        (folder / WEIGHTS).write_bytes(safetensors_bytes(tensors | {name: more[name] + 0.1}))
        with pytest.raises(UserError, match=f"{name} .*differs from"):
            load_checkpoint(folder)


def test_a_piece_called_like_the_start_token_is_renamed(tmp_path):
    folder = copy_of(tmp_path / "marian")
    ids = json.loads((folder / "vocab.json").read_text())
    piece = next(piece for piece, number in ids.items() if number == 83)
    ids = {"<s>" if other == piece else other: number for other, number in ids.items()}
    (folder / "vocab.json").write_text(json.dumps(ids))
    assert "<s>_" in load_checkpoint(folder).vocabulary


CONFIGURATIONS = [
    (
        {"model_type": "marianne"},
        "model_type is 'marianne'. Supported: one of bert, distilbert, xlm-roberta, gpt2, marian",
    ),
    ({"architectures": ["MarianForCausalLM"]}, "architectures is .'MarianForCausalLM'.. Supported: .'MarianMTModel'."),
    ({"d_model": 15}, "d_model is 15. Supported: an even number"),
    ({"d_model": 10**9}, "d_model is 1000000000. Supported: an integer from 2 to 8192"),
    ({"encoder_layers": 1.5}, "encoder_layers is 1.5. Supported: an integer"),
    ({"encoder_layers": 3}, "lacks the tensor model.encoder.layers.2"),
    ({"decoder_layers": 2}, "lacks the tensor model.decoder.layers.1.encoder_attn"),
    ({"encoder_attention_heads": 3}, "decoder_attention_heads is 2. Supported: 3, as in the encoder"),
    ({"decoder_ffn_dim": 23}, "decoder_ffn_dim is 23. Supported: 19, as in the encoder"),
    (
        {"encoder_attention_heads": 4, "decoder_attention_heads": 4},
        "encoder_attention_heads is 4. Supported: a divisor",
    ),
    ({"activation_function": "mish"}, "activation_function is 'mish'. Supported: one of swish"),
    ({"scale_embedding": "yes"}, "scale_embedding is 'yes'. Supported: False or True"),
    ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings is False. Supported: True"),
    ({"decoder_vocab_size": 5}, "decoder_vocab_size is 5. Supported: None or 96"),
    ({"vocab_size": 97, "decoder_vocab_size": 97}, "vocab.json has 96 pieces. The configuration has vocab_size 97"),
    ({"normalize_before": True}, "normalize_before is True. Supported: False"),
    ({"pad_token_id": 96}, "pad_token_id is 96. Supported: an integer from 0 to 95"),
    ({"pad_token_id": 7}, "pad_token_id 7 is '.*'. Supported: <pad>"),
    ({"eos_token_id": 5}, "eos_token_id 5 is '.*'. Supported: </s>"),
    ({"decoder_start_token_id": None}, "decoder_start_token_id is nothing. Supported: an integer"),
    ({"quantization_config": {"bits": 4}}, "quantization_config is {'bits': 4}"),
]


@pytest.mark.parametrize(("config", "message"), CONFIGURATIONS)
def test_configurations_that_are_not_supported(config, message, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        load_checkpoint(changed(copy_of(tmp_path / "marian"), **config))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"do_sample": True}, "generation_config.json: do_sample is True. Supported: False"),
        ({"early_stopping": "never"}, "early_stopping is 'never'. Supported: False or True"),
        ({"forced_bos_token_id": 5}, "forced_bos_token_id is 5"),
        ({"forced_eos_token_id": 5}, "forced_eos_token_id is 5. Supported: 0"),
        ({"num_beams": 1000}, "num_beams is 1000. Supported: an integer from 1 to 64"),
        ({"length_penalty": -1.0}, "length_penalty is -1.0. Supported: a number from 0 to 10"),
        ({"max_length": 1}, "max_length is 1. Supported"),
    ],
)
def test_searches_that_are_not_supported(config, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load_checkpoint(changed(copy_of(tmp_path / "marian"), "generation_config.json", **config))


FILES = {
    "no vocabulary": (lambda folder: (folder / "vocab.json").unlink(), "lacks vocab.json"),
    "no source.spm": (lambda folder: (folder / "source.spm").unlink(), "source.spm cannot be read"),
    "no SentencePiece": (
        lambda folder: (folder / "target.spm").write_bytes(b"\x0a\xff" * 99),
        "target.spm: .*not a valid",
    ),
    "a long .spm": (lambda folder: os.truncate(folder / "source.spm", 40_000_000), "more than 33,554,432 bytes"),
    "a list of pieces": (lambda folder: (folder / "vocab.json").write_text("[]"), "must hold a JSON object"),
    "ids with a gap": (lambda folder: (folder / "vocab.json").write_text('{"a": 7}'), "ids from 0 on, each once"),
    "a key twice": (lambda folder: (folder / "vocab.json").write_text('{"a": 0, "a": 1}'), "stands twice"),
    "deep JSON": (lambda folder: (folder / "vocab.json").write_text("[" * 100_000), "not valid JSON"),
    "an empty piece": (lambda folder: rename(folder, 50, ""), "Piece .* must be a text of 1 to 1024 characters"),
    "no unknown piece": (lambda folder: rename(folder, 1, "x"), "lacks the piece <unk>"),
    "large weights": (
        lambda folder: os.truncate(folder / WEIGHTS, (1 << 31) + 7),
        "2,147,483,655 bytes. Supported: up to",
    ),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "lacks model.safetensors"),
}


def rename(folder, number, new):
    ids = json.loads((folder / "vocab.json").read_text())
    ids = {new if other == number else piece: other for piece, other in ids.items()}
    (folder / "vocab.json").write_text(json.dumps(ids))


@pytest.mark.parametrize("case", FILES)
def test_files_that_are_missing_or_damaged(case, tmp_path):
    change, message = FILES[case]
    folder = copy_of(tmp_path / "marian")
    change(folder)
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


def test_pickled_weights_are_never_read(tmp_path):
    folder = copy_of(tmp_path / "marian")
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    with pytest.raises(
        UserError, match="has only pytorch_model.bin, a format that can run code. Save the model as model"
    ):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", [name for name, content in CHECKPOINTS.items() if isinstance(content, bytes)])
def test_hostile_headers_are_refused(name, tmp_path):
    folder = copy_of(tmp_path / "marian")
    (folder / WEIGHTS).write_bytes(CHECKPOINTS[name])
    with pytest.raises(UserError, match="model.safetensors") as caught:
        load_checkpoint(folder)
    assert len(str(caught.value)) < 1000


BIAS = "final_logits_bias"
NORM = "model.decoder.layers.0.encoder_attn_layer_norm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({NORM: None}, f"lacks the tensor {NORM} .14,."),
        ({NORM: np.ones(13, "float32")}, f"{NORM} has the shape .13,.. The configuration requires .14,."),
        ({NORM: np.full(14, np.nan, "float32")}, "decoder_0/cross_attention_norm/gamma holds NaN or infinity"),
        ({NORM: np.ones(14, "int64")}, f"{NORM} has dtype I64"),
        ({BIAS: np.zeros((2, 96), "float32")}, "final_logits_bias has the shape .2, 96."),
        ({"model.encoder.layernorm_embedding.weight": np.ones(14, "float32")}, "has the tensor 'model.encoder.layern"),
    ],
)
def test_tensors_that_do_not_fit(change, message, tmp_path):
    folder = copy_of(tmp_path / "marian")
    tensors = {name: values for name, values in (tensors_of(folder) | change).items() if values is not None}
    (folder / WEIGHTS).write_bytes(safetensors_bytes(tensors))
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


def test_without_a_bias_the_logits_have_none(tmp_path):
    folder = copy_of(tmp_path / "marian")
    tensors, expected = tensors_of(folder), dict(np.load(folder / "expected.npz"))
    bias = tensors.pop(BIAS)
    (folder / WEIGHTS).write_bytes(safetensors_bytes(tensors))
    expected |= {f"logits_{i}": expected[f"logits_{i}"] - bias for i in range(len(expected["texts"]))}
    check_logits(load_checkpoint(folder), folder, expected)


def in_h5(change):
    def changed(folder):
        with h5py.File(folder / OTHER_WEIGHTS, "r+") as file:
            change(file)

    return changed


LAYER = "model/tf_marian_mt_model/model/decoder/layers.0/fc1"


def replaced(file, name, values):
    del file[name]
    file[name] = values


H5_FILES = {
    "not HDF5": (lambda folder: (folder / OTHER_WEIGHTS).write_bytes(b"PK" * 99), "is not a valid weights file"),
    "cut": (lambda folder: os.truncate(folder / OTHER_WEIGHTS, 9_000), "is not a valid weights file"),
    "a link to a file": (
        in_h5(lambda file: replaced(file, f"{LAYER}/bias:0", h5py.ExternalLink("/etc/passwd", "/x"))),
        "'bias:0' is not a plain array or group",
    ),
    "a link inside": (
        in_h5(lambda file: replaced(file, f"{LAYER}/bias:0", h5py.SoftLink("/final_logits_bias"))),
        "'bias:0' is not a plain array or group",
    ),
    "another name": (in_h5(lambda file: file.move(LAYER, "model/code")), "has a tensor that no Marian model has"),
    "the same twice": (in_h5(lambda file: file.copy(LAYER, "decoder/layers.0/fc1")), "has twice the same tensor"),
    "another shape": (
        in_h5(lambda file: replaced(file, f"{LAYER}/bias:0", np.zeros(23, "float32"))),
        "fc1.bias has the shape .23,.. The configuration requires .19,.",
    ),
    "texts": (
        in_h5(lambda file: replaced(file, f"{LAYER}/bias:0", np.array([b"x"] * 19))),
        "fc1.bias has dtype .S1. Supported: float32, float16",
    ),
    "infinity": (
        in_h5(lambda file: replaced(file, f"{LAYER}/bias:0", np.full(19, np.inf, "float32"))),
        "holds NaN or infinity",
    ),
}


@pytest.mark.parametrize("case", H5_FILES)
def test_damaged_and_hostile_files_of_tensorflow(case, tmp_path):
    change, message = H5_FILES[case]
    folder = copy_of(tmp_path / "marian", tensorflow=True)
    change(folder)
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


@pytest.mark.slow
def test_a_converted_entry_translates_and_exports(tmp_path, capsys):
    import tensorflow as tf

    expected = np.load(TINY_MARIAN / "languages" / "expected.npz")
    text, answer = str(expected["texts"][0]), str(expected["beam_0"][0])
    entry = str(tmp_path / "mine")
    assert main(["convert", str(TINY_MARIAN / "languages"), "--out", entry]) == 0
    capsys.readouterr()
    translator = keras_attention.load(entry)
    assert (translator.source_language, translator.target_language) == ("en", "ro")
    for engine in ("keras", "ctranslate2"):
        assert main(["translate", "--model", entry, text, "--engine", engine]) == 0
        assert capsys.readouterr().out == f"{answer}\n"
    assert main(["export", entry, str(tmp_path / "graph"), "--format", "saved_model"]) == 0
    function = tf.saved_model.load(str(tmp_path / "graph")).signatures["serving_default"]
    actual = function(texts=tf.constant(expected["texts"].tolist()))
    assert [one.decode() for one in actual["text"].numpy()] == [expected[f"beam_{i}"][0] for i in range(5)]
    assert main(["translate", "--model", entry, ">>xyz<< A dog runs."]) == 2
    assert "The model has no target language '>>xyz<<'. Its languages: >>fra<<, >>ron<<" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [False, True])
def test_it_is_loaded_by_its_name_on_the_hub(tensorflow, tmp_path):
    folder = copy_of(tmp_path / "marian", tensorflow=tensorflow)
    expected = np.load(folder / "expected.npz")
    with running_hub() as fake:
        fake.publish(folder, "small/opus-mt-en-ro", files={"pytorch_model.bin": b"\x80", "README.md": b""})
        own = {"KERAS_ATTENTION_CACHE": str(tmp_path / "ours"), "HF_HOME": str(tmp_path / "theirs")}
        environment = {**os.environ, **own, "HF_ENDPOINT": fake.endpoint, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "keras_attention", "translate", "--model", "hf://small/opus-mt-en-ro"]
        text = str(expected["texts"][0])
        process = subprocess.run([*command, text], env=environment, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        assert process.stdout.strip()  # the command searches again where an answer is in a loop
        assert fake.asked_for("source.spm")
        assert not fake.asked_for(".bin")
        assert not fake.asked_for(".npz")
    (entry,) = (tmp_path / "ours" / "published" / "entries").glob(f"*@{COMMIT}/opus_mt_en_ro")
    loaded = keras_attention.load(entry)
    assert loaded.target_language == "ro"
    assert loaded.translate(text) == expected["beam_0"][0]


def test_pickled_weights_are_never_downloaded(server, tmp_path):
    folder = copy_of(tmp_path / "marian")
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    server.publish(folder, "small/marian")
    with pytest.raises(UserError, match="has no model.safetensors. Its weights are in a format that can run code"):
        hub.fetch("hf://small/marian")
    assert not server.asked_for(".bin")
