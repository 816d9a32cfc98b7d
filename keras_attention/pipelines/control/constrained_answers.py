"""Translations that begin with a given text, and use given terms."""

import functools
import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from keras_attention.decoding.constrained_search import Constraints, constrained_search
from keras_attention.inputs.given_texts import as_texts
from keras_attention.pipelines.control.terms import Terms
from keras_attention.pipelines.doubt import ITEMS, NUMBERS, PREFIX, TERMS
from keras_attention.pipelines.items import ATTEMPTS, guard, without_marks
from keras_attention.pipelines.languages import language_code
from keras_attention.pipelines.search.guarded_search import mask_of, restored_answer
from keras_attention.pipelines.sentences import split_text
from keras_attention.pipelines.translations import attention_of, joined_hypotheses, translation_of
from keras_attention.runtime.buckets import answer_limit, batches
from keras_attention.runtime.compiled_search import map_in_threads
from keras_attention.runtime.work_budget import cache_bytes, memory
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

CHARACTERS_PER_TOKEN = 64  # of the limit of a prefix
STEPS = 32  # the number of steps of a program is a multiple of it
BEAM_SIZES = (16, 32)  # for searches with terms, beside the translator's own
SEARCHED_AGAIN = (NUMBERS, ITEMS, PREFIX, TERMS)  # reasons for another attempt at a sentence with items
# With one of these, a translation may have a full stop before its end, too: "am 3. März" for "on March 3".
INNER_END, AT_THE_END = re.compile(r"[\d.!?\N{HORIZONTAL ELLIPSIS}]"), " .!?\N{HORIZONTAL ELLIPSIS}'\"’”»)"
INSIDE_WORDS = "-'’_"  # signs after which a word goes on


class Wish(NamedTuple):
    """What is demanded of the answer to a sentence: how it begins, and the terms that it contains, each once."""

    prefix: str
    terms: list

    def missing(self, text):
        """The reason to doubt an answer that does not fulfil the wish, or None."""
        if not _begins_with(text, self.prefix):
            return PREFIX
        return TERMS if _missing_terms(text, self.terms) else None


def controlled_hypotheses(translator, texts, *, prefix=None, terms=None, split=True, progress=None, **options):
    """The best translations of texts that begin with a prefix and use terms; see `Translator.hypotheses`.

    Sentences are translated as usual first; those whose answers do not fulfil what is demanded are searched again.
    """
    texts, _ = as_texts(texts)
    prefixes, terms = _prefixes(prefix, len(texts)), terms if isinstance(terms, Terms) else Terms(terms or {})
    terms.check(translator.target_tokenizer)
    for one in {one for one in prefixes if one}:
        _check_letters(one, translator.target_tokenizer.encode([one])[0])
    parts = [translator.sentences(text) if split else None for text in texts]
    groups = [
        [one.sentence for one in some.pieces] if some else [text] for text, some in zip(texts, parts, strict=True)
    ]
    sentences = [one for group in groups for one in group]
    answers = translator.hypotheses(sentences, split=False, **options)
    wishes, start = [], 0
    for group, text_prefix in zip(groups, prefixes, strict=True):
        best = [answers[start + i][0].text for i in range(len(group))]
        of_sentences = prefixes_of_sentences(text_prefix, best, language_code(translator.target_language))
        wishes += [Wish(one, terms.translations_in(text)) for one, text in zip(of_sentences, group, strict=True)]
        start += len(group)
    again = [
        i
        for i, (wish, hypotheses) in enumerate(zip(wishes, answers, strict=True))
        if hypotheses[0].tokens
        and any(wish.missing(one.text) for one in hypotheses)  # a copy or an empty answer has no tokens
    ]
    search = functools.partial(_answers_to, translator, options)
    for i, hypotheses in zip(again, map_in_threads(search, [(sentences[i], wishes[i]) for i in again]), strict=True):
        answers[i] = hypotheses
    if progress:
        progress(len(texts), len(texts))
    rest, n_best = iter(answers), options.get("n_best", 1)
    joined = [[next(rest) for _ in group] for group in groups]
    return [
        joined_hypotheses(some, hypotheses, n_best) if some else hypotheses[0]
        for some, hypotheses in zip(parts, joined, strict=True)
    ]


