"""Training on an accelerator under JAX: tokens per second and model FLOP utilization (MFU), plain and fused attention.

    KERAS_BACKEND=jax python benchmarks/accelerator.py --out accelerator.json
    KERAS_BACKEND=jax python benchmarks/accelerator.py --attention plain fused xla --tokens 65536
    KERAS_BACKEND=jax python benchmarks/accelerator.py --smoke                      # tiny sizes, for a CPU

The networks have the shapes of BERT-base (with a loss at a sixth of the positions) and of the Transformer-base. Each
update is `compile_update`'s: forward pass, cross-entropy, gradient and AdamW, in Keras's mixed_bfloat16, on random
tokens without padding. `plain` is the attention of our layers. `fused` replaces it with the kernel of cuDNN, `xla` with
JAX's own attention; both are `jax.nn.dot_product_attention`, which multiplies in bfloat16 and has a float32 softmax.
They cannot drop attention weights, so a network with that dropout is measured with `plain` only. The first line
compares them with `plain` on short random sequences with padding. Printed for each setting: the median of three rounds.

    MFU = FLOP per update / (seconds per update * peak FLOP/s)
    FLOP per update = 6 * (weights of a matrix * positions that it multiplies, summed over all matrices)
                    + 12 * width * (queries * keys, summed over all sequences and attention layers)

Source: Chowdhery et al. (2022), appendix B, https://arxiv.org/abs/2204.02311: 6 N + 12 L H Q T for each token. As
there, causal attention counts in full; lookups in embeddings do not count, but the product with the vocabulary does.
Differences: biases and norms do not count (0.1 % of N), and a matrix counts only for the positions that need it: in
BERT's last layer and head the masked positions, for the keys and values of cross-attention the source.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path
from unittest import mock

import jax
import keras
import numpy as np

from keras_attention.cli.main import guarded
from keras_attention.layers import attend, causal_mask, multi_head
from keras_attention.models import BertMaskedLM, Transformer
from keras_attention.support.errors import UserError
from keras_attention.training.backends import compile_update
from keras_attention.training.losses import token_cross_entropy

PEAKS = {"H100": 989, "H200": 989, "A100": 312}  # TFLOP/s, dense bfloat16, as the vendor states for the SXM modules
BASE = {
    "bert": {"width": 768, "heads": 12, "inner": 3072, "layers": 12, "vocabulary": 30522},
    "transformer": {"width": 512, "heads": 8, "inner": 2048, "layers": 6, "vocabulary": 32000},
}
SETTINGS = (("bert", 128, 0.0), ("bert", 512, 0.0), ("transformer", 128, 0.1), ("bert", 128, 0.1))  # with the dropout
TINY = {"width": 16, "heads": 2, "inner": 32, "layers": 2, "vocabulary": 97}
ROUNDS = 3


class Bert:
    """BERT as a masked language model: the loss is at a sixth of the positions, rounded up to a multiple of 8."""

    def __init__(self, sizes, length, dropout):
        self.sizes, self.length, self.masked = sizes, length, -(-length // 48) * 8
        self.tokens_of_example, self.drops_weights = length, dropout > 0
        names = ("vocabulary", "width", "inner", "heads", "layers")
        self.model = BertMaskedLM(*(sizes[name] for name in names), max_length=length, dropout=dropout)

    def batch(self, rng, examples):
        ids = rng.integers(1, self.sizes["vocabulary"], (2, examples, self.length), "int32")
        positions = rng.permuted(np.tile(np.arange(self.length, dtype="int32"), (examples, 1)), axis=1)
        masked = {"masked_positions": positions[:, : self.masked], "labels": ids[1, :, : self.masked]}
        return {"token_ids": ids[0], **masked}

    def flops(self):
        """Of one example."""
        width, inner, layers, vocabulary = (self.sizes[name] for name in ("width", "inner", "layers", "vocabulary"))
        projection, feed_forward = width**2, 2 * width * inner
        everywhere = (layers - 1) * (4 * projection + feed_forward) + 2 * projection  # the last layer's keys and values
        at_masked = 2 * projection + feed_forward + projection + width * vocabulary
        pairs = self.length * ((layers - 1) * self.length + self.masked)
        return 6 * (everywhere * self.length + at_masked * self.masked) + 12 * width * pairs


class Translator:
    """The encoder-decoder Transformer, with source and target of the same length and one vocabulary."""

    def __init__(self, sizes, length, dropout):
        self.sizes, self.length = sizes, length
        self.tokens_of_example, self.drops_weights = 2 * length, False
        names = ("vocabulary", "vocabulary", "width", "inner", "heads", "layers", "layers")
        self.model = Transformer(*(sizes[name] for name in names), dropout=dropout)

    def batch(self, rng, examples):
        ids = rng.integers(1, self.sizes["vocabulary"], (3, examples, self.length), "int32")
        return dict(zip(("source_ids", "target_ids", "labels"), ids, strict=True))

    def flops(self):
        """Of one example."""
        width, inner, layers, vocabulary = (self.sizes[name] for name in ("width", "inner", "layers", "vocabulary"))
        projection, feed_forward = width**2, 2 * width * inner
        of_source = layers * (4 * projection + feed_forward + 2 * projection)  # cross-attention's keys and values
        of_target = layers * (6 * projection + feed_forward) + width * vocabulary
        return 6 * (of_source + of_target) * self.length + 12 * width * 3 * layers * self.length**2


NETWORKS = {"bert": Bert, "transformer": Translator}


def fused_attend(implementation):
    """Returns a replacement of `attend` that calls JAX's attention, for the masks that the networks here have.

    They are a padding mask (B, 1, 1, S), which must be True first and False afterwards, or the causal mask
    (1, 1, T, T). cuDNN takes both without a matrix of T S numbers.
    """

    def attend_by_jax(query, key, value, mask, drop):
        if drop.keywords["training"] and drop.func.rate:
            raise ValueError(f"Attention weights are not dropped here. Received: rate={drop.func.rate}")
        query, key, value = (jax.numpy.swapaxes(x, 1, 2) for x in (query, key, value))  # (B, T, H, K)
        causal = mask.shape[2] > 1
        lengths = None if causal else jax.numpy.sum(mask[:, 0, 0, :], axis=-1, dtype="int32")  # (B,)
        context = jax.nn.dot_product_attention(
            query, key, value, is_causal=causal, key_value_seq_lengths=lengths, implementation=implementation
        )
        return jax.numpy.swapaxes(context, 1, 2), None  # (B, H, T, V)

    return attend_by_jax


def implementation_of(attention):
    return "cudnn" if attention == "fused" and jax.default_backend() == "gpu" else "xla"


def differences(attention, length):
    """The largest differences from `attend` in contexts and in gradients, each divided by the largest of the values."""
    query, key, value, weights = jax.random.normal(jax.random.key(0), (4, 3, 2, length, 64), "bfloat16")
    padding = np.arange(length) < np.array([[length], [length // 2], [1]])  # (B, S)
    dropout = mock.Mock(keywords={"training": True}, func=mock.Mock(rate=0.0), side_effect=lambda x: x)
    gaps = []
    for mask in (padding[:, None, None, :], causal_mask(length)[None]):

        def results(function, mask=mask):
            def summed(*inputs):
                context = function(*inputs, mask, dropout)[0]
                return jax.numpy.sum(context * weights, dtype="float32"), context

            return jax.jit(jax.value_and_grad(summed, (0, 1, 2), has_aux=True))(query, key, value)

        ((_, context), gradients), ((_, ours), our_gradients) = map(
            results, (fused_attend(implementation_of(attention)), attend)
        )
        for a, b in zip((context, *gradients), (ours, *our_gradients), strict=True):
            a, b = np.asarray(a, "float32"), np.asarray(b, "float32")
            gaps.append(float(abs(a - b).max() / abs(b).max()))
    return max(gaps[0], gaps[4]), max(gaps[1:4] + gaps[5:])


def cross_entropy(model, inputs, labels):
    return token_cross_entropy(labels, model(inputs, training=True))


def measured(update, batch, seconds):
    """Seconds of the first update, which compiles, its mean loss, and the median seconds of an update afterwards."""

    def timed(count):
        begun = time.perf_counter()
        results = [update(batch) for _ in range(count)]
        jax.block_until_ready(results[-1])
        return (time.perf_counter() - begun) / count, results[-1]

    compiling, first = timed(1)
    count = max(1, int(seconds / ROUNDS / timed(1)[0]))
    return compiling, float(first.total / first.count), statistics.median(timed(count)[0] for _ in range(ROUNDS))


def measure(network, optimizer, attention, examples, arguments):
    """Trains one network with one kind of attention; returns the results as a dict."""
    batch = jax.device_put(network.batch(np.random.default_rng(0), examples))
    function = attend if attention == "plain" else fused_attend(implementation_of(attention))
    with mock.patch.object(multi_head, "attend", function):
        update = compile_update(network.model, optimizer, cross_entropy)
        compiling, loss, seconds = measured(update, batch, arguments.seconds)
    rate = examples * network.flops() / seconds / 1e12
    speed = {"tokens_per_second": examples * network.tokens_of_example / seconds, "milliseconds": 1000 * seconds}
    used = {"teraflops": rate, "mfu": rate / arguments.peak if arguments.peak else None}
    return {**speed, **used, "first_update_seconds": compiling, "first_loss": loss}


def line_of(result):
    mfu = "" if result["mfu"] is None else f", MFU {100 * result['mfu']:.1f} %"
    return (
        f"{result['tokens_per_second']:,.0f} tokens/s, {result['milliseconds']:.1f} ms, "
        f"{result['teraflops']:.4g} TFLOP/s{mfu}; first update {result['first_update_seconds']:.1f} s, "
        f"its loss {result['first_loss']:.4f}"
    )


def compare(name, length, dropout, results, arguments, stop):
    """Measures each kind of attention of one network; prints each line at once and adds it to `results`."""
    network = NETWORKS[name](TINY if arguments.smoke else BASE[name], length, dropout)
    examples = max(1, arguments.tokens // network.tokens_of_example)
    network.model.build()
    optimizer = keras.optimizers.AdamW(1e-4)
    for attention in arguments.attention:
        if attention != "plain" and network.drops_weights:
            continue
        title = {"network": name, "length": length, "dropout": dropout, "examples": examples, "attention": attention}
        try:
            if time.perf_counter() > stop:
                raise TimeoutError(f"not begun within {arguments.most:g} seconds")
            result = measure(network, optimizer, attention, examples, arguments)
            line = line_of(result)
        except Exception as error:  # the other settings are still worth their time
            line = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            result = {"error": line}
        gc.collect()  # frees the memory of the accelerator
        results.append(title | result)
        print(f"{name}, {examples} x {length}, dropout {dropout:g}, {attention}: {line}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = ("plain", "fused", "xla")
    parser.add_argument("--attention", nargs="+", choices=kinds, default=kinds[:2])
    parser.add_argument("--tokens", type=int, default=32768, help="tokens of a batch, source and target")
    parser.add_argument("--seconds", type=float, default=2.0, help="of measuring, for each setting, after compiling")
    parser.add_argument("--most", type=float, default=150.0, help="seconds after which no setting begins")
    parser.add_argument("--peak", type=float, help="TFLOP/s of the chip in bfloat16; known for " + ", ".join(PEAKS))
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if keras.backend.backend() != "jax":
        raise UserError(f"This benchmark needs KERAS_BACKEND=jax. Received: {keras.backend.backend()}")
    stop = time.perf_counter() + arguments.most
    device = jax.devices()[0].device_kind
    if arguments.peak is None:
        arguments.peak = next((peak for name, peak in PEAKS.items() if name in device), None)
    if arguments.smoke:
        arguments.tokens, arguments.seconds = 64, 0.1
    print(f"{device}, JAX {jax.__version__}, Keras {keras.__version__}, peak {arguments.peak} TFLOP/s", flush=True)
    keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(0)
    results = []
    for attention in arguments.attention:
        if attention != "plain":
            try:
                context, gradient = differences(attention, 128)
                print(f"{attention}: differs from plain by {context:.2%}, in gradients by {gradient:.2%}", flush=True)
            except Exception as error:
                print(f"{attention}: {type(error).__name__}: {error}".splitlines()[0][:300], flush=True)
    for name, length, dropout in SETTINGS:
        compare(name, length // 8 if arguments.smoke else length, dropout, results, arguments, stop)
        gc.collect()
    if arguments.out:
        head = {"device": device, "jax": jax.__version__, "keras": keras.__version__, "peak": arguments.peak}
        arguments.out.write_text(json.dumps(head | {"results": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(guarded(main, "accelerator.py"))
