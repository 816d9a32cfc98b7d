"""The interface of every pipeline, and loading an entry as a pipeline.

How to add a model
------------------
1. The network: a `keras.Model` in `models/NAME.py`. Its constructor takes its settings, and it returns logits.
2. The pipeline: `Translator` runs every encoder-decoder with the methods `encode`, `initial_state`, `step` and
   `derived_weights`; such a network needs no pipeline of its own. Otherwise write a subclass of `Pipeline` in
   `pipelines/NAME.py`. Abstract methods are required; the defaults of all others mean "not offered".
3. One registration in a file of `catalog/`:

       register(
           Architecture(
               name="Echo",                                  # the name of the model's class
               model="keras_attention.models.echo:Echo",
               settings={"vocabulary_size": whole(5, 1_000_000), "hidden_dim": whole(1, 8192)},
               parameters=lambda model: 2 * model["vocabulary_size"] * model["hidden_dim"],
               task=Task(
                   tasks=("echo",),
                   pipeline="keras_attention.pipelines.echo:EchoPipeline",
                   method="echo",
                   tokenizers={"text": "vocabulary_size"},   # {} for a model without text
                   inputs=(TextInput,),                      # the default; see `keras_attention.inputs`
                   keys={"language": LANGUAGE},              # further keys of config.json
                   title=lambda config: f"{config['language']}, echo",
                   reads=lambda config: f"Repeats {config['language']}",
                   activity=lambda config: Activity("Repeat", "Type a text.", "Text"),  # for the page; optional
               ),
           )
       )

Then `Pipeline.save` writes entries of the new architecture, `keras_attention.load` and `from_preset` load them, `zoo
list`, `zoo show` and `zoo verify` work with them, the server answers at /v1/echo, and the card has its text. No other
code depends on the architecture: `tests/pipelines/test_registration.py` adds such a model and tests all of this.

A network that gives logits for labels needs no pipeline of its own, whatever it reads: with
`task=image_classification(size)` of `catalog/classification.py`, `pipelines/input_classifier.py` answers for it. It
takes the dict of arrays that its kind of input gives; `tests/inputs/test_image_classifier.py` adds such a network.
"""

import abc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from keras_attention.inputs import Field as Field
from keras_attention.inputs.text import TextInput
from keras_attention.pipelines.pickling import pickled, pickled_folder
from keras_attention.support.compile_cache import use_compile_cache
from keras_attention.support.errors import UserError, quoted
from keras_attention.support.moved import RenamedAttribute
from keras_attention.visualize.pages import AttentionView
from keras_attention.zoo.entry import Entry
from keras_attention.zoo.entry_io import LoadedEntry, load_entry, write_entry
from keras_attention.zoo.registry import check_task, open_entry
from keras_attention.zoo.schema import architecture_of, imported