def _prefixes(prefix, count):
    prefixes = list(prefix) if isinstance(prefix, (list, tuple)) else [prefix] * count
    if len(prefixes) != count or not all(one is None or isinstance(one, str) for one in prefixes):
        raise UserError(f"`prefix` must be a str, or a list of one str or None a text. Received: {quoted(prefix)}")
    return [one or "" for one in prefixes]


def prefixes_of_sentences(prefix, answers, language):
    """The part of a prefix with which the answer to each sentence of a text begins.

    An answer that the prefix contains as a whole takes its part of it. Otherwise a sentence takes the next sentence of
    the prefix; the last one takes all that is left.

    Args:
        prefix: str.
        answers: list of str, the answers to the sentences without a prefix.
        language: str, the code of the target language, or None.

    Returns:
        List of str.
    """
    parts = []
    for number, answer in enumerate(answers, start=1):
        prefix = prefix.lstrip()
        if number == len(answers) or not prefix:
            parts.append(prefix)
            prefix = ""
            continue
        if answer and prefix.startswith(answer) and prefix[len(answer) : len(answer) + 1].isspace():
            taken = answer
        else:
            pieces = split_text(prefix, language).pieces
            taken = pieces[0].before + pieces[0].sentence if len(pieces) > 1 else prefix
        parts.append(taken)
        prefix = prefix[len(taken) :]
    return parts


def _answers_to(translator, options, sentence_and_wish):
    """The Translations of a sentence, searched with the constraints of its wish, items restored.

    As without constraints, the model reads other stand-ins in further attempts if an item differs, see
    `search.guarded_search.guarded_answers`.
    """
    sentence, wish = sentence_and_wish
    options = dict(options)
    names, keep_items = options.pop("do_not_translate", None), options.pop("keep_items", True)
    languages = language_code(translator.source_language), language_code(translator.target_language)
    kept = languages if keep_items and all(languages) else None
    answers = []
    for attempt in range(ATTEMPTS):
        one, mask, prefix = masked(sentence, wish.prefix, names, kept, attempt)
        if answers and not mask.pairs:
            break
        of_attempt = _answers_with(translator, options, sentence, wish, one, mask, prefix, kept)
        answers = answers or of_attempt
        if of_attempt[0].truncated or of_attempt[0].reason not in SEARCHED_AGAIN:
            return of_attempt
    return answers


def _answers_with(translator, options, sentence, wish, one, mask, prefix, kept):
    """The Translations of a sentence as its Guard `one` has masked it. `kept`: see `masked`."""
    marks = bool(one and one.has_inner_marks and translator.has_attention)
    attention = options.get("attention", False)
    options = {**options, "attention": attention or marks}
    answers = []
    for answer in search_with_constraints(translator, mask.text, prefix, wish.terms, **options):
        if kept:
            answer = restored_answer(one, mask, sentence, answer, answer if marks else None, kept)
        reason = wish.missing(answer.text)
        if reason:
            answer = answer._replace(low_score=True, reason=reason)
        answers.append(answer if attention else answer._replace(attention=None, heads=None, alignment=None))
    return answers


def masked(sentence, prefix, names, languages, attempt=0):
    """The Guard of a sentence or None, its Mask, and the prefix with the same stand-ins.

    Args:
        sentence, prefix: str.
        names: re.Pattern of names that stay as they are, or None.
        languages: pair of codes such as "en", of source and target; None: no items are kept.
        attempt: int >= 0, see `Guard.masked`.
    """
    one = guard(sentence, names, languages) if languages else None
    mask = mask_of(one, sentence, attempt)
    if one:
        prefix = without_marks(prefix)[0]
        for stand_in, item in mask.pairs:
            prefix = re.sub(rf"(?<![\w.,]){re.escape(item)}(?![\w]|[.,]\d)", stand_in, prefix)
    return one, mask, prefix


