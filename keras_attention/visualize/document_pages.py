"""Pages of documents: the text itself, sentences shaded by their attention weight, and the words within them."""

import html
import re
from pathlib import Path
from typing import Any, NamedTuple

from keras_attention.visualize.pages import filled, framed, save_page


class ShadedSentence(NamedTuple):
    """A sentence with its weights.

    Attributes:
        start, end: int, its position in the document, in characters.
        weight: float in [0, 1], the attention weight of the sentence.
        words: list of (start, end, weight): positions in the document, and the weight of the word times that of its
            sentence, as in figure 5 of the paper, but without the square root.
    """

    start: int
    end: int
    weight: float
    words: list


class DocumentPage(NamedTuple):
    """A page of documents. A notebook displays it when it is the last value of a cell.

    Attributes:
        documents: list of dict with `text`, `label` (str or None), `probabilities` (dict), `sentences` (list of dicts,
            see `ShadedSentence`), `truncated` (bool) and `note` (str).

    Source: Yang et al. (2016), section 3.6, figure 5, https://aclanthology.org/N16-1174.
    """

    documents: list

    @property
    def data(self) -> dict[str, Any]:
        """dict of JSON types, the content of the page."""
        return {"documents": self.documents}

    @property
    def html(self) -> str:
        """str, a whole HTML document."""
        return filled("document_page.html", "<!--DOCUMENTS-->", "\n".join(map(_article, self.documents)))

    def _repr_html_(self):
        return framed(self.html, "32rem")

    def save(self, path: str | Path) -> None:
        """Writes the page as a file, see `pages.save_page`."""
        save_page(self.html, path)


MOST_SENTENCES = 5  # in the list below a document


def _article(document):
    text, sentences = document["text"], document["sentences"]
    largest = max((sentence["weight"] for sentence in sentences), default=0.0) or 1.0
    strongest_word = max((weight for one in sentences for *_, weight in one["words"]), default=0.0) or 1.0
    parts, done = [], 0
    for sentence in sentences:
        share = sentence["weight"] / largest
        shaded = _shaded_words(text, sentence, strongest_word)
        parts.append(_between(text[done : sentence["start"]]))
        style = f'style="--share: {share:.3f}" title="sentence {sentence["weight"]:.1%}"'
        parts.append(f'<span class="sentence" {style}>{shaded}</span>')
        done = sentence["end"]
    parts.append(_between(text[done:]))
    best = sorted(sentences, key=lambda sentence: -sentence["weight"])[:MOST_SENTENCES]
    rows = "".join(
        f'<tr><td class="number">{one["weight"]:.1%}</td>'
        f'<td><div class="bar" style="width: {one["weight"] / largest:.0%}"></div></td>'
        f'<td dir="auto">{html.escape(text[one["start"] : one["end"]])}</td></tr>'
        for one in best
        if one["weight"] >= SMALLEST
    )
    probability = document["probabilities"].get(document["label"])
    title = html.escape(document["label"] or "")
    title += "" if probability is None else f" <span>{probability:.1%}</span>"
    note = document["note"] + TOO_LONG * document["truncated"]
    return (
        f'<article><h2 dir="auto">{title}</h2><p class="text" dir="auto">{"".join(parts)}</p>'
        f"<table><caption>Sentences with the largest weights</caption>{rows}</table>"
        f'<p class="note">{html.escape(note)}</p></article>'
    )


def _between(text):
    """What stands between sentences as HTML; the line breaks of HTML as such."""
    return html.escape(LINE_BREAK.sub("\n", text))


LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
SMALLEST = 5e-4
TOO_LONG = ". The text is longer than the model reads; sentences that it does not read have no weight"


def _shaded_words(text, sentence, strongest):
    """The sentence as HTML, each word in a span that is as dark as its weight."""
    parts, done = [], sentence["start"]
    for start, end, weight in sentence["words"]:
        parts.append(html.escape(text[done:start]))
        share = weight / strongest
        word = html.escape(text[start:end])
        parts.append(f'<span class="word" style="--share: {share:.3f}" title="word {weight:.2%}">{word}</span>')
        done = end
    return "".join([*parts, html.escape(text[done : sentence["end"]])])
