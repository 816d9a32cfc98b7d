"""Texts in, labels out: with a trained head, or without training by the similarity of texts and labels."""

from typing import Any, Self

import numpy as np

from keras_attention.data.tables.label_task import spelling_key
from keras_attention.evaluation.bag_of_words import BagOfWords, Blend
from keras_attention.inputs import Field
from keras_attention.inputs.given_texts import Progress, Texts, as_pair, blank_rows
from keras_attention.inputs.pair import PairInput
from keras_attention.inputs.text import TextInput
from keras_attention.inputs.token_sequences import (
    MOST_TOKENS_OF_WHOLE,
    START,
    WHOLE,
    TokenSequence,
    text_sequences,
    warn_of_cut,
    whole_text_sequences,
)
from keras_attention.pipelines.explanation import Explanation, bert_view, explain
from keras_attention.pipelines.labels import (  # noqa: F401  (also for those who import them from here)
    LABEL_ANSWER,
    LABEL_REQUEST,
    Classification,
    agreement_of_labels,
    check_threshold,
    classification_as_json,
    given_labels,
    label_answer,
    label_fields,
    label_text,
)
from keras_attention.pipelines.text_encoder import Embeddings, TextEncoder, unit
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, check_finite, quoted
from keras_attention.support.moved import RenamedAttribute
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.visualize.pages import AttentionView
from keras_attention.zoo.weights_file import load_words, save_words

NO_ANSWER = Classification(None, {}, False)  # to an empty or blank text
SAMPLES = ("What a wonderful day.", "This is the worst that I have seen.")
MOST_PARTS = 32  # sequences of a text that is read whole, in a request to the server
SAMPLE_TOKENS = 64  # minimum `max_tokens` for SAMPLES on a card, enough with any vocabulary
# Factor of the cosines, as in the training of sentence encoders: multiple negatives ranking of Reimers & Gurevych.
COSINE_SCALE = 20.0


