"""Recording in, text out: the pipeline of networks that write what is said."""

from typing import TYPE_CHECKING, Any

import numpy as np

from keras_attention.inputs import Field
from keras_attention.inputs.given_texts import Progress
from keras_attention.pipelines.media.text_from_file import TextFromFile, WrittenAnswer
from keras_attention.tokenizers.special_tokens import END_ID

if TYPE_CHECKING:  # it imports Matplotlib, which answers do not need
    from keras_attention.visualize.speech_maps import SpeechAttention


SHORTEST_WORD = 0.1  # seconds


class Transcript(WrittenAnswer):
    """One answer: a str, what is said, that also says how it was found.

    Attributes:
        score, log_prob, token_ids, low_score: see `WrittenAnswer`; of a recording that was read in parts, sums over all
            parts, and the tokens of all, with END at the end of the last one only.
        words: list of W str, one for each token of the text.
        attention: float32 array (W, S), the attention weights of each word over S cells of equal length; each row sums
            to 1.
        cell: float, seconds of a cell.
    """

    cell: float

    def __new__(
        cls, text="", score=0.0, log_prob=0.0, token_ids=(), words=(), attention=None, cell=0.0, low_score=False
    ):
        transcript = super().__new__(cls, text)
        transcript.score, transcript.log_prob, transcript.cell = score, log_prob, cell
        transcript.token_ids, transcript.words = tuple(token_ids), list(words)
        transcript.attention = np.zeros((0, 1), "float32") if attention is None else attention
        transcript.low_score = low_score
        return transcript

    def __reduce__(self):
        fields = self.score, self.log_prob, self.token_ids, self.words, self.attention, self.cell, self.low_score
        return type(self), (str(self), *fields)

    def followed_by(self, later: "Transcript", cells: int) -> "Transcript":
        """One Transcript of this part of a recording and a later one, which begins after this many cells."""
        attention = np.zeros((len(self.words) + len(later.words), cells + later.attention.shape[1]), "float32")
        attention[: len(self.words), : self.attention.shape[1]] = self.attention
        attention[len(self.words) :, cells:] = later.attention
        token_ids = [number for number in self.token_ids if number != END_ID] + list(later.token_ids)
        numbers = self.score + later.score, self.log_prob + later.log_prob
        return Transcript(f"{self}{later}", *numbers, token_ids, self.words + later.words, attention, later.cell)

    @property
    def times(self) -> list[float]:
        """Seconds at which the network looks for each word: the mean over the cells, weighted by the attention."""
        middles = self.cell * (np.arange(self.attention.shape[1]) + 0.5)
        return [float(weights @ middles) for weights in self.attention]

    def as_json(self, attention: bool = False) -> dict[str, Any]:
        """The answer as a dict of JSON types, with or without its attention weights."""
        weights = np.round(self.attention.astype("float64"), 5).tolist() if attention else None
        return {
            "text": str(self),
            "score": self.score,
            "log_prob": self.log_prob,
            "low_score": self.low_score,
            "words": self.words,
            "times": [round(time, 3) for time in self.times],
            "attention": weights,
        }


