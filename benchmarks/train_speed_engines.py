"""The engines of train_speed.py: training steps of ours, of Keras or keras-hub, and of PyTorch for each network."""

import functools
import time

import numpy as np

DROPOUT = 0.1
RATE = 1e-4
PARTS_OF_MASKED = 6  # a sixth of the tokens of a BERT is masked


class Ours:
    """A model of this library and `compile_update`."""

    def __init__(self, shape):
        import keras

        from keras_attention.training.backends import compile_update
        from keras_attention.training.losses import token_cross_entropy

        def loss(model, inputs, labels):
            return token_cross_entropy(labels, model(inputs, training=True))

        model = self.model(shape)
        model.build()
        self.update = compile_update(model, keras.optimizers.Adam(RATE), loss)

    def __call__(self, batch):
        return seconds_of(lambda: np.asarray(self.update(batch).total))


class OurTransformer(Ours):
    def model(self, shape):
        from keras_attention.models import Transformer

        sizes = {"hidden_dim": shape.width, "intermediate_dim": 2 * shape.width, "num_heads": shape.heads}
        layers = {"num_encoder_layers": shape.layers, "num_decoder_layers": shape.layers}
        return Transformer(shape.vocabulary, shape.vocabulary, **sizes, **layers, dropout=DROPOUT)


class OurBert(Ours):
    def model(self, shape):
        from keras_attention.models import BertMaskedLM

        return BertMaskedLM(shape.vocabulary, **stack_of(shape), max_length=shape.length, dropout=DROPOUT)


class OurGPT(Ours):
    def model(self, shape):
        from keras_attention.models import GPT

        return GPT(shape.vocabulary, **stack_of(shape), max_length=shape.length, dropout=DROPOUT)


class OurRNN(Ours):
    """GRUs with Bahdanau's attention, without input feeding, like the other engines."""

    def model(self, shape):
        from keras_attention.models import AttentionSeq2Seq

        options = {"tie_embeddings": "all", "input_feeding": False, "dropout": DROPOUT}
        return AttentionSeq2Seq(shape.vocabulary, shape.vocabulary, shape.width, 2 * shape.width, **options)


class KerasHub:
    """keras-hub's layers in a functional model, trained by `train_on_batch`; `jit_compile` turns XLA on or off."""

    def __init__(self, shape, jit_compile=True):
        import keras

        inputs, logits = self.graph(shape)
        self.names = list(inputs)
        self.model = keras.Model(inputs, logits)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
        self.model.compile(keras.optimizers.Adam(RATE), loss, jit_compile=jit_compile)

    def __call__(self, batch):
        inputs = {name: batch[name] for name in self.names}
        return seconds_of(lambda: self.model.train_on_batch(inputs, batch["labels"]))


class HubTransformer(KerasHub):
    def graph(self, shape):
        import keras
        import keras_hub

        embedding = keras_hub.layers.ReversibleEmbedding(shape.vocabulary, shape.width)
        position = keras_hub.layers.SinePositionEncoding()
        sizes = {"intermediate_dim": 2 * shape.width, "num_heads": shape.heads, "dropout": DROPOUT}
        inputs = inputs_of("source_ids", "target_ids")
        source_mask = inputs["source_ids"] != 0

        def embed(ids):
            vectors = embedding(ids) * shape.width**0.5
            return keras.layers.Dropout(DROPOUT)(vectors + position(vectors))

        x, y = (embed(ids) for ids in inputs.values())
        for _ in range(shape.layers):
            x = keras_hub.layers.TransformerEncoder(**sizes)(x, padding_mask=source_mask)
        for _ in range(shape.layers):
            y = keras_hub.layers.TransformerDecoder(**sizes)(y, x, encoder_padding_mask=source_mask)
        return inputs, embedding(y, reverse=True)


class HubBert(KerasHub):
    def graph(self, shape):
        import keras
        import keras_hub

        embedding = keras_hub.layers.TokenAndPositionEmbedding(shape.vocabulary, shape.length, shape.width)
        inputs = inputs_of("token_ids", "masked_positions")
        padding_mask = inputs["token_ids"] != 0
        x = keras.layers.LayerNormalization()(embedding(inputs["token_ids"]))
        x = keras.layers.Dropout(DROPOUT)(x)
        for _ in range(shape.layers):
            x = keras_hub.layers.TransformerEncoder(4 * shape.width, shape.heads, dropout=DROPOUT, activation="gelu")(
                x, padding_mask=padding_mask
            )
        head = keras_hub.layers.MaskedLMHead(token_embedding=embedding.token_embedding, intermediate_activation="gelu")
        return inputs, head(x, mask_positions=inputs["masked_positions"])


class HubGPT(KerasHub):
    def graph(self, shape):
        import keras
        import keras_hub

        embedding = keras_hub.layers.TokenAndPositionEmbedding(shape.vocabulary, shape.length, shape.width)
        inputs = inputs_of("token_ids")
        x = keras.layers.Dropout(DROPOUT)(embedding(inputs["token_ids"]))
        options = {"dropout": DROPOUT, "activation": gelu_by_tanh, "normalize_first": True}
        for _ in range(shape.layers):
            x = keras_hub.layers.TransformerDecoder(4 * shape.width, shape.heads, **options)(x)
        x = keras.layers.LayerNormalization()(x)
        return inputs, embedding.token_embedding(x, reverse=True)


