"""Fills the masks of a text with words."""

import re
from typing import Any, NamedTuple

import numpy as np

from keras_attention.inputs.given_texts import Texts, as_texts
from keras_attention.inputs.token_sequences import TokenSequence, text_sequences, warn_of_cut
from keras_attention.pipelines.base import Field
from keras_attention.pipelines.explanation import bert_view
from keras_attention.pipelines.text_encoder import UBIQUITIN, TextEncoder
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, check_finite, quoted
from keras_attention.tokenizers import AminoAcidTokenizer, UnigramTokenizer, WordPieceTokenizer
from keras_attention.tokenizers.unigram_tokenizer import WORD_BEGINS
from keras_attention.visualize.pages import AttentionView

MASK = "[MASK]"
ANY_CASE = r"\[[mM][aA][sS][kK]\]"  # of a mask that a user types; for `re` and for TensorFlow
MAX_MASKS = 32
LEAST_WIDTH = 20  # hypotheses of the beam search, also for fewer answers
MAX_SHOWN = 100  # fillings of one text in an HTTP answer
SAMPLES = ("Paris is the capital of [MASK].", "She opened the [MASK] and went in.")
PROTEIN_SAMPLES = (UBIQUITIN.replace("LIF", f"L{MASK}F"), UBIQUITIN.replace("KEG", f"K{MASK}G"))
SAMPLE_TOKENS = 64  # minimum `max_tokens` for SAMPLES on a card, enough with any vocabulary
SHOWN = ("text", "words", "score", "probabilities")  # fields of a Filling in JSON


class Filling(NamedTuple):
    """One answer.

    Attributes:
        text: str, the text with its masks filled.
        words: list of str, one for each mask.
        score: float in (0, 1], the joint probability of the words: the product of `probabilities`.
        probabilities: list of float, the probability of each word given the words to its left. For a word of several
            pieces, the geometric mean of the pieces' probabilities.
        truncated: bool. Whether the text exceeded the model's limit, so that its end was ignored.
    """

    text: str
    words: list
    score: float
    probabilities: list
    truncated: bool


class _Beam(NamedTuple):
    """A hypothesis with its first masks filled: `words` has (pieces, mean log probability of a piece) for each."""

    score: float
    words: tuple
    token_ids: np.ndarray


class _Word(NamedTuple):
    """A partial word for the mask at `place` of a beam."""

    beam: _Beam
    pieces: tuple
    log_prob: float
    token_ids: np.ndarray
    place: int

    def grown(self, log_probs, allowed, width):
        """Yields the word extended by each of the `width` most probable next pieces."""
        order = np.argsort(-np.where(allowed, log_probs, -np.inf), kind="stable")[: min(width, int(allowed.sum()))]
        at = self.place + len(self.pieces)
        for piece in order.tolist():
            token_ids = self.token_ids.copy()
            token_ids[at] = piece
            yield self._replace(
                pieces=(*self.pieces, piece), log_prob=self.log_prob + log_probs[piece], token_ids=token_ids
            )

    def as_beam(self):
        """The beam with this word in place of its mask."""
        mean = self.log_prob / len(self.pieces)
        return _Beam(self.beam.score + mean, (*self.beam.words, (self.pieces, mean)), self.token_ids)


def fillings_as_json(fillings):
    """Converts the Fillings of one text into a dict of JSON types."""
    return {
        "fillings": [{name: getattr(one, name) for name in SHOWN} for one in fillings],
        "truncated": any(one.truncated for one in fillings),
    }


