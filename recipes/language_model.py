"""Train a language model on any text: GPT (Radford et al. 2018, 2019), or an older kind of network.

    python recipes/language_model.py                      # the docstrings of this Python, no download
    python recipes/language_model.py --text FILES ...     # one document per line, or documents between blank lines
    python recipes/language_model.py --data shakespeare   # characters and line breaks (Karpathy 2015)
    python recipes/language_model.py --data pixels --text IMAGES --attention-pattern strided:stride=28   # an IDX file
    python recipes/language_model.py --data music --text train.txt --validation valid.txt   # a piece per line, or MIDI
    python recipes/language_model.py --smoke --model lstm # a few steps of another network, end to end

Every token is predicted from all tokens before it in its window. Try it with `keras-attention generate --model FOLDER`.
"""

from dataclasses import asdict, dataclass
from functools import partial

from keras_attention.cli.io.terminal import command_line, silent_libraries

with silent_libraries():
    import keras

from keras_attention.cli.main import run_recipe
from keras_attention.data.prose.token_stream import StreamSettings, load_stream
from keras_attention.models import LANGUAGE_MODELS, new_language_model
from keras_attention.models.gpt import GPT_PRESETS, POSITIONS
from keras_attention.support.flags import parse_config, setting
from keras_attention.training.devices import in_float32
from keras_attention.training.losses import token_cross_entropy
from keras_attention.training.optim import LinearDecay, Muon
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.warm_start import load_start, start_settings, take_weights


@dataclass(frozen=True)
class Config(StreamSettings, RunSettings):
    model: str = setting("gpt", "kind of network", tuple(LANGUAGE_MODELS))
    size: str = setting("", "sets the sizes below; default: small ones", ("", *GPT_PRESETS))
    hidden_dim: int = setting(128, "width of the layers")
    intermediate_dim: int = setting(512, "inner width of the feed-forward networks")
    num_heads: int = setting(2, "number of attention heads")
    num_layers: int = setting(4, "layers")
    kernel_size: int = setting(3, "tokens that a convolution reads")
    dilation_cycle: int = setting(7, "convolutions until the distance between these tokens is 1 again")
    positions: str = setting("rotary", "kind of positions", POSITIONS)
    attention_pattern: str | None = setting(None, "sparse attention: strided, fixed ..., see docs/attention.md")
    activation: str = setting("gelu_approximate", "activation function", ("gelu_approximate", "gelu", "relu"))
    dropout: float = setting(0.0, "share of units dropped")
    epochs: int = setting(5, "passes over the texts")
    optimizer: str = setting("muon", "muon (with AdamW for embeddings, biases and norms) or adamw", ("muon", "adamw"))
    learning_rate: float = setting(6e-3, "peak learning rate; beside muon, AdamW has half of it; linear decay to 0")
    warmup_share: float = setting(0.05, "share of the updates until the peak")
    weight_decay: float = setting(0.1, "weight decay, except for biases and norms")
    clip_norm: float = setting(1.0, "maximum global norm of the gradients")
    max_steps: int | None = setting(None, "maximum number of updates")
    start_from: str = setting("", "start from this trained model, with its settings and vocabulary", name="from")
    out: str = setting("runs/language_model", "folder of the trained model")


DATA = {"": {}, "shakespeare": {"lines": True, "level": "char", "validation_split": 0.1, "epochs": 6},
        "pixels": {"level": "char", "validation_split": 1 / 12, "max_tokens": 784},
        "music": {"language": "zxx", "max_tokens": 512, "rows_per_batch": 8, "validation_split": 0.1}}  # fmt: skip
SMOKE = {"vocabulary_size": 300, "max_tokens": 32, "rows_per_batch": 4, "max_steps": 3, "jit_compile": False,
         "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "num_layers": 1}  # fmt: skip


def presets(config):
    """The defaults that depend on other flags."""
    chosen = {name: value for name, value in GPT_PRESETS.get(config.size, {}).items() if name != "max_length"}
    chosen |= (SMOKE if config.smoke else {}) | DATA[config.data]
    return chosen | start_settings(config.start_from, config)


def loss(model, inputs, labels):
    """Cross-entropy of each token, given those before it."""
    return token_cross_entropy(labels, model(inputs, training=True))  # logits (B, T, V)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    large = config.model == "gpt" and config.hidden_dim >= 256
    session = Session.start(config, config.out + "_smoke" * config.smoke, large_products=large, check_out=check_free)
    config, start = session.config, load_start(config.start_from)
    stream = load_stream(config, start and start.tokenizers["text"])
    if config.encode_to:
        return stream.save(config.encode_to)
    batches, validation = stream.batches(config)
    sizes = {"max_length": start.model.max_length if start else config.max_tokens}
    sizes["vocabulary_size"] = stream.tokenizer.vocabulary_size
    model = new_language_model(config.model, asdict(config) | sizes)
    if start:
        take_weights(model, start.model)
    if scored := keras.backend.backend() == "tensorflow":
        from keras_attention.evaluation.masked_lm_scores import MaskedLMScores
        from keras_attention.pipelines.text_generator import TextGenerator
        from keras_attention.publishing.trained_entries import write_language_model

        claim_entry(session.out, config.overwrite)
        scores_of = MaskedLMScores(model, config.jit_compile)

    total_steps = min(sum(len(batches.epoch(epoch)) for epoch in range(config.epochs)), config.max_steps or 10**9)
    reach = f"receptive field {min(model.receptive_field, config.max_tokens)}"
    print(f"{stream}, {model.count_params():,} parameters, {reach}, {total_steps:,} updates\n{session.description}")
    rate = LinearDecay(config.learning_rate, min(int(config.warmup_share * total_steps), total_steps - 1), total_steps)
    kind = Muon if config.optimizer == "muon" else partial(keras.optimizers.AdamW, beta_2=0.99)
    optimizer = kind(rate, weight_decay=config.weight_decay)
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    update = session.compile(model, optimizer, loss, config.clip_norm)
    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, config.epochs, max_steps=config.max_steps):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the loss, clipped; a step of the optimizer
            if scored:
                session.report(**{f"val_{name}": value for name, value in scores_of(validation).items()})

    if session.finish(weights_only=not scored):  # only in the chief worker
        if config.mixed_precision:  # measured in float32, as it will be loaded
            model = in_float32(model)
            scores_of = MaskedLMScores(model, config.jit_compile)
        scores = stream.scores(scores_of(validation))
        options = {"scores": scores, "images": stream.images, "start": start and start.entry, **session.outcome}
        options["settings"] |= config.file_names | {"out": session.out.name}
        generator = TextGenerator(model, stream.tokenizer, **stream.pipeline_options)
        written = write_language_model(session.out, generator, **options)
        print("validation: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
        print(*(f"{beginning} ->{text}" for beginning, text in written), sep="\n")
        session.clean_up()
        command = command_line("generate", session.out, written[-1][0]) + " --out song.mid" * stream.is_music
        print(f"Saved to {session.out}. Try: {command}")


if __name__ == "__main__":
    run_recipe(main, __file__)
