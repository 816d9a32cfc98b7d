"""Describe pictures with soft or hard attention: Show, Attend and Tell (Xu et al. 2015).

    python recipes/captions.py                                 # digits of scikit-learn on canvases, no download
    python recipes/captions.py --attention hard                # after soft attention: --from SOFT --entropy 0.001
    python recipes/captions.py --data mnist                    # downloads 11 MB once; or --data-dir DIR
    python recipes/captions.py --data photos/captions.csv      # names of pictures (image) and captions (caption)
    python recipes/captions.py --smoke                         # a few steps, end to end

A table of captions gives pictures; a picture in several rows has several captions. Without one, each canvas has two
handwritten digits and a sentence, "three above seven" or "three left of seven". Where the digits
are is known, so pointing is measured: whether the word "seven" attends to the seven. Digits of the training are on no
canvas of the test.
"""

import functools
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from keras_attention.cli.io.terminal import print_file_model, silent_libraries

with silent_libraries():
    import keras
    from keras import ops

from keras_attention.cli.main import run_recipe
from keras_attention.data.batches import check_tokens_at_once
from keras_attention.data.drawn_batches import DrawnBatches
from keras_attention.data.images.caption_data import DIGIT_SETS, load_caption_data
from keras_attention.inputs.image import ImageInput
from keras_attention.layers.hard_attention import rewards_to_go
from keras_attention.models.attention_captioner import CHOICES, SETTINGS, AttentionCaptioner
from keras_attention.support.flags import parse_config, setting
from keras_attention.tokenizers import SentencePieceTokenizer
from keras_attention.training.losses import token_cross_entropy
from keras_attention.training.optim import make_schedule
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.warm_start import load_start, start_settings, take_weights


@dataclass(frozen=True)
class Config(RunSettings):
    data: str = setting(
        "digits", f"digits for canvases: {', '.join(DIGIT_SETS)}; or a table with pictures and captions"
    )
    image: str = setting("image", "column of the table with the names of the pictures, from its folder")
    caption: str = setting("caption", "column of the table with their captions")
    data_dir: str = setting("", "folder of the idx files of mnist; empty: download them once")
    validation_split: float = setting(0.1, "share of the training digits or pictures for validation")
    start_from: str = setting("", "start from this trained model, with its settings", name="from")
    train_size: int = setting(10_240, "canvases of an epoch; each epoch draws new ones")
    vocabulary_size: int = setting(200, "size of the vocabulary, at most")
    attention: str = setting("soft", "average the annotations, or choose one", CHOICES["attention"])
    annotation_dim: int = setting(96, "width of the annotations")
    embedding_dim: int = setting(32, "width of the embeddings of words")
    num_convolutions: int = setting(2, "convolutions after those that halve the picture; more see a larger part of it")
    hidden_dim: int = setting(128, "width of the LSTM and of the attention's score function")
    dropout: float = setting(0.0, "share of units dropped")
    coverage: float = setting(0.001, "soft attention: weight of the doubly stochastic regulariser")
    entropy: float = setting(0.01, "hard attention: weight of the entropy, which keeps the sampling open")
    epochs: int = setting(40, "passes over new canvases")
    rows_per_batch: int = setting(64, "canvases of a batch")
    learning_rate: float = setting(3e-3, "peak learning rate of Adam")
    warmup_steps: int = setting(100, "updates until the peak")
    ema_decay: float | None = setting(0.995, "exponential average of the weights; none: the last weights")
    jit_compile: bool | None = setting(False, "compile whole steps with XLA")
    beam_size: int = setting(3, "beams of the search")


PICTURES = {"vocabulary_size": 2000, "dropout": 0.3}
SMOKE = {"train_size": 64, "epochs": 1, "rows_per_batch": 8, "annotation_dim": 8, "embedding_dim": 8, "hidden_dim": 8,
         "beam_size": 1}  # fmt: skip


def presets(config):
    """The defaults that depend on other flags."""
    chosen = ({} if config.data in DIGIT_SETS else PICTURES) | (SMOKE if config.smoke else {})
    return chosen | start_settings(config.start_from, config)


