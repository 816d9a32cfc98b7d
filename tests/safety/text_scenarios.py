"""More commands that write, made small as in `crash_scenarios.py`: tables, vectors, programs, downloads, searches."""

import contextlib
import os
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import optuna  # noqa: F401 (imported before the fork)
from convert.fake_hub import PUBLISHED, running_hub
from convert.tiny_checkpoints import TINY_BERT
from safety.crash_scenarios import (
    FINETUNE,
    RESULT,
    STUBS,
    Scenario,
    StubClassifier,
    StubPipeline,
    StubTranslator,
    command,
    redirected,
    with_classifier,
    with_model,
    written,
)
from zoo.tiny_bert import tiny_classifier

from keras_attention.cli import classify, encode, generate, translate, zoo  # noqa: F401 (imported before the fork)
from keras_attention.cli.main import guarded
from keras_attention.data.prose.token_stream import TokenStream
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, TokenSequences, save_encoded
from keras_attention.finetuning import report, search
from keras_attention.pipelines import base
from keras_attention.pipelines.text_encoder import Embeddings
from keras_attention.support import compile_cache
from keras_attention.support.atomic_files import whole_file
from keras_attention.tokenizers import CharacterTokenizer
from keras_attention.training.history import save_trained
from keras_attention.visualize import figures

ROWS = "text,mood,label\n" + "".join(f'"a day, {i}",fine,{i}\n' for i in range(13))
EXPLAINED = {"text": "a day", "text_b": None, "label": "good", "value": 0.75, "words": [], "truncated": False}


def using(run, **stubs):
    """The command with other values for some names, each given as (module, name, value)."""

    def run_using(folder, *flags):
        for module, name, value in stubs.values():
            setattr(module, name, value)
        return run(folder, *flags)

    return run_using


# Tables

TABLE = command("classify", "--model", "{}/model", "--table", "{}/rows.csv", "--output", "{}/out.csv")
KEPT = ("out.csv.partial", "out.csv.partial.json")


def with_rows(prepare=None):
    def prepare_rows(folder):
        (folder / "rows.csv").write_text(ROWS)
        (folder / "out.csv").write_text("old")
        if prepare:
            prepare(folder)

    return with_classifier(prepare_rows)


def interrupted(folder):
    """What a killed run left: two windows of rows."""
    load = classify.load

    class Killed(StubClassifier):
        def classify(self, texts, texts_b=None, **options):
            if len(texts) < 5:
                raise KeyboardInterrupt
            return super().classify(texts, **options)

    classify.load = lambda entry, task: Killed()
    with contextlib.redirect_stderr(None):
        assert TABLE(folder) == 130
    classify.load = load
    assert (folder / KEPT[1]).exists()


class Explained:
    as_json = staticmethod(lambda: EXPLAINED)


class Explaining(StubClassifier):
    def explain(self, *sides):
        return Explained()


EXPLAIN = using(
    command("classify", "a day", "a night", "--model", "{}/model", "--explain", "{}/out.html"),
    load=(classify, "load", lambda entry, task: Explaining()),
)


# Vectors and language models


class StubEncoder:
    """Vectors of the width of the tiny BERT."""

    width = tiny_classifier().model.get_config()["hidden_dim"]

    def encode(self, texts, progress=None):
        return Embeddings(self.directions(texts), [], [], [False] * len(texts))

    def directions(self, texts):
        return np.array([[len(text), *range(self.width - 1)] for text in texts], "float32")


class Continuation(NamedTuple):
    text: str


class Score(NamedTuple):
    log_prob: float
    perplexity: float


class StubWriter:
    is_music = False

    def generations(self, prompts, n, **sampling):
        return [[Continuation(f" and {number}") for number in range(n)] for _ in prompts]

    def score(self, texts):
        return [Score(-float(len(text)), 2.0) for text in texts]


ENCODER = {"load": (encode, "load", lambda entry, task: StubEncoder())}
WRITER = {
    "entry": (generate, "open_entry", lambda name, task: name),
    "load": (generate, "load", lambda entry, task: StubWriter()),
}
ENCODE = command("encode", "--model", "{}/model", "--input", "{}/texts", "--output", "{}/out.npy")
SIMILAR = command("similar", "--query", "a dog", "--model", "{}/model", "--input", "{}/texts", "--json")
GENERATE = command("generate", "--model", "{}/model", "a dog", "--n", "2", "--json")
SCORE = command("score", "--model", "{}/model", "--input", "{}/texts")


# Pictures


class Drawn(StubTranslator):
    def hypotheses(self, texts, **options):
        return [[Drawing(f"<{text}>")] for text in texts]


class Drawing(NamedTuple):
    text: str
    truncated: bool = False
    low_score: bool = False
    reason: str | None = None
    tokens: tuple = ("a",)
    source_tokens: tuple = ("a",)
    attention: tuple = ((1.0,),)


def draw(attention, source_tokens, tokens, path):
    with whole_file(path, "wb") as file:
        file.write(b"a picture" * 999)


PICTURES = using(
    command("translate", "a", "b", "c", "--model", "{}/model", "--attention", "{}/map.png"),
    load=(translate, "load", lambda entry, task=None: Drawn()),
    draw=(figures, "attention_heatmap", draw),
)


def old_pictures(folder):
    for number in (1, 2):
        (folder / f"map-{number}.png").write_text("old")


# Compiled programs


