"""Our training step beside those of keras-hub and PyTorch: tokens per second at equal shapes.

    python benchmarks/train_speed.py                               # 4 + 4 layers, 128 wide
    python benchmarks/train_speed.py --width 256 --length 32

Every engine trains the same Transformer in float32, with shared embeddings, dropout 0.1, cross-entropy and Adam, on the
same random tokens without padding. Each is a process of its own, and they take turns on the same cores. Printed for
each: the median over the rounds in target tokens per second, peak memory, and how many times as fast ours is. keras-hub
is its layers in a functional model, through `train_on_batch` compiled by XLA and not; PyTorch is `nn.Transformer`;
Marian is Hugging Face's. Needs `pip install .[benchmarks]`; an engine that is not installed is left out.

Result on two cores of an AMD EPYC, at the default sizes, 5 rounds, in two runs: ours 13,300 tokens/s, 1.39 times as
fast as keras-hub compiled by XLA (1.69 without); and 12,300 tokens/s, 2.41 times as fast as PyTorch 2.14 and 2.47 times
as fast as Marian of transformers 5.23.
"""

import argparse
import importlib.util
import statistics
import sys
import time

import numpy as np
from taking_turns import Turns

from keras_attention.cli.main import guarded

DROPOUT = 0.1
RATE = 1e-4


class Ours:
    """`Transformer` and `compile_update`."""

    def __init__(self, shape):
        import keras

        from keras_attention.models import Transformer
        from keras_attention.training.backends import compile_update
        from keras_attention.training.objective import token_cross_entropy

        def loss(model, inputs, labels):
            return token_cross_entropy(labels, model(inputs, training=True))

        sizes = {"hidden_dim": shape.width, "intermediate_dim": 2 * shape.width, "num_heads": shape.heads}
        layers = {"num_encoder_layers": shape.layers, "num_decoder_layers": shape.layers}
        model = Transformer(shape.vocabulary, shape.vocabulary, **sizes, **layers, dropout=DROPOUT)
        model.build()
        self.update = compile_update(model, keras.optimizers.Adam(RATE), loss)

    def __call__(self, batch):
        return seconds_of(lambda: np.asarray(self.update(batch).total))


class KerasHub:
    """keras-hub's layers in a functional model."""

    jit_compile = True

    def __init__(self, shape):
        import keras
        import keras_hub

        embedding = keras_hub.layers.ReversibleEmbedding(shape.vocabulary, shape.width)
        position = keras_hub.layers.SinePositionEncoding()
        sizes = {"intermediate_dim": 2 * shape.width, "num_heads": shape.heads, "dropout": DROPOUT}
        inputs = [keras.Input((None,), dtype="int32", name=name) for name in ("source_ids", "target_ids")]
        source_mask = inputs[0] != 0
        x, y = (keras.layers.Dropout(DROPOUT)(self.embed(embedding, position, ids)) for ids in inputs)
        for _ in range(shape.layers):
            x = keras_hub.layers.TransformerEncoder(**sizes)(x, padding_mask=source_mask)
        for _ in range(shape.layers):
            y = keras_hub.layers.TransformerDecoder(**sizes)(y, x, encoder_padding_mask=source_mask)
        self.model = keras.Model(inputs, embedding(y, reverse=True))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
        self.model.compile(keras.optimizers.Adam(RATE), loss, jit_compile=self.jit_compile)

    def embed(self, embedding, position, ids):
        vectors = embedding(ids) * embedding.output_dim**0.5
        return vectors + position(vectors)

    def __call__(self, batch):
        inputs = [batch["source_ids"], batch["target_ids"]]
        return seconds_of(lambda: self.model.train_on_batch(inputs, batch["labels"]))


class KerasHubWithoutXla(KerasHub):
    """The same without XLA."""

    jit_compile = False


class PyTorch:
    """`torch.nn.Transformer` between shared embeddings."""

    def __init__(self, shape):
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(shape.vocabulary, shape.width)
                sizes = (shape.width, shape.heads, shape.layers, shape.layers, 2 * shape.width, DROPOUT)
                self.body = torch.nn.Transformer(*sizes, batch_first=True)
                self.dropout = torch.nn.Dropout(DROPOUT)
                self.waves = torch.tensor(sinusoids(shape.length, shape.width))

            def forward(self, source_ids, target_ids):
                x, y = (
                    self.dropout(self.table(ids) * shape.width**0.5 + self.waves) for ids in (source_ids, target_ids)
                )
                padding = source_ids == 0
                mask = self.body.generate_square_subsequent_mask(shape.length)
                options = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
                y = self.body(x, y, tgt_mask=mask, tgt_is_causal=True, **options)
                return y @ self.table.weight.T

        self.prepare(Model())

    def prepare(self, model):
        import torch

        self.torch, self.model = torch, model.train()
        self.optimizer = torch.optim.Adam(model.parameters(), RATE)

    def logits(self, source_ids, target_ids):
        return self.model(source_ids, target_ids)

    def __call__(self, batch):
        tensors = {name: self.torch.tensor(ids, dtype=self.torch.long) for name, ids in batch.items()}
        return seconds_of(lambda: self.update(tensors))

    def update(self, batch):
        logits = self.logits(batch["source_ids"], batch["target_ids"]).flatten(0, 1)
        loss = self.torch.nn.functional.cross_entropy(logits, batch["labels"].flatten(), ignore_index=0)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Marian(PyTorch):
    """`transformers.MarianMTModel`."""

    def __init__(self, shape):
        from transformers import MarianConfig, MarianMTModel

        sizes = {"d_model": shape.width, "vocab_size": shape.vocabulary, "dropout": DROPOUT, "pad_token_id": 0}
        for side in ("encoder", "decoder"):
            sizes[f"{side}_layers"], sizes[f"{side}_ffn_dim"] = shape.layers, 2 * shape.width
            sizes[f"{side}_attention_heads"] = shape.heads
        sizes |= {"attention_dropout": DROPOUT, "activation_function": "relu", "decoder_start_token_id": 2}
        self.prepare(MarianMTModel(MarianConfig(**sizes, scale_embedding=True, eos_token_id=3)))

    def logits(self, source_ids, target_ids):
        options = {"attention_mask": source_ids != 0, "use_cache": False}
        return self.model(input_ids=source_ids, decoder_input_ids=target_ids, **options).logits


ENGINES = {
    "ours": (Ours, "keras"),
    "keras-hub, XLA": (KerasHub, "keras_hub"),
    "keras-hub": (KerasHubWithoutXla, "keras_hub"),
    "PyTorch": (PyTorch, "torch"),
    "Marian": (Marian, "transformers"),
}


def seconds_of(function):
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def sinusoids(length, width):
    angles = np.arange(length)[:, None] * 10000.0 ** -(np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width).astype("float32")


def random_batch(shape, seed=0):
    ids = np.random.default_rng(seed).integers(4, shape.vocabulary, (3, shape.batch, shape.length)).astype("int32")
    return dict(zip(("source_ids", "target_ids", "labels"), ids, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 128), ("heads", 4), ("layers", 4), ("vocabulary", 10000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--batch", type=int, default=64, help="sentences")
    parser.add_argument("--length", type=int, default=16, help="tokens of each sentence")
    parser.add_argument("--rounds", type=int, default=7, help="after two that do not count")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    arguments = parser.parse_args()
    found = [name for name in arguments.engines if importlib.util.find_spec(ENGINES[name][1])]
    turns = Turns({name: ENGINES[name][0] for name in found}, dict.fromkeys(found, (arguments,)))
    batch, times = random_batch(arguments), {name: [] for name in found}
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
