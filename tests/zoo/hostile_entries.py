"""Entries that a stranger could send: copies of a sound one, each changed with a purpose and signed anew.

`HOSTILE` is a dict from a name to (base, change): "translator" or "filler", the sound entry to start from, and a
callable(folder, outside) that changes the copy. `outside` is a folder with a pipe called "secret": whoever opens it to
read waits for ever, which a test notices.
"""

import base64
import hashlib
import io
import json
import marshal
import os
import pickle
import shutil
import zipfile

import numpy as np
from zoo.hostile_weights import WEIGHTS_CHANGES, changed_weights


class Gadget:
    """Runs a command while it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch pwned",)


PICKLE = pickle.dumps(Gadget())
BYTECODE = base64.b64encode(marshal.dumps(compile("open('pwned', 'w')", "lambda", "eval"))).decode()
SYSTEM = {"module": "os", "class_name": "function", "config": "system", "registered_name": "system"}
MANY = 100_000
WEIGHTS = "model.weights.h5"


def sign(folder, **more):
    """Writes a manifest that agrees with whatever is there, as nobody but an attacker would."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name != "manifest.json":
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest() if path.stat().st_size < 1 << 30 else "0" * 64
            files[path.relative_to(folder).as_posix()] = {"size": path.stat().st_size, "sha256": digest}
    (folder / "manifest.json").write_text(json.dumps({"format_version": 1, "files": files} | more))


def json_file(name, change):
    """Changes a JSON file in place."""

    def changed(folder, outside):
        content = json.loads((folder / name).read_text())
        content = change(content, outside) or content
        (folder / name).write_text(json.dumps(content))

    return changed


def config(**values):
    return json_file("config.json", lambda content, outside: content.update(values))


def model(**values):
    return json_file("config.json", lambda content, outside: content["model"].update(values))


def tokenizer(**values):
    return json_file("source_tokenizer/tokenizer.json", lambda content, outside: content.update(values))


def stored(name, content):
    """Puts a file into the folder."""

    def changed(folder, outside):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return changed


def sparse(name, size):
    """Puts a file of zeros into the folder that takes no place on the disk."""

    def changed(folder, outside):
        with open(folder / name, "wb") as file:
            file.truncate(size)

    return changed


def manifest(change):
    """Tampers with the signed manifest; nothing is signed afterwards."""

    def changed(folder, outside):
        content = json.loads((folder / "manifest.json").read_text())
        change(content["files"], content)
        (folder / "manifest.json").write_text(json.dumps(content))

    changed.signed = False
    return changed


def unsigned(change):
    """The change, with the old manifest."""

    def changed(folder, outside):
        change(folder, outside)

    changed.signed = False
    return changed