def next_log_probs(translator, sentence, prefix):
    """The log probabilities of all tokens after a prefix of the answer to a sentence: float array (V,)."""
    settings = translator.settings(1, False)
    (ids,), _ = translator.encode([sentence], settings["max_source_length"])
    written, _ = encoded_prefix(translator, prefix)
    (_, _, padded), *_ = batches([len(ids)], settings["max_source_length"])
    _, steps = _room(translator, settings, len(ids), padded, len(written))
    source_ids = np.full((1, padded), PAD_ID, "int32")
    source_ids[0, : len(ids)] = ids
    beam_size = settings["beam_size"]
    with memory(cache_bytes(translator.network, beam_size, steps + padded)):
        step, log_probs = translator.compiled.stepper(source_ids, steps, beam_size), None
        for token in [START_ID, *written]:
            log_probs = step(np.full(beam_size, token, "int32"), np.arange(beam_size, dtype="int32"))
    return log_probs[0]


def search_with_constraints(
    translator, sentence, prefix, terms, *, n_best=1, attention=False, replace_unknowns=False, **search
):
    """The Translations of one sentence that begin with a prefix and contain terms."""
    settings = translator.settings(n_best, attention or replace_unknowns, **search)
    if settings["coverage_penalty"]:
        raise UserError("A search with a prefix or terms has no coverage penalty: leave out `coverage_penalty`.")
    (ids,), (truncated,) = translator.encode([sentence], settings["max_source_length"])
    constraints = _constraints(translator, sentence, prefix, terms)
    beam_size = settings["beam_size"]
    if terms:
        needed = max(beam_size, 2 * (constraints.total + 1))
        beam_size = next((size for size in (beam_size, *BEAM_SIZES) if size >= needed), max(beam_size, BEAM_SIZES[-1]))
    (_, _, padded), *_ = batches([len(ids)], settings["max_source_length"])
    limit, steps = _room(translator, settings, len(ids), padded, len(constraints.prefix) + constraints.total)
    source_ids = np.full((1, padded), PAD_ID, "int32")
    source_ids[0, : len(ids)] = ids
    rules = {name: settings[name] for name in ("length_penalty", "ranking", "patience", "force_end")}
    with memory(cache_bytes(translator.network, beam_size, steps + padded)):
        hypotheses = constrained_search(
            translator.compiled.stepper(source_ids, steps, beam_size),
            constraints,
            beam_size=beam_size,
            start_id=START_ID,
            end_id=END_ID,
            never=[PAD_ID, START_ID, *([] if replace_unknowns else [UNKNOWN_ID])],
            limit=limit,
            n_best=n_best,
            **rules,
        )
    weights = None
    if attention or (replace_unknowns and np.any(hypotheses.token_ids == UNKNOWN_ID)):
        weights = attention_of(translator, source_ids, hypotheses.token_ids)
    answers = [
        translation_of(translator, hypotheses, 0, j, ids, sentence, weights, attention)
        for j in range(n_best)
        if hypotheses.lengths[0, j] > 0
    ]
    return [_as_written(translator, one, prefix)._replace(truncated=truncated) for one in answers]


