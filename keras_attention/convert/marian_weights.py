"""The weights of a Marian checkpoint, from model.safetensors or tf_model.h5, in the layout of our Transformer."""

import re

import h5py
import numpy as np

from keras_attention.convert.published_settings import MAX_LENGTH, MAX_WEIGHTS
from keras_attention.convert.published_weights import SafetensorsFile, check_shapes, tensor_file
from keras_attention.support.errors import UserError, quoted

SHARED, BIAS = "model.shared.weight", "final_logits_bias"
# Copies of the shared embeddings, and the tables of positions, which are sinusoids.
COPIES = ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
SINUSOID_TOLERANCE = 1e-3
# Our parts of a layer to Marian's.
PARTS = {
    "self_attention/query": "self_attn.q_proj",
    "self_attention/key": "self_attn.k_proj",
    "self_attention/value": "self_attn.v_proj",
    "self_attention/attention_output": "self_attn.out_proj",
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention/query": "encoder_attn.q_proj",
    "cross_attention/key": "encoder_attn.k_proj",
    "cross_attention/value": "encoder_attn.v_proj",
    "cross_attention/attention_output": "encoder_attn.out_proj",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward/intermediate_dense": "fc1",
    "feed_forward/output_dense": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
LEAVES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
READ = ("query", "key", "value", "intermediate_dense")  # kernels whose inputs have the width of the layers
WRITE = ("attention_output", "output_dense")  # kernels whose outputs have it


class MarianTensors:
    """The tensors of a checkpoint, after checking names, shapes and types against the configuration.

    Marian's position vectors have all sines before all cosines, where Vaswani et al. alternate them. The vectors of our
    model are therefore permuted: ours at 2 i is Marian's at i, ours at 2 i + 1 is Marian's at D / 2 + i. Every kernel,
    bias, norm and embedding that reads or writes such vectors is permuted with them, so that the logits stay the same.

    Args:
        folder: Path.
        fields: Fields of config.json.
        settings: dict, the arguments of `Transformer`, with the vocabulary of Marian.

    Raises:
        UserError: names the file or tensor that is missing, damaged or not supported.
    """

    def __init__(self, folder, fields, settings):
        self._file = _weights_file(folder)
        self.path = self._file.path
        self._settings, self._width = settings, settings["hidden_dim"]
        self._order = np.arange(self._width).reshape(2, -1).T.ravel()  # 0, D / 2, 1, D / 2 + 1 ...
        self._scaled = settings["tie_embeddings"] == "all"
        self._names = self._without_copies()
        shapes = {name: self._file.shapes[stored] for name, stored in self._names.items()}
        check_shapes(self.path, shapes, self._shapes())
        self._file.check_readable(self._names.values())

    def values(self, path, order):
        """The float32 array of our weight at `path`; `order` has the ids of Marian in the order of ours."""
        if path == "output_bias":
            return self._read(BIAS)[0, order] if BIAS in self._names else np.zeros(len(order), "float32")
        if path.endswith("_embedding/embeddings"):
            table = self._read(SHARED)[np.ix_(order, self._order)]
            return table if self._scaled else table / self._width**0.5  # our model multiplies them by this number
        if path == "output_projection/kernel":
            return self._read(SHARED)[np.ix_(order, self._order)].T
        part, _, leaf = path.rpartition("/")
        layer, _, rest = part.partition("/")
        side, _, number = layer.partition("_")
        values = self._read(f"model.{side}.layers.{number}.{PARTS[rest]}.{LEAVES[leaf]}").T
        kind = rest.rpartition("/")[2]
        if leaf == "kernel":
            return values[self._order] if kind in READ else values[:, self._order]
        return values if kind in READ else values[self._order]

    def _read(self, name):
        return self._file.read(self._names[name])

    def _shapes(self):
        """The tensors that the file must have, with their shapes."""
        D, inner = self._width, self._settings["intermediate_dim"]
        shapes = {SHARED: (self._settings["target_vocabulary_size"], D)}
        if BIAS in self._names:  # transformers has zeros in its place
            shapes[BIAS] = (1, self._settings["target_vocabulary_size"])
        for side in ("encoder", "decoder"):
            for i in range(self._settings[f"num_{side}_layers"]):
                for ours, theirs in PARTS.items():
                    if ours.startswith("cross") and side == "encoder":
                        continue
                    name, kind = f"model.{side}.layers.{i}.{theirs}", ours.rpartition("/")[2]
                    outputs = inner if kind == "intermediate_dense" else D
                    matrix = (outputs, inner if kind == "output_dense" else D)
                    shapes[f"{name}.weight"] = (D,) if kind.endswith("norm") else matrix
                    shapes[f"{name}.bias"] = (outputs,)
        return shapes

    def _without_copies(self):
        """Dict from the names of transformers to those in the file, without copies and tables of positions."""
        names = {name: name for name in self._file.shapes}
        for copy in COPIES:
            if copy in names:
                stored = names.pop(copy)
                other = names.setdefault(SHARED, stored)
                if stored != other and not self._are_equal(stored, other):
                    raise UserError(f"{self.path}: {copy} differs from {other:.80}. Supported: models that share them")
        for name in POSITIONS:
            if name in names:
                self._check_positions(names.pop(name))
        return names

    def _are_equal(self, first, second):
        same_shape = self._file.shapes[first] == self._file.shapes[second]
        return same_shape and np.array_equal(self._file.read(first), self._file.read(second))

    def _check_positions(self, name):
        shape = self._file.shapes[name]
        sound = len(shape) == 2 and shape[1] == self._width and shape[0] <= MAX_LENGTH
        if not sound or np.abs(self._file.read(name) - sinusoids(*shape)).max(initial=0) > SINUSOID_TOLERANCE:
            raise UserError(f"{self.path}: {name} {shape!s:.80} differs from Marian's sinusoids. Supported: only these")


def sinusoids(length, width):
    """Marian's position vectors (length, width): sines in the first half, cosines in the second."""
    angles = np.arange(length)[:, None] * 10000.0 ** -(np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _weights_file(folder):
    """model.safetensors if there is one, otherwise tf_model.h5; raises UserError for one larger than MAX_WEIGHTS."""
    is_tensorflow = not (folder / "model.safetensors").is_file() and (folder / TensorflowFile.name).is_file()
    path = folder / TensorflowFile.name if is_tensorflow else tensor_file(folder)
    size = path.stat().st_size
    if size > MAX_WEIGHTS:
        raise UserError(f"{path} has {size:,} bytes. Supported: up to {MAX_WEIGHTS:,}")
    return TensorflowFile(path) if is_tensorflow else SafetensorsFile(path)


MAX_ITEMS = 20_000
FLOATS = ("float32", "float16")


class TensorflowFile:
    """The tensors of a tf_model.h5 of transformers, under the names and in the layout of model.safetensors.

    Args:
        path: Path.

    Attributes:
        path: as given.
        shapes: dict from the name of each tensor to its shape, a tuple.

    Raises:
        UserError: if the file is damaged, or has links to other files, or names that no Marian model has.
    """

    name = "tf_model.h5"

    def __init__(self, path):
        self.path = path
        self._places, self.shapes = {}, {}
        try:
            with h5py.File(path, "r") as file:
                self._find(file)
        except OSError as error:
            raise UserError(f"{path} is not a valid weights file: {error!s:.200}") from error

    def read(self, name):
        """Returns a tensor as a float32 array."""
        self.check_readable([name])
        try:
            with h5py.File(self.path, "r") as file:
                values = file[self._places[name][0]][()].astype("float32")
        except OSError as error:
            raise UserError(f"{self.path} is damaged: {name} cannot be read: {error!s:.200}") from error
        return values.T if values.ndim == 2 and self._places[name][0].endswith("/kernel:0") else values

    def check_readable(self, names):
        """Raises UserError for the first of these tensors that is not float32 or float16."""
        for name in names:
            dtype = self._places[name][1]
            if dtype not in FLOATS:
                raise UserError(f"{self.path}: {name:.80} has dtype {dtype:.80}. Supported: {', '.join(FLOATS)}")

    def _find(self, file):
        """Visits all groups, without following links to other files."""
        groups, items = [("", file)], 0
        while groups:
            prefix, group = groups.pop()
            for key in group:
                items += 1
                plain = isinstance(group.get(key, getlink=True), h5py.HardLink) and items <= MAX_ITEMS
                item = group[key] if plain else None
                if isinstance(item, h5py.Group):
                    groups.append((f"{prefix}{key}/", item))
                    continue
                if not isinstance(item, h5py.Dataset) or item.is_virtual or item.external:
                    raise UserError(f"{self.path}: {quoted(key)} is not a plain array or group.")
                self._add(f"{prefix}{key}", item)

    def _add(self, place, dataset):
        name = tensorflow_name(place)
        if name is None or name in self.shapes or dataset.shape is None:
            what = "twice the same tensor" if name in self.shapes else "a tensor that no Marian model has"
            raise UserError(f"{self.path} has {what}: {quoted(place)}")
        shape = dataset.shape[::-1] if place.endswith("/kernel:0") else dataset.shape
        self._places[name], self.shapes[name] = (place, str(dataset.dtype)), tuple(shape)


TENSORFLOW = re.compile(
    r"(?:\w+/)*(?P<side>encoder|decoder)/(?:layers\.(?P<number>\d{1,3})/(?P<part>[a-z_0-9/]+)|embed_positions)"
    r"/(?P<leaf>kernel|bias|gamma|beta|embeddings|weight):0"
)
TENSORFLOW_SHARED = re.compile(r"(?:[\w.]+/)*(?:model\.)?shared/(?:embeddings|weight):0")
TENSORFLOW_BIAS = re.compile(r"(?:\w+/)*final_logits_bias:0")


def tensorflow_name(place):
    """The name in model.safetensors of a dataset of tf_model.h5, or None if it has none."""
    if TENSORFLOW_SHARED.fullmatch(place):
        return SHARED
    if TENSORFLOW_BIAS.fullmatch(place):
        return BIAS
    match = TENSORFLOW.fullmatch(place)
    if match is None:
        return None
    if match["number"] is None:
        return f"model.{match['side']}.embed_positions.weight"
    leaf = LEAVES.get(match["leaf"], "weight")
    return f"model.{match['side']}.layers.{int(match['number'])}.{match['part'].replace('/', '.')}.{leaf}"
