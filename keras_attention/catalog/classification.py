"""Labels of texts, of pictures, of sounds and of series: networks with a classifier."""

from dataclasses import replace
from itertools import pairwise
from math import ceil, prod

from keras_attention.catalog.common import (
    TEXT_TOKENIZER,
    VOCABULARY,
    WITHOUT_PATTERN,
    language_of,
    layer_parts,
    recurrent_layer_parameters,
)
from keras_attention.catalog.encoding import BERT_TOKENIZERS, ENCODER, TEXT_KEYS, bert_parameters, check_length
from keras_attention.inputs.document import DocumentInput
from keras_attention.inputs.image import FITS, ImageInput
from keras_attention.inputs.pair import PairInput
from keras_attention.inputs.series import SeriesInput
from keras_attention.inputs.sound import MAX_WINDOW, SoundInput
from keras_attention.inputs.text import TextInput
from keras_attention.support.errors import EntryError
from keras_attention.zoo.schema import (
    MAX_FEATURES,
    MAX_TERMS,
    OBJECT,
    TRUTH,
    Activity,
    Architecture,
    Task,
    check_fields,
    choice,
    different_texts,
    list_of,
    number,
    number_or_list,
    optional,
    register,
    text,
    whole,
)

MAX_LABELS, MAX_LABEL_CHARACTERS = 1000, 200
# The task of a classifier, see `label_task.Task`. `threshold`: minimum probability of a label in a multilabel
# task, one for all labels or one for each. `pair`: whether the inputs are text pairs. `long_texts`: the part of a text
# with too many tokens that is used. `min_probability`: in a task with one label per text, the classifier is unsure if
# no label reaches it.
TASK = {
    "kind": choice("binary", "multiclass", "multilabel", "regression"),
    "label_names": different_texts(MAX_LABELS, MAX_LABEL_CHARACTERS),
    "threshold": number_or_list(0, 1),
    "separator": optional(text(r"[^\w\s]{1,3}| ", "up to three signs, or a blank")),
    "pair": TRUTH,
    "long_texts": choice("start", "ends", "whole"),
    "min_probability": optional(number(0, 1)),
}
TASK_DEFAULTS = {"long_texts": "start", "min_probability": None}
# The bag of words that is blended with a classifier: number of terms, weight of its predictions, and what it counts.
WORDS = {"num_terms": whole(1, MAX_TERMS), "weight": number(0, 1), "units": choice("words", "letters")}
WORDS_DEFAULTS = {"units": "words"}


def _check_classifier(config, where):
    check_length(config, where)
    task = config["task"]
    if config["words"] is not None:
        required = tuple(name for name in WORDS if name not in WORDS_DEFAULTS)
        check_fields(config["words"], WORDS, required, f"{where}, words")
        config = config | {"words": WORDS_DEFAULTS | config["words"]}
    return config | {"task": check_task(task, config["model"]["num_labels"], where)}


def check_task(task, num_labels, where):
    """Checks the `task` of a config.json against the number of a network's logits.

    Returns:
        The task, with its defaults filled in.

    Raises:
        EntryError: names the first key or value that is not allowed.
    """
    check_fields(task, TASK, tuple(name for name in TASK if name not in TASK_DEFAULTS), f"{where}, task")
    numbers = {"regression": (0, 1), "binary": (2, 2)}.get(task["kind"], (len(task["label_names"]),) * 2)
    received = len(task["label_names"]), num_labels
    if received != numbers:
        raise EntryError(
            f"{where}: a {task['kind']} task has {numbers[0]} label_names and num_labels={numbers[1]}. "
            f"Received: {received[0]} and num_labels={received[1]}"
        )
    if isinstance(task["threshold"], list) and len(task["threshold"]) != len(task["label_names"]):
        raise EntryError(
            f"{where}, task: threshold must be one number or one for each of the {len(task['label_names'])} labels. "
            f"Received: {len(task['threshold'])}"
        )
    if (task["kind"] == "multilabel") != (task["separator"] is not None):
        raise EntryError(f"{where}, task: a multilabel task needs a separator, other tasks cannot have one.")
    return TASK_DEFAULTS | task


