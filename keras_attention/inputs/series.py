"""Series of numbers as inputs: rows of tables, arrays, pasted numbers, and JSON."""

import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from keras_attention.inputs import Field
from keras_attention.support.errors import UserError, quoted
from keras_attention.support.series_limits import MAX_CHANNELS, MAX_STEPS, SUFFIXES

if TYPE_CHECKING:
    import numpy as np

SHIFT, SCALE = (0.06, 0.0), (0.08, 0.0)  # of training series, see `Warp`
MOST_STEPS = 512  # of a new network
MOST_FEATURES = 128  # steps that the simple model reads
SERIES_TO_READ = 1000
PART = re.compile(r"(.+):([1-9][0-9]{0,8})")  # a series of a file with several, counted from 1
FLAT = 1e-9  # standard deviations below this share of the largest number are rounding errors


class SeriesInput:
    """One series of numbers, stretched to the length that a network reads, and normalised on its own.

    A series is an array or list (steps,) or (steps, channels), numbers as text, such as "0.5, 1, 2.25", or the name of
    a file: a table with one series in its row (CSV, TSV), one number a line, or one column a channel; a `.npy` array; a
    `.ts` file. "FILE:3" is the third series of a file with several.

        values = stretch((x - mean of x) / standard deviation of x)        for each channel

    Args:
        size: (steps, channels) of the network's input.
        length: int > 1, the usual steps of a series; those of an exported model.

    Raises:
        ValueError: if an argument is out of range.

    Source: the normalisation of each instance: Nie et al. (2023), section 3.1, https://arxiv.org/abs/2211.14730.
    """

    name = "series"
    fields = {
        "series": Field(
            list[list[float | list[float]]], "Series: lists of numbers, or of steps of several channels.", low=1
        )
    }
    widget = "series"
    noun = "series of numbers"
    question = "Which kind of curve?"
    instruction = "Paste numbers, choose a file, or try an example."
    is_file = True
    suffixes = SUFFIXES
    plural, simple_model = "series", "logistic regression on the values"
    drawing = "lines"
    body_bytes = 8_000_000
    example_suffix, max_example_bytes = ".csv", 4 << 20
    padding: dict = {}  # no axis varies
    exported_shapes: dict = {}

    def __init__(self, size: Sequence[int], length: int):
        self.size, self.length = tuple(size), length
        if len(self.size) != 2 or min(self.size) < 1 or self.size[1] > MAX_CHANNELS:
            raise ValueError(f"`size` must be (steps, channels). Received: size={self.size}")
        if not 2 <= length <= MAX_STEPS:
            raise ValueError(f"`length` must be from 2 to {MAX_STEPS:,}. Received: length={length}")

    @classmethod
    def for_sources(cls, sources: Sequence) -> Self:
        """A kind of input for the longest of the series: for a network that is trained on them.

        Raises:
            UserError: if the series have different numbers of channels.
        """
        some = [_as_read(each, alone=True) for each in sources[:: max(1, len(sources) // SERIES_TO_READ)]]
        channels = {each.shape[1] for each in some} or {1}
        if len(channels) > 1:
            counts = " and ".join(map(str, sorted(channels)[:3]))
            raise UserError(f"All series must have the same number of channels. Found: {counts}")
        length = min(MOST_STEPS, max(map(len, some), default=MOST_STEPS))
        (channels,) = channels
        patch = 2 if length <= 64 else 4 if length <= 128 else 8
        return cls((patch * max(2, -(-length // patch)), channels), length)

    @classmethod
    def fits(cls, source: Any) -> bool:
        """Whether a source looks like a series: by its name alone, since an array of numbers may be a sound."""
        return isinstance(source, (str, os.PathLike)) and str(source).lower().endswith(SUFFIXES)

    def config_keys(self) -> dict[str, Any]:
        """The arguments other than the size, for config.json: dict of JSON types."""
        return {"length": self.length}

    def signature(self) -> dict[str, tuple[str, str]]:
        """The inputs of an exported model; B is the number of series."""
        channels = "" if self.size[1] == 1 else f", {self.size[1]}"
        return {"series": (f"float32 (B, {self.length}{channels})", "series of numbers in any unit, as they are")}

    def as_list(self, series: Any) -> tuple[list, bool]:
        """Converts series of any type into a list.

        An array with as many axes as one series of the model, or a list of numbers, is a single one.

        Returns:
            Pair of the list, and whether `series` was a single series.

        Raises:
            UserError: if it is neither a series nor an iterable.
        """
        if isinstance(series, (str, os.PathLike)):
            return [series], True
        shape = getattr(series, "shape", None)
        if shape is not None:
            alone = len(shape) == 1 or (len(shape) == 2 and shape[1] == self.size[1])
            return ([series], True) if alone else (list(series), False)
        if not isinstance(series, Iterable) or isinstance(series, (bytes, bytearray)):
            raise UserError(
                "Expected a series (array or list of numbers, name of a file), or a list of series. "
                f"Received: {type(series).__name__}"
            )
        items = list(series)
        alone = bool(items) and all(isinstance(each, (int, float)) for each in items)
        return ([items], True) if alone else (items, False)

    def read(self, series: Any) -> "np.ndarray":
        """Reads one series: float32 array (length, channels), normalised.

        Raises:
            UserError: if a file does not exist, is damaged or has several series, there is anything but finite numbers,
                or the series has another number of channels than the network.
        """
        return self._fitted(_as_read(series, self.length, self.size[1]), _name_of(series))

    def parts(self, name: str) -> list[str]:
        """The series of a file as names that `read` takes: "FILE:1", "FILE:2" ...; [name] if it has one."""
        if not _is_file_name(name) or PART.fullmatch(name) and not Path(name).exists():
            return [name]
        rows = _rows_of(name, self.length, self.size[1])
        return [name] if len(rows) == 1 else [f"{name}:{number}" for number in range(1, len(rows) + 1)]

    def check_file(self, number: int, path: str) -> None:
        """Raises UserError unless it is a series that can be read. `number` is unused."""
        self.read(path)

    def from_json(self, item: list) -> "np.ndarray":
        """Reads a series of a request; see `read`."""
        from keras_attention.data.series.series_files import as_series

        return self._fitted(as_series(item, "A series"), "A series")

    def file_as_json(self, path: Path) -> list:
        """The series in a file as an item of a request: list of numbers, or of lists of numbers."""
        values = self.read(path).astype("float64").round(6)
        return (values[:, 0] if self.size[1] == 1 else values).tolist()

    def arrays(self, value: "np.ndarray") -> dict[str, "np.ndarray"]:
        """What the network reads of a series that `read` has returned: `values`, float32 (steps, channels)."""
        return {"values": stretched(value, self.size[0]).astype("float32")}

    def drawn(self, value: "np.ndarray") -> "np.ndarray":
        """The numbers (length, channels) of a series that `read` has returned."""
        return value

    def features(self, values: Any) -> Any:
        """What a simple model reads of values (B, steps, channels): tensor (B, D), the means of parts of the steps."""
        from keras import ops

        steps, channels = self.size
        each = -(-steps // MOST_FEATURES)
        count = steps // each
        values = ops.reshape(values[:, : count * each], (-1, count, each, channels))
        return ops.reshape(ops.mean(values, axis=2), (-1, count * channels))

    def augmented(self, arrays: dict[str, "np.ndarray"], numbers: "np.ndarray", flip: bool) -> dict[str, "np.ndarray"]:
        """`arrays` of a series for training: moved and stretched in time at random. `flip` is for pictures."""
        from keras_attention.data.augmentation import Warp, warped

        return {"values": warped(arrays["values"][:, None], numbers, Warp(SHIFT, SCALE))[:, 0]}

    def example_arrays(self, length: int = 1) -> dict[str, "np.ndarray"]:
        """`arrays` of a flat series, to compile a network; `length` is unused, because no axis varies."""
        import numpy as np

        return {"values": np.zeros(self.size, "float32")}

    def exported_arrays(self) -> dict[str, "np.ndarray"]:
        """One input of an exported model, by the names of `signature`."""
        import numpy as np

        return {"series": np.zeros((self.length, *self.size[1:]) if self.size[1] > 1 else self.length, "float32")}

    def from_exported(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """What the network reads, tensors (B, ...), from the inputs of an exported model, in a TensorFlow graph."""
        import numpy as np
        import tensorflow as tf
        from keras import ops

        series = tf.debugging.check_numerics(inputs["series"], "Expected: finite numbers")
        series = ops.reshape(series, (-1, self.length, self.size[1]))
        largest = ops.max(ops.abs(series), axis=1, keepdims=True)
        series = series / ops.maximum(largest, 1e-30)
        series = series - ops.mean(series, axis=1, keepdims=True)
        deviation = ops.sqrt(ops.mean(ops.square(series), axis=1, keepdims=True))
        series = ops.where(deviation > 1e-6, series / ops.maximum(deviation, 1e-6), 0.0)
        matrix = stretched(np.eye(self.length), self.size[0]).astype("float32")  # (steps, length)
        return {"values": ops.einsum("tl,blc->btc", ops.convert_to_tensor(matrix), series)}

    def write_example(self, value: "np.ndarray", path: Path) -> None:
        """Writes a series that `read` has returned as CSV: one row, or one column for each channel."""
        rows = value.T if self.size[1] == 1 else value
        lines = [",".join(f"{number:.9g}" for number in row) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="ascii")

    def _fitted(self, series, name):
        """The normalised series (length, channels) of one (steps, channels)."""
        if len(series) < 2:
            raise UserError(f"{name} has one step. Expected: at least 2.")
        if series.shape[1] != self.size[1]:
            raise UserError(f"{name} has {series.shape[1]} channels. This model reads {self.size[1]}.")
        return normalised(stretched(series, self.length)).astype("float32")


def normalised(series: "np.ndarray") -> "np.ndarray":
    """Each channel of a series (steps, channels) with mean 0 and variance 1, or 0 if it is constant; float64."""
    import numpy as np

    series = series / np.maximum(np.abs(series).max(axis=0), 1e-300)
    series = series - series.mean(axis=0)
    deviation = series.std(axis=0)
    return np.where(deviation > FLAT, series / np.maximum(deviation, FLAT), 0.0)


def stretched(series: "np.ndarray", length: int) -> "np.ndarray":
    """A series (steps, channels) with `length` steps: interpolated, or, if it is longer, means of parts; float64."""
    import numpy as np

    steps = len(series)
    if steps == length:
        return np.asarray(series, "float64")
    if steps < length:
        places, known = np.linspace(0, steps - 1, length), np.arange(steps)
        return np.stack([np.interp(places, known, channel) for channel in series.T], axis=1)
    sums = np.concatenate([np.zeros((1, series.shape[1])), np.cumsum(series, axis=0, dtype="float64")])
    edges, known = np.linspace(0, steps, length + 1), np.arange(steps + 1)
    resampled = np.stack([np.interp(edges, known, channel) for channel in sums.T], axis=1)
    return np.diff(resampled, axis=0) * (length / steps)


def _is_file_name(text):
    """Whether a text is the name of a file, or of a part of one."""
    match = PART.fullmatch(text)
    name = Path(match[1] if match else text)
    return name.name.lower().endswith(SUFFIXES) or name.suffix.lower() in (".gz", ".xz")


def _name_of(series):
    return str(series) if isinstance(series, (str, os.PathLike)) and len(str(series)) < 200 else "The series"


def _as_read(series, length=0, channels=1, alone=False):
    """A series in any form as float64 array (steps, channels), as it is. `alone`: a file has one series."""
    import numpy as np

    if not isinstance(series, (str, os.PathLike)):
        from keras_attention.data.series.series_files import as_series

        return as_series(series, "The series")
    text = str(series)
    if isinstance(series, str) and not _is_file_name(text) and not os.path.exists(text[:4096]):
        from keras_attention.data.series.series_files import numbers_of

        return numbers_of(text, "A series")
    part = None if Path(text).exists() else PART.fullmatch(text)
    rows = _rows_of(part[1] if part else text, length, channels)
    if part is None and len(rows) > 1 and alone and len({len(each) for each in rows}) == 1:
        return np.concatenate(rows, axis=1).T  # a table with a column for each channel
    if part is None and len(rows) > 1:
        raise UserError(f"{text} has {len(rows):,} series. Name one of them, such as {text}:1")
    if part is None:
        return rows[0]
    if int(part[2]) > len(rows):
        raise UserError(f"{part[1]} has {len(rows):,} series. Received: {quoted(text)}")
    return rows[int(part[2]) - 1]


def _rows_of(name, length, channels):
    """The series of a file: list of float64 arrays (steps, channels)."""
    try:
        about = os.stat(name)
    except (OSError, ValueError) as error:
        raise UserError(f"{name}: {getattr(error, 'strerror', None) or error}.") from error
    return _known_rows(str(name), (about.st_mtime_ns, about.st_size), length, channels)


@lru_cache(maxsize=2)
def _known_rows(name, _, length, channels):
    """See `_rows_of`; the last files are kept, because each of their series is asked for alone."""
    import numpy as np

    from keras_attention.data.series.series_files import read_series

    series = read_series(name, labelled=False, steps=length, channels=channels).series
    of_numbers = all(each.shape[1] == 1 for each in series)
    if channels > 1 and of_numbers and all(len(each) == channels for each in series):
        return [np.concatenate(series, axis=1).T]  # a table with a column for each channel
    if len(series) > 2 and of_numbers and max(map(len, series)) == 1:
        return [np.concatenate(series)]
    return series
