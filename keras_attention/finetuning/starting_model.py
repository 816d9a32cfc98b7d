"""Before fine-tuning: the network and its tokenizer, trained or new, and checks that the result can be saved."""

import random
from dataclasses import replace
from typing import NamedTuple

import keras
import numpy as np

from keras_attention.data.tables.label_task import spelling_key
from keras_attention.data.word_embeddings import set_embeddings
from keras_attention.data.word_vectors import WordVectors, read_word_vectors
from keras_attention.finetuning.settings import DEFAULT_START, MOST_TOKENS, MULTILINGUAL, MULTILINGUAL_START
from keras_attention.models.shared import check_pattern
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.languages import SEVERAL, detected_language, language_code
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.training import devices
from keras_attention.training.devices import CPU, choose_acceleration, dtype_policy
from keras_attention.zoo.entry import Entry, as_json
from keras_attention.zoo.entry_io import config_of
from keras_attention.zoo.registry import open_entry
from keras_attention.zoo.schema import ARCHITECTURES, Architecture, architecture_of

THRESHOLD = 0.1234567890123456  # a placeholder with the maximum number of digits


def check_saveable(classifier, language="en"):
    """Raises UserError if the config.json of the classifier would be invalid: separator, language, size."""
    task = dict(classifier.task)
    if task["separator"] is not None:
        task["threshold"] = [THRESHOLD] * len(task["label_names"])
    about = classifier_keys(classifier, language) | {"task": task}
    as_json("config.json", config_of(classifier.model, dict.fromkeys(classifier.tokenizers, "tokenizer"), about))


def classifier_keys(classifier, language="en"):
    """The keys of config.json of a classifier other than its network's settings: dict of JSON types."""
    keys = architecture_of({"architecture": type(classifier.model).__name__}).task.keys
    about = {name: value for name, value in classifier.config_keys().items() if value is not None}
    return about | ({"language": language} if "language" in keys else {})


FROM_NOTHING = "none"
DEFAULT_NETWORK = "bert"


class Start(NamedTuple):
    """What a training starts from.

    Attributes:
        architecture: Architecture of the classifier, whose network is a `models.shared.FinetunableNetwork`.
        implied: dict, settings of a new network that follow from its name, such as the cell of a recurrent one.
        entry: Entry with trained weights, or None for random ones.
        inputs: dict, the keys of config.json for the kind of input of a new network that reads files, or None.
        is_default: bool. Whether nobody chose it, so that `suited_start` may choose another one.
        language: str, the code of the language that `suited_start` found, "mul" for several, or None.
    """

    architecture: Architecture
    implied: dict
    entry: Entry | None
    inputs: dict | None = None
    is_default: bool = False
    language: str | None = None

    @property
    def reads_files(self):
        """bool. Whether the inputs are files, such as pictures, and not texts."""
        return self.architecture.task.inputs[0].is_file


def suited_start(start, sources, kind=None, notify=None, language=None):
    """A Start that suits its training inputs.

    A new network takes inputs of their sizes. The default start becomes the multilingual one if they are texts of which
    a quarter is in its languages other than English. Others are as they were.

    Args:
        start: Start.
        sources: list of texts, names of files or other inputs to train on.
        kind: str, the `plural` of a kind of input, or None for the kind that the sources look like.
        notify: callable that gets a str, which says that another start was chosen; or None.
        language: str, the code or English name of the language of texts, or None to find it.
    """
    if start.is_default:
        if language is None:
            language = known_language(sources)
        else:
            language = SEVERAL if language == SEVERAL else language_code(language)
        if language not in MULTILINGUAL and language != SEVERAL:
            return start._replace(is_default=False)
        if notify is not None:
            which = MULTILINGUAL.get(language, "in several languages")
            notify(f"The texts are {which}: the start is {MULTILINGUAL_START}. Another one: --from MODEL")
        return open_start(MULTILINGUAL_START)._replace(language=language)
    new_input = start.architecture.task.new_input
    if start.entry is not None or start.inputs is not None or new_input is None:
        return start
    made, sizes = new_input(sources, kind)
    return start._replace(implied={**start.implied, **sizes}, inputs={made.name: made.config_keys()})


def known_language(texts):
    """The language of texts if it is in `MULTILINGUAL`, `SEVERAL` if a part is in another one of its start, or None.

    Some texts are read, the same ones each time; not each n-th, because languages may alternate.
    """
    chosen = random.Random(0).sample(range(len(texts)), min(len(texts), TEXTS_TO_READ))
    texts = [texts[number] for number in chosen]
    language = detected_language(texts)
    others = {"en", *MULTILINGUAL} - {language if language in MULTILINGUAL else "en"}
    count = sum(detected_language([text]) in others for text in texts)  # of single English words, a twentieth
    if count and count >= SOME * len(texts):
        return SEVERAL
    return language if language in MULTILINGUAL else None


