"""The sentences of a text: split before translation; their translations are joined with the text's own spacing."""

import re
from typing import NamedTuple

from keras_attention.support.blank_texts import is_blank
from keras_attention.tokenizers.special_tokens import control_character

QUOTES = "\"'«»“”„‹›‚‘’「」『』"
# What the splitter takes for the end of a sentence although it is none. Lower case, without the full stop.
ABBREVIATIONS = {
    "en": "ms sra eq eqs fig sec no vol mon tue tues wed thu thurs fri sat ft lb lbs oz approx dept incl",
    "de": "fa hr fr abb tab kap bd hauptstr str ca bzw evtl bzgl ggf inkl mio mrd geb",
    "fr": "m mm mme mlle dr pr me mgr st ste fig p pp art vol chap env maj",
}
ABBREVIATIONS = {code: set(words.split()) for code, words in ABBREVIATIONS.items()}
# German words before an ordinal number such as "der 1. Platz"; elsewhere a number with a full stop ends a sentence.
BEFORE_ORDINALS = re.compile(
    r"der|die|das|de[nms]|am|im|vom|zum|zur|beim|ab|bis|seit|und|oder|(?:ein|sein|ihr|mein|jed)(?:e[rnms]?)?"
)
END = re.compile(
    r"(?<![.!?…])[.!?…]++[)\]]++\s+(?=[^\W\d_a-zß-ÿ])"  # "(A note.) The text."
    r"|(?<![!?])[!?]{2,}+\s+(?=[^\W\d_a-zß-ÿ])"
    r"|\w\.[a-z]{2,4}\.\s+(?=[^\W\d_a-zß-ÿ])"  # after an address
    r"|\b(?:[Oo][Kk]|No|Nein)\.\s+(?=[^\W\d_])"
)
# Of a list, a heading or a quotation; "M." is French for "Mr.".
MARKER = re.compile(r"(?:[-*•–—+]|\d{1,3}[.)]|(?!M\.)[a-zA-Z][.)]|#{1,6}|>+)[ \t]+")
AFTER_MARKS = re.compile(r"(?:^|[.!?…])\s*+([a-zß-öø-ÿ])")
OPENING = re.compile(r"(?<=\s)(?:[«„‹]\s*|[(\"'»“‘「『]+)+$")
SIGN = re.compile(r"\S")
WINDOW = 200  # characters before a place that decide whether a sentence ends there; the time stays linear
LONG_LINE = 50  # characters; a shorter line without an end mark is a heading, an address or a verse
# What the splitter does not see, but an apostrophe: quotation marks, line breaks and emoji.
HIDDEN = re.compile(
    "[\"«»“”„‹›‚「」『』\r\n\t]|(?<!\\w)['‘’]|['‘’](?!\\w)|[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d]"
)


class Piece(NamedTuple):
    """A sentence, and what precedes it: blanks, line breaks and the marker of a list item."""

    before: str
    sentence: str


class SplitText(NamedTuple):
    """The sentences of a text. `before` and `sentence` of all pieces and `after`, joined, are the text."""

    pieces: list[Piece]
    after: str

    def joined(self, translations):
        """The translations with the text's spacing: str. Line breaks within a sentence are set at about its place."""
        parts = []
        for piece, translation in zip(self.pieces, translations, strict=True):
            parts += [spacing(piece.before), with_line_breaks(piece.sentence, translation)]
        return "".join([*parts, spacing(self.after)])


def spacing(text):
    """What stands between sentences, without control characters, which no translation contains; blanks stay."""
    return "".join(sign for sign in text if sign in "\t\r\n" or not control_character(sign))


def split_text(text, language):
    """Splits a text into sentences.

    Lines are sentences of their own, except that a long line without an end mark, or a line before one in lower case,
    continues in the next line. Within a paragraph, the library sentencex finds the ends of sentences; it also looks
    into quotations, because they are hidden from it.

    Args:
        text: str.
        language: str, a code such as "en", "pt-BR", or None.

    Returns:
        SplitText. A text that shows nothing has no piece.
    """
    code = re.split("[-_]", language or "en")[0].lower()
    pieces, done = [], 0
    for first, last in _paragraphs(text):
        starts = [first + start for start in _starts(text[first:last], code)]
        for start, end in zip(starts, [*starts[1:], last], strict=True):
            sentence = text[start:end]
            if is_blank(sentence):
                continue
            start += len(sentence) - len(sentence.lstrip())
            if marker := MARKER.match(text, start, end):
                start = marker.end() if not is_blank(text[marker.end() : end]) else start
            end = start + len(text[start:end].rstrip())
            pieces.append(Piece(text[done:start], text[start:end]))
            done = end
    return SplitText(pieces, text[done:])


