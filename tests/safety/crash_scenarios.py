"""The commands that write, made small: what computes is replaced by prepared answers, what writes is the product's.

Runs on Keras's NumPy backend, which has no threads, so that a process can be forked at any time.
"""

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from convert.tiny_checkpoints import TINY_BERT
from zoo.tiny_bert import tiny_classifier, tiny_mask_filler, tokenizer, write_tiny
from zoo.tiny_entry import ENGLISH, METRICS, tiny_parts, write_tiny_entry

import keras_attention.cli.export  # noqa: F401 (imported before the fork)
from keras_attention import export
from keras_attention.cli import classify, translate
from keras_attention.cli.io import many_texts
from keras_attention.cli.main import guarded, main
from keras_attention.data.tables.label_task import find_task
from keras_attention.export.signatures import TEXT
from keras_attention.finetuning import calibration, report, workflow
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.pipelines import base
from keras_attention.pipelines.base import Pipeline
from keras_attention.pipelines.classifier import Classification, Classifier
from keras_attention.pipelines.mask_filler import Filling, MaskFiller  # noqa: F401
from keras_attention.publishing import trained_entries
from keras_attention.training import checkpoints
from keras_attention.training.history import TrainResult
from keras_attention.visualize.pages import AttentionView
from keras_attention.zoo.entry_io import write_entry  # noqa: F401

TEXTS = [f"{text} {number}" for number, text in enumerate(ENGLISH * 3)]
HISTORY = [{"epoch": 1, "steps": 2, "loss": 1.5, "val_loss": 1.25, "tokens": 7.0}]
FACTS = {"command": "python x.py", "commit": "0", "hardware": "2 cores"}
RESULT = TrainResult(HISTORY, 2, 60.0, 0.5, 1, "all epochs are done")
TABLE = "text,label\n" + "".join(f"a fine day {i},good\na poor day {i},bad\n" for i in range(20))


class Scenario(NamedTuple):
    """A command that writes.

    Attributes:
        prepare: callable(folder), makes what is there before.
        run: callable(folder, *flags) -> exit code.
        again: list of tuples of flags: each is how the same command may be given after a crash.
        scratch: names that may stand there after a crash or an error, and not at the end.
        together: bool. Whether all files change at one instant; otherwise each is old or new.
    """

    prepare: object
    run: object
    again: list = [()]
    scratch: tuple = ()
    together: bool = True


def command(*words):
    """The exit code of `keras-attention` with these words, `{}` standing for the folder."""

    def run(folder, *flags):
        try:
            return main([word.format(folder) for word in (*words, *flags)])
        except SystemExit as stop:
            return stop.code

    return run


class Hypothesis(NamedTuple):
    text: str
    truncated: bool = False
    low_score: bool = False
    reason: str | None = None


class StubTranslator:
    """Answers at once."""

    def hypotheses(self, texts, **options):
        return [[Hypothesis(f"<{text}>")] for text in texts]


class StubClassifier(Classifier):
    """Answers at once, and is written as any classifier is."""

    def __init__(self):
        made = tiny_classifier()
        super().__init__(made.model, made.tokenizer, made.max_tokens, made.task)

    def rows(self, texts, texts_b=None, *, warn=False):
        return [[text] for text in texts]

    def logits(self, rows, progress=None):
        return np.array([[len(str(row)) % 3, 1.0] for row in rows], "float32")

    def classify(self, texts, texts_b=None, **options):
        labels = [self.task["label_names"][len(text) % 2] for text in texts]
        if options.get("return_scores"):
            return [Classification(label, {label: 0.75}, False) for label in labels]
        return labels


def page(*arguments, **options):
    return AttentionView({"title": "x" * 9999})


class StubPipeline(Pipeline):
    """Shows a page, and is exported as prepared files."""

    attention_view = staticmethod(page)

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        return cls()

    def config_keys(self):
        return {}

    def answers(self, sources, sources_b=None):
        return list(sources)

    def reply(self, **request):
        return []


export.WRITERS[StubPipeline.__name__] = {"saved_model": "safety.crash_scenarios:write_saved_model"}


def finetune_with_checkpoints(examples, *arguments, checkpoint_dir, resume, restart, **options):
    """What a training of three steps writes, and what it gives."""
    with checkpoints.open_folder(checkpoint_dir, resume, restart):
        path = checkpoints.latest_valid(checkpoint_dir) if resume else None
        for step in range(checkpoints.read(path)[1]["step"] + 1 if path else 1, 4):
            checkpoints.write(checkpoint_dir, step, {"weight": np.full(9, step)}, {"step": step})
    task = find_task(examples.labels)
    return calibration.Finetuned(
        STUBS["classifier"], task, examples, examples.first(4), RESULT, vars(FinetuneSettings())
    )


