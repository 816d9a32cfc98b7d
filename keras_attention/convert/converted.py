"""The result of a conversion."""

from typing import NamedTuple

import keras


class Converted(NamedTuple):
    """A published checkpoint as a model of this package.

    Attributes:
        model: built BertEncoder, BertMaskedLM or BertClassifier with the checkpoint's weights, in float32.
        vocabulary: list of str, the pieces of vocab.txt; the index is the id.
        lowercase: bool, whether texts are lower-cased and lose their accents before they are split into pieces.
        label_names: tuple of str in the order of the logits, or None if the model is not a classifier.
        source_format: "Hugging Face" or "Google".
        left_out: tuple of str, unused tensors of the checkpoint: the pooler of an encoder or language model, and the
            next-sentence head.
    """

    model: keras.Model
    vocabulary: list
    lowercase: bool
    label_names: tuple | None
    source_format: str
    left_out: tuple
