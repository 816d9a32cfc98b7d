"""Translate with a recurrent network and attention (Bahdanau et al. 2015; Luong et al. 2015).

    python recipes/rnn_attention.py                      # dates in many languages -> ISO 8601, no download
    python recipes/rnn_attention.py --data multi30k --data-dir DIR --source en --target de
    python recipes/rnn_attention.py --data pairs.tsv     # two columns; or --data files --source a.en --target a.de
    python recipes/rnn_attention.py --data pairs.tsv --vectors glove.6B.50d.txt --embedding-dim 50
    python recipes/rnn_attention.py --smoke              # a few steps, end to end

Results on two cores, seed 1: dates 99.95 % of 10,000 in 1.9 minutes, 59,000 tokens/s (100.00 % in the zoo's card, from
another machine); Multi30k 39.98 BLEU A (nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:2.6.0|moses:de-0.2.0) in
53 minutes, 6,000 tokens/s on busy cores, and 37 more minutes on a Transformer's translations of the same sentences
(--from, --extra); 37.78 without the latter. XLA helps from a few hundred units on, not for the dates.
"""

import functools
from dataclasses import asdict, dataclass

from keras_attention.cli.io.terminal import silent_libraries

with silent_libraries():
    import keras

from keras_attention.cli.main import run_recipe
from keras_attention.cli.translation_demo import try_out
from keras_attention.data.batches import BucketedBatches
from keras_attention.data.translation.pairs import TranslationSettings, load_pairs
from keras_attention.data.word_embeddings import read_vectors_of_width, set_embeddings
from keras_attention.models.seq2seq import CHOICES, SETTINGS, AttentionSeq2Seq
from keras_attention.support.flags import parse_config, setting
from keras_attention.training.losses import token_cross_entropy
from keras_attention.training.objectives import r_drop_loss
from keras_attention.training.optim import make_schedule
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.warm_start import load_start, start_settings, take_weights


@dataclass(frozen=True)
class Config(TranslationSettings, RunSettings):
    train_size: int = setting(260_000, "pairs of dates generated for training")
    vocabulary_size: int = setting(6000, "size of the joint vocabulary (dates: all characters that occur)")
    embedding_dim: int = setting(256, "width of the embeddings")
    vectors: str = setting("", "first source embeddings: a file of GloVe or word2vec, as wide as --embedding-dim")
    hidden_dim: int = setting(384, "width of the decoder's state; each direction of the encoder has half of it")
    num_layers: int = setting(1, "recurrent layers in encoder and decoder")
    cell: str = setting("gru", "recurrent cell", CHOICES["cell"])
    attention: str = setting("additive", "score function of the attention", CHOICES["attention"])
    attention_mode: str = setting("global", "attention to all positions, or to a window", CHOICES["attention_mode"])
    attention_window: int = setting(5, "tokens to each side of the aligned position, local modes")
    input_feeding: bool = setting(True, "use the output of attention as an input of the next step")
    tie_embeddings: str = setting("all", "none, target (output = embedding) or all", CHOICES["tie_embeddings"])
    dropout: float = setting(0.4, "share of units dropped")
    epochs: int = setting(32, "passes over the training pairs")
    tokens_per_batch: int = setting(2048, "tokens of a batch, padding included, on the longer side")
    num_buckets: int = setting(5, "shapes of batches; each is compiled once")
    learning_rate: float = setting(1.5e-3, "peak learning rate of Adam")
    schedule: str = setting("cosine", "decay of the learning rate", ("cosine", "inverse_square_root"))
    warmup_steps: int = setting(400, "updates until the peak")
    label_smoothing: float = setting(0.1, "share of the target probability spread over the vocabulary")
    average_last: int | None = setting(None, "average the weights of this many last epochs")

    def __post_init__(self):
        super().__post_init__()
        if self.vectors and (self.data == "dates" or self.encoded or self.encode_to or self.start_from):
            raise ValueError(
                "`vectors` are for new embeddings of words: not with --data dates, --from or encoded texts."
            )


