"""Pre-train BERT (Devlin et al. 2019) to guess hidden words, on any English prose.

    python recipes/bert_pretrain.py                    # the docstrings of this Python, nothing to download
    python recipes/bert_pretrain.py --text FILES ...   # one document a line, or documents between blank lines
    python recipes/bert_pretrain.py --smoke            # a few steps, end to end

With a GPU that has JAX and no TensorFlow, give the same flags three times:

    python recipes/bert_pretrain.py ... --encode_to prose                                      # here: texts become rows
    KERAS_BACKEND=jax python recipes/bert_pretrain.py ... --encoded prose --out trained        # there
    python recipes/bert_pretrain.py ... --encoded prose --weights trained                      # here: scores, entry

Pre-norm, no dropout, rows packed with texts, a vocabulary of the corpus's own: what helped cheap BERTs (Geiping &
Goldstein 2022); heads that begin with a look at the neighbours, and vectors counted from the texts: no plateau. With
`--next_sentence` the published second objective. The result is an entry for `keras-attention fill-mask` and `finetune`.
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

from keras_attention.cli.main import guarded
from keras_attention.data.prose.documents import docstrings, hold_out, read_documents
from keras_attention.data.prose.encoded_prose import load_encoded_prose, save_encoded_prose
from keras_attention.data.prose.masked_lm import MaskedLMBatches
from keras_attention.data.prose.sentence_pairs import prose_rows
from keras_attention.models import BERT_PRESETS, BertMaskedLM, BertPretrainer
from keras_attention.models.bert_encoder import SETTINGS
from keras_attention.models.bert_starts import MOST_PIECES, start_with_counts, start_with_neighbour_heads
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.training.acceleration import accelerate, description, in_float32
from keras_attention.training.acceleration_settings import AccelerationSettings
from keras_attention.training.distribution import chief_goes_on, use_strategy, workers
from keras_attention.training.flags import parse_config, setting
from keras_attention.training.pretraining_loss import pretraining_loss
from keras_attention.training.run_facts import run_facts
from keras_attention.training.run_settings import RunSettings
from keras_attention.training.schedules import LinearDecay
from keras_attention.training.trained_elsewhere import load_trained, save_trained
from keras_attention.training.trainer import train
from keras_attention.zoo.place import claim_entry
from keras_attention.zoo.warm_start import load_start, start_settings


@dataclass(frozen=True)
class Config(RunSettings, AccelerationSettings):
    # Beside these: strategy, resume ... (training.run_settings), mixed_precision ... (training.acceleration_settings)
    # Data
    text: tuple[str, ...] = setting((), "files of prose; none: the docstrings of the Python standard library")
    validation: tuple[str, ...] = setting((), "files to measure on; none: a share of the documents")
    validation_share: float = setting(0.02, "share of the documents held out where no files are given")
    language: str = setting("en", "code of the language, for the card")
    vocabulary_size: int = setting(8000, "pieces of the vocabulary, special ones included")
    lowercase: bool = setting(True, "small letters without accents")
    max_tokens: int = setting(128, "tokens of a row; several texts are packed into one")
    mask_rate: float = setting(0.15, "share of the tokens to guess")
    whole_words: bool = setting(False, "hide all pieces of a word together")
    next_sentence: bool = setting(False, "learn to tell whether a text follows another, too; rows of two texts")
    encode_to: str = setting("", "only write the encoded rows into this folder")
    encoded: str = setting("", "train on rows encoded before; where there is no TensorFlow, write the weights alone")
    # Model
    size: str = setting("", "the widths and depths below, together; for files mini, else tiny", tuple(BERT_PRESETS))
    hidden_dim: int = setting(256, "width of the layers")
    intermediate_dim: int = setting(1024, "inner width of the feed-forward networks")
    num_heads: int = setting(4, "heads of each attention")
    num_layers: int = setting(4, "layers")
    activation: str = setting("gelu", "of the feed-forward networks", ("gelu", "gelu_approximate", "relu", "silu"))
    normalize_first: bool = setting(True, "norm before each part instead of behind it")
    dropout: float = setting(0.0, "share of units dropped")
    neighbour_heads: bool = setting(True, "begin with some heads that look at the neighbours of each token")
    counts: bool = setting(True, "begin with vectors counted from the texts, on one machine, up to 16,000 pieces")
    # Training
    start_from: str = setting("", "begin with this trained model, its settings and its vocabulary")
    epochs: int = setting(1, "passes over the texts")
    parts: int = setting(1, "parts of a pass, with a validation at the end of each")
    rows_per_batch: int = setting(64, "rows of one update")
    learning_rate: float = setting(1e-3, "peak, AdamW; linear decay to 0")
    warmup_share: float = setting(0.05, "share of the updates until the peak")
    weight_decay: float = setting(0.01, "of AdamW, not on biases and norms")
    clip_norm: float = setting(1.0, "largest global norm of the gradients")
    max_steps: int | None = setting(None, "updates after which to end, if the epochs have more")
    seed: int = setting(1, "weights, masks and order of the rows")
    # Run
    out: str = setting("runs/bert_pretrain", "folder of the trained model")
    weights: str = setting("", "take these weights, trained where there is no TensorFlow")
    half_precision: bool = setting(True, "store the weights in float16")


DOCSTRINGS = {"vocabulary_size": 6000, "epochs": 10, "rows_per_batch": 32}
SMOKE = {"vocabulary_size": 300, "max_tokens": 64, "rows_per_batch": 8, "max_steps": 3, "jit_compile": False}


def presets(config):
    """The defaults that depend on other flags."""
    size = config.size or ("mini" if config.text and not config.smoke else "tiny")
    chosen = {"size": size} | BERT_PRESETS[size] | ({} if config.text else DOCSTRINGS)
    return chosen | (SMOKE if config.smoke else {}) | start_settings(config.start_from, config)


def load_rows(config, start):
    """The vocabulary, rows to train on, and rows to measure on."""
    if config.encoded:
        return load_encoded_prose(config.encoded)
    few, most = (20, 100) if config.smoke else (None, None)
    documents = (read_documents(config.text) if config.text else docstrings(most_files=few))[:most]
    given = (documents, read_documents(config.validation)) if config.validation else None
    documents, held_out = given or hold_out(documents, config.validation_share)
    tokenizer = start.tokenizers["text"] if start else None
    tokenizer = tokenizer or WordPieceTokenizer.train(documents, config.vocabulary_size, config.lowercase)
    options = tokenizer, config.max_tokens, config.next_sentence, config.seed
    return tokenizer, *(prose_rows(texts, *options) for texts in (documents, held_out))


def make_optimizer(config, model, total_steps):
    warmup = min(int(config.warmup_share * total_steps), total_steps - 1)
    schedule = LinearDecay(config.learning_rate, warmup, total_steps)
    optimizer = keras.optimizers.AdamW(schedule, config.weight_decay, beta_2=0.98, epsilon=1e-6)
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    return optimizer


def make_model(config, tokenizer, rows, begun):
    sizes = {name: value for name, value in asdict(config).items() if name in SETTINGS}
    model = BertMaskedLM(**sizes | {"vocabulary_size": tokenizer.vocabulary_size, "max_length": config.max_tokens})
    model.build()
    if config.neighbour_heads:
        start_with_neighbour_heads(model.encoder, config.seed)
    if config.counts and not begun and workers().count == 1 and tokenizer.vocabulary_size <= MOST_PIECES:
        print("Counting which pieces stand together")
        start_with_counts(model, rows, tokenizer.special_ids, config.seed)
    return model


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    facts = run_facts()
    config = accelerate(config, large_products=config.hidden_dim >= 256)
    use_strategy(config.strategy)
    keras.utils.set_random_seed(config.seed)
    out = Path(config.out + "_smoke" * config.smoke)
    unfinished = out.with_name(out.name + "_checkpoints")
    start = load_start(config.start_from)
    tokenizer, rows, validation_rows = load_rows(config, start)
    if config.encode_to:
        return save_encoded_prose(config.encode_to, tokenizer, rows, validation_rows)
    masking = {name: getattr(config, name) for name in ("rows_per_batch", "mask_rate", "whole_words")}
    batches = MaskedLMBatches(rows, tokenizer, **masking, seed=config.seed, parts=config.parts)
    begun = config.weights or (config.resume and unfinished.exists())  # the weights come from there
    model = start.model if start else make_model(config, tokenizer, rows, begun)
    if config.next_sentence:
        model = BertPretrainer(model)
        model.build()
    here, validate, epochs = keras.backend.backend() == "tensorflow", None, config.epochs * config.parts
    total_steps = min(sum(len(batches.epoch(epoch)) for epoch in range(epochs)), config.max_steps or sys.maxsize)
    print(f"{len(rows):,} rows, {model.count_params():,} parameters, {total_steps:,} updates\n{description(config)}")
    if here:
        from keras_attention.evaluation.masked_lm_scores import SCORE_NAMES, MaskedLMScores

        claim_entry(out, config.overwrite)
        validation = MaskedLMBatches(validation_rows, tokenizer, **masking, seed=0).epoch(0)
        scores_of = MaskedLMScores(model, config.jit_compile)
        validate = lambda _: {f"val_{name}": value for name, value in scores_of(validation).items()}  # noqa: E731
    if config.weights:
        result, facts = load_trained(config.weights, model)
    else:
        kept = {name: getattr(config, name) for name in ("max_steps", "clip_norm", "jit_compile")}
        kept |= {"loss": pretraining_loss() if config.next_sentence else None, "validate": validate}
        kept |= {"epochs": epochs, "checkpoint_dir": unfinished, "monitor": "val_loss"}
        result = train(model, make_optimizer(config, model, total_steps), batches, **kept, **config.running)
    if not chief_goes_on():  # the other workers are done
        return
    if here:
        from keras_attention.pipelines.release import write_pretrained

        if config.mixed_precision:  # measured as it will be loaded
            model = in_float32(model)
            scores_of = MaskedLMScores(model, config.jit_compile)
        scores = scores_of(validation)
        print("validation: " + ", ".join(f"{SCORE_NAMES[name]} {value:.3f}" for name, value in scores.items()))
        names = {name: [Path(path).name for path in getattr(config, name)] for name in ("text", "validation")}
        told = {"scores": scores, "settings": asdict(config) | names | {"out": out.name}, "result": result}
        kept = getattr(model, "masked_lm", model), tokenizer
        told |= {"start": start and start.entry, "overwrite": config.overwrite}
        filled = write_pretrained(out, *kept, **told, facts=facts)
        print(*(f"{gap}  ->  {text}" for gap, text in filled), sep="\n")
    else:
        save_trained(out, model, result, facts)
    shutil.rmtree(unfinished, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(guarded(main, "bert_pretrain.py", "--debug" in sys.argv, (ValueError, OSError)))
