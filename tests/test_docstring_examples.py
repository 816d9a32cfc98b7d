"""Every "Example:" in a docstring runs as it stands there."""

import ast
import importlib
import textwrap
from pathlib import Path

import numpy as np
import pytest

import keras_attention

PACKAGE = Path(__file__).parents[1] / "keras_attention"
WIDE = ("token_embeddings", "inputs", "sources", "targets")
IDS = ("token_ids", "source_ids", "target_ids")


def examples():
    """(file, the example's code) for each docstring with one."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                docstring = ast.get_docstring(node) or ""
                if "\nExample:\n" in docstring:
                    block = docstring.split("\nExample:\n")[1].split("\n\n")[0]
                    slow = [pytest.mark.slow] if "load(" in block else []  # a trained model answers
                    yield pytest.param(path, textwrap.dedent(block), id=f"{path.stem}-{node.name}", marks=slow)


@pytest.mark.parametrize(("path", "code"), examples())
def test_example(path, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    module = ".".join(["keras_attention", *path.relative_to(PACKAGE).with_suffix("").parts])
    names = {
        **vars(importlib.import_module(module.removesuffix(".__init__"))),
        "keras_attention": keras_attention,
        "Path": Path,
        "query": generator.normal(size=(2, 3, 11)).astype("float32"),
        "value": generator.normal(size=(2, 5, 7)).astype("float32"),
        "mask": np.ones((2, 1, 5), dtype=bool),
        **{name: generator.normal(size=(2, 5, 16)).astype("float32") for name in WIDE},
        **{name: generator.integers(0, 7, (2, 5)).astype("int32") for name in IDS},
        "clicks": {
            **{name: generator.integers(1, 3, (2, 5)).astype("int32") for name in ("item_ids", "answers", "ages")},
            "categories": generator.integers(0, 7, (2, 5, 3)).astype("int32"),
            "profile": generator.integers(0, 7, (2, 1)).astype("int32"),
        },
        "spectrograms": generator.uniform(-1, 1, size=(2, 12, 40)).astype("float32"),
        "images": generator.normal(size=(2, 8, 8, 1)).astype("float32"),
        "patches": generator.normal(size=(2, 49, 16)).astype("float32"),
    }
    assert len(code.splitlines()) <= 5
    exec(code, names)


def test_there_are_examples():
    assert len(list(examples())) >= 7
