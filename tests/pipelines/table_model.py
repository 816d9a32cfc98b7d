"""A language model whose logits stand in a table, so that a test can compute what must be written."""

import keras
import numpy as np
from keras import ops

from keras_attention.pipelines.text_generator import TextGenerator
from keras_attention.tokenizers import CharacterTokenizer
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

LETTERS = "abcdefghijklmno "
WINDOW, PERIOD = 13, 7


class TableModel(keras.Model):
    """Reads its logits at the last token and the number of tokens so far: table[number % PERIOD, token] (V,)."""

    has_attention = False

    def __init__(self, table, window):
        super().__init__()
        self.max_length, self.vocabulary_size = window, table.shape[-1]
        self.table = self.add_weight(table.shape, keras.initializers.Constant(table), name="table")
        self.built = True

    def get_config(self):
        return {"window": self.max_length}

    def encode(self, token_ids, mask):
        return {"mask": mask, "last_ids": token_ids[:, -1]}

    def widened(self, memory, length):
        more = length - memory["mask"].shape[1]
        return {**memory, "mask": ops.pad(memory["mask"], ((0, 0), (more, 0)))}

    def initial_state(self, memory, max_steps):
        return {"read": ops.sum(ops.cast(memory["mask"], "int32"), axis=1)}

    def step(self, token_ids, state, memory):
        token_ids = ops.where(token_ids < 0, memory["last_ids"], token_ids)
        places = state["read"] % PERIOD * self.vocabulary_size + token_ids
        logits = ops.take(ops.reshape(self.table, (-1, self.vocabulary_size)), places, axis=0)
        return logits, {"read": state["read"] + 1}


def table_generator(shift=0.0, seed=3, scale=2.0, window=WINDOW):
    """A TextGenerator over a table of random logits with the mean `shift`; its END is improbable."""
    size = len(LETTERS) + 4
    table = np.random.default_rng(seed).normal(shift, scale, (PERIOD, size, size)).astype("float32")
    table[..., END_ID] -= 4.0
    return TextGenerator(TableModel(table, window), CharacterTokenizer(LETTERS))


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def next_logits(generator, ids, read):
    """The logits (V,) after `ids`, of which the model has read the last `read`."""
    return generator.model.table.numpy()[read % PERIOD, ids[-1]]


def greedy(generator, prompt, max_tokens, penalty=1.0):
    """The ids of the most probable text, and their log probabilities.

    When the window is full, only its last half is read on.
    """
    ids = [END_ID, *generator.tokenizer.encode([prompt])[0].tolist()]
    start, read, log_probs = len(ids), len(ids), []
    while len(ids) < start + max_tokens and (len(ids) == start or ids[-1] != END_ID):
        if read > generator.window or (len(ids) == start and read >= generator.window):
            read = generator.window // 2
        logits = next_logits(generator, ids, read)
        scores = logits.astype("float64")
        for token in {*ids} - {END_ID}:
            scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
        scores[[PAD_ID, UNKNOWN_ID, START_ID]] = -np.inf
        ids.append(int(scores.argmax()))
        log_probs.append(log_softmax(logits)[ids[-1]])
        read += 1
    return ids[start:], log_probs


def possible(generator, prompt, temperature=1.0):
    """The probability of each first token after a prompt: {id: float}, the most probable first."""
    ids = [END_ID, *generator.tokenizer.encode([prompt])[0].tolist()]
    logits = next_logits(generator, ids, len(ids)) / temperature
    logits[[PAD_ID, UNKNOWN_ID, START_ID]] = -np.inf
    probabilities = np.exp(log_softmax(logits))
    return {int(i): probabilities[i] for i in np.argsort(-probabilities) if probabilities[i] > 0}
