"""What every pipeline takes and gives, and the way from the folder of an entry to one.

How to add a model
------------------
1. The network: a `keras.Model` in `models/NAME.py` whose constructor takes its settings and that gives logits.
2. The pipeline: none, if an existing one runs the network (every encoder-decoder with `encode`, `initial_state` and
   `step` is run by `Translator`). Otherwise a subclass of `Pipeline` in `pipelines/NAME.py`. What it must have is
   marked abstract below; the rest has defaults that say "not offered".
3. One registration in `zoo/architectures.py`:

       register(
           Architecture(
               name="Echo",                                  # the name of the model's class
               model="keras_attention.models.echo:Echo",
               settings={"vocabulary_size": whole(5, 1_000_000), "hidden_dim": whole(1, 8192)},
               parameters=lambda model: 2 * model["vocabulary_size"] * model["hidden_dim"],
               use=Use(
                   tasks=("echo",),
                   pipeline="keras_attention.pipelines.echo:EchoPipeline",
                   method="echo",
                   tokenizers={"text": "vocabulary_size"},   # {} for a model without text
                   keys={"language": LANGUAGE},              # of config.json, beside the network
                   title=lambda config: f"{config['language']}, echo",
                   reads=lambda config: f"Repeats {config['language']}",
               ),
           )
       )

Then `Pipeline.save` writes entries of it, `keras_attention.load` and `from_preset` load them, `zoo list`, `zoo show`
and `zoo verify` know them, the server answers at /v1/echo, and the card is worded. Nothing else asks what kind of model
it has: `tests/pipelines/test_registration.py` adds such a model and tries all of it.
"""

import abc
from pathlib import Path
from typing import Any, NamedTuple, Self

from keras_attention.errors import UserError, quoted
from keras_attention.visualize.attention_page import AttentionView
from keras_attention.zoo.archive import load_entry, write_entry
from keras_attention.zoo.entry import Entry
from keras_attention.zoo.registry import check_task, open_entry
from keras_attention.zoo.schema import architecture_of


class Field(NamedTuple):
    """One value of a request or of an answer over HTTP.

    Attributes:
        kind: type, such as `list[str]` or `int | None`; of an answer also [dict], a list of objects with these fields.
        meaning: str, for the description of the API.
        default: what counts if a request leaves it out; `...` if it must be there.
        low, high: bounds of a number, or of how long a list may be.
    """

    kind: object
    meaning: str = ""
    default: object = ...
    low: float | None = None
    high: float | None = None


class Pipeline(abc.ABC):
    """Text in, answer out: all that commands, server, export, cards and attention views ask of a model.

    Attributes:
        model: built keras.Model, the bare network with its weights. It takes token ids and returns logits, trains with
            `fit` and is saved with the pipeline's `save`.
        entry: Entry that it was loaded from, or None.
        has_attention: bool, whether `attention_view` has something to show.
        request_fields: dict from name to Field, what a request to /v1/TASK holds; the arguments of `reply`. Each str
            or list of str in it counts towards the server's limits.
        answer_fields: dict from name to Field, one answer of `reply`.
        view_options: tuple of str, the options of `attention_view`.
        batching: str or None, how the server computes rows of several requests together: "search" for programs that
            search with a `CompiledSearch`, "rows" for forward passes of a `CompiledBert`, None for one after the other.
        exports: dict from the name of a format to "module:function" that writes it; see `export`.
    """

    entry: Entry | None = None
    model: Any  # a keras.Model
    has_attention = False
    request_fields: dict = {}
    answer_fields: dict = {}
    view_options: tuple = ()
    batching = None
    exports: dict = {}

    @classmethod
    @abc.abstractmethod
    def from_parts(cls, model, tokenizers, config) -> Self:
        """A pipeline of a model, its dict of tokenizers by role and the keys of `config.json` (see `schema.Use`)."""

    @classmethod
    def from_loaded(cls, loaded) -> Self:
        """A pipeline of a LoadedEntry; overridden where an entry has more than a network and tokenizers."""
        return cls.from_parts(loaded.model, loaded.tokenizers, loaded.entry.config)

    @abc.abstractmethod
    def described(self) -> dict[str, Any]:
        """The keys of `config.json` beside the network: dict of JSON types."""

    @abc.abstractmethod
    def answers(self, sources: list[str], sources_b: list[str] | None = None) -> list[str]:
        """What the model says to each source, with its own settings, as a card and `zoo verify` tell it.

        Args:
            sources: list of str.
            sources_b: list of str, the second texts of pairs, or None.

        Returns:
            List of str; empty for a model whose answers are no texts.
        """

    @abc.abstractmethod
    def reply(self, **request) -> list[dict[str, Any]]:
        """The answers to a request over HTTP: list of dicts of JSON types, see `request_fields` and `answer_fields`."""

    @property
    def tokenizers(self):
        """Dict from role to tokenizer."""
        return {}

    @property
    def facts(self):
        """What `GET /v1/models` tells of it, beside what its entry says: dict of JSON types."""
        return {}

    @property
    def samples(self):
        """A few texts that show on a card what the model does: list of str."""
        return []

    @property
    def extra_files(self):
        """What else an entry of it holds: list of callables(folder) that write there."""
        return []

    def sides(self, line):
        """A line of a file or the command line as the texts of one request: tuple of one str, or of two for a pair."""
        return (line,)

    def attention_view(self, text: str, text_b: str | None = None, **options: Any) -> AttentionView:
        """What the model looked at while it read a text, as a page.

        Args:
            text: str.
            text_b: str, the second text of a pair, or None.
            options: see `view_options`.

        Returns:
            AttentionView.

        Raises:
            UserError: if the model has no attention, or cannot be asked so.
        """
        raise UserError("This model has no attention, so there is nothing to show.")

    def check_view(self, text_b, options):
        """Raises UserError for what `attention_view` was given and does not know."""
        if text_b is not None and "text_b" not in self.view_options:
            raise UserError("This model reads one text: leave out the second.")
        for name in options:
            if name not in self.view_options:
                raise UserError(f"`{name}` is not for this model: leave it out.")

    def examples(self) -> list[dict[str, str]]:
        """The `samples` with the model's answers, as metrics.json holds them."""
        samples = self.samples
        said = self.answers(samples) if samples else []
        return [{"source": text, "output": output} for text, output in zip(samples, said, strict=True)]

    def save(
        self, folder: str | Path, *, metrics: dict[str, Any] | None = None, overwrite: bool = False, **config: Any
    ) -> Entry:
        """Writes the model as an entry: a folder that `keras_attention.load` and every command take by its path.

        Args:
            folder: str or Path; its name is the model's name.
            metrics: dict, what the card tells, see `zoo.card.card_text`; what is missing is filled in. Of a loaded
                model its own card goes on, with the note that its scores were measured before.
            overwrite: bool. Whether an entry that stands at `folder` is replaced.
            config: keys of config.json in place of the pipeline's own, such as language="de".

        Returns:
            Entry.

        Raises:
            EntryError: if something stands at `folder` already, or a key of config.json is missing or wrong.

        Example:
            keras_attention.load("rnn_attention_dates").save("my_dates")
        """
        known = self.entry.config if self.entry else {}
        keys = architecture_of({"architecture": type(self.model).__name__}).use.keys
        about = {name: known[name] for name in keys if name in known} | self.described() | config
        told, pictures = _told_of(self)
        return write_entry(
            folder,
            self.model,
            self.tokenizers,
            about=about,
            metrics=told | (metrics or {}),
            weights_dtype=known.get("weights_dtype", "float32"),
            extra_files=[*pictures, *self.extra_files],
            overwrite=overwrite,
        )


