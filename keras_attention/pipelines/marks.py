"""Puts the tags and emoji of a sentence, which the model does not read, back into its translation."""

import re
from difflib import SequenceMatcher
from itertools import accumulate, compress
from typing import NamedTuple

WORD = re.compile(r"\S+")
MOST_COMPARED = 500  # words of a text; in a longer one, frequent words are compared only beside others, to save time
CLOSING_SIGNS = ".,;:!?…)]}\"'”“’»«"


class Place(NamedTuple):
    """Where a mark goes: before or after which word of the translation, and whether a blank is between them."""

    word: int
    after: bool
    apart: bool


def with_marks(plain, marks, answer, alignment=None):
    """A translation with the marks of its sentence.

    Marks before the first and after the last word stay there. A pair of tags encloses the words that are aligned to
    those between them in the sentence; another mark goes to the word that is aligned to its neighbour.

    Args:
        plain: str, the sentence without marks.
        marks: list of Mark, in their order.
        answer: str, the translation of `plain`.
        alignment: list of int, the word of `plain` for each word of `answer`; or None: by the share of the length.

    Returns:
        str.
    """
    start, end = len(plain) - len(plain.lstrip()), len(plain.rstrip())
    if start >= end:
        return _outer(plain, marks, 0)
    before = [mark for mark in marks if mark.place <= start]
    after = [mark for mark in marks if mark.place >= end]
    inner = marks[len(before) : len(marks) - len(after)]
    if inner:
        answer = _with_inner_marks(plain, inner, marks, answer, alignment)
    return f"{_outer(plain[:start], before, 0)}{answer}{_outer(plain[end:], after, end)}"


def _outer(blanks, marks, start):
    for mark in reversed(marks):
        at = mark.place - start
        blanks = blanks[:at] + mark.text + blanks[at:]
    return blanks


def _with_inner_marks(plain, inner, marks, answer, alignment):
    words = [match.span() for match in WORD.finditer(answer)]
    if not words:
        return answer
    is_sign = [not any(map(str.isalnum, answer[start:end])) for start, end in words]
    source_words = [match.span() for match in WORD.finditer(plain)]
    partners = _pairs(marks)
    even = [round(i * (len(source_words) - 1) / max(1, len(words) - 1)) for i in range(len(words))]
    for aligned in (alignment, even):
        if aligned is None or len(aligned) != len(words):
            continue
        places = [_place(plain, source_words, mark, marks, partners, aligned, is_sign) for mark in inner]
        additions = sorted(_additions(answer, words, inner, places, plain))
        if aligned is even or _nested([_number(inner[number], marks) for _, number, _ in additions], partners):
            break
    for at, _, text in reversed(additions):
        answer = answer[:at] + text + answer[at:]
    return answer


def _nested(order, partners):
    """Whether the pairs of tags, given by their numbers in the order of the text, do not cross."""
    open_tags = []
    for number in order:
        partner = partners.get(number)
        if partner not in order:
            continue
        if partner > number:
            open_tags.append(number)
        elif not open_tags or open_tags.pop() != partner:
            return False
    return True


def _pairs(marks):
    """Dict from each tag that has a partner, as index in `marks`, to the index of the partner."""
    partners, open_tags = {}, []
    for number, mark in enumerate(marks):
        name = re.match(r"<(/?)([A-Za-z][\w-]*)", mark.text)
        if not name or mark.text.endswith("/>"):
            continue
        if not name[1]:
            open_tags.append((name[2].lower(), number))
        elif open_tags and open_tags[-1][0] == name[2].lower():
            other = open_tags.pop()[1]
            partners |= {number: other, other: number}
    return partners


def _number(mark, marks):
    return next(i for i, one in enumerate(marks) if one is mark)  # equal ones may stand at the same place


def _place(plain, source_words, mark, marks, partners, aligned, is_sign):
    left, right = plain[mark.place - 1].isspace(), plain[mark.place].isspace()
    number = _number(mark, marks)
    following = next(i for i, (_, end) in enumerate(source_words) if end > mark.place)
    preceding = max(i for i, (start, _) in enumerate(source_words) if start < mark.place)
    opens = number in partners and partners[number] > number
    if number in partners:
        first, last = sorted((number, partners[number]))
        inside = [
            i for i, (start, end) in enumerate(source_words) if start < marks[last].place and end > marks[first].place
        ]
        enclosed = [i for i, one in enumerate(aligned) if one in inside]
        if plain[marks[last].place - 1] not in CLOSING_SIGNS:  # a sign that stands alone, as in French, is not enclosed
            enclosed = [i for i in enclosed if not is_sign[i]] or enclosed
        if enclosed:
            return Place(min(enclosed) if opens else max(enclosed), not opens, False)
    to_the_right = opens or (left and not right and plain[mark.place] not in CLOSING_SIGNS)
    word = following if to_the_right else preceding
    nearest = min(range(len(aligned)), key=lambda i: abs(aligned[i] - word))
    return Place(nearest, not to_the_right, left and not to_the_right)


