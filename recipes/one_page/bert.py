"""BERT on one page: it learns from masked words, then from a few labels (Devlin et al. 2019).

    python recipes/one_page/bert.py

A small grammar writes sentences such as "the jokes in this film were not funny , and i hated them .". To fill a mask,
the network must find the subject (them, not it) and understand the negation (hated, not loved). Then it is fine-tuned
to tell praise from blame by a few labelled first halves of sentences, and so is a network that has read nothing. Data,
masks, encoder, loss, schedule and update stand below, in this order.

Shapes: B sentences in a batch, T words of a sentence, D width, H heads, V words of the vocabulary.

Source: https://arxiv.org/abs/1810.04805. Differences: no next-sentence prediction and so no segments, whole words as
tokens, no dropout. `recipes/bert_pretrain.py` and `recipes/bert_finetune.py` train the same network for real use.

Result, seed 1: 80.1 % of the masked words; praise or blame 100.0 %, without pre-training 59.4 %; in three minutes of a
processor.
"""

import math
import time
from random import Random

import keras
import numpy as np
import tensorflow as tf

WIDTH = 64  # D
HEADS = 4  # H; each is D / H wide
LAYERS = 2
BATCH = 64  # B, sentences
STEPS = 5_000  # updates of the pre-training
PEAK = 2e-3  # learning rate of AdamW in the pre-training; a quarter of it in fine-tuning
MASKED = 0.15  # share of the words that are predicted
LABELLED = 64  # sentences for fine-tuning
FINE_TUNING_STEPS = 150  # updates, each on all labelled sentences

# ---- Data: a grammar in which distant words agree.
SINGULAR, PLURAL = ["story", "plot", "ending", "music", "acting"], ["jokes", "songs", "actors", "scenes", "pictures"]
GOOD, BAD = ["funny", "moving", "clever", "great", "witty"], ["boring", "dull", "silly", "awful", "weak"]
LIKED, HATED = ["liked", "loved", "enjoyed", "praised"], ["hated", "disliked", "regretted", "cursed"]
OTHERS = ["the", "in", "this", "film", "was", "were", "not", "really", "very", ",", "and", "i", "it", "them", "."]
VOCABULARY = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *OTHERS, *SINGULAR, *PLURAL, *GOOD, *BAD, *LIKED, *HATED]  # V
PAD, CLS, SEP, MASK = range(4)
LENGTH = 17  # T, words of the longest sentence with [CLS] and [SEP]


def write_sentence(random, whole):
    """A sentence, whole or only its first half, and whether it praises (1 or 0)."""
    plural, good, negated = random.choices([True, False], k=3)
    words = ["the", random.choice(PLURAL if plural else SINGULAR), *["in", "this", "film"] * random.choice([0, 1])]
    words += ["were" if plural else "was", *["not"] * negated, *random.choice([[], ["really"], ["very"]])]
    words += [random.choice(GOOD if good else BAD)]
    if whole:
        words += [",", "and", "i", random.choice(LIKED if good != negated else HATED), "them" if plural else "it"]
    return " ".join([*words, "."]), int(good != negated)


def as_ids(sentence):
    ids = [CLS, *map(VOCABULARY.index, sentence.split()), SEP]
    return np.array(ids + [PAD] * (LENGTH - len(ids)), "int32")  # (T,)


def write_data(random, size, test_size, whole):
    """Pairs of ids (size, T) and labels (size,), to train and to test on. No sentence is in both."""
    sentences = {}
    while len(sentences) < size + test_size:
        sentences.update([write_sentence(random, whole)])
    ids, labels = np.stack([as_ids(sentence) for sentence in sentences]), np.array([*sentences.values()], "int32")
    return (ids[:size], labels[:size]), (ids[size:], labels[size:])


def mask_words(random, ids):
    """Chooses 15 % of the words; of these, 80 % become [MASK], 10 % a random word, and 10 % stay. Section 3.1."""
    chosen = (random.random(ids.shape) < MASKED) & (ids > MASK)  # (B, T)
    kind, others = random.random(ids.shape), random.integers(MASK + 1, len(VOCABULARY), ids.shape)
    shown = np.where(kind < 0.8, MASK, np.where(kind < 0.9, others, ids))
    return np.where(chosen, shown, ids).astype("int32"), chosen