def _room(translator, settings, length, padded, added):
    """The most tokens of an answer, and the number of steps of its program: `added` tokens more than usual."""
    model, steps = translator.network, answer_limit(padded, settings) + added
    steps = -(-steps // STEPS) * STEPS
    if getattr(model, "positions", None) == "learned":
        steps = min(steps, model.max_length)
    return min(steps, answer_limit(length, settings) + added), steps


def _as_written(translator, answer, prefix):
    """An answer whose beginning is the prefix as it was given, and not as the tokenizer writes it."""
    ids, _ = encoded_prefix(translator, prefix)
    (written,) = translator.target_tokenizer.decode([ids])
    if not prefix.strip() or not answer.text.startswith(written):
        return answer
    return answer._replace(text=prefix.strip() + answer.text[len(written) :])


class OneSentence(Constraints):
    """Constraints whose phrases stand before the sign that ends the sentence: "Rechnung", not "... heute an. Rechnung."

    Args:
        ends: bool array (V,), tokens that end a sentence.
        constraints: those of `Constraints`.
    """

    def __init__(self, ends: np.ndarray, *constraints: Any):
        super().__init__(*constraints)
        self.ends = ends

    def after(self, progress, token):
        """See `Constraints.after`."""
        is_early = progress.length >= len(self.prefix) and self.ends[token] and not self.may_end(progress)
        return None if is_early and token not in self.wanted(progress) else super().after(progress, token)


def _constraints(translator, sentence, prefix, terms):
    ids, whole = encoded_prefix(translator, prefix)
    pieces = translator.target_tokenizer.kind != "characters"

    def ways(term):
        return [translator.target_tokenizer.encode([term])[0].tolist()]

    capital = [[] if term[0].isupper() else ways(term[0].upper() + term[1:]) for term in terms]
    bounds = boundaries(translator.target_tokenizer) if pieces else None
    constraints = ids, [ways(term) for term in terms], capital, bounds, whole
    if not pieces or INNER_END.search(sentence.rstrip(AT_THE_END)):
        return Constraints(*constraints)
    return OneSentence(sentence_ends(translator.target_tokenizer), *constraints)


def _check_letters(prefix, ids):
    if UNKNOWN_ID in ids:
        raise UserError(f"The model cannot write {quoted(prefix)}: it does not know all letters of this `prefix`.")


def encoded_prefix(translator, prefix):
    """The token ids of a prefix, and whether its last word is whole, as a blank after it says.

    Raises:
        UserError: if the model cannot write it, or it is longer than an answer.
    """
    tokenizer, most = translator.target_tokenizer, translator.decoding["max_length"]
    if is_blank(prefix):
        return [], False
    ids = tokenizer.encode([prefix.strip()[: CHARACTERS_PER_TOKEN * most]])[0].tolist()
    _check_letters(prefix, ids)
    if len(ids) >= most or len(prefix) > CHARACTERS_PER_TOKEN * most:
        raise UserError(f"`prefix` is longer than an answer, which has at most {most:,} tokens. Shorten it.")
    return ids, prefix != prefix.rstrip() and tokenizer.kind != "characters"


@functools.lru_cache(maxsize=16)
def boundaries(tokenizer):
    """Which tokens may follow a whole word: bool array (V,). They begin a word, or with a sign that ends one."""
    pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
    follows = [piece.startswith("▁") or not (piece[0].isalnum() or piece[0] in INSIDE_WORDS) for piece in pieces]
    return np.array(follows) | (np.arange(len(pieces)) == END_ID)


@functools.lru_cache(maxsize=16)
def sentence_ends(tokenizer):
    """Which tokens end a sentence, or hold its end: bool array (V,)."""
    pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
    return np.array([re.search(r"[.!?\N{HORIZONTAL ELLIPSIS}]", piece) is not None for piece in pieces])


def _begins_with(text, prefix):
    start = prefix.strip()
    if not text.startswith(start):
        return False
    following = text[len(start) : len(start) + 1]
    return prefix == prefix.rstrip() or not following or not (following.isalnum() or following in INSIDE_WORDS)


def _missing_terms(text, terms):
    """The terms that a text does not contain as often as they are demanded; it may begin with a capital letter."""

    def count(term):
        capital = term[0].upper() + term[1:]
        begins = term != capital and re.match(rf"{re.escape(capital)}(?!\w)", text) is not None
        return len(re.findall(rf"(?<!\w){re.escape(term)}(?!\w)", text)) + begins

    return [term for term, demanded in Counter(terms).items() if count(term) < demanded]
