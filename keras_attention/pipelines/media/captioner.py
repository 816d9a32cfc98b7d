"""Picture in, sentence out: the pipeline of networks that describe a picture word by word."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_attention.decoding import Hypotheses
from keras_attention.inputs import Field
from keras_attention.pipelines.media.file_pipeline import FilePipeline
from keras_attention.pipelines.texts import Progress
from keras_attention.runtime.buckets import BATCH_SIZES
from keras_attention.runtime.compiled_search import SEARCH_OPTIONS, CompiledSearch
from keras_attention.runtime.prepared_weights import PreparedWeights
from keras_attention.runtime.work_budget import stop_if_unwanted
from keras_attention.support.errors import UserError, check_finite, quoted
from keras_attention.tokenizers import AnyTokenizer
from keras_attention.tokenizers.special_tokens import END_ID
from keras_attention.zoo.decoding_settings import CAPTION_DECODING, CAPTION_DECODING_DEFAULTS, DECODING_DEFAULTS
from keras_attention.zoo.schema import architecture_of

if TYPE_CHECKING:  # it imports Matplotlib, which answers do not need
    from keras_attention.visualize.spotlights import Spotlights

WORD_START = "▁"  # before the first piece of a word


class Caption(str):
    """One answer: a str, the caption, that also says how it was found.

    Attributes:
        score: float by which the search ranks captions.
        log_prob: float, summed natural log probability of the tokens.
        token_ids: tuple of int, the ids of the tokens; the last is END unless the maximum length was reached.
        words: list of W str, the words of the caption.
        attention: float32 array (W, rows, columns), the attention weights over the picture for each word, each summing
            to 1; mean over the tokens of the word. The picture is divided into rows x columns cells.
    """

    score: float
    log_prob: float
    token_ids: tuple[int, ...]
    words: list[str]
    attention: np.ndarray

    def __new__(cls, text="", score=0.0, log_prob=0.0, token_ids=(), words=(), attention=None):
        caption = super().__new__(cls, text)
        caption.score, caption.log_prob = score, log_prob
        caption.token_ids, caption.words = tuple(token_ids), list(words)
        caption.attention = np.zeros((0, 1, 1), "float32") if attention is None else attention
        return caption

    def __reduce__(self):
        return type(self), (str(self), self.score, self.log_prob, self.token_ids, self.words, self.attention)

    @property
    def points(self) -> list[tuple[float, float]]:
        """Where each word looks most: (x, y) of the middle of a cell, as shares of width and height."""
        _, rows, columns = self.attention.shape
        best = self.attention.reshape(len(self.words), rows * columns).argmax(axis=1) if self.words else ()
        return [((cell % columns + 0.5) / columns, (cell // columns + 0.5) / rows) for cell in map(int, best)]


class Captioner(FilePipeline):
    """Describes pictures with a trained network.

    Args:
        model: built AttentionCaptioner.
        tokenizer: see `keras_attention.tokenizers`, of the captions.
        kind: kind of input with `is_file`, such as `inputs.image.ImageInput`.
        decoding: dict or None, defaults of the search, see `zoo.decoding_settings.CAPTION_DECODING`.
        language: str, of the captions.
        samples: sequence of pictures. Their captions become the examples of the card, and they become files of the
            entry.

    A loaded one answers with `model.caption(["one.png", "two.png"])`.
    """

    request_fields = {
        "n_best": Field(int, "Captions per picture, up to the beam size of the model.", 1, 1, 64),
        "attention": Field(bool, "Whether to return the attention weights of each word.", False),
    }
    answer_fields = {
        "captions": Field(
            [
                {
                    "text": Field(str),
                    "score": Field(float, "What the search maximizes: length-normalized log probability."),
                    "log_prob": Field(float, "Summed natural log probability of the tokens."),
                    "words": Field(list[str]),
                    "points": Field(
                        list[list[float]], "Where each word looks most: x and y as shares of width and height."
                    ),
                    "attention": Field(
                        list[list[list[float]]] | None, "With `attention`: for each word, weights in rows and columns."
                    ),
                }
            ],
            "The best captions, best first.",
        )
    }
    has_attention = True

    def __init__(
        self,
        model: Any,
        tokenizer: AnyTokenizer,
        kind: Any,
        decoding: dict[str, Any] | None = None,
        language: str = "en",
        samples: Sequence = (),
    ):
        self._weights = PreparedWeights(model)
        self.tokenizer, self.kind, self.language = tokenizer, kind, language
        self.decoding = {**CAPTION_DECODING_DEFAULTS, **(decoding or {})}
        self._samples = [kind.read(sample) for sample in samples]
        self.compiled = CompiledSearch(self._weights, source="values")

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        use = architecture_of({"architecture": type(model).__name__}).use
        kind = use.input({**config, "model": model.get_config()})
        return cls(model, tokenizers["text"], kind, config["decoding"], config["language"])

    @classmethod
    def from_loaded(cls, loaded):
        pipeline = super().from_loaded(loaded)
        pipeline._weights.private = True
        return pipeline

    def described(self):
        return {"decoding": self.decoding, "language": self.language, self.kind.name: self.kind.described()}

    @property
    def model(self) -> Any:
        return self._weights.model

    @property
    def tokenizers(self):
        return {"text": self.tokenizer}

    @property
    def facts(self):
        return {"beam_size": self.decoding["beam_size"]}

    @classmethod
    def facts_of(cls, config):
        return {"beam_size": {**CAPTION_DECODING_DEFAULTS, **(config.get("decoding") or {})}["beam_size"]}

    def answers(self, sources, sources_b=None):
        return list(map(str, self.caption(sources)))

    def reply(self, n_best=1, attention=False, **inputs):
        (items,) = inputs.values()
        values = []
        for item in items:
            stop_if_unwanted()  # decoding large files takes time
            values.append(self.kind.from_json(item))
        found = self.hypotheses(values, n_best=n_best)
        return [{"captions": [caption_as_json(one, attention) for one in captions]} for captions in found]

    def caption(self, images: Any, *, n_best: int = 1, progress: Progress = None, **search: Any) -> Any:
        """Describes one picture or many.

        Args:
            images: one picture in any form that the kind of input reads, such as the name of a file, or an iterable of
                pictures.
            n_best: int in [1, beam_size], captions per picture.
            progress: callable (pictures done, number of pictures) or None.
            search: beam_size, length_penalty, max_length, see `beam_search`. Defaults are the model's own.

        Returns:
            For each picture a Caption, which is a str with the attributes `score`, `words`, `attention` and others;
            with `n_best` above 1 a list of them, best first. All in a list, or the only one for a single picture.

        Raises:
            UserError: if a picture cannot be read, or a setting is out of range.
        """
        items, alone = self.kind.as_list(images)
        found = self.hypotheses(items, n_best=n_best, progress=progress, **search)
        answers = [best for best, *_ in found] if n_best == 1 else found
        return answers[0] if alone else answers

    def hypotheses(
        self, items: list, *, n_best: int = 1, progress: Progress = None, **search: Any
    ) -> list[list[Caption]]:
        """The best captions of each picture in a list, best first; see `caption`."""
        settings, answers = self.settings(n_best, **search), []
        while len(answers) < len(items):
            left = items[len(answers) : len(answers) + BATCH_SIZES[-1]]
            answers += self._search(
                [self.kind.arrays(self.kind.read(item))["values"] for item in left], n_best, settings
            )
            if progress:
                progress(len(answers), len(items))
        return answers

    def _search(self, values, n_best, settings):
        """The Captions of at most `BATCH_SIZES[-1]` arrays of pictures."""
        size = next(size for size in BATCH_SIZES if size >= len(values))
        filled = np.zeros((size, *values[0].shape), "float32")
        filled[: len(values)] = values
        limits = np.where(np.arange(size) < len(values), settings["max_length"], 0).astype("int32")
        options = {name: {**DECODING_DEFAULTS, **settings}[name] for name in SEARCH_OPTIONS}
        options |= {"n_best": n_best, "unknowns": False}
        found = self.compiled.search(filled, limits, settings["max_length"], **options)
        check_finite(found.log_probs[: len(values), 0], "a log probability")
        weights = self.compiled.attention(filled, found.token_ids)[:, :, 0, 0]  # (B, N, T, S)
        return [
            [self._caption(found, weights, i, j) for j in range(n_best) if found.lengths[i, j] > 0]
            for i in range(len(values))
        ]

    def _caption(self, found: Hypotheses, weights: np.ndarray, i: int, j: int) -> Caption:
        """Converts hypothesis j of picture i into a Caption."""
        token_ids = found.token_ids[i, j, : found.lengths[i, j]].tolist()
        ids = [number for number in token_ids if number != END_ID]
        tokens = self.tokenizer.tokens(ids)
        words: list[str] = []
        groups: list[list[int]] = []
        for place, token in enumerate(tokens):
            if token.startswith(WORD_START) or not words:
                words.append("")
                groups.append([])
            words[-1] += token.removeprefix(WORD_START)
            groups[-1].append(place)
        grid = self._weights.network.grid
        maps = [weights[i, j, group].mean(axis=0).reshape(grid) for group in groups]
        attention = np.stack(maps).astype("float32") if maps else np.zeros((0, *grid), "float32")
        text = self.tokenizer.decode([ids])[0]
        return Caption(text, float(found.scores[i, j]), float(found.log_probs[i, j]), token_ids, words, attention)

    def settings(
        self,
        n_best: int = 1,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_length: int | None = None,
    ) -> dict[str, Any]:
        """The checked settings of a search: the given ones, and the model's defaults for the others."""
        given = {"beam_size": beam_size, "length_penalty": length_penalty, "max_length": max_length}
        settings = {**self.decoding, **{name: value for name, value in given.items() if value is not None}}
        for name, (what, holds) in CAPTION_DECODING.items():
            if not holds(settings[name]):
                raise UserError(f"`{name}` must be {what}. Received: {name}={quoted(settings[name])}")
        if type(n_best) is not int or not 1 <= n_best <= settings["beam_size"]:
            raise UserError(
                f"`n_best` must lie between 1 and the beam size {settings['beam_size']}. Received: {quoted(n_best)}"
            )
        return settings

    def attention_view(self, text: Any, text_b: str | None = None, **options: Any) -> "Spotlights":
        """The picture once per word, with a spotlight where the word looks (Xu et al. 2015, figure 2).

        Args:
            text: one picture, in any form that the kind reads.

        Returns:
            Spotlights.

        Raises:
            UserError: if the picture cannot be read.
        """
        self.check_view(text_b, options)
        items, alone = self.kind.as_list(text)
        if not alone:
            raise UserError(f"Expected one {self.kind.name}. Received: {len(items)}")
        return self.spotlights(items[0], self.caption(items)[0])

    def spotlights(self, picture: Any, caption: Caption) -> "Spotlights":
        """The picture that `attention_view` draws, for a Caption that is known already."""
        from keras_attention.visualize.spotlights import Spotlights

        return Spotlights(self.kind.drawn(self.kind.read(picture)), caption.words, caption.attention, str(caption))


def caption_as_json(caption: Caption, attention: bool = False) -> dict[str, Any]:
    """A Caption as a dict of JSON types, with or without its attention weights."""
    weights = np.round(caption.attention.astype("float64"), 5).tolist() if attention else None
    return {
        "text": str(caption),
        "score": caption.score,
        "log_prob": caption.log_prob,
        "words": caption.words,
        "points": [list(point) for point in caption.points],
        "attention": weights,
    }
