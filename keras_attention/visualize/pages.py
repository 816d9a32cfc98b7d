"""Pages, each one HTML file that needs no network: attention weights, and texts with words coloured by their effect."""

import base64
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.support.atomic_files import check_place, whole_file
from keras_attention.support.errors import UserError, check_finite


class AttentionMap(NamedTuple):
    """The attention weights of one part of a model.

    Attributes:
        name: str, such as "cross-attention".
        weights: float array (L, H, R, C) in [0, 1], of L layers and H heads; row r has the weights of query r.
        rows, columns: lists of R and C str, the tokens of the queries and of the keys.
        row_title, column_title: str.
        row_segments, column_segments: lists of int or None; tokens of segment 1 are marked as the second text.
        queries, keys: float arrays (L, H, R, K), (L, H, C, K) whose scaled products are the scores behind the weights,
            or None. With them, the page shows how the dimensions of a head add up to a weight.
    """

    name: str
    weights: np.ndarray
    rows: list
    columns: list
    row_title: str = "query"
    column_title: str = "key"
    row_segments: list | None = None
    column_segments: list | None = None
    queries: np.ndarray | None = None
    keys: np.ndarray | None = None

    def as_json(self) -> dict:
        """A dict of JSON types, with arrays in base64, layer by layer; weights are rounded to 1/255.

        Raises:
            ValueError: if the shape does not match the tokens, or a weight is not in [0, 1].
        """
        shape = np.shape(self.weights)
        if len(shape) != 4 or shape[2:] != (len(self.rows), len(self.columns)):
            expected = f"(layers, heads, {len(self.rows)}, {len(self.columns)})"
            raise ValueError(f"`weights` must have the shape {expected}. Received: weights.shape={shape}")
        if not (np.min(self.weights, initial=0) >= 0 and np.max(self.weights, initial=0) <= 1 + 1e-3):
            raise ValueError("`weights` must be in [0, 1]. Received: other values, or NaN")
        small = np.rint(255 * np.clip(self.weights, 0, 1)).astype("uint8")
        arrays = "weights", "queries", "keys"
        fields = {name: value for name, value in self._asdict().items() if name not in arrays}
        return {
            **fields,
            "row_words": word_numbers(self.rows),
            "column_words": word_numbers(self.columns),
            "layers": shape[0],
            "heads": shape[1],
            "weights": base64.b64encode(small.tobytes()).decode(),
            "queries": None if self.queries is None else _as_integers(self.queries),
            "keys": None if self.keys is None else _as_integers(self.keys),
        }


CONTINUES = re.compile("##.")
SPECIAL = re.compile(r"\[[A-Z]+\]|</?(?!unk>)[a-z]+>")


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """The number of the word to which each piece belongs, from 0.

    A word begins where a piece begins with "▁" (SentencePiece) or without "##" (WordPiece). Special pieces, such as
    "[CLS]" and "</s>", are words of their own, and so is each character of a model of characters. "<unk>" takes the
    place of some characters of a word.
    """
    sentencepiece = any(piece.startswith("▁") for piece in pieces) and not any(map(CONTINUES.match, pieces))
    numbers: list[int] = []
    after_special = True
    for piece in pieces:
        special = SPECIAL.fullmatch(piece) is not None
        begins = piece.startswith("▁") if sentencepiece else not piece.startswith("##")
        first = numbers[-1] + 1 if numbers else 0
        numbers.append(first if begins or special or after_special else numbers[-1])
        after_special = special
    return numbers


def words_of(pieces: Sequence[str]) -> list[str]:
    """The words that pieces make, without the signs of SentencePiece and WordPiece."""
    numbers = word_numbers(pieces)
    words = [""] * (numbers[-1] + 1 if numbers else 0)
    for number, piece in zip(numbers, pieces, strict=True):
        words[number] += piece[2:] if CONTINUES.match(piece) else piece
    return [word.removeprefix("▁") or word for word in words]


