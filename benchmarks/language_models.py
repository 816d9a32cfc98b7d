"""Language models with and without attention: one corpus, equal parameters, equal minutes.

    python benchmarks/language_models.py                                  # docstrings, 1 M parameters, 10 minutes each
    python benchmarks/language_models.py --text FILES --minutes 30 --parameters 4000000 --docs
    python benchmarks/language_models.py --minutes 0.1 --parameters 30000 --context 32 --kinds gpt lstm

Every kind of network trains alone on all cores with the recipe's loss, optimizer and learning rate. The rate follows
the clock, so that each network completes the schedule in its minutes. Compiling does not count. Measured on held-out
text: the loss, and the loss at each position of the context. Also measured: the tokens per second of training, and of
generating one text and a batch of 32. `--docs` writes the table and the plot into docs/attention.md.
"""

import argparse
import json
import os
import platform
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_attention.cli.main import guarded
from keras_attention.data.prose.token_stream import StreamSettings, WindowBatches, Windows, load_stream
from keras_attention.training.run import RunSettings
from keras_attention.visualize.figures import save_figure
from keras_attention.zoo import schema

ROOT = Path(__file__).parents[1]
PLOT, PAGE = ROOT / "docs/images/before_and_after.png", ROOT / "docs/attention.md"
MARKS = re.compile(r"(<!-- language_models -->\n).*?(<!-- /language_models -->)", re.DOTALL)
# Kind -> title, class, settings, unit of the width, sequential steps to read n tokens, longest path between two.
KINDS = {
    "gpt": ("GPT", "GPT", {"num_layers": 4}, 32, "1 per layer", "1"),
    "lstmn": ("LSTMN", "RecurrentLM", {"num_layers": 1, "cell": "lstmn"}, 4, "n", "1"),
    "lstm": ("LSTM", "RecurrentLM", {"num_layers": 2, "cell": "lstm"}, 4, "n", "n"),
    "convolutional": ("convolutional", "ConvolutionalLM", {"num_layers": 7}, 4, "1 per layer", "log n"),
}
FIXED = {"positions": "rotary", "dropout": 0.0, "activation": "gelu_approximate", "layer_norm_epsilon": 1e-5}
FIXED |= {"kernel_size": 3, "dilation_cycle": 7, "pad_id": 0, "attention_pattern": None}
PICTURE = f"![Loss by position in the context](images/{PLOT.name})"
RATE, WARMUP = 6e-3, 0.05


@dataclass(frozen=True)
class Config(StreamSettings, RunSettings):
    """The settings that `load_stream` reads."""


