"""Recommend items by what a user did before: the Behavior Sequence Transformer (Chen et al. 2019).

    python recipes/recommend.py                                 # generated clicks, no download
    python recipes/recommend.py --data-dir ml-100k              # the unpacked folder of MovieLens-100K
    python recipes/recommend.py --data ratings.csv --like 4     # columns user, item, rating, time
    python recipes/recommend.py --smoke                         # a few steps, end to end

The target item and the items of the history are tokens; the target attends to the history. Items begin near those that
the same users have answered. Compare with `--sequence mean`, which averages the history, and `--sequence none`. The
last ten answers of each user are the test. To choose settings, give `--choose`: then the ten before them are held out
too, and the scores are theirs.
"""

from dataclasses import dataclass

from keras_attention.cli.io.terminal import silent_libraries

with silent_libraries():
    import keras

from keras_attention.cli.main import run_recipe
from keras_attention.data.batches import check_tokens_at_once
from keras_attention.data.clicks.history_batches import NUM_AGES, HistoryBatches, split_by_time
from keras_attention.data.clicks.interactions import (
    generate_interactions,
    item_vectors,
    read_interactions,
    read_movielens,
)
from keras_attention.models.behavior_sequence import CHOICES, BehaviorSequenceTransformer
from keras_attention.publishing.recommendations import check_recommender, score, write_recommender
from keras_attention.support.flags import parse_config, setting
from keras_attention.training.losses import class_cross_entropy
from keras_attention.training.optim import make_schedule
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session
from keras_attention.zoo.registry import claim_entry


@dataclass(frozen=True)
class Config(RunSettings):
    data: str = setting("generated", "generated, or a CSV or TSV file with the columns user, item, rating and time")
    data_dir: str = setting("", "folder of MovieLens-100K, used instead of --data")
    like: float = setting(4.0, "the lowest rating of a table that means: the user likes the item")
    choose: bool = setting(False, "hold out a validation part, and score it instead of the test part")
    sequence: str = setting("transformer", "how the history is read", CHOICES["sequence"])
    history: int = setting(50, "items of a history, the last ones")
    drawn: float = setting(1.0, "share of the training's histories that are drawn from all answers, also later ones")
    gap: int = setting(3, "of the other histories, up to this many items are left out at the end, as in the test")
    hidden_dim: int = setting(32, "width of the layers")
    intermediate_dim: int = setting(64, "inner width of the feed-forward networks")
    num_heads: int = setting(2, "number of attention heads")
    num_layers: int = setting(1, "layers of the Transformer")
    embedding_scale: float = setting(0.1, "standard deviation of the embeddings before the training")
    dropout: float = setting(0.2, "share of units dropped")
    epochs: int = setting(6, "passes over the training answers")
    rows_per_batch: int = setting(256, "targets of a batch")
    learning_rate: float = setting(2e-3, "peak learning rate of Adam")
    ema_decay: float | None = setting(0.99, "exponential average of the weights; none: the last weights")


GENERATED = {"drawn": 0.0, "embedding_scale": 0.3, "dropout": 0.0, "epochs": 5, "learning_rate": 5e-3}
SMOKE = {"hidden_dim": 8, "intermediate_dim": 8, "epochs": 1, "history": 5, "jit_compile": False}


def presets(config):
    """The defaults that depend on other flags."""
    is_generated = config.data == "generated" and not config.data_dir
    return (GENERATED if is_generated else {}) | (SMOKE if config.smoke else {})


def loss(model, inputs, labels):
    """-log p of the target's answer, given the history, the item and the profile."""
    logits = model(inputs, training=True)  # (B, K)
    return class_cross_entropy(labels, logits)


def read(config):
    if config.data_dir:
        return read_movielens(config.data_dir)
    if config.data == "generated":
        return generate_interactions(60 if config.smoke else 800)
    return read_interactions(config.data, config.like)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    out = config.folder("recommend_movielens" if config.data_dir else "recommend")
    session = Session.start(config, out, unit="targets", check_out=check_recommender)
    config, data = session.config, read(session.config)
    check_tokens_at_once(config.rows_per_batch, config.history + 1, config.accumulate, "items")
    claim_entry(session.out, config.overwrite, check_recommender)
    learnt, held = split_by_time(data, validation=config.choose)
    # "item_ids", "answers" and "ages" (B, L), "categories" (B, L, C), "profile" (B, P), "labels" (B,)
    options = {"known": learnt, "gap": config.gap, "drawn": config.drawn}
    batches = HistoryBatches(data, learnt, config.history, config.rows_per_batch, config.seed, **options)
    model = BehaviorSequenceTransformer(
        len(data.item_names),
        data.num_answers,
        NUM_AGES,
        len(data.category_names),
        data.num_profile_values,
        config.hidden_dim,
        config.intermediate_dim,
        config.num_heads,
        config.num_layers,
        sequence=config.sequence,
        dropout=config.dropout,
        embedding_scale=config.embedding_scale,
    )
    model.build()
    model.item_embedding.embeddings.assign(
        item_vectors(data, learnt, config.hidden_dim, config.embedding_scale, config.seed)
    )

    steps = config.epochs * len(batches.epoch(0))
    print(f"{len(data):,} answers, {model.count_params():,} parameters, {steps:,} updates\n{session.description}")
    rate = make_schedule("cosine", config.learning_rate, max(1, steps // 10), steps)
    optimizer = keras.optimizers.Adam(rate)
    update = session.compile(model, optimizer, loss, clip_norm=1.0, ema_decay=config.ema_decay)
    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, config.epochs, monitor="val_auc"):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the mean loss, clipped; a step of Adam
            if config.choose:
                with session.averaged_weights():
                    session.report(val_auc=score(model, data, held, learnt, config.history))

    if session.finish():  # only in the chief worker
        report = write_recommender(session.out, model, data, held, learnt, config.history, **session.outcome)
        print("\n".join(f"AUC {value:.3f}  {name}" for name, value in report["auc"].items()))
        session.clean_up()
        print(f"Saved to {session.out}: model.keras, report.json and, with attention, because.png.")


if __name__ == "__main__":
    run_recipe(main, __file__)
