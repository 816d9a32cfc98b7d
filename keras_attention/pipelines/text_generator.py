"""Prompt in, continuation out; also computes the log probabilities of given texts. Texts may be music."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_attention.data.music.chorales import as_text, check_notes, steps_of
from keras_attention.data.music.midi_files import STEPS_PER_BAR, notes_of
from keras_attention.inputs.given_texts import Progress, Texts, as_texts
from keras_attention.inputs.token_sequences import TOKEN_PADDING
from keras_attention.models.attention_records import projections_of, recorded_weights
from keras_attention.pipelines.base import Field, Pipeline
from keras_attention.pipelines.control.word_effects import AnswerExplanation, explain_continuation
from keras_attention.pipelines.generated_text import GeneratedText, Piece
from keras_attention.runtime.buckets import SOURCE_LENGTHS
from keras_attention.runtime.compiled_forward import CompiledForward
from keras_attention.runtime.compiled_steps import BATCH_SIZES, MAX_STOPS, CompiledSteps, Sampling, check_whole
from keras_attention.runtime.work_budget import stop_if_unwanted
from keras_attention.support.errors import UserError, check_finite
from keras_attention.support.moved import moved_name
from keras_attention.tokenizers.note_tokenizer import VOICES
from keras_attention.visualize.music_maps import MusicAttention, attention_of_last_note
from keras_attention.visualize.pages import AttentionMap, AttentionView, attention_page

MAX_SAMPLES = 64
MOST_PROMPT_TOKENS = 8192  # in a request to the server
CARD = {"max_tokens": 24, "temperature": 0.0, "repetition_penalty": 1.3}  # settings of the examples on a card


class TextScore(NamedTuple):
    """The log probability of a text. The probability that it ends there is not included.

    If no token precedes a text (`begins_with` is "nothing"), its first token has no probability and is not listed.

    Attributes:
        log_prob: float, the sum of `log_probs`.
        perplexity: float, exp(-log_prob / number of tokens), or None without tokens.
        tokens: list of str.
        log_probs: list of float, the natural log probability of each token, given those before it.
    """

    log_prob: float
    perplexity: float | None
    tokens: list
    log_probs: list


class TextGenerator(Pipeline):
    """Continues texts with a causal language model, and computes the log probabilities of given texts.

    The model reads at most the last `max_length` tokens. When a text grows beyond them, the model reads the last
    `max_length // 2` tokens again and continues from there, so a text may have any length.

    Args:
        model: GPT, built.
        tokenizer: see `keras_attention.tokenizers`.
        line_break: str of one character that stands for a line break in the vocabulary; None: a line break itself.
        begins_with: the token before each training text, which is put before a prompt: "end" for END, "line_break", or
            "nothing", where only an empty prompt gets END.
        language: str, for the card.
    """

    batching = "alone"
    request_fields = {
        "prompts": Field(list[str], "Texts to continue; an empty one starts a new text.", low=1),
        "max_tokens": Field(int, "Maximum number of new tokens.", 64, 1, 4096),
        "temperature": Field(float, "0: always the most probable token; higher: more random.", 0.8, 0, 100),
        "top_k": Field(int, "Sample from this many most probable tokens; 0: from all.", 0, 0, 1_000_000),
        "top_p": Field(float, "Sample from the most probable tokens with this total probability.", 0.9, 0, 1),
        "repetition_penalty": Field(float, "Above 1: makes earlier tokens less probable.", 1.0, 0.01, 100),
        "stop": Field(list[str], "An answer ends before any of these texts.", [], 0, MAX_STOPS),
        "seed": Field(int, "The same seed gives the same answer.", 0, 0, 2**31 - 1),
        "n": Field(int, "Number of answers to each prompt.", 1, 1, BATCH_SIZES[-1]),
    }  # fmt: skip
    answer_kind = "continuation"
    answer_fields = {
        "generations": Field(
            [{"text": Field(str), "finish": Field(str, "end, stop or length"), "log_prob": Field(float)}],
            "The answers; the log probability is the sum over the tokens.",
        )
    }

    def __init__(
        self, model: Any, tokenizer: Any, line_break: str | None = None, begins_with: str = "end", language: str = "en"
    ):
        self.model, self.tokenizer, self.end_id = model, tokenizer, tokenizer.end_id
        self.line_break, self.begins_with, self.language = line_break, begins_with, language
        self.text_limit = MOST_PROMPT_TOKENS
        self.window = min(model.max_length, SOURCE_LENGTHS[-1])
        special = (getattr(tokenizer, f"{name}_id", None) for name in ("pad", "unknown", "start", "mask"))
        self.steps = CompiledSteps(model, [token for token in special if token not in (None, self.end_id)], self.end_id)
        self.compiled = CompiledForward(self._token_log_probs, TOKEN_PADDING, self.window, model)

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        options = {name: config[name] for name in ("line_break", "begins_with", "language") if name in config}
        return cls(model, tokenizers["text"], **options)

    def config_keys(self):
        return {"line_break": self.line_break, "begins_with": self.begins_with, "language": self.language}

    @property
    def tokenizers(self):
        return {"text": self.tokenizer}

    @property
    def samples(self):
        return [""] if self.is_music else ["The", ""]

    def answers(self, sources, sources_b=None):
        return self.generate(sources, **CARD)

    def warm(self) -> None:
        for compute in (*self.steps.compiling(), *self.compiled.compiling(_any_text)):
            compute()

    def reply(self, prompts, n=1, **sampling):
        return [
            {"generations": [{"text": g.text, "finish": g.finish, "log_prob": sum(g.log_probs)} for g in continuations]}
            for continuations in self.generations(prompts, n=n, **sampling)
        ]

    def generate(self, prompts: Texts = "", *, n: int = 1, **sampling: Any) -> Any:
        """Continues one prompt or many.

        Args:
            prompts: str, or any sequence or iterable of str. An empty one begins a new text.
            n: int in [1, 64], answers to each prompt.
            max_tokens: int > 0, maximum number of new tokens; default 200.
            temperature: float >= 0. 0 chooses the most probable token; lower values are more predictable; default 0.8.
            top_k: int >= 0. Draws from the `top_k` most probable tokens; 0: from all tokens.
            top_p: float in (0, 1]. Draws from the fewest most probable tokens with at least this total probability;
                default 0.9, which leaves out the unlikely tokens that spoil a text; 1: from all.
            repetition_penalty: float > 0. The logits of tokens in the text so far are divided by it, or multiplied if
                negative (Keskar et al. 2019, section 4.1, https://arxiv.org/abs/1909.05858). Above 1, it reduces
                repetition.
            stop: str or list of str, texts that end the answer; they are left out.
            seed: int >= 0. The same seed gives the same answer, whatever the other prompts are.

        Returns:
            For each prompt the continuation, a str, or a list of `n` str if `n` > 1. All of them in a list, or the only
            one if `prompts` is a str.

        Raises:
            UserError: if a prompt is not a str or a setting is out of range.
        """
        prompts, alone = as_texts(prompts, "prompts")
        texts = [[one.text for one in continuations] for continuations in self.generations(prompts, n=n, **sampling)]
        texts = texts if n > 1 else [text for (text,) in texts]
        return texts[0] if alone else texts

    def generations(self, prompts: Texts, *, n: int = 1, progress: Progress = None, **sampling: Any) -> Any:
        """Like `generate`, but with a list of `n` Generations for each prompt; calls `progress(done, total)`."""
        prompts, alone = as_texts(prompts, "prompts")
        settings = self._checked(sampling, n)
        answers: list = [[] for _ in prompts]
        for batch in self._batches(self.token_ids_of(prompts), n, settings):
            for _ in self._write(batch, settings):
                pass
            for text in batch:
                answers[text.number // n].append(text.generation())
            if progress:
                progress(sum(map(len, answers)) // n, len(prompts))
        return answers[0] if alone else answers

    def stream(self, prompt: str = "", **sampling: Any) -> Iterator[str]:
        """Yields the continuation of a prompt piece by piece, as str. Joined, they are the text of `generate`."""
        as_texts([prompt], "prompt")
        yield from (piece.text for piece in self.pieces([prompt], **sampling) if piece.text)

    def pieces(self, prompts: list[str], *, n: int = 1, details: bool = False, **sampling: Any) -> Iterator[Piece]:
        """Yields a Piece of an answer whenever it has new text; close the generator to stop.

        Args:
            prompts: list of str.
            details: bool. Whether each Piece contains its tokens, with the most probable tokens at each step.
            n, sampling: see `generate`.
        """
        settings = self._checked(sampling, n)
        for batch in self._batches(self.token_ids_of(prompts), n, settings):
            waiting = batch
            for _ in self._write(batch, settings, details, patient=False):
                yield from (piece for text in waiting if (piece := text.next_piece()))
                waiting = [text for text in waiting if not text.finish]

    def score(self, texts: Texts) -> Any:
        """Computes the log probabilities of one text or many.

        A text longer than the model's window is read in overlapping parts, so that each token is predicted from all
        preceding tokens or from at least half a window of them.

        Args:
            texts: str, or any sequence or iterable of str.

        Returns:
            TextScore for each text, in a list, or alone if `texts` is a str.
        """
        texts, alone = as_texts(texts)
        parts, places = [], []
        half = max(1, self.window // 2)
        for number, ids in enumerate(self.token_ids_of(texts)):
            for start in range(0, max(1, len(ids) - self.window + half), half):
                parts.append({"token_ids": np.array(ids[start : start + self.window], "int32")})
                places.append((number, start))
        scores_of: list = [[] for _ in texts]
        for (number, start), part, (log_probs,) in zip(places, parts, self.compiled.run(parts), strict=True):
            known = len(scores_of[number]) - start  # already predicted in the previous part
            scores_of[number] += log_probs[known : len(part["token_ids"]) - 1].tolist()
        scores = []
        check_finite([log_prob for log_probs in scores_of for log_prob in log_probs], "a log probability")
        for ids, log_probs in zip(self.token_ids_of(texts), scores_of, strict=True):
            perplexity = _perplexity(log_probs) if log_probs else None
            scores.append(TextScore(sum(log_probs), perplexity, self.shown_tokens(ids[1:]), log_probs))
        return scores[0] if alone else scores

    @property
    def is_music(self) -> bool:
        """bool. Whether texts are time steps of music, see `NoteTokenizer`."""
        return self.tokenizer.kind == "notes"

    def music_view(self, text: str) -> MusicAttention:
        """Which earlier notes and bars the last note of a piece attends to, as a picture.

        Args:
            text: str, time steps such as "74,70,65,58 74,70,65,57".

        Raises:
            UserError: if the model is not one of music, has no attention, or the text has too few notes.
        """
        if not self.is_music or not self.has_attention:
            what = "writes texts, not music" if not self.is_music else "has no attention weights"
            raise UserError(f"The model {what}. Expected: a GPT that was trained on music.")
        self.token_ids_of(as_texts([text])[0])  # refuses unknown notes
        steps = steps_of(text)
        most = max(1, (self.window - 1) // len(VOICES))
        bars_left_out = -(-max(0, len(steps) - most) // STEPS_PER_BAR)  # whole bars at the beginning
        first = max(0, min(bars_left_out * STEPS_PER_BAR, len(steps) - 1))
        (ids,) = self.token_ids_of([as_text(steps[first:])])  # END, then a note of each voice for each step
        weights = self.model({"token_ids": np.array([ids], "int32")}, return_attention_scores=True)[1][0]
        return attention_of_last_note(np.asarray(weights), notes_of(steps[first:]), STEPS_PER_BAR, VOICES, first)

    @property
    def has_attention(self) -> bool:
        """bool. Whether the model has attention weights to show."""
        return self.model.has_attention

    def attention_view(self, text: str, text_b: str | None = None, **options: Any) -> AttentionView:
        """The attention weights of every layer and head as a page; if the text is too long, of its end only."""
        self.check_view(text_b, options)
        if not self.has_attention:
            return super().attention_view(text)
        (ids,) = self.token_ids_of(as_texts([text])[0])
        kept = ids[-self.window :]
        weights, records = recorded_weights(self.model, {"token_ids": np.array([kept], "int32")})
        tokens = self.shown_tokens(kept)
        note = f"{type(self.model).__name__}, {self.model.count_params():,} parameters"
        weights = np.asarray(weights, "float32")[0]
        projections = projections_of(records, weights)
        maps = [AttentionMap("self-attention", weights, tokens, tokens, "token", "recalled", **projections)]
        return attention_page([("", maps)], text, note + ". Only its end is shown." * (len(kept) < len(ids)))

    def explain(self, text: str = "", text_b: str | None = None, *, label: str | None = None, **options: Any) -> Any:
        """Which earlier words decide each word of a continuation, see `word_effects.explain_continuation`."""
        self.check_explained(text_b, label)
        explanation: AnswerExplanation = explain_continuation(self, text, **options)
        return explanation

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of token ids."""
        text = self.tokenizer.decode([ids])[0]
        return text.replace(self.line_break, "\n") if self.line_break else text

    def token_ids_of(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, after the token that precedes it; none of these lists is empty."""
        first = [self.end_id]
        if self.begins_with == "line_break":
            first = self.tokenizer.encode([self.line_break or "\n"])[0].tolist()[-1:]
        if self.line_break:
            texts = [text.replace("\r\n", "\n").replace("\n", self.line_break) for text in texts]
        encoded = self.tokenizer.encode(texts)
        if self.is_music:
            check_notes(self.tokenizer, texts, encoded)
        return [
            ids.tolist() if self.begins_with == "nothing" and len(ids) else [*first, *ids.tolist()] for ids in encoded
        ]

    def shown_tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens of ids, as answers and pages show them."""
        tokens = self.tokenizer.tokens(ids)
        return [token.replace(self.line_break, "\n") for token in tokens] if self.line_break else tokens

    def _checked(self, sampling, n):
        """The checked Sampling of keyword arguments; raises UserError if one is unknown or out of range."""
        for name in sampling:
            if name not in Sampling._fields:
                raise UserError(f"`{name}` is not a setting. Expected: n, {', '.join(Sampling._fields)}")
        check_whole("n", n, 1, MAX_SAMPLES)
        return Sampling(**sampling).checked()

    def _batches(self, prompt_ids, n, sampling):
        """Yields lists of texts that are generated in one batch, `n` for each prompt.

        When the longest text of a batch outgrows the window, all of its texts are read again. A prompt that may outgrow
        it therefore shares a batch only with its own answers.
        """
        fits = [len(ids) + sampling.max_tokens <= self.window + 1 for ids in prompt_ids]
        groups = [[number for number, fit in enumerate(fits) if fit], *([i] for i, fit in enumerate(fits) if not fit)]
        for group in groups:
            pairs = [(number, key) for number in group for key in range(n)]
            longest = max((len(prompt_ids[number]) for number in group), default=1)
            size = self.steps.largest_batch(longest, sampling.max_tokens)
            for first in range(0, len(pairs), size):
                some = pairs[first : first + size]
                yield [GeneratedText(self, prompt_ids[number], sampling, number * n + key, key) for number, key in some]

    def _write(self, texts, sampling, details=False, patient=True):
        """Extends the texts of a batch until all are finished; yields after each chunk of tokens."""
        done, keys = 0, [text.key for text in texts]
        while done < sampling.max_tokens:
            contexts = [text.ids for text in texts]
            if max(map(len, contexts)) >= self.window:
                contexts = [ids[-max(1, self.window // 2) :] for ids in contexts]
            steps = min(sampling.max_tokens - done, self.window - max(map(len, contexts)) + 1)
            seen = [[token for token in text.ids if token != self.end_id] for text in texts]
            for written in self.steps.write(contexts, steps, done, seen, keys, sampling, details, patient):
                done += len(written.tokens)
                for place, text in enumerate(texts):
                    stop_if_unwanted()
                    text.add(written, place, details, done >= sampling.max_tokens)
                yield
                if all(text.finish for text in texts):
                    return

    def _token_log_probs(self, inputs):
        """The log probability of each token but the first, given those before it: (B, T - 1)."""
        token_ids = inputs["token_ids"]
        logits = self.model({"token_ids": token_ids}, training=False)[:, :-1]  # (B, T - 1, V)
        chosen = tf.gather(logits, token_ids[:, 1:], axis=-1, batch_dims=2)
        return chosen - tf.reduce_logsumexp(logits, axis=-1)


def _perplexity(log_probs):
    """exp(-mean log probability); raises UserError if it is beyond all numbers."""
    try:
        return math.exp(-sum(log_probs) / len(log_probs))
    except OverflowError:
        check_finite(math.inf, "a perplexity")


def _any_text(length):
    """Inputs of the forward pass for any text of this many tokens, to compile it."""
    return {"token_ids": np.ones(length, "int32")}


def __getattr__(name):
    return moved_name(__name__, name)
