"""BERT in float64 over the tensors of `transformers`, written from the paper: one text, one position at a time."""

import math

import numpy as np

ACTIVATIONS = {
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "gelu_new": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


class Reference:
    """The outputs for one text without padding.

    Args:
        tensors: dict of arrays by the names that `BertForPreTraining` has; also "classifier.weight" and ".bias".
        config: dict, its configuration.
    """

    def __init__(self, tensors, config):
        self.tensors = {name: np.asarray(values, "float64") for name, values in tensors.items()}
        self.config = config
        self.activation = ACTIVATIONS[config["hidden_act"]]

    def encoder(self, token_ids, segment_ids):
        """Vectors (T, D)."""
        tables = [f"bert.embeddings.{what}_embeddings.weight" for what in ("word", "token_type", "position")]
        x = []
        for row in zip(token_ids, segment_ids, range(len(token_ids)), strict=True):
            vector = sum(self.tensors[table][i] for table, i in zip(tables, row, strict=True))
            x.append(self.norm("bert.embeddings.LayerNorm", vector))
        for i in range(self.config["num_hidden_layers"]):
            x = self.layer(f"bert.encoder.layer.{i}", x)
        return np.array(x)

    def layer(self, name, x):
        contexts = self.attention(f"{name}.attention.self", x)
        x = [
            self.norm(f"{name}.attention.output.LayerNorm", y + self.dense(f"{name}.attention.output.dense", context))
            for y, context in zip(x, contexts, strict=True)
        ]
        inner = [self.activation(self.dense(f"{name}.intermediate.dense", y)) for y in x]
        outputs = [self.dense(f"{name}.output.dense", y) for y in inner]
        return [self.norm(f"{name}.output.LayerNorm", y + z) for y, z in zip(x, outputs, strict=True)]

    def attention(self, name, x):
        heads = self.config["num_attention_heads"]
        query, key, value = (
            [np.split(self.dense(f"{name}.{what}", y), heads) for y in x] for what in ("query", "key", "value")
        )
        contexts = []
        for q in query:
            joined = []
            for head in range(heads):
                scores = np.array([q[head] @ k[head] for k in key]) / math.sqrt(len(q[head]))
                weights = np.exp(scores) / np.exp(scores).sum()
                joined.append(sum(weight * v[head] for weight, v in zip(weights, value, strict=True)))
            contexts.append(np.concatenate(joined))
        return contexts

    def masked_lm(self, token_ids, segment_ids):
        """Logits (T, V)."""
        logits, name = [], "cls.predictions.transform"
        for y in self.encoder(token_ids, segment_ids):
            y = self.norm(f"{name}.LayerNorm", self.activation(self.dense(f"{name}.dense", y)))
            table, bias = self.tensors["bert.embeddings.word_embeddings.weight"], self.tensors["cls.predictions.bias"]
            logits.append(table @ y + bias)
        return np.array(logits)

    def classifier(self, token_ids, segment_ids, activation=np.tanh):
        """Logits (num_labels,)."""
        pooled = activation(self.dense("bert.pooler.dense", self.encoder(token_ids, segment_ids)[0]))
        return self.dense("classifier", pooled)

    def dense(self, name, x):
        return self.tensors[f"{name}.weight"] @ x + self.tensors[f"{name}.bias"]

    def norm(self, name, x):
        scale, shift = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return scale * (x - x.mean()) / math.sqrt(x.var() + self.config["layer_norm_eps"]) + shift
