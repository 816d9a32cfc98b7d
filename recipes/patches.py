"""Classify images, sounds or series with a Transformer over patches (Dosovitskiy et al. 2021).

    python recipes/patches.py                                  # 8 x 8 digits of scikit-learn, no download
    python recipes/patches.py --data fashion_mnist             # downloads 30 MB once; or --data-dir DIR
    python recipes/patches.py --data my_files                  # images or sounds, a sub-folder for each label
    python recipes/patches.py --data my_series.csv             # a table with one series a row, and its label
    python recipes/patches.py --pretrain --out runs/first      # learns without labels; then --from runs/first
    python recipes/patches.py --smoke                          # a few steps, end to end

Patches are the tokens: each is flattened and projected, a position is added, and a pre-norm encoder follows. Without
large data, a Transformer does not find out by itself that neighbouring pixels belong together; two convolutions in
place of the projection (Xiao et al. 2021) give it a start, which is the default here.
"""

import functools
from dataclasses import asdict, dataclass
from pathlib import Path

from keras_attention.cli.io.terminal import print_file_model, silent_libraries

with silent_libraries():
    import keras

from keras_attention.cli.main import run_recipe
from keras_attention.data.batches import check_tokens_at_once
from keras_attention.data.images.image_batches import ImageBatches, usual_augmentation
from keras_attention.data.images.labelled_images import SETS, load_image_data, some_of_each
from keras_attention.data.images.masked_patches import MaskedPatches
from keras_attention.models import PatchPretrainer
from keras_attention.models.patch_classifier import CHOICES, SETTINGS, PatchClassifier
from keras_attention.support.flags import parse_config, setting
from keras_attention.training.losses import class_cross_entropy
from keras_attention.training.optim import make_schedule
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.schema import ARCHITECTURES
from keras_attention.zoo.warm_start import load_start, start_settings, take_weights


@dataclass(frozen=True)
class Config(RunSettings):
    data: str = setting("digits", f"{', '.join(SETS)}, a folder or table of images or sounds, or a table of series")
    data_dir: str = setting("", "folder of the idx files of mnist or fashion_mnist; empty: download them once")
    validation_split: float = setting(1 / 12, "share of the training images, from the end, for validation")
    labels: int | None = setting(None, "use only this many random images of each label; default: all")
    pretrain: bool = setting(False, "learn from all images without labels, to choose the right patch for masked places")
    masked: float = setting(0.5, "with --pretrain: share of the patches that are masked")
    start_from: str = setting("", "start from this trained model, with its settings", name="from")
    patch_size: tuple[int, ...] = setting((), "sides of a patch: one number, or height and width; default: 2, 4 or 8")
    hidden_dim: int = setting(128, "width of the layers")
    intermediate_dim: int = setting(256, "inner width of the feed-forward networks")
    num_heads: int = setting(4, "number of attention heads")
    num_layers: int = setting(4, "layers of the encoder")
    stem: str = setting("convolutional", "how a patch becomes a vector: linear, as in the paper", CHOICES["stem"])
    pooling: str = setting("mean", "classified vector: of [CLS], as in the paper, or the mean", CHOICES["pooling"])
    dropout: float = setting(0.1, "share of units dropped")
    shift: int = setting(2, "pixels by which images move, at most; sounds and series have changes of their own")
    flip: bool = setting(False, "mirror half of the images")
    erase: float = setting(0.0, "largest side of the rectangle that is erased, as a share of the image's")
    epochs: int | None = setting(None, "passes over the training images; default: 20, and 12 to 80 for your own files")
    rows_per_batch: int = setting(128, "images of a batch")
    learning_rate: float = setting(1e-3, "peak learning rate of AdamW")
    weight_decay: float = setting(0.05, "decay of the weights of all projections")
    warmup_steps: int = setting(300, "updates until the peak")
    label_smoothing: float = setting(0.1, "share of the target probability spread over the labels")
    ema_decay: float | None = setting(0.998, "exponential average of the weights; none: the last weights")
    jit_compile: bool | None = setting(False, "compile whole steps with XLA")


