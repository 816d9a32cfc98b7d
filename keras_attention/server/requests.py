"""The bodies of requests and responses that are the same for all models of a task, their answers, and their limits.

Vectors have the form of the API of OpenAI. See `task_forms` for the bodies that a pipeline defines.
"""

import base64
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from keras_attention.inputs.given_texts import as_texts
from keras_attention.pipelines.classifier import ZeroShotClassifier
from keras_attention.pipelines.labels import classification_as_json
from keras_attention.pipelines.text_encoder import unit
from keras_attention.support.errors import UserError

EXPLAINED_CHARACTERS = 16_384
MOST_TOKENS_OF_A_CHARACTER = 18  # after NFKC normalization
ANSWERS_OF_WORDS = {"translations": {"seed"}, "continuation": {"target"}}  # and the options that do not apply
TEXTS = "texts"  # the first field of texts and of pairs
Texts = Annotated[list[str], Field(min_length=1)]


class Request(BaseModel):
    """A request to a model. Refuses unknown fields and values of another type.

    Attributes:
        input_field: str, the first field of the kinds of input that the model must read, see `inputs`.
        is_file: bool. Whether the strings of this field are files, which have limits of their own.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    input_field: ClassVar[str] = TEXTS
    is_file: ClassVar[bool] = False

    model: str | None = Field(
        None, description="A name from `GET /v1/models`, which marks the default, or a unique part of it."
    )


def check_limits(request, settings):
    """Raises UserError if a request has too many or too long texts."""
    values = [value for name, value in request if name != "model"]
    lists = [value for value in values if isinstance(value, list)]
    most, is_file = max(map(len, lists), default=0), getattr(request, "is_file", False)
    if most > settings.items:
        items = request.input_field if is_file else TEXTS
        raise UserError(f"A request has at most {settings.items} {items}. Received: {most}")
    texts = [text for texts in (*([] if is_file else lists), values) for text in texts if isinstance(text, str)]
    if hasattr(request, "max_tokens"):
        _check_new_tokens(request, settings)
    longest = max(map(len, texts), default=0)
    if longest > settings.characters:
        raise UserError(f"A text has at most {settings.characters:,} characters. Received: {longest:,}")


def check_tokens(pipeline, request):
    """Raises UserError if a text has more tokens than the pipeline takes, see `Pipeline.text_limit`."""
    most = getattr(pipeline, "text_limit", None)
    texts = [text for value in dict(request).values() for text in (value if isinstance(value, list) else [value])]
    long = [text for text in texts if isinstance(text, str) and most and MOST_TOKENS_OF_A_CHARACTER * len(text) > most]
    for ids in pipeline.tokenizers["text"].encode(as_texts(long)[0]) if long else ():
        if len(ids) > most:
            raise UserError(f"A text has at most {most:,} tokens for this model. Received: {len(ids):,}. Split it.")


def _check_new_tokens(request, settings):
    prompts = len(request.prompts)
    tokens = prompts * request.n * request.max_tokens
    if tokens > settings.tokens:
        raise UserError(
            f"A request has at most {settings.tokens:,} new tokens: prompts x n x max_tokens. Received: "
            f"{prompts} x {request.n} x {request.max_tokens:,} = {tokens:,}. Lower n or max_tokens, or send several."
        )


class ErrorObject(BaseModel):
    """The reason for an error, in the form of OpenAI's API."""

    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    """The reason for an error: an object on the routes of OpenAI's API, elsewhere a text."""

    error: str | ErrorObject


class AttentionRequest(Request):
    """A text whose attention weights are requested."""

    text: str = Field(examples=["A dog runs."])
    text_b: str | None = Field(None, description="The second text of a text pair.")
    target: str | None = Field(None, description="A translation to use instead of the model's own.")
    n_best: int = Field(1, ge=1, le=64, description="Number of translations, up to the beam size of the model.")


class Projections(BaseModel):
    """The queries or keys of all layers and heads."""

    integers: str = Field(
        description="Base64 of 16-bit integers, little-endian; axes: layers, heads, rows or columns, width."
    )
    unit: float = Field(description="The value of the integer 1.")
    width: int = Field(description="The dimensions of a head.")


class Map(BaseModel):
    """The attention weights of one part of the model."""

    name: str
    rows: list[str] = Field(description="Tokens of the queries.")
    columns: list[str] = Field(description="Tokens of the keys.")
    row_title: str
    column_title: str
    row_segments: list[int] | None = Field(description="1 for tokens of the second text.")
    column_segments: list[int] | None
    row_words: list[int] = Field(description="The number of the word to which each row's token belongs.")
    column_words: list[int]
    layers: int
    heads: int
    weights: str = Field(description="Base64 of bytes: each weight times 255; axes: layers, heads, rows, columns.")
    queries: Projections | None = Field(description="Null unless their products are all that the weights come from.")
    keys: Projections | None