def prepared_report(*arguments, **options):
    rows = [["bad", 50.0, 50.0, 50.0, 2], ["good", 50.0, 50.0, 50.0, 2]]
    scores = {"accuracy": 75.0}
    return report.Report("validation, 4 rows", scores, {"accuracy": 50.0}, rows, np.array([[2, 1], [1, 2]]), [])


def write_saved_model(folder, *arguments, **options):
    """Files and folders as TensorFlow writes them."""
    (folder / "variables").mkdir()
    for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        (folder / name).write_bytes(name.encode() * 999)
    return TEXT


def use_stubs():
    """Puts prepared answers in the place of all that computes."""
    many_texts.WINDOW = 5
    load = translate.load
    translate.load = lambda entry, task=None: StubTranslator() if task == "translate" else load(entry, task)
    classify.load = lambda entry, task: STUBS["classifier"]
    base.load_pipeline = lambda folder, *wanted: StubPipeline()
    workflow.finetune_classifier = finetune_with_checkpoints
    report.make_report = prepared_report
    trained_entries.MaskFiller = lambda *arguments: StubFiller()
    trained_entries.scores_on = lambda *arguments: METRICS["scores"]
    trained_entries.low_score_rule = lambda *arguments: (-0.5, {"set": "validation", "sentences": 7, "share": 0.05})
    os.environ["KERAS_ATTENTION_ZOO"] = ""


class StubFiller:
    def fill_mask(self, texts, top_k):
        return [[Hypothesis(text.replace("[MASK]", "dog"))] for text in texts]


class StubData(NamedTuple):
    """What `write_trained` reads of a TranslationData."""

    train: tuple = (ENGLISH, ENGLISH)
    test: tuple = (ENGLISH, ENGLISH)
    name: str = "tiny"
    source_language: str = "en"
    target_language: str = "de"
    several_references: bool = False
    limits: tuple = ("none",)
    origin: dict = METRICS["data"][0]


@dataclass
class StubTrained:
    """What `write_trained` reads of a Translator."""

    model: object
    source_tokenizer: object
    target_tokenizer: object
    decoding: dict = field(default_factory=lambda: {"beam_size": 1})
    low_score_threshold: float | None = None
    alignment_heads: list | None = None

    @property
    def network(self):
        return self.model

    def translate(self, texts):
        return list(texts)


STUBS = {}


def make_stubs():
    """What takes long to make, once, before the forks."""
    STUBS["classifier"] = StubClassifier()
    STUBS["parts"] = tiny_parts()
    STUBS["encoder"] = tiny_mask_filler().model
    use_stubs()


def written(name, content="old"):
    """Prepares a file, and the folder `model`, an entry."""

    def prepare(folder):
        (folder / name).write_text(content)

    return prepare


def with_model(prepare=None):
    def prepare_both(folder):
        write_tiny_entry(folder / "model", STUBS["parts"])
        (folder / "texts").write_text("".join(f"{text}\n" for text in TEXTS))
        if prepare:
            prepare(folder)

    return prepare_both


def with_classifier(prepare=None):
    def prepare_both(folder):
        write_tiny(folder / "model", STUBS["classifier"].model, task=STUBS["classifier"].task)
        (folder / "texts").write_text("".join(f"{text}\n" for text in TEXTS))
        (folder / "table.csv").write_text(TABLE)
        if prepare:
            prepare(folder)

    return prepare_both


def interrupted(folder):
    """What a killed run of `translate` left: two windows of answers."""
    (folder / "out").write_text("old")
    load = translate.load

    class Killed(StubTranslator):
        def hypotheses(self, texts, **options):
            if len(texts) < 5:
                raise KeyboardInterrupt
            return super().hypotheses(texts)

    translate.load = lambda entry, task=None: Killed()
    with contextlib.redirect_stderr(None):
        assert TRANSLATE(folder) == 130
    translate.load = load
    assert (folder / "out.partial.json").exists()


FILES = ("--input", "{}/texts", "--output", "{}/out")
TRANSLATE = command("translate", "--model", "{}/model", *FILES)
CLASSIFY = command("classify", "--model", "{}/model", *FILES)
FINETUNE = command(
    "finetune", "{}/table.csv", "--text", "text", "--label", "label", "--out", "{}/mine", "--from", "none",
    "--size", "tiny", "--epochs", "1", "--json", "--overwrite",
)  # fmt: skip
EVALUATE = command("evaluate", "--model", "{}/model", "--source", "{}/texts", "--target", "{}/texts", "--json")
EVALUATE_TABLE = command("evaluate", "--model", "{}/model", "--table", "{}/table.csv", "--json")
KEPT = ("out.partial", "out.partial.json")


