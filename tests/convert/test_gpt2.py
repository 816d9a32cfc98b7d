"""GPT-2 checkpoints: the logits are those of a network computed from the file's own tensors in NumPy.

The vocabulary is written by the library `tokenizers`.
"""

import json
import math
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from convert.fake_hub import COMMIT, running_hub
from convert.tiny_checkpoints import safetensors_bytes
from tiny_byte_level import END, TEXTS, write_published
from tokenizers import Tokenizer

import keras_attention
from keras_attention.cli.convert import about_converted
from keras_attention.cli.main import main
from keras_attention.convert import load_checkpoint
from keras_attention.pipelines.base import failing_examples, make_pipeline
from keras_attention.support.errors import UserError

V, D, INNER, H, L, LENGTH = 283, 15, 31, 3, 2, 13
CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": V,
    "n_embd": D,
    "n_inner": INNER,
    "n_head": H,
    "n_layer": L,
    "n_positions": LENGTH,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "resid_pdrop": 0.1,
    "eos_token_id": 0,
}


def random_tensors(inner=INNER):
    """Random tensors under the names and in the shapes of transformers' GPT2LMHeadModel."""
    random = np.random.default_rng(3)
    shapes = {"wte.weight": (V, D), "wpe.weight": (LENGTH, D), "ln_f.weight": (D,), "ln_f.bias": (D,)}
    for i in range(L):
        layer = f"h.{i}"
        for name in ("ln_1", "ln_2"):
            shapes |= {f"{layer}.{name}.weight": (D,), f"{layer}.{name}.bias": (D,)}
        sizes = {"attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "mlp.c_fc": (D, inner), "mlp.c_proj": (inner, D)}
        for name, shape in sizes.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[1:]}
    return {f"transformer.{name}": random.normal(0, 0.5, shape).astype("float32") for name, shape in shapes.items()}