class Looked(BaseModel):
    """The attention maps of one answer."""

    name: str
    maps: list[Map]


class AttentionReply(BaseModel):
    """The attention weights for each answer."""

    model: str
    title: str
    note: str = Field(description="Model, answer, and whether the text was truncated.")
    decision: list[tuple[str, float]] = Field(description="The answers with their probabilities.")
    kept: tuple[str, int] | None = Field(description="The token that the page highlights at first.")
    answers: list[Looked]


def attention_view(pipeline, request):
    """The attention weights as an `AttentionView`."""
    if pipeline.input.is_file:  # whose names must not come from a request
        raise UserError("Attention is shown for texts. This model reads files: use `classify --attention`.")
    options = {"target": request.target, "n_best": request.n_best if request.n_best != 1 else None}
    return pipeline.attention_view(
        request.text, request.text_b, **{name: value for name, value in options.items() if value is not None}
    )


class ExplainRequest(Request):
    """A text whose words are hidden one by one, to explain a label."""

    text: str = Field(examples=["A dog runs."])
    text_b: str | None = Field(None, description="The second text of a text pair.")
    label: str | None = Field(None, description="The label to explain; default: the most probable one.")


class HiddenWord(BaseModel):
    """A word, and the effect of hiding it."""

    text: str
    second: bool = Field(description="True if it is in the second text.")
    start: int = Field(description="Position of its first character in its text.")
    end: int
    effect: float = Field(description="How much the probability of the label falls without the word.")


class ExplainReply(BaseModel):
    """What each word contributes to a label."""

    model: str
    text: str
    text_b: str | None
    label: str | None = Field(description="The label that is explained; null for a regression.")
    value: float | None = Field(
        description="The probability of the label; for a regression, the predicted number; null for an empty text."
    )
    words: list[HiddenWord]
    truncated: bool = Field(description="True if the text was too long and a part of it was ignored.")


def explain(pipeline, request):
    """The contribution of each word, as an `Explanation`."""
    longest = max(len(request.text), len(request.text_b or ""))
    if longest > EXPLAINED_CHARACTERS:  # because there are as many copies of the text as words
        raise UserError(f"A text to explain has at most {EXPLAINED_CHARACTERS:,} characters. Received: {longest:,}")
    return pipeline.explain(request.text, request.text_b, label=request.label)


class TranslationRequest(Request):
    """A text, and perhaps its languages, which choose a translator."""

    text: str = Field(examples=["A dog runs."])
    source_language: str | None = Field(None, description="See /v1/translate.")
    target_language: str | None = Field(None, description="See /v1/translate.")

    @property
    def texts(self):
        return [self.text]


class WordEffectsRequest(TranslationRequest):
    """A text whose words are hidden one by one, to explain each word of the model's answer to it."""

    target: str | None = Field(None, description="A translation to explain; default: the model's own.")
    contrast: Annotated[list[str], Field(min_length=2, max_length=2)] | None = Field(
        None, description="A word of the answer, and another one: why this one and not that one?"
    )
    position: int | None = Field(None, ge=0, description="Which of the words that equal the first one of `contrast`.")
    seed: int | None = Field(None, description="Of a continuation; default: another one each time.")


class ContrastedWord(BaseModel):
    """Why a word of the answer is preferred to another word."""

    position: int = Field(description="Among `targets`, counted from 0.")
    word: str
    other: str
    log_ratio: float = Field(description="log p(word) - log p(other), each given the answer before it.")
    effects: list[float] = Field(description="How much `log_ratio` falls without each source word.")


class EffectsOnAnAnswer(BaseModel):
    """What each word of one sentence contributes to each word of the answer."""

    text: str
    answer: str
    sources: list[str] = Field(description="The words that are left out; of a language model, also those it wrote.")
    targets: list[str] = Field(description="The words of the answer.")
    log_probs: list[float] = Field(description="Of each target word, given the text and the answer before it.")
    effects: list[list[float | None]] = Field(
        description="A row for each target word: how much its log probability falls without each source word; null "
        "where the source word does not precede it."
    )
    contrast: ContrastedWord | None
    truncated: bool = Field(description="True if the text was too long and its end was ignored.")


class WordEffectsReply(BaseModel):
    """The effects, sentence by sentence."""

    model: str
    text: str
    answer: str
    sentences: list[EffectsOnAnAnswer]


def word_effects(pipeline, request):
    """What each word contributes to each word of an answer, as an `AnswerExplanation`."""
    if pipeline.answer_kind not in ANSWERS_OF_WORDS:
        raise UserError("This model writes no text, so no word of an answer can be explained. See /v1/explain.")
    names = ("target", "contrast", "position", "seed")
    options = {name: getattr(request, name) for name in names if getattr(request, name) is not None}
    if excluded := sorted(options.keys() & ANSWERS_OF_WORDS[pipeline.answer_kind]):
        raise UserError(f"`{excluded[0]}` cannot be given for this model.")
    return pipeline.explain(request.text, **options)


