"""Pre-train BERT (Devlin et al. 2019) to guess hidden words, on any English prose.

    python recipes/bert_pretrain.py                    # the docstrings of this Python, nothing to download
    python recipes/bert_pretrain.py --text FILES ...   # one document a line, or documents between blank lines
    python recipes/bert_pretrain.py --smoke            # a few steps, end to end

Pre-norm, no dropout, texts packed into rows of 128 tokens, a vocabulary of the corpus's own: what helped cheap BERTs
(Geiping & Goldstein 2022). The result is an entry for `keras-attention fill-mask`, and for `keras-attention finetune
--from`.
"""

import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from keras_attention.commands.silence import silent_libraries

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with silent_libraries():
    import keras

from keras_attention.data.masked_lm import MaskedLMBatches
from keras_attention.data.packed_text import pack_texts

from keras_attention.cli import guarded
from keras_attention.data.prose import docstrings, read_documents
from keras_attention.models import BERT_PRESETS, BertMaskedLM
from keras_attention.models.bert_settings import SETTINGS
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.training.flags import parse_config, setting
from keras_attention.training.masked_lm_scores import MaskedLMScores
from keras_attention.training.run_facts import run_facts
from keras_attention.training.schedules import LinearDecay
from keras_attention.training.trainer import train
from keras_attention.zoo.archive import check_free, write_entry
from keras_attention.zoo.mask_filler import MASK, MaskFiller


@dataclass
class Config:
    # Data
    text: tuple[str, ...] = setting((), "files of prose; none: the docstrings of the Python standard library")
    validation: tuple[str, ...] = setting((), "files to measure on; none: a share of the documents")
    validation_share: float = setting(0.02, "share of the documents held out where no files are given")
    language: str = setting("en", "code of the language, for the card")
    terms: str = setting("as its owner says", "terms of the texts, for the card")
    vocabulary_size: int = setting(8000, "pieces of the vocabulary, special ones included")
    lowercase: bool = setting(True, "small letters without accents")
    max_tokens: int = setting(128, "tokens of a row; several texts are packed into one")
    mask_rate: float = setting(0.15, "share of the tokens to guess")
    whole_words: bool = setting(False, "hide all pieces of a word together")
    # Model
    size: str = setting("", "the widths and depths below, together; for files mini, else tiny", tuple(BERT_PRESETS))
    hidden_dim: int = setting(256, "width of the layers")
    intermediate_dim: int = setting(1024, "inner width of the feed-forward networks")
    num_heads: int = setting(4, "heads of each attention")
    num_layers: int = setting(4, "layers")
    activation: str = setting("gelu", "of the feed-forward networks", ("gelu", "gelu_approximate", "relu", "silu"))
    normalize_first: bool = setting(True, "norm before each part instead of behind it")
    dropout: float = setting(0.0, "share of units dropped")
    # Training
    epochs: int = setting(1, "passes over the texts")
    rows_per_batch: int = setting(64, "rows of one update")
    learning_rate: float = setting(1e-3, "peak, AdamW; linear decay to 0")
    warmup_share: float = setting(0.05, "share of the updates until the peak")
    weight_decay: float = setting(0.01, "of AdamW, not on biases and norms")
    clip_norm: float = setting(1.0, "largest global norm of the gradients")
    max_steps: int | None = setting(None, "updates after which to end, if the epochs have more")
    mixed_precision: bool = setting(False, "compute in bfloat16")
    jit_compile: bool = setting(True, "compile with XLA")
    seed: int = setting(1, "weights, masks and order of the rows")
    # Run
    out: str = setting("runs/bert_pretrain", "folder of the trained model")
    half_precision: bool = setting(True, "store the weights in float16")
    log_dir: str = setting("", "folder for TensorBoard")
    resume: bool = setting(False, "go on from the last checkpoint of the same run")
    restart: bool = setting(False, "start anew where checkpoints of an unfinished run stand")
    smoke: bool = setting(False, "tiny and untrained, from end to end")
    debug: bool = setting(False, "show the traceback of an error")


DOCSTRINGS = {"vocabulary_size": 6000, "epochs": 10, "rows_per_batch": 32}
SMOKE = {"vocabulary_size": 300, "max_tokens": 16, "rows_per_batch": 8, "max_steps": 3, "jit_compile": False}
SMOKE_DOCUMENTS = 100
GAPS = ("The function returns a [MASK] of strings.", "This [MASK] is raised when the file does not [MASK].",
        "The capital of France is [MASK].", "He was born in [MASK] and died in 1950.")  # fmt: skip


def presets(config):
    size = config.size or ("mini" if config.text and not config.smoke else "tiny")
    return {"size": size} | BERT_PRESETS[size] | ({} if config.text else DOCSTRINGS) | (SMOKE if config.smoke else {})