def _additions(answer, words, inner, places, plain):
    """Triples (position in the answer, number of the mark, its text with a blank)."""
    additions = []
    for number, (mark, place) in enumerate(zip(inner, places, strict=True)):
        start, end = words[place.word]
        at = end if place.after else start
        if place.after and not (plain[mark.place].isspace() and plain[mark.place - 1] in f" {CLOSING_SIGNS}"):
            while at > start + 1 and answer[at - 1] in CLOSING_SIGNS:
                at -= 1
        additions.append((at, number, f" {mark.text}" if place.apart else mark.text))
    return additions


def word_alignment(answer, text, source):
    """The source word to which each word of an answer attends most.

    Signs such as a full stop attend to the signs of other words: a word is aligned by its pieces with letters or
    digits, if it has any.

    Args:
        answer: Translation with attention weights, of which `alignment` is used.
        text, source: str, the answer and its sentence, as the model wrote and read them.

    Returns:
        List of int, the word of `source` for each word of `text`; None if the pieces are not those of words.
    """
    if len(_words(answer.tokens)) != len(text.split()) or len(_words(answer.source_tokens)) != len(source.split()):
        return None
    return _aligned_words(answer)


def _aligned_words(answer):
    """The same by the words that the pieces make, whatever the texts are."""
    words, source_words = words_of(answer.tokens), words_of(answer.source_tokens)
    if answer.alignment is None or not words or not source_words:
        return None
    counts, source_counts = _are_counted(words, answer.tokens), _are_counted(source_words, answer.source_tokens)
    weights = [[0.0] * (source_words[-1] + 1) for _ in range(words[-1] + 1)]
    for word, row in compress(zip(words, answer.alignment.tolist(), strict=False), counts):
        for source_word, weight in compress(zip(source_words, row, strict=False), source_counts):
            weights[word][source_word] += weight
    return [max(range(len(row)), key=row.__getitem__) for row in weights]


def _are_counted(words, pieces):
    """For each piece, whether it has a letter or digit, or none of its word has: list of bool."""
    have_letters = [any(map(str.isalnum, piece)) for piece, _ in zip(pieces, words, strict=False)]
    words_with_letters = {word for word, has_letters in zip(words, have_letters, strict=True) if has_letters}
    return [
        has_letters or word not in words_with_letters for word, has_letters in zip(words, have_letters, strict=True)
    ]


def alignment_pairs(answer, source):
    """The words of an answer and the words of its source to which they attend most, in Pharaoh's format.

    Where the model read a stand-in, as for "Mr. Smith", the words behind it in answer and source are paired in order,
    equal words with each other.

    Args:
        answer: Translation with attention weights.
        source: str, its source.

    Returns:
        List of (source word, target word), counted from 0 over all sentences of the text, by target word. Words that
        the model did not read, such as an emoji that stands alone or the marker of a list item, have no pairs.
    """
    links, read = [], []
    source_words, target_words = source.split(), answer.text.split()
    owners, joined, at = [i for i, word in enumerate(target_words) for _ in word], "".join(target_words), 0
    for one in answer.sentences or (answer,):
        words = one.text.split()
        at = max(at, joined.find("".join(words), at))  # behind the marker of a list item
        targets = [owners[at + length] for length in accumulate(map(len, words[:-1]), initial=0)] if words else []
        at += sum(map(len, words))
        written = _words(one.tokens) or words  # a copied sentence has no pieces
        heard = _words(one.source_tokens) or written
        aligned = _aligned_words(one) if one.tokens else range(len(words))
        for number, places in zip(aligned or (), _places(written, words), strict=False):
            links.append((len(read) + number, [targets[place] for place in places]))
        read += heard
    places, pairs = _places(read, source_words), {}  # without duplicates, in order
    for word, targets in links:
        pairs |= dict.fromkeys(_paired(places[word], targets, source_words, target_words))
    return list(pairs)


def _paired(sources, targets, source_words, target_words):
    """Pairs of places for the words of source and answer that stand for one word of the model: list of tuples."""
    if len(sources) < 2:
        return [(source, target) for source in sources for target in targets]
    places = _places([target_words[i] for i in targets], [source_words[i] for i in sources])
    ranks = [found[0] if found else min(i, len(sources) - 1) for i, found in enumerate(places)]
    return [(sources[rank], target) for rank, target in zip(ranks, targets, strict=True)]


def _words(tokens):
    """The words that pieces make, as `words_of` counts them: list of str."""
    return "".join(tokens).removesuffix("</s>").removeprefix("▁").split("▁") if tokens else []


def _places(words, of_text):
    """For each of the words that a model read or wrote, the range of those of the text that stand in its place."""
    matcher = SequenceMatcher(None, words, of_text, autojunk=len(of_text) > MOST_COMPARED)
    places = []
    for _, start, end, first, last in matcher.get_opcodes():
        for i in range(end - start):  # evenly spread, if the numbers of words differ
            begin, following = (first + (i + more) * (last - first) // (end - start) for more in (0, 1))
            places.append(range(begin, max(following, min(begin + 1, last))))
    return places


def words_of(tokens):
    """The number of the word to which each piece belongs, counted from 0: list of int, without END."""
    pieces = [token for token in tokens if token != "</s>"]
    starts = [number > 0 and piece.startswith("▁") for number, piece in enumerate(pieces)]
    return list(accumulate(map(int, starts)))
