"""Time and memory of our MultiHeadAttention and of Keras's, over the length of the sequence.

    python benchmarks/attention_memory.py                            # 256 to 65,536 tokens
    python benchmarks/attention_memory.py --lengths 4096 16384 --rounds 3
    python benchmarks/attention_memory.py --xla --lengths 4096 16384 65536 --patterns bigbird strided:part=2

Self-attention of one sentence with one head, 64 wide, in float32, as a compiled graph; forward, and with the gradients
of input and weights. Each measurement runs in its own process. The memory is the peak during the calls after the first,
above the memory held before them. The first call also compiles; its memory is printed in parentheses. Keras's layer is
left out where its scores would take more than `--most` gigabytes. `--patterns` compares our layer with and without a
sparse pattern, in turns.

Result with `--xla` on two cores of an AMD EPYC that were also used by others: at 16,384 tokens ours holds 20 MB where
Keras's holds 2,088 (103 times; 28 times with the compiler, 75 and 2,105 MB), in 0.38 of its time; with gradients 40 MB
where Keras's holds 4,112 (103 times; 23 with the compiler), in 0.21 of its time. At 65,536 tokens ours holds 80 MB.

Sparse patterns with `--xla`: how many times as fast they are as our layer without a pattern. Their memory differs by at
most 5 %, except for strided, part 2 with gradients, which takes 10 % more:

    tokens                  bigbird   blocks of 128   strided, part 1   part 2   fixed, part 1   part 2
    4,096                       5.9             2.6               2.9      6.3             5.4      4.7
    4,096, gradients            2.6             2.0               4.0      7.0             9.4      6.4
    16,384                      7.2             6.3              13.6     26.6            27.7     12.0
    16,384, gradients           6.9             9.4              17.2     34.0            37.4     14.5
    65,536                     27.2               -              43.8     68.8            74.9     12.9
"""

import argparse
import ctypes
import functools
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from taking_turns import Turns

from keras_attention.cli.main import guarded

WIDTH = 64
SHORT = 16
SCORES_AT_ONCE = {False: 3, True: 6}  # matrices (n, n) that Keras's layer holds: forward, with gradients


class SelfAttention:
    """One layer on random input; a call returns (median seconds, megabytes, megabytes of the call that compiles)."""

    def __init__(self, ours, gradients, xla, pattern=None, causal=False):
        import keras
        import tensorflow as tf

        from keras_attention.layers import MultiHeadAttention

        kind = (
            functools.partial(MultiHeadAttention, attention_pattern=pattern)
            if ours
            else keras.layers.MultiHeadAttention
        )
        self.layer = kind(num_heads=1, key_dim=WIDTH)
        self.layer.build((1, None, WIDTH), (1, None, WIDTH))

        @tf.function(jit_compile=xla)
        def run(inputs):
            if not gradients:
                return self.layer(inputs, inputs, use_causal_mask=causal)
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                loss = tf.reduce_sum(tf.square(self.layer(inputs, inputs, use_causal_mask=causal)))
            return tape.gradient(loss, [inputs, *(weight.value for weight in self.layer.trainable_weights)])

        self.run = run

    def __call__(self, task):
        import tensorflow as tf

        length, rounds = task
        self.run(tf.zeros((1, SHORT, WIDTH)))
        inputs = tf.constant(np.random.default_rng(0).normal(size=(1, length, WIDTH)).astype("float32"))
        before = memory_now()
        np.asarray(self.run(inputs)[0])
        compiling, before = memory_peak() - before, memory_now()
        times = []
        for _ in range(rounds):
            begun = time.perf_counter()
            np.asarray(self.run(inputs)[0])
            times.append(time.perf_counter() - begun)
        return statistics.median(times), memory_peak() - before, compiling


def memory_now():
    """The resident megabytes of this process, after returning freed memory; resets the measured peak."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _megabytes("VmRSS")


def memory_peak():
    return _megabytes("VmHWM")


def _megabytes(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))


def measured(ours, gradients, length, arguments):
    turns = Turns({"layer": SelfAttention}, {"layer": (ours, gradients, arguments.xla)})
    result = turns.ask("layer", (length, arguments.rounds))
    turns.close()
    return result


def compare_patterns(gradients, length, arguments):
    """Prints the time and memory of each pattern beside those of our layer without one."""
    from keras_attention.layers.sparse_patterns import pattern_of_layer

    patterns = {pattern: pattern_of_layer(pattern, 0, length) for pattern in ("", *arguments.patterns)}
    layers = {name: (True, gradients, arguments.xla, pattern, arguments.causal) for name, pattern in patterns.items()}
    turns = Turns(dict.fromkeys(layers, SelfAttention), layers)
    rounds = [{name: turns.ask(name, (length, 1)) for name in turns} for _ in range(arguments.rounds)]
    turns.close()
    seconds = {name: statistics.median(turn[name][0] for turn in rounds) for name in layers}
    memory = {name: max(rounds[0][name][1], 1) for name in layers}
    compiling = {name: f"{memory[name]:.0f} MB ({rounds[0][name][2]:.0f} with the compiler)" for name in layers}
    case = f"n {length}{', causal' * arguments.causal}{', with gradients' * gradients}"
    print(f"{case}: dense {1000 * seconds['']:.1f} ms, {compiling['']}", flush=True)
    for name in arguments.patterns:
        ratio = statistics.median(turn[""][0] / turn[name][0] for turn in rounds)
        print(
            f"{case}: {name} {1000 * seconds[name]:.1f} ms, {compiling[name]}: {ratio:.1f} times as fast, "
            f"{memory[''] / memory[name]:.2f} times less memory",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lengths = [2**power for power in range(8, 17)]
    parser.add_argument("--lengths", type=int, nargs="+", default=lengths, help="tokens")
    parser.add_argument("--longest_gradients", type=int, default=16384, help="no gradients beyond")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=float, default=8.0, help="gigabytes of scores that Keras's layer may take")
    parser.add_argument("--xla", action="store_true", help="compile both by XLA")
    parser.add_argument("--patterns", nargs="+", default=(), help="sparse patterns to compare, such as bigbird")
    parser.add_argument("--causal", action="store_true", help="with --patterns: mask later keys")
    arguments = parser.parse_args()
    for gradients in (False, True):
        for length in arguments.lengths:
            if gradients and length > arguments.longest_gradients:
                continue
            if arguments.patterns:
                compare_patterns(gradients, length, arguments)
                continue
            seconds, memory, first = measured(True, gradients, length, arguments)
            row = f"n {length}{', with gradients' if gradients else ''}: ours {1000 * seconds:.1f} ms, "
            row += f"{memory:.0f} MB ({first:.0f} with the compiler)"
            if SCORES_AT_ONCE[gradients] * 4 * length**2 < arguments.most * 1e9:
                theirs, their_memory, their_first = measured(False, gradients, length, arguments)
                ratios = f"{theirs / seconds:.2f} times the time, {their_memory / max(memory, 1):.0f} times the memory"
                row += f"; Keras {1000 * theirs:.1f} ms, {their_memory:.0f} MB ({their_first:.0f}): {ratios} "
                row += f"({their_first / max(first, 1):.0f} times)"
            print(row, flush=True)


if __name__ == "__main__":
    sys.exit(guarded(main, "attention_memory.py"))
