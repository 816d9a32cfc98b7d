"""Pre-train BERT (Devlin et al. 2019) as a masked language model, on any English text.

    python recipes/bert_pretrain.py                    # the docstrings of this Python, no download
    python recipes/bert_pretrain.py --text FILES ...   # one document per line, or documents between blank lines
    python recipes/bert_pretrain.py --alphabet protein --text FASTA_FILES   # amino acids (Rives et al. 2021)
    python recipes/bert_pretrain.py --smoke            # a few steps, end to end

Pre-norm, no dropout, packed texts and its own vocabulary help a cheap BERT (Geiping & Goldstein 2022); so do heads that
initially attend to neighbours, and embeddings from counts. `--next-sentence` adds the second objective of the paper.
"""

from dataclasses import asdict, dataclass
from functools import partial

from keras_attention.cli.io.terminal import command_line, silent_libraries

with silent_libraries():
    import keras

from keras_attention.cli.main import run_recipe
from keras_attention.data.prose.masked_lm import ProseSettings, load_prose
from keras_attention.models import BERT_PRESETS, BertMaskedLM, BertPretrainer
from keras_attention.models.bert_encoder import SETTINGS
from keras_attention.models.bert_initialization import start_with_structure
from keras_attention.support.flags import parse_config, setting
from keras_attention.training.devices import in_float32
from keras_attention.training.losses import class_cross_entropy, token_cross_entropy
from keras_attention.training.optim import LinearDecay, Muon
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.warm_start import load_start, start_settings


@dataclass(frozen=True)
class Config(ProseSettings, RunSettings):
    size: str = setting("", "sets the sizes below; default: mini with --text, else tiny", tuple(BERT_PRESETS))
    hidden_dim: int = setting(256, "width of the layers")
    intermediate_dim: int = setting(1024, "inner width of the feed-forward networks")
    num_heads: int = setting(4, "number of attention heads")
    num_layers: int = setting(4, "layers")
    activation: str = setting("gelu", "activation function", ("gelu", "gelu_approximate", "relu", "silu"))
    normalize_first: bool = setting(True, "norm before each sub-layer instead of after it")
    dropout: float = setting(0.0, "share of units dropped")
    attention_pattern: str | None = setting(None, "sparse attention: bigbird, window ..., see docs/attention.md")
    neighbour_heads: bool = setting(True, "initialize some heads to attend to neighbouring tokens")
    counts: bool = setting(True, "initialize embeddings from counts in the texts; on one machine, up to 16,000 tokens")
    epochs: int = setting(1, "passes over the texts")
    optimizer: str = setting("adamw", "adamw, or muon with AdamW for embeddings, biases and norms", ("adamw", "muon"))
    learning_rate: float = setting(1e-3, "peak learning rate; beside muon, AdamW has half of it; linear decay to 0")
    warmup_share: float = setting(0.05, "share of the updates until the peak")
    weight_decay: float = setting(0.01, "weight decay, except for biases and norms")
    clip_norm: float = setting(1.0, "maximum global norm of the gradients")
    max_steps: int | None = setting(None, "maximum number of updates")
    out: str = setting("runs/bert_pretrain", "folder of the trained model")


DOCSTRINGS = {"vocabulary_size": 6000, "epochs": 10, "rows_per_batch": 32}
PROTEINS = {"hidden_dim": 128, "intermediate_dim": 512, "num_heads": 4, "num_layers": 4, "max_tokens": 256,
            "rows_per_batch": 32, "mask_rate": 0.3, "optimizer": "muon", "learning_rate": 6e-3, "epochs": 2,
            "validation_split": 0.05, "language": "zxx", "counts": False}  # fmt: skip
SMOKE = {"vocabulary_size": 300, "max_tokens": 64, "rows_per_batch": 8, "max_steps": 3, "jit_compile": False}


def presets(config):
    """The defaults that depend on other flags."""
    size = config.size or ("mini" if config.text and not config.smoke else "tiny")
    chosen = {"size": size} | BERT_PRESETS[size] | ({} if config.text else DOCSTRINGS)
    if config.alphabet == "protein":
        chosen = PROTEINS | (BERT_PRESETS[size] if config.size or config.smoke else {})
    return chosen | (SMOKE if config.smoke else {}) | start_settings(config.start_from, config)