DATES = {
    "embedding_dim": 32, "hidden_dim": 64, "attention": "general", "tie_embeddings": "target", "dropout": 0.0,
    "epochs": 2, "tokens_per_batch": 8192, "num_buckets": 2, "learning_rate": 5e-3, "label_smoothing": 0.0,
    "jit_compile": False, "beam_size": 2, "length_penalty": 0.0, "ask": True,
}  # fmt: skip
SMOKE = {"train_size": 400, "epochs": 1, "jit_compile": False, "num_buckets": 1, "vocabulary_size": 300, "ask": False,
         "max_tokens": 8, "embedding_dim": 16, "hidden_dim": 16, "tokens_per_batch": 64, "beam_size": 1}  # fmt: skip


def presets(config):
    """The defaults that depend on other flags."""
    chosen = (DATES if config.data == "dates" else {}) | (SMOKE if config.smoke else {})
    return chosen | start_settings(config.start_from, config)


def cross_entropy(model, inputs, labels, label_smoothing):
    """-log p of each target token, given the source and the true tokens before it; and the logits (B, T, V)."""
    logits = model(inputs, training=True)
    return token_cross_entropy(labels, logits, label_smoothing), logits  # of the labels that are not padding


def loss(model, inputs, labels, label_smoothing, r_drop):
    """`cross_entropy`; with R-Drop (Liang et al. 2021), its mean over two passes of dropout, plus their divergence."""
    one_pass = functools.partial(cross_entropy, model, label_smoothing=label_smoothing)
    return r_drop_loss(one_pass, inputs, labels, r_drop)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    out = config.folder(f"rnn_attention_{config.data_name}")
    session = Session.start(config, out, check_out=check_free)
    config, start = session.config, load_start(config.start_from)

    vectors = read_vectors_of_width(config.vectors, config.embedding_dim) if config.vectors else None
    pairs = load_pairs(config, start and tuple(start.tokenizers.values()))
    if config.encode_to:
        return pairs.save(config.encode_to)
    # Batches of similar lengths: "source_ids" (B, S), "labels" (B, T) = y_1 y_2 ... END, and "target_ids" (B, T), the
    # labels shifted to the right: START y_1 y_2 ..., so that each label is predicted from the true tokens before it.
    batches = BucketedBatches(pairs.corpora, config.tokens_per_batch, config.num_buckets, config.seed)
    settings = {name: value for name, value in asdict(config).items() if name in SETTINGS}
    model = AttentionSeq2Seq(*pairs.sizes, **settings)  # attends to the source where source_ids != PAD
    model.build()
    if start:
        take_weights(model, start.model)
    if vectors:  # with tied embeddings, those of the target and of the output, too
        token_ids = pairs.token_ids(both_sides=config.tie_embeddings == "all")
        print(set_embeddings(model.source_embedding, pairs.tokenizers[0], vectors, token_ids))
    if texts := pairs.texts:  # None if they were encoded on another machine
        from keras_attention.evaluation.translation_scores import quick_score
        from keras_attention.pipelines.translator import Translator
        from keras_attention.publishing.trained_entries import write_trained

        claim_entry(session.out, config.overwrite)
        translator = Translator(model, *pairs.tokenizers, config.search, target_language=texts.target_language)

    total_steps = sum(len(batches.epoch(epoch)) for epoch in range(config.epochs))
    print(f"{pairs.corpora[0]}, {model.count_params():,} parameters, {total_steps:,} updates\n{session.description}")
    # Rate of update n = 1, 2 ...: peak * n / warmup, then half a cosine down to 2 % of the peak; or
    # inverse_square_root: peak * min(n / warmup, sqrt(warmup / n)).
    rate = make_schedule(config.schedule, config.learning_rate, config.warmup_steps, total_steps)
    optimizer = keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9)
    objective = functools.partial(loss, label_smoothing=config.label_smoothing, r_drop=config.r_drop)
    update = session.compile(model, optimizer, objective, config.clip_norm, config.average_last, config.ema_decay)
    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, config.epochs, monitor="val_score", patience=config.patience):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the mean loss, clipped; a step of Adam
            if texts:
                with session.averaged_weights():
                    session.report(val_score=quick_score(translator, *texts.validation, texts.target_language))

    if session.finish(weights_only=texts is None):  # only in the chief worker
        text = f"Bidirectional {config.cell.upper()} encoder and decoder with {config.attention} attention."
        options = {"description": text, "seed": config.seed, "start": start and start.entry, **session.outcome}
        scores = write_trained(session.out, translator, texts, **options)
        session.clean_up()
        try_out(session.out, texts, scores, config.ask)


if __name__ == "__main__":
    run_recipe(main, __file__)
