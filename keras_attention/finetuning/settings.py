"""The settings of fine-tuning, with defaults that work well on most tables."""

import math
from dataclasses import dataclass, fields

from keras_attention.support.errors import UserError
from keras_attention.support.flags import setting
from keras_attention.training.run import AccelerationSettings

AUTO = "auto"  # a value of `min_probability`
DEFAULT_START = "minilm_small_en"
# The default for texts in these languages, and the languages.
MULTILINGUAL_START, MULTILINGUAL = "minilm_small_multi", {"de": "German", "fr": "French", "es": "Spanish"}


@dataclass(frozen=True)
class FinetuneSettings(AccelerationSettings):
    """Settings of fine-tuning; `keras-attention finetune --help` explains each of them."""

    quick: bool = setting(
        False, "train in seconds, for fast answers: logistic regression on static vectors of the start, and words"
    )
    epochs: int | None = setting(
        None, "passes over the rows; default: 3 to 20, depending on the numbers of rows and classes"
    )
    rows_per_batch: int | None = setting(None, "rows per update; default: 8 to 64, fewer for small tables")
    learning_rate: float | None = setting(
        None, "peak learning rate of AdamW; default: depends on the width of the model"
    )
    layers: int | None = setting(None, "number of lowest layers of the start that are kept; default: all")
    teacher: str | None = setting(None, "classifier whose answers are learned beside the labels, by name or folder")
    temperature: float = setting(2.0, "with --teacher: number by which the logits of both are divided")
    alpha: float = setting(0.5, "with --teacher: share of its answers in the loss; the rest is for the labels")
    linear_start: bool | None = setting(
        None,
        "initialize the head by logistic regression on the encoder's vectors; default: unless the start is a "
        "classifier with the same labels, whose head is kept",
    )
    layer_decay: float = setting(0.9, "factor of the learning rate from each layer to the layer below")
    pairs: str = setting(
        "auto",
        "text pairs: joint reads both texts as one sequence; apart compares their vectors; auto: apart if the start is "
        "a sentence encoder",
        ("auto", "joint", "apart"),
    )
    minutes: float | None = setting(
        None,
        "maximum time of the training; longer ones get fewer epochs and pairs, at least one epoch; default: 10 on two "
        "cores, without a limit on an accelerator",
    )
    contrastive: bool | None = setting(
        None,
        "first train the encoder such that texts with the same label get similar vectors; with few rows of each label, "
        "only this; default: unless --epochs, --learning-rate or --lora is given",
    )
    contrastive_pairs: int | None = setting(
        None, "pairs of texts with the same label that contrastive training reads; default: 4,000 to 10,000"
    )
    freeze: int = setting(0, "number of lowest layers to freeze, together with the embeddings")
    lora: int | None = setting(
        None, "train matrices of this rank beside the attention's queries and values, and the head, nothing else"
    )
    freeze_embeddings: bool | None = setting(None, "do not train the token embeddings; default: with up to 20,000 rows")
    warmup_share: float = setting(0.1, "share of the updates until the peak; then linear decay")
    weight_decay: float = setting(0.01, "weight decay of AdamW, except for biases and norms")
    ema_decay: float | None = setting(
        None, "decay of the moving average of the weights, which becomes the model; 0: none; default: about one epoch"
    )
    dropout: float = setting(0.1, "share of units dropped")
    augment: str = setting(
        "auto",
        "pictures and sounds: auto moves, scales and partly erases them at random; flip mirrors pictures, too",
        ("auto", "flip", "none"),
    )
    label_smoothing: float = setting(0.0, "share of the target probability spread over the classes")
    class_weights: bool = setting(False, "give rare labels as much weight as frequent ones")
    max_tokens: int | None = setting(None, "maximum number of tokens per text; default: 256, or the limit of the start")
    attention_pattern: str | None = setting(
        None, "sparse attention: bigbird, window, strided or fixed; --max-tokens may then exceed the limit of the start"
    )
    long_texts: str = setting(
        "ends",
        "part of long texts to use: start; ends; whole (trains on both ends, classifies the whole text)",
        ("start", "ends", "whole"),
    )
    blend: str = setting(
        "auto",
        "auto: combine the network with a bag of words if that is as good; none: network only",
        ("auto", "none"),
    )
    min_probability: float | None = setting(
        None,
        "minimum probability of a label; below it, the answer is unsure; auto: the one that 95 of 100 right "
        "answers on the validation rows reach",
        words=(AUTO,),
    )
    patience: int | None = setting(
        None, "validations without a better score before training stops; default: a third of the epochs, at least 2"
    )
    seed: int = setting(1, "random seed of split, weights, dropout and order of the rows")
    accumulate: int | None = setting(
        None, "number of parts in which each batch is computed, to save memory; default: 1, more for very long texts"
    )
    network: str | None = setting(
        None, "kind of a network with random weights: bert, lstm, gru, lstmn, han or patches; default: the start's"
    )
    vectors: str | None = setting(
        None, "with --network lstm, gru, lstmn or han: first embeddings from a file of GloVe or word2vec"
    )
    size: str = setting("mini", "size of a model with random weights", ("tiny", "mini", "small", "medium"))
    vocabulary_size: int = setting(8000, "vocabulary size of a model with random weights")


SHARES = ("warmup_share", "dropout", "label_smoothing", "min_probability", "ema_decay")
POSITIVE = ("epochs", "rows_per_batch", "learning_rate", "patience", "max_tokens", "layer_decay", "accumulate")
POSITIVE += ("layers", "lora", "temperature", "vocabulary_size", "minutes", "contrastive_pairs")


