"""Tiny untrained BERTs with a vocabulary, and what their entries say of themselves."""

import functools

import keras
from zoo.tiny_entry import METRICS

from keras_attention.models import BertClassifier, BertEncoder, BertMaskedLM
from keras_attention.pipelines.classifier import Classifier
from keras_attention.pipelines.mask_filler import MaskFiller
from keras_attention.tokenizers import AminoAcidTokenizer, WordPieceTokenizer
from keras_attention.zoo.entry_io import write_entry

TEXTS = ["A dog runs over green grass.", "Two men are near many bushes.", "A girl in a red dress sings.", "Men sit."]
SIZES = {"hidden_dim": 14, "intermediate_dim": 19, "num_heads": 2, "num_layers": 3, "max_length": 29}
LABELS = {"binary": ["bad", "good"], "multiclass": ["a", "b", "c"], "multilabel": ["x", "y", "z"], "regression": []}


@functools.cache
def tokenizer():
    """A vocabulary out of `TEXTS`."""
    return WordPieceTokenizer.train(TEXTS * 5, 61)


def task(kind="binary", pair=False):
    """What config.json says of a task."""
    separator = "|" if kind == "multilabel" else None
    settings = {"kind": kind, "label_names": LABELS[kind], "separator": separator, "threshold": 0.5, "pair": pair}
    return {**settings, "long_texts": "start", "min_probability": None}


def scaled(model, factor=20.0):
    """The model with weights larger than an untrained one's: its answers differ from each other."""
    if not model.built:
        model.build()
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(weight * factor)
    return model


def tiny_classifier(kind="binary", pair=False, seed=3, **settings):
    """A Classifier of random weights."""
    keras.utils.set_random_seed(seed)
    labels = max(1, len(LABELS[kind]))
    model = scaled(BertClassifier(tokenizer().vocabulary_size, **(SIZES | settings), num_labels=labels))
    return Classifier(model, tokenizer(), 23, task(kind, pair))


def tiny_mask_filler(seed=3):
    """A MaskFiller of random weights."""
    keras.utils.set_random_seed(seed)
    return MaskFiller(scaled(BertMaskedLM(tokenizer().vocabulary_size, **SIZES)), tokenizer(), 23)


def tiny_protein_model(seed=3):
    """A MaskFiller of proteins with random weights."""
    keras.utils.set_random_seed(seed)
    residues = AminoAcidTokenizer()
    return MaskFiller(scaled(BertMaskedLM(residues.vocabulary_size, **SIZES)), residues, 23)


def tiny_encoder(seed=3, **settings):
    """A BertEncoder of random weights."""
    keras.utils.set_random_seed(seed)
    return scaled(BertEncoder(tokenizer().vocabulary_size, **(SIZES | settings)))


def write_tiny(folder, model, examples=(), **about):
    """Writes a BERT as an entry."""
    metrics = {**METRICS, "examples": list(examples), "parameters": model.count_params(), "pictures": []}
    about = {"language": "en", "max_tokens": 23, **about}
    return write_entry(folder, model, {"text": tokenizer()}, about=about, metrics=metrics)
