"""The RNN encoder-decoder of one sentence in float64: plain recurrences over lists, without padding or batches."""

import functools

import equations
import numpy as np


def seq2seq(weights, settings, source_ids, target_ids):
    """Logits (T, V) and attention weights (T, S) of one sentence pair.

    Args:
        weights: dict of arrays by their paths below the model, such as "decoder_0/input_projection/kernel".
        settings: dict, the arguments of `AttentionSeq2Seq`.
        source_ids, target_ids: lists of int (S) without padding and (T) with START.
    """
    weights = {path: np.asarray(weight, "float64") for path, weight in weights.items()}
    target_table = weights["target_embedding/embeddings"]
    source_table = target_table if settings["tie_embeddings"] == "all" else weights["source_embedding/embeddings"]
    value, summary = encode(weights, settings, [source_table[i] for i in source_ids])
    states = [first_state(settings, dense(weights, f"bridge_{i}", summary)) for i in range(settings["num_layers"])]
    output = np.zeros(settings["embedding_dim"])
    all_logits, all_attention = [], []
    for t, token in enumerate(target_ids):
        hidden = target_table[token]
        for i in range(settings["num_layers"]):
            fed = 0
            if i == 0 and settings["input_feeding"]:
                fed = output @ weights["feed_projection/kernel"]
            states[i] = recur(weights, settings, f"decoder_{i}", hidden, states[i], fed)
            hidden = states[i][0]
        context, attention = summary, None
        if settings["attention"] != "none":
            context, attention = attend(weights, settings, hidden, value, t)
        output = dense(weights, "combine", np.concatenate([context, hidden]))
        table = target_table.T
        if settings["tie_embeddings"] == "none":
            table = weights["output_projection/kernel"]
        all_logits.append(output @ table + weights["output_bias"])
        all_attention.append(attention)
    return np.array(all_logits), None if all_attention[0] is None else np.array(all_attention)


def encode(weights, settings, sequence):
    """What the encoder makes of a list of vectors: the annotations (S, hidden) and its summary (hidden,)."""
    for i in range(settings["num_layers"]):
        forward = read(weights, settings, f"encoder_forward_{i}", sequence)
        backward = read(weights, settings, f"encoder_backward_{i}", sequence[::-1])
        summary = np.concatenate([forward[-1], backward[-1]])
        sequence = [np.concatenate(pair) for pair in zip(forward, backward[::-1], strict=True)]
    return np.array(sequence), summary


def read(weights, settings, name, sequence):
    states, outputs = first_state(settings, np.zeros(settings["hidden_dim"] // 2)), []
    for x in sequence:
        states = recur(weights, settings, name, x, states)
        outputs.append(states[0])
    return outputs


def first_state(settings, hidden):
    return (hidden,) if settings["cell"] == "gru" else (hidden, np.zeros_like(hidden))


def recur(weights, settings, name, x, states, fed=0):
    """One step of a cell with fused weights; `fed` adds to the gates' share of the input."""
    from_input = x @ weights[f"{name}/input_projection/kernel"] + weights[f"{name}/input_projection/bias"] + fed
    from_state = states[0] @ weights[f"{name}/recurrent_projection/kernel"]
    if settings["cell"] == "gru":
        from_state = from_state + weights[f"{name}/recurrent_projection/bias"]
        return (gru(np.split(from_input, 3), np.split(from_state, 3), states[0]),)
    return lstm(np.split(from_input + from_state, 4), states[1])


def gru(from_input, from_state, hidden):
    """Cho et al. (2014), with the reset gate after the product: the next h."""
    z = sigmoid(from_input[0] + from_state[0])
    r = sigmoid(from_input[1] + from_state[1])
    n = np.tanh(from_input[2] + r * from_state[2])
    return z * hidden + (1 - z) * n


def lstm(gates, memory):
    """Hochreiter & Schmidhuber (1997) with a forget gate: the next h and c."""
    i, f, g, o = gates
    memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(memory), memory


def attend(weights, settings, hidden, value, t):
    """Context (hidden,) and weights (S,) of the decoder state at step `t`."""
    query, keys, mask = hidden[None, None], value[None], np.ones((1, 1, len(value)), bool)
    part = {path.removeprefix("attention/"): weight.T for path, weight in weights.items()}
    score = equations.dot_score
    if settings["attention"] == "general":
        score = functools.partial(equations.general_score, W_a=part["key_projection/kernel"])
    elif settings["attention"] in ("concat", "additive"):
        W_a, U_a = part["query_projection/kernel"], part["key_projection/kernel"]
        score = functools.partial(equations.concat_score, W_a=W_a, U_a=U_a, v_a=part["score_projection/kernel"][0])
    position = None
    if settings["attention_mode"] == "local_m":
        position = np.array([[t]])
    elif settings["attention_mode"] == "local_p":
        W_p, v_p = part["position_hidden/kernel"], part["position_projection/kernel"][0]
        position = equations.predicted_position(query, np.array([[len(value)]]), W_p, v_p)
    window, gaussian = settings["attention_window"], settings["attention_mode"] == "local_p"
    context, attention = equations.luong_attention(query, keys, keys, mask, score, position, window, gaussian)
    return context[0, 0], attention[0, 0]


def dense(weights, name, x):
    return np.tanh(x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