def published(tensors, token_ids):
    """Logits (T, V) as transformers' GPT2LMHeadModel computes them, in float64."""
    w = {name.removeprefix("transformer."): values.astype("float64") for name, values in tensors.items()}
    T = len(token_ids)

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def conv1d(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][token_ids] + w["wpe.weight"][:T]
    for i in range(L):
        query, key, value = np.split(conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, axis=-1)
        query, key, value = (y.reshape(T, H, D // H).transpose(1, 0, 2) for y in (query, key, value))
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(D // H)
        scores = np.where(np.tril(np.ones((T, T), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + conv1d((weights @ value).transpose(1, 0, 2).reshape(T, D), f"h.{i}.attn.c_proj")
        inner = conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = x + conv1d(inner, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return write_published(tmp_path_factory.mktemp("vocabulary"), V)


@pytest.fixture
def write(vocabulary, tmp_path):
    """Writes a checkpoint with these tensors and changed fields, in the folder gpt2."""

    def written(tensors, **config):
        return write_gpt2(tmp_path / "gpt2", vocabulary, tensors, **config)

    return written


def write_gpt2(folder, vocabulary, tensors, **config):
    shutil.copytree(vocabulary, folder, dirs_exist_ok=True)
    kept = {name: value for name, value in {**CONFIG, **config}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    return folder


FORMS = {
    "as saved today": lambda tensors: tensors,
    "bare names and buffers": lambda tensors: {
        **{name.removeprefix("transformer."): values for name, values in tensors.items()},
        "h.0.attn.bias": np.tril(np.ones((1, 1, LENGTH, LENGTH), "float32")),
        "h.0.attn.masked_bias": np.array(-1e4, "float32"),
    },
    "with a copied output": lambda tensors: {**tensors, "lm_head.weight": tensors["transformer.wte.weight"]},
}


@pytest.mark.parametrize("form", FORMS)
def test_the_logits_are_the_published_ones(write, form):
    tensors = random_tensors()
    model = load_checkpoint(write(FORMS[form](tensors))).model
    token_ids = np.random.default_rng(1).integers(0, V, (5, 11)).astype("int32")
    token_ids[:, 3] = 0  # a token like any other
    logits = np.asarray(model({"token_ids": token_ids}))
    for row in range(len(token_ids)):
        np.testing.assert_allclose(logits[row], published(tensors, token_ids[row]), atol=1e-4)


def test_an_inner_width_of_null_is_four_times_the_width(write):
    tensors = random_tensors(inner=4 * D)
    model = load_checkpoint(write(tensors, n_inner=None, resid_pdrop=0.0)).model
    ids = np.array([[5, 7, 11]], "int32")
    np.testing.assert_allclose(model({"token_ids": ids})[0], published(tensors, ids[0]), atol=1e-4)
    assert model.get_config()["dropout"] == 0.0


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        ({"model_type": "llama"}, {}, "model_type is 'llama'. Supported: one of bert, distilbert, xlm-roberta, gpt2"),
        ({"n_head": 4}, {}, "n_head is 4. Supported: a divisor of the width 15"),
        ({"n_layer": 3}, {}, "lacks the tensor h.2.attn.c_attn.bias"),
        ({"scale_attn_by_inverse_layer_idx": True}, {}, "scale_attn_by_inverse_layer_idx is True"),
        ({"activation_function": "tanh"}, {}, "activation_function is 'tanh'"),
        ({}, {"lm_head.weight": np.zeros((V, D), "float32")}, "lm_head.weight differs from transformer.wte.weight"),
        ({}, {"transformer.extra": np.zeros(3, "float32")}, "has the tensor 'extra'"),
        ({}, {"transformer.wpe.weight": np.zeros((LENGTH + 1, D), "float32")}, "wpe.weight has the shape"),
        ({}, {"transformer.ln_f.bias": np.full(D, np.nan, "float32")}, "holds NaN or infinity"),
    ],
)
def test_unsupported_checkpoints_are_refused(write, config, change, message):
    folder = write(random_tensors() | change, **config)
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    if not config:
        with pytest.raises(UserError, match="lacks model.safetensors"):
            load_checkpoint(folder)


def changed_json(name, change):
    """Changes a JSON file of the folder."""

    def changed(folder):
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return changed


def in_tokenizer(*path, **values):
    def change(content):
        for name in path:
            content = content[name]
        content.update(values)

    return changed_json("tokenizer.json", change)


def without_tokenizer_json(change):
    def changed(folder):
        (folder / "tokenizer.json").unlink()
        change(folder)

    return changed


VOCABULARIES = {
    "tokenizer.json": lambda folder: [(folder / name).unlink() for name in ("vocab.json", "merges.txt")],
    "merges as texts": changed_json(
        "tokenizer.json",
        lambda content: content["model"].update(merges=[" ".join(merge) for merge in content["model"]["merges"]]),
    ),
    "vocab.json": without_tokenizer_json(lambda folder: None),
}


@pytest.mark.parametrize("form", VOCABULARIES)
def test_the_ids_are_those_of_the_library(write, vocabulary, form):
    folder = write(random_tensors())
    VOCABULARIES[form](folder)
    tokenizer = load_checkpoint(folder).tokenizer
    library = Tokenizer.from_file(str(vocabulary / "tokenizer.json"))
    for text in TEXTS:
        assert tokenizer.encode([text])[0].tolist() == library.encode(text, add_special_tokens=False).ids
    assert (tokenizer.end_id, tokenizer.special_pieces) == (0, {"end": END})


def test_a_special_token_behind_the_vocabulary_is_never_one_of_a_text(write):
    tensors = random_tensors()
    tensors["transformer.wte.weight"] = np.resize(tensors["transformer.wte.weight"], (V + 1, D))
    folder = write(tensors, vocab_size=V + 1, eos_token_id=V)
    pad = {"id": V, "content": "<|pad|>", "special": True}
    changed_json("tokenizer.json", lambda content: content["added_tokens"].append(pad))(folder)
    tokenizer = load_checkpoint(folder).tokenizer
    assert (tokenizer.vocabulary_size, tokenizer.end_id) == (V + 1, V)
    assert V not in tokenizer.encode(["a<|pad|>b"])[0]


REFUSED = {
    "no vocabulary": (
        without_tokenizer_json(lambda folder: (folder / "vocab.json").unlink()),
        "has neither tokenizer.json nor vocab.json and merges.txt",
    ),
    "no merges": (without_tokenizer_json(lambda folder: (folder / "merges.txt").unlink()), "merges.txt: cannot be"),
    "a normalizer": (in_tokenizer(normalizer={"type": "NFC"}), "normalizer is {'type': 'NFC'}. Supported: None"),
    "another split": (
        in_tokenizer(pre_tokenizer={"type": "Whitespace"}),
        "type is 'Whitespace'. Supported: one of ByteLevel",
    ),
    "a blank in front": (in_tokenizer("pre_tokenizer", add_prefix_space=True), "add_prefix_space is True"),
    "another model": (in_tokenizer("model", type="Unigram"), "type is 'Unigram'. Supported: 'BPE'"),
    "dropout": (in_tokenizer("model", dropout=0.1), "dropout is 0.1. Supported: None"),
    "bytes as fallback": (in_tokenizer("model", byte_fallback=True), "byte_fallback is True"),
    "a list of pieces": (in_tokenizer("model", vocab=["a"]), "expected the fields vocab and merges"),
    "ids with a gap": (in_tokenizer("model", vocab={"a": 7}), "expected pieces with the ids from 0 on, each once"),
    "a number as merge": (in_tokenizer("model", merges=[7]), "merge 0: expected two pieces. Found: 7"),
    "an unknown merge": (in_tokenizer("model", merges=["q qq"]), "A merge joins two pieces to a third one"),
    "no merges at all": (in_tokenizer("model", merges=None), "expected the fields vocab and merges"),
    "an ordinary added token": (
        in_tokenizer(added_tokens=[{"id": V, "content": "words", "special": False}]),
        "the added token 'words' is not special",
    ),
    "an added token without id": (in_tokenizer(added_tokens=[{"content": "x", "special": True}]), "has|expected"),
    "a token for another id": (
        in_tokenizer(added_tokens=[{"id": 5, "content": END, "special": True}]),
        "expected added tokens with content and id",
    ),
    "a token too many": (
        in_tokenizer(added_tokens=[{"id": V, "content": "<|pad|>", "special": True}]),
        "tokenizer.json has 284 pieces. The configuration has vocab_size 283",
    ),
    "an end that is a byte": (
        changed_json("config.json", lambda content: content.update(eos_token_id=7)),
        "The special piece end must be a piece of several characters",
    ),
    "an end outside": (
        changed_json("config.json", lambda content: content.update(eos_token_id=V)),
        "eos_token_id is 283. Supported: an integer from 0 to 282",
    ),
    "a key twice": (
        lambda folder: (folder / "tokenizer.json").write_text('{"model": 1, "model": 2}'),
        "key 'model' stands twice",
    ),
    "deep JSON": (lambda folder: (folder / "tokenizer.json").write_text("[" * 100_000), "is not valid JSON"),
    "40 MB": (
        lambda folder: os.truncate(folder / "tokenizer.json", 40_000_000),
        "must hold a JSON object of at most 33554432 bytes",
    ),
    "a head for classes": (
        changed_json("config.json", lambda content: content.update(architectures=["GPT2ForSequenceClassification"])),
        "architectures is .'GPT2ForSequenceClassification'.. Supported:",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_vocabularies_are_refused(write, case):
    change, message = REFUSED[case]
    folder = write(random_tensors())
    change(folder)
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


def frame(*before):
    """A template of tokenizer.json with special tokens before the text."""
    single = [{"SpecialToken": {"id": piece, "type_id": 0}} for piece in before]
    single.append({"Sequence": {"id": "A", "type_id": 0}})
    return {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": {}}


def asked(**settings):
    return lambda folder: (folder / "tokenizer_config.json").write_text(json.dumps(settings))


BEGINNINGS = {
    "nothing": (lambda folder: None, "nothing"),
    "a frame that trims": (in_tokenizer(post_processor={"type": "ByteLevel", "trim_offsets": False}), "nothing"),
    "a template": (in_tokenizer(post_processor=frame(END)), "end"),
    "a start, but a tokenizer.json without": (asked(add_bos_token=True), "nothing"),
    "a start": (without_tokenizer_json(asked(add_bos_token=True, bos_token=END)), "end"),
    "a start with flags": (without_tokenizer_json(asked(add_bos_token=True, bos_token={"content": END})), "end"),
    "no start": (without_tokenizer_json(asked(add_bos_token=False)), "nothing"),
}


@pytest.mark.parametrize("case", BEGINNINGS)
def test_a_text_begins_as_the_files_say(write, case):
    change, expected = BEGINNINGS[case]
    folder = write(random_tensors())
    change(folder)
    assert load_checkpoint(folder).begins_with == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_tokenizer(post_processor=frame(END, END)), "single is .*. Supported: a text after <|endoftext|>"),
        (in_tokenizer(post_processor={"type": "RobertaProcessing"}), "type is 'RobertaProcessing'. Supported: one of"),
        (without_tokenizer_json(asked(add_bos_token=True, bos_token="a")), "bos_token is 'a'. Supported: '<|endoftext"),
    ],
)
def test_other_beginnings_are_refused(write, change, message):
    folder = write(random_tensors())
    change(folder)
    with pytest.raises(UserError, match=message.replace("|", "[|]")):
        load_checkpoint(folder)


def test_the_card_names_settings_that_are_not_applied(write):
    folder = write(random_tensors())
    content = {"eos_token_id": 0, "repetition_penalty": 1.3, "num_beams": 1, "no_repeat_ngram_size": 3}
    (folder / "generation_config.json").write_text(json.dumps(content))
    (note,) = load_checkpoint(folder).notes
    assert "also sets repetition_penalty, no_repeat_ngram_size, which `generate` does not apply" in note


def log_probabilities(tensors, ids):
    """Of each id but the first, given those before it, in float64."""
    logits = published(tensors, np.array(ids))
    return [row[i] - np.logaddexp.reduce(row) for row, i in zip(logits, ids[1:], strict=False)]


@pytest.mark.parametrize("begins_with", ["nothing", "end"])
def test_scores_are_those_of_the_published_network(write, begins_with):
    tensors = random_tensors()
    folder = write(tensors)
    if begins_with == "end":
        in_tokenizer(post_processor=frame(END))(folder)
    converted = load_checkpoint(folder)
    generator = make_pipeline(converted.model, {"text": converted.tokenizer}, about_converted(converted, "en"))
    ids = [*([0] if begins_with == "end" else []), *converted.tokenizer.encode(["A dog"])[0]]
    expected = log_probabilities(tensors, ids)
    actual, one, empty = generator.score(["A dog", "A", ""])
    np.testing.assert_allclose(actual.log_probs, expected, atol=1e-4)
    assert actual.perplexity == pytest.approx(math.exp(-np.mean(expected)), rel=1e-4)
    assert len(actual.tokens) == len(expected)
    assert len(one.log_probs) == (begins_with == "end")
    assert (empty.log_probs, empty.tokens, empty.perplexity) == ([], [], None)


@pytest.mark.slow
def test_a_converted_entry_generates_and_scores(write, tmp_path, capsys):
    """As transformers does: no token stands before a prompt, and END before an empty one."""
    tensors = random_tensors()
    assert main(["convert", str(write(tensors)), "--out", str(tmp_path / "mine"), "--language", "en"]) == 0
    assert failing_examples(tmp_path / "mine") == (2, [])
    generator = keras_attention.load(tmp_path / "mine")
    library = Tokenizer.from_file(str(tmp_path / "gpt2" / "tokenizer.json"))
    for prompt in ("A dog", "A", ""):
        read = generator.tokenizer.encode([prompt])[0].tolist() or [0]
        (one,) = generator.generations(prompt, max_tokens=3, temperature=0.0)
        for token, log_prob in zip(one.token_ids, one.log_probs, strict=True):
            logits = published(tensors, np.array(read))[-1]
            best = logits.max() - np.logaddexp.reduce(logits)
            assert (token, log_prob) == (logits.argmax(), pytest.approx(best, abs=1e-4))
            read.append(token)
        assert prompt + one.text == library.decode(read)
    ids = generator.tokenizer.encode(["A dog"])[0].tolist()
    expected = log_probabilities(tensors, ids)
    capsys.readouterr()
    assert main(["score", "--model", str(tmp_path / "mine"), "A dog"]) == 0
    log_prob, perplexity, text = capsys.readouterr().out.rstrip("\n").split("\t")
    assert (float(log_prob), text) == (pytest.approx(sum(expected), abs=1e-3), "A dog")
    assert float(perplexity) == pytest.approx(math.exp(-np.mean(expected)), rel=1e-3)
    assert main(["generate", "--model", str(tmp_path / "mine"), "A dog", "--max-tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith("A dog")


LOAD = "import sys, keras_attention as ka; print(ka.load(sys.argv[1]).generate('A dog', max_tokens=3, n=2))"


@pytest.mark.slow
def test_it_is_loaded_by_its_name_on_the_hub(write, tmp_path):
    with running_hub() as hub:
        hub.publish(write(random_tensors()), "small/gpt2")
        own = {"KERAS_ATTENTION_CACHE": str(tmp_path / "ours"), "HF_HOME": str(tmp_path / "theirs")}
        environment = {**os.environ, **own, "HF_ENDPOINT": hub.endpoint, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", LOAD, "hf://small/gpt2"]
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        assert hub.asked_for("tokenizer.json")
        assert not hub.asked_for("vocab.json")
    (entry,) = (tmp_path / "ours" / "published" / "entries").glob(f"*@{COMMIT}/gpt2")
    assert str(keras_attention.load(entry).generate("A dog", max_tokens=3, n=2)) == process.stdout.strip()
