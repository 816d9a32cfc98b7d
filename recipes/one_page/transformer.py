"""The Transformer that converts dates, on one page (Vaswani et al. 2017).

    python recipes/one_page/transformer.py

It reads "le 14 juillet 1989", in any of many languages, and writes "1989-07-14". Data, attention, layers, positions,
masks, greedy search, loss, schedule and update stand below, with the equations of https://arxiv.org/abs/1706.03762.

Shapes: B pairs in a batch, S characters of a source, T characters of a target, D width, H heads, V target characters.

Differences from the paper: no dropout and no label smoothing, because the data never run out; source and target have
embeddings of their own. `recipes/transformer.py` trains the same network for real use.

Result, seed 1: 98.0 % of 1,000 held-out dates, in four minutes of a processor.
"""

import math
import time

import keras
import numpy as np
import tensorflow as tf

from keras_attention.data.dates import generate_dates

WIDTH = 64  # D (d_model in the paper)
HEADS = 4  # H; each is D / H wide (d_k)
INNER = 128  # width inside the feed-forward networks (d_ff)
LAYERS = 2  # of the encoder, and as many of the decoder (N)
SOURCE_LENGTH = 32  # S, characters; longer dates are cut
PAIRS = 60_000  # generated for training
BATCH = 128  # B, pairs
STEPS = 2_000  # updates
WARMUP = 400  # updates until the learning rate has its peak
PAD, UNKNOWN, START, END = range(4)


# ---- Data: texts become rows of character ids. PAD fills the end, START and END stand around each target.
def as_ids(texts, alphabet, length):
    ids = np.full((len(texts), length), PAD, "int32")
    for row, text in zip(ids, texts, strict=True):
        known = [alphabet.get(character, UNKNOWN) for character in text.lower()[:length]]
        row[: len(known)] = known
    return ids


def alphabet_of(texts):
    return {character: number for number, character in enumerate(sorted(set("".join(texts).lower())), start=END + 1)}


def encode_pairs(sources, targets, source_alphabet, target_alphabet):
    target_ids = np.pad(as_ids(targets, target_alphabet, 10), ((0, 0), (1, 1)), constant_values=(START, END))
    return as_ids(sources, source_alphabet, SOURCE_LENGTH), target_ids  # (pairs, S) and (pairs, 1 + T)