def loss(model, inputs, labels):
    """Mean cross-entropy of the masked tokens, plus that of next-sentence prediction (Devlin et al. 2019, A.2)."""
    logits = model(inputs, training=True)  # (B, P, V); BertPretrainer: also (B, 2)
    if not isinstance(logits, tuple):
        return token_cross_entropy(labels, logits)
    masked, following = token_cross_entropy(labels[:, :-1], logits[0]), class_cross_entropy(labels[:, -1], logits[1])
    # The mean is over masked tokens, up to P per text; the last column of the labels is for next-sentence prediction.
    return masked._replace(total=masked.total + (labels.shape[1] - 1) * following.total)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    session = Session.start(
        config, config.out + "_smoke" * config.smoke, large_products=config.hidden_dim >= 256, check_out=check_free
    )
    config, start = session.config, load_start(config.start_from)

    prose = load_prose(config, start and start.tokenizers["text"])
    if config.encode_to:
        return prose.save(config.encode_to)
    batches = prose.batches(config)  # each epoch masks other tokens
    sizes = {name: value for name, value in asdict(config).items() if name in SETTINGS}
    sizes |= {"vocabulary_size": prose.tokenizer.vocabulary_size, "max_length": config.max_tokens}
    model = start.model if start else BertMaskedLM(**sizes)
    if not start:
        model.build()
        starts = {"neighbour_heads": config.neighbour_heads, "counts": config.counts and session.starts_alone}
        start_with_structure(model, prose.sequences, prose.tokenizer.special_ids, **starts, seed=config.seed)
    if config.next_sentence:
        model = BertPretrainer(model)
        model.build()
    if scored := keras.backend.backend() == "tensorflow":
        from keras_attention.evaluation.masked_lm_scores import MaskedLMScores, scores_text
        from keras_attention.publishing.protein_report import protein_report
        from keras_attention.publishing.trained_entries import write_pretrained

        claim_entry(session.out, config.overwrite)
        validation = prose.validation_batches(config)
        scores_of = MaskedLMScores(model, config.jit_compile)

    epochs = config.epochs * config.parts
    total_steps = min(sum(len(batches.epoch(epoch)) for epoch in range(epochs)), config.max_steps or 10**9)
    print(f"{prose}, {model.count_params():,} parameters, {total_steps:,} updates\n{session.description}")
    rate = LinearDecay(config.learning_rate, min(int(config.warmup_share * total_steps), total_steps - 1), total_steps)
    kind = Muon if config.optimizer == "muon" else partial(keras.optimizers.AdamW, beta_2=0.98, epsilon=1e-6)
    optimizer = kind(rate, weight_decay=config.weight_decay)
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    update = session.compile(model, optimizer, loss, config.clip_norm)
    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, epochs, max_steps=config.max_steps):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the loss, clipped; a step of AdamW
            if scored:
                session.report(**{f"val_{name}": value for name, value in scores_of(validation).items()})

    if session.finish(weights_only=not scored):  # only in the chief worker
        if config.mixed_precision:  # measured in float32, as it will be loaded
            model = in_float32(model)
            scores_of = MaskedLMScores(model, config.jit_compile)
        scores = scores_of(validation)
        options = {"scores": scores, "start": start and start.entry, **session.outcome}
        options["settings"] |= config.file_names | {"out": session.out.name}
        if config.alphabet == "protein":
            options["proteins"] = protein_report(model, prose, config.jit_compile)
        filled = write_pretrained(session.out, getattr(model, "masked_lm", model), prose.tokenizer, **options)
        print(
            scores_text(scores), options.get("proteins", ""), *(f"{gap}  ->  {text}" for gap, text in filled), sep="\n"
        )
        session.clean_up()
        print(f"Saved to {session.out}. Try: {command_line('fill-mask', session.out, filled[0][0])}")


if __name__ == "__main__":
    run_recipe(main, __file__)