class Classifier(TextEncoder):
    """Classifies texts with a fine-tuned network.

    Args:
        model: BertClassifier or RecurrentClassifier, built.
        tokenizer: WordPieceTokenizer.
        max_tokens: int, limit of a sequence with [CLS] and [SEP]. Longer texts are cut, with a warning, or split into
            several sequences, as `task` says.
        task: dict, see `schema.TASK`.
        blend: Blend, a bag of words whose predictions are averaged with the network's, or None.
    """

    request_fields = {
        "texts": Field(list[str], "Texts to classify.", low=1),
        "texts_b": PairInput.fields["texts_b"],
        **label_fields(LABEL_REQUEST, "text"),
    }
    answer_kind = "labels"
    answer_fields = {
        **label_fields(LABEL_ANSWER, "text"),
        "truncated": Field(bool, "True if the text was too long and a part of it was ignored."),
    }

    network_output = ("K", "of each label, before the softmax; without the bag of words, if the model has one")

    def __init__(
        self,
        model: Any,
        tokenizer: WordPieceTokenizer,
        max_tokens: int,
        task: dict[str, Any],
        blend: Blend | None = None,
    ):
        super().__init__(
            model, tokenizer, max_tokens, task.get("long_texts", START), encoder=getattr(model, "encoder", None)
        )
        self.task = task
        self.text_limit = MOST_PARTS * max_tokens if self.long_texts == WHOLE else None
        self.blend: Blend | None = blend
        self.compiled = self.encoding if self.encoder is model else self.compiled_forward(model)

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        return cls(model, tokenizers["text"], config["max_tokens"], config["task"])

    @classmethod
    def from_loaded(cls, loaded):
        classifier = super().from_loaded(loaded)
        if loaded.entry.config["words"] is not None:
            terms, arrays = load_words(loaded.entry)
            words = loaded.entry.config["words"]
            classifier.blend = Blend(BagOfWords(terms, **arrays, units=words["units"]), words["weight"])
        return classifier

    def config_keys(self):
        words = self.blend.config_keys() if self.blend else None
        return {**self.described_text(), "task": self.task, "words": words}

    @property
    def extra_files(self):
        if self.blend is None:
            return []
        words = self.blend.words
        arrays = {"idf": words.idf, "kernel": words.kernel, "bias": words.bias}
        return [lambda folder: save_words(folder, words.terms, arrays)]

    @property
    def has_attention(self) -> bool:
        """bool. Whether `attention_view` is available."""
        return getattr(self.model, "has_attention", True)

    @property
    def facts(self):
        return self.facts_of({"task": self.task})

    @classmethod
    def facts_of(cls, config):
        task = config["task"]
        return {"kind": task["kind"], "labels": task["label_names"], "pair": task["pair"]}

    @property
    def samples(self):
        return list(SAMPLES) if self.max_tokens >= SAMPLE_TOKENS and not self.task["pair"] else []

    @property
    def input(self):
        return PairInput() if self.task["pair"] else TextInput()

    def sides(self, line):
        return self.input.sides(line)

    def answers(self, sources, sources_b=None):
        classifications = self.classify(sources, sources_b, return_scores=True)
        return ["" if answer == NO_ANSWER else self.label_text(answer.label) for answer in classifications]

    def label_text(self, label: str | list[str] | float | None) -> str:
        """A label as text for a table, see `labels.label_text`."""
        return label_text(label, self.task)

    def reply(self, texts, texts_b=None, threshold=None, top=None):
        classifications = self.classify(texts, texts_b, threshold=threshold, return_scores=True)
        return [classification_as_json(answer, top) for answer in classifications]

    def encode(self, texts: Texts, texts_b: Texts | None = None, **options: Any) -> Embeddings:
        """The vectors of texts from the encoder of a BERT, see `TextEncoder.encode`.

        Raises:
            UserError: if the network has no encoder; see `TextEncoder.encode`.
        """
        if self.encoder is self.model:
            raise UserError(f"A {type(self.model).__name__} gives labels, but no vectors of tokens.")
        return super().encode(texts, texts_b, **options)

    def classify(
        self,
        texts: Texts,
        texts_b: Texts | None = None,
        *,
        threshold: float | None = None,
        return_scores: bool = False,
        progress: Progress = None,
    ) -> Any:
        """Classifies one text or many.

        Args:
            texts: str, or any sequence or iterable of str.
            texts_b: second texts, of the same types, for a model of text pairs; else None.
            threshold: float in [0, 1] or None, the minimum probability of a label. None: the threshold of the model.
            return_scores: bool. Whether to return Classifications instead of labels.
            progress: callable (texts done, number of texts) or None.

        Returns:
            List with the label of each text, see `Classification`, or with the Classifications. A single one, without
            a list, if `texts` is a str. The label of an empty or blank text is None.

        Raises:
            UserError: if a text is not a str, second texts are missing or not expected, or `threshold` is out of range
                or given to a regression.
        """
        check_threshold(threshold, self.task)
        texts, texts_b, alone = as_pair(texts, texts_b)
        classifications = self.classifications(texts, texts_b, threshold, progress)
        answers = [
            NO_ANSWER if blank else answer
            for answer, blank in zip(classifications, blank_rows(texts, texts_b), strict=True)
        ]
        answers = answers if return_scores else [answer.label for answer in answers]
        return answers[0] if alone else answers

    def classifications(
        self,
        texts: list[str],
        texts_b: list[str] | None = None,
        threshold: float | None = None,
        progress: Progress = None,
    ) -> list[Classification]:
        """What the model computes for each text or pair, also for a blank one; arguments as in `classify`."""
        if self.task["pair"] != (texts_b is not None):
            needed = "pairs: give the second texts too" if self.task["pair"] else "single texts: leave out the second"
            raise UserError(f"This model classifies {needed}.")
        sequences = self.sequences(texts, texts_b, warn=True)
        logits = self.blended(self.logits(sequences, progress), texts, texts_b)  # (N, K)
        return [
            self.classification(row, threshold)._replace(truncated=some[0].truncated)
            for some, row in zip(sequences, logits, strict=True)
        ]

    def sequences(self, texts: Texts, texts_b: Texts | None = None, *, warn: bool = False) -> list[list[TokenSequence]]:
        """The sequences of each text or pair, lists of TokenSequence: more than one only for long texts read whole."""
        if self.long_texts == WHOLE and texts_b is None:
            sequences_of_text = whole_text_sequences(self.tokenizer, texts, max_tokens=self.max_tokens)
            if warn:
                warn_of_cut([some[0] for some in sequences_of_text], MOST_TOKENS_OF_WHOLE, WHOLE)
            return sequences_of_text
        return [[sequence] for sequence in self.single_sequences(texts, texts_b, warn=warn)]

    @property
    def most_tokens(self) -> int:
        """Maximum number of tokens of a text that are read, in all its sequences."""
        return MOST_TOKENS_OF_WHOLE if self.long_texts == WHOLE and not self.task["pair"] else self.max_tokens

    def single_sequences(
        self, texts: Texts, texts_b: Texts | None = None, *, warn: bool = False
    ) -> list[TokenSequence]:
        """One sequence for each text or pair, as in training: list of TokenSequence, see `text_sequences`."""
        limits = {"max_tokens": self.max_tokens, "long_texts": self.long_texts}
        return text_sequences(self.tokenizer, texts, texts_b, **limits, warn=warn)

    def logits(self, sequences: list[list[TokenSequence]], progress: Progress = None) -> np.ndarray:
        """The logits of each text: the mean over its sequences.

        Args:
            sequences: list of N lists of TokenSequence, see `sequences`.
            progress: callable (texts done, number of texts) or None; for one text, (parts done, number of parts).

        Returns:
            Float array (N, K).
        """
        flat = [sequence for some in sequences for sequence in some]
        count = len(sequences) if len(sequences) > 1 else len(flat)
        report = progress and (lambda done, total: progress(done * count // total, count))
        rows_of_logits = [logits for (logits,) in self.compiled.run(self.inputs(flat), report)]
        means, first = [], 0
        for some in sequences:
            means.append(np.mean(rows_of_logits[first : first + len(some)], axis=0))
            first += len(some)
        return np.stack(means) if means else np.zeros((0, max(1, len(self.task["label_names"]))), "float32")

    def blended(self, logits: np.ndarray, texts: Texts, texts_b: Texts | None = None) -> np.ndarray:
        """Blends logits (N, K) of the network with those of the bag of words, if the model has one."""
        logits = logits if self.blend is None else self.blend.logits(logits, texts, texts_b)
        check_finite(logits, "a logit")
        return logits

    def with_network(self, network: Any) -> Self:
        """As in TextEncoder, but without the bag of words, so that `agreement` compares the networks alone."""
        other = super().with_network(network)
        other.blend = None
        return other

    def agreement(self, other: Any, texts: list[str], texts_b: list[str] | None = None) -> dict[str, float]:
        """The share of equal labels and the largest change of a probability; for a regression, of the number."""
        pairs = list(zip(*(one.classifications(texts, texts_b) for one in (self, other)), strict=True))
        return agreement_of_labels(pairs, self.task)

    def attention_view(self, text: str, text_b: str | None = None, **options: Any) -> AttentionView:
        """The attention weights and the decision, as a page: see `explanation.bert_view`."""
        if not self.has_attention:
            raise UserError("This model has no attention, so there is nothing to show.")
        self.check_view(text_b, options)
        answer = self.classify(text, text_b, return_scores=True)
        decision = list(answer.probabilities.items())[:10]
        note = f", answer: {answer.label}"
        if blended := self.blend and self.blend.attention_note():
            note += f". {blended}"
        return bert_view(self, text, text_b, decision=decision, note=note)

    def explain(self, text: str, text_b: str | None = None, *, label: str | None = None) -> Explanation:
        """What each word contributes to a label; see `explanation.explain`.

        Example:
            keras_attention.load("bert_mini_sst2").explain("not a bad film").page().save("why.html")
        """
        return explain(self, text, text_b, label)

    answer = RenamedAttribute("classification")

    def classification(self, logits: np.ndarray, threshold: float | None = None) -> Classification:
        """Converts logits (K,) into a Classification, see `labels.label_answer`."""
        return label_answer(logits, self.task, threshold)


class ZeroShotClassifier:
    """Gives each text the label whose vector has the largest cosine to the vector of the text.

        p(label) = softmax(20 cos(encode(text), encode(label)))

    The probabilities are those of the encoder's training objective ("which of these texts belongs to this one?") and
    are not calibrated. An encoder that was not trained for similarity, such as a masked language model, guesses.

    Args:
        encoder: TextEncoder.
        labels: list of at least two different str. Descriptive labels ("politics and elections") work best.

    Attributes:
        task: dict, see `schema.TASK`.

    Raises:
        UserError: if there are not two different labels.
    """

    def __init__(self, encoder, labels):
        labels = [label.strip() for label in labels]
        keys = set(map(spelling_key, labels))
        if len(labels) < 2 or len(keys) < len(labels) or any(map(is_blank, labels)):
            raise UserError(
                f"Expected at least two different labels, separated by commas. Received: {quoted(labels, 200)}"
            )
        self.encoder, self.long_texts, self.most_tokens = encoder, encoder.long_texts, encoder.max_tokens
        self.task = {"kind": "multiclass", "label_names": labels, "pair": False, "separator": None}
        self._vectors = encoder.directions([label.replace("_", " ") for label in labels])  # (K, D)

    def sides(self, line):
        """See `Pipeline.sides`."""
        return (line,)

    def classify(self, texts, texts_b=None, *, threshold=None, return_scores=False, progress=None):
        """See `Classifier.classify`."""
        check_threshold(threshold, self.task)
        texts, texts_b, alone = as_pair(texts, texts_b)
        classifications = self.classifications(texts, texts_b, threshold, progress)
        answers = [
            NO_ANSWER if blank else answer for answer, blank in zip(classifications, blank_rows(texts), strict=True)
        ]
        answers = answers if return_scores else [answer.label for answer in answers]
        return answers[0] if alone else answers

    def classifications(self, texts, texts_b=None, threshold=None, progress=None):
        """See `Classifier.classifications`. A blank text, whose vector is 0, has equal probabilities."""
        if texts_b is not None:
            raise UserError("Labels by similarity are for single texts: leave out the second texts.")
        vectors = self.encoder.encode(texts, progress=progress)
        logits = COSINE_SCALE * unit(vectors.pooled) @ self._vectors.T  # (B, K)
        return [
            self._answer(row, threshold, cut)
            for row, cut in zip(logits.astype("float64"), vectors.truncated, strict=True)
        ]

    def explain(self, text, text_b=None, *, label=None):
        """See `explanation.explain`."""
        return explain(self, text, text_b, label)

    def _answer(self, logits, threshold, truncated):
        return label_answer(logits, self.task, threshold)._replace(truncated=truncated)