class Pipeline(abc.ABC):
    """An input in, an answer out: the interface that commands, server, export, cards and attention views use.

    Attributes:
        model: built keras.Model, the bare network with its weights. It takes token ids and returns logits. It can be
            trained with `fit`, and the pipeline's `save` stores it.
        entry: Entry from which the pipeline was loaded, or None.
        has_attention: bool. Whether `attention_view` is available.
        request_fields: dict from name to Field, the fields of a request to /v1/TASK and the arguments of `reply`. Every
            str and list of str in a request counts towards the server's limits, except files.
        answer_fields: dict from name to Field, the fields of one answer of `reply`.
        choice_fields: dict from name to Field, fields of a request by which the server chooses a model of the task.
        reply_fields: dict from name to Field, attributes of the pipeline that stand beside the answers of a request.
        answer_kind: str, how the demo page asks for an answer and shows it, see `server/demo/answers.js`.
        text_limit: int or None, the most tokens of a text in a request to the server; None: a longer text is cut.
        view_options: tuple of str, the options of `attention_view`.
        batching: str or None, how the server batches texts of several requests: "search" if the pipeline has a
            `CompiledSearch`, "sequences" if it has a `CompiledForward`, "alone" with `CompiledSteps`; None: it computes
            one request after the other.
        engines: dict from the name of an engine other than Keras to "module:function"; see `use_engine`.
    """

    entry: Entry | None = None
    model: Any  # a keras.Model
    has_attention = False
    request_fields: dict = {}
    answer_fields: dict = {}
    choice_fields: dict = {}
    reply_fields: dict = {}
    answer_kind = "fields"
    text_limit: int | None = None
    view_options: tuple = ()
    batching = None
    engines: dict = {}
    described = RenamedAttribute("config_keys")

    @classmethod
    @abc.abstractmethod
    def from_parts(cls, model: Any, tokenizers: dict[str, Any], config: dict[str, Any]) -> Self:
        """Makes a pipeline from a model, a dict from role to tokenizer and keys of `config.json`, see `schema.Task`."""

    @classmethod
    def from_loaded(cls, loaded: LoadedEntry) -> Self:
        """Makes a pipeline from a LoadedEntry, whose network only the pipeline uses from now on.

        Override it if an entry has more than a network and tokenizers.
        """
        return cls.from_parts(loaded.model, loaded.tokenizers, loaded.entry.config)

    @abc.abstractmethod
    def config_keys(self) -> dict[str, Any]:
        """The keys of `config.json` other than the network's settings: dict of JSON types."""

    @abc.abstractmethod
    def answers(self, sources: list, sources_b: list[str] | None = None) -> list[str]:
        """Answers each source as text, with the model's own settings, for the card and for `zoo verify`.

        Args:
            sources: list of str; for kinds of input with `is_file`, of paths or other forms that they read.
            sources_b: list of str, the second texts of pairs, or None.

        Returns:
            List of str; empty if the model's answers are not texts.
        """

    @abc.abstractmethod
    def reply(self, **request: Any) -> list[dict[str, Any]]:
        """Answers an HTTP request: list of dicts of JSON types, see `request_fields` and `answer_fields`."""

    def __reduce__(self):
        """For `pickle`, joblib, `copy.deepcopy` and other processes, see `pickling`."""
        return _unpickled, *pickled(self, load_pipeline)

    def __copy__(self) -> Self:
        """A copy that shares network and programs."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        return other

    @property
    def tokenizers(self) -> dict[str, Any]:
        """Dict from role to tokenizer."""
        return {}

    @classmethod
    def request_fields_for(cls, kind: Any) -> dict[str, Field]:
        """The `request_fields` for a kind of input; a pipeline that reads several kinds adds the kind's `fields`."""
        return cls.request_fields

    @property
    def input(self) -> Any:
        """The kind of input that the model reads, see `keras_attention.inputs`."""
        return TextInput()

    @property
    def facts(self) -> dict[str, Any]:
        """Further fields of the model in `GET /v1/models`, beside those of its entry: dict of JSON types."""
        return {}

    @classmethod
    def facts_of(cls, config: dict[str, Any]) -> dict[str, Any]:
        """The `facts` of a model that is not loaded, from its `config.json`."""
        return {}

    @property
    def samples(self) -> list:
        """A few inputs for the examples on a card: list of str, of tuples (pairs), or of what `input` reads."""
        return []

    @property
    def extra_files(self) -> list[Callable]:
        """Writers of further files of an entry: list of callables(folder)."""
        return []

    def sides(self, line: str) -> tuple[str, ...]:
        """Splits a line of a file or of the command line into the texts of one request: one str, or two for a pair."""
        return (line,)

    def attention_view(self, text: str, text_b: str | None = None, **options: Any) -> AttentionView:
        """The attention weights of the model for one text, as a page.

        Args:
            text: str.
            text_b: str, the second text of a pair, or None.
            options: see `view_options`.

        Returns:
            AttentionView.

        Raises:
            UserError: if the model has no attention, or does not have one of the options.
        """
        raise UserError("This model has no attention, so there is nothing to show.")

    def position_view(self) -> Any:
        """How similar the position embeddings of patches are, as `visualize.patch_maps.PositionMap`.

        Raises:
            UserError: if the model does not read patches.
        """
        raise UserError("This model does not read patches, so there are no positions of patches to show.")

    def explain(self, text: str, text_b: str | None = None, *, label: str | None = None) -> Any:
        """What each word contributes to a label, see `explanation.explain`, or to the words of an answer.

        Raises:
            UserError: if the model gives no labels, and writes no text.
        """
        raise UserError("This model gives no labels, so there is nothing to explain.")

    def check_explained(self, text_b: str | None, label: str | None) -> None:
        """Raises UserError for an argument of `explain` that only classifiers have."""
        if text_b is not None or label is not None:
            raise UserError("`text_b` and `label` are for classifiers. This model explains the words of its answer.")

    def use_engine(self, name: str, **options: Any) -> None:
        """Computes with another engine from now on, such as "ctranslate2"; see the function that `engines` names.

        Raises:
            UserError: if this pipeline does not have the engine, or the engine cannot run its model.
        """
        if name not in self.engines:
            raise UserError(f"This model cannot use the engine {name}, which is for translators.")
        imported(self.engines[name])(self, **options)

    def check_view(self, text_b: str | None, options: Iterable[str]) -> None:
        """Raises UserError for an argument of `attention_view` that this pipeline does not have."""
        if text_b is not None and "text_b" not in self.view_options:
            raise UserError("This model takes one text: leave out the second.")
        for name in options:
            if name not in self.view_options:
                raise UserError(f"This model has no option `{name}`: leave it out.")

    def warm(self) -> None:
        """Computes the programs that the usual requests need, so that the compile cache can store them.

        By default, the pipeline answers the examples of its card. Override it if requests need other programs, too.
        """
        if self.entry:
            sources, *second = example_sources(self.entry)
        else:
            sources, *second = _sides(self.samples)
        if sources:
            self.answers(sources, *second)

    def examples(self) -> list[dict[str, str]]:
        """The `samples` with the model's answers, in the form of metrics.json."""
        samples = [dict(zip(("source", "source_b"), _as_tuple(sample), strict=False)) for sample in self.samples]
        answers = self.answers(*_sides(self.samples)) if samples else []
        return [{**texts, "output": output} for texts, output in zip(samples, answers, strict=True)]

    def save(
        self, folder: str | Path, *, metrics: dict[str, Any] | None = None, overwrite: bool = False, **config: Any
    ) -> Entry:
        """Saves the model as an entry: a folder whose path `keras_attention.load` and every command accept.

        Args:
            folder: str or Path; its name is the model's name.
            metrics: dict, the content of the card, see `zoo.card.card_text`; missing keys are filled in. A loaded model
                keeps its card, with a note that its scores were measured before it was saved again.
            overwrite: bool. Whether to replace an existing entry at `folder`.
            config: keys of config.json that replace the pipeline's own, such as language="de".

        Returns:
            Entry.

        Raises:
            EntryError: if `folder` exists already, or a key of config.json is missing or wrong.

        Example:
            keras_attention.load("rnn_attention_dates").save("my_dates")
        """
        known = self.entry.config if self.entry else {}
        keys = architecture_of({"architecture": type(self.model).__name__}).task.keys
        about = {name: known[name] for name in keys if name in known} | self.config_keys() | config
        metrics_of_card, pictures = _metrics_of(self)
        return write_entry(
            folder,
            self.model,
            self.tokenizers,
            about=about,
            metrics=metrics_of_card | (metrics or {}),
            weights_dtype=known.get("weights_dtype", "float32"),
            extra_files=[*pictures, *self.extra_files],
            overwrite=overwrite,
        )