def settings_of(kind, parameters, vocabulary_size, context):
    """The settings of the network whose number of weights is nearest to `parameters`."""
    _, name, own, unit, *_ = KINDS[kind]
    count, candidates = schema.ARCHITECTURES[name].parameters, []
    for width in range(unit, 4096, unit):
        settings = FIXED | own | {"hidden_dim": width, "intermediate_dim": 4 * width, "num_heads": max(1, width // 64)}
        settings |= {"vocabulary_size": vocabulary_size, "max_length": context}
        if name != "GPT" or width % (2 * settings["num_heads"]) == 0:  # heads of an even width
            candidates.append((abs(count(settings) - parameters), width, settings))
    return min(candidates, key=lambda one: one[:2])[2]


def train(model, batches, minutes):
    """Trains for `minutes`; returns updates, tokens per second, and the loss every 50 updates."""
    from keras_attention.training.backends import compile_update
    from keras_attention.training.losses import token_cross_entropy
    from keras_attention.training.optim import Muon

    optimizer = Muon(0.0, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    update = compile_update(
        model, optimizer, lambda m, inputs, labels: token_cross_entropy(labels, m(inputs, training=True)), clip_norm=1.0
    )
    float(update(batches.epoch(0)[0]).total)  # compiles; with the rate 0 it changes nothing
    began, seconds, updates, epoch, losses = time.perf_counter(), [], 0, 0, []
    while True:
        for batch in batches.epoch(epoch):
            start = time.perf_counter()
            done = (start - began) / (60 * minutes)
            if done >= 1:
                tokens = batches.rows_per_batch * batches.max_tokens
                return {"updates": updates, "training tokens/s": tokens / statistics.median(seconds), "curve": losses}
            optimizer.learning_rate = RATE * min(done / WARMUP, (1 - done) / (1 - WARMUP))
            result = update(batch)
            loss = float(result.total) / float(result.count)
            seconds.append(time.perf_counter() - start)
            if updates % 50 == 0:
                losses.append((round(start - began, 1), round(loss, 4)))
            updates += 1
        epoch += 1


def losses_by_position(model, windows):
    """The mean loss of held-out tokens at each position of the context (T,), in nats, and over all of them."""
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def sums(token_ids, labels):
        logits = model({"token_ids": token_ids}, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (B, T)
        real = tf.cast(labels != 0, tf.float32)
        return tf.reduce_sum(losses * real, axis=0), tf.reduce_sum(real, axis=0)

    totals = np.zeros((2, windows.max_tokens))
    for i in range(len(windows)):
        totals += np.stack(sums(tf.constant(windows[i]["token_ids"]), tf.constant(windows[i]["labels"])))
    return totals[0] / np.maximum(totals[1], 1), float(totals[0].sum() / totals[1].sum())


def writing_speed(model, stream, count):
    """Tokens per second of generating `count` texts in one batch, the median of three runs."""
    from keras_attention.pipelines.text_generator import TextGenerator

    generator, speeds = TextGenerator(model, stream.tokenizer, **stream.pipeline_options), []
    for _ in range(4):
        start = time.perf_counter()
        written = generator.generations([""] * count, max_tokens=model.max_length // 2, temperature=1.0)
        speeds.append(sum(len(one.token_ids) for (one,) in written) / (time.perf_counter() - start))
    return statistics.median(speeds[1:])  # the first compiles


def measure(kind, stream, options):
    """Trains and measures one kind of network; a dict of JSON types."""
    import keras

    from keras_attention.models import new_language_model

    keras.utils.set_random_seed(options.seed)
    settings = settings_of(kind, options.parameters, stream.tokenizer.vocabulary_size, options.context)
    model = new_language_model(kind, settings)
    batches = WindowBatches(stream.train, options.context, options.rows, options.seed)
    result = {"parameters": model.count_params(), "width": model.hidden_dim, "layers": model.num_layers}
    result |= train(model, batches, options.minutes)
    by_position, loss = losses_by_position(model, Windows.all(stream.validation, options.context, options.rows))
    result |= {"loss": loss, "loss by position": by_position.round(4).tolist()}
    result |= {f"writing tokens/s, {count}": writing_speed(model, stream, count) for count in (1, 32)}
    print(f"{kind}: " + ", ".join(f"{name} {value:,.5g}" for name, value in result.items() if type(value) is not list))
    return result


def table(results):
    """The results as lines of Markdown."""
    head = ("network", "loss", "parameters", "training", "writing", "32 texts", "steps for n tokens", "longest path")
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
    for kind, result in results.items():
        title, *_, steps, path = KINDS[kind]
        speeds = ("training tokens/s", "writing tokens/s, 1", "writing tokens/s, 32")
        cells = [title, f"{result['loss']:.3f}", f"{result['parameters']:,}"]
        cells += [f"{result[name]:,.0f}" for name in speeds]
        lines.append(f"| {' | '.join([*cells, steps, path])} |")
    return "\n".join(lines) + "\n"


def means_by_context(losses):
    """Means of the losses by position (T,) over growing intervals: (first tokens of context, means)."""
    edges = np.unique(np.geomspace(1, len(losses), 17).round().astype(int))
    means = [float(np.mean(losses[low - 1 : high - 1])) for low, high in zip(edges[:-1], edges[1:], strict=True)]
    return edges[:-1].tolist(), means


def used_context(losses):
    """The tokens of context of the first interval whose mean loss is within 0.02 nats of the lowest."""
    starts, means = means_by_context(losses)
    return next(start for start, mean in zip(starts, means, strict=True) if mean - min(means) <= 0.02)


def plot(results, path):
    """Draws the loss by position of the context, on a logarithmic axis, means over growing intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    for kind, result in results.items():
        axes.plot(*means_by_context(result["loss by position"]), marker="o", markersize=3, label=KINDS[kind][0])
    axes.set(xscale="log", xlabel="tokens of context", ylabel="loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save_figure(figure, path)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--text", nargs="+", default=[], help="files of prose; none: docstrings")
    parser.add_argument("--data", default="", choices=["", "shakespeare"])
    parser.add_argument("--level", default="bpe", choices=["bpe", "char"])
    parser.add_argument("--vocabulary-size", type=int, default=2000)
    parser.add_argument("--parameters", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=10.0, help="of training, for each kind")
    parser.add_argument("--context", type=int, default=256, help="tokens of a window")
    parser.add_argument("--rows", type=int, default=16, help="windows of an update")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, default=ROOT / "benchmarks/results/language_models.json")
    parser.add_argument("--docs", action="store_true", help="write table and plot into docs/attention.md")
    options = parser.parse_args(arguments)

    given = {name: getattr(options, name) for name in ("data", "level", "vocabulary_size")}
    stream = load_stream(Config(**given, text=tuple(options.text), lines=bool(options.data)))
    print(f"{stream}, vocabulary of {stream.tokenizer.vocabulary_size:,}")
    results = {kind: measure(kind, stream, options) for kind in options.kinds}
    settings = {name: value for name, value in vars(options).items() if name not in ("write", "docs", "kinds")}
    settings["text"] = [Path(path).name for path in options.text]
    settings |= {"cores": os.cpu_count(), "machine": platform.machine()}
    options.write.parent.mkdir(parents=True, exist_ok=True)
    options.write.write_text(json.dumps({"settings": settings, "results": results}, indent=1) + "\n", encoding="utf-8")
    print("\n" + table(results))
    if options.docs:
        plot(results, PLOT)
        page = PAGE.read_text(encoding="utf-8")
        page = MARKS.sub(lambda match: f"{match[1]}\n{table(results)}\n{PICTURE}\n\n{match[2]}", page)
        PAGE.write_text(page, encoding="utf-8")
    else:
        plot(results, options.write.with_suffix(".png"))


if __name__ == "__main__":
    raise SystemExit(guarded(main, "language_models.py"))
