"""The tool that stores trained models in 8 bits."""

import runpy
from pathlib import Path

import pytest
from zoo.tiny_bert import tiny_mask_filler, write_tiny

from keras_attention.errors import UserError
from keras_attention.zoo.entry import read_entry

TOOL = Path(__file__).parents[1] / "recipes" / "tools" / "store_in_8_bits.py"


@pytest.mark.parametrize("changed", [False, True])
def test_stores_what_answers_the_same(tmp_path, changed):
    filler, source = tiny_mask_filler(), "a [MASK] runs"
    (output,) = filler.answers([source])
    examples = [{"source": source, "output": "otherwise" if changed else output}]
    before = write_tiny(tmp_path / "tiny", filler.model, examples)
    store = runpy.run_path(str(TOOL))["store"]
    if changed:
        with pytest.raises(UserError, match="would answer differently, so it is unchanged: example"):
            store(tmp_path / "tiny")
        assert read_entry(tmp_path / "tiny") == before
    else:
        assert store(tmp_path / "tiny")[0] == before.bytes
        after = read_entry(tmp_path / "tiny")
        assert after.config == {**before.config, "weights_dtype": "int8"}
        assert (after.metrics, after.card) == (before.metrics, before.card)