NOT_MEASURED = "Its data, training and scores are not known: it was saved from Python."
MEASURED_BEFORE = "Saved again from Python: the scores are those that the model had when it was loaded."
MOST_EXAMPLES = 20


def _told_of(pipeline) -> tuple[dict[str, Any], list[Path]]:
    """What metrics.json of a saved pipeline says, and the paths of the card's pictures."""
    told = {"parameters": pipeline.model.count_params()}
    if pipeline.entry is None:
        nothing = {"data": [], "scores": [], "seeds": [], "minutes": 0.0, "limits": [NOT_MEASURED]}
        made = {"description": f"A {type(pipeline.model).__name__}.", "command": "Pipeline.save", "commit": "unknown"}
        return {**nothing, **made, "hardware": "unknown hardware", **told, "examples": pipeline.examples()}, []
    metrics = pipeline.entry.metrics
    limits = [*(limit for limit in metrics["limits"] if limit != MEASURED_BEFORE), MEASURED_BEFORE]
    examples = metrics["examples"][:MOST_EXAMPLES]
    said = pipeline.answers(*_sides(examples))
    examples = [{**example, "output": output} for example, output in zip(examples, said, strict=False)]
    pictures = [pipeline.entry.folder / picture["file"] for picture in metrics.get("pictures", ())]
    return {**metrics, **told, "limits": limits, "examples": examples}, pictures


def make_pipeline(model, tokenizers, config):
    """The pipeline that a model of a registered architecture is used with.

    Args:
        model: built keras.Model.
        tokenizers: dict from role to tokenizer.
        config: dict, the keys of `config.json` beside the network.

    Returns:
        Pipeline.
    """
    use = architecture_of({"architecture": type(model).__name__}).use
    return use.pipeline_class().from_parts(model, tokenizers, {**use.defaults, **config})


def load_pipeline(entry, task=None):
    """Loads an entry and readies it for use.

    Args:
        entry: Entry that was read and checked already; or the str or Path of an entry's folder or name.
        task: str, what the model must be able to do, such as "translate"; or None where any will do.

    Returns:
        Pipeline.

    Raises:
        EntryError: see `archive.load_entry`.
        UserError: if the model does something else.
    """
    entry = check_task(entry, task) if isinstance(entry, Entry) else open_entry(entry, task)
    loaded = load_entry(entry)
    pipeline = entry.architecture.use.pipeline_class().from_loaded(loaded)
    pipeline.entry = entry
    return pipeline


def failing_examples(entry):
    """Runs the stored examples of an entry again, with its own settings.

    Args:
        entry: Entry, or the str or Path of its folder.

    Returns:
        Pair of the number of examples and a list of str, one line for each whose output has changed.

    Raises:
        EntryError: if the entry is damaged.
    """
    entry = entry if isinstance(entry, Entry) else open_entry(entry)
    pipeline = load_pipeline(entry)
    examples = entry.metrics["examples"]
    if not examples:
        return 0, []
    outputs = pipeline.answers(*_sides(examples))
    problems = [
        f"example {quoted(example['source'], 60)} gives {quoted(output, 60)}, stored is {quoted(example['output'], 60)}"
        for example, output in zip(examples, outputs, strict=True)
        if output != example["output"]
    ]
    return len(examples), problems


def _sides(examples):
    """The sources of stored examples, and their second texts or None."""
    sources = [example["source"] for example in examples]
    return sources, [example["source_b"] for example in examples] if examples and "source_b" in examples[0] else None
