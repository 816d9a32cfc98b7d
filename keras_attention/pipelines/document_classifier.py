"""Documents in, labels out: each sentence is a row of tokens, and the page of the weights shows the document."""

import re
from functools import partial
from typing import Any

import numpy as np

from keras_attention.inputs.document import DocumentInput
from keras_attention.inputs.given_texts import Texts, as_texts
from keras_attention.inputs.token_sequences import (
    CHARACTERS_PER_TOKEN,
    MOST_TOKENS_OF_WHOLE,
    START,
    TOKEN_PADDING,
    WHOLE,
    TokenSequence,
    cut_text,
    warn_of_cut,
)
from keras_attention.pipelines.classifier import Classifier
from keras_attention.runtime.compiled_forward import CompiledForward
from keras_attention.support.errors import UserError, check_finite
from keras_attention.visualize.document_pages import DocumentPage, ShadedSentence

STEPS_PER_BATCH = 16_384
WORD = re.compile(r"\S+")


class DocumentClassifier(Classifier):
    """Classifies documents with a HierarchicalAttentionClassifier.

    A sentence of more than `sentence_length` tokens continues in the next row. `max_tokens`, rounded down to whole
    rows, limits the tokens of a document with the padding of its rows.

    Args:
        model, tokenizer, max_tokens, task, blend: see `Classifier`.
    """

    view_options = ()

    @property
    def input(self):
        return DocumentInput()

    @property
    def has_attention(self) -> bool:
        """bool. Whether `attention_view` is available."""
        return self.model.has_attention

    @property
    def row_length(self) -> int:
        """int, the tokens of a row."""
        return self.model.sentence_length

    @property
    def most_rows(self) -> int:
        """int, the most rows of a document that are read at once."""
        return max(1, self.max_tokens // self.row_length)

    def compiled_forward(self, network: Any) -> CompiledForward:
        function = partial(network, training=False)
        longest = max(self.max_tokens, network.sentence_length)
        return CompiledForward(function, TOKEN_PADDING, longest, network, steps_per_batch=STEPS_PER_BATCH)

    def example_inputs(self, length: int) -> dict[str, np.ndarray]:
        return {"token_ids": np.ones(-(-length // self.row_length) * self.row_length, "int32")}

    def sequences(self, texts: Texts, texts_b: Texts | None = None, *, warn: bool = False) -> list[list[TokenSequence]]:
        """The rows of each document in a list of sequences: more than one only for long documents read whole."""
        if self.long_texts != WHOLE:
            return [[sequence] for sequence in self.single_sequences(texts, texts_b, warn=warn)]
        most, documents = MOST_TOKENS_OF_WHOLE // self.row_length, []
        for rows, cut in self.rows(texts, texts_b):
            truncated = cut or len(rows) > most
            rows = cut_text(rows, most, WHOLE)
            count = max(1, -(-len(rows) // self.most_rows))
            starts = np.linspace(0, max(0, len(rows) - self.most_rows), count).astype(int)
            documents.append([self._sequence(rows[start : start + self.most_rows], truncated) for start in starts])
        if warn:
            warn_of_cut([some[0] for some in documents], MOST_TOKENS_OF_WHOLE, WHOLE)
        return documents

    def single_sequences(
        self, texts: Texts, texts_b: Texts | None = None, *, warn: bool = False
    ) -> list[TokenSequence]:
        """One sequence for each document: its rows, each filled up with padding. Longer documents lose rows."""
        documents = [
            self._sequence(cut_text(rows, self.most_rows, self.long_texts), cut or len(rows) > self.most_rows)
            for rows, cut in self.rows(texts, texts_b)
        ]
        if warn:
            warn_of_cut(documents, self.max_tokens, self.long_texts)
        return documents

    def rows(self, texts: Texts, texts_b: Texts | None = None) -> list[tuple[list[np.ndarray], bool]]:
        """The rows of each document, and whether it was cut before: list of (list of int32 arrays, bool)."""
        if texts_b is not None:
            raise UserError("This model reads documents, one text each: leave out the second texts.")
        texts, _ = as_texts(texts)
        most = self.most_rows * self.row_length if self.long_texts != WHOLE else MOST_TOKENS_OF_WHOLE
        most *= CHARACTERS_PER_TOKEN
        texts = [text.strip() for text in texts]
        documents = [cut_text(text, most, self.long_texts) for text in texts]
        parts = [[text[start:end] for start, end in DocumentInput.sentences(text)] for text in documents]
        encoded = iter(self.tokenizer.encode([part for some in parts for part in some]))
        rows_of_texts = []
        for text, some in zip(texts, parts, strict=True):
            rows = [row for _ in some for row in self._split(next(encoded))]
            rows_of_texts.append((rows, len(text) > most))
        return rows_of_texts

    def _split(self, ids):
        """The ids of a sentence in rows."""
        return [ids[start : start + self.row_length] for start in range(0, len(ids), self.row_length)]

    def _sequence(self, rows, truncated):
        rows = rows or [np.array([self.tokenizer.unknown_id], "int32")]  # of a blank text, which has no answer
        ids = np.full((len(rows), self.row_length), self.tokenizer.pad_id, "int32")
        for own, row in zip(ids, rows, strict=True):
            own[: len(row)] = row
        return TokenSequence(ids.ravel(), np.zeros(ids.size, "int32"), truncated)

    def attention_view(self, text: str, text_b: str | None = None, **options: Any) -> DocumentPage:
        """The document, its sentences and words shaded by their attention weights, as a page.

        Of a document that is too long, the sentences that the model does not read have no weight.
        """
        if not self.has_attention:
            raise UserError("This model has no attention, so there is nothing to show.")
        self.check_view(text_b, options)
        return DocumentPage([self.shaded(text)])

    def shaded(self, text: str) -> dict[str, Any]:
        """The document with its attention weights and its answer: dict of JSON types, see `DocumentPage`."""
        (text,), _ = as_texts([text], "text")
        answer = self.classify(text, return_scores=True)
        spans = DocumentInput.sentences(text)
        rows = [(place, row) for place, (start, end) in enumerate(spans) for row in self._rows_of(text[start:end])]
        kept = cut_text(rows, self.most_rows, START if self.long_texts == WHOLE else self.long_texts)
        of_rows, of_words = self._weights([ids for _, (ids, _) in kept])
        sentences = [ShadedSentence(start, end, 0.0, []) for start, end in spans]
        for number, (place, (_, words)) in enumerate(kept):
            sentence, first = sentences[place], sentences[place].start
            sentence.words.extend(
                (first + start, first + end, float(of_rows[number] * of_words[number][at].sum()))
                for start, end, at in words
                if len(at)
            )
            sentences[place] = sentence._replace(weight=sentence.weight + float(of_rows[number]))
        note = f"{type(self.model).__name__}, {self.model.count_params():,} parameters"
        if blended := self.blend and self.blend.attention_note():
            note += f". {blended}"
        return {
            "text": text,
            "label": None if answer.label is None else self.label_text(answer.label),
            "probabilities": dict(list(answer.probabilities.items())[:10]),
            "sentences": [sentence._asdict() for sentence in sentences],
            "truncated": len(kept) < len(rows),
            "note": note,
        }

    def _weights(self, rows):
        """The attention weights (S,) of the rows, and (S, W) of their words."""
        sequence = self._sequence(rows, False)
        _, weights = self.model(sequence.token_ids[None], training=False, return_attention_scores=True)
        of_rows, of_words = (np.asarray(weights[name], "float32")[0] for name in ("sentences", "words"))
        check_finite(of_rows, "an attention weight")
        return of_rows, of_words

    def _rows_of(self, sentence):
        """The rows of a sentence, each with its words (start, end, places of their tokens in the row)."""
        words = [(match.start(), match.end()) for match in WORD.finditer(sentence)]
        tokens = self.tokenizer.encode([sentence[start:end] for start, end in words])
        word_of = [number for number, ids in enumerate(tokens) for _ in ids]
        (ids,) = self.tokenizer.encode([sentence])
        if len(word_of) != len(ids):  # the tokenizer joins what blanks separate; then a sentence is one word
            words, word_of = [(0, len(sentence))], [0] * len(ids)
        rows = []
        for start in range(0, len(ids), self.row_length):
            of_row = np.array(word_of[start : start + self.row_length])
            numbers = dict.fromkeys(of_row.tolist())
            of_words = [(*words[number], np.flatnonzero(of_row == number)) for number in numbers]
            rows.append((ids[start : start + self.row_length], of_words))
        return rows
