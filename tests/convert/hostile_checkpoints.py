"""Checkpoints that a stranger could send: copies of a sound one with another header, or other fields."""

import struct

from convert.tiny_checkpoints import changed_header, safetensors_bytes, tiny_tensors, write_checkpoint

BIAS = "cls.predictions.bias"


def header_of(text):
    """The bytes of a file that begins with this header."""
    return struct.pack("<Q", len(text)) + text


def facts(**values):
    return changed_header(lambda header: header[BIAS].update(values))


# What stands in model.safetensors, or a dict of fields of config.json.
CHECKPOINTS = {
    "an empty file": b"",
    "a cut length": b"\x10\0\0",
    "a header longer than the file": struct.pack("<Q", 2**62) + b"{}",
    "a negative length": struct.pack("<q", -1) + b"{}",
    "a header that is a list": header_of(b"[]"),
    "a header that is no JSON": header_of(b"{x"),
    "a deep header": header_of(b'{"a":' * 100_000),
    "a header in Latin-1": header_of(b'{"\xff": 1}'),
    "a header of 2 MB": header_of(b'{"a": [' + b"[]," * 690_000 + b"[]]}"),
    "a header of 9 MB": header_of(b'{"a": [' + b"[]," * 3_000_000 + b"[]]}"),
    "bytes behind": safetensors_bytes(tiny_tensors()) + b"0",
    "bytes missing": safetensors_bytes(tiny_tensors())[:-1],
    "a shape of an exabyte": facts(shape=[2**60, 2**60]),
    "a negative shape": facts(shape=[-17]),
    "a shape of no whole numbers": facts(shape=[17.0]),
    "a shape of true": facts(shape=[True]),
    "a text as shape": facts(shape="17"),
    "a million axes": facts(shape=[1] * 1_000_000),
    "an unknown dtype": facts(dtype="F8_E5M2"),
    "a list as dtype": facts(dtype=["F32"]),
    "overlapping tensors": facts(data_offsets=[0, 68]),
    "a place outside the file": facts(data_offsets=[2**62, 2**62 + 68]),
    "a place that runs backwards": facts(data_offsets=[68, 0]),
    "one more fact": facts(code="eval"),
    "absurd hidden size": {"hidden_size": 10**9},
    "absurd vocabulary": {"vocab_size": 10**6},
    "half a layer": {"num_hidden_layers": 1.5},
    "negative heads": {"num_attention_heads": -2},
    "a configuration of 2 MB": {"pruned_heads": [[]] * 500_000},
    "a configuration of 12 MB": {"pruned_heads": [[]] * 3_000_000},
    "code of its own": {"model_type": "custom", "auto_map": {"AutoModel": "modeling.Model"}},
}


def write_hostile_checkpoint(name, folder):
    """Writes the checkpoint called `name`."""
    change = CHECKPOINTS[name]
    if isinstance(change, dict):
        return write_checkpoint(folder, **change)
    write_checkpoint(folder)
    (folder / "model.safetensors").write_bytes(change)
    return folder
