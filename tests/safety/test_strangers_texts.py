"""What strangers wrote is shown, and obeyed by no terminal: in vocabularies, cards and published checkpoints."""

import io
import json
import struct
import sys
from types import SimpleNamespace

import pytest
import sentencepiece
from convert.tiny_checkpoints import changed_header, safetensors_bytes, tiny_tensors, write_checkpoint
from tiny_byte_level import END, pieces
from zoo.hostile_entries import sign
from zoo.tiny_entry import tiny_parts, write_tiny_entry

from keras_attention.cli import generate
from keras_attention.cli.io.terminal import json_text, print_json, safe
from keras_attention.cli.main import main
from keras_attention.convert import load_checkpoint
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import (
    ByteLevelTokenizer,
    CharacterTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    load_tokenizer,
)
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.registry import PACKAGE

SIGNS = {"ESC": ("Q", "\x1b"), "CSI": ("é", "\x9b"), "right-to-left": ("あ", "\u202e"), "line break": ("Z", "\n")}
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
HOSTILE = "\x1b]0;owned\x07 \x9b31m \u202egnp.exe\r\nzoo: sound"


@pytest.mark.parametrize("name", SIGNS)
def test_no_vocabulary_has_control_characters(name):
    innocent, sign = SIGNS[name]
    texts = [f"a {innocent} b {innocent} c"] * 3
    model = SentencePieceTokenizer.train(texts, vocabulary_size=13)._model
    piece = b"\n" + bytes([len(innocent.encode())])  # field 1, a text of this length
    assert model.count(piece + innocent.encode()) == 1
    hostile = model.replace(piece + innocent.encode(), piece + sign.encode())
    with pytest.raises(UserError, match="without control characters"):
        SentencePieceTokenizer(hostile)
    with pytest.raises(UserError, match=f"U\\+{ord(sign):04X}"):
        CharacterTokenizer(f"ab{sign}")
    with pytest.raises(UserError, match="without control characters"):
        WordPieceTokenizer([*SPECIALS, f"a{sign}"])
    vocabulary, merges = pieces()
    with pytest.raises(UserError, match="without control characters"):
        ByteLevelTokenizer([*vocabulary, f"a{sign}"], merges, {"end": END})
    assert sign not in CharacterTokenizer.train([f"ab{sign}"]).characters


def test_no_vocabulary_has_single_bytes_to_make_them_of():
    model = io.BytesIO()
    options = {"model_writer": model, "vocab_size": 280, "byte_fallback": True, "hard_vocab_limit": False}
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a dog"] * 9), **options, **ids)
    with pytest.raises(UserError, match="<0x00>"):
        SentencePieceTokenizer(model.getvalue())