def redirected(run):
    """The command with its standard output in the file `out`, which the shell has opened."""

    def run_redirected(folder, *flags):
        try:
            file = os.open(f"{folder}/out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except OSError as error:  # which the shell tells, before any command of ours begins
            print(f"sh: {error}", file=sys.stderr)
            return 2
        os.dup2(file, 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        return run(folder, *flags)

    return run_redirected


def entry(folder, *flags):
    return guarded(lambda: write_tiny_entry(folder / "mine", STUBS["parts"], overwrite=True) and 0, "recipe")


def old_entry(folder):
    write_tiny_entry(folder / "mine", STUBS["parts"], about={"low_score_threshold": -0.5})


def trained(folder, *flags):
    translator = StubTrained(*STUBS["parts"])
    about = {"description": "A test.", "settings": {}, "seed": 1, "result": RESULT, "facts": FACTS, "overwrite": True}
    return guarded(
        lambda: trained_entries.write_trained(folder / "mine", translator, StubData(), **about) and 0, "recipe"
    )


def pretrained(folder, *flags):
    settings = {"max_tokens": 23, "text": [], "validation": [], "mask_rate": 0.3, "num_layers": 3, "seed": 1}
    settings |= {"language": "en", "half_precision": True}
    about = {"scores": {}, "settings": settings, "result": RESULT, "facts": FACTS, "overwrite": True}
    return guarded(
        lambda: trained_entries.write_pretrained(folder / "mine", STUBS["encoder"], tokenizer(), **about) and 0,
        "recipe",
    )


def two_checkpoints(folder):
    (folder / "steps").mkdir()
    for step in (1, 2):
        checkpoints.write(folder / "steps", step, {"weight": np.full(9, step)}, {"step": step})


def third_checkpoint(folder, *flags):
    def write():
        with checkpoints.open_folder(folder / "steps", resume=True, restart=False):
            checkpoints.write(folder / "steps", 3, {"weight": np.full(9, 3)}, {"step": 3})

    return guarded(write, "recipe")


def checkpoint_to_convert(folder):
    shutil.copytree(TINY_BERT, folder / "published")


SCENARIOS = {
    "translate --output, new": Scenario(with_model(), TRANSLATE, [(), ("--resume",)], KEPT),
    "translate --output, old": Scenario(with_model(written("out")), TRANSLATE, [(), ("--resume",)], KEPT),
    "translate --output --resume": Scenario(
        with_model(interrupted), lambda folder, *flags: TRANSLATE(folder, "--resume"), [()], KEPT
    ),
    "translate TEXT --output": Scenario(
        with_model(written("out")), command("translate", "a", "b", "--model", "{}/model", "--output", "{}/out")
    ),
    "classify --output": Scenario(with_classifier(written("out")), CLASSIFY, [(), ("--resume",)], KEPT),
    "evaluate --json > file, translator": Scenario(with_model(), redirected(EVALUATE)),
    "evaluate --json > file, classifier": Scenario(with_classifier(), redirected(EVALUATE_TABLE)),
    "evaluate --json --output": Scenario(
        with_model(written("out")), lambda folder, *flags: EVALUATE(folder, "--output", "{}/out")
    ),
    "attention --out": Scenario(
        with_model(written("out.html")), command("attention", "a dog", "--model", "{}/model", "--out", "{}/out.html")
    ),
    "export": Scenario(with_model(), command("export", "{}/model", "{}/exported")),
    "convert, new": Scenario(checkpoint_to_convert, command("convert", "{}/published", "--out", "{}/mine")),
    "convert --overwrite": Scenario(
        lambda folder: (checkpoint_to_convert(folder), old_entry(folder)),
        command("convert", "{}/published", "--out", "{}/mine", "--overwrite"),
    ),
    "finetune --overwrite": Scenario(
        with_classifier(old_entry), FINETUNE, [("--restart",), ("--resume",)], ("mine_checkpoints",)
    ),
    "zoo entry, new": Scenario(lambda folder: None, entry),
    "zoo entry, old": Scenario(old_entry, entry),
    "recipes: translator": Scenario(old_entry, trained),
    "recipes: masked language model": Scenario(old_entry, pretrained),
    "checkpoints": Scenario(two_checkpoints, third_checkpoint),
}
