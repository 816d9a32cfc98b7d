"""Texts in, vectors out."""

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from keras_attention.inputs.given_texts import Progress, Texts, as_pair, as_texts, blank_rows
from keras_attention.inputs.token_sequences import START, TOKEN_PADDING, TokenSequence, text_sequences
from keras_attention.pipelines.base import Field, Pipeline
from keras_attention.pipelines.explanation import bert_view
from keras_attention.runtime.compiled_forward import CompiledForward
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, check_finite, quoted
from keras_attention.tokenizers import AminoAcidTokenizer, UnigramTokenizer, WordPieceTokenizer
from keras_attention.visualize.pages import AttentionView

SAMPLES = (("How old are you?", "What is your age?"), ("How old are you?", "The train is late."))
# Ubiquitin of humans and of yeast, and the B chain of human insulin.
UBIQUITIN = "MQIFVKTLTGKTITLEVEPSDTIENVKAKIQDKEGIPPDQQRLIFAGKQLEDGRTLSDY"
PROTEIN_SAMPLES = (
    (UBIQUITIN, "MQIFVKTLTGKTITLEVESSDTIDNVKSKIQDKEGIPPDQQRLIFAGKQLEDGRTLSDY"),
    (UBIQUITIN, "FVNQHLCGSHLVEALYLVCGERGFFYTPKT"),
)
CHARACTERS_AT_A_TIME = 16_384
SAMPLE_TOKENS = 64  # minimum `max_tokens` for SAMPLES on a card, enough with any vocabulary


class Embeddings(NamedTuple):
    """The vectors of N texts of width D.

    Attributes:
        pooled: float32 array (N, D). An empty or blank text has no vector: its row is 0.
        tokens: list of N lists of str, the tokens of each text, including [CLS] and [SEP]; [] for a blank text.
        vectors: list of N float32 arrays (T, D), one vector for each token; (0, D) for a blank text.
        truncated: list of N bool. Whether the text exceeded the model's limit and was cut.
    """

    pooled: np.ndarray
    tokens: list[list[str]]
    vectors: list[np.ndarray]
    truncated: list[bool]


class Similar(NamedTuple):
    """A text and its similarity to the query.

    Attributes:
        index: int, its position in the list of texts, from 0.
        text: str.
        score: float, the cosine of the angle between the vectors, from -1 to 1.
    """

    index: int
    text: str
    score: float