def language_for_card(start, examples):
    """The code of the language of a classifier's texts: str.

    Args:
        start: Start, as `suited_start` returns it.
        examples: Examples that it was trained on.
    """
    if start.language is not None or start.reads_files:
        return start.language or "en"
    return known_language(examples.all_texts) or "en"


FILES = "patches"  # the network for folders of files
TEXTS_TO_READ = 200  # to find their language
# A logistic regression on the vectors of tweets, of which a quarter is German, has a macro-F1 of 59.0 with the default
# start, and of 61.5 with the multilingual one; with a tenth, 61.9 and 59.8 (UMSAB, mean of three seeds).
SOME = 0.25


def open_start(start=None, network=None):
    """Opens the entry from which a training starts, and verifies its files: the only time in a run.

    Args:
        start: str or Path, an entry by name or folder; "none" for random weights; None for "none" if a network is named
            and the default entry otherwise; or a Start.
        network: str, the name of an architecture, such as "lstm"; None: that of the entry, or BERT.

    Returns:
        Start.

    Raises:
        UserError: if there is no such entry or network, no classifier can start from the entry, or it is of another
            network.
        EntryError: if the entry is damaged.
    """
    if isinstance(start, Start):
        return start
    is_default = start is None and network is None
    if start is None:
        start = DEFAULT_START if network is None else FROM_NOTHING
    architecture, implied = _named_network(DEFAULT_NETWORK if network is None else network)
    if start == FROM_NOTHING:
        return Start(architecture, implied, None)
    entry = open_entry(start)
    classifier = ARCHITECTURES.get(entry.architecture.classifier)
    if classifier is None:
        known = "a network with or for a classifier, such as BERT, or none"
        raise UserError(f"{entry.folder} is a {entry.architecture.name}. Expected: {known}.")
    differs = classifier != architecture or any(
        entry.config["model"].get(name) != value for name, value in implied.items()
    )
    if network is not None and differs:
        raise UserError(
            f"{entry.folder} is a {entry.architecture.name}, which is no {network}. Leave out --network, to start from "
            "the model, or --from, to start from random weights."
        )
    return Start(classifier, {}, entry, is_default=is_default)


def _named_network(name):
    """The Architecture with a name for `--network`, and the settings that the name implies."""
    known = {name: each for each in ARCHITECTURES.values() for name in each.networks}
    if name not in known:
        raise UserError(f"There is no network {quoted(name)} that can be fine-tuned. Known: {', '.join(known)}")
    return known[name], known[name].networks[name]


def accelerated(start, settings):
    """Chooses number format and compiler for `starting_classifier`. Call it before TensorFlow runs its first function.

    Args:
        start: see `open_start`.
        settings: FinetuneSettings.

    Returns:
        FinetuneSettings with `mixed_precision` and `jit_compile` set.
    """
    start = open_start(start, settings.network)
    sizes = start.entry.config["model"] if start.entry else start.architecture.model_class().presets[settings.size]
    if settings.jit_compile is None and devices.find_device() == CPU and keras.backend.backend() == "tensorflow":
        settings = replace(settings, jit_compile=False)  # compiling takes longer than it saves
    return choose_acceleration(settings, large_products=sizes.get("hidden_dim", 0) >= 256)


def starting_classifier(start, num_labels, settings, texts):
    """Builds the classifier with a new head.

    Args:
        start: see `open_start`; from random weights, the vocabulary is made from the texts.
        num_labels: int > 0, the width of the logits.
        settings: FinetuneSettings.
        texts: list of str, the training texts.

    Returns:
        The built network, and its tokenizer, or None. With a linear start, the head of a trained BERT is the output
        layer only.

    Raises:
        UserError: see `open_start`; or if a setting does not fit the network, such as a larger number of layers or
            tokens than it has.
    """
    start = open_start(start, settings.network)
    if settings.pairs == "apart" and (start.entry is None or settings.linear_start is False):
        raise UserError("--pairs apart needs a trained start and its linear start. Found: one without")
    if start.entry is None:
        return _new_classifier(start, num_labels, settings, texts)
    head = "new" if settings.linear_start is False else "linear"
    model, pipeline = _trained_classifier(start, num_labels, settings, head)
    return model, pipeline.tokenizers.get("text")


def keeps_head(start, task, pairs, settings):
    """Whether training continues with the head of the start: it is a classifier with the labels of the task.

    Args:
        start: Start.
        task: Task.
        pairs: bool, whether the rows have two texts.
        settings: FinetuneSettings; its `linear_start`, if True or False, requires a new head.
    """
    if start.entry is None or settings.linear_start is not None or settings.contrastive:
        return False
    if pairs and settings.pairs != "auto":
        return False
    known = start.entry.config.get("task")
    if known is None or task.kind not in ("binary", "multiclass", "multilabel"):
        return False
    if (known["kind"], known["pair"]) != (task.kind, pairs):
        return False
    return order_of(task.label_names, known["label_names"]) is not None