def weights_of_words(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    """Attention between words: a word gets the sum of the weights of its pieces, and gives the mean of theirs.

    Args:
        weights: array (..., T, S).
        rows: list of T str, the pieces that attend.
        columns: list of S str, the pieces that are attended to.

    Returns:
        array (..., words in the rows, words in the columns), float32.

    Source: Clark et al. (2019), section 4.1, https://arxiv.org/abs/1906.04341. No differences.
    """
    gives, gets = (
        np.equal.outer(word_numbers(pieces), np.arange(len(words_of(pieces)))).astype("float32")
        for pieces in (rows, columns)
    )  # (T, words), (S, words)
    return (gives / gives.sum(axis=0)).T @ np.asarray(weights, "float32") @ gets


def _as_integers(values):
    """Values as 16-bit integers in base64, with the value of 1 and the length of the last axis."""
    unit = max(float(np.abs(values).max(initial=0)), 1e-30) / (2**15 - 1)
    integers = np.rint(np.asarray(values) / unit).astype("<i2")
    return {"integers": base64.b64encode(integers.tobytes()).decode(), "unit": unit, "width": values.shape[-1]}


MOST_WEIGHTS = 40_000_000  # of a page: 53 MB of text, for example 512 tokens, 12 layers and 12 heads


def check_weights(count: int) -> None:
    """Raises UserError if a page would have more than `MOST_WEIGHTS` attention weights."""
    if count > MOST_WEIGHTS:
        raise UserError(
            f"The text is too long for an attention page: {count:,} weights. Expected: at most {MOST_WEIGHTS:,}. "
            "Give a part of the text."
        )


def attention_page(
    answers: list, title: str, note: str = "", decision: Sequence = (), kept: tuple[str, int] | None = None
) -> "AttentionView":
    """Builds an attention page.

    Args:
        answers: list of (name, list of AttentionMap), such as the hypotheses of a translation.
        title: str, the input text.
        note: str, shown below.
        decision: list of (label, probability), shown as bars.
        kept: the token that is highlighted when the page opens, ("row" or "column", index), or None.

    Returns:
        AttentionView.

    Raises:
        ValueError: see `AttentionMap.as_json`.
        UserError: if there is nothing to show, or too much.

    Source: the lines follow BertViz (Vig 2019), https://arxiv.org/abs/1906.05714; the code is our own.
    """
    if not answers or not all(maps for _, maps in answers):
        raise UserError("There is nothing to show: the model has no attention, or the text has no tokens.")
    check_weights(sum(np.size(one.weights) for _, maps in answers for one in maps))
    for _, maps in answers:
        for one in maps:
            check_finite(one.weights, "an attention weight")
    data = {
        "title": title,
        "note": note,
        "decision": list(decision),
        "kept": kept,
        "answers": [{"name": name, "maps": [one.as_json() for one in maps]} for name, maps in answers],
    }
    return AttentionView(data)


class AttentionView(NamedTuple):
    """An attention page. A notebook displays it when it is the last value of a cell.

    Attributes:
        data: dict of JSON types, the content of the page.
    """

    data: dict

    @property
    def html(self) -> str:
        """str, a whole HTML document."""
        # Only "<" could end the script element; a lone surrogate could not be written.
        text = json.dumps(self.data, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
        return filled("attention_page.html", "/*DATA*/", text)

    def _repr_html_(self):
        return framed(self.html, "50rem")

    def save(self, path: str | Path) -> None:
        """Writes the page as a file, see `save_page`."""
        save_page(self.html, path)


def save_page(page: str, path: str | Path) -> None:
    """Writes an HTML document as a file, whole or not at all.

    Raises:
        UserError: if `path` does not end with .html, or nothing can be written there.
    """
    with whole_file(check_page_path(path)) as file:
        file.write(page)


def check_page_path(path: str | Path) -> Path:
    """Returns the path of a page as a Path; raises UserError if it cannot be written."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"The name of a page must end with .html. Received: {str(path)!r}")
    check_place(path)
    return path


FULL_COLOUR = 0.1  # the smallest effect shown in full colour; smaller ones are paler
MOST_WORDS, LEAST_EFFECT = 5, 5e-5  # number of words in the list below a text, and their smallest effect


class ExplanationPage(NamedTuple):
    """A page of explanations. A notebook displays it when it is the last value of a cell.

    Attributes:
        explanations: list of dict, see `pipelines.explanation.Explanation.as_json`.
    """

    explanations: list

    @property
    def html(self) -> str:
        """str, a whole HTML document."""
        return filled("explanation_page.html", "<!--TEXTS-->", "\n".join(map(_article, self.explanations)))

    def _repr_html_(self):
        return framed(self.html, "24rem")

    def save(self, path: str | Path) -> None:
        """Writes the page as a file, see `save_page`."""
        save_page(self.html, path)


def filled(template, place, content):
    """The text of a template, with the content at its place."""
    before, after = files("keras_attention.visualize").joinpath(template).read_text(encoding="utf-8").split(place)
    return before + content + after


def framed(page, height):
    """A page inside the page of a notebook."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: {height}; border: 0"></iframe>'


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
    strongest = sorted(words, key=lambda word: -abs(word["effect"]))[:MOST_WORDS]
    rows = "".join(
        f'<tr><td dir="auto">{html.escape(word["text"])}</td><td class="number">{word["effect"]:+.4f}</td>'
        f'<td><div class="bar {_kind(word)}" style="width: {_share(word, full):.0%}"></div></td></tr>'
        for word in strongest
        if abs(word["effect"]) >= LEAST_EFFECT
    )
    label, value = explained["label"], explained["value"]
    title = "" if value is None else f"{value:.4f}"
    title = title if label is None else f"{html.escape(label)} <span>{value:.1%}</span>"
    cut = "<p class='note'>The text is longer than the model reads.</p>" if explained["truncated"] else ""
    table = f"<table><caption>Largest effects</caption>{rows}</table>" if rows else ""
    return f'<article><h2 dir="auto">{title}</h2>{texts}{cut}{table}</article>'


def _coloured(text, words, full):
    """The text as HTML, each word in a span whose colour is as strong as its effect."""
    parts, end = [], 0
    for word in words:
        word_html = html.escape(text[word["start"] : word["end"]])
        style = f'class="{_kind(word)}" style="--share: {_share(word, full):.2f}" title="{word["effect"]:+.4f}"'
        parts += [html.escape(text[end : word["start"]]), f"<span {style}>{word_html}</span>"]
        end = word["end"]
    return "".join(parts) + html.escape(text[end:])


def _kind(word):
    return "for" if word["effect"] > 0 else "against"


def _share(word, full):
    return min(1.0, abs(word["effect"]) / full) if full else 0.0
