"""Training with two workers of one thread each, compared with one worker: tokens per second, and a projection.

    python benchmarks/scaling.py                              # 4 + 4 layers, 128 wide, batches of 8,192 tokens

Every worker is a process on a core of its own; two of them are joined by `--strategy multiworker`. All train the same
Transformer in float32 with shared embeddings, dropout 0.1 and Adam, on the same random tokens without padding. Printed
are the median over the rounds, the share of a step that the exchange of gradients takes (measured alone, on a vector of
their size), and a projection to more devices: the measured time of a step plus a ring exchange of the measured bytes at
the given bandwidth. The projection is arithmetic, not a measurement.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time

from keras_attention.cli.launch import free_ports
from keras_attention.cli.main import guarded
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import UserError

PROJECTIONS = {"8 GPUs of one machine": (8, 100e9), "4 hosts": (4, 25e9 / 8)}  # devices, bytes per second of each


def worker(index, ports, shape, pipe):
    """Trains, and sends the seconds of its steps and of its exchanges, and the bytes of an exchange."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[index]})
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    import keras
    import numpy as np
    import tensorflow as tf

    from keras_attention.models import Transformer
    from keras_attention.training.backends import compile_update
    from keras_attention.training.devices import use_strategy
    from keras_attention.training.losses import token_cross_entropy

    def loss(model, inputs, labels):
        return token_cross_entropy(labels, model(inputs, training=True))

    use_strategy("auto", lambda _: None)
    strategy = tf.distribute.get_strategy()
    keras.utils.set_random_seed(3)
    sizes = {"hidden_dim": shape.width, "intermediate_dim": 2 * shape.width, "num_heads": shape.heads}
    layers = {"num_encoder_layers": shape.layers, "num_decoder_layers": shape.layers}
    model = Transformer(shape.vocabulary, shape.vocabulary, **sizes, **layers, dropout=0.1)
    model.build()
    update = compile_update(model, keras.optimizers.Adam(1e-4), loss)
    ids = np.random.default_rng(0).integers(4, shape.vocabulary, (3, shape.batch, shape.length)).astype("int32")
    batch = dict(zip(("source_ids", "target_ids", "labels"), ids, strict=True))
    vector = tf.zeros(model.count_params())

    @tf.function
    def exchange():
        def sum_up():
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, vector)

        return strategy.run(sum_up)

    steps = [seconds_of(lambda: float(update(batch).total)) for _ in range(shape.rounds + 2)]
    exchanges = [seconds_of(exchange) for _ in range(shape.rounds + 2)]
    if not index:
        pipe.send((steps[2:], exchanges[2:], 4 * model.count_params()))


def seconds_of(function):
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def measure(count, shape):
    """The median seconds of a step and of an exchange among `count` workers, and the bytes of an exchange."""
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe(duplex=False)
    ports = free_ports(count)
    processes = [context.Process(target=worker, args=(i, ports, shape, theirs), daemon=True) for i in range(count)]
    for process in processes:
        process.start()
    steps, exchanges, size = pipe.recv()
    for process in processes:
        process.join()
    return statistics.median(steps), statistics.median(exchanges), size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 128), ("heads", 4), ("layers", 4), ("vocabulary", 10000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--batch", type=int, default=512, help="sentences, of all workers together")
    parser.add_argument("--length", type=int, default=16, help="tokens of each sentence")
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds, after two warm-up rounds")
    shape = parser.parse_args()
    if available_cores() < 2:
        raise UserError("Found 1 core that this may run on. Expected: 2 or more, one for each worker.")
    tokens = shape.batch * shape.length
    alone, *_ = measure(1, shape)
    print(f"1 worker: {tokens / alone:,.0f} tokens/s, {1000 * alone:.0f} ms a step", flush=True)
    joined, exchange, size = measure(2, shape)
    summary = f"2 workers: {tokens / joined:,.0f} tokens/s, {1000 * joined:.0f} ms a step, {alone / joined:.2f} times"
    print(f"{summary}; {1000 * exchange:.1f} ms or {exchange / joined:.1%} of a step exchange {size / 1e6:.1f} MB")
    for name, (devices, bandwidth) in PROJECTIONS.items():
        ring = 2 * (devices - 1) / devices * size / bandwidth
        speedup = devices * alone / (alone + ring)
        print(f"projection, {name} at {bandwidth / 1e9:.1f} GB/s, {tokens:,} tokens each: {speedup:.2f} times 1 device")


if __name__ == "__main__":
    sys.exit(guarded(main, "scaling.py"))
