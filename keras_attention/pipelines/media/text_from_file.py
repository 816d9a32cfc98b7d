"""What pipelines have in common that write a text about a file token by token: captions, transcripts."""

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.decoding import Hypotheses
from keras_attention.inputs.given_texts import Progress
from keras_attention.pipelines.media.file_pipeline import FilePipeline
from keras_attention.runtime.buckets import BATCH_SIZES, batches
from keras_attention.runtime.compiled_search import SEARCH_OPTIONS, CompiledSearch
from keras_attention.runtime.prepared_weights import PreparedWeights
from keras_attention.runtime.work_budget import cache_bytes, memory, stop_if_unwanted
from keras_attention.support.errors import UserError, check_finite
from keras_attention.tokenizers import AnyTokenizer
from keras_attention.zoo.decoding_settings import (
    CAPTION_DECODING,
    CAPTION_DECODING_DEFAULTS,
    DECODING_DEFAULTS,
    check_search,
)
from keras_attention.zoo.schema import architecture_of


class WrittenAnswer(str):
    """One answer about a file: a str that also says how it was found.

    Attributes:
        score: float by which the search ranks answers.
        log_prob: float, summed natural log probability of the tokens.
        token_ids: tuple of int, the ids of the tokens; the last is END unless the maximum length was reached.
        words: list of W str, the words of the answer.
        attention: float32 array (W, ...), the attention weights of each word, which sum to 1.
        low_score: bool, whether `mean_log_prob` is below the model's threshold: the answer may be wrong, or the file
            unlike those of the training.
    """

    score: float
    log_prob: float
    token_ids: tuple[int, ...]
    words: list[str]
    attention: np.ndarray
    low_score: bool

    @property
    def mean_log_prob(self) -> float:
        """Natural log probability per token."""
        return self.log_prob / max(1, len(self.token_ids))