DATA = {"digits": {"hidden_dim": 48, "intermediate_dim": 96, "num_layers": 3, "epochs": 60, "shift": 1,
                   "rows_per_batch": 64, "warmup_steps": 100, "learning_rate": 3e-3, "ema_decay": 0.98,
                   "validation_split": 0.125},
        "mnist": {"stem": "pooled", "num_layers": 2, "erase": 0.3, "epochs": 20},
        "fashion_mnist": {"stem": "pooled", "num_layers": 2, "flip": True, "erase": 0.4, "epochs": 40}}  # fmt: skip
FILES = PatchClassifier.presets["mini"] | {"rows_per_batch": 16, "warmup_steps": 100, "ema_decay": 0.98,
                                           "validation_split": 0.1}  # fmt: skip
PRETRAINING = {"label_smoothing": 0.0}
SMOKE = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2, "num_layers": 1, "epochs": 1}
SMOKE_IMAGES = 200


def presets(config):
    """The defaults that depend on other flags."""
    chosen = DATA.get(config.data, FILES) | (PRETRAINING if config.pretrain else {}) | (SMOKE if config.smoke else {})
    return chosen | start_settings(config.start_from, config)


def loss(model, inputs, labels, label_smoothing):
    """-log p of the right label of each image; with --pretrain, of the right patch for each masked place."""
    logits = model(inputs, training=True)  # (B, K) for K labels; (B, M, M) for M masked patches at M places
    return class_cross_entropy(labels, logits, label_smoothing=label_smoothing)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    out = config.folder(f"patches_{Path(config.data).stem}{'_pretrained' * config.pretrain}")
    session = Session.start(config, out, unit="images", check_out=check_free)
    config, start = session.config, load_start(config.start_from)
    kinds = ARCHITECTURES["PatchClassifier"].task.inputs  # images, sounds and series
    data = load_image_data(config.data, config.data_dir, config.validation_split, kinds)
    labelled = some_of_each(data.train, config.labels, config.seed)
    train = (data.train if config.pretrain else labelled).take(slice(SMOKE_IMAGES if config.smoke else None))
    # "values" (B, height, width, channels) from -1 to 1, changed at random in each epoch, and "labels" (B,). A sound is
    # (B, frames, bands, 1), a series (B, T, channels).
    batches = ImageBatches(train, config.rows_per_batch, config.seed, usual_augmentation(data.kind, config))
    settings = {name: value for name, value in asdict(config).items() if name in SETTINGS}
    model = PatchClassifier(len(data.label_names), data.input_size, **settings)
    network = PatchPretrainer(model) if config.pretrain else model
    network.build()
    check_tokens_at_once(config.rows_per_batch, model.num_patches, config.accumulate, "patches")
    if start:
        take_weights(model, start.model)
    if config.pretrain:  # as Selfie (Trinh, Luong & Le 2019)
        batches = MaskedPatches(batches, model.num_patches, config.masked)
    if scored := keras.backend.backend() == "tensorflow":
        from keras_attention.publishing import image_entries

        claim_entry(session.out, config.overwrite)
        classifier = image_entries.image_classifier(model, data)

    epochs = config.epochs or model.usual_epochs(len(train))
    total_steps = epochs * len(batches.epoch(0))
    print(f"{len(train):,} images, {model.count_params():,} parameters, {total_steps:,} updates\n{session.description}")
    rate = make_schedule("cosine", config.learning_rate, config.warmup_steps, total_steps)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=config.weight_decay)
    optimizer.exclude_from_weight_decay(var_list=[v for v in network.trainable_variables if len(v.shape) < 2])
    objective = functools.partial(loss, label_smoothing=config.label_smoothing)
    update = session.compile(network, optimizer, objective, clip_norm=1.0, ema_decay=config.ema_decay)
    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, epochs, monitor="val_loss" if config.pretrain else "val_accuracy"):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the mean loss, clipped; a step of AdamW
            if scored and not config.pretrain:
                with session.averaged_weights():
                    session.report(val_accuracy=image_entries.scores_of(classifier, data.validation)[0]["accuracy"])

    if session.finish(weights_only=not scored):  # only in the chief worker
        session.outcome["settings"] |= {"data_dir": "", "out": session.out.name}
        if config.pretrain:  # the only use of labels
            image_entries.fit_output_layer(model, labelled)
        scores = image_entries.write_image_classifier(session.out, classifier, data, **session.outcome)
        session.clean_up()
        print_file_model(session.out, scores, "classify", classifier.kind)


if __name__ == "__main__":
    run_recipe(main, __file__)
