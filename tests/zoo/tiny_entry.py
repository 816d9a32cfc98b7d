"""A tiny untrained model with its tokenizers, as an entry; and what such an entry says of itself."""

import functools

import keras

from keras_attention.models.seq2seq import AttentionSeq2Seq
from keras_attention.pipelines.translator import Translator
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer
from keras_attention.zoo.entry_io import write_entry

ENGLISH = ["A dog runs.", "Two men are near many bushes.", "A girl in a red dress climbs stairs.", "Men sit."]
ISO_DATES = ["2023-12-07", "1987-06-05", "2041-03-21"]
DECODING = {"beam_size": 3, "max_length": 19, "max_source_length": 29, "length_ratio": 1.0, "length_offset": 5}

CONFIG = {
    "format_version": 1,
    "architecture": "AttentionSeq2Seq",
    "model": {
        "source_vocabulary_size": 23,
        "target_vocabulary_size": 29,
        "embedding_dim": 11,
        "hidden_dim": 14,
        "num_layers": 1,
        "cell": "gru",
        "attention": "additive",
        "attention_mode": "global",
        "attention_window": 3,
        "input_feeding": True,
        "tie_embeddings": "target",
        "dropout": 0.3,
    },
    "tokenizer": {"source": "source_tokenizer", "target": "target_tokenizer"},
    "decoding": {"beam_size": 5, "length_penalty": 0.6},
    "source_language": "en",
    "target_language": "ISO 8601",
}

METRICS = {
    "description": "Turns dates into ISO 8601.",
    "data": [{"name": "Multi30k", "terms": "free for research", "link": "https://example.org/multi30k"}],
    "command": "python recipes/rnn_attention.py --seed 3",
    "commit": "0123abc",
    "hardware": "2 CPU cores",
    "minutes": 61.04,
    "seeds": [3, 5],
    "parameters": 5_123_457,
    "scores": [
        {"set": "test2016", "metric": "BLEU A", "value": 38.613, "signature": "nrefs:1|case:lc|tok:none"},
        {"set": "test2016", "metric": "BLEU B", "value": 38.1, "signature": "nrefs:1|case:mixed|tok:13a"},
    ],
    "limits": ["Sentences of up to 50 words."],
    "examples": [{"source": "A dog's run.", "output": "Ein Hund rennt."}] * 5,
    "tables": [{"title": "BLEU by length", "columns": ["words", "BLEU"], "rows": [["1-10", 40.129], ["11|20", 37]]}],
    "pictures": [{"file": "bleu_by_length.png", "caption": "BLEU by length"}],
    "training": {"learning_rate": 0.001},
}


def tiny_parts(attention="additive", seed=3, tokenizers=None):
    """An untrained model that speaks dates, and its tokenizers; or one for other tokenizers."""
    source, target = tokenizers or (
        SentencePieceTokenizer.train(ENGLISH, vocabulary_size=47),
        CharacterTokenizer.train(ISO_DATES, vocabulary_size=17),
    )
    keras.utils.set_random_seed(seed)
    sizes = (source.vocabulary_size, target.vocabulary_size)
    model = AttentionSeq2Seq(*sizes, embedding_dim=11, hidden_dim=14, attention=attention)
    model.build()
    for weight in model.weights:  # larger than an untrained model's: answers differ from each other
        weight.assign(weight * 3.0)
    return model, source, target


def tiny_translator(**settings):
    """A translator of `tiny_parts`."""
    return Translator(*tiny_parts(**settings), DECODING)


@functools.cache
def examples():
    """Two sentences with the answers of `tiny_parts()`."""
    texts = (ENGLISH[0], ENGLISH[3])
    outputs = tiny_translator().translate(texts)
    return [{"source": text, "output": output} for text, output in zip(texts, outputs, strict=True)]


def write_tiny_entry(folder, parts=None, about=None, **options):
    """Writes the given parts, or `tiny_parts` with examples that it reproduces."""
    model, source, target = parts or tiny_parts()
    stored = [] if parts else examples()
    metrics = {**METRICS, "examples": stored, "parameters": model.count_params(), "pictures": []}
    about = {"source_language": "en", "target_language": "ISO 8601", "decoding": DECODING, **(about or {})}
    return write_entry(folder, model, {"source": source, "target": target}, about=about, metrics=metrics, **options)
