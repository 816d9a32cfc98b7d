"""A small byte-level vocabulary as the library `tokenizers` learns and writes it."""

import functools
import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from keras_attention.tokenizers import ByteLevelTokenizer

END = "<|endoftext|>"
TEXTS = ["A dog runs over green grass.", "They're near 1,024 bushes; I'll  sing!\n\tMen sit.", "ein Hund läuft"]


def learned(size, more=()):
    """A Tokenizer of the library with `size` ids: 256 bytes, END and merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*TEXTS, *more] * 3, trainer)
    assert tokenizer.get_vocab_size() == size
    return tokenizer


def write_published(folder, size, more=()):
    """Writes tokenizer.json, and vocab.json and merges.txt, as published models have them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = learned(size, more)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.model.save(str(folder))
    return folder


@functools.cache
def pieces(size=283):
    """(vocabulary, merges) of a small vocabulary."""
    model = json.loads(learned(size).to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(merge) for merge in model["merges"]]


def tiny_byte_level(size=283):
    """A ByteLevelTokenizer of that vocabulary."""
    return ByteLevelTokenizer(*pieces(size), {"end": END})