class Compiling(StubPipeline):
    """Writes programs as XLA does: beside their place, then renamed; an error is only logged, and leaves a file."""

    def warm(self):
        for number in (5, 20, 45):
            self.compile(number)

    def compile(self, number):
        if compile_cache.FLAG not in (flags := os.environ.get("TF_XLA_FLAGS", "")):
            return
        session = Path(flags.removeprefix(compile_cache.FLAG))
        temporary = session / "1234.tmp"
        with contextlib.suppress(OSError):
            temporary.write_bytes(f"{compile_cache.MARK}{number:032x}".encode() * number * 50)
            os.rename(temporary, session / f"program_{number}")


def warm(folder, *flags):
    os.environ["KERAS_ATTENTION_CACHE"] = str(folder / "cache")
    compile_cache._in_use.clear()
    base.load_pipeline = lambda entry: Compiling()
    code = command("warm", "{}/model")(folder)
    for cache in compile_cache._in_use:  # as at the end of the process
        cache.close()
    return code


def with_cache(folder):
    (folder / "cache").mkdir()
    with_model()(folder)


# Downloads


def hub_address():
    """The address of a hub that runs in another process, for as long as this one."""
    if "hub" not in STUBS:
        (read, writer), (end, alive) = os.pipe(), os.pipe()
        if not os.fork():
            os.close(alive)
            with running_hub() as hub:
                hub.publish(TINY_BERT)
                os.write(writer, f"{hub.endpoint} ".encode())
                threading.Thread(target=lambda: (os.read(end, 1), os._exit(0))).start()
                threading.Event().wait()
        os.close(writer), os.close(end)
        STUBS["hub"] = os.read(read, 99).decode().strip()
    return STUBS["hub"]


def with_caches(folder):
    hub_address()
    for name in ("ours", "theirs"):
        (folder / name).mkdir()


def from_the_hub(folder, *flags):
    from huggingface_hub import constants

    address = hub_address()
    constants.ENDPOINT, constants.HF_HUB_CACHE = address, str(folder / "theirs")
    constants.HUGGINGFACE_CO_URL_TEMPLATE = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    os.environ["KERAS_ATTENTION_CACHE"] = str(folder / "ours")
    return command("convert", f"hf://{PUBLISHED}", "--out", "{}/mine")(folder, *flags)


# The journal of a search


class Prepared(NamedTuple):
    """What a search reads of `workflow.Prepared`."""

    classifier: object
    sequences: tuple = (1,) * 20
    stages: tuple = ("on labels",)
    minutes: float = None


class Written(NamedTuple):
    folder: Path


def write_little(out, *arguments, **options):
    """A file in the place of the model, which "finetune --overwrite" writes."""
    with whole_file(out.with_name("model.txt")) as file:
        file.write("a model")
    return Written(out)


FIND_SETTINGS = using(
    lambda folder, *flags: FINETUNE(folder, "--search", "2", *flags),
    prepare=(search, "prepare", lambda *arguments, **options: Prepared(STUBS["classifier"])),
    fit=(search, "fit", lambda *arguments, **options: RESULT),
    validator=(search, "validator", lambda prepared: lambda model: {"val_score": 61.5}),
    write=(report, "write_classifier", write_little),
)


# What recipes write beside entries

SEQUENCES = TokenSequences(np.arange(99, dtype="int32"), np.array([0, 40, 99]))
PAIRS = [ParallelCorpus(SEQUENCES, SEQUENCES, 0, 0)]


def saved(save):
    return lambda folder, *flags: guarded(lambda: save(folder) and 0, "recipe")


def stream(folder, size=99):
    TokenStream(CharacterTokenizer("abc"), np.arange(size), np.arange(size), 3, False).save(folder / "encoded")


SCENARIOS = {
    "classify --table --output": Scenario(with_rows(), TABLE, [(), ("--resume",)], KEPT),
    "classify --table --output --resume": Scenario(
        with_rows(interrupted), lambda folder, *flags: TABLE(folder, "--resume"), [()], KEPT
    ),
    "classify --explain": Scenario(with_classifier(written("out.html")), EXPLAIN),
    "encode --output": Scenario(with_classifier(written("out.npy")), using(ENCODE, **ENCODER)),
    "similar > file": Scenario(with_classifier(), redirected(using(SIMILAR, **ENCODER))),
    "generate > file": Scenario(with_model(), redirected(using(GENERATE, **WRITER))),
    "score > file": Scenario(with_model(), redirected(using(SCORE, **WRITER))),
    "translate --attention, several": Scenario(with_model(old_pictures), PICTURES, together=False),
    "warm": Scenario(with_cache, warm, together=False),
    "convert hf://": Scenario(with_caches, from_the_hub, scratch=("theirs",), together=False),
    "finetune --search": Scenario(
        with_classifier(), FIND_SETTINGS, [("--restart",), ("--resume",)], ("mine_checkpoints", "mine_search.log")
    ),
    "encoded pairs": Scenario(
        written("pairs.npz"), saved(lambda folder: save_encoded(folder / "pairs.npz", PAIRS, (9, 9)))
    ),
    "encoded stream": Scenario(lambda folder: stream(folder, 9), saved(stream)),
    "weights trained elsewhere": Scenario(
        written("mine.npz"), saved(lambda folder: save_trained(folder / "mine", STUBS["encoder"], RESULT, {}))
    ),
}