def load_texts(config):
    """The documents to train on, and those to measure on."""
    documents = read_documents(config.text) if config.text else docstrings(most_files=20 if config.smoke else None)
    documents = documents[:SMOKE_DOCUMENTS] if config.smoke else documents
    if config.validation:
        return documents, read_documents(config.validation)
    every = max(2, round(1 / config.validation_share))
    return [text for i, text in enumerate(documents) if i % every], documents[::every]


def make_optimizer(config, model, total_steps):
    warmup = min(int(config.warmup_share * total_steps), total_steps - 1)
    schedule = LinearDecay(config.learning_rate, warmup, total_steps)
    optimizer = keras.optimizers.AdamW(schedule, config.weight_decay, beta_2=0.98, epsilon=1e-6)
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    return optimizer


def finish(config, out, model, tokenizer, scores, result, facts):
    """Writes the entry, with what the model puts into a few gaps."""
    filler = MaskFiller(model, tokenizer, config.max_tokens)
    sources = [text for text in GAPS if text.count(MASK) < config.max_tokens // 8]
    outputs = [best.text for best, *_ in filler.fill_mask(sources, top_k=1)]
    names = [Path(name).name for name in config.text] or ["docstrings of the Python standard library"]
    terms = config.terms if config.text else "Python Software Foundation License"
    signature = f"{config.mask_rate:.0%} masked, seed 0"
    tokens = sum(entry["tokens"] for entry in result.history)
    metrics = {
        "description": f"A BERT of {config.num_layers} layers that guesses hidden words; it has guessed {tokens:,.0f}.",
        "data": [{"name": ", ".join(names), "terms": terms, "link": ""}],
        **facts,
        "minutes": result.seconds / 60,
        "seeds": [config.seed],
        "parameters": model.count_params(),
        "scores": [
            {"set": "validation", "metric": f"masked {name}", "value": value, "signature": signature}
            for name, value in scores.items()
        ],
        "limits": ["Made to be fine-tuned. Its guesses show what stands in its texts, not what is true."],
        "examples": [{"source": s, "output": o} for s, o in zip(sources, outputs, strict=True)],
        "training": asdict(config) | {"text": names, "out": out.name, "history": result.history},
    }
    about = {"language": config.language, "max_tokens": config.max_tokens}
    dtype = "float16" if config.half_precision else "float32"
    write_entry(out, model, {"text": tokenizer}, about=about, metrics=metrics, weights_dtype=dtype, overwrite=True)
    for source, output in zip(sources, outputs, strict=True):
        print(f"{source}  ->  {output}")


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    facts = run_facts()
    keras.utils.set_random_seed(config.seed)
    keras.config.set_dtype_policy("mixed_bfloat16" if config.mixed_precision else "float32")
    out = Path(config.out + "_smoke" * config.smoke)
    check_free(out, overwrite=True)
    texts, validation_texts = load_texts(config)
    tokenizer = WordPieceTokenizer.train(texts, config.vocabulary_size, config.lowercase)
    masking = {name: getattr(config, name) for name in ("rows_per_batch", "mask_rate", "whole_words")}
    rows, validation_rows = (pack_texts(some, tokenizer, config.max_tokens) for some in (texts, validation_texts))
    batches = MaskedLMBatches(rows, tokenizer, **masking, seed=config.seed)
    validation = MaskedLMBatches(validation_rows, tokenizer, **masking, seed=0).epoch(0)
    sizes = {name: value for name, value in asdict(config).items() if name in SETTINGS}
    model = BertMaskedLM(**sizes | {"vocabulary_size": tokenizer.vocabulary_size, "max_length": config.max_tokens})
    model.build()
    total_steps = min(config.epochs * len(batches.epoch(0)), config.max_steps or sys.maxsize)
    print(f"{len(texts):,} documents, {rows}, {model.count_params():,} parameters, {total_steps:,} updates")
    scores_of = MaskedLMScores(model, config.jit_compile)
    unfinished = out.with_name(out.name + "_checkpoints")
    if config.restart:
        shutil.rmtree(unfinished, ignore_errors=True)
    result = train(
        model,
        make_optimizer(config, model, total_steps),
        batches,
        epochs=config.epochs,
        max_steps=config.max_steps,
        clip_norm=config.clip_norm,
        validate=lambda _: {f"val_{name}": value for name, value in scores_of(validation).items()},
        monitor="val_loss",
        checkpoint_dir=unfinished,
        resume=config.resume,
        log_dir=config.log_dir or None,
        jit_compile=config.jit_compile,
    )
    scores = scores_of(validation)
    print("validation: " + ", ".join(f"masked {name} {value:.3f}" for name, value in scores.items()))
    finish(config, out, model, tokenizer, scores, result, facts)
    shutil.rmtree(unfinished, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(guarded(main, "bert_pretrain.py", "--debug" in sys.argv, (ValueError, OSError)))