def zipped(*members):
    """The bytes of a zip file of (name, content)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return buffer.getvalue()


def objects():
    """The bytes of an .npz whose only array holds an object that runs a command."""
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.array([Gadget()], dtype=object))
    return buffer.getvalue()


def many_files(folder, outside):
    for number in range(1_000):
        (folder / f"file{number}").touch()


def many_folders(folder, outside):
    for number in range(1_000):
        (folder / f"folder{number}").mkdir()


def deep_folders(folder, outside):
    (folder / ("deep/" * 300)).mkdir(parents=True)


def linked_weights(folder, outside):
    (folder / WEIGHTS).rename(outside / WEIGHTS)
    (folder / WEIGHTS).symlink_to(outside / WEIGHTS)


def linked_folder(folder, outside):
    shutil.move(folder / "source_tokenizer", outside / "source_tokenizer")
    (folder / "source_tokenizer").symlink_to(outside / "source_tokenizer")


def linked_manifest(folder, outside):
    (folder / "manifest.json").rename(outside / "manifest.json")
    (folder / "manifest.json").symlink_to(outside / "manifest.json")


def no_utf8_pieces(folder, outside):
    path = folder / "source_tokenizer" / "tokenizer.model"
    path.write_bytes(path.read_bytes().replace(b"\xe2\x96\x81", b"\xe2\x96\xc1", 5))


def with_name(name):
    """One more line in the manifest, of a file that might be there."""
    return manifest(lambda files, content: files.update({name: {"size": 1, "sha256": "0" * 64}}))


def of_weights(**facts):
    return manifest(lambda files, content: files[WEIGHTS].update(facts))


def metrics(**values):
    return json_file("metrics.json", lambda content, outside: content.update(values))


CODE = {
    "architecture Lambda": config(architecture="Lambda"),
    "bytecode in the model": model(function=BYTECODE),
    "Lambda with bytecode in place of the model": config(
        model={
            "class_name": "Lambda",
            "config": {"function": {"class_name": "__lambda__", "config": {"code": BYTECODE}}},
        }
    ),
    "a function in place of an activation": model(cell=SYSTEM),
    "a class in place of a number": model(hidden_dim={"module": "os", "class_name": "system", "config": "touch pwned"}),
    "architecture TFSMLayer": config(architecture="TFSMLayer", model={"filepath": "/tmp/model"}),
    "a spoofed registered name": config(architecture="keras_attention>AttentionSeq2Seq"),
    "a dotted name": config(architecture="builtins.eval"),
    "custom objects": config(custom_objects={"AttentionSeq2Seq": SYSTEM}),
    "a module to import": config(module="pwned", registered_name="keras_attention>AttentionSeq2Seq"),
    "StringLookup with a file": tokenizer(kind="StringLookup", vocabulary="/etc/passwd"),
    "a vocabulary of another place": json_file(
        "source_tokenizer/tokenizer.json", lambda content, outside: content.update(vocabulary=str(outside / "secret"))
    ),
    "a vocabulary behind a URL": tokenizer(proto="http://127.0.0.1:9/vocabulary"),
    "a tokenizer class": tokenizer(kind="keras_hub>BytePairTokenizer"),
    "a list as the kind": tokenizer(kind=["sentencepiece"]),
    "a tokenizer outside": json_file(
        "config.json", lambda content, outside: content["tokenizer"].update(source=os.path.relpath(outside))
    ),
    "a tokenizer by its full path": json_file(
        "config.json", lambda content, outside: content["tokenizer"].update(source=str(outside))
    ),
    "objects as the type of weights": config(weights_dtype="object"),
    "a pickle beside": stored("model.pkl", PICKLE),
    "Python beside": stored("__init__.py", "open('pwned', 'w')"),
    "a Keras model beside": stored("model.keras", zipped(("config.json", "{}"))),
    "a vocabulary of another kind beside": stored("source_tokenizer/vocab.txt", "[PAD]\n"),
    "a picture with a script": stored("page.svg", "<svg><script>alert(1)</script></svg>"),
    "a pickle as weights": stored(WEIGHTS, PICKLE),
    "objects as weights": stored(WEIGHTS, objects()),
    "a pickle as tokenizer": stored("source_tokenizer/tokenizer.model", PICKLE),
    "a pickle as configuration": stored("config.json", PICKLE),
}
ZIPS = {
    "a zip that climbs out": stored(WEIGHTS, zipped(("../pwned", "x"), ("/tmp/pwned", "x"))),
    "a zip with a name twice": stored(WEIGHTS, zipped(("config.json", "{}"), ("Config.json", "{}"))),
    "a zip bomb": stored(WEIGHTS, zipped(("model.weights.h5", bytes(1 << 26)))),
    "a zip as tokenizer": stored("source_tokenizer/tokenizer.model", zipped(("../pwned", "x"))),
}
JSON = {
    "deep configuration": stored("config.json", "[" * MANY),
    "deep configuration, closed": stored("config.json", '{"a":' * 9_000 + "1" + "}" * 9_000),
    "deep metrics": stored("metrics.json", '{"a":' * MANY + "1" + "}" * MANY),
    "deep tokenizer": stored("source_tokenizer/tokenizer.json", "[" * MANY),
    "deep model": model(cell=json.loads("[" * 900 + "]" * 900)),
    "a list as configuration": stored("config.json", "[]"),
    "NaN": stored("config.json", '{"format_version": NaN}'),
    "a key twice": stored("config.json", '{"format_version": 1, "format_version": 1}'),
    "UTF-16": stored("config.json", '{"format_version": 1}'.encode("utf-16")),
    "a number of 10,000 digits": stored("config.json", '{"format_version": ' + "1" * 10_000 + "}"),
    "true as version": config(format_version=True),
    "an unknown key": config(note="hello"),
    "an unknown key in the model": model(note="hello"),
    "a missing key": json_file("config.json", lambda content, outside: content.pop("decoding") and None),
    "scores that are no numbers": metrics(scores=[{"set": [], "metric": {}, "value": "9", "signature": None}]),
    "no scores": metrics(scores="none"),
    "a million examples": metrics(examples=[0] * 1_000_000),
}
SIZES = {
    "negative size": model(hidden_dim=-14),
    "no size": model(num_layers=0),
    "half a size": model(hidden_dim=14.0),
    "a text as size": model(hidden_dim="14"),
    "true as size": model(num_layers=True),
    "null as size": model(num_layers=None),
    "a list as size": model(hidden_dim=[14]),
    "absurd size": model(hidden_dim=10**30),
    "infinite size": stored("config.json", '{"format_version": 1e999}'),
    "a large vocabulary": model(source_vocabulary_size=1_000_000, embedding_dim=8192),
    "a large model": model(hidden_dim=8192, num_layers=16),
    "weights that are not there": model(hidden_dim=700),
    "200 MB of weights": sparse(WEIGHTS, 200_000_000),
    "200 MB of card": sparse("CARD.md", 200_000_000),
    "200 MB of tokenizer": sparse("source_tokenizer/tokenizer.model", 200_000_000),
    "200 MB of configuration": sparse("config.json", 200_000_000),
    "200 MB of metrics": sparse("metrics.json", 200_000_000),
    "200 MB of picture": sparse("picture.png", 200_000_000),
    "3 GB": sparse(WEIGHTS, 3_000_000_000),
    "a search as wide as the sea": json_file(
        "config.json", lambda content, outside: content["decoding"].update(beam_size=10**6)
    ),
}
TAMPERED = {
    "wrong hash": of_weights(sha256="0" * 64),
    "no hash": manifest(lambda files, content: files[WEIGHTS].pop("sha256")),
    "a number as hash": of_weights(sha256=0),
    "wrong size": of_weights(size=1),
    "negative size in the manifest": of_weights(size=-1),
    "true as size in the manifest": of_weights(size=True),
    "a file of the manifest is missing": unsigned(lambda folder, outside: (folder / WEIGHTS).unlink()),
    "a file is not in the manifest": unsigned(stored("more.png", "x")),
    "a path that climbs out": with_name("../secret"),
    "a full path": with_name("/etc/passwd"),
    "a path with two folders": with_name("a/b/c"),
    "a path with a backslash": with_name("..\\secret"),
    "a name that ends with NUL": with_name("config.json\0"),
    "a file beside that is called alike": stored("Config.json", "{}"),
    "weights that are a link": unsigned(linked_weights),
    "a folder that is a link": unsigned(linked_folder),
    "a manifest that is a link": unsigned(linked_manifest),
    "a pipe": lambda folder, outside: os.mkfifo(folder / "pipe.png"),
    "a hidden file": stored(".hidden", "x"),
    "an empty folder": lambda folder, outside: (folder / "empty").mkdir(),
    "deep folders": deep_folders,
    "1,000 folders": many_folders,
    "1,000 files": many_files,
    "true as version of the manifest": manifest(lambda files, content: content.update(format_version=True)),
    "a deep manifest": unsigned(stored("manifest.json", "[" * 60_000)),
    "a manifest of 200 MB": unsigned(sparse("manifest.json", 200_000_000)),
    "a list of files": manifest(lambda files, content: content.update(files=list(files))),
}
LATER = {  # found when the model and its tokenizers are made
    "many small layers": model(hidden_dim=2, num_layers=16),
    "zeros as tokenizer": stored("source_tokenizer/tokenizer.model", bytes(1_000)),
    "an empty tokenizer": stored("source_tokenizer/tokenizer.model", b""),
    "pieces that are no UTF-8": no_utf8_pieces,
    "half of a surrogate pair": json_file(
        "target_tokenizer/tokenizer.json",
        lambda content, outside: content.update(characters="\ud800" + content["characters"][1:]),
    ),
    "characters twice": json_file(
        "target_tokenizer/tokenizer.json", lambda content, outside: content.update(characters="aa")
    ),
}
PIECES = {
    "a piece too many": ("vocab.txt", lambda text: text + "more\n"),
    "a piece twice": ("vocab.txt", lambda text: text.replace(text.split()[7], text.split()[8], 1)),
    "no mask": ("vocab.txt", lambda text: text.replace("[MASK]", "mask")),
    "a command to the terminal": ("vocab.txt", lambda text: text.replace(text.split()[7], "\x1b[2J", 1)),
    "Latin-1": ("vocab.txt", lambda text: (text.rstrip() + "\xff\n").encode("latin-1", errors="replace")),
    "a million pieces": ("vocab.txt", lambda text: text + "\n".join(map(str, range(1_000_000)))),
    "one long piece": ("vocab.txt", lambda text: text.rstrip() + "x" * 1_000_000 + "\n"),
}
BYTE_PIECES = {
    "bytes: deep pieces": ("vocab.json", lambda text: "[" * MANY),
    "bytes: a list of pieces": ("vocab.json", lambda text: '["a"]'),
    "bytes: an id twice": ("vocab.json", lambda text: text.replace(": 7,", ": 8,")),
    "bytes: an id that is true": ("vocab.json", lambda text: text.replace(": 1,", ": true,")),
    "bytes: a piece twice": ("vocab.json", lambda text: text.replace('{"', '{"!": 5, "!": 6, "', 1)),
    "bytes: one long piece": ("vocab.json", lambda text: text.replace('{"', '{"' + "x" * 900_000, 1)),
    "bytes: a command to the terminal": ("vocab.json", lambda text: text.replace('{"', '{"\\u001b[2J', 1)),
    "bytes: a script as merges": ("merges.txt", lambda text: "#!/bin/sh\ntouch pwned\n"),
    "bytes: many merges": ("merges.txt", lambda text: text + "a b\n" * 200_000),
    "bytes: a million merges": ("merges.txt", lambda text: text + "a b\n" * 1_000_000),
    "bytes: a merge to the end": ("merges.txt", lambda text: text + "<|endoftext |>\n"),
    "bytes: Latin-1": ("merges.txt", lambda text: text.encode("latin-1", errors="replace") + b"\xff"),
    "bytes: a pickle as merges": ("merges.txt", lambda text: PICKLE),
    "bytes: a byte as end": ("tokenizer.json", lambda text: text.replace("<|endoftext|>", "!")),
    "bytes: a file as pieces": (
        "tokenizer.json",
        lambda text: text.replace("}}", '}, "vocab": "/etc/passwd"}'),
    ),
}


def pieces(name, change):
    """Changes the vocabulary of a BERT or a GPT."""

    def changed(folder, outside):
        path = folder / "tokenizer" / name
        content = change(path.read_text(encoding="utf-8"))
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return changed


HOSTILE = {
    name: ("translator", change)
    for group in (CODE, ZIPS, JSON, SIZES, TAMPERED, LATER)
    for name, change in group.items()
}
HOSTILE |= {f"weights: {name}": ("translator", changed_weights(change)) for name, change in WEIGHTS_CHANGES.items()}
HOSTILE |= {name: ("filler", pieces(*case)) for name, case in PIECES.items()}
HOSTILE |= {name: ("writer", pieces(*case)) for name, case in BYTE_PIECES.items()}


def make(name, bases, folder, outside):
    """Writes the entry called `name` to `folder`, a copy of one of `bases` (dict from name to folder)."""
    base, change = HOSTILE[name]
    shutil.copytree(bases[base], folder)
    change(folder, outside)
    if getattr(change, "signed", True):
        sign(folder)