def _recurrent_parameters(model):
    width = model["hidden_dim"]
    head = (width + 1) * (width + model["num_labels"])
    read = model["embedding_dim"] or width
    first = recurrent_layer_parameters(model) * max(1, read / width)  # a wider input has more weights
    layers = ceil(first) + (model["num_layers"] - 1) * recurrent_layer_parameters(model)
    return model["vocabulary_size"] * read + layers + head


def _static_parameters(model):
    width = model["hidden_dim"]
    pooled = width * {"mean": 1, "pair": 4}[model["pooling"]]
    return model["vocabulary_size"] * width + (pooled + 1) * model["num_labels"]


def _kind(task):
    return task["kind"] if task["kind"] == "regression" else f"{task['kind']} classification"


def _kind_and_labels(task):
    names = task["label_names"]
    labels = f" with the labels {', '.join(names[:10])}{', ...' * (len(names) > 10)}" if names else ""
    return f"{_kind(task)}{labels}"


def _activity(kind):
    return Activity(kind.question, kind.instruction, f"{kind.noun.capitalize()} to classify")


def _activity_of_texts(config):
    """Labels that are feelings, or numbers in place of labels, have a question of their own."""
    task, activity = config["task"], _activity(PairInput() if config["task"]["pair"] else TextInput())
    if task["pair"]:
        return activity
    if task["kind"] == "regression":
        return activity._replace(title="Which number fits a text?")
    names = [name.lower() for name in task["label_names"]]
    return activity._replace(title="Which feeling?") if any(name in FEELINGS for name in names) else activity


# One of these labels tells that a classifier is asked for feelings.
FEELINGS = {"positive", "negative", "pos", "neg", "joy", "happy", "sadness", "sad", "anger", "angry", "fear", "love"}
CLASSIFICATION = Task(
    tasks=("classify", "encode"),
    pipeline="keras_attention.pipelines.classifier:Classifier",
    method="classify",
    inputs=(TextInput, PairInput),
    input_of=lambda config: PairInput() if config["task"]["pair"] else TextInput(),
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=BERT_TOKENIZERS,
    keys={**TEXT_KEYS, "task": OBJECT, "words": optional(OBJECT)},
    defaults={"words": None},
    title=lambda config: f"{config['language']}, {_kind(config['task'])}",
    reads=lambda config: f"{language_of(config)}; {_kind_and_labels(config['task'])}",
    check=_check_classifier,
    activity=_activity_of_texts,
)
register(
    Architecture(
        name="BertClassifier",
        model="keras_attention.models.bert_heads:BertClassifier",
        settings={
            **ENCODER,
            "num_labels": whole(1, 1000),
            "pooling": choice("cls", "mean", "both", "pair"),
            "pooler": TRUTH,
            "pooler_activation": choice("tanh", "relu"),
        },
        parameters=bert_parameters,
        task=CLASSIFICATION,
        defaults={"pooling": "cls", **WITHOUT_PATTERN},
        classifier="BertClassifier",
        networks={"bert": {}},
    )
)
register(
    Architecture(
        name="RecurrentClassifier",
        model="keras_attention.models.recurrent_networks:RecurrentClassifier",
        settings={
            "vocabulary_size": VOCABULARY,
            "hidden_dim": whole(1, 8192),
            "num_labels": whole(1, 1000),
            "num_layers": whole(1, 16),
            "cell": choice("lstm", "gru", "lstmn"),
            "dropout": number(0, 0.99),
            "embedding_dim": optional(whole(1, 8192)),
        },
        parameters=_recurrent_parameters,
        defaults={"embedding_dim": None},
        task=replace(CLASSIFICATION, tasks=("classify",)),
        detail=lambda settings: f" of {settings['cell'].upper()} cells",
        classifier="RecurrentClassifier",
        networks={"lstm": {"cell": "lstm"}, "gru": {"cell": "gru"}, "lstmn": {"cell": "lstmn"}},
    )
)
register(
    Architecture(
        name="StaticVectorClassifier",
        model="keras_attention.models.static_vectors:StaticVectorClassifier",
        settings={
            "vocabulary_size": VOCABULARY,
            "hidden_dim": whole(1, 8192),
            "num_labels": whole(1, 1000),
            "pooling": choice("mean", "pair"),
            "dropout": number(0, 0.99),
        },
        parameters=_static_parameters,
        task=replace(CLASSIFICATION, tasks=("classify",)),
        classifier="StaticVectorClassifier",
    )
)


