"""Vectors over HTTP: /v1/embeddings in the form that OpenAI's clients read, and /v1/similar."""

import base64
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from keras_attention.server.messages import Request

Texts = Annotated[list[str], Field(min_length=1)]


class EmbeddingsRequest(Request):
    """Texts whose vectors are wanted, as OpenAI's clients send them."""

    input: str | Texts = Field(description="One text or several.", examples=["A dog runs."])
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="base64: the bytes of little-endian float32 numbers."
    )
    user: str | None = Field(None, description="Accepted and ignored.")


class Embedding(BaseModel):
    """The vector of one text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """The tokens that were read, [CLS] and [SEP] included."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(BaseModel):
    """One vector for each text, in the same order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


def embeddings(pipeline, request):
    """The vectors of a request: the dict of an EmbeddingsReply without the name of the model."""
    texts = [request.input] if isinstance(request.input, str) else request.input
    found = pipeline.encode(texts)

    def written(vector):
        if request.encoding_format == "float":
            return vector.tolist()
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()

    tokens = sum(map(len, found.tokens))
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": i, "embedding": written(v)} for i, v in enumerate(found.pooled)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


class SimilarRequest(Request):
    """A text, and the texts among which the nearest ones are wanted."""

    query: str = Field(examples=["A dog runs."])
    texts: Texts
    top: int = Field(5, ge=1, description="Number of texts in the answer.")


class SimilarText(BaseModel):
    """One of the texts."""

    index: int = Field(description="Its place in `texts`, from 0 on.")
    text: str
    score: float = Field(description="The cosine of both vectors.")


class SimilarReply(BaseModel):
    """The nearest texts, the nearest first."""

    model: str
    answers: list[SimilarText]


def similar(pipeline, request):
    """The nearest texts: list of dicts, see SimilarText."""
    return [one._asdict() for one in pipeline.similar(request.query, request.texts, top=request.top)]
