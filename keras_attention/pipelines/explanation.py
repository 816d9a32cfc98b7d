"""Explanations of an answer: the effect of each word on a label, and the attention weights as a page."""

import warnings
from typing import NamedTuple

import numpy as np
import regex

from keras_attention.inputs.given_texts import as_texts, blank_rows
from keras_attention.inputs.token_sequences import DROPPED_PART, START, TruncatedText, text_sequences
from keras_attention.models.attention_records import projections_of, recorded_weights
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.special_tokens import END_ID, SPECIAL_PIECES, START_ID
from keras_attention.visualize.pages import MOST_WEIGHTS, AttentionMap, ExplanationPage, attention_page, check_weights

MOST_UNITS = 500  # words of a text that are hidden one by one; in longer texts, neighbours are hidden together
IDEOGRAPHS = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"  # no spaces between words
BLANKS = r"\s\x1c-\x1f"  # as in str.split
MARKS = r"[\p{M}\u200c\u200d]"  # combining marks and joiners belong to the character before them
LETTER = rf"[^\P{{L}}{IDEOGRAPHS}]{MARKS}*|[\p{{N}}_]{MARKS}*"
# An ideograph; a word from its first letter to its last ("don't", "well-known"); adjacent punctuation marks.
UNIT = regex.compile(
    rf"[{IDEOGRAPHS}]{MARKS}*|(?:{LETTER})(?:[^{BLANKS}{IDEOGRAPHS}]*(?:{LETTER}))?|(?:[^{BLANKS}\p{{L}}\p{{N}}_]{MARKS}*)+"
)


class HiddenWord(NamedTuple):
    """A word and the effect of hiding it.

    Attributes:
        text: str.
        second: bool, whether it is in the second text of a pair.
        start, end: int, its position in its text, in characters.
        effect: float, how much the probability of the label falls when the word is left out; below 0 if it rises.
    """

    text: str
    second: bool
    start: int
    end: int
    effect: float


class Explanation(NamedTuple):
    """What the words of a text contribute to its label. A notebook displays it in colours.

    Attributes:
        text: str.
        text_b: str, the second text of a pair, or None.
        label: str, the label that is explained; None for a regression.
        value: float, its probability; for a regression, the number itself; None for an empty or blank text.
        words: list of HiddenWord, in the order of the text.
        truncated: bool, whether the text exceeds the model's limit. If a word is hidden, more text at the cut is read.
    """

    text: str
    text_b: str | None
    label: str | None
    value: float | None
    words: list
    truncated: bool

    def as_json(self):
        """A dict of JSON types."""
        return {**self._asdict(), "words": [word._asdict() for word in self.words]}

    def page(self):
        """The ExplanationPage with the text in colours."""
        return ExplanationPage([self.as_json()])

    def _repr_html_(self):
        return self.page()._repr_html_()