def loss(model, inputs, labels, coverage, entropy):
    """-log p of each word, and what teaches the attention more: equation 14 (soft) or equation 11 (hard) of the paper.

    Soft: over the words of a caption, each cell i should get about the same total weight (doubly stochastic).
        penalty = coverage * sum over i of (1 - sum over t of a_ti)^2
    Hard: the choice of a cell at word t is rewarded by the log probability of this word and of those after it.
        penalty = sum over t of -(R_t - b_t) log a_t[s_t] - entropy * H[a_t]
    """
    logits, weights, choices = model(inputs, training=True, return_choices=True)  # (B, T, V), (B, T, S), (B, T, S)
    is_word = ops.not_equal(labels, 0)  # (B, T)
    if model.attention == "hard":
        log_probs = ops.take_along_axis(ops.log_softmax(logits, axis=-1), labels[:, :, None], axis=-1)[:, :, 0]
        rewards = rewards_to_go(ops.where(is_word, log_probs, 0.0))  # (B, T)
        penalty = ops.sum(
            model.attention_layer.score_function_loss(rewards, weights, choices, is_word, entropy_weight=entropy)
        )
    else:
        totals = ops.sum(ops.where(is_word[:, :, None], weights, 0.0), axis=1)  # (B, S)
        penalty = coverage * ops.sum(ops.square(1.0 - totals))
    return token_cross_entropy(labels, logits)._replace(penalty=penalty)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    out = config.folder(f"captions_{Path(config.data).stem}_{config.attention}")
    session = Session.start(config, out, unit="words", check_out=check_free)
    config, start = session.config, load_start(config.start_from)

    columns = config.image, config.caption
    data = load_caption_data(config.data, config.data_dir, config.validation_split, ImageInput, columns)
    tokenizer = start and start.tokenizers["text"]
    tokenizer = tokenizer or SentencePieceTokenizer.train(data.captions, config.vocabulary_size)
    # "values" (B, height, width, channels) from -1 to 1; "labels" (B, T) = y_1 y_2 ... END, and "target_ids" (B, T),
    # the labels shifted to the right: START y_1 y_2 ..., so that each word is predicted from the true words before it.
    length = 1 + max(map(len, tokenizer.encode(data.captions)))
    batches = DrawnBatches(data.draw, tokenizer.encode, config.train_size, config.rows_per_batch, length, config.seed)
    settings = {name: value for name, value in asdict(config).items() if name in SETTINGS}
    sizes = {"vocabulary_size": tokenizer.vocabulary_size, "input_size": data.size}
    model = AttentionCaptioner(**settings | sizes)
    model.build()
    check_tokens_at_once(config.rows_per_batch, length * math.prod(model.grid), config.accumulate, "attention weights")
    if start:
        take_weights(model, start.model)
    if scored := keras.backend.backend() == "tensorflow":
        from keras_attention.publishing import caption_entries

        claim_entry(session.out, config.overwrite)
        examples = data.test(caption_entries.EXAMPLES)
        captioner = caption_entries.captioner_of(model, tokenizer, examples, config.beam_size, 2 * length)
        held = data.validation(64 if config.smoke else 512)

    total_steps = config.epochs * len(batches.epoch(0))
    print(f"{data.summary}, {model.count_params():,} parameters, {total_steps:,} updates")
    print(session.description)
    rate = make_schedule("cosine", config.learning_rate, min(config.warmup_steps, total_steps // 2), total_steps)
    optimizer = keras.optimizers.Adam(rate)
    objective = functools.partial(loss, coverage=config.coverage, entropy=config.entropy)
    update = session.compile(model, optimizer, objective, clip_norm=1.0, ema_decay=config.ema_decay)
    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, config.epochs, monitor="val_exact"):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the mean loss, clipped; a step of Adam
            if scored:
                with session.averaged_weights():
                    scores = caption_entries.caption_scores(captioner, held, beam_size=1)
                session.report(**{f"val_{name.split()[0]}": value for name, value in scores.items()})

    if session.finish(weights_only=not scored):  # only in the chief worker
        session.outcome["settings"] |= {"data_dir": "", "data": Path(config.data).name, "out": session.out.name}
        scores = caption_entries.write_captioner(session.out, captioner, data, **session.outcome)
        session.clean_up()
        print_file_model(session.out, scores, "caption", captioner.kind)


if __name__ == "__main__":
    run_recipe(main, __file__)
