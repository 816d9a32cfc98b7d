"""A tiny checkpoint as `transformers` 5.23 saved it (BertForPreTraining, random weights), and changed copies of it."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np

TINY_BERT = Path(__file__).parent / "tiny_bert"
TEXT = [2, 5, 13, 4, 3, 7, 11, 3]
SEGMENTS = [0, 0, 0, 0, 0, 1, 1, 1]


def tiny_config():
    return json.loads((TINY_BERT / "config.json").read_text())


def tiny_tensors():
    """The tensors of the tiny checkpoint by name, in float32."""
    content = (TINY_BERT / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    del header["__metadata__"]
    return {
        name: np.frombuffer(content[8 + length :][slice(*facts["data_offsets"])], "<f4").reshape(facts["shape"])
        for name, facts in header.items()
    }


def safetensors_bytes(tensors):
    """What a file with these tensors holds; uint16 stands for bfloat16."""
    codes = {"float32": "F32", "float16": "F16", "uint16": "BF16", "int64": "I64"}
    header, data = {}, b""
    for name, values in tensors.items():
        place = [len(data), len(data) + values.nbytes]
        header[name] = {"dtype": codes[values.dtype.name], "shape": list(values.shape), "data_offsets": place}
        data += values.tobytes()
    header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def changed_header(change):
    """What the tiny file holds, with a header that `change` worked on."""
    content = safetensors_bytes(tiny_tensors())
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    change(header)
    changed = json.dumps(header).encode()
    return struct.pack("<Q", len(changed)) + changed + content[8 + length :]


def write_checkpoint(folder, tensors=None, tokenizer=None, **config):
    """A copy of the tiny checkpoint with other tensors and other fields; None takes a field away."""
    shutil.copytree(TINY_BERT, folder, dirs_exist_ok=True)
    config = {**tiny_config(), **config}
    kept = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))
    if tensors is not None:
        (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    if tokenizer is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


def inputs(segments=True):
    """`TEXT` for one of our models, with padding behind it."""
    texts = {"token_ids": np.array([[*TEXT, 0, 0]])}
    return {**texts, "segment_ids": np.array([[*SEGMENTS, 0, 0]])} if segments else texts
