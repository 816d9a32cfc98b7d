"""Text in, translation out."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from keras_attention.inputs.given_texts import Progress, Texts, as_texts
from keras_attention.inputs.token_sequences import TruncatedText
from keras_attention.pipelines.base import Field, Pipeline
from keras_attention.pipelines.control.alternatives import Alternative, find_alternatives
from keras_attention.pipelines.control.constrained_answers import controlled_hypotheses
from keras_attention.pipelines.control.terms import checked_names
from keras_attention.pipelines.control.word_effects import AnswerExplanation, explain_translation
from keras_attention.pipelines.doubt import REASONS, REPETITION
from keras_attention.pipelines.explanation import translation_view
from keras_attention.pipelines.languages import language_code
from keras_attention.pipelines.search.guarded_search import guarded_answers
from keras_attention.pipelines.search.sentence_batches import report_by_text, search_plan
from keras_attention.pipelines.sentences import SplitText, split_text
from keras_attention.pipelines.streaming import stream
from keras_attention.pipelines.translations import (
    Translation,
    attention_of,
    joined_hypotheses,
    translation_of,
    translations_as_json,
)
from keras_attention.runtime.buckets import answer_limit
from keras_attention.runtime.compiled_search import SEARCH_OPTIONS, CompiledSearch, map_in_threads
from keras_attention.runtime.prepared_weights import PreparedWeights
from keras_attention.runtime.work_budget import cache_bytes, memory
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, check_finite, quoted
from keras_attention.support.moved import moved_name
from keras_attention.tokenizers import AnyTokenizer
from keras_attention.tokenizers.special_tokens import END_ID, UNKNOWN_ID
from keras_attention.visualize.pages import AttentionView
from keras_attention.zoo.decoding_settings import DECODING, DECODING_DEFAULTS, alignment_heads_of, check_search
from keras_attention.zoo.schema import whole

CHARACTERS_PER_TOKEN = 64  # of the limit; longer sentences are cut before tokenization, to save time
BOUNDS = DECODING | {"beam_size": whole(1, 1000), "max_length": whole(1, 1_000_000)}  # wider than those of an entry
OUT_OF_LOOPS = {"no_repeat_ngram_size": 3}  # for sentences whose answer repeats itself
CONFIG_KEYS = ("decoding", "low_score_threshold", "source_language", "target_language", "alignment_heads")
SEARCH_SETTINGS = ("beam_size", "length_penalty", "coverage_penalty", "max_length")
USUAL_SENTENCES = [" ".join(["a"] * words) for words in (5, 20, 45)]  # of several padded lengths


class Translator(Pipeline):
    """Translates sentences with a trained encoder-decoder.

    Sentences are padded to a few lengths and grouped into batches of a few sizes; each such shape is compiled once.
    Padding is masked, so the other sentences in a batch change a score by rounding only.

    Args:
        model: AttentionSeq2Seq or Transformer, built.
        source_tokenizer, target_tokenizer: see `keras_attention.tokenizers`.
        decoding: dict or None, defaults of the search, see `zoo.schema.DECODING`.
        low_score_threshold: float or None. Answers with a lower mean log probability per token have `low_score` set.
        target_language: str or None. If "iso", answers that are not calendar days have `low_score` set as well.
        source_language: str or None. If both are natural languages, texts without letters are copied.
        alignment_heads: list of [layer, head], from 0, or None: those that align words, see `Translation.alignment`.

    Attributes:
        model: the network. Reading it makes each search about a millisecond slower: from then on, weights that have
            been copied (see `PreparedWeights`) are copied again, because they may have changed.

    Example:
        translator = keras_attention.load("rnn_attention_multi30k_en_de")
        translator.translate(["A dog runs."], beam_size=5)
    """

    request_fields = {
        "texts": Field(list[str], "Texts to translate.", low=1),
        "n_best": Field(int, "Translations per text, up to the beam size of the model.", 1, 1, 64),
        "split": Field(bool, "Whether to translate each sentence of a text by itself.", True),
        "prefix": Field(
            str | None, "Text with which each translation begins; a blank at its end: its last word is whole.", None
        ),
        "terms": Field(dict[str, str] | None, "Terms of the source language with the translations to use.", None),
        "do_not_translate": Field(list[str] | None, "Names that the translations keep.", None),
    }
    answer_kind = "translations"
    answer_fields = {
        "translations": Field(
            [
                {
                    "text": Field(str),
                    "score": Field(
                        float, "What the search maximizes: length-normalized log probability with penalties."
                    ),
                    "log_prob": Field(float, "Summed natural log probability of the tokens."),
                    "low_score": Field(bool, "True if the translation is unreliable."),
                    "reason": Field(str | None, f"Why it is unreliable: {', '.join(REASONS)}; null if it is not."),
                    "tokens": Field(list[str]),
                }
            ],
            "The best translations, best first.",
        ),
        "source_tokens": Field(list[str], "Tokens of the source text."),
        "truncated": Field(bool, "True if the text was too long and its end was ignored."),
    }
    choice_fields = {
        "source_language": Field(str | None, "Code or English name of the texts' language; null: detected.", None),
        "target_language": Field(
            str | None, "Code or English name of a language: the best model of the server for it answers.", None
        ),
    }
    reply_fields = {
        "source_language": Field(str | None, "The language from which the model translates, such as en."),
        "target_language": Field(str | None, "The language into which the model translates, such as de."),
    }
    view_options = ("target", "n_best", *SEARCH_SETTINGS)
    batching = "search"
    engines = {"ctranslate2": "keras_attention.runtime.ctranslate2_engine:use_ctranslate2"}

    def __init__(
        self,
        model: Any,
        source_tokenizer: AnyTokenizer,
        target_tokenizer: AnyTokenizer,
        decoding: dict[str, Any] | None = None,
        low_score_threshold: float | None = None,
        target_language: str | None = None,
        source_language: str | None = None,
        alignment_heads: list[list[int]] | None = None,
    ):
        self._weights = PreparedWeights(model)
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.decoding = {**DECODING_DEFAULTS, **(decoding or {})}
        if getattr(model, "positions", None) == "learned":
            longest = min(self.decoding["max_source_length"], model.max_length)
            self.decoding["max_source_length"] = longest
        layers, heads = getattr(model, "num_decoder_layers", 1), getattr(model, "num_heads", 1)
        what, holds = alignment_heads_of(layers, heads)
        if not holds(alignment_heads):
            raise UserError(f"`alignment_heads` must be {what}. Received: {quoted(alignment_heads)}")
        self.low_score_threshold = low_score_threshold
        self.target_language = target_language
        self.source_language = source_language
        self.alignment_heads = alignment_heads
        self.compiled = CompiledSearch(self._weights)

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        options = {name: config.get(name) for name in CONFIG_KEYS if name in config}
        return cls(model, tokenizers["source"], tokenizers["target"], **options)

    @classmethod
    def from_loaded(cls, loaded):
        pipeline = super().from_loaded(loaded)
        pipeline._weights.private = True
        return pipeline

    def config_keys(self):
        languages = {"source_language": self.source_language, "target_language": self.target_language}
        languages = {name: language for name, language in languages.items() if language}
        chosen = {"low_score_threshold": self.low_score_threshold, "alignment_heads": self.alignment_heads}
        return {"decoding": self.decoding, **chosen, **languages}

    @property
    def model(self) -> Any:
        return self._weights.model

    @property
    def network(self) -> Any:
        """The model, for code of this package that neither changes it nor gives it away: searches stay fast."""
        return self._weights.network

    @property
    def tokenizers(self):
        return {"source": self.source_tokenizer, "target": self.target_tokenizer}

    @property
    def has_attention(self) -> bool:
        return self.network.has_attention

    @property
    def facts(self):
        return {"beam_size": self.decoding["beam_size"]}

    @classmethod
    def facts_of(cls, config):
        return {"beam_size": {**DECODING_DEFAULTS, **(config.get("decoding") or {})}["beam_size"]}

    def answers(self, sources, sources_b=None):
        return list(map(str, self.translate(sources)))

    def warm(self) -> None:
        for sentence in USUAL_SENTENCES:
            self.translate(sentence)
        list(self.stream(USUAL_SENTENCES[0]))

    def reply(self, texts, n_best=1, split=True, prefix=None, terms=None, do_not_translate=None):
        options: dict[str, Any] = {"prefix": prefix, "terms": terms, "do_not_translate": do_not_translate}
        return [translations_as_json(one) for one in self.hypotheses(texts, n_best=n_best, split=split, **options)]

    def translate(
        self, texts: Texts, *, n_best: int = 1, return_attention: bool = False, **options: Any
    ) -> "Translation | list[Any]":
        """Translates one text or many, sentence by sentence.

        Args:
            texts: str, or any sequence or iterable of str. An empty text has an empty translation. A text without
                letters, such as "12:45" or an emoji, is copied if both languages are natural ones.
            n_best: int in [1, beam_size], translations per sentence.
            return_attention: bool. Whether the Translations have attention weights.
            options: beam_size, length_penalty, coverage_penalty, max_length, replace_unknowns, split, keep_items,
                prefix, terms, do_not_translate, see `hypotheses`.

        Returns:
            For each text a Translation, which is a str with the attributes `score`, `low_score` and others; with
            `n_best` above 1 a list of them, best first. All in a list in the order of `texts`, or the only one if
            `texts` is a str.

        Raises:
            UserError: see `hypotheses`.
        """
        texts, alone = as_texts(texts)
        answers = self.hypotheses(texts, n_best=n_best, attention=return_attention, **options)
        if n_best == 1:
            answers = [best for best, *_ in answers]
        return answers[0] if alone else answers

    def alternatives(
        self, text: str, position: int, n: int = 5, translation: str | None = None, **options: Any
    ) -> "list[Alternative]":
        """Other words at a place of a translation, and the translation to which each leads.

        Args:
            text: str.
            position: int >= 0, the word of the translation, counted from 0; words are separated by blanks.
            n: int in [1, 20], the most alternatives.
            translation: str, a translation of the text, whose beginning is kept; None: the model's own.
            options: see `translate`; without `prefix` and `n_best`.

        Returns:
            List of Alternative, the most probable word first; among them that of the translation itself, if the model
            finds it probable. Each Alternative has `word`, `probability`, `prefix` (the beginning up to the word) and
            `translation`.

        Raises:
            UserError: if there is no such word, or the model writes characters.
        """
        return find_alternatives(self, text, position, n, translation, **options)

    def hypotheses(
        self,
        texts: Texts,
        *,
        n_best: int = 1,
        attention: bool = False,
        replace_unknowns: bool = False,
        split: bool = True,
        keep_items: bool = True,
        prefix: "str | list[str | None] | None" = None,
        terms: "Mapping[str, str] | None" = None,
        do_not_translate: "Iterable[str] | None" = None,
        progress: Progress = None,
        **search: Any,
    ) -> "list[list[Translation]]":
        """Finds the best translations of each text, as Translations.

        Args:
            texts: str, or any sequence or iterable of str.
            n_best: int in [1, beam_size], translations per text.
            attention: bool. Whether to compute the attention weights.
            replace_unknowns: bool. If True, the model may generate its unknown token, which is then replaced by the
                source token with the highest attention weight. If False, the unknown token is never generated.
            split: bool. Whether to translate each sentence of a text by itself, see `sentences.split_text`, and to join
                the translations with the text's own spacing. Only texts in natural languages are split.
            keep_items: bool. Whether numbers, addresses, placeholders, tags and emoji are kept, and their tokens are
                those of stand-ins, see `search.guarded_search.guarded_answers`. Only between natural languages.
            prefix: str with which each answer begins, or a list with a str or None for each text. A blank at its end
                says that its last word is whole. Of several sentences, see `prefixes_of_sentences`.
            terms: dict from terms of the source language to their translations, which the answers to sentences with
                these terms contain. A translation that is missing nevertheless makes `low_score` true.
            do_not_translate: iterable of str, names that the answers keep.
            progress: callable (texts done, number of texts) or None.
            search: beam_size, length_penalty, coverage_penalty, max_length, see `beam_search`. Defaults are the
                model's own.

        Returns:
            List of lists of Translation, best first.

        Raises:
            UserError: if a text is not a str, a setting is out of range, or a setting needs attention and the model has
                none.
        """
        texts, _ = as_texts(texts)
        settings = self.settings(n_best, attention or replace_unknowns, **search)
        languages = language_code(self.source_language), language_code(self.target_language)
        names = checked_names(do_not_translate, keep_items and all(languages))
        if prefix or terms:
            options = {"n_best": n_best, "attention": attention, "replace_unknowns": replace_unknowns, **search}
            options |= {"keep_items": keep_items, "do_not_translate": names}
            controls = {"prefix": prefix, "terms": terms, "split": split, "progress": progress}
            return controlled_hypotheses(self, texts, **controls, **options)
        parts = [self.sentences(text) if split else None for text in texts]
        sentences = [
            [one.sentence for one in some.pieces] if some else [text] for text, some in zip(texts, parts, strict=True)
        ]
        counts = [len(some) for some in sentences]
        sentences = [one for some in sentences for one in some]
        report = report_by_text(progress, counts)
        if keep_items and all(languages):
            options = {"n_best": n_best, "replace_unknowns": replace_unknowns, "split": False, "keep_items": False}
            options |= {"attention": attention, "progress": lambda done, _: report(done), **search}
            find = partial(self.hypotheses, **options)
            answers = guarded_answers(find, sentences, languages, self.has_attention, names)
        else:
            plan = search_plan(self, sentences, attention, settings)
            answers, done = plan.answers, plan.finished
            search_batch = partial(self._search, settings, n_best, attention, replace_unknowns)
            for batch, of_batch in zip(plan.batches, map_in_threads(search_batch, plan.batches), strict=True):
                for position, hypotheses in zip(batch.positions, of_batch, strict=True):
                    answers[position] = [answer._replace(truncated=plan.truncated[position]) for answer in hypotheses]
                done += len(batch.positions)
                report(done)
            self._search_out_of_loops(answers, plan.batches, settings, n_best, attention, replace_unknowns)
        of_sentences = iter(answers)
        return [
            joined_hypotheses(some, list(islice(of_sentences, count)), n_best) if some else next(of_sentences)
            for some, count in zip(parts, counts, strict=True)
        ]

    def sentences(self, text: str) -> "SplitText | None":
        """The sentences of a text; None if it is one, or the source is not a natural language."""
        code = language_code(self.source_language)
        if code is None or not any(map(str.isspace, text.strip())):
            return None
        parts = split_text(text, code)
        return parts if len(parts.pieces) > 1 or (parts.pieces and "\n" in parts.pieces[0].sentence) else None

    def _search_out_of_loops(self, answers, batches, settings, n_best, attention, replace_unknowns):
        """Replaces answers in a loop by those of a search without repeated sequences, where these are in no loop."""
        loops = [
            batch.alone(i)
            for batch in batches
            for i, position in enumerate(batch.positions)
            if _loops(answers[position]) and self.target_tokenizer.kind != "characters"
        ]
        search_batch = partial(self._search, {**settings, **OUT_OF_LOOPS}, n_best, attention, replace_unknowns)
        for batch, (of_batch,) in zip(loops, map_in_threads(search_batch, loops), strict=True):
            if not _loops(of_batch):  # else both are in a loop, and the first one is more probable
                (position,) = batch.positions
                answers[position] = [one._replace(truncated=answers[position][0].truncated) for one in of_batch]

    def attention_view(self, text: str, text_b: str | None = None, **options: Any) -> AttentionView:
        """The attention weights of every layer and head, as a page: see `explanation.translation_view`."""
        self.check_view(text_b, options)
        return translation_view(self, text, **options)

    def explain(self, text: str, text_b: str | None = None, *, label: str | None = None, **options: Any) -> Any:
        """Which source words decide each word of a translation, see `word_effects.explain_translation`.

        Example:
            translator = keras_attention.load("translator_small_en_de")
            translator.explain("He sat on the bank.", contrast=("Bank", "Ufer")).page().save("why.html")
        """
        self.check_explained(text_b, label)
        explanation: AnswerExplanation = explain_translation(self, text, **options)
        return explanation

    def stream(self, text: str, **sampling: Any) -> Iterator[str]:
        """Translates one text token by token: yields str, see `streaming.stream`."""
        return stream(self, text, **sampling)

    def encode(self, texts: list[str], longest: int) -> tuple[list[np.ndarray], list[bool]]:
        """The token ids of each text, cut to `longest` ids including END, and whether the text was cut."""
        texts = ["" if is_blank(text) else text.strip() for text in texts]
        cut = [text[: longest * CHARACTERS_PER_TOKEN] for text in texts]
        ids = self.source_tokenizer.encode(cut)
        truncated = [
            len(one) >= longest or len(short) < len(text) for one, short, text in zip(ids, cut, texts, strict=True)
        ]
        if any(truncated):
            first = truncated.index(True) + 1
            warnings.warn(
                f"{sum(truncated)} of {len(texts)} sentences (the first is number {first}) have more than the "
                f"{longest - 1} tokens that this model reads: only their beginning was translated.",
                TruncatedText,
                stacklevel=7,
            )
        return [np.append(one[: longest - 1], END_ID).astype("int32") for one in ids], truncated

    def _search(self, settings, n_best, attention, replace_unknowns, batch):
        """Translates one batch: a list of Translations for each of its sentences."""
        source_ids, limits = batch.arrays(settings)
        options = {name: settings[name] for name in SEARCH_OPTIONS}
        options |= {"n_best": n_best, "unknowns": replace_unknowns}
        options |= {name: settings[name] for name in OUT_OF_LOOPS if name in settings}
        steps = answer_limit(batch.padded, settings)
        with memory(cache_bytes(self.network, batch.size * settings["beam_size"], steps + batch.padded)):
            hypotheses = self.compiled.search(source_ids, limits, steps, **options)
        check_finite(hypotheses.log_probs[: len(batch.sequences), 0], "a log probability")
        weights = None
        if attention or (replace_unknowns and np.any(hypotheses.token_ids == UNKNOWN_ID)):
            weights = attention_of(self, source_ids, hypotheses.token_ids)  # (B, N, layers, heads, T, S)
        return [
            [
                translation_of(self, hypotheses, i, j, ids, text, weights, attention)
                for j in range(n_best)
                if hypotheses.lengths[i, j] > 0  # a tiny vocabulary may have fewer than `n_best` answers
            ]
            for i, (ids, text) in enumerate(zip(batch.sequences, batch.texts, strict=True))
        ]

    def settings(
        self,
        n_best: int,
        needs_attention: bool,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float | None = None,
        max_length: int | None = None,
    ) -> dict[str, Any]:
        """The checked settings of a search: the given ones, and the model's defaults for the others."""
        given = zip(SEARCH_SETTINGS, (beam_size, length_penalty, coverage_penalty, max_length), strict=True)
        settings = {**self.decoding, **{name: value for name, value in given if value is not None}}
        check_search({name: settings[name] for name in SEARCH_SETTINGS}, n_best, BOUNDS)
        if (needs_attention or settings["coverage_penalty"]) and not self.has_attention:
            raise UserError(
                "This model has no attention: leave out attention maps, coverage_penalty and replace_unknowns."
            )
        return settings


def _loops(hypotheses):
    return bool(hypotheses) and hypotheses[0].reason == REPETITION


def __getattr__(name):
    return moved_name(__name__, name)
