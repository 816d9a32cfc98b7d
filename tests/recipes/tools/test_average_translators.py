"""The mean of the weights of several translators."""

import runpy
import sys
from pathlib import Path

import pytest
from zoo.tiny_entry import tiny_parts, write_tiny_entry

from keras_attention.publishing import alignment_heads
from keras_attention.zoo.entry import read_entry

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "average_translators.py"))


@pytest.mark.slow
def test_the_mean_gets_aligning_heads_of_its_own(tmp_path, monkeypatch):
    folders = [str(tmp_path / f"seed_{seed}") for seed in (1, 2)]
    for seed, folder in enumerate(folders, 1):
        write_tiny_entry(folder, tiny_parts(seed=seed))
    pairs = "".join(f"A dog runs {i}.\t2023-12-0{i % 10}\n" for i in range(30))
    (tmp_path / "pairs.tsv").write_text(pairs, encoding="utf-8")
    monkeypatch.setattr(alignment_heads, "alignment_heads", lambda translator, sources, targets: [[0, 0]])
    flags = ["--data", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "mean")]
    monkeypatch.setattr(sys, "argv", ["average_translators.py", *folders, *flags])
    TOOL["main"]()
    assert read_entry(tmp_path / "mean").config["alignment_heads"] == [[0, 0]]