class KerasRNN(KerasHub):
    """Keras's own GRUs and AdditiveAttention; keras-hub has none."""

    def graph(self, shape):
        import keras

        embedding = keras.layers.Embedding(shape.vocabulary, shape.width)
        inputs = inputs_of("source_ids", "target_ids")
        x, y = (keras.layers.Dropout(DROPOUT)(embedding(ids)) for ids in inputs.values())
        mask = inputs["source_ids"] != 0
        reader = keras.layers.GRU(shape.width, return_sequences=True, return_state=True)
        x, _, backward = keras.layers.Bidirectional(reader)(x, mask=mask)
        state = keras.layers.Dense(2 * shape.width, activation="tanh")(backward)
        y = keras.layers.GRU(2 * shape.width, return_sequences=True)(y, initial_state=state)
        query, key = keras.layers.Dense(2 * shape.width)(y), keras.layers.Dense(2 * shape.width)(x)
        context = keras.layers.AdditiveAttention()([query, x, key], mask=[None, mask])
        output = keras.layers.Dense(shape.width, activation="tanh")(keras.layers.Concatenate()([context, y]))
        output = keras.layers.Dropout(DROPOUT)(output)
        return inputs, keras.ops.matmul(output, keras.ops.transpose(embedding.embeddings))


class PyTorch:
    """A module of PyTorch in its eager mode, with Adam."""

    def __init__(self, shape):
        import torch

        self.torch, self.model = torch, self.module(shape).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)

    def logits(self, inputs):
        return self.model(**inputs)

    def __call__(self, batch):
        tensors = {name: self.torch.tensor(ids, dtype=self.torch.long) for name, ids in batch.items()}
        labels = tensors.pop("labels")
        return seconds_of(lambda: self.step(tensors, labels))

    def step(self, inputs, labels):
        logits = self.logits(inputs).flatten(0, 1)
        loss = self.torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=0)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


class TorchTransformer(PyTorch):
    """`torch.nn.Transformer` between shared embeddings."""

    def module(self, shape):
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

        return Model()


class TorchBert(PyTorch):
    """`torch.nn.TransformerEncoder` with BERT's embeddings and head."""

    def module(self, shape):
        import torch
        from torch import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens = nn.Embedding(shape.vocabulary, shape.width)
                self.positions = nn.Parameter(torch.randn(shape.length, shape.width) / 50)
                self.start = nn.Sequential(nn.LayerNorm(shape.width), nn.Dropout(DROPOUT))
                options = {"activation": "gelu", "batch_first": True}
                layer = nn.TransformerEncoderLayer(shape.width, shape.heads, 4 * shape.width, DROPOUT, **options)
                self.body = nn.TransformerEncoder(layer, shape.layers)
                self.head = nn.Sequential(nn.Linear(shape.width, shape.width), nn.GELU(), nn.LayerNorm(shape.width))
                self.bias = nn.Parameter(torch.zeros(shape.vocabulary))

            def forward(self, token_ids, masked_positions):
                x = self.start(self.tokens(token_ids) + self.positions)
                x = self.body(x, src_key_padding_mask=token_ids == 0)
                x = x.gather(1, masked_positions[:, :, None].expand(-1, -1, shape.width))
                return self.head(x) @ self.tokens.weight.T + self.bias

        return Model()


class TorchGPT(PyTorch):
    """The network of GPT-2 with PyTorch's fused attention, as in nanoGPT: pre-norm, tied embeddings, no biases."""

    def module(self, shape):
        import torch
        from torch import nn

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norms = nn.ModuleList([nn.LayerNorm(shape.width, bias=False) for _ in range(2)])
                self.joined = nn.Linear(shape.width, 3 * shape.width, bias=False)
                self.output = nn.Linear(shape.width, shape.width, bias=False)
                inner = (nn.Linear(shape.width, 4 * shape.width, bias=False), nn.GELU())
                outer = (nn.Linear(4 * shape.width, shape.width, bias=False), nn.Dropout(DROPOUT))
                self.feed_forward = nn.Sequential(*inner, *outer)
                self.dropout = nn.Dropout(DROPOUT)

            def forward(self, x):
                heads = self.joined(self.norms[0](x)).unflatten(-1, (3, shape.heads, -1)).permute(2, 0, 3, 1, 4)
                y = nn.functional.scaled_dot_product_attention(*heads, dropout_p=DROPOUT, is_causal=True)
                x = x + self.dropout(self.output(y.transpose(1, 2).flatten(2)))
                return x + self.feed_forward(self.norms[1](x))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens = nn.Embedding(shape.vocabulary, shape.width)
                self.positions = nn.Parameter(torch.randn(shape.length, shape.width) / 50)
                self.dropout = nn.Dropout(DROPOUT)
                blocks = [Block() for _ in range(shape.layers)]
                self.body = nn.Sequential(*blocks, nn.LayerNorm(shape.width, bias=False))

            def forward(self, token_ids):
                return self.body(self.dropout(self.tokens(token_ids) + self.positions)) @ self.tokens.weight.T

        return Model()


