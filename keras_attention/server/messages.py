"""The bodies of requests and answers, their limits, and the refusal of a request."""

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from keras_attention.errors import UserError

RETRY_SECONDS = 1


class Refusal(Exception):
    """Args: status, int of HTTP; message, str for the client; close, bool, whether to end the connection."""

    def __init__(self, status, message, close=False):
        super().__init__(message)
        self.status, self.message, self.close = status, message, close

    def response(self):
        """The answer as JSON; with 503 it says when to come again."""
        headers = {"retry-after": str(RETRY_SECONDS)} if self.status == 503 else {}
        headers |= {"connection": "close"} if self.close else {}
        message = self.message.encode("utf-8", "replace").decode()  # it may quote half a surrogate pair
        return JSONResponse({"error": message}, self.status, headers)


MAX_SHOWN = 100


class _Strict(BaseModel):
    """Unknown fields are refused, and a number is no text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(None, description="A name out of `GET /v1/models`; without it the first that can do it.")


class TranslateRequest(_Strict):
    """Sentences to translate."""

    texts: list[str] = Field(min_length=1, examples=[["A dog runs."]])
    n_best: int = Field(1, ge=1, le=64, description="Answers to each, up to the beam size of the model.")


class ClassifyRequest(_Strict):
    """Texts, or pairs of texts, to classify."""

    texts: list[str] = Field(min_length=1, examples=[["What a joy."]])
    texts_b: list[str] | None = Field(None, description="The second texts, for a model of pairs.")
    threshold: float | None = Field(None, ge=0, le=1, description="The probability that a label needs.")
    top: int | None = Field(None, ge=1, description="Probabilities told of each text; without it all.")


class FillMaskRequest(_Strict):
    """Texts with gaps to fill."""

    texts: list[str] = Field(min_length=1, examples=[["A dog [MASK] over the grass."]])
    top: int = Field(5, ge=1, le=MAX_SHOWN, description="Answers to each text.")


class AttentionRequest(_Strict):
    """A text, of which is told what the model looks at while it reads it."""

    text: str = Field(examples=["A dog runs."])
    text_b: str | None = Field(None, description="The second text of a pair.")
    target: str | None = Field(None, description="A translation to look at instead of the model's own.")
    n_best: int = Field(1, ge=1, le=64, description="Translations shown, up to the beam size of the model.")


def check_limits(request, settings):
    """Raises UserError if a request has more texts, or longer ones, than a server allows."""
    texts = [text for name in ("texts", "texts_b") for text in getattr(request, name, None) or ()]
    texts += [text for name in ("text", "text_b", "target") if (text := getattr(request, name, None))]
    most = settings.items * (2 if getattr(request, "texts_b", None) else 1)
    if len(texts) > most:
        raise UserError(f"A request has at most {settings.items} texts. Received: {len(texts)}")
    longest = max(map(len, texts), default=0)
    if longest > settings.characters:
        raise UserError(f"A text has at most {settings.characters:,} characters. Received: {longest:,}")


class Error(BaseModel):
    """Why there is no answer."""

    error: str


class Hypothesis(BaseModel):
    """One translation."""

    text: str
    score: float = Field(description="What the search ranks by.")
    log_prob: float = Field(description="Summed natural log probability of the tokens.")
    low_score: bool = Field(description="Whether the model is not sure.")
    tokens: list[str]


class Translated(BaseModel):
    """The best translations of a text, best first."""

    translations: list[Hypothesis]
    source_tokens: list[str] = Field(description="What the model read.")
    truncated: bool = Field(description="Whether only the beginning of the text was read.")


class TranslateReply(BaseModel):
    """One answer for each text."""

    model: str
    answers: list[Translated]


class Classified(BaseModel):
    """The label of a text: one, a list where a text may have several, or a number."""

    label: str | list[str] | float | None
    probabilities: dict[str, float] = Field(description="The most probable first.")
    truncated: bool = Field(description="Whether only a part of the text was read.")


class ClassifyReply(BaseModel):
    """One answer for each text."""

    model: str
    answers: list[Classified]


class Filled(BaseModel):
    """A text with its gaps filled."""

    text: str
    words: list[str]
    score: float = Field(description="How probable the words are together.")
    probabilities: list[float]


class Fillings(BaseModel):
    """The best fillings of a text, best first."""

    fillings: list[Filled]
    truncated: bool = Field(description="Whether only the beginning of the text was read.")


class FillMaskReply(BaseModel):
    """One answer for each text."""

    model: str
    answers: list[Fillings]


class Map(BaseModel):
    """What one part of the model looked at."""

    name: str
    rows: list[str] = Field(description="The tokens that look.")
    columns: list[str] = Field(description="The tokens that are looked at.")
    row_title: str
    column_title: str
    row_segments: list[int] | None = Field(description="1 for tokens of a second text.")
    column_segments: list[int] | None
    layers: int
    heads: int
    weights: str = Field(description="Base64 of bytes, 255 times each weight; axes: layers, heads, rows, columns.")


class Looked(BaseModel):
    """The maps of one answer."""

    name: str
    maps: list[Map]


class AttentionReply(BaseModel):
    """What the model looked at, for each answer that was asked for."""

    model: str
    title: str
    note: str = Field(description="The model, what it says, and whether the text was cut.")
    decision: list[tuple[str, float]] = Field(description="What the model says, with probabilities.")
    kept: tuple[str, int] | None = Field(description="What the page marks at first.")
    answers: list[Looked]
