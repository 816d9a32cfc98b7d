"""Texts whose words are coloured by what they contribute to a label, as one HTML file that needs no network."""

import html
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from keras_attention.visualize.attention_page import check_page_path
from keras_attention.whole_file import whole_file

PLACE = "<!--TEXTS-->"
FULL_COLOUR = 0.1  # the smallest effect on a probability that is shown in full colour: weaker ones look weak
SHOWN, LEAST = 5, 5e-5  # words in the list below a text, and the effect that they need to be there


class ExplanationPage(NamedTuple):
    """A page. A notebook displays it when it is the last value of a cell.

    Attributes:
        explanations: list of dict, see `pipelines.explanation.Explanation.as_json`.
    """

    explanations: list

    @property
    def html(self) -> str:
        """str, a whole HTML document."""
        template = files("keras_attention.visualize").joinpath("explanation_page.html").read_text(encoding="utf-8")
        before, after = template.split(PLACE)
        return before + "\n".join(map(_article, self.explanations)) + after

    def _repr_html_(self):
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: 24rem; border: 0"></iframe>'

    def save(self, path: str | Path) -> None:
        """Writes the page as a file, whole or not at all.

        Raises:
            UserError: if `path` does not end with .html, or nothing can be written there.
        """
        with whole_file(check_page_path(path)) as file:
            file.write(self.html)


def _article(explained):
    """One text with its words in colours, and the words with the largest effects."""
    words = explained["words"]
    largest = max((abs(word["effect"]) for word in words), default=0.0)
    full = largest if explained["label"] is None else max(largest, FULL_COLOUR)
    sides = [explained["text"]] if explained["text_b"] is None else [explained["text"], explained["text_b"]]
    texts = "".join(
        f'<p class="text" dir="auto">{_coloured(side, [w for w in words if w["second"] == bool(number)], full)}</p>'
        for number, side in enumerate(sides)
    )
    strongest = sorted(words, key=lambda word: -abs(word["effect"]))[:SHOWN]
    rows = "".join(
        f'<tr><td dir="auto">{html.escape(word["text"])}</td><td class="number">{word["effect"]:+.4f}</td>'
        f'<td><div class="bar {_kind(word)}" style="width: {_share(word, full):.0%}"></div></td></tr>'
        for word in strongest
        if abs(word["effect"]) >= LEAST
    )
    label, value = explained["label"], explained["value"]
    title = f"{value:.4f}" if label is None else f"{html.escape(label)} <span>{value:.1%}</span>"
    cut = "<p class='note'>The text is longer than the model reads.</p>" if explained["truncated"] else ""
    table = f"<table><caption>Largest effects</caption>{rows}</table>" if rows else ""
    return f'<article><h2 dir="auto">{title}</h2>{texts}{cut}{table}</article>'


def _coloured(text, words, full):
    """The text as HTML, each word in a span whose colour is as strong as its effect."""
    parts, done = [], 0
    for word in words:
        shown = html.escape(text[word["start"] : word["end"]])
        style = f'class="{_kind(word)}" style="--share: {_share(word, full):.2f}" title="{word["effect"]:+.4f}"'
        parts += [html.escape(text[done : word["start"]]), f"<span {style}>{shown}</span>"]
        done = word["end"]
    return "".join(parts) + html.escape(text[done:])


def _kind(word):
    return "for" if word["effect"] > 0 else "against"


def _share(word, full):
    return min(1.0, abs(word["effect"]) / full) if full else 0.0