# ---- The network: the encoder of the Transformer with learned positions and GELU, section 3.
class Layer(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.projection = (keras.layers.Dense(WIDTH) for _ in range(4))
        self.inner, self.outer = keras.layers.Dense(4 * WIDTH, "gelu"), keras.layers.Dense(WIDTH)
        self.norm_1, self.norm_2 = keras.layers.LayerNormalization(), keras.layers.LayerNormalization()

    def split(self, states):
        """(B, T, D) -> (B, H, T, D / H)"""
        return tf.transpose(tf.reshape(states, [-1, LENGTH, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])

    def attend(self, states, mask):
        """softmax(Q K^T / sqrt(d)) V; each word sees all words, to its left and to its right (B, T, D)."""
        query, key, value = (self.split(project(states)) for project in (self.query, self.key, self.value))
        scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(WIDTH // HEADS)  # (B, H, T, T)
        weights = tf.nn.softmax(tf.where(mask, scores, -1e9))  # padding gets weight 0
        context = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])  # (B, T, H, D / H)
        return self.projection(tf.reshape(context, [-1, LENGTH, WIDTH]))

    def call(self, states, mask):
        states = self.norm_1(states + self.attend(states, mask))
        return self.norm_2(states + self.outer(self.inner(states)))


class Bert(keras.Model):
    """Ids (B, T) -> the final hidden state of each word (B, T, D)."""

    def __init__(self):
        super().__init__()
        self.words, self.positions = (keras.layers.Embedding(size, WIDTH) for size in (len(VOCABULARY), LENGTH))
        self.norm, self.stack = keras.layers.LayerNormalization(), [Layer() for _ in range(LAYERS)]

    def call(self, ids):
        mask = (ids != PAD)[:, None, None]  # the padding mask: True where attention may look (B, 1, 1, T)
        states = self.norm(self.words(ids) + self.positions(np.arange(LENGTH)))
        for layer in self.stack:
            states = layer(states, mask)
        return states


class WithHead(keras.Model):
    """Logits of the word at each position (B, T, V), section 3.1; or of two labels, from [CLS] (B, 2), section 4.1."""

    def __init__(self, bert, classifies):
        super().__init__()
        self.bert, self.classifies = bert, classifies
        self.head = keras.layers.Dense(2 if classifies else len(VOCABULARY))

    def call(self, ids):
        states = self.bert(ids)
        return self.head(states[:, 0] if self.classifies else states)


# ---- Learning.
def cross_entropy(labels, logits, counted):
    """Mean of -log p(label) where `counted` is True: of words, only at the chosen ones."""
    of_labels = tf.gather(tf.nn.log_softmax(logits), labels, batch_dims=len(labels.shape))
    counted = tf.cast(counted, "float32")
    return -tf.reduce_sum(of_labels * counted) / tf.reduce_sum(counted)


def learning_rate(step, steps, peak):
    """Linear warm-up in the first tenth, then linear decay to 0, appendix A.2; steps count from 1."""
    warmup = max(1, steps // 10)
    return peak * min(step / warmup, (steps - step + 1) / (steps - warmup + 1))


def train(model, next_batch, steps, peak):
    """Updates the model on batches (ids, labels, counted)."""
    optimizer = keras.optimizers.AdamW(weight_decay=0.01)

    @tf.function
    def update(ids, labels, counted):
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, model(ids), counted)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    for step in range(1, steps + 1):
        optimizer.learning_rate = learning_rate(step, steps, peak)
        loss = update(*next_batch())
        if step % 500 == 0:
            print(f"update {step}: loss {loss:.3f}", flush=True)


def main():
    keras.utils.set_random_seed(1)
    random, started, bert = np.random.default_rng(1), time.perf_counter(), Bert()
    (ids, _), (held_out, _) = write_data(Random(1), 3_000, 1_000, whole=True)

    def masked_batch():
        labels = ids[random.integers(len(ids), size=BATCH)]  # (B, T)
        masked, chosen = mask_words(random, labels)  # other words of a sentence each time
        return masked, labels, chosen

    words = WithHead(bert, classifies=False)
    train(words, masked_batch, STEPS, PEAK)
    masked, chosen = mask_words(random, held_out)
    frequent = np.bincount(ids[ids > MASK]).argmax()  # the guess of a unigram model
    right, guessed = words(masked).numpy().argmax(axis=-1) == held_out, held_out == frequent
    scores = {"masked": 100 * right[chosen].mean(), "unigram": 100 * guessed[chosen].mean()}
    print(f"\nMasked words of 1,000 other sentences: {scores['masked']:.1f} % right; ", end="")
    print(f"always {VOCABULARY[frequent]!r}: {scores['unigram']:.1f} %. {time.perf_counter() - started:.0f} s")
    for text in ("the jokes were not funny , and i [MASK] [MASK] .", "the plot was [MASK] dull , and i loved it ."):
        best = words(as_ids(text)[None]).numpy()[0, 1:].argmax(axis=-1)  # without [CLS]
        filled = [VOCABULARY[i] if word == "[MASK]" else word for word, i in zip(text.split(), best, strict=False)]
        print(f"{text}  ->  {' '.join(filled)}")

    (ids, labels), (test_ids, test_labels) = write_data(Random(2), LABELLED, 500, whole=False)
    print(f"\nPraise or blame, learned from {LABELLED} sentences:")
    for name, start in (("pre-trained", bert), ("from random weights", Bert())):
        classifier = WithHead(start, classifies=True)
        train(classifier, lambda: (ids, labels, labels >= 0), FINE_TUNING_STEPS, PEAK / 4)
        scores[name] = 100 * np.mean(classifier(test_ids).numpy().argmax(axis=-1) == test_labels)
        print(f"{name}: {scores[name]:.1f} % of 500 others")
    return scores


if __name__ == "__main__":
    main()
