"""Translate with the Transformer (Vaswani et al. 2017).

    python recipes/transformer.py                      # dates in many languages -> ISO 8601, nothing to download
    python recipes/transformer.py --data multi30k --data_dir DIR --source en --target de
    python recipes/transformer.py --data pairs.tsv     # two columns; or --data files --source a.en --target a.de
    python recipes/transformer.py --smoke              # a few steps, end to end

Results on two cores, seed 1: dates 99.97 % of 10,000 in 3.0 minutes, 41,000 target tokens/s beside another training.
Multi30k, English to German, in 36 minutes: BLEU A 40.02, B 39.74 on test2016, by the flags in the card of
transformer_tiny_multi30k_en_de; the defaults are those of Wu et al. (2021), whose large batches want hours. Where there
is a GPU with JAX and no TensorFlow, give the same flags three times:

    python recipes/transformer.py ... --encode_to pairs.npz                          # here: texts become arrays
    KERAS_BACKEND=jax python recipes/transformer.py ... --encoded pairs.npz --out trained      # there
    python recipes/transformer.py ... --weights trained                              # here: scores, card, entry
"""

import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from keras_attention.cli.io.silence import silent_libraries

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with silent_libraries():
    import keras

from keras_attention.cli.io.try_out import try_out
from keras_attention.cli.main import guarded
from keras_attention.data.batches import BucketedBatches
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, load_encoded, save_encoded
from keras_attention.data.translation.translation_sets import load_translation_data, train_tokenizers
from keras_attention.models import Transformer
from keras_attention.models.transformer import CHOICES, PRESETS, SETTINGS
from keras_attention.training.acceleration import accelerate, description
from keras_attention.training.acceleration_settings import AccelerationSettings
from keras_attention.training.distribution import chief_goes_on, use_strategy
from keras_attention.training.flags import parse_config, setting
from keras_attention.training.run_facts import run_facts
from keras_attention.training.run_settings import RunSettings
from keras_attention.training.schedules import make_schedule
from keras_attention.training.trained_elsewhere import load_trained, save_trained
from keras_attention.training.trainer import train
from keras_attention.zoo.place import claim_entry
from keras_attention.zoo.warm_start import load_start, start_settings, take_weights


@dataclass(frozen=True)
class Config(RunSettings, AccelerationSettings):
    # Beside these: strategy, resume ... (training.run_settings), mixed_precision ... (training.acceleration_settings)
    # Data
    data: str = setting("dates", "dates, multi30k, tatoeba, files, or the path of a table with two columns")
    data_dir: str = setting("", "folder of multi30k or tatoeba; empty: download multi30k once")
    source: str = setting("en", "language code of the source, or its file with --data files")
    target: str = setting("de", "language code of the target, or its file with --data files")
    validation_share: float = setting(0.02, "share of the pairs held out, half to validate and half to test; own files")
    train_size: int = setting(200_000, "pairs of dates generated for training")
    extra: tuple[str, ...] = setting((), "tables of further pairs to train on, such as the answers of better models")
    max_tokens: int = setting(64, "tokens of a sentence while training; longer ones are cut")
    bpe_dropout: float = setting(0.0, "share of the merges of the vocabulary left out, anew each epoch")
    vocabulary_size: int = setting(10_000, "pieces of the joint vocabulary (dates: characters, as many as occur)")
    encode_to: str = setting("", "only write the encoded pairs to this .npz")
    encoded: str = setting("", "train on pairs encoded before, and write the weights alone")
    # Model
    size: str = setting("tiny", "the widths and depths below and the dropout, together", tuple(PRESETS))
    hidden_dim: int = setting(128, "width of the layers")
    intermediate_dim: int = setting(256, "inner width of the feed-forward networks")
    num_heads: int = setting(4, "heads of each attention")
    num_encoder_layers: int = setting(4, "layers of the encoder")
    num_decoder_layers: int = setting(4, "layers of the decoder")
    activation: str = setting("relu", "of the feed-forward networks", CHOICES["activation"])
    normalize_first: bool = setting(False, "norm before each part instead of behind it")
    positions: str = setting("sinusoidal", "sinusoidal or learned", CHOICES["positions"])
    max_length: int = setting(512, "tokens there are learned positions for")
    tie_embeddings: str = setting(
        "all", "none, target (output = target embedding) or all (source too)", CHOICES["tie_embeddings"]
    )
    dropout: float = setting(0.3, "share of units dropped")
    attention_dropout: float = setting(0.0, "share of attention weights dropped")
    # Training
    start_from: str = setting("", "begin with this trained model, its settings and its vocabularies")
    epochs: int = setting(120, "passes over the training pairs")
    tokens_per_batch: int = setting(8192, "tokens of a batch, padding included, on the longer side")
    num_buckets: int = setting(4, "shapes of batches; each is compiled once")
    learning_rate: float = setting(5e-3, "peak, Adam")
    schedule: str = setting("inverse_square_root", "or cosine", ("inverse_square_root", "cosine"))
    warmup_steps: int = setting(2000, "updates until the peak")
    label_smoothing: float = setting(0.1, "share of the target probability spread over the vocabulary")
    r_drop: float = setting(0.0, "weight of the divergence between two passes under dropout; costs twice the time")
    clip_norm: float = setting(1.0, "largest global norm of the gradients")
    average_last: int | None = setting(10, "average of the weights at the last so many epoch ends")
    ema_decay: float | None = setting(None, "exponential average of the weights, such as 0.999")
    validate_every: int = setting(5, "epochs from one validation to the next")
    patience: int | None = setting(None, "validations without a better score until the training stops")
    seed: int = setting(1, "weights, dropout and order of the batches")
    # Decoding
    beam_size: int = setting(5, "hypotheses kept")
    length_penalty: float = setting(1.0, "exponent of the length in the score (GNMT)")
    # Run
    out: str = setting("", "folder of the trained model (default: runs/transformer_DATA)")
    weights: str = setting("", "take these weights, trained with --encoded, instead of training")
    log_dir: str = setting("", "folder for TensorBoard")
    ask: bool = setting(False, "translate what is typed, at the end (on with --data dates)")