class AlternativesRequest(TranslationRequest):
    """A place of a translation at which other words are requested."""

    position: int = Field(ge=0, description="The word of the translation, counted from 0.")
    n: int = Field(5, ge=1, le=20, description="The most alternatives.")
    translation: str | None = Field(None, description="The translation whose beginning is kept; default: the model's.")
    terms: dict[str, str] | None = Field(None, description="See /v1/translate.")
    do_not_translate: list[str] | None = Field(None, description="See /v1/translate.")


class AlternativeWord(BaseModel):
    """A word, and the translation to which it leads."""

    word: str
    probability: float = Field(description="That of the beginning of the word, given all that precedes it.")
    prefix: str = Field(description="The translation up to this word.")
    translation: str
    low_score: bool


class AlternativesReply(BaseModel):
    """The alternatives, the most probable word first."""

    model: str
    alternatives: list[AlternativeWord]


def alternatives(pipeline, request):
    """The alternatives as dicts of JSON types."""
    constraints = {"terms": request.terms, "do_not_translate": request.do_not_translate}
    candidates = pipeline.alternatives(request.text, request.position, request.n, request.translation, **constraints)
    return [
        {**one._asdict(), "translation": one.translation.text, "low_score": one.translation.low_score}
        for one in candidates
    ]


class EmbeddingsRequest(Request):
    """Texts whose vectors are requested, in the format of OpenAI's API."""

    input: str | Texts = Field(description="One text or several.", examples=["A dog runs."])
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="base64: the bytes of little-endian float32 numbers."
    )
    dimensions: int | None = Field(
        None, ge=1, description="Only the first numbers of each vector, scaled to length 1; default: all, unchanged."
    )
    user: str | None = Field(None, description="Accepted and ignored.")


class Embedding(BaseModel):
    """The vector of one text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str | None = Field(description="Null for an empty text.")


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
    parts = [(encoded.pooled, encoded.tokens) for encoded in pipeline.encode_in_parts(texts)]
    vectors, tokens = np.concatenate([pooled for pooled, _ in parts]), [one for _, some in parts for one in some]
    width = vectors.shape[1]
    if (kept := request.dimensions) is not None:
        if kept > width:
            raise UserError(f"The vectors of this model have {width} dimensions. Received: dimensions={kept}")
        vectors = unit(vectors[:, :kept])

    def written(vector, its_tokens):
        if not its_tokens:
            return None
        if request.encoding_format == "float":
            return vector.tolist()
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()

    written_vectors = list(map(written, vectors, tokens))
    count = sum(map(len, tokens))
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(written_vectors)],
        "usage": {"prompt_tokens": count, "total_tokens": count},
    }


class SimilarRequest(Request):
    """A query, and the texts to search for the nearest ones."""

    query: str = Field(examples=["A dog runs."])
    texts: Texts
    top: int = Field(5, ge=1, description="Number of texts in the answer.")


class SimilarText(BaseModel):
    """One of the texts."""

    index: int = Field(description="Its index in `texts`, counted from 0.")
    text: str
    score: float = Field(description="The cosine of both vectors.")


class SimilarReply(BaseModel):
    """The nearest texts, the nearest first."""

    model: str
    answers: list[SimilarText]


def similar(pipeline, request):
    """The nearest texts: list of dicts, see SimilarText."""
    return [one._asdict() for one in pipeline.similar(request.query, request.texts, top=request.top)]


class ZeroShotRequest(Request):
    """Texts, and the labels to choose from by similarity, without training."""

    texts: Texts = Field(examples=[["A dog runs."]])
    labels: Annotated[list[str], Field(min_length=2)] = Field(
        description="At least two different labels; descriptive ones work best.", examples=[["animals", "politics"]]
    )
    threshold: float | None = Field(None, ge=0, le=1, description="Minimum probability of a label.")
    top: int | None = Field(None, ge=1, description="Number of probabilities per text; default: all.")


class ZeroShotAnswer(BaseModel):
    """The label of one text."""

    label: str | None = Field(description="The most similar label, or null if it is below the threshold.")
    probabilities: dict[str, float] = Field(
        description="Softmax over 20 times the cosines, most probable first; not calibrated."
    )
    truncated: bool = Field(description="True if the text was too long and a part of it was ignored.")


class ZeroShotReply(BaseModel):
    """One answer per text, in the same order."""

    model: str
    answers: list[ZeroShotAnswer]


def zero_shot(pipeline, request):
    """The labels of the texts: list of dicts, see ZeroShotAnswer."""
    classifier = ZeroShotClassifier(pipeline, request.labels)
    classifications = classifier.classify(request.texts, threshold=request.threshold, return_scores=True)
    return [classification_as_json(answer, request.top) for answer in classifications]
