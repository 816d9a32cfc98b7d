"""Our training steps compared with those of keras-hub, Keras and PyTorch: tokens per second at equal shapes.

    python benchmarks/train_speed.py                               # a Transformer, 4 + 4 layers, 128 wide
    python benchmarks/train_speed.py --network bert --batch 32 --length 128 --width 256
    python benchmarks/train_speed.py --network gpt --batch 12 --length 64      # nanoGPT's shape for a CPU
    python benchmarks/train_speed.py --network rnn --width 256

Every engine trains the same network in float32, with shared embeddings, dropout 0.1, cross-entropy and Adam, on the
same random tokens without padding. Each is a process of its own, and they take turns on the same cores. Printed for
each: the median over the rounds in tokens per second, peak memory, and how many times as fast ours is. keras-hub: its
layers in a functional model, trained by `train_on_batch`, with and without XLA. PyTorch: its own layers in eager mode,
for `gpt` the network of nanoGPT. Marian: Hugging Face's. The RNN is one GRU in both directions, one of twice the width,
then Bahdanau's attention. Needs `pip install .[benchmarks]`; an engine that is not installed is left out.

Results on two cores of an AMD EPYC: how many times as fast ours is, at the shapes above, and ours in tokens/s.

                              tokens/s   keras-hub, XLA   without XLA   PyTorch   Marian
    transformer                 13,300             1.39          1.69      2.41     2.47
    bert, vocabulary 8,000       3,343             1.43          1.50      1.40
    gpt, vocabulary 65           9,287     1.31 to 1.34  1.36 to 1.44   1.07 to 1.17
    rnn (Keras for keras-hub)    1,543             1.12          1.05      1.17

The first row is from 5 rounds in two runs, with PyTorch 2.14 and transformers 5.23; the others are with PyTorch 2.13:
5 rounds each, for gpt 15 rounds in two runs.
"""

import argparse
import importlib.util
import statistics
import sys

from taking_turns import Turns
from train_speed_engines import ENGINES, random_batch

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
    found = [name for name, (_, package) in engines.items() if importlib.util.find_spec(package)]
    turns = Turns({name: engines[name][0] for name in found}, dict.fromkeys(found, (arguments,)))
    batch, times = random_batch(arguments.network, arguments), {name: [] for name in found}
    for _ in range(arguments.rounds + 2):
        for name in found:
            times[name].append(turns.ask(name, batch))
    medians = {name: statistics.median(of_engine[2:]) for name, of_engine in times.items()}
    for name, peak in turns.close().items():
        speed = arguments.batch * arguments.length / medians[name]
        ratio = f", ours is {medians[name] / medians['ours']:.2f} times as fast" if "ours" in medians else ""
        print(f"{name}: {speed:,.0f} tokens/s, {1000 * medians[name]:.0f} ms, peak memory {peak:,.0f} MB{ratio}")


if __name__ == "__main__":
    sys.exit(guarded(main, "train_speed.py"))
