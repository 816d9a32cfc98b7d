"""What may be asked: the bodies of the requests, and their limits."""

from pydantic import BaseModel, ConfigDict, Field

from keras_attention.errors import UserError

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
