"""A model of another kind than all of the package: it counts the words of a text, weighted by one number."""

import keras
from keras import ops

from keras_attention.inputs.given_texts import as_texts
from keras_attention.pipelines.base import Field, Pipeline
from keras_attention.zoo.schema import Architecture, Task, choice, register, whole


@keras.saving.register_keras_serializable(package="keras_attention_tests")
class WordCounter(keras.Model):
    """n_words * weight for one of `max_words`."""

    def __init__(self, max_words, **kwargs):
        super().__init__(**kwargs)
        self.max_words = max_words

    def build(self, input_shape=None):
        self.weight = self.add_weight(shape=(), initializer="ones", name="weight")
        self.built = True

    def call(self, counts):
        return ops.minimum(ops.cast(counts, "float32"), float(self.max_words)) * self.weight

    def get_config(self):
        return {**super().get_config(), "max_words": self.max_words}


class CountingPipeline(Pipeline):
    """Counts the words of texts."""

    request_fields = {
        "texts": Field(list[str], "Texts to count.", low=1),
        "round": Field(bool, "Whole numbers.", False),
    }
    answer_fields = {"count": Field(float, "Words."), "unit": Field(str, "What was counted.")}

    def __init__(self, model, unit="words"):
        self.model, self.unit = model, unit

    @classmethod
    def from_parts(cls, model, tokenizers, config):
        return cls(model, config["unit"])

    def config_keys(self):
        return {"unit": self.unit}

    def count(self, texts):
        """The number of words of one text or many."""
        texts, alone = as_texts(texts)
        counts = ops.convert_to_numpy(self.model(ops.array([len(text.split()) for text in texts]))).tolist()
        return counts[0] if alone else counts

    def answers(self, sources, sources_b=None):
        return [f"{count:g} {self.unit}" for count in self.count(sources)]

    def reply(self, texts, round=False):
        return [{"count": int(count) if round else count, "unit": self.unit} for count in self.count(texts)]

    @property
    def samples(self):
        return ["A dog runs."]


def register_word_counter():
    """The one registration."""
    register(
        Architecture(
            name="WordCounter",
            model="pipelines.toy_model:WordCounter",
            settings={"max_words": whole(1, 1000)},
            parameters=lambda model: 1,
            task=Task(
                tasks=("count",),
                pipeline="pipelines.toy_model:CountingPipeline",
                method="count",
                keys={"unit": choice("words", "Wörter")},
                title=lambda config: f"number of {config['unit']}",
                reads=lambda config: f"Counts {config['unit']}",
            ),
        )
    )