def check_settings(settings):
    """Raises UserError if a value of FinetuneSettings is out of range."""
    for name in SHARES:
        value = getattr(settings, name)
        if not (name == "min_probability" and value == AUTO):
            check_share(name, value or 0.0)
    if not 0 <= settings.alpha <= 1:
        raise UserError(f"--alpha must be from 0 to 1. Found: {settings.alpha}")
    for name in POSITIVE:
        value = getattr(settings, name)
        if value is not None and not 0 < value < float("inf"):
            raise UserError(f"{_flag(name)} must be greater than 0. Found: {value}")
    for name, end in (("freeze", float("inf")), ("weight_decay", float("inf")), ("seed", 2**32)):
        value = getattr(settings, name)
        if not 0 <= value < end:
            limit = "" if end == float("inf") else f" and less than {end:,}"
            raise UserError(f"{_flag(name)} must be at least 0{limit}. Found: {value}")
    for field in fields(settings):
        value, choices = getattr(settings, field.name), field.metadata["choices"]
        if choices and value not in choices:
            raise UserError(f"{_flag(field.name)} must be one of {', '.join(choices)}. Found: {value}")
    check_quick(settings)


# Settings of the training of a network, which `quick` leaves out.
OF_TRAINING = ("epochs", "learning_rate", "layers", "teacher", "contrastive", "lora", "ema_decay", "patience")
OF_TRAINING += ("rows_per_batch", "accumulate", "network", "attention_pattern", "minutes", "contrastive_pairs")


def check_quick(settings):
    """Raises UserError if there are settings of the training of a network beside `quick`."""
    if not settings.quick:
        return
    given = [name for name in OF_TRAINING if getattr(settings, name) is not None]
    given += ["freeze"] * (settings.freeze > 0) + ["linear_start"] * (settings.linear_start is False)
    if given:
        raise UserError(f"--quick trains no network, so {_flag(given[0])} has no effect. Leave out one of them.")


def check_share(name, value):
    """Raises UserError unless the value of a setting is at least 0 and less than 1."""
    if not 0 <= value < 1:
        raise UserError(f"{_flag(name)} must be at least 0 and less than 1. Found: {value}")


def _flag(name):
    return f"--{name.replace('_', '-')}"


# With a moving average of the weights, larger steps and fewer epochs give better models: docs/fine_tune.md.
EPOCHS = ((100, 20), (300, 15), (1_000, 10), (5_000, 6), (50_000, 4), (float("inf"), 3))
AVERAGED_EPOCHS = ((100, 20), (300, 12), (1_000, 8), (5_000, 4), (50_000, 3), (float("inf"), 2))
# Many classes with few rows each need more epochs, unless the table is large. Accuracy with 13,500 rows of 150 classes:
# 66.2 % after 3 epochs (10.4 CPU minutes), 66.5 % after 5 (14.2), on 4,500 test rows. With 4,886 rows of 77 classes and
# contrastive training: 76.1 % after 3 (3.8), 76.2 % after 5 or 6 (5.1), on 1,500 test rows, the mean of two seeds.
MORE_EPOCHS, ROWS_PER_CLASS, ROWS_FOR_MORE_EPOCHS = 2, 200, (1_000, 4_000)
AVERAGED_UPDATES = (10, 1_000)  # minimum and maximum number of updates over which the weights are averaged
MOST_TOKENS = 256
ROWS_PER_BATCH = ((300, 8), (1_000, 16), (10_000, 32), (float("inf"), 64))
TOKENS_AT_ONCE = 16_384
SHALLOW = 4  # maximum number of layers of a shallow model
MANY_ROWS = 20_000  # with more rows, tokens occur often enough to train their embeddings


def epochs_for(rows, classes=2, averaged=True):
    """Default number of epochs: small tables need more of them."""
    epochs = next(epochs for most, epochs in (AVERAGED_EPOCHS if averaged else EPOCHS) if rows <= most)
    least, most = ROWS_FOR_MORE_EPOCHS
    return epochs + MORE_EPOCHS * (classes > 2 and least < rows <= most and rows < ROWS_PER_CLASS * classes)


def ema_decay_for(rows, rows_per_batch):
    """Default decay of the moving average of the weights: it averages over the updates of about one epoch."""
    least, most = AVERAGED_UPDATES
    return 1 - 1 / min(max(rows // rows_per_batch, least), most)


def rows_per_batch_for(rows):
    """Default batch size: smaller for small tables, so that they get some hundred updates."""
    return next(size for most, size in ROWS_PER_BATCH if rows <= most)


def parts_for(rows_per_batch, longest):
    """Default number of parts of a batch, such that a part has at most 16,384 tokens if the longest text has `longest`.

    With 2,048 tokens a text, a whole batch of 32 would need more than 20 GB. If rows are no texts, `longest` is None,
    and a part has at most as many rows as the largest default batch.
    """
    rows_at_once = TOKENS_AT_ONCE / longest if longest else ROWS_PER_BATCH[-1][1]
    return max(1, min(rows_per_batch, math.ceil(rows_per_batch / rows_at_once)))


def patience_for(epochs):
    """Default number of validations without a better score before training stops."""
    return max(2, epochs // 3)


def contrastive_rate_for(width):
    """Default peak learning rate of contrastive training."""
    return 2e-4 if width <= 512 else 4e-5


def learning_rate_for(width, num_layers=4, averaged=True, lora=False):
    """Default peak learning rate: wide and deep models need smaller steps; with LoRA, larger ones."""
    if lora:
        return 2e-3 if width <= 512 else 5e-4  # Hu et al. (2021), table 9: 4e-4 and 5e-4 for RoBERTa
    if width <= 256:
        return 3e-4
    if width <= 512 and num_layers <= SHALLOW:
        return 8e-4 if averaged else 2e-4
    return 1e-4 if width <= 512 else 5e-5
