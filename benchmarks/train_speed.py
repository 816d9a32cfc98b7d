"""Our training steps compared with those of keras-hub, Keras and PyTorch: tokens per second at equal shapes.

    python benchmarks/train_speed.py                               # a Transformer, 4 + 4 layers, 128 wide
    python benchmarks/train_speed.py --network bert --batch 32 --length 128 --width 256 --vocabulary 8000
    python benchmarks/train_speed.py --network gpt --batch 12 --length 64 --vocabulary 65  # nanoGPT's shape for a CPU
    python benchmarks/train_speed.py --network rnn --width 256

Every engine trains the same network in float32, with shared embeddings, dropout 0.1, cross-entropy and Adam, on the
same random tokens without padding. Each is a process of its own, and they take turns on the same cores. Printed for
each: the median over the rounds in tokens per second, peak memory, and how many times as fast ours is. keras-hub: its
layers in a functional model, trained by `train_on_batch`, with and without XLA. PyTorch: its own layers in eager mode,
for `gpt` the network of nanoGPT. Marian: Hugging Face's. The RNN is one GRU in both directions, one of twice the width,
then Bahdanau's attention. Needs `pip install .[benchmarks]`; an engine that is not installed is left out.

Results on two quiet cores of an AMD EPYC, at the shapes above: milliseconds for one update, and how many times as fast
ours is. The last column is the limit: the time that the matrix products alone take with NumPy (OpenBLAS, 230 GFLOP/s).

                     ours   keras-hub, XLA   without XLA        PyTorch       Marian   limit
    transformer        94     1.32 to 1.41  1.46 to 1.50   2.23 to 2.40  2.20 to 2.27      71
    bert              366     1.42 to 1.45  1.15 to 1.16   2.07 to 2.20                   388
    gpt                33     1.15 to 1.51  1.39 to 1.52   1.36 to 1.86                    18
    rnn               131     1.19 to 1.23  1.26 to 1.31   2.37 to 2.58                   136

So BERT and the RNN cannot become faster in float32 on these cores. Two to five runs of 5 to 15 rounds each, TensorFlow
2.21, Keras 3.15 (in the place of keras-hub for the RNN), PyTorch 2.13. `torch.compile` does not make PyTorch faster
here. It waits for memory: if glibc keeps freed memory (MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ of 1 GB),
ours is 1.91 to 1.98 (transformer), 1.99 to 2.11 (bert) and 1.66 to 1.78 (rnn) times as fast as PyTorch.
"""

import argparse
import importlib.util
import statistics
import sys

from taking_turns import Turns
from train_speed_engines import ENGINES, product_operations, product_speed, random_batch

from keras_attention.cli.main import guarded


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 128), ("heads", 4), ("layers", 4), ("vocabulary", 10000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--network", choices=ENGINES, default="transformer")
    parser.add_argument("--batch", type=int, default=64, help="sentences")
    parser.add_argument("--length", type=int, default=16, help="tokens of each sentence")
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds, after two warm-up rounds")
    known = list(dict.fromkeys(name for engines in ENGINES.values() for name in engines))
    parser.add_argument("--engines", nargs="+", choices=known, default=known)
    arguments = parser.parse_args()
    engines = {name: engine for name, engine in ENGINES[arguments.network].items() if name in arguments.engines}
    installed = [name for name, (_, package) in engines.items() if importlib.util.find_spec(package)]
    turns = Turns({name: engines[name][0] for name in installed}, dict.fromkeys(installed, (arguments,)))
    batch, times = random_batch(arguments.network, arguments), {name: [] for name in installed}
    for _ in range(arguments.rounds + 2):
        for name in installed:
            times[name].append(turns.ask(name, batch))
    medians = {name: statistics.median(of_engine[2:]) for name, of_engine in times.items()}
    for name, peak in turns.close().items():
        speed = arguments.batch * arguments.length / medians[name]
        ratio = f", ours is {medians[name] / medians['ours']:.2f} times as fast" if "ours" in medians else ""
        print(f"{name}: {speed:,.0f} tokens/s, {1000 * medians[name]:.0f} ms, peak memory {peak:,.0f} MB{ratio}")
    if "PyTorch" in installed:
        operations, speed = product_operations(arguments.network, arguments), product_speed()
        limit = f"{1000 * operations / speed:.0f} ms at NumPy's {speed / 1e9:.0f} GFLOP/s"
        print(f"The matrix products alone, {operations / 1e9:.1f} GFLOP, take {limit}.")


if __name__ == "__main__":
    sys.exit(guarded(main, "train_speed.py"))