# ---- Attention, section 3.2.
def attend(query, key, value, mask):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, equation 1. True in the mask means "may be attended to"."""
    scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(query.shape[-1])  # (B, H, T, S)
    weights = tf.nn.softmax(tf.where(mask, scores, -1e9))  # what is masked gets weight 0
    return tf.matmul(weights, value)  # (B, H, T, D / H)


class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1 ... head_h) W^O, section 3.2.2. Each head attends to its own projections."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output_projection = (keras.layers.Dense(WIDTH) for _ in range(4))

    def call(self, query, memory, mask):
        heads = (self.split(self.query(query)), self.split(self.key(memory)), self.split(self.value(memory)))
        context = tf.transpose(attend(*heads, mask), [0, 2, 1, 3])  # (B, T, H, D / H)
        return self.output_projection(tf.reshape(context, tf.shape(query)))  # (B, T, D)

    def split(self, states):
        """(B, T, D) -> (B, H, T, D / H)"""
        shape = tf.shape(states)
        return tf.transpose(tf.reshape(states, [shape[0], shape[1], HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


# ---- Encoder and decoder, section 3.1: each sub-layer's output is LayerNorm(x + Sublayer(x)).
class Layer(keras.layers.Layer):
    def __init__(self, is_decoder):
        super().__init__()
        self.attentions = [MultiHeadAttention() for _ in range(1 + is_decoder)]
        self.inner, self.outer = keras.layers.Dense(INNER, "relu"), keras.layers.Dense(WIDTH)
        self.norms = [keras.layers.LayerNormalization() for _ in range(2 + is_decoder)]

    def call(self, states, mask, memory=None, memory_mask=None):
        states = self.norms[0](states + self.attentions[0](states, states, mask))  # self-attention
        if memory is not None:
            states = self.norms[1](states + self.attentions[1](states, memory, memory_mask))  # to the source
        return self.norms[-1](states + self.outer(self.inner(states)))  # max(0, x W_1 + b_1) W_2 + b_2, equation 2


def positional_encoding(length):
    """PE(pos, 2i) = sin(pos / 10000^(2i / D)), PE(pos, 2i + 1) = cos of the same, section 3.5 (length, D)."""
    angles = np.arange(length)[:, None] / 10_000 ** (np.arange(0, WIDTH, 2) / WIDTH)  # (length, D / 2)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, WIDTH).astype("float32")


class Transformer(keras.Model):
    def __init__(self, source_size, target_size):
        super().__init__()
        self.source_embedding = keras.layers.Embedding(source_size, WIDTH)
        self.target_embedding = keras.layers.Embedding(target_size, WIDTH)
        self.encoder = [Layer(is_decoder=False) for _ in range(LAYERS)]
        self.decoder = [Layer(is_decoder=True) for _ in range(LAYERS)]
        self.to_logits = keras.layers.Dense(target_size)

    def call(self, source, target):
        """Logits of each target character, given the true characters before it (B, T, V)."""
        source_mask = (source != PAD)[:, None, None]  # the padding mask (B, 1, 1, S)
        memory = self.source_embedding(source) * math.sqrt(WIDTH) + positional_encoding(source.shape[1])  # (B, S, D)
        for layer in self.encoder:
            memory = layer(memory, source_mask)
        length = target.shape[1]
        causal_mask = np.tril(np.ones((length, length), bool))  # position t sees positions up to t (T, T)
        states = self.target_embedding(target) * math.sqrt(WIDTH) + positional_encoding(length)  # (B, T, D)
        for layer in self.decoder:
            states = layer(states, causal_mask, memory, source_mask)
        return self.to_logits(states)

    @tf.function
    def greedy(self, source, length):
        """Appends the most probable character `length` times; computes all positions again each time (B, T)."""
        target = tf.fill([source.shape[0], 1], START)
        for _ in range(length):
            following = tf.argmax(self(source, target)[:, -1], axis=-1, output_type=tf.int32)
            target = tf.concat([target, following[:, None]], axis=1)
        return target[:, 1:]


# ---- Learning, section 5.
def cross_entropy(labels, logits):
    """Mean of -log p(label) over the characters that are not padding."""
    log_probabilities = tf.nn.log_softmax(logits)  # (B, T, V)
    of_labels = tf.gather(log_probabilities, labels, batch_dims=2)  # (B, T)
    counted = tf.cast(labels != PAD, "float32")
    return -tf.reduce_sum(of_labels * counted) / tf.reduce_sum(counted)


def learning_rate(step):
    """D^-0.5 * min(step^-0.5, step * warmup^-1.5), equation 3; steps count from 1."""
    return WIDTH**-0.5 * min(step**-0.5, step * WARMUP**-1.5)


def main():
    keras.utils.set_random_seed(1)
    sources, targets = generate_dates(PAIRS, seed=1)
    alphabets = alphabet_of(sources), alphabet_of(targets)
    source, target = encode_pairs(sources, targets, *alphabets)
    test_sources, test_targets = generate_dates(1_000, seed=1, split="test")  # of days that are in no training pair
    test_source, test_target = encode_pairs(test_sources, test_targets, *alphabets)

    model = Transformer(*(END + 1 + len(alphabet) for alphabet in alphabets))
    optimizer = keras.optimizers.Adam(beta_2=0.98, epsilon=1e-9)

    @tf.function
    def update(source, target):
        inputs, labels = target[:, :-1], target[:, 1:]  # the shift: from START y_1 y_2 predict y_1 y_2 END
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, model(source, inputs))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    random, started = np.random.default_rng(1), time.perf_counter()
    for step in range(1, STEPS + 1):
        chosen = random.integers(len(source), size=BATCH)
        optimizer.learning_rate = learning_rate(step)
        loss = update(source[chosen], target[chosen])
        if step % max(1, STEPS // 10) == 0:
            written = model.greedy(test_source, target.shape[1] - 1).numpy()
            score = 100 * np.mean(np.all(written == test_target[:, 1:], axis=1))
            print(f"update {step}: loss {loss:.4f}, {score:.1f} % of 1,000 held-out dates are right, ", end="")
            print(f"{time.perf_counter() - started:.0f} s", flush=True)

    names = {number: character for character, number in alphabets[1].items()}
    for text, ids in zip(test_sources[:8], written, strict=False):
        print(f"{text}  ->  {''.join(names.get(number, '') for number in ids)}")
    return {"exact match": score}


if __name__ == "__main__":
    main()
