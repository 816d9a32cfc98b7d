"""What may go into a translator, and what may come out of one that writes dates."""

from datetime import date

from keras_attention.errors import UserError


class TruncatedText(UserWarning):
    """A text was longer than the model reads, and was cut."""


def check_texts(texts):
    """Raises UserError unless `texts` is a list of str that can be written as UTF-8."""
    if not isinstance(texts, (list, tuple)):
        raise UserError(f"`texts` must be a str or a list of str. Received: {type(texts).__name__}")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise UserError(f"Sentence {number} must be a str. Received: {type(text).__name__} {text!r:.40}")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(f"Sentence {number} holds half of a surrogate pair, which is no text.") from error


def is_calendar_day(text):
    """Whether the text is the ISO 8601 form of a day that there is, such as "2020-02-29"."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