class TextFromFile(FilePipeline):
    """A pipeline whose network reads a file and writes a text with beam search.

    Args:
        model: built network that decodes step by step, such as an AttentionCaptioner.
        tokenizer: see `keras_attention.tokenizers`, of the texts.
        kind: kind of input with `is_file`. Its `padding` says what fills up arrays of different lengths.
        decoding: dict or None, defaults of the search, see `zoo.decoding_settings.CAPTION_DECODING`.
        language: str, of the texts.
        samples: sequence of inputs. Their texts become the examples of the card, and they become files of the entry.
        low_score_threshold: float <= 0 or None. Answers with a lower mean log probability per token have `low_score`
            set.
    """

    has_attention = True

    def __init__(
        self,
        model: Any,
        tokenizer: AnyTokenizer,
        kind: Any,
        decoding: dict[str, Any] | None = None,
        language: str = "en",
        samples: Sequence = (),
        low_score_threshold: float | None = None,
    ):
        self._weights = PreparedWeights(model)
        self.tokenizer, self.kind, self.language = tokenizer, kind, language
        self.decoding = {**CAPTION_DECODING_DEFAULTS, **(decoding or {})}
        self._samples = [kind.read(sample) for sample in samples]
        self.low_score_threshold = low_score_threshold
        self.compiled = CompiledSearch(self._weights, source="values")

    @abc.abstractmethod
    def answer_of(self, hypotheses: Hypotheses, weights: np.ndarray, i: int, j: int, frames: int) -> WrittenAnswer:
        """The answer of hypothesis j of input i, a str with more attributes.

        Args:
            hypotheses: Hypotheses of NumPy arrays.
            weights: float32 array (B, N, T, S), the attention weights of all hypotheses.
            i, j: int.
            frames: int, the length of the first axis of the input's array, without padding.
        """

    def parts(self, value: Any) -> list[tuple[int, Any]]:
        """What is searched separately: list of (where a part begins, on the first axis of the array; part)."""
        return [(0, value)]

    def joined(self, parts: list[tuple[int, list]], n_best: int) -> list:
        """The answers to a whole input, best first, from those to its parts."""
        ((_, answers),) = parts
        return answers

    def limit_of(self, frames: int, settings: dict[str, Any]) -> int:
        """The most tokens of the answer to an array with this length of its first axis."""
        return settings["max_length"]

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        task = architecture_of({"architecture": type(model).__name__}).task
        kind = task.input({**config, "model": model.get_config()})
        threshold = config["low_score_threshold"]
        return cls(model, tokenizers["text"], kind, config["decoding"], config["language"], (), threshold)

    @classmethod
    def from_loaded(cls, loaded):
        pipeline = super().from_loaded(loaded)
        pipeline._weights.private = True
        return pipeline

    def config_keys(self):
        keys = {"decoding": self.decoding, "low_score_threshold": self.low_score_threshold, "language": self.language}
        return {**keys, self.kind.name: self.kind.config_keys()}

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
        return [str(best) for best, *_ in self.hypotheses(list(sources))]

    def values_of(self, items: list[str]) -> list:
        """Reads the inputs of a request."""
        values = []
        for item in items:
            stop_if_unwanted()  # decoding large files takes time
            values.append(self.kind.from_json(item))
        return values

    def best(self, inputs: Any, n_best: int = 1, progress: Progress = None, **search: Any) -> Any:
        """The answers of one input or many, in the form of the public methods: `Captioner.caption`."""
        items, alone = self.kind.as_list(inputs)
        hypotheses = self.hypotheses(items, n_best=n_best, progress=progress, **search)
        answers = [best for best, *_ in hypotheses] if n_best == 1 else hypotheses
        return answers[0] if alone else answers

    def hypotheses(self, items: list, *, n_best: int = 1, progress: Progress = None, **search: Any) -> list[list]:
        """The best answers of each input in a list, best first.

        Args:
            items: list of inputs in any form that the kind reads.
            n_best: int in [1, beam_size], answers per input.
            progress: callable (inputs done, number of inputs) or None.
            search: beam_size, length_penalty, max_length, see `beam_search`. Defaults are the model's own.
        """
        settings, answers = self.settings(n_best, **search), []
        while len(answers) < len(items):
            left = items[len(answers) : len(answers) + BATCH_SIZES[-1]]
            parts = [self.parts(self.kind.read(item)) for item in left]
            values = [self.kind.arrays(part)["values"] for some in parts for _, part in some]
            chunks = [values[i : i + BATCH_SIZES[-1]] for i in range(0, len(values), BATCH_SIZES[-1])]
            found = iter([answer for chunk in chunks for answer in self._search(chunk, n_best, settings)])
            answers += [self.joined([(start, next(found)) for start, _ in some], n_best) for some in parts]
            if progress:
                progress(len(answers), len(items))
        lowest = -np.inf if self.low_score_threshold is None else self.low_score_threshold
        for answer in (one for some in answers for one in some):
            answer.low_score = answer.mean_log_prob < lowest
        return answers

    def _search(self, values, n_best, settings):
        """The answers for at most `BATCH_SIZES[-1]` arrays."""
        fill = self.kind.padding.get("values")
        lengths, longest = ([1] * len(values), 1) if fill is None else (list(map(len, values)), self.kind.size[0])
        options = {name: {**DECODING_DEFAULTS, **settings}[name] for name in SEARCH_OPTIONS}
        options |= {"n_best": n_best, "unknowns": False}
        answers: list[list] = [[]] * len(values)
        for positions, size, length in batches(lengths, longest):
            shape = values[0].shape if fill is None else (length, *values[0].shape[1:])
            filled = np.full((size, *shape), fill or 0, "float32")
            for row, position in zip(filled, positions, strict=False):
                row[: len(values[position])] = values[position]
            limits = np.zeros(size, "int32")
            limits[: len(positions)] = [self.limit_of(len(values[one]), settings) for one in positions]
            steps = settings["max_length"]
            with memory(cache_bytes(self.model, size * options["beam_size"], steps + length)):
                hypotheses = self.compiled.search(filled, limits, steps, **options)
            check_finite(hypotheses.log_probs[: len(positions), 0], "a log probability")
            weights = self.compiled.attention(filled, hypotheses.token_ids)[:, :, 0, 0]  # (B, N, T, S)
            for i, position in enumerate(positions):
                written = [j for j in range(n_best) if hypotheses.lengths[i, j] > 0]
                frames = len(values[position])
                answers[position] = [self.answer_of(hypotheses, weights, i, j, frames) for j in written]
        return answers

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
        check_search({name: settings[name] for name in CAPTION_DECODING}, n_best, CAPTION_DECODING)
        return settings

    def one_value(self, item: Any) -> Any:
        """What the kind reads of a single input, for a view.

        Raises:
            UserError: if there are several.
        """
        items, alone = self.kind.as_list(item)
        if not alone:
            raise UserError(f"Expected one {self.kind.name}. Received: {len(items)}")
        return self.kind.read(items[0])