DATES = {"hidden_dim": 64, "intermediate_dim": 128, "num_encoder_layers": 2, "num_decoder_layers": 1, "dropout": 0.0,
         "tie_embeddings": "target", "epochs": 3, "num_buckets": 2, "learning_rate": 3e-3, "warmup_steps": 200,
         "schedule": "cosine", "label_smoothing": 0.0, "average_last": None, "validate_every": 1, "beam_size": 2,
         "length_penalty": 0.0, "ask": True}  # fmt: skip
SMOKE = {"train_size": 400, "epochs": 1, "jit_compile": False, "num_buckets": 1, "vocabulary_size": 300, "ask": False,
         "max_tokens": 8, "hidden_dim": 16, "intermediate_dim": 16, "num_heads": 2, "num_encoder_layers": 1,
         "num_decoder_layers": 1, "tokens_per_batch": 64, "validate_every": 1, "beam_size": 1}  # fmt: skip
SMOKE_PAIRS = 8


def presets(config):
    """The defaults that depend on other flags."""
    chosen = PRESETS[config.size] | (DATES if config.data == "dates" else {}) | (SMOKE if config.smoke else {})
    return chosen | start_settings(config.start_from, config)


def make_optimizer(config, total_steps):
    rate = make_schedule(config.schedule, config.learning_rate, config.warmup_steps, total_steps)
    return keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9)


def finish(config, translator, data, out, result, facts, start):
    """Scores the model, writes it as an entry and shows what it does."""
    from keras_attention.pipelines.release import write_trained

    described = f"A Transformer of {config.num_encoder_layers} and {config.num_decoder_layers} layers."
    told = {"description": described, "settings": asdict(config), "seed": config.seed, "start": start}
    told["overwrite"] = config.overwrite
    for score in write_trained(out, translator, data, **told, result=result, facts=facts):
        print(f"{score['set']}: {score['metric']} {score['value']:.2f}  ({score['signature']})")
    try_out(out, data, config.ask)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    facts = run_facts()
    config = accelerate(config)
    use_strategy(config.strategy)
    keras.utils.set_random_seed(config.seed)
    data, tokenizers, validate = None, None, None
    start = load_start(config.start_from)
    if config.encoded:
        corpora, sizes = load_encoded(config.encoded)
    else:
        names = ("data", "data_dir", "source", "target", "validation_share", "train_size", "extra", "seed")
        data = load_translation_data(**{name: getattr(config, name) for name in names})
        data = data.shortened(SMOKE_PAIRS) if config.smoke else data
        tokenizers = tuple(start.tokenizers.values()) if start else train_tokenizers(data, config.vocabulary_size)
        sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
        cutting = config.max_tokens, config.bpe_dropout, config.seed, config.epochs
        corpora = ParallelCorpus.encode_epochs(*data.train, *tokenizers, *cutting)
    if config.encode_to:
        save_encoded(config.encode_to, corpora, sizes)
        return
    out = Path(config.out or f"runs/transformer_{data.name if data else 'encoded'}{'_smoke' * config.smoke}")
    batches = BucketedBatches(corpora, config.tokens_per_batch, config.num_buckets, config.seed)
    model = Transformer(*sizes, **{key: value for key, value in asdict(config).items() if key in SETTINGS})
    model.build()
    if start:
        take_weights(model, start.model)
    total_steps = sum(len(batches.epoch(epoch)) for epoch in range(config.epochs))
    print(f"{corpora[0]}, {model.count_params():,} parameters, {total_steps:,} updates\n{description(config)}")
    if data:
        from keras_attention.evaluation.translation_scores import quick_score
        from keras_attention.pipelines.translator import Translator

        claim_entry(out, config.overwrite)
        search = {name: getattr(config, name) for name in ("beam_size", "length_penalty")}
        search["max_source_length"] = 2 * config.max_tokens
        translator = Translator(model, *tokenizers, search, target_language=data.target_language)
        validate = lambda _: {"val_score": quick_score(translator, *data.validation, data.target_language)}  # noqa: E731
    unfinished = out.with_name(out.name + "_checkpoints")
    if config.weights:
        result, facts = load_trained(config.weights, model)
    else:
        kept = {name: getattr(config, name) for name in ("epochs", "label_smoothing", "r_drop", "clip_norm",
                "validate_every", "patience", "average_last", "ema_decay", "jit_compile")}  # fmt: skip
        watched = {"validate": validate, "monitor": "val_score", "mode": "max"} if data else {}
        running = {"checkpoint_dir": unfinished, "log_dir": config.log_dir or None, **config.running}
        result = train(model, make_optimizer(config, total_steps), batches, **kept, **watched, **running)
    if not chief_goes_on():  # the other workers are done
        return
    if data:
        finish(config, translator, data, out, result, facts, start and start.entry)
    else:
        save_trained(out, model, result, facts)
    shutil.rmtree(unfinished, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(guarded(main, "transformer.py", "--debug" in sys.argv, (ValueError, OSError)))
