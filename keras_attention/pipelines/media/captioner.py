"""Picture in, sentence out: the pipeline of networks that describe a picture word by word."""

from typing import TYPE_CHECKING, Any

import numpy as np

from keras_attention.inputs import Field
from keras_attention.inputs.given_texts import Progress
from keras_attention.pipelines.media.text_from_file import TextFromFile, WrittenAnswer
from keras_attention.tokenizers.special_tokens import END_ID

if TYPE_CHECKING:  # it imports Matplotlib, which answers do not need
    from keras_attention.visualize.spotlights import Spotlights

WORD_START = "▁"  # before the first piece of a word


class Caption(WrittenAnswer):
    """One answer: a str, the caption, that also says how it was found.

    Attributes:
        score, log_prob, token_ids, words, low_score: see `WrittenAnswer`.
        attention: float32 array (W, rows, columns), the attention weights over the picture for each word, each summing
            to 1; mean over the tokens of the word. The picture is divided into rows x columns cells.
    """

    def __new__(cls, text="", score=0.0, log_prob=0.0, token_ids=(), words=(), attention=None, low_score=False):
        caption = super().__new__(cls, text)
        caption.score, caption.log_prob = score, log_prob
        caption.token_ids, caption.words = tuple(token_ids), list(words)
        caption.attention = np.zeros((0, 1, 1), "float32") if attention is None else attention
        caption.low_score = low_score
        return caption

    def __reduce__(self):
        return type(self), (
            str(self),
            self.score,
            self.log_prob,
            self.token_ids,
            self.words,
            self.attention,
            self.low_score,
        )

    @property
    def points(self) -> list[tuple[float, float]]:
        """Where each word looks most: (x, y) of the middle of a cell, as shares of width and height."""
        _, rows, columns = self.attention.shape
        best = self.attention.reshape(len(self.words), rows * columns).argmax(axis=1) if self.words else ()
        return [((cell % columns + 0.5) / columns, (cell // columns + 0.5) / rows) for cell in map(int, best)]

    def as_json(self, attention: bool = False) -> dict[str, Any]:
        """The answer as a dict of JSON types, with or without its attention weights."""
        weights = np.round(self.attention.astype("float64"), 5).tolist() if attention else None
        return {
            "text": str(self),
            "score": self.score,
            "log_prob": self.log_prob,
            "low_score": self.low_score,
            "words": self.words,
            "points": [list(point) for point in self.points],
            "attention": weights,
        }


class Captioner(TextFromFile):
    """Describes pictures with a trained network.

    A loaded one answers with `model.caption(["one.png", "two.png"])`. For the arguments, see `TextFromFile`; `kind` is
    an `inputs.image.ImageInput`.
    """

    request_fields = {
        "n_best": Field(int, "Captions per picture, up to the beam size of the model.", 1, 1, 64),
        "attention": Field(bool, "Whether to return the attention weights of each word.", False),
    }
    answer_kind = "captions"
    answer_fields = {
        "captions": Field(
            [
                {
                    "text": Field(str),
                    "score": Field(float, "What the search maximizes: length-normalized log probability."),
                    "log_prob": Field(float, "Summed natural log probability of the tokens."),
                    "low_score": Field(bool, "True if the answer may be wrong, or the file is of another kind."),
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

    def reply(self, n_best=1, attention=False, **inputs):
        (items,) = inputs.values()
        hypotheses = self.hypotheses(self.values_of(items), n_best=n_best)
        return [{"captions": [one.as_json(attention) for one in captions]} for captions in hypotheses]

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
        return self.best(images, n_best, progress, **search)

    def answer_of(self, hypotheses, weights, i, j, frames):
        token_ids = hypotheses.token_ids[i, j, : hypotheses.lengths[i, j]].tolist()
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
        return Caption(
            text, float(hypotheses.scores[i, j]), float(hypotheses.log_probs[i, j]), token_ids, words, attention
        )

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
        value = self.one_value(text)
        return self.spotlights(value, self.caption([value])[0])

    def spotlights(self, picture: Any, caption: Caption) -> "Spotlights":
        """The picture that `attention_view` draws, for a Caption that is known already."""
        from keras_attention.visualize.spotlights import Spotlights

        return Spotlights(self.kind.drawn(self.kind.read(picture)), caption.words, caption.attention, str(caption))
