"""What becomes of a published checkpoint."""

from typing import NamedTuple

import keras


class Converted(NamedTuple):
    """A published checkpoint as one of our models.

    Attributes:
        model: built BertEncoder, BertMaskedLM or BertClassifier with the checkpoint's weights, in float32.
        vocabulary: list of str, the pieces of vocab.txt; the index is the id.
        lowercase: bool, whether a text is lower-cased and loses its accents before it is cut into pieces.
        label_names: tuple of str in the order of the logits, or None if the model is no classifier.
        source_format: "Hugging Face" or "Google".
        left_out: tuple of str, tensors of the checkpoint that its kind of model has no use for: the pooler of an
            encoder or language model, and the next-sentence head.
    """

    model: keras.Model
    vocabulary: list
    lowercase: bool
    label_names: tuple | None
    source_format: str
    left_out: tuple
