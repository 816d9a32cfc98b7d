"""Which words decide a word of an answer: each is left out in turn, and the model computes the same answer again."""

import warnings
from bisect import bisect_right
from typing import NamedTuple

import numpy as np
import regex

from keras_attention.inputs.given_texts import as_texts
from keras_attention.inputs.token_sequences import TruncatedText
from keras_attention.pipelines.explanation import units
from keras_attention.pipelines.languages import language_code
from keras_attention.pipelines.translations import Translation, joined_hypotheses
from keras_attention.runtime.work_budget import activation_bytes, memory, stop_if_unwanted
from keras_attention.support.errors import UserError, check_finite, quoted
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID
from keras_attention.visualize.effect_pages import EffectPage

MOST_EFFECTS = 5_000  # of an answer; each source word costs a forward pass
BYTES_AT_ONCE = 1 << 27  # of a forward pass
MOST_WRITTEN = 50  # tokens of a continuation, unless the caller says how many
CHARACTERS_AT_ONCE = 1 << 23  # of the copies of a text
PART = regex.compile(r"\p{L}+|\p{N}+|[^\s\p{L}\p{N}]+")  # of what is no natural language, such as 2016-08-21


class Contrast(NamedTuple):
    """Why the model prefers a word of its answer to another word.

    Attributes:
        position: int, that of the word among `WordEffects.targets`.
        word, other: str.
        log_ratio: float, log p(word) - log p(other), each given the answer before it.
        effects: float array (S,), how much `log_ratio` falls when a word is left out.
    """

    position: int
    word: str
    other: str
    log_ratio: float
    effects: np.ndarray


class WordEffects(NamedTuple):
    """What each word that the model reads contributes to each word of one answer.

    Attributes:
        text: str, a sentence or a prompt.
        answer: str.
        sources: list of S str, the words that are left out: those of the text, and for a language model, after these,
            those of its answer, too.
        targets: list of T str, the words of the answer.
        log_probs: float array (T,), the natural log probability of each, given the text and the answer before it.
        effects: float array (T, S), how much the log probability of a target word falls when a source word is left
            out; NaN where the source word does not precede the target word.
        contrast: Contrast, or None.
        truncated: bool, whether the text exceeds the model's limit.
    """

    text: str
    answer: str
    sources: list
    targets: list
    log_probs: np.ndarray
    effects: np.ndarray
    contrast: Contrast | None
    truncated: bool

    def as_json(self):
        """A dict of JSON types; NaN is None."""
        effects = [[None if np.isnan(effect) else float(effect) for effect in row] for row in self.effects]
        facts = {**self._asdict(), "log_probs": self.log_probs.tolist(), "effects": effects}
        if self.contrast is not None:
            facts["contrast"] = {**self.contrast._asdict(), "effects": np.nan_to_num(self.contrast.effects).tolist()}
        return facts


class AnswerExplanation(NamedTuple):
    """Which words decide the words of an answer. A notebook displays it as a page.

    Attributes:
        text: str.
        answer: str.
        sentences: list of WordEffects, one for each sentence of the text; of a language model, one for all.
    """

    text: str
    answer: str
    sentences: list

    def as_json(self):
        """A dict of JSON types."""
        return {**self._asdict(), "sentences": [one.as_json() for one in self.sentences]}

    def page(self):
        """The EffectPage with a heat map for each sentence."""
        return EffectPage([self.as_json()])

    def _repr_html_(self):
        return self.page()._repr_html_()


def explain_translation(translator, text, *, target=None, contrast=None, position=None, **options):
    """Leaves out each word of a sentence in turn; the model computes the same translation, word by word, again.

    Args:
        translator: Translator.
        text: str. Each of its sentences is explained by itself.
        target: str, a translation to explain instead of the model's own; a Translation of this text by
            `Translator.hypotheses` is explained sentence by sentence. None: the text is translated.
        contrast: (str, str), a word of the translation and another word that might stand there; or None.
        position: int, which of the words that equal the first one of `contrast`, among `targets`; None: the first.
        options: see `Translator.hypotheses`, for the search; without `n_best`, `attention` and `prefix`.

    Returns:
        AnswerExplanation.

    Raises:
        UserError: if the text, `contrast` or an option is not of this form, `target` is a Translation of another text,
            the translation lacks the word, the model cannot write the other one, or there are more than `MOST_EFFECTS`
            effects.

    Source: occlusion as in Li et al. (2016), https://arxiv.org/abs/1612.08220; the contrast of two words follows Yin &
    Neubig (2022), https://arxiv.org/abs/2202.10419.
    """
    as_texts([text] if target is None else [text, target], "text")
    contrast = _checked_contrast(contrast, position)
    if excluded := sorted({"n_best", "attention", "prefix"} & set(options)) or sorted(options) * (target is not None):
        raise UserError(f"{' and '.join(f'`{name}`' for name in excluded)} cannot be given with an explanation here.")
    options = {"split": True, **options}
    if target is not None:
        pieces, answers, whole = [text], [target], str(target)
        if sentences := getattr(target, "sentences", ()):
            parts = translator.sentences(text)
            pieces, answers = [one.sentence for one in parts.pieces] if parts else [text], list(sentences)
            if len(pieces) != len(answers):
                raise UserError(
                    f"`target` is the Translation of another text: it has {len(answers)} sentences, the text "
                    f"{len(pieces)}."
                )
    else:
        parts = translator.sentences(text) if options.pop("split") else None
        pieces = [one.sentence for one in parts.pieces] if parts else [text]
        hypotheses = translator.hypotheses(pieces, split=False, **options)
        answers = [best for best, *_ in hypotheses]
        whole = str(joined_hypotheses(parts, hypotheses, 1)[0]) if parts else str(answers[0])
    writings = [_Translated(translator, *pair) for pair in zip(pieces, answers, strict=True)]
    return AnswerExplanation(text, whole, _explained(writings, contrast))


