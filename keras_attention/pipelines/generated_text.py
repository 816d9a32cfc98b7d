"""A text that is being generated: its answer, its pieces for a stream, and the stop texts that end it."""

from typing import NamedTuple

from keras_attention.support.errors import check_finite


class Generation(NamedTuple):
    """One answer.

    Attributes:
        text: str, the continuation of the prompt, without a stop text.
        finish: "end" if the model ended the text, "stop" at a stop text, or "length" after `max_tokens` tokens.
        tokens: list of str, the generated tokens, including those of a stop text and END.
        token_ids: list of int.
        log_probs: list of float, the natural log probability of each token under the model itself.
    """

    text: str
    finish: str
    tokens: list
    token_ids: list
    log_probs: list


class Token(NamedTuple):
    """One token of a Piece.

    Attributes:
        text: str.
        log_prob: float, under the model itself.
        start: int, its position in the text of the answer, in characters.
        alternatives: list of (str, float), the most probable tokens at this step with their log probabilities.
    """

    text: str
    log_prob: float
    start: int
    alternatives: list


class Piece(NamedTuple):
    """The next part of an answer.

    Attributes:
        number: int, index of the answer: first the `n` answers to the first prompt, then those to the second ...
        text: str, the new characters, which later tokens cannot change.
        tokens: int, number of new tokens.
        finish: "" until the last piece; then see `Generation`.
        details: list of Token, the new tokens if requested, else empty.
    """

    number: int
    text: str
    tokens: int
    finish: str
    details: list


class GeneratedText:
    """A text that grows with each chunk of tokens, until the model or a stop text ends it.

    Args:
        generator: TextGenerator.
        prompt_ids: list of int, not empty.
        sampling: Sampling, of which the stop texts count.
        number: int, index of the answer, see `Piece`.
        key: int, index of the answer among those to the same prompt.

    Attributes:
        ids: list of int, the prompt and what has been generated.
        text: str, the generated text, without the prompt and without a stop text.
        finish: str, "" until the text is finished; then see `Generation`.
    """

    def __init__(self, generator, prompt_ids, sampling, number, key):
        self.generator, self.stop, self.number, self.key = generator, sampling.stop, number, key
        self.ids, self.start = [*prompt_ids], len(prompt_ids)
        self.prompt = generator.text_of(prompt_ids)
        self.log_probs, self.finish, self.text, self.details = [], "", "", []  # details: list of Token
        self.shown, self.reported = 0, 0  # characters and tokens that `next_piece` has returned

    def add(self, written, place, details, last):
        """Appends the next tokens until the text is finished.

        Args:
            written: `compiled_steps.Written`, the tokens of all texts of a batch.
            place: int, the place of this text in the batch.
            details: bool. Whether to keep a Token for each.
            last: bool. Whether no more tokens will follow.
        """
        for step, token in enumerate(written.tokens[:, place].tolist()):
            if self.finish:
                break
            if details:
                self._describe(token, written, step, place)
            check_finite(written.log_probs[step, place], "a log probability")
            self.ids.append(token)
            self.log_probs.append(float(written.log_probs[step, place]))
            if token == self.generator.end_id:
                self.finish = "end"
            elif self.stop:
                self._cut_at_stop()
        if not self.finish and last:
            self.finish = "length"
        if self.finish != "stop":
            self.text = self._text_so_far()

    def _text_so_far(self):
        return self.generator.text_of(self.ids)[len(self.prompt) :]

    def _describe(self, token, written, step, place):
        tops = self.generator.shown_tokens(written.top_ids[step, place])
        alternatives = list(zip(tops, written.top_log_probs[step, place].tolist(), strict=True))
        text = self.generator.shown_tokens([token])[0]
        self.details.append(Token(text, float(written.log_probs[step, place]), len(self._text_so_far()), alternatives))

    def _cut_at_stop(self):
        text = self._text_so_far()
        if places := [place for stop in self.stop if (place := text.find(stop)) >= 0]:
            self.text, self.finish = text[: min(places)], "stop"

    def next_piece(self):
        """The Piece after the last one, or None if there is no new text that is final."""
        final, tokens = self._final_text(), len(self.ids) - self.start
        if len(final) == self.shown and not self.finish:
            return None
        details = self.details[self.reported : tokens]
        piece = Piece(self.number, final[self.shown :], tokens - self.reported, self.finish, details)
        self.shown, self.reported = len(final), tokens
        return piece

    def _final_text(self):
        """The part of the text that later tokens cannot change: it ends before the possible start of a stop text."""
        if self.finish:
            return self.text
        text = self.text.rstrip("\ufffd")  # a character with missing bytes
        return text[: len(text) - max((stop_overlap(stop, text) for stop in self.stop), default=0)]

    def generation(self):
        """The Generation."""
        ids = self.ids[self.start :]
        return Generation(self.text, self.finish, self.generator.shown_tokens(ids), ids, self.log_probs)


def stop_overlap(stop, text):
    """The most characters at the end of a text that are the start of a stop text, but not all of it."""
    start = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while start >= 0 and not stop.startswith(text[start:]):
        start = text.find(stop[0], start + 1)
    return len(text) - start if start >= 0 else 0