def order_of(labels, known):
    """The place of each label in another list of the same labels: list of int; None if the lists differ.

    Spellings that look the same are one label, see `label_task.spelling_key`.
    """
    for key in (str, spelling_key):
        places = {key(label): place for place, label in enumerate(known)}
        if len(labels) == len(places) == len(known) and {key(label) for label in labels} == places.keys():
            return [places[key(label)] for label in labels]
    return None


def continued_classifier(start, task, settings):
    """Builds a classifier with the weights and the head of the start, see `keeps_head`.

    Returns:
        The network, whose logits are in the order of the labels of `task`, and its tokenizer.
    """
    model, pipeline = _trained_classifier(start, len(task.label_names), settings, "kept")
    order = order_of(task.label_names, pipeline.task["label_names"])
    output = model.head[-1]
    output.set_weights([weight[..., order] for weight in output.get_weights()])
    return model, pipeline.tokenizers.get("text")


def _new_classifier(start, num_labels, settings, texts):
    """A network with random weights, and a tokenizer trained on the texts; None for inputs that need none."""
    architecture, network, tokenizer = start.architecture, start.architecture.model_class(), None
    sizes = {**network.presets[settings.size], **start.implied, **_changes(start, settings)}
    vectors = _read_vectors(architecture, settings)
    if vectors is not None:
        sizes["embedding_dim"] = vectors.vectors.shape[1]
    if architecture.task.tokenizers:
        tokenizer = WordPieceTokenizer.train(texts, settings.vocabulary_size)
        sizes["vocabulary_size"] = tokenizer.vocabulary_size
    if "max_length" in architecture.settings:
        sizes["max_length"] = settings.max_tokens or MOST_TOKENS
    model = network(**sizes, num_labels=num_labels, dtype=dtype_policy(settings))
    model.build()
    model.has_random_weights = True  # see `label_training.learns_from_trained`
    if vectors is not None:
        token_ids = np.concatenate(tokenizer.encode(texts))
        # For a report before the training:
        model.known_words = set_embeddings(model.token_embedding, tokenizer, vectors, token_ids)
    return model, tokenizer


NEEDED_FOR_VECTORS = "--vectors needs --network han, lstm, gru or lstmn"


def _read_vectors(architecture, settings, entry=None) -> WordVectors | None:
    """The word vectors that the settings name, or None.

    Args:
        architecture: Architecture of the classifier.
        settings: FinetuneSettings.
        entry: Entry of the start with trained weights, or None.

    Raises:
        UserError: if the start has trained embeddings, the network does not choose the width of its embeddings, or the
            file cannot be read.
    """
    if settings.vectors is None:
        return None
    if entry is not None:
        raise UserError(f"{NEEDED_FOR_VECTORS} with random weights. Found: {entry.name}, which is trained.")
    if "embedding_dim" not in architecture.settings:
        raise UserError(f"{NEEDED_FOR_VECTORS}. Found: a {architecture.name}")
    return read_word_vectors(settings.vectors)


def _trained_classifier(start, num_labels, settings, head):
    """A classifier with the weights of the start's network, and the pipeline of the start; `head` as in
    `FinetunableNetwork.from_trained`.
    """
    folder, known = start.entry.folder, start.entry.config["model"]
    _read_vectors(start.architecture, settings, start.entry)
    changes = _changes(start, settings)
    longest = known.get("max_length")
    if longest and settings.max_tokens and settings.max_tokens > longest:
        if not settings.attention_pattern:
            raise UserError(
                f"{folder} reads at most {longest} tokens. Received: max_tokens={settings.max_tokens}. With "
                "--attention-pattern bigbird, it reads longer texts."
            )
        changes["max_length"] = settings.max_tokens
    if settings.layers and settings.layers > known.get("num_layers", settings.layers):
        raise UserError(f"{folder} has {known['num_layers']} layers. Received: --layers {settings.layers}")
    pipeline = load_pipeline(start.entry)
    if hasattr(pipeline, "pooling") and "pooling" in start.architecture.settings:
        changes |= {"pooling": pipeline.pooling, "pairs": settings.pairs if head == "linear" else "joint"}
    network = start.architecture.model_class()
    try:
        model = network.from_trained(pipeline.model, num_labels, head=head, dtype=dtype_policy(settings), **changes)
    except ValueError as error:
        raise UserError(f"{folder}: {error}") from error
    return model, pipeline


def _changes(start, settings):
    """The settings of the network that the user chose: dict.

    Raises:
        UserError: if the network does not have one of them, or there is no such attention pattern.
    """
    try:
        check_pattern({"attention_pattern": settings.attention_pattern})
    except ValueError as error:
        raise UserError(str(error)) from error
    chosen = {"num_layers": settings.layers, "attention_pattern": settings.attention_pattern}
    flags = {"num_layers": "--layers", "attention_pattern": "--attention-pattern"}
    for name, value in chosen.items():
        if value is not None and name not in start.architecture.settings:
            raise UserError(f"{flags[name]} has no effect on a {start.architecture.name}. Leave it out.")
    if "dropout" in start.architecture.settings:
        chosen["dropout"] = settings.dropout
    return {name: value for name, value in chosen.items() if value is not None}