def _hierarchical_parameters(model):
    width, states = model["embedding_dim"], model["hidden_dim"]
    words, sentences = (6 * states * (size + states + 2) for size in (width, 2 * states))
    attention = 2 * states * (2 * states + 2)
    return model["vocabulary_size"] * width + words + sentences + 2 * attention + (2 * states + 1) * model["num_labels"]


def _check_documents(config, where):
    config = _check_classifier(config, where)
    if config["task"]["pair"]:
        raise EntryError(f"{where}, task: a document is one text. Expected: pair=false")
    return config


register(
    Architecture(
        name="HierarchicalAttentionClassifier",
        model="keras_attention.models.hierarchical_attention:HierarchicalAttentionClassifier",
        settings={
            "vocabulary_size": VOCABULARY,
            "embedding_dim": whole(1, 8192),
            "hidden_dim": whole(1, 8192),
            "num_labels": whole(1, 1000),
            "sentence_length": whole(2, 1024),
            "pooling": choice("attention", "mean", "max"),
            "dropout": number(0, 0.99),
        },
        parameters=_hierarchical_parameters,
        task=replace(
            CLASSIFICATION,
            tasks=("classify",),
            pipeline="keras_attention.pipelines.document_classifier:DocumentClassifier",
            inputs=(DocumentInput,),
            input_of=None,
            check=_check_documents,
        ),
        detail=lambda settings: f" with {settings['pooling']} over words and sentences",
        classifier="HierarchicalAttentionClassifier",
        networks={"han": {}, "han-mean": {"pooling": "mean"}, "han-max": {"pooling": "max"}},
    )
)


# How files become the arrays of a network: the kinds of input, and their keys of config.json.
FILE_KINDS = {
    "image": (
        ImageInput,
        {"fit": choice(*FITS), "mean": list_of(1, 3, number(0, 1)), "std": list_of(1, 3, number(1e-6, 1e6))},
    ),
    "sound": (
        SoundInput,
        {"rate": whole(1_000, 768_000), "window": whole(2, MAX_WINDOW), "hop": whole(1, 1 << 14)},
    ),
    "series": (SeriesInput, {"length": whole(2, 1_000_000)}),
}
# The linear model on features of the input that is blended with a classifier: their number, and its weight.
FEATURES = {"count": whole(1, MAX_FEATURES), "weight": number(0, 1)}


def image_classification(size):
    """`file_classification` of pictures."""
    return file_classification(size)