class TorchRNN(PyTorch):
    """PyTorch's GRUs, which have their own kernels, and Bahdanau's attention."""

    def module(self, shape):
        import torch
        from torch import nn

        width, state = shape.width, 2 * shape.width

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(shape.vocabulary, width)
                self.reader = nn.GRU(width, width, bidirectional=True, batch_first=True)
                self.bridge = nn.Linear(width, state)
                self.writer = nn.GRU(width, state, batch_first=True)
                self.query, self.key = nn.Linear(state, state), nn.Linear(state, state)
                self.score = nn.Linear(state, 1, bias=False)
                self.combine = nn.Linear(2 * state, width)
                self.dropout = nn.Dropout(DROPOUT)

            def forward(self, source_ids, target_ids):
                x, states = self.reader(self.dropout(self.table(source_ids)))
                y, _ = self.writer(self.dropout(self.table(target_ids)), torch.tanh(self.bridge(states[1]))[None])
                scores = self.score(torch.tanh(self.query(y)[:, :, None] + self.key(x)[:, None])).squeeze(-1)
                weights = scores.masked_fill((source_ids == 0)[:, None], -1e9).softmax(-1)
                output = torch.tanh(self.combine(torch.cat([weights @ x, y], -1)))
                return self.dropout(output) @ self.table.weight.T

        return Model()


class Marian(PyTorch):
    """`transformers.MarianMTModel`."""

    def module(self, shape):
        from transformers import MarianConfig, MarianMTModel

        sizes = {"d_model": shape.width, "vocab_size": shape.vocabulary, "dropout": DROPOUT, "pad_token_id": 0}
        for side in ("encoder", "decoder"):
            sizes[f"{side}_layers"], sizes[f"{side}_ffn_dim"] = shape.layers, 2 * shape.width
            sizes[f"{side}_attention_heads"] = shape.heads
        sizes |= {"attention_dropout": DROPOUT, "activation_function": "relu", "decoder_start_token_id": 2}
        return MarianMTModel(MarianConfig(**sizes, scale_embedding=True, eos_token_id=3))

    def logits(self, inputs):
        options = {"attention_mask": inputs["source_ids"] != 0, "use_cache": False}
        return self.model(input_ids=inputs["source_ids"], decoder_input_ids=inputs["target_ids"], **options).logits


def _engines(ours, hub, torch, package="keras_hub", name="keras-hub"):
    """Dict from a name to (class or function of a shape, package that it needs)."""
    others = {f"{name}, XLA": (hub, package), name: (functools.partial(hub, jit_compile=False), package)}
    return {"ours": (ours, "keras"), **others, "PyTorch": (torch, "torch")}


ENGINES = {
    "transformer": _engines(OurTransformer, HubTransformer, TorchTransformer) | {"Marian": (Marian, "transformers")},
    "bert": _engines(OurBert, HubBert, TorchBert),
    "gpt": _engines(OurGPT, HubGPT, TorchGPT),
    "rnn": _engines(OurRNN, KerasRNN, TorchRNN, "keras", "Keras"),
}


def stack_of(shape):
    sizes = {"hidden_dim": shape.width, "intermediate_dim": 4 * shape.width}
    return {**sizes, "num_heads": shape.heads, "num_layers": shape.layers}


def inputs_of(*names):
    import keras

    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}


def gelu_by_tanh(x):
    import keras

    return keras.activations.gelu(x, approximate=True)


def product_operations(network, shape):
    """Floating-point operations of the matrix products in one update, as PyTorch counts them for its own network."""
    from torch.utils.flop_counter import FlopCounterMode

    engine = ENGINES[network]["PyTorch"][0](shape)
    with FlopCounterMode(display=False) as counter:
        engine(random_batch(network, shape))
    return counter.get_total_flops()


def product_speed(size=1024, repeats=20):
    """Floating-point operations per second of NumPy's product of two square matrices in float32, on all cores."""
    matrix = np.random.default_rng(0).normal(size=(size, size)).astype("float32")
    return 2 * size**3 / np.median([seconds_of(lambda: matrix @ matrix) for _ in range(repeats)])


def seconds_of(function):
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def sinusoids(length, width):
    angles = np.arange(length)[:, None] * 10000.0 ** -(np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width).astype("float32")


def random_batch(network, shape, seed=0):
    """Dict of int32 arrays: `labels` and the inputs of the network."""
    rng = np.random.default_rng(seed)
    first, second, labels = rng.integers(4, shape.vocabulary, (3, shape.batch, shape.length)).astype("int32")
    if network == "gpt":
        return {"token_ids": first, "labels": labels}
    if network == "bert":
        masked = max(shape.length // PARTS_OF_MASKED, 1)
        positions = rng.permuted(np.tile(np.arange(shape.length, dtype="int32"), (shape.batch, 1)), axis=1)
        return {"token_ids": first, "masked_positions": positions[:, :masked], "labels": labels[:, :masked]}
    return {"source_ids": first, "target_ids": second, "labels": labels}
