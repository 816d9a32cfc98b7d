"""Reads model.safetensors: a JSON header, then raw numbers."""

import math
import struct

import numpy as np

from keras_attention.errors import UserError
from keras_attention.strict_json import parse_json

MAX_HEADER_BYTES = 2 * 1024 * 1024
MAX_AXES = 8
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
READABLE = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class SafetensorsFile:
    """The tensors of a safetensors file, after checking the header against the file size.

    Args:
        path: Path.

    Attributes:
        shapes: dict from the name of each tensor to its shape, a tuple.

    Raises:
        UserError: if the header is invalid or does not match the size of the file.

    Source: https://huggingface.co/docs/safetensors, "Format".
    """

    def __init__(self, path):
        self.path = path
        try:
            size = path.stat().st_size
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))
                if length > min(MAX_HEADER_BYTES, size - 8):
                    raise UserError(f"{path} is damaged: {size} bytes cannot begin with a header of {length}.")
                header = parse_json(file.read(length))
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from error
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{path} is damaged: its header is not JSON: {error}") from error
        if not isinstance(header, dict):
            raise UserError(f"{path} is damaged: its header is not a JSON object.")
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise UserError(f"{path} is damaged: its __metadata__ must map texts to texts.")
        self._start = 8 + length
        self._facts = {name: self._checked(name, facts) for name, facts in header.items()}
        self._check_no_gaps(size - self._start)
        self.shapes = {name: shape for name, (_, shape, _) in self._facts.items()}

    def read(self, name):
        """Returns a tensor as a float32 array.

        Raises:
            UserError: see `check_readable`.
        """
        self.check_readable([name])
        dtype, shape, (begin, _) = self._facts[name]
        values = np.fromfile(self.path, READABLE[dtype], math.prod(shape), offset=self._start + begin)
        if dtype == "BF16":  # the upper half of a float32
            values = (values.astype("uint32") << 16).view("float32")
        return values.astype("float32", copy=False).reshape(shape)

    def check_readable(self, names):
        """Raises UserError for the first of these tensors that is not float32, float16 or bfloat16."""
        for name in names:
            dtype = self._facts[name][0]
            if dtype not in READABLE:
                raise UserError(f"{self.path}: {name:.80} has dtype {dtype}. Supported: {', '.join(READABLE)}")

    def _checked(self, name, facts):
        """dtype, shape and byte range of a tensor, from the header."""
        sound = isinstance(facts, dict) and set(facts) == {"dtype", "shape", "data_offsets"}
        sound = sound and isinstance(facts["dtype"], str)
        sound = sound and _naturals(facts["shape"]) and len(facts["shape"]) <= MAX_AXES
        sound = sound and _naturals(facts["data_offsets"]) and len(facts["data_offsets"]) == 2
        if not sound:
            raise UserError(
                f"{self.path} is damaged: its header has no valid dtype, shape and byte range for {name!r:.80}."
            )
        if facts["dtype"] not in ITEM_BYTES:
            raise UserError(f"{self.path}: {name:.80} has dtype {facts['dtype']:.80}. Supported: {', '.join(READABLE)}")
        begin, end = facts["data_offsets"]
        if end - begin != math.prod(facts["shape"]) * ITEM_BYTES[facts["dtype"]]:
            found = f"{str(end - begin):.80} bytes for the shape {facts['shape']!s:.80}"
            raise UserError(f"{self.path} is damaged: {name:.80} has {found}.")
        return facts["dtype"], tuple(facts["shape"]), (begin, end)

    def _check_no_gaps(self, size):
        """Checks that the tensors are contiguous and fill the file."""
        position = 0
        for begin, end in sorted(place for _, _, place in self._facts.values()):
            if begin != position:
                raise UserError(
                    f"{self.path} is damaged: a tensor begins at byte {str(begin):.80}. Expected: {position}"
                )
            position = end
        if position != size:
            raise UserError(f"{self.path} is damaged: its tensors have {str(position):.80} bytes, the file {size}.")


def tensor_file(folder):
    """The path of model.safetensors in a folder; raises UserError if the weights are in other files."""
    path = folder / "model.safetensors"
    if path.is_file():
        return path
    if (folder / f"{path.name}.index.json").is_file():
        raise UserError(f"{folder} has its tensors in several files. Save the model again as one model.safetensors.")
    if (folder / "pytorch_model.bin").is_file():
        raise UserError(
            f"{folder} has only pytorch_model.bin, a format that can run code. Save the model as model.safetensors."
        )
    raise UserError(f"{folder} lacks model.safetensors.")


def _naturals(value):
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)