def explain_continuation(generator, prompt="", *, contrast=None, position=None, **sampling):
    """Leaves out each word of a prompt and of its continuation in turn; the model computes the words after it again.

    Args:
        generator: TextGenerator.
        prompt: str.
        contrast, position: see `explain_translation`.
        sampling: see `TextGenerator.generate`; `max_tokens` is 50 by default, or as many as the model still reads.

    Returns:
        AnswerExplanation.

    Raises:
        UserError: see `explain_translation`; also if the model writes music, or cannot read prompt and answer at once.
    """
    if generator.is_music:
        raise UserError("This model writes music. Words are explained for models of text.")
    as_texts([prompt], "prompt")
    contrast = _checked_contrast(contrast, position)
    if "n" in sampling:
        raise UserError("One continuation is explained: leave out `n`.")
    tokens = len(generator.token_ids_of([prompt])[0])
    if (room := generator.window - tokens) < 1:
        raise _too_long_to_read(generator, f"at least {tokens + 1}")
    (generation,) = generator.generations(prompt, **{"max_tokens": min(MOST_WRITTEN, room), **sampling})
    return AnswerExplanation(prompt, generation.text, _explained([_Continued(generator, prompt, generation)], contrast))


def left_out(text, start, end):
    """The text without the characters from `start` to `end`, and without one of the blanks around them."""
    if text[start - 1 : start].isspace():
        start -= 1
    elif not text[:start] and text[end : end + 1].isspace():
        end += 1
    return text[:start] + text[end:]


