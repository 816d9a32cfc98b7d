"""The Transformer of one sentence pair in float64: one position and one head at a time, without padding or batches."""

import math

import numpy as np

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def transformer(weights, settings, source_ids, target_ids):
    """Logits (T, V) and weights {"encoder": (L, H, S, S), "decoder": (L, H, T, T), "cross": (L, H, T, S)}.

    With SSRUs in the decoder, "decoder" is empty.

    Args:
        weights: dict of arrays by their paths below the model, such as "decoder_0/cross_attention/query/kernel".
        settings: dict, the arguments of `Transformer`.
        source_ids, target_ids: lists of int (S) without padding and (T) with START.
    """
    weights = {path: np.asarray(weight, "float64") for path, weight in weights.items()}
    shown = {"encoder": [], "decoder": [], "cross": []}
    target_table = weights["target_embedding/embeddings"]
    source_table = target_table if settings["tie_embeddings"] == "all" else weights["source_embedding/embeddings"]
    source = embedded(weights, settings, "source", source_table, source_ids)
    for i in range(settings["num_encoder_layers"]):
        name = f"encoder_{i}"
        source = part(weights, settings, f"{name}/self_attention", source, lookers(shown["encoder"]))
        source = part(weights, settings, f"{name}/feed_forward", source, feed_forward)
    if settings["normalize_first"]:
        source = normalized(weights, "encoder_norm", source)
    target = embedded(weights, settings, "target", target_table, target_ids)
    for i in range(settings["num_decoder_layers"]):
        name = f"decoder_{i}"
        if settings["decoder"] == "ssru":
            target = part(weights, settings, f"{name}/ssru", target, ssru)
        else:
            target = part(weights, settings, f"{name}/self_attention", target, lookers(shown["decoder"], causal=True))
        target = part(weights, settings, f"{name}/cross_attention", target, lookers(shown["cross"], values=source))
        target = part(weights, settings, f"{name}/feed_forward", target, feed_forward)
    if settings["normalize_first"]:
        target = normalized(weights, "decoder_norm", target)
    table = weights["output_projection/kernel"] if settings["tie_embeddings"] == "none" else target_table.T
    bias = weights["output_bias"] if settings["output_bias"] else 0
    return np.array(target) @ table + bias, {name: np.array(of_layers) for name, of_layers in shown.items()}


def embedded(weights, settings, side, table, token_ids):
    width, vectors = settings["hidden_dim"], []
    for position, token in enumerate(token_ids):
        if settings["positions"] == "learned":
            place = weights[f"{side}_position/embeddings"][position]
        else:
            rates = [10000 ** (-2 * i / width) for i in range(width // 2)]
            place = np.ravel([(math.sin(position * rate), math.cos(position * rate)) for rate in rates])
        vectors.append(math.sqrt(width) * table[token] + place)
    return vectors


def part(weights, settings, name, vectors, function):
    """A part of a layer with its residual and its norm, for a list of vectors."""
    if settings["normalize_first"]:
        added = function(weights, settings, name, normalized(weights, f"{name}_norm", vectors))
        return [x + y for x, y in zip(vectors, added, strict=True)]
    added = function(weights, settings, name, vectors)
    return normalized(weights, f"{name}_norm", [x + y for x, y in zip(vectors, added, strict=True)])


def normalized(weights, name, vectors):
    gamma, beta = weights[f"{name}/gamma"], weights[f"{name}/beta"]
    return [gamma * (x - x.mean()) / math.sqrt(x.var() + 1e-5) + beta for x in vectors]


def feed_forward(weights, settings, name, vectors):
    inner, outer = ({kind: weights[f"{name}/{which}_dense/{kind}"] for kind in ("kernel", "bias")}
                    for which in ("intermediate", "output"))  # fmt: skip
    activation = ACTIVATIONS[settings["activation"]]
    return [activation(x @ inner["kernel"] + inner["bias"]) @ outer["kernel"] + outer["bias"] for x in vectors]


def ssru(weights, settings, name, vectors):
    kernel, gate, bias = (weights[f"{name}/{path}"] for path in ("projection/kernel", "gate/kernel", "gate/bias"))
    outputs, state = [], 0.0
    for x in vectors:
        forget = 1 / (1 + np.exp(-(x @ gate + bias)))
        state = forget * state + (1 - forget) * (x @ kernel)
        outputs.append(np.maximum(state, 0))
    return outputs


def lookers(records, values=None, causal=False):
    """An attention that appends its weights (H, T, S) to `records`; to itself unless `values` are given."""

    def attend(weights, settings, name, vectors):
        source = vectors if values is None else values

        def projected(what, head, x):
            kernel, bias = weights[f"{name}/{what}/kernel"], weights[f"{name}/{what}/bias"]
            return x @ kernel[:, head] + bias[head]

        outputs = [weights[f"{name}/attention_output/bias"] for _ in vectors]
        of_heads = np.zeros((settings["num_heads"], len(vectors), len(source)))
        for head in range(settings["num_heads"]):
            for t, x in enumerate(vectors):
                seen = source[: t + 1] if causal else source
                query = projected("query", head, x) / math.sqrt(settings["hidden_dim"] // settings["num_heads"])
                scores = np.exp([query @ projected("key", head, y) for y in seen])
                of_heads[head, t, : len(seen)] = scores / scores.sum()
                context = sum(w * projected("value", head, y) for w, y in zip(of_heads[head, t], source, strict=True))
                outputs[t] = outputs[t] + context @ weights[f"{name}/attention_output/kernel"][head]
        records.append(of_heads)
        return outputs

    return attend
