"""GPT for one text in float64: one position, one head and one pair of positions at a time."""

import math

import numpy as np

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "gelu_approximate": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def gpt(weights, settings, token_ids):
    """Logits (T, V) and attention weights (L, H, T, T).

    Args:
        weights: dict of arrays by their paths below the model, such as "layer_0/self_attention/query/kernel".
        settings: dict, the arguments of `GPT`.
        token_ids: list of T int, without padding.
    """
    weights = {path: np.asarray(weight, "float64") for path, weight in weights.items()}
    table, width, results = weights["token_embedding/embeddings"], settings["hidden_dim"], []
    vectors = []
    for position, token in enumerate(token_ids):
        place = np.zeros(width)
        if settings["positions"] == "learned":
            place = weights["position_embedding/embeddings"][position]
        if settings["positions"] == "sinusoidal":
            rates = [10000 ** (-2 * i / width) for i in range(width // 2)]
            place = np.ravel([(math.sin(position * rate), math.cos(position * rate)) for rate in rates])
        vectors.append(table[token] + place)
    for i in range(settings["num_layers"]):
        normed = [normalized(weights, settings, f"layer_{i}/self_attention_norm", x) for x in vectors]
        added, of_heads = attention(weights, settings, f"layer_{i}/self_attention", normed)
        vectors = [x + y for x, y in zip(vectors, added, strict=True)]
        results.append(of_heads)
        name = f"layer_{i}/feed_forward"
        normed = [normalized(weights, settings, f"{name}_norm", x) for x in vectors]
        vectors = [x + feed_forward(weights, settings, name, y) for x, y in zip(vectors, normed, strict=True)]
    outputs = [normalized(weights, settings, "final_norm", x) for x in vectors]
    return np.array([[x @ row for row in table] for x in outputs]), np.array(results)


def normalized(weights, settings, name, x):
    scale = math.sqrt(x.var() + settings["layer_norm_epsilon"])
    return weights[f"{name}/gamma"] * (x - x.mean()) / scale + weights[f"{name}/beta"]


def feed_forward(weights, settings, name, x):
    inner = x @ weights[f"{name}/intermediate_dense/kernel"] + weights[f"{name}/intermediate_dense/bias"]
    inner = ACTIVATIONS[settings["activation"]](inner)
    return inner @ weights[f"{name}/output_dense/kernel"] + weights[f"{name}/output_dense/bias"]


def attention(weights, settings, name, vectors):
    """What is added to each position, and the weights (H, T, T)."""
    heads, width = settings["num_heads"], settings["hidden_dim"] // settings["num_heads"]
    outputs = [weights[f"{name}/attention_output/bias"] for _ in vectors]
    of_heads = np.zeros((heads, len(vectors), len(vectors)))

    def projected(what, head, position):
        x = vectors[position] @ weights[f"{name}/{what}/kernel"][:, head] + weights[f"{name}/{what}/bias"][head]
        if settings["positions"] != "rotary" or what == "value":
            return x
        pairs = x[: width // 2] + 1j * x[width // 2 :]  # turned as complex numbers
        turned = [pair * np.exp(1j * position * 10000 ** (-2 * i / width)) for i, pair in enumerate(pairs)]
        return np.concatenate([np.real(turned), np.imag(turned)])

    for head in range(heads):
        for t in range(len(vectors)):
            query = projected("query", head, t)
            scores = np.zeros(t + 1)
            for s in range(t + 1):
                key = projected("key", head, s)
                if settings["positions"] == "relative":
                    key = key + weights[f"{name}/relative/embeddings"][t - s, head]
                scores[s] = np.exp(query @ key / math.sqrt(width))
            of_heads[head, t, : t + 1] = scores / scores.sum()
            context = sum(of_heads[head, t, s] * projected("value", head, s) for s in range(t + 1))
            outputs[t] = outputs[t] + context @ weights[f"{name}/attention_output/kernel"][head]
    return outputs, of_heads
