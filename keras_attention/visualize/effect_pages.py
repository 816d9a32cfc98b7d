"""A page of heat maps: which words decide each word of an answer. It is one HTML file that needs no network."""

import html
import math
from pathlib import Path
from typing import NamedTuple

from keras_attention.visualize.pages import filled, framed, save_page

LEAST_FULL = 1.0  # the smallest effect in full colour, in nats; smaller ones are paler
SHOWN = 0.05  # the smallest effect whose number is written


class EffectPage(NamedTuple):
    """A page of heat maps. A notebook displays it when it is the last value of a cell.

    Attributes:
        explanations: list of dict, see `pipelines.control.word_effects.AnswerExplanation.as_json`.
    """

    explanations: list

    @property
    def html(self) -> str:
        """str, a whole HTML document."""
        sentences = [one for explained in self.explanations for one in explained["sentences"]]
        return filled("effect_page.html", "<!--TEXTS-->", "\n".join(map(_article, sentences)))

    def _repr_html_(self):
        return framed(self.html, "40rem")

    def save(self, path: str | Path) -> None:
        """Writes the page as a file, see `save_page`."""
        save_page(self.html, path)


def _article(one):
    """One sentence: its answer, the contrast of two words, and the heat map."""
    text, answer = html.escape(one["text"]), html.escape(one["answer"].strip())
    cut = "<p class='note'>The text is longer than the model reads.</p>" if one["truncated"] else ""
    content = (
        _heat_map(one)
        if one["targets"]
        else "<p class='note'>No word of this answer is explained: it is empty or copied.</p>"
    )
    return (
        f'<article><p class="text" dir="auto">{text}</p><h2 dir="auto">{answer}</h2>{cut}'
        f"{_contrast(one) if one['contrast'] else ''}{content}</article>"
    )


def _heat_map(one):
    rows = one["effects"]
    full = max([LEAST_FULL, *(abs(effect) for row in rows for effect in row if effect is not None)])
    head = "".join(f'<th scope="col"><span dir="auto">{html.escape(word)}</span></th>' for word in one["sources"])
    cells = [
        "".join(_cell(effect, full, source, target) for effect, source in zip(row, one["sources"], strict=True))
        for target, row in zip(one["targets"], rows, strict=True)
    ]
    body = "".join(
        f'<tr><th scope="row" dir="auto">{html.escape(target)}</th><td class="p">{_percent(log_prob)}</td>{row}</tr>'
        for target, log_prob, row in zip(one["targets"], one["log_probs"], cells, strict=True)
    )
    return (
        '<div class="scroll"><table class="map"><thead><tr><td></td><th scope="col" class="p"><span>probability</span>'
        f"</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(effect, full, source, target):
    """A cell of the heat map, whose colour is as strong as the effect."""
    if effect is None:
        return '<td class="none"></td>'
    number = _signed(effect, 1) if abs(effect) >= SHOWN else ""
    title = html.escape(f"{target} without {source}: {effect:+.3f}")
    return f'<td class="{_kind(effect)}" style="--share: {abs(effect) / full:.2f}" title="{title}">{number}</td>'


def _contrast(one):
    """Why the model prefers a word to another: the effect of each word on their log ratio, as bars."""
    contrast = one["contrast"]
    full = max([LEAST_FULL, *map(abs, contrast["effects"])])
    rows = "".join(
        f'<tr><td dir="auto">{html.escape(word)}</td><td class="number">{_signed(effect, 2)}</td>'
        f'<td><div class="bar {_kind(effect)}" style="width: {abs(effect) / full:.0%}"></div></td></tr>'
        for word, effect in zip(one["sources"][: len(contrast["effects"])], contrast["effects"], strict=True)
        if abs(effect) >= SHOWN
    )
    title = f"Why <b>{html.escape(contrast['word'])}</b> and not <b>{html.escape(contrast['other'])}</b>? "
    ratio = f"log p(word) \u2212 log p(other) = {_signed(contrast['log_ratio'], 2)}; without a word, it falls by:"
    return f'<table class="contrast"><caption dir="auto">{title}{ratio}</caption>{rows}</table>'


def _signed(number, digits):
    return f"{number:+.{digits}f}".replace("-", "\u2212")


def _kind(effect):
    return "for" if effect > 0 else "against"


def _percent(log_prob):
    probability = math.exp(min(0.0, log_prob))
    if probability < 0.0005:
        return "&lt;0.1%"
    return f"{probability:.0%}" if probability >= 0.01 else f"{probability:.1%}"
