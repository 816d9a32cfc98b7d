"""Any kind of input in, labels out: the pipeline of networks that read the arrays of their kind of input."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from keras_attention.evaluation.bag_of_words import Blend
from keras_attention.inputs import Field
from keras_attention.inputs.given_texts import Progress
from keras_attention.pipelines.explanation import Explanation
from keras_attention.pipelines.labels import (
    LABEL_ANSWER,
    LABEL_REQUEST,
    Classification,
    agreement_of_labels,
    check_threshold,
    classification_as_json,
    label_answer,
    label_fields,
    label_text,
)
from keras_attention.pipelines.media.file_pipeline import FilePipeline
from keras_attention.runtime.compiled_forward import CompiledForward
from keras_attention.runtime.work_budget import stop_if_unwanted
from keras_attention.support.errors import UserError, check_finite
from keras_attention.support.moved import RenamedAttribute
from keras_attention.zoo.schema import architecture_of
from keras_attention.zoo.weights_file import load_features, save_features

if TYPE_CHECKING:  # it imports Matplotlib, which answers do not need
    from keras_attention.visualize.patch_maps import PatchAttention, PositionMap

NUMBERS_AT_A_TIME = 1 << 24  # of the arrays of inputs that are in memory together
VECTORS_AT_A_TIME = 1 << 21  # numbers of the arrays from which features are computed together


class FeatureModel(NamedTuple):
    """A linear model on features of inputs, which may be blended with a network as a bag of words is for texts.

        logits = W features(input) + b

    Attributes:
        kernel: float32 array (D, K).
        bias: float32 array (K,).
        vectors: callable(list of N inputs) -> float32 array (N, D).
        name: str.
    """

    kernel: np.ndarray
    bias: np.ndarray
    vectors: Callable
    name: str = "linear model"

    def logits(self, inputs: list, second: None = None) -> np.ndarray:
        """Float32 array (N, K) for a list of N inputs."""
        return self.vectors(inputs) @ self.kernel + self.bias

    def scaled(self, factor: float) -> "FeatureModel":
        """A FeatureModel whose logits are `factor` times as large."""
        return self._replace(kernel=self.kernel * np.float32(factor), bias=self.bias * np.float32(factor))

    def stored(self) -> "FeatureModel":
        """A FeatureModel whose kernel is rounded to float16, as in a file, unless that loses very large numbers."""
        with np.errstate(over="ignore"):
            rounded = self.kernel.astype("float16").astype("float32")
        close = np.allclose(rounded, self.kernel, rtol=1e-2, atol=1e-3 * np.abs(self.kernel).max())
        return self._replace(kernel=rounded) if close else self


class InputClassifier(FilePipeline):
    """Classifies inputs of any kind that is a file: pictures or sounds.

    Args:
        model: built keras.Model. It takes the dict of arrays (B, ...) of `kind.arrays`, and returns logits (B, K).
        kind: kind of input with `is_file`, such as `inputs.image.ImageInput`.
        task: dict, see `catalog.classification.TASK`.
        samples: sequence of inputs that `kind` reads. Their answers become the examples of the card, and they become
            files of the entry.

    A loaded one answers with `model.classify(["three.png", "seven.png"])`.
    """

    request_fields = label_fields(LABEL_REQUEST, "input")
    answer_kind = "labels"
    answer_fields = {
        **label_fields(LABEL_ANSWER, "input"),
        "labels": Field(list[str], "All labels or the `top` ones, most probable first."),
        "truncated": Field(bool, "True if a part of the input was ignored."),
    }
    batching = "sequences"
    blend: Blend | None = None  # of the network with a FeatureModel

    def __init__(self, model: Any, kind: Any, task: dict[str, Any], samples: Sequence = ()):
        self.model, self.kind, self.task = model, kind, task
        self._samples = [kind.read(sample) for sample in samples]
        self.compiled = CompiledForward(partial(model, training=False), kind.padding, model=model)

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        task = architecture_of({"architecture": type(model).__name__}).task
        return cls(model, task.input({**config, "model": model.get_config()}), config["task"])

    @classmethod
    def from_loaded(cls, loaded):
        classifier = super().from_loaded(loaded)
        if features := loaded.entry.config["features"]:
            classifier.blend = Blend(classifier.feature_model(**load_features(loaded.entry)), features["weight"])
        return classifier

    def config_keys(self):
        features = {"count": len(self.blend.words.kernel), "weight": self.blend.weight} if self.blend else None
        return {"task": self.task, self.kind.name: self.kind.config_keys(), "features": features}

    def feature_model(self, kernel: np.ndarray, bias: np.ndarray) -> FeatureModel:
        """The FeatureModel with these weights for inputs of the pipeline's kind."""

        def vectors(inputs):
            return self.feature_vectors(self.single_sequences(inputs))

        return FeatureModel(kernel, bias, vectors, self.kind.simple_model)

    def feature_vectors(self, arrays: list[dict[str, np.ndarray]]) -> np.ndarray:
        """The features (N, D) of inputs from their arrays, see `inputs`."""
        size = max(1, VECTORS_AT_A_TIME // arrays[0]["values"].size)
        parts = [arrays[first : first + size] for first in range(0, len(arrays), size)]
        features = [self.kind.features(np.stack([one["values"] for one in part])) for part in parts]
        return np.concatenate([np.asarray(part) for part in features])

    @property
    def facts(self):
        return self.facts_of({"task": self.task})

    @classmethod
    def facts_of(cls, config):
        return {"kind": config["task"]["kind"], "labels": config["task"]["label_names"]}

    @property
    def extra_files(self):
        """Writers of the files of `samples`, and of the linear model on features, if there is one."""
        words = self.blend.words if self.blend else None
        if words is None:
            return super().extra_files
        features = {"kernel": words.kernel, "bias": words.bias}
        return [lambda folder: save_features(folder, features), *super().extra_files]

    def example_inputs(self, length: int) -> dict[str, np.ndarray]:
        """Arrays of one input, to compile the network; `length` is that of the padded axis, if the kind has one."""
        return self.kind.example_arrays(length)

    def answers(self, sources, sources_b=None):
        return [label_text(label, self.task) for label in self.classify(sources)]

    def reply(self, threshold=None, top=None, **inputs):
        (items,) = inputs.values()
        values = []
        for item in items:
            stop_if_unwanted()  # decoding large files takes time
            values.append(self.kind.from_json(item))
        return [self.answer_as_json(answer, top) for answer in self._classifications(values, threshold)]

    def answer_as_json(self, answer: Classification, top: int | None = None) -> dict[str, Any]:
        """A Classification as a dict of JSON types; `labels` has the order, which objects in JSON do not have."""
        one = classification_as_json(answer, top)
        return {"label": one.pop("label"), "labels": list(one["probabilities"]), **one}

    def classify(
        self, inputs: Any, *, threshold: float | None = None, return_scores: bool = False, progress: Progress = None
    ) -> Any:
        """Classifies one input or many.

        Args:
            inputs: one input in any form that the kind reads, such as the name of a file, or an iterable of inputs.
            threshold: float in [0, 1] or None, the minimum probability of a label. None: the threshold of the model.
            return_scores: bool. Whether to return Classifications instead of labels.
            progress: callable (inputs done, number of inputs) or None.

        Returns:
            List with the label of each input, see `labels.Classification`, or with the Classifications. A single one,
            without a list, for one input.

        Raises:
            UserError: if an input cannot be read, or `threshold` is out of range or given to a regression.
        """
        items, alone = self.kind.as_list(inputs)
        classifications = self._classifications(items, threshold, progress)
        answers = classifications if return_scores else [answer.label for answer in classifications]
        return answers[0] if alone else answers

    def _classifications(self, items, threshold=None, progress=None):
        check_threshold(threshold, self.task)
        numbers = sum(array.size for array in self.kind.example_arrays(1).values())
        size, answers = max(1, NUMBERS_AT_A_TIME // numbers), []
        for first in range(0, len(items), size):
            values = [self.kind.read(item) for item in items[first : first + size]]
            arrays = [self.kind.arrays(value) for value in values]
            logits = np.stack([logits for (logits,) in self.compiled.run(arrays)])  # (B, K)
            if self.blend:
                words, weight = self.blend
                logits = (1 - weight) * logits + weight * (self.feature_vectors(arrays) @ words.kernel + words.bias)
            check_finite(logits, "a logit")
            for row, value in zip(logits, values, strict=True):
                answer = label_answer(row, self.task, threshold)
                answers.append(answer._replace(truncated=getattr(value, "truncated", False)))
            if progress:
                progress(len(answers), len(items))
        return answers

    def sequences(self, inputs: list, second: None = None) -> list[list[dict[str, np.ndarray]]]:
        """The arrays of each input in a list of its own, as fine-tuning and its report ask of every classifier."""
        return [[arrays] for arrays in self.single_sequences(inputs)]

    def single_sequences(self, inputs: list, second: None = None) -> list[dict[str, np.ndarray]]:
        """The arrays of each input."""
        return [self.kind.arrays(self.kind.read(item)) for item in inputs]

    def inputs(self, sequences: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        """What the network reads: the arrays of `single_sequences` as they are."""
        return sequences

    def logits(self, sequences: list[list[dict[str, np.ndarray]]], progress: Progress = None) -> np.ndarray:
        """The logits (N, K) of inputs from `sequences`."""
        return np.stack([logits for (logits,) in self.compiled.run([arrays for (arrays,) in sequences], progress)])

    def blended(self, logits: np.ndarray, inputs: list, second: None = None) -> np.ndarray:
        """Blends logits (N, K) of the network with those of the linear model on features, if there is one."""
        if self.blend:
            logits = self.blend.logits(logits, inputs)
        check_finite(logits, "a logit")
        return logits

    answer = RenamedAttribute("classification")

    def classification(self, logits: np.ndarray, threshold: float | None = None) -> Classification:
        """Converts logits (K,) into a Classification."""
        return label_answer(logits, self.task, threshold)

    def label_text(self, label: Any) -> str:
        """A label as text for a table."""
        return label_text(label, self.task)

    def with_samples(self, samples: Sequence) -> Self:
        """A copy whose card has these inputs as examples."""
        other = copy.copy(self)
        other._samples = [self.kind.read(sample) for sample in samples]
        return other

    def agreement(self, other: Self, inputs: list) -> dict[str, float]:
        """The share of equal labels and the largest change of a probability; for a regression, of the number."""
        pairs = list(zip(*(one.classify(inputs, return_scores=True) for one in (self, other)), strict=True))
        return agreement_of_labels(pairs, self.task)

    @property
    def has_attention(self) -> bool:
        """bool. Whether `attention_view` and `position_view` are available."""
        return getattr(self.model, "has_attention", False)

    def attention_view(self, text: Any, text_b: str | None = None, **options: Any) -> "PatchAttention":
        """The attention weights of the network over the patches of one input, as a picture or page.

        Args:
            text: one input, in any form that the kind reads.

        Returns:
            PatchAttention: of each layer and head, and their rollout (Abnar & Zuidema 2020).

        Raises:
            UserError: if the network has no attention, or the input cannot be read.
        """
        from keras_attention.visualize.patch_maps import patch_attention

        self._check_attention()
        self.check_view(text_b, options)
        items, alone = self.kind.as_list(text)
        if not alone:
            raise UserError(f"Expected one {self.kind.name}. Received: {len(items)}")
        value = self.kind.read(items[0])
        arrays = {name: array[None] for name, array in self.kind.arrays(value).items()}
        _, weights = self.model(arrays, training=False, return_attention_scores=True)  # (1, L, H, N, N)
        answer = self.classify([value], return_scores=True)[0]
        probability = answer.probabilities.get(answer.label) if isinstance(answer.label, str) else None
        title = self.label_text(answer.label) + ("" if probability is None else f"  {probability:.1%}")
        of_model = f"{type(self.model).__name__}, {self.model.count_params():,} parameters"
        note = f"{of_model}; {_POOLED[self.model.pooling]}"
        if self.kind.drawing == "spectrogram":
            note += "\nTime is from left to right, low tones are below"
        if blended := self.blend and self.blend.attention_note():
            note += f"\n{blended}"
        given = self.model.positions.grid, self.model.pooling
        return patch_attention(self.kind.drawn(value), self.kind.drawing, np.asarray(weights)[0], *given, title, note)

    def position_view(self) -> "PositionMap":
        """How similar the position embeddings of the network are, as a picture (Dosovitskiy et al. 2021, figure 7).

        Raises:
            UserError: if the network has no position embeddings.
        """
        from keras_attention.visualize.patch_maps import position_map

        self._check_attention()
        positions = self.model.positions
        return position_map(np.asarray(positions.embeddings), positions.grid, self.kind.drawing)

    def _check_attention(self):
        if not self.has_attention:
            raise UserError("This model has no attention, so there is nothing to show.")

    def explain(self, text: str, text_b: str | None = None, *, label: str | None = None) -> Explanation:
        raise UserError(f"Words are explained for texts. This model reads inputs of the kind {self.kind.name}.")


_POOLED = {"cls": "attention of [CLS]", "mean": "mean of the attention of all patches, as their mean is classified"}
