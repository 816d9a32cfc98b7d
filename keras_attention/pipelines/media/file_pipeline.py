"""What pipelines have in common whose inputs are files: pictures, sounds, series."""

from typing import Any

from keras_attention.pipelines.base import Pipeline


class FilePipeline(Pipeline):
    """A pipeline of inputs that are files. The files of its samples are stored with the entry, as examples of the card.

    Attributes:
        kind: the kind of input, such as `inputs.image.ImageInput`.
        _samples: list of what `kind.read` returned.
    """

    kind: Any
    _samples: list

    @classmethod
    def request_fields_for(cls, kind):
        return {**kind.fields, **cls.request_fields}

    @property
    def input(self):
        return self.kind

    @property
    def samples(self):
        return self._samples

    def examples(self):
        examples = super().examples()
        return [{**example, "source": self._file(number)} for number, example in enumerate(examples, start=1)]

    @property
    def extra_files(self):
        """Writers of the files of `samples`, unless the entry has examples already."""
        if self.entry is not None:
            return []
        return [
            lambda folder, at=number, value=value: self.kind.write_example(value, folder / self._file(at))
            for number, value in enumerate(self._samples, start=1)
        ]

    def _file(self, number):
        return f"example_{number}{self.kind.example_suffix}"