def _paragraphs(text):
    """Spans of lines that belong together: list of (start, end), without their line breaks at the end."""
    spans, open_line = [], None
    for match in re.finditer(r"[^\r\n]+", text):
        line, between = match[0].strip(), text[spans[-1][1] : match.start()] if spans else ""
        one_break = between.replace("\r\n", "\n") in ("\n", "\r")
        if spans and one_break and open_line and not MARKER.match(line) and _continues(open_line, line):
            spans[-1] = (spans[-1][0], match.end())
        else:
            spans.append(match.span())
        open_line = line
    return spans


def _continues(line, following):
    if not line or not following or line[-1] in ".!?…:;|" or line[-1] in QUOTES:
        return False
    return following[0].islower() or len(line) >= LONG_LINE


def _starts(text, code):
    """Positions at which the sentences of a paragraph start: ascending list of int, the first is 0."""
    import sentencex

    hidden = HIDDEN.sub(" ", text)
    if not any(map(str.isupper, hidden)):  # chat in lower case
        hidden = AFTER_MARKS.sub(lambda match: match[0][:-1] + match[0][-1].upper(), hidden)
    ends, position = {match.end() for match in END.finditer(hidden)}, 0
    for part in sentencex.segment(code, hidden):
        position += len(part)
        ends.add(position)
    starts = [0]
    for position in sorted(ends - {0, len(text)}):
        position = _moved(text, hidden, starts[-1], position, code)
        if position and _shows_something(hidden, starts[-1], position):
            starts.append(_before_opening(text, position))
    return starts


def _shows_something(text, start, end):
    """Whether this part of a text is not blank; nearly always its beginning tells."""
    return not (is_blank(text[start : min(end, start + WINDOW)]) and is_blank(text[start:end]))


def _before_opening(text, position):
    """The position before quotation marks and brackets that open the sentence there."""
    opening = OPENING.search(text, max(0, position - WINDOW), position)
    return opening.start() if opening else position


def _moved(text, hidden, start, position, code):
    """Where a sentence that started at `start` really ends, instead of at `position`; 0 if it goes on."""
    words, following = hidden[max(start, position - WINDOW) : position].split(), SIGN.search(hidden, position)
    if not words or not following:
        return 0
    last, goes_on = words[-1], following[0].islower()
    if goes_on and text[max(start, position - WINDOW) : position].rstrip()[-1] in QUOTES:  # "Stop!" she cried.
        return 0
    if _is_abbreviation(last, code) or (last.endswith(".") and last[:-1].isupper() and goes_on):
        return 0
    if goes_on and re.fullmatch(r"\w{1,3}\.", last) and last[0].isupper() and start + len(last) < position - 1:
        return 0
    if len(words) == 1 and re.fullmatch(r"\d{1,3}[.)]|[a-zA-Z]\)", last):  # of a list item
        return 0
    if re.fullmatch(r"\d{1,2}\.", last) and len(words) > 1:
        if words[-2][-1] in ".!?…" and not _is_abbreviation(words[-2], code):  # the next item of a list in one line
            return hidden.rindex(last, start, position)
        if code == "de" and BEFORE_ORDINALS.fullmatch(words[-2].lower().strip("([")):
            return 0
    return position


def _is_abbreviation(word, code):
    """Whether a word, such as "Fig." or "J.-P.", has a full stop that ends no sentence."""
    name = word.lower().strip("([")
    return re.fullmatch(r"(?:\w\.-)+\w?\.?", name) or (name.endswith(".") and name[:-1] in ABBREVIATIONS.get(code, ()))


def with_line_breaks(sentence, translation):
    """A translation with as many line breaks as its sentence, each at the blank nearest to the same share of it."""
    for match in re.finditer(r"[ \t]*(?:\r\n|\r|\n)[ \t]*", sentence):
        place = match.start() / len(sentence) * len(translation)
        blanks = [blank.start() for blank in re.finditer(r"(?<=\S) (?=\S)", translation)]
        if not blanks:
            translation += match[0]
            continue
        at = min(blanks, key=lambda blank: abs(blank - place))
        translation = translation[:at] + match[0] + translation[at + 1 :]
    return translation
