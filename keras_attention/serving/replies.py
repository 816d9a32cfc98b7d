"""What is answered, for the description of the API."""

from pydantic import BaseModel, Field


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
