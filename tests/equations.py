"""The papers' equations as plain loops over float64 numbers: slow, and easy to compare with the paper.

Shapes: query (B, T, Dq), key (B, S, Dk), value (B, S, Dv), mask (B, T, S) bool, True = may be attended to.
"""

import math

import numpy as np


def additive_attention(query, key, value, mask, W_a, U_a, v_a):
    """Bahdanau et al. (2015), section 3.1 and appendix A.1.2: context (B, T, Dv) and weights (B, T, S)."""
    return attention(query, key, value, mask, lambda q, k: concat_score(q, k, W_a, U_a, v_a))


def luong_attention(query, key, value, mask, score, aligned_position=None, window=None, gaussian=False):
    """Luong et al. (2015), sections 3.1 and 3.2. `score` is a function of q and k.

    Without `aligned_position` (B, T) the attention is global; `gaussian` makes local-m local-p.
    """
    mask = mask.copy()
    batch, num_queries, num_keys = mask.shape
    if aligned_position is None:
        return attention(query, key, value, mask, score)
    factor = np.ones(mask.shape)
    for b in range(batch):
        for t in range(num_queries):
            p = aligned_position[b, t]
            for s in range(num_keys):
                if s < p - window or s > p + window:
                    mask[b, t, s] = False
                if gaussian:
                    sigma = window / 2
                    factor[b, t, s] = math.exp(-((s - p) ** 2) / (2 * sigma**2))
    return attention(query, key, value, mask, score, factor)


def attention(query, key, value, mask, score, factor=None):
    """The average of the values, weighted by the softmax of the scores of the unmasked keys (times `factor`)."""
    query, key, value = (np.asarray(x, "float64") for x in (query, key, value))
    batch, num_queries, num_keys = mask.shape
    context = np.zeros((batch, num_queries, value.shape[-1]))
    weights = np.zeros(mask.shape)
    for b in range(batch):
        for t in range(num_queries):
            exponentials = {s: math.exp(score(query[b, t], key[b, s])) for s in range(num_keys) if mask[b, t, s]}
            for s, exponential in exponentials.items():
                weights[b, t, s] = exponential / sum(exponentials.values())
                if factor is not None:
                    weights[b, t, s] *= factor[b, t, s]
                context[b, t] += weights[b, t, s] * value[b, s]
    return context, weights


def multi_head_attention(query, key, value, mask, weights):
    """Vaswani et al. (2017), section 3.2.2, mask (B, H, T, S): output (B, T, D) and weights (B, H, T, S).

    `weights` are kernel (D, H, K) and bias (H, K) of query, key (with Hkv heads) and value, and kernel (H, V, D) and
    bias (D,) of the output. Ainslie et al. (2023), section 2.2: neighbouring heads share keys and values.
    """
    W_q, b_q, W_k, b_k, W_v, b_v, W_o, b_o = (np.asarray(x, "float64") for x in weights)
    batch, num_heads, num_queries, _ = mask.shape
    output = np.zeros((batch, num_queries, len(b_o)))
    all_weights = np.zeros(mask.shape)
    for h in range(num_heads):
        shared = h // (num_heads // W_k.shape[1])
        queries = query @ W_q[:, h] + b_q[h]
        keys, values = key @ W_k[:, shared] + b_k[shared], value @ W_v[:, shared] + b_v[shared]
        head, all_weights[:, h] = attention(
            queries, keys, values, mask[:, h], lambda q, k: dot_score(q, k) / math.sqrt(len(q))
        )
        output += head @ W_o[h]
    output[mask.any(axis=(1, 3))] += b_o  # without any key to attend to, the output is 0
    return output, all_weights


def positional_mask(num_queries, num_keys, causal=False, window=None):
    """Which key (T, S) a query may attend to by position: no future one, and none `window` or more away."""
    mask = np.ones((num_queries, num_keys), bool)
    for t in range(num_queries):
        for s in range(num_keys):
            if causal and s > t:
                mask[t, s] = False
            if window is not None and abs(t - s) >= window:
                mask[t, s] = False
    return mask


def sparse_mask(kind, sizes, num_queries, num_keys, causal, random_blocks=()):
    """Which key (T, S) a query may attend to: Child et al. (2019), section 4.3; Zaheer et al. (2020), appendix D.

    `random_blocks` are those of each block, -1 for none. Beltagy et al. (2020), section 3.1: a window.
    """
    mask = np.zeros((num_queries, num_keys), bool)
    for i in range(num_queries):
        for j in range(num_keys):
            if kind == "window":
                allowed = abs(i - j) < sizes["width"]
            elif kind == "strided":
                allowed = abs(i - j) <= sizes["stride"] if sizes["part"] == 1 else (i - j) % sizes["stride"] == 0
            elif kind == "fixed":
                same = i // sizes["stride"] == j // sizes["stride"]
                allowed = same if sizes["part"] == 1 else j % sizes["stride"] >= sizes["stride"] - sizes["summary"]
            else:
                a, b = i // sizes["block"], j // sizes["block"]
                allowed = min(a, b) < sizes["globals"] or abs(a - b) <= (sizes["window"] - 1) / 2
                allowed = allowed or (a < len(random_blocks) and b in random_blocks[a])
            mask[i, j] = allowed and not (causal and j > i)
    return mask


def dot_score(q, k):
    """Luong et al. (2015), equation 8, "dot"."""
    return sum(q_i * k_i for q_i, k_i in zip(q, k, strict=True))


def general_score(q, k, W_a):
    """Luong et al. (2015), equation 8, "general"; W_a is (Dq, Dk)."""
    return sum(q[i] * W_a[i, j] * k[j] for i in range(len(q)) for j in range(len(k)))


def concat_score(q, k, W_a, U_a, v_a):
    """Luong et al. (2015), equation 8, "concat" with W_a [q; k] in two blocks; Bahdanau's score is the same.

    W_a is (units, Dq), U_a (units, Dk), v_a (units,).
    """
    return sum(v_a[n] * math.tanh(dot_score(W_a[n], q) + dot_score(U_a[n], k)) for n in range(len(v_a)))


def predicted_position(query, lengths, W_p, v_p):
    """Luong et al. (2015), equation 9: p (B, T) for source lengths (B, T); W_p is (units, Dq), v_p (units,)."""
    position = np.zeros(query.shape[:2])
    for b in range(query.shape[0]):
        for t in range(query.shape[1]):
            logit = sum(v_p[n] * math.tanh(dot_score(W_p[n], query[b, t])) for n in range(len(v_p)))
            position[b, t] = lengths[b, t] / (1 + math.exp(-logit))
    return position


def sinusoids(positions, dim):
    """Vaswani et al. (2017), section 3.5: (len(positions), dim)."""
    waves = np.zeros((len(positions), dim))
    for row, position in enumerate(positions):
        for i in range(dim // 2):
            angle = position / 10000 ** (2 * i / dim)
            waves[row, 2 * i] = math.sin(angle)
            waves[row, 2 * i + 1] = math.cos(angle)
    return waves