class _Translated:
    """A sentence and its translation: what is left out, what is computed, and for which groups of tokens."""

    def __init__(self, translator, text, answer):
        self.translator, self.text, self.answer = translator, text, str(answer)
        tokenizer = self.tokenizer = translator.target_tokenizer
        ids = [token for token in getattr(answer, "token_ids", ()) if token != END_ID]
        self.most = max(len(ids), translator.decoding["max_length"] - 1)
        searched = isinstance(answer, Translation)
        if (ids or not searched) and self._written(ids) != self.answer:  # with stand-ins, or given by the user
            ids = tokenizer.encode([self.answer])[0].tolist()
        if len(ids) > self.most:
            if not searched:
                raise UserError(f"A translation has at most {self.most} tokens here. Received: {len(ids)} tokens")
            ids = []  # an answer that is copied for the most part
        self.ids = ids
        self.written = self._written(ids)  # what the tokens say: without the characters that the model cannot write
        self.places = _words(text, translator.source_language)
        self.sources = [text[start:end] for start, end in self.places]
        lengths = [len(self._written(ids[:k])) for k in range(len(ids))]
        self.targets, self.groups = _grouped(self.written, lengths, _words(self.written, translator.target_language))
        self.begins = 0  # of the targets among the sources; there are none
        self.unknown = UNKNOWN_ID

    def _written(self, ids):
        return self.tokenizer.decode([np.array(ids, "int32")])[0]

    def prepare(self):
        """Encodes the sentence, and the sentence without each of its words."""
        longest = self.translator.decoding["max_source_length"]
        copies = max(1, CHARACTERS_AT_ONCE // max(1, len(self.text)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncatedText)
            self.encoded, (self.truncated,) = self.translator.encode([self.text], longest)
            for first in range(0, len(self.places), copies):
                stop_if_unwanted()
                texts = [left_out(self.text, *place) for place in self.places[first : first + copies]]
                self.encoded += self.translator.encode(texts, longest)[0]

    def log_probs(self, ids):
        """The log probability of each of these tokens, given the sentence, and without each word: (1 + S, T)."""
        network, log_probs = self.translator.network, []
        inputs = np.array([START_ID, *ids[:-1]], "int32")
        row_bytes = activation_bytes(network, 1, max(map(len, self.encoded)) + len(ids))
        row_bytes += 4 * len(ids) * self.tokenizer.vocabulary_size  # of the logits
        size = max(1, BYTES_AT_ONCE // row_bytes)
        for first in range(0, len(self.encoded), size):
            some = self.encoded[first : first + size]
            source_ids = np.full((len(some), max(map(len, some))), PAD_ID, "int32")
            for row, one in zip(source_ids, some, strict=True):
                row[: len(one)] = one
            batch = {"source_ids": source_ids, "target_ids": np.tile(inputs, (len(some), 1))}
            with memory(len(some) * row_bytes):
                logits = np.asarray(network(batch, training=False), "float32")  # (B, T, V)
                log_probs.append(_log_softmax_at(logits, np.array(ids)))
        return np.concatenate(log_probs)

    def other_ids(self, before, other):
        return self.tokenizer.encode([before + other])[0].tolist(), self.tokenizer.encode([other])[0].tolist()


class _Continued:
    """A prompt and its continuation; see `_Translated`. Words of the continuation are left out, too."""

    def __init__(self, generator, prompt, generation):
        self.generator, self.text, self.answer = generator, prompt, generation.text
        self.written = self.answer
        self.ids = generation.token_ids
        self.beginning = generator.token_ids_of([prompt])[0]
        self.most = generator.window - len(self.beginning)
        if len(self.ids) > self.most:
            raise _too_long_to_read(generator, len(self.beginning) + len(self.ids))
        self.places = units(prompt)
        before = len(generator.text_of(self.beginning))
        lengths = [len(generator.text_of([*self.beginning, *self.ids[:k]])) - before for k in range(len(self.ids))]
        self.targets, self.groups = _grouped(self.answer, lengths, units(self.answer))
        self.sources = [prompt[start:end] for start, end in self.places] + self.targets
        self.begins = len(self.places)
        self.unknown = getattr(generator.tokenizer, "unknown_id", None)
        self.truncated = False

    def prepare(self):
        self.prompts = self.generator.token_ids_of([self.text, *(left_out(self.text, *place) for place in self.places)])
        longest = max(map(len, self.prompts))  # what stood around a word may have more tokens without it
        self.most = self.generator.window - longest
        if len(self.ids) > self.most:
            raise _too_long_to_read(self.generator, longest + len(self.ids))

    def log_probs(self, ids):
        """As in `_Translated`; without a word of the answer, the tokens up to its end have NaN."""
        sequences = [[*prompt, *ids] for prompt in self.prompts]
        ends = [0] * len(sequences)
        for group in self.groups:
            rest = [token for k, token in enumerate(ids) if k not in group]
            sequences.append([*self.beginning, *rest])
            ends.append(group[-1] + 1)
        log_probs = np.full((len(sequences), len(ids)), np.nan)
        inputs = [{"token_ids": np.array(one, "int32")} for one in sequences]
        for row, end, read, (of_sequence,) in zip(
            log_probs, ends, sequences, self.generator.compiled.run(inputs), strict=True
        ):
            kept = len(ids) - end
            row[end:] = of_sequence[len(read) - 1 - kept : len(read) - 1]
        return log_probs

    def other_ids(self, before, other):
        skipped = len(self.beginning)
        whole = self.generator.token_ids_of([self.text + before + other])[0][skipped:]
        return whole, self.generator.tokenizer.encode([other])[0].tolist()


def _too_long_to_read(generator, received):
    return UserError(
        f"Prompt and answer are explained if the model reads both at once: {generator.window} tokens. "
        f"Received: {received}. Shorten the prompt, or give fewer max_tokens."
    )


def _explained(writings, contrast):
    """The WordEffects of each sentence; `contrast` is asked of the first sentence whose answer has the word."""
    count = sum(max(1, len(one.targets)) * len(one.sources) for one in writings)  # without an answer, words are copied
    if count > MOST_EFFECTS:
        raise UserError(
            f"The text is too long to explain: {count:,} pairs of words. Expected: at most {MOST_EFFECTS:,}. "
            "Give a part of the text."
        )
    asked, place = None, None
    if contrast is not None:
        asked, place = _asked(writings, contrast)
    effects_of_sentences = []
    for one in writings:
        targets, sources = len(one.targets), len(one.sources)
        one.prepare()
        if not targets:
            nothing = np.zeros(0), np.zeros((0, sources)), None
            effects_of_sentences.append(WordEffects(one.text, one.answer, one.sources, [], *nothing, one.truncated))
            continue
        of_tokens = one.log_probs(one.ids)
        words = np.stack([of_tokens[:, group].sum(axis=1) for group in one.groups], axis=1)  # (1 + S, T)
        check_finite(words[0], "a log probability")
        effects = (words[0] - words[1:]).T
        answer = None
        if one is asked:
            answer = _contrasted(one, place, contrast[1], words[:, place])
        effects_of_sentences.append(
            WordEffects(one.text, one.answer, one.sources, one.targets, words[0], effects, answer, one.truncated)
        )
    return effects_of_sentences


def _asked(writings, contrast):
    """The answer whose word is contrasted, and the position of the word."""
    word, _, position = contrast
    for one in writings:
        places = [place for place, target in enumerate(one.targets) if target == word]
        if position in places or (places and position is None):
            return one, places[0] if position is None else position
    known = ", ".join(target for one in writings for target in one.targets) or "none"
    where = "" if position is None else f" at position {position}"
    raise UserError(f"The answer has no word {quoted(word)}{where}. Its words: {known:.300}")


def _contrasted(one, position, other, words):
    """The Contrast of a word, whose log probabilities are `words` (1 + S,), and another."""
    first = one.groups[position][0]
    before = one.written[: _start_of(one, position)]
    whole, alone = one.other_ids(before, other)
    ids = whole if whole[:first] == one.ids[:first] and len(whole) > first else [*one.ids[:first], *alone]
    if len(ids) == first or (one.unknown is not None and one.unknown in ids[first:]):
        raise UserError(f"The model cannot write {quoted(other)}: it has no tokens for it.")
    if len(ids) > one.most:
        raise UserError(f"{quoted(other)} is too long: up to its end, the answer has {len(ids):,} tokens.")
    groups = one.groups
    one.groups = groups[:position]
    log_probs = one.log_probs(ids)[:, first:].sum(axis=1)  # of a language model without the words after it
    one.groups = groups
    ratio = np.full(len(words), np.nan)
    ratio[: len(log_probs)] = words[: len(log_probs)] - log_probs
    return Contrast(position, one.targets[position], other, float(ratio[0]), ratio[0] - ratio[1:])


def _start_of(one, position):
    """Where a target word begins in what is written, in characters."""
    start = 0
    for number, word in enumerate(one.targets[: position + 1]):
        start = one.written.index(word, start) + (len(word) if number < position else 0)
    return start


def _words(text, language):
    """The positions of the words of a text; of what is no natural language, its letters, numbers and signs."""
    return units(text) if language_code(language) else [match.span() for match in PART.finditer(text)]


def _grouped(text, lengths, places):
    """The words of an answer, with the numbers of the tokens of each; words that share a token are one.

    Args:
        text: str.
        lengths: list of int, the characters of the text before each token.
        places: list of (start, end), the words.

    Returns:
        Pair of a list of str and a list of lists of int.
    """
    starts, groups, of_words = [start for start, _ in places], [], []
    for token, begin in enumerate(lengths):
        while begin < len(text) and text[begin].isspace():
            begin += 1
        if begin >= len(text) or not places:  # the end, a stop text, or blanks
            continue
        word = max(0, bisect_right(starts, begin) - 1)
        if of_words and word <= of_words[-1]:
            groups[-1].append(token)
        else:
            groups.append([token])
            of_words.append(word)
    nexts = [*of_words[1:], len(places)][: len(of_words)]
    return [text[places[a][0] : places[b - 1][1]] for a, b in zip(of_words, nexts, strict=True)], groups


def _log_softmax_at(logits, ids):
    """The log probabilities (B, T) of the tokens (T,) from logits (B, T, V)."""
    highest = logits.max(axis=-1, keepdims=True)
    sums = np.log(np.exp(logits - highest).sum(axis=-1, dtype="float64")) + highest[..., 0]
    return np.take_along_axis(logits, ids[None, :, None], axis=-1)[..., 0] - sums


def _checked_contrast(contrast, position):
    """The words and the position of a contrast: a tuple; None if there is none."""
    if contrast is None:
        if position is not None:
            raise UserError("`position` needs `contrast`.")
        return None
    words = tuple(contrast) if isinstance(contrast, (tuple, list)) else ()
    if len(words) != 2 or not all(isinstance(word, str) and word.strip() for word in words):
        raise UserError(f"`contrast` must be two words, as in ('Bank', 'Ufer'). Received: {quoted(contrast)}")
    as_texts(list(words), "contrast")
    word, other = (one.strip() for one in words)
    if word == other:
        raise UserError(f"`contrast` must be two different words. Received: {quoted(word)} twice")
    if position is not None and (type(position) is not int or position < 0):
        raise UserError(f"`position` must be an int of at least 0. Received: {quoted(position)}")
    return word, other, position