def file_classification(size, kinds=("image",), sizes_of=None):
    """The Task of a network that gives logits (B, `num_labels`) for {"values": arrays of a kind of input}.

    Args:
        size: callable(settings of the network) -> the shape of the values, such as (height, width, channels).
        kinds: tuple of str, keys of `FILE_KINDS`. The config.json of an entry has one of them.
        sizes_of: callable(shape of the values) -> settings of a new network, or None if it takes one shape only.
    """

    def kind_of(config):
        return next((name for name in kinds if config.get(name) is not None), kinds[0])

    def input_of(config):
        name = kind_of(config)
        return FILE_KINDS[name][0](size(config["model"]), **config.get(name) or {})

    def new_input(sources, kind=None):
        known = [FILE_KINDS[name][0] for name in kinds]
        some = sources[:MOST_SOURCES]
        chosen = next((each for each in known if each.plural == kind), None) or next(
            (each for each in known if any(map(each.fits, some))), known[0]
        )
        made = chosen.for_sources(sources)
        return made, sizes_of(made.size)

    def check(config, where):
        given = [name for name in kinds if config.get(name) is not None]
        if len(given) != 1:
            raise EntryError(f"{where} must have one of the keys {', '.join(kinds)}. Received: {len(given)}")
        name = given[0]
        fields = FILE_KINDS[name][1]
        check_fields(config[name], fields, tuple(fields), f"{where}, {name}")
        if config["features"] is not None:
            check_fields(config["features"], FEATURES, tuple(FEATURES), f"{where}, features")
        task = check_task(config["task"], config["model"]["num_labels"], where)
        if task["pair"]:
            raise EntryError(f"{where}, task: pair is for texts. Expected: false")
        try:
            input_of(config)
        except ValueError as error:
            raise EntryError(f"{where}: {error}") from error
        return config | {"task": task}

    def plural(config):
        name = kind_of(config)
        return "pictures" if name == "image" else FILE_KINDS[name][0].plural

    return Task(
        tasks=("classify",),
        pipeline="keras_attention.pipelines.input_classifier:InputClassifier",
        method="classify",
        inputs=tuple(FILE_KINDS[name][0] for name in kinds),
        input_of=input_of,
        new_input=None if sizes_of is None else new_input,
        keys={
            "task": OBJECT,
            "features": optional(OBJECT),
            **{name: OBJECT if len(kinds) == 1 else optional(OBJECT) for name in kinds},
        },
        defaults={"features": None, **(dict.fromkeys(kinds) if len(kinds) > 1 else {})},
        title=lambda config: f"{plural(config)}, {_kind(config['task'])}",
        reads=lambda config: f"{plural(config).capitalize()}; {_kind_and_labels(config['task'])}",
        check=check,
        activity=lambda config: _activity(input_of(config)),
    )


MOST_SOURCES = 100  # that are looked at for their kind


def _usual_patches(size):
    return {"input_size": list(size), "patch_size": []}


def patch_parameters(model):
    width, (*sizes, channels) = model["hidden_dim"], model["input_size"]
    attention, feed_forward, norm = layer_parts(model)
    patch = prod(model["patch_size"])
    positions = prod(size // step + 1 for size, step in zip(sizes, model["patch_size"], strict=False))
    stem = (patch * channels + 1) * width
    if model["stem"] != "linear":
        halvings = model["patch_size"][0].bit_length() - 1
        widths = [channels, *(max(8, width // 2**i) for i in reversed(range(halvings)))]
        stem = sum((9 * read + 1) * written for read, written in pairwise(widths)) + (widths[-1] + 1) * width
    layers = model["num_layers"] * (attention + feed_forward + 2 * norm)
    return stem + (positions + 1) * width + layers + norm + (width + 1) * model["num_labels"]


register(
    Architecture(
        name="PatchClassifier",
        model="keras_attention.models.patch_classifier:PatchClassifier",
        settings={
            "num_labels": whole(1, MAX_LABELS),
            "input_size": list_of(2, 3, whole(1, 4096)),
            "patch_size": list_of(1, 2, whole(1, 4096)),
            "hidden_dim": whole(1, 8192),
            "intermediate_dim": whole(1, 32768),
            "num_heads": whole(1, 128),
            "num_layers": whole(1, 64),
            "stem": choice("linear", "convolutional", "pooled"),
            "pooling": choice("cls", "mean"),
            "dropout": number(0, 0.99),
        },
        parameters=patch_parameters,
        task=file_classification(lambda model: model["input_size"], ("image", "sound", "series"), _usual_patches),
        classifier="PatchClassifier",
        networks={"patches": {}},
    )
)
