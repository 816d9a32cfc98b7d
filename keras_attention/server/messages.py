"""Bodies of requests and responses, their limits, and the error response."""

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from keras_attention.errors import UserError

RETRY_SECONDS = 1


class Refusal(Exception):
    """An error response. Args: status, int, HTTP status; message, str; close, bool, whether to close the connection."""

    def __init__(self, status, message, close=False):
        super().__init__(message)
        self.status, self.message, self.close = status, message, close

    def response(self):
        """The response as JSON; with status 503 it has the header Retry-After."""
        headers = {"retry-after": str(RETRY_SECONDS)} if self.status == 503 else {}
        headers |= {"connection": "close"} if self.close else {}
        message = self.message.encode("utf-8", "replace").decode()  # the message may quote half a surrogate pair
        return JSONResponse({"error": message}, self.status, headers)


MAX_SHOWN = 100


class _Strict(BaseModel):
    """Refuses unknown fields and values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(
        None, description="Model name from `GET /v1/models`; default: the first model with this task."
    )


class TranslateRequest(_Strict):
    """Sentences to translate."""

    texts: list[str] = Field(min_length=1, examples=[["A dog runs."]])
    n_best: int = Field(1, ge=1, le=64, description="Translations per text, up to the beam size of the model.")


class ClassifyRequest(_Strict):
    """Texts, or pairs of texts, to classify."""

    texts: list[str] = Field(min_length=1, examples=[["What a joy."]])
    texts_b: list[str] | None = Field(None, description="The second texts, for a model of text pairs.")
    threshold: float | None = Field(None, ge=0, le=1, description="Minimum probability of a label.")
    top: int | None = Field(None, ge=1, description="Number of probabilities per text; default: all.")


class FillMaskRequest(_Strict):
    """Texts with [MASK] in place of missing words."""

    texts: list[str] = Field(min_length=1, examples=[["A dog [MASK] over the grass."]])
    top: int = Field(5, ge=1, le=MAX_SHOWN, description="Answers per text.")


class AttentionRequest(_Strict):
    """A text whose attention weights are wanted."""

    text: str = Field(examples=["A dog runs."])
    text_b: str | None = Field(None, description="The second text of a text pair.")
    target: str | None = Field(None, description="A translation to use instead of the model's own.")
    n_best: int = Field(1, ge=1, le=64, description="Number of translations, up to the beam size of the model.")


def check_limits(request, settings):
    """Raises UserError if a request has too many or too long texts."""
    texts = [text for name in ("texts", "texts_b") for text in getattr(request, name, None) or ()]
    texts += [text for name in ("text", "text_b", "target") if (text := getattr(request, name, None))]
    most = settings.items * (2 if getattr(request, "texts_b", None) else 1)
    if len(texts) > most:
        raise UserError(f"A request has at most {settings.items} texts. Received: {len(texts)}")
    longest = max(map(len, texts), default=0)
    if longest > settings.characters:
        raise UserError(f"A text has at most {settings.characters:,} characters. Received: {longest:,}")


class Error(BaseModel):
    """The reason for an error."""

    error: str


class Hypothesis(BaseModel):
    """One translation."""

    text: str
    score: float = Field(
        description="Score that the search maximizes: length-normalized log probability with penalties."
    )
    log_prob: float = Field(description="Summed natural log probability of the tokens.")
    low_score: bool = Field(description="True if the score is so low that the translation is unreliable.")
    tokens: list[str]


class Translated(BaseModel):
    """The best translations of a text, best first."""

    translations: list[Hypothesis]
    source_tokens: list[str] = Field(description="Tokens of the source text.")
    truncated: bool = Field(description="True if the text was too long and its end was ignored.")


class TranslateReply(BaseModel):
    """One answer for each text."""

    model: str
    answers: list[Translated]


class Classified(BaseModel):
    """The label of a text: a string, a list for a multilabel task, or a number for a regression."""

    label: str | list[str] | float | None
    probabilities: dict[str, float] = Field(description="Probability of each label, most probable first.")
    truncated: bool = Field(description="True if the text was too long and a part of it was ignored.")


class ClassifyReply(BaseModel):
    """One answer for each text."""

    model: str
    answers: list[Classified]


class Filled(BaseModel):
    """A text with its masks filled."""

    text: str
    words: list[str]
    score: float = Field(description="Joint probability of the words.")
    probabilities: list[float]


class Fillings(BaseModel):
    """The best fillings of a text, best first."""

    fillings: list[Filled]
    truncated: bool = Field(description="True if the text was too long and its end was ignored.")


class FillMaskReply(BaseModel):
    """One answer for each text."""

    model: str
    answers: list[Fillings]


class Map(BaseModel):
    """The attention weights of one part of the model."""

    name: str
    rows: list[str] = Field(description="Tokens of the queries.")
    columns: list[str] = Field(description="Tokens of the keys.")
    row_title: str
    column_title: str
    row_segments: list[int] | None = Field(description="1 for tokens of the second text.")
    column_segments: list[int] | None
    layers: int
    heads: int
    weights: str = Field(description="Base64 of bytes: each weight times 255; axes: layers, heads, rows, columns.")


class Looked(BaseModel):
    """The maps of one answer."""

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