class MaskFiller(TextEncoder):
    """Fills the masks of a text with a masked language model.

    Args:
        model: BertMaskedLM, built.
        tokenizer: WordPieceTokenizer or UnigramTokenizer, or AminoAcidTokenizer for proteins.
        max_tokens: int, limit of a text including [CLS] and [SEP].
        pooling, normalize: for `encode`, see `TextEncoder`.

    Attributes:
        can_begin: bool array (V,). Whether a piece can be the first of a word.
        can_stand: bool array (V,). Whether it can be the only one: the "▁" of a UnigramTokenizer cannot.
    """

    request_fields = {
        "texts": Field(list[str], 'Texts with "[MASK]" in place of missing words.', low=1),
        "top": Field(int, "Answers per text.", 5, 1, MAX_SHOWN),
    }
    answer_kind = "fillings"
    answer_fields = {
        "fillings": Field(
            [
                {
                    "text": Field(str),
                    "words": Field(list[str]),
                    "score": Field(float, "Joint probability of the words."),
                    "probabilities": Field(list[float]),
                }
            ],
            "The best fillings, best first.",
        ),
        "truncated": Field(bool, "True if the text was too long and its end was ignored."),
    }
    view_options = ()
    network_output = ("T, V", "of the piece at each place, before the softmax")

    def __init__(
        self,
        model: Any,
        tokenizer: WordPieceTokenizer | UnigramTokenizer | AminoAcidTokenizer,
        max_tokens: int,
        pooling: str = "mean",
        normalize: bool = False,
    ):
        options = {"pooling": pooling, "normalize": normalize}
        super().__init__(model, tokenizer, max_tokens, **options, encoder=model.encoder)
        self.compiled = self.compiled_forward(model)
        ids = tokenizer.pad_id, tokenizer.unknown_id, tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id
        special = np.isin(np.arange(tokenizer.vocabulary_size), ids)
        self.can_begin = ~special & ~tokenizer.is_continuation
        self.can_stand = self.can_begin.copy()
        marks = [token_id for token_id, piece in enumerate(tokenizer.vocabulary) if piece == WORD_BEGINS]
        self.can_stand[[token_id for token_id in marks if not tokenizer.decode([[token_id]])[0]]] = False
        self._continues = ~special & tokenizer.is_continuation

    def answers(self, sources, sources_b=None):
        return [best[0].text if best else "" for best in self.fill_mask(sources, top_k=1)]

    def agreement(self, other: Any, texts: list[str], texts_b: list[str] | None = None) -> dict[str, float]:
        """The share of texts that are filled in the same way."""
        mine, its = self.answers(texts), other.answers(texts)
        return {"same words (%)": 100.0 * sum(map(str.__eq__, mine, its)) / len(texts)}

    def reply(self, texts, top=5):
        return [fillings_as_json(fillings) for fillings in self.fill_mask(texts, top_k=top)]

    @property
    def samples(self):
        samples = PROTEIN_SAMPLES if self.reads_proteins else SAMPLES
        return list(samples) if self.max_tokens >= SAMPLE_TOKENS else []

    def sides(self, line):
        return (line,)

    def example_inputs(self, length: int) -> dict[str, np.ndarray]:
        """See `TextEncoder.example_inputs`; with the position of one mask."""
        return {**super().example_inputs(length), "masked_positions": np.zeros(1, "int32")}

    def fill_mask(self, texts: Texts, *, top_k: int = 5, max_pieces: int = 1) -> Any:
        """Finds the most probable words for the masks of one text or many.

        A beam search fills the masks from left to right: p(words) = p(first) p(second | first) ... Words chosen
        independently would often not fit together. The beam has `top_k` hypotheses, but at least 20, so that the best
        answer is the same for all smaller numbers of answers.

        Args:
            texts: str, or any sequence or iterable of str, each with at least one "[MASK]", in upper or lower case.
            top_k: int > 0, number of answers for each text.
            max_pieces: int in [1, 8]. Maximum number of vocabulary pieces in a word.

        Returns:
            For each text a list of Filling, best first; a single such list if `texts` is a str. An empty or blank text
            has none: [].

        Raises:
            UserError: if a text has no mask, too many masks, or a mask beyond the model's limit; or a setting is out of
                range.
        """
        for name, value, most in (("top_k", top_k, 1000), ("max_pieces", max_pieces, 8)):
            if type(value) is not int or not 1 <= value <= most:
                raise UserError(f"`{name}` must be an integer from 1 to {most}. Received: {name}={quoted(value)}")
        texts, alone = as_texts(texts)
        texts = [re.sub(ANY_CASE, MASK, text) for text in texts]
        sequences = text_sequences(self.tokenizer, texts, max_tokens=self.max_tokens, masks=True, warn=False)
        for text, sequence in zip(texts, sequences, strict=True):
            if not is_blank(text):
                self._check(text, sequence)
        warn_of_cut(sequences, self.max_tokens)
        answers = [
            [] if is_blank(text) else self._fill(text, sequence, top_k, max_pieces)
            for text, sequence in zip(texts, sequences, strict=True)
        ]
        return answers[0] if alone else answers

    def attention_view(self, text: str, text_b: str | None = None, **options: Any) -> AttentionView:
        """The attention weights and the most probable words, as a page: see `explanation.bert_view`."""
        self.check_view(text_b, options)
        if isinstance(text, str):
            text = re.sub(ANY_CASE, MASK, text)
        (sequence,) = text_sequences(self.tokenizer, [text], max_tokens=self.max_tokens, masks=True, warn=False)
        fillings = self.fill_mask(text) if self.tokenizer.mask_id in sequence.token_ids else ()
        decision = [(", ".join(filling.words), filling.score) for filling in fillings]
        return bert_view(self, text, masks=True, decision=decision)

    def _check(self, text, sequence):
        gaps = text.count(MASK)
        if not 1 <= gaps <= MAX_MASKS:
            raise UserError(f"A text must have 1 to {MAX_MASKS} masks, written [MASK]. Found {gaps} in {quoted(text)}")
        read = int((sequence.token_ids == self.tokenizer.mask_id).sum())
        if read < gaps:
            raise UserError(
                f"Mask {read + 1} lies beyond the {self.max_tokens} tokens that this model reads: {quoted(text)}"
            )

    def _fill(self, text, sequence, top_k, max_pieces):
        """The best fillings of one text."""
        beams, width = [_Beam(0.0, (), sequence.token_ids)], max(top_k, LEAST_WIDTH)
        for _ in range(text.count(MASK)):
            grown = [new for pieces in range(1, max_pieces + 1) for new in self._fill_first(beams, pieces, width)]
            beams = sorted(grown, key=lambda beam: -beam.score)[:width]
        return [self._filling(text, beam.words, sequence.truncated) for beam in beams[:top_k]]

    def _fill_first(self, beams, pieces, width):
        """Fills the leftmost mask of each beam with a word of `pieces` pieces, one by one; keeps the best `width`."""
        mask_id = self.tokenizer.mask_id
        words = []
        for beam in beams:
            place = int(np.flatnonzero(beam.token_ids == mask_id)[0])
            parts = beam.token_ids[:place], [mask_id] * pieces, beam.token_ids[place + 1 :]
            words.append(_Word(beam, (), 0.0, np.concatenate(parts).astype("int32"), place))
        words = [word for word in words if len(word.token_ids) <= self.max_tokens]
        for piece in range(pieces):
            sequences = [TokenSequence(word.token_ids, np.zeros_like(word.token_ids), False) for word in words]
            places = (np.array([word.place + piece], "int32") for word in words)
            inputs = zip(self.inputs(sequences), places, strict=True)
            outputs = self.compiled.run([{**tokens, "masked_positions": at} for tokens, at in inputs])
            first = self.can_begin if pieces > 1 else self.can_stand
            allowed = self._continues if piece else first
            grown = []
            for word, (logits,) in zip(words, outputs, strict=True):
                check_finite(logits, "a logit")
                grown += word.grown(_log_softmax(logits[0]), allowed, width)
            words = sorted(grown, key=lambda word: -(word.beam.score + word.log_prob / (piece + 1)))[:width]
        return [word.as_beam() for word in words]

    def _filling(self, text, words, truncated):
        written = [self.tokenizer.decode([np.array(pieces)])[0] for pieces, _ in words]
        probabilities = [float(np.exp(log_prob)) for _, log_prob in words]
        parts = text.split(MASK)
        filled = parts[0] + "".join(word + part for word, part in zip(written, parts[1:], strict=True))
        return Filling(filled, written, float(np.prod(probabilities)), probabilities, truncated)


def _log_softmax(logits):
    logits = logits.astype("float64")
    return logits - np.logaddexp.reduce(logits)
