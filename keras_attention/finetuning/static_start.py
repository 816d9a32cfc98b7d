"""`finetune --quick`: a classifier on static vectors, which an encoder computes once for each piece of its vocabulary.

Source: Tulkens & van Dongen (2024), model2vec, https://github.com/MinishLab/model2vec. The weight of a piece by its
rank is Zipf's law: Arora et al. (2017), "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", section 3,
https://openreview.net/forum?id=SyK00v5xx, weighs words by their frequency in a corpus.
"""

import numpy as np
import tensorflow as tf

from keras_attention.models.static_vectors import StaticVectorClassifier
from keras_attention.pipelines.base import load_pipeline
from keras_attention.runtime.compiled_forward import traced
from keras_attention.support.cores import one_thread
from keras_attention.support.errors import UserError

WIDTH = 256  # of the vectors, after principal component analysis
PIECES_AT_ONCE = 512


def static_classifier(start, num_labels, pairs=False):
    """A classifier with the static vectors of an encoder and random output weights.

    Args:
        start: Start with the entry of a BERT.
        num_labels: int > 0.
        pairs: bool. Whether the rows have two texts, which are compared.

    Returns:
        StaticVectorClassifier, built, and the tokenizer of the encoder.

    Raises:
        UserError: if the start is no encoder of texts.
    """
    pipeline = None if start.entry is None or start.reads_files else load_pipeline(start.entry)
    if not hasattr(getattr(pipeline, "encoder", None), "encoder_layers"):
        received = "none" if start.entry is None else f"{start.entry.folder}, a {start.entry.architecture.name}"
        raise UserError(f"--quick needs a BERT to start from, whose vectors it stores. Found: {received}")
    tokenizer = pipeline.tokenizer
    table = static_vectors(vectors_of_pieces(pipeline.encoder, tokenizer), specials_of(tokenizer))
    sizes = {"vocabulary_size": len(table), "hidden_dim": table.shape[1], "num_labels": num_labels}
    model = StaticVectorClassifier(**sizes, pooling="pair" if pairs else "mean")
    model.build()
    model.token_embedding.set_weights([table])
    return model, tokenizer


def vectors_of_pieces(encoder, tokenizer):
    """The mean vector of "[CLS] piece [SEP]" for each piece of a vocabulary.

    Args:
        encoder: BertEncoder, built.
        tokenizer: WordPieceTokenizer.

    Returns:
        float32 array (V, D).
    """
    pieces = np.arange(tokenizer.vocabulary_size, dtype="int32")
    begin, end = (np.full_like(pieces, special) for special in (tokenizer.start_id, tokenizer.end_id))
    token_ids = np.stack([begin, pieces, end], axis=1)  # (V, 3)

    def mean(inputs):
        return tf.reduce_mean(tf.cast(encoder(inputs, training=False), tf.float32), axis=1)

    compute = traced(mean, {"token_ids": tf.TensorSpec((None, 3), tf.int32)})
    parts = range(0, len(pieces), PIECES_AT_ONCE)
    return np.concatenate([compute({"token_ids": token_ids[i : i + PIECES_AT_ONCE]})[0] for i in parts])


def specials_of(tokenizer):
    """The ids of the tokens that are no part of a text, such as [CLS]: list of int."""
    return [0, tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id, tokenizer.unknown_id]


def static_vectors(vectors, specials, width=WIDTH):
    """The table of static vectors: principal components, weighted by the rank of each piece in the vocabulary.

        E[piece] = log(1 + rank) (P^T (vector - mean)),    P (D, width) the directions of the largest variance

    Vocabularies are sorted by frequency, so that the weight of frequent pieces such as "the" is small.

    Args:
        vectors: float array (V, D).
        specials: list of int, ids whose vectors become 0.
        width: int > 0; not more than D is used.

    Returns:
        float32 array (V, min(width, D)).
    """
    centered = vectors - vectors.mean(axis=0)
    with one_thread():
        _, directions = np.linalg.eigh(centered.T @ centered)  # the largest variance is last
        table = centered @ directions[:, ::-1][:, :width]
    table *= np.log(1.0 + np.arange(1, len(table) + 1))[:, None]
    table[specials] = 0.0
    return np.ascontiguousarray(table, "float32")