class Transcriber(TextFromFile):
    """Writes what is said in recordings with a trained network.

    A loaded one answers with `model.transcribe(["one.wav", "two.wav"])`. For the arguments, see `TextFromFile`; `kind`
    is an `inputs.speech.SpeechInput`.
    """

    request_fields = {
        "n_best": Field(int, "Transcripts per recording, up to the beam size of the model.", 1, 1, 64),
        "attention": Field(bool, "Whether to return the attention weights of each word.", False),
    }
    answer_kind = "transcripts"
    answer_fields = {
        "transcripts": Field(
            [
                {
                    "text": Field(str),
                    "score": Field(float, "What the search maximizes: length-normalized log probability."),
                    "log_prob": Field(float, "Summed natural log probability of the tokens."),
                    "low_score": Field(bool, "True if the answer may be wrong, or the file is of another kind."),
                    "words": Field(list[str]),
                    "times": Field(list[float], "Seconds from the start at which the network looks for each word."),
                    "attention": Field(
                        list[list[float]] | None, "With `attention`: for each word, the weights over cells of time."
                    ),
                }
            ],
            "The best transcripts, best first.",
        )
    }

    def reply(self, n_best=1, attention=False, **inputs):
        (items,) = inputs.values()
        hypotheses = self.hypotheses(self.values_of(items), n_best=n_best)
        return [{"transcripts": [one.as_json(attention) for one in some]} for some in hypotheses]

    def transcribe(self, sounds: Any, *, n_best: int = 1, progress: Progress = None, **search: Any) -> Any:
        """Writes what is said in one recording or many.

        Args:
            sounds: one recording in any form that the kind of input reads, such as the name of a file, or an iterable
                of recordings.
            n_best: int in [1, beam_size], transcripts per recording.
            progress: callable (recordings done, number of recordings) or None.
            search: beam_size, length_penalty, max_length, see `beam_search`. Defaults are the model's own.

        Returns:
            For each recording a Transcript, which is a str with the attributes `score`, `times`, `attention` and
            others; with `n_best` above 1 a list of them, best first. All in a list, or the only one for a single
            recording.

        Raises:
            UserError: if a recording cannot be read or is too long, or a setting is out of range.
        """
        return self.best(sounds, n_best, progress, **search)

    def parts(self, value):
        return self.kind.parts(value)

    def joined(self, parts, n_best):
        """The n best sequences of transcripts of the parts."""
        whole = [Transcript()]
        for start, transcripts in parts:
            cells = start // self._weights.network.frames_per_cell
            both = [one.followed_by(other, cells) for one in whole for other in transcripts]
            whole = sorted(both, key=lambda one: -one.score)[:n_best]
        return whole

    def limit_of(self, frames, settings):
        seconds = frames * self.kind.hop / self.kind.rate
        return min(settings["max_length"], 2 + int(seconds / SHORTEST_WORD))

    def answer_of(self, hypotheses, weights, i, j, frames):
        token_ids = hypotheses.token_ids[i, j, : hypotheses.lengths[i, j]].tolist()
        ids = [number for number in token_ids if number != END_ID]
        frames_per_cell = self._weights.network.frames_per_cell
        attention = weights[i, j, : len(ids), : frames // frames_per_cell].astype("float32")
        numbers = float(hypotheses.scores[i, j]), float(hypotheses.log_probs[i, j])
        cell = frames_per_cell * self.kind.hop / self.kind.rate
        text, words = self.tokenizer.decode([ids])[0], self.tokenizer.tokens(ids)
        return Transcript(text, *numbers, token_ids, words, attention, cell)

    def attention_view(self, text: Any, text_b: str | None = None, **options: Any) -> "SpeechAttention":
        """The spectrogram, and below it where each word looks (Chorowski et al. 2015, figure 2).

        Args:
            text: one recording, in any form that the kind reads.

        Returns:
            SpeechAttention.

        Raises:
            UserError: if the recording cannot be read.
        """
        self.check_view(text_b, options)
        value = self.one_value(text)
        return self.alignment(value, self.transcribe([value])[0])

    def alignment(self, sound: Any, transcript: Transcript) -> "SpeechAttention":
        """The picture that `attention_view` draws, for a Transcript that is known already."""
        from keras_attention.visualize.speech_maps import SpeechAttention

        drawn = self.kind.drawn(self.kind.read(sound))
        seconds = len(drawn) * self.kind.hop / self.kind.rate
        cells = len(drawn) // self._weights.network.frames_per_cell
        weights = np.zeros((len(transcript.words), cells), "float32")
        weights[:, : transcript.attention.shape[1]] = transcript.attention[:, :cells]
        return SpeechAttention(drawn, transcript.words, weights, seconds, str(transcript))
