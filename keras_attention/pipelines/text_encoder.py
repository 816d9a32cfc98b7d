"""Texts in, vectors out."""

from typing import NamedTuple

import numpy as np

from keras_attention.errors import UserError
from keras_attention.pipelines.attention_view import bert_view
from keras_attention.pipelines.compiled_bert import CompiledBert
from keras_attention.pipelines.text_rows import START, text_rows


class Embeddings(NamedTuple):
    """The vectors of N texts of width D.

    Attributes:
        pooled: float32 array (N, D).
        tokens: list of N lists of str, the pieces that the model read, with [CLS] and [SEP].
        vectors: list of N float32 arrays (T, D), one vector for each piece.
        truncated: list of N bool, whether the text was longer than the model reads, and was cut.
    """

    pooled: np.ndarray
    tokens: list
    vectors: list
    truncated: list


class TextEncoder:
    """Turns texts into vectors with a BERT, of which only the encoder is used.

    Args:
        model: BertEncoder, or a model with one as `encoder`; built.
        tokenizer: WordPieceTokenizer.
        max_tokens: int, of a text with [CLS] and [SEP]; the rest is left out, with a warning.
        long_texts: str, which part of a longer text is read, see `text_rows`.
        pooling: "mean" over all tokens of a text, [CLS] and [SEP] included, or "cls", the vector of [CLS].
        normalize: bool. Whether the vector of a text is scaled to length 1.
    """

    def __init__(self, model, tokenizer, max_tokens, long_texts=START, pooling="mean", normalize=False):
        self.model = model
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.long_texts = long_texts
        self.pooling = pooling
        self.normalize = normalize
        encoder = getattr(model, "encoder", model)
        self.compiled = CompiledBert(lambda inputs: encoder(inputs, training=False), max_tokens, encoder.num_segments)

    def attention_view(self, text, text_b=None):
        """What each token looked at in every layer and head, as a page: see `attention_view.bert_view`."""
        return bert_view(self, text, text_b)

    def encode(self, texts, texts_b=None, *, pooling=None, progress=None):
        """The vectors of one text or many.

        Args:
            texts: str or list of str.
            texts_b: second texts of pairs, likewise, or None.
            pooling: "mean", "cls" or None, as the model says; see `TextEncoder`.
            progress: callable (texts done, texts in all) or None.

        Returns:
            Embeddings.

        Raises:
            UserError: if a text is no text, or `pooling` is unknown.
        """
        pooling = self.pooling if pooling is None else pooling
        if pooling not in ("mean", "cls"):
            raise UserError(f"`pooling` must be mean or cls. Received: pooling={pooling!r}")
        texts, texts_b = ([side] if isinstance(side, str) else side for side in (texts, texts_b))
        rows = text_rows(self.tokenizer, texts, texts_b, max_tokens=self.max_tokens, long_texts=self.long_texts)
        outputs = self.compiled.run(rows, progress)
        vectors = [output[: len(row.token_ids)] for row, (output,) in zip(rows, outputs, strict=True)]
        of_texts = [vector[0] if pooling == "cls" else vector.mean(0) for vector in vectors]
        width = getattr(self.model, "encoder", self.model).hidden_dim
        pooled = np.stack(of_texts) if of_texts else np.zeros((0, width), "float32")
        if self.normalize:
            pooled = pooled / np.maximum(np.linalg.norm(pooled, axis=-1, keepdims=True), 1e-12)
        tokens = [self.tokenizer.tokens(row.token_ids) for row in rows]
        return Embeddings(pooled, tokens, vectors, [row.truncated for row in rows])