def unit(vectors):
    """Vectors (..., D) scaled to length 1; a vector of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    check_finite(lengths, "the length of a vector")
    return vectors / np.maximum(lengths, 1e-12)


class TextEncoder(Pipeline):
    """Turns texts into vectors with the encoder of a BERT.

    Classifier and MaskFiller are subclasses; their models have a head on the encoder.

    Args:
        model: BertEncoder, built.
        tokenizer: WordPieceTokenizer or UnigramTokenizer, or AminoAcidTokenizer for proteins.
        max_tokens: int, limit of a text including [CLS] and [SEP]. Longer texts are cut, with a warning.
        long_texts: str, which part of a longer text is used, see `text_sequences`.
        pooling: "mean" over all tokens of a text, including [CLS] and [SEP], or "cls", the vector of [CLS].
        normalize: bool. Whether to scale the vector of a text to length 1.
        encoder: BertEncoder of a model with a head; None if the model is the encoder.
    """

    request_fields = {"texts": Field(list[str], "Texts to encode.", low=1)}
    answer_kind = "neighbours"
    answer_fields = {
        "vector": Field(list[float] | None, "The vector of the text; null for an empty one."),
        "truncated": Field(bool, "True if the text was too long and a part of it was ignored."),
    }
    has_attention = True
    view_options = ("text_b",)
    batching = "sequences"
    network_output = ("T, D", "a vector for each token")  # shape without the batch, and meaning, in exported networks

    def __init__(
        self,
        model: Any,
        tokenizer: WordPieceTokenizer | UnigramTokenizer | AminoAcidTokenizer,
        max_tokens: int,
        long_texts: str = START,
        pooling: str = "mean",
        normalize: bool = False,
        encoder: Any = None,
    ):
        self.model = model
        self.encoder = encoder = encoder or model
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.long_texts = long_texts
        self.pooling = pooling
        self.normalize = normalize
        self.encoding = self.compiled_forward(encoder)
        self.compiled = self.encoding

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        options = {name: config[name] for name in ("pooling", "normalize")}
        return cls(model, tokenizers["text"], config["max_tokens"], **options)

    def config_keys(self):
        return {**self.described_text(), "pooling": self.pooling, "normalize": self.normalize}

    def described_text(self) -> dict[str, Any]:
        """The keys of `config.json` that all text encoders have."""
        language = {} if self.entry else {"language": "en"}
        return {**language, "max_tokens": self.max_tokens}

    @property
    def tokenizers(self):
        return {"text": self.tokenizer}

    def warm(self) -> None:
        """Reads texts of the usual lengths, for answers and for vectors."""
        super().warm()
        for compute in self.compiled.compiling(self.example_inputs):
            compute()
        if self.encoding is not self.compiled:
            for compute in self.encoding.compiling(partial(TextEncoder.example_inputs, self)):
                compute()

    def answers(self, sources: list[str], sources_b: list[str] | None = None) -> list[str]:
        """The cosine of each pair of texts; an empty list for single texts, whose answers are vectors."""
        if sources_b is None:
            return []
        vectors = self.directions([*sources, *sources_b])
        cosines = (vectors[: len(sources)] * vectors[len(sources) :]).sum(axis=-1)
        return [f"{round(float(cosine), 2) + 0.0:.2f}" for cosine in cosines]  # + 0.0 makes 0.00 of -0.00

    @property
    def samples(self):
        samples = PROTEIN_SAMPLES if self.reads_proteins else SAMPLES
        return list(samples) if self.max_tokens >= SAMPLE_TOKENS else []

    @property
    def reads_proteins(self) -> bool:
        """Whether a text is a protein."""
        return self.tokenizer.kind == AminoAcidTokenizer.kind

    def reply(self, texts):
        return [
            {"vector": vector.tolist() if tokens else None, "truncated": cut}
            for encoded in self.encode_in_parts(texts)
            for vector, tokens, cut in zip(encoded.pooled, encoded.tokens, encoded.truncated, strict=True)
        ]

    def encode_in_parts(self, texts: list[str]) -> Iterator[Embeddings]:
        """Yields the Embeddings of a few texts after the other: the vectors of all tokens would take much memory."""
        part: list[str] = []
        for text in texts:
            if part and sum(map(len, part)) + len(text) > CHARACTERS_AT_A_TIME:
                yield self.encode(part)
                part = []
            part.append(text)
        yield self.encode(part)

    def sides(self, line: str) -> tuple[str, ...]:
        """The texts of a line; a tab separates the two texts of a pair."""
        if line.count("\t") > 1:
            raise UserError(f"A pair of texts must contain exactly one tab. Found {line.count(chr(9))}")
        return tuple(line.split("\t"))

    def attention_view(self, text: str, text_b: str | None = None, **options: Any) -> AttentionView:
        """The attention weights of every layer and head, as a page: see `explanation.bert_view`."""
        self.check_view(text_b, options)
        return bert_view(self, text, text_b)

    def encode(
        self,
        texts: Texts,
        texts_b: Texts | None = None,
        *,
        pooling: str | None = None,
        progress: Progress = None,
    ) -> Embeddings:
        """Computes the vectors of one text or many.

        Args:
            texts: str, or any sequence or iterable of str.
            texts_b: second texts of pairs, of the same types, or None.
            pooling: "mean", "cls" or None for the model's own; see `TextEncoder`.
            progress: callable (texts done, number of texts) or None.

        Returns:
            Embeddings.

        Raises:
            UserError: if a text is not a str, or `pooling` is unknown.
        """
        pooling = self.pooling if pooling is None else pooling
        if pooling not in ("mean", "cls"):
            raise UserError(f"`pooling` must be mean or cls. Received: pooling={quoted(pooling)}")
        texts, texts_b, _ = as_pair(texts, texts_b)
        sequences = text_sequences(
            self.tokenizer, texts, texts_b, max_tokens=self.max_tokens, long_texts=self.long_texts
        )
        outputs = self.encoding.run(self.inputs(sequences), progress)
        vectors = [output[: len(sequence.token_ids)] for sequence, (output,) in zip(sequences, outputs, strict=True)]
        of_texts = [vector[0] if pooling == "cls" else vector.mean(0) for vector in vectors]
        pooled = np.stack(of_texts) if of_texts else np.zeros((0, self.encoder.hidden_dim), "float32")
        if self.normalize:
            pooled = unit(pooled)
        check_finite(pooled, "a vector")
        blank, none = blank_rows(texts, texts_b), np.zeros((0, pooled.shape[-1]), "float32")
        pooled[blank] = 0.0
        vectors = [none if nothing else vector for vector, nothing in zip(vectors, blank, strict=True)]
        ids = [sequence.token_ids[: 0 if nothing else None] for sequence, nothing in zip(sequences, blank, strict=True)]
        return Embeddings(
            pooled, [self.tokenizer.tokens(one) for one in ids], vectors, [sequence.truncated for sequence in sequences]
        )

    def compiled_forward(self, network: Any) -> CompiledForward:
        """The forward pass of a network that reads token ids, compiled for the lengths of texts."""
        return CompiledForward(partial(network, training=False), TOKEN_PADDING, self.max_tokens, network)

    def inputs(self, sequences: list[TokenSequence]) -> list[dict[str, np.ndarray]]:
        """The arrays that the network reads, for each sequence: list of dicts by name."""
        return [sequence.inputs(self.encoder.num_segments) for sequence in sequences]

    def example_inputs(self, length: int) -> dict[str, np.ndarray]:
        """Inputs of `compiled` for any text of this many tokens, to compile it: dict of arrays by name."""
        sequence = TokenSequence(np.ones(length, "int32"), np.zeros(length, "int32"), False)
        return sequence.inputs(self.encoder.num_segments)

    def directions(self, texts: list[str], progress: Progress = None) -> np.ndarray:
        """The vectors of texts (list of str) scaled to length 1: float32 array (N, D)."""
        return unit(self.encode(texts, progress=progress).pooled)

    def with_network(self, network: Any) -> Self:
        """A copy with another network, such as an exported one, that has the method `run` of `CompiledForward`."""
        other = copy.copy(self)
        other.encoding = network if self.compiled is self.encoding else self.encoding
        other.compiled = network
        return other

    def agreement(self, other: Any, texts: list[str], texts_b: list[str] | None = None) -> dict[str, float]:
        """How much the answers of two pipelines agree: dict from a measure, such as "mean cosine", to a float."""
        texts = [text for text in (*texts, *(texts_b or ())) if not is_blank(text)]  # a blank one has no vector
        cosines = (self.directions(texts) * other.directions(texts)).sum(axis=-1)
        return {"mean cosine": float(cosines.mean()), "least cosine": float(cosines.min())}

    def similar(self, query: str, texts: Texts, *, top: int = 5) -> list[Similar]:
        """The texts most similar to a query, by the cosine of their vectors.

        Args:
            query: str.
            texts: any sequence or iterable of str.
            top: int > 0.

        Returns:
            List of at most `top` Similar, the most similar first, without empty and blank texts. [] for a blank query.

        Raises:
            UserError: if a text is not a str, or `top` is out of range.
        """
        if type(top) is not int or top < 1:
            raise UserError(f"`top` must be a positive integer. Received: top={quoted(top)}")
        texts, _ = as_texts(texts)
        scores = self.directions(texts) @ self.directions([query])[0]  # (N,)
        ranked = [i for i in np.argsort(-scores, kind="stable").tolist() if not any(blank_rows([texts[i]], [query]))]
        return [Similar(i, texts[i], float(scores[i])) for i in ranked[:top]]