NOT_MEASURED = "Saved from Python: data, training and scores are unknown."
MEASURED_BEFORE = "Saved again from Python: the scores were measured on the model that was loaded."
MOST_EXAMPLES = 20


def _metrics_of(pipeline) -> tuple[dict[str, Any], list[Path]]:
    """The content of metrics.json for a pipeline, and the paths of the card's pictures and of example files."""
    counts = {"parameters": pipeline.model.count_params()}
    if pipeline.entry is None:
        nothing = {"data": [], "scores": [], "seeds": [], "minutes": 0.0, "limits": [NOT_MEASURED]}
        made = {"description": f"A {type(pipeline.model).__name__}.", "command": "Pipeline.save", "commit": "unknown"}
        return {**nothing, **made, "hardware": "unknown hardware", **counts, "examples": pipeline.examples()}, []
    metrics = pipeline.entry.metrics
    limits = [*(limit for limit in metrics["limits"] if limit != MEASURED_BEFORE), MEASURED_BEFORE]
    sources, second = example_sources(pipeline.entry, MOST_EXAMPLES)
    answers = pipeline.answers(sources, second)
    examples = [{**example, "output": output} for example, output in zip(metrics["examples"], answers, strict=False)]
    files = [pipeline.entry.folder / picture["file"] for picture in metrics.get("pictures", ())]
    files += sources if pipeline.input.is_file else []
    return {**metrics, **counts, "limits": limits, "examples": examples}, files