@pytest.mark.parametrize("folder", sorted((PACKAGE.parent / "saved_models").glob("*/*tokenizer")), ids=str)
def test_our_own_vocabularies_have_none(folder):
    assert load_tokenizer(folder).vocabulary_size > 5


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A zoo with an entry whose card would write to the terminal."""
    zoo = tmp_path_factory.mktemp("zoo")
    write_tiny_entry(zoo / "hostile")
    metrics = json.loads((zoo / "hostile" / "metrics.json").read_text())
    scores = [{**score, "metric": HOSTILE, "set": HOSTILE} for score in metrics["scores"]]
    changed = metrics | {"description": HOSTILE, "scores": scores, "limits": [HOSTILE], HOSTILE: HOSTILE}
    changed["examples"] = [{"source": HOSTILE, "output": HOSTILE}]
    (zoo / "hostile" / "metrics.json").write_text(json.dumps(changed))
    card = (zoo / "hostile" / "CARD.md").read_text(encoding="utf-8")
    (zoo / "hostile" / "CARD.md").write_text(card + HOSTILE, encoding="utf-8")
    sign(zoo / "hostile")
    return zoo


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["list", "list --json", "show", "show --json", "show --card", "verify", "verify --json"]
)
def test_no_terminal_obeys_a_card(hostile, monkeypatch, capsys, command):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(hostile))
    name, *flags = command.split()
    assert main(["zoo", name, *(() if name == "list" else ["hostile"]), *flags]) in (0, 1)
    out, err = capsys.readouterr()
    assert err == ""
    shown = out.replace("\n", "")
    assert shown.isprintable(), [sign for sign in shown if not sign.isprintable()]
    assert "\nzoo: sound" not in out or command == "show --card"  # a card has lines of its own
    if command == "show --json":
        assert json.loads(out)["metrics"]["description"] == HOSTILE


class Obeying:
    """A language model that writes what it was told to, as a byte-level one can."""

    is_music = False

    def stream(self, prompt, **sampling):
        yield from (HOSTILE[:5], HOSTILE[5:])

    def generations(self, prompts, n, **sampling):
        return [[SimpleNamespace(text=HOSTILE, _asdict=lambda: {"text": HOSTILE})] * n for _ in prompts]

    def score(self, texts):
        score = {"log_prob": -1.0, "perplexity": 2.0, "tokens": [HOSTILE], "log_probs": [-1.0]}
        return [SimpleNamespace(**score, _asdict=lambda: score)] * len(texts)


@pytest.mark.parametrize(
    "command", ["generate", "generate --n 2", "generate --json", "score", "score --tokens", "score --json"]
)
def test_no_terminal_obeys_a_model_that_writes_bytes(monkeypatch, capsys, command):
    monkeypatch.setattr(generate, "open_entry", lambda name, task: name)
    monkeypatch.setattr(generate, "load", lambda entry, task: Obeying())
    name, *flags = command.split()
    assert main([name, *flags, "--model", "writer", HOSTILE]) == 0
    out, _ = capsys.readouterr()
    assert out.replace("\n", "").replace("\t", "").isprintable()
    assert out.count("\n") == 1 or command in ("generate", "generate --n 2")  # whose answers have lines of their own


def test_json_escapes_are_equal_to_characters():
    value = {"a": HOSTILE, "b": ["é 犬 \u2028 \U000e0041", "😀\u200d", 1.5], "c": None}
    for indent in (None, 1):
        text = json_text(value, indent)
        assert json.loads(text) == value
        assert text.replace("\n", "").isprintable()
    assert "é 犬" in json_text(value)
    assert safe("a\nb\x1b", keep="\n") == "a\nb "


def test_joiners_of_persian_and_emoji_are_kept():
    for text in ("می\u200cخواهم", "क्\u200dष", "👩\u200d🚀"):
        assert safe(text) == text
        assert safe(f"{text}\u202e") == f"{text} "


def test_json_is_written_in_one_piece(monkeypatch):
    class Raw(io.RawIOBase):
        written = []

        def writable(self):
            return True

        def write(self, content):
            self.written.append(bytes(content))
            return len(content)

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(Raw()), encoding="utf-8"))
    print_json({"numbers": list(range(100_000))})
    assert len(Raw.written) == 1
    assert Raw.written[0].endswith(b"]\n}\n")


def header(change):
    def changed(folder):
        (folder / "model.safetensors").write_bytes(changed_header(change))

    return changed


def twice(folder):
    """The first tensor stands twice in the header, with two places."""
    content = safetensors_bytes(tiny_tensors())
    (length,) = struct.unpack("<Q", content[:8])
    names = content[8 : 8 + length]
    name, facts = next(iter(json.loads(names).items()))
    names = names[:-1] + f", {json.dumps(name)}: {json.dumps(facts)}}}".encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(names)) + names + content[8 + length :])


def configuration_twice(folder):
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.rstrip().removesuffix("}") + ', "hidden_size": 9}')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (twice, "stands twice"),
        (configuration_twice, "'hidden_size' stands twice"),
        (header(lambda facts: facts.update(__metadata__={"format": 1})), "__metadata__ must map texts to texts"),
        (header(lambda facts: facts.update(__metadata__=["pt"])), "__metadata__ must map texts to texts"),
        (header(lambda facts: facts.update(__metadata__={"a": {}})), "__metadata__ must map texts to texts"),
    ],
)
def test_a_checkpoint_that_two_readers_would_read_differently(tmp_path, change, message):
    folder = write_checkpoint(tmp_path / "checkpoint")
    change(folder)
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


def test_a_saved_tokenizer_that_two_readers_would_read_differently(tmp_path):
    CharacterTokenizer("abc").save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase"', '"lowercase": true, "lowercase"'))
    with pytest.raises(UserError, match="'lowercase' stands twice"):
        load_tokenizer(tmp_path)


def test_quoted_texts_are_cut(tmp_path):
    longest = 80 * 4 + len(str(tmp_path)) + 200

    def message_about(folder, change):
        write_checkpoint(folder)
        (folder / "model.safetensors").write_bytes(changed_header(change))
        with pytest.raises(UserError) as error:
            load_checkpoint(folder)
        return str(error.value)

    bias = "cls.predictions.bias"
    changes = {
        "a dtype": lambda facts: facts[bias].update(dtype="F" * 60_000),
        "a name": lambda facts: facts.update({"x" * 60_000: facts.pop(bias)}),
        "a shape": lambda facts: facts[bias].update(shape=[10**4000] * 8),
        "a place": lambda facts: facts[bias].update(data_offsets=[0, 10**4000]),
    }
    for name, change in changes.items():
        assert len(message_about(tmp_path / name, change)) < longest, name
    folder = write_tiny_entry(tmp_path / "entry").folder
    manifest = json.loads((folder / "manifest.json").read_text())
    for files in ({**manifest["files"], "x" * 60_000: manifest["files"]["config.json"]}, {"?" * 60_000: {}}):
        (folder / "manifest.json").write_text(json.dumps({**manifest, "files": files}))
        with pytest.raises(UserError) as error:
            read_entry(folder)
        assert len(str(error.value)) < longest


def places(value, path=()):
    """The paths to a value and to all that it holds, three levels deep."""
    yield path
    if isinstance(value, (dict, list)) and len(path) < 3:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def changed_at(value, path, new):
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = changed_at(value[path[0]], path[1:], new)
    return copy


ENORMOUS = ("x" * 60_000, 10**4000, [["x" * 60_000] * 9], {"x" * 60_000: "x" * 60_000}, None)


def complaint(folder, path):
    """What is said about an entry with this file, "" for nothing."""
    try:
        read_entry(folder)
        if path.name == "tokenizer.json":
            load_tokenizer(path.parent)
    except UserError as error:
        return str(error)
    return ""


def test_a_message_about_any_value_of_an_entry_is_short(tmp_path):
    folder = write_tiny_entry(tmp_path / "entry", tiny_parts()).folder
    longest = 80 * 3 + len(str(folder)) + 100
    messages = {}
    for path in sorted(folder.rglob("*.json")):
        sound, manifest = path.read_bytes(), (folder / "manifest.json").read_bytes()
        for place in places(json.loads(sound)):
            for number, value in enumerate(ENORMOUS):
                path.write_text(json.dumps(changed_at(json.loads(sound), place, value)))
                if path.name != "manifest.json":
                    sign(folder)
                messages[path.name, place, number] = complaint(folder, path)
            path.write_bytes(sound)
            (folder / "manifest.json").write_bytes(manifest)
    assert {place: message for place, message in messages.items() if len(message) > longest} == {}
    assert sum(map(bool, messages.values())) > 300
    read_entry(folder)