def explain(classifier, text, text_b=None, label=None):
    """Hides each word of a text in turn: `effect` is the label's probability with the word minus that without it.

    Each of these probabilities is the model's for the text without the word. The effects are therefore exact
    for the model, unlike attention weights, but they have no fixed sum. All texts are computed in batches.

    Args:
        classifier: pipeline with `classify`, `classifications` and `task`, see `Classifier`.
        text: str.
        text_b: str, the second text of a pair, or None.
        label: str, the label to explain; None for the most probable one.

    Returns:
        Explanation.

    Raises:
        UserError: if a text is not a str, the label is unknown, or the classifier needs a pair or a single text
            instead.

    Source: Zeiler & Fergus (2014), section 4.2, for patches of pictures, https://arxiv.org/abs/1311.2901; Li et al.
    (2016), "erasure" of words, https://arxiv.org/abs/1612.08220.
    """
    sides = [as_texts([side], "text")[0][0] for side in ((text,) if text_b is None else (text, text_b))]
    words = [(number, start, end) for number, side in enumerate(sides) for start, end in units(side)]
    hidden = [sides, *(without(sides, *word) for word in words)]
    texts, *texts_b = (list(column) for column in zip(*hidden, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedText)
        whole, *others = classifier.classifications(texts, *texts_b)
    if any(blank_rows([text], None if text_b is None else [text_b])):
        return Explanation(text, text_b, None, None, [], False)
    if label is not None and label not in whole.probabilities:
        known = ", ".join(sorted(whole.probabilities)) or "none, this model gives a number"
        raise UserError(f"There is no label {quoted(label)}. Labels: {known:.300}")
    if label is None:
        label = next(iter(whole.probabilities), None)

    def value_of(answer):
        return answer.label if label is None else answer.probabilities[label]

    influences = [
        HiddenWord(sides[number][start:end], bool(number), start, end, value_of(whole) - value_of(answer))
        for (number, start, end), answer in zip(words, others, strict=True)
    ]
    return Explanation(text, text_b, label, value_of(whole), influences, whole.truncated)


def units(text):
    """The positions of the words of a text: list of (start, end), at most `MOST_UNITS`."""
    places = [match.span() for match in UNIT.finditer(text)]
    together = -(-len(places) // MOST_UNITS)
    return [(places[i][0], places[i : i + together][-1][1]) for i in range(0, len(places), max(1, together))]


def without(sides, number, start, end):
    """The texts; text `number` lacks the characters from `start` to `end`."""
    return [*sides[:number], sides[number][:start] + sides[number][end:], *sides[number + 1 :]]


SOURCE, TRANSLATION = "source", "translation"
CUT = "; the text exceeds the limit of the model: its {} was left out"


def translation_view(translator, text, *, target=None, n_best=1, **search):
    """The attention page of a translation, with every layer and head; of several sentences one after the other.

    Args:
        translator: Translator.
        text: str, the source.
        target: str, a translation to show instead of the model's own, or None.
        n_best: int in [1, beam_size], hypotheses shown.
        search: see `Translator.hypotheses`.

    Returns:
        AttentionView.

    Raises:
        UserError: if the text is empty or not a str, or the model has no attention; see `Translator.hypotheses`.
    """
    if not translator.has_attention:
        raise UserError("This model has no attention, so there is nothing to show.")
    as_texts([text] if target is None else [text, target], "text")
    parts = None if target is not None else translator.sentences(text)
    sentences = [piece.sentence for piece in parts.pieces] if parts else [text]
    answers, cut, weights, note = [], False, 0, ""
    for number, sentence in enumerate(sentences):
        (source_ids,), (truncated,) = translator.encode([sentence], translator.decoding["max_source_length"])
        cut |= truncated
        for name, ids in _written(translator, sentence, target, n_best, search):
            answers.append((name, _translation_maps(translator, source_ids, ids)))
            weights += sum(one.weights.size for one in answers[-1][1])
        if number and weights > MOST_WEIGHTS:
            answers, note = answers[:-n_best], f"; the first {number} of {len(sentences)} sentences"
            break
    note = f"{type(translator.network).__name__}, {translator.network.count_params():,} parameters{note}"
    return attention_page(answers, text, note + CUT.format(DROPPED_PART[START]) * cut)


def _written(translator, sentence, target, n_best, search):
    """The texts and token ids of the translations of a sentence to show: list of pairs."""
    if target is None:
        best = translator.hypotheses(sentence, n_best=n_best, split=False, keep_items=False, **search)[0]
        return [(f"{one.text}  ({one.score:.2f})", np.array(one.token_ids)) for one in best if one.tokens]
    (ids,) = translator.target_tokenizer.encode([target])
    if len(ids) >= translator.decoding["max_length"]:
        most = translator.decoding["max_length"] - 1
        raise UserError(f"A translation has at most {most} tokens here. Received: {len(ids)} tokens")
    return [(target, np.append(ids, END_ID))]


def _translation_maps(translator, source_ids, written_ids):
    """The maps of one hypothesis: cross-attention, and for a Transformer the self-attention of encoder and decoder."""
    inputs = np.concatenate([[START_ID], written_ids[:-1]]).astype("int32")
    batch = {"source_ids": source_ids[None], "target_ids": inputs[None]}
    read, written = translator.source_tokenizer.tokens(source_ids), translator.target_tokenizer.tokens(written_ids)
    before = [SPECIAL_PIECES[START_ID], *written[:-1]]
    cross = AttentionMap(
        "cross-attention", _first(translator.network.cross_attention(batch)), written, read, TRANSLATION, SOURCE
    )
    if not translator.network.has_self_attention:
        return [cross]
    weights, records = recorded_weights(translator.network, batch)
    own = "translation so far"
    maps = [cross, AttentionMap("encoder self-attention", _first(weights["encoder"]), read, read, SOURCE, SOURCE)]
    if "decoder" in weights:  # not with an SSRU
        maps.append(AttentionMap("decoder self-attention", _first(weights["decoder"]), before, before, own, own))
    # A layer of the decoder attends to itself, then to the source.
    encoder, in_turns = maps[1].weights.shape[0], len(maps) - 1
    calls = [records[encoder + in_turns - 1 :: in_turns], records[:encoder], records[encoder::in_turns]]
    return [one._replace(**projections_of(of_map, one.weights)) for one, of_map in zip(maps, calls, strict=False)]


def bert_view(pipeline, text, text_b=None, *, masks=False, decision=(), note=""):
    """The attention page of a BERT, with every layer and head, and the answer of the model.

    Args:
        pipeline: TextEncoder, Classifier or MaskFiller.
        text: str.
        text_b: str, the second text of a pair, or None.
        masks: bool. Whether "[MASK]" in a text is the mask token.
        decision: list of (str, float), the model's answers and their probabilities.
        note: str, appended to the note under the title.

    Returns:
        AttentionView.

    Raises:
        UserError: if the text is not a str, see `Classifier.classify`, or too long for a page.
    """
    encoder, tokenizer = pipeline.encoder, pipeline.tokenizer
    sides = [text], None if text_b is None else [text_b]
    limits = {"max_tokens": pipeline.max_tokens, "long_texts": pipeline.long_texts}
    (sequence,) = text_sequences(tokenizer, *sides, **limits, masks=masks)
    check_weights(encoder.num_layers * encoder.num_heads * len(sequence.token_ids) ** 2)
    inputs = {"token_ids": sequence.token_ids[None]}
    if encoder.num_segments > 1:
        inputs["segment_ids"] = sequence.segment_ids[None]
    compares = getattr(pipeline.model, "pooling", None) == "pair"
    network = pipeline.model if compares else encoder
    weights, records = recorded_weights(network, inputs)
    ids, segments = sequence.token_ids, sequence.segment_ids
    if compares:  # the second text has a [CLS], too
        begin = int(np.argmax(segments))
        ids, segments = np.insert(ids, begin, ids[0]), np.insert(segments, begin, 1)
    tokens, segments = tokenizer.tokens(ids), segments.tolist()
    attention = AttentionMap("self-attention", _first(weights), tokens, tokens, "query", "key", segments, segments)
    maps = [attention._replace(**projections_of(records, attention.weights))]
    note = f"{type(pipeline.model).__name__}, {pipeline.model.count_params():,} parameters{note}"
    title = text if text_b is None else f"{text} / {text_b}"
    return attention_page(
        [("", maps)], title, note + CUT.format(DROPPED_PART[pipeline.long_texts]) * sequence.truncated, decision
    )


def _first(weights):
    """The weights (L, H, T, S) of a batch that holds one text."""
    return np.asarray(weights, "float32")[0]