def make_pipeline(model, tokenizers, config):
    """Makes the pipeline for a model of a registered architecture.

    Args:
        model: built keras.Model.
        tokenizers: dict from role to tokenizer.
        config: dict, the keys of `config.json` other than the network's settings.

    Returns:
        Pipeline.
    """
    task = architecture_of({"architecture": type(model).__name__}).task
    return task.pipeline_class().from_parts(model, tokenizers, {**task.defaults, **config})


def load_pipeline(entry, task=None):
    """Loads an entry as a pipeline.

    Args:
        entry: Entry that was read and checked before; or str or Path, an entry's folder or name.
        task: str, the task that the model must have, such as "translate"; or None for any task.

    Returns:
        Pipeline.

    Raises:
        EntryError: see `entry_io.load_entry`.
        UserError: if the model does not have the task.
    """
    entry = check_task(entry, task) if isinstance(entry, Entry) else open_entry(entry, task)
    use_compile_cache()
    loaded = load_entry(entry)
    pipeline = entry.architecture.task.pipeline_class().from_loaded(loaded)
    pipeline.entry = entry
    return pipeline


def _unpickled(*place):
    return load_pipeline(pickled_folder(*place))


def failing_examples(entry):
    """Runs the stored examples of an entry again, with its own settings.

    Args:
        entry: Entry, or the str or Path of its folder.

    Returns:
        Pair of the number of examples and a list of str, one line for each changed output.

    Raises:
        EntryError: if the entry is damaged.
    """
    entry = entry if isinstance(entry, Entry) else open_entry(entry)
    examples = entry.metrics["examples"]
    problems = [
        f"example {quoted(example['source'], 60)} gives {quoted(output, 60)}, stored is {quoted(example['output'], 60)}"
        for example, output in zip(examples, example_outputs(entry), strict=True)
        if output != example["output"]
    ]
    return len(examples), problems


def example_outputs(entry):
    """List of str, the answers of an Entry's model to its stored examples, with its own settings."""
    pipeline = load_pipeline(entry)
    sources, second = example_sources(entry)
    return list(pipeline.answers(sources, second)) if sources else []


def example_sources(entry: Entry, most: int | None = None) -> tuple[list, list[str] | None]:
    """The inputs of the stored examples of an Entry, at most `most`, as arguments of `answers`.

    Returns:
        Pair of the sources (list of str, or of Path for kinds of input with `is_file`), and of second texts or None.
    """
    examples = entry.metrics["examples"][:most]
    if entry.input.is_file:
        return [entry.folder / example["source"] for example in examples], None
    return _sides([tuple(example[name] for name in ("source", "source_b") if name in example) for example in examples])


def _as_tuple(sample):
    return sample if isinstance(sample, tuple) else (sample,)


def _sides(samples):
    """The inputs of samples, and their second texts or None."""
    sides = [_as_tuple(sample) for sample in samples]
    second = [side[1] for side in sides if len(side) > 1]
    return [side[0] for side in sides], second or None
