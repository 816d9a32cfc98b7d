"""A hub on this machine, with empty caches."""

import pytest
from convert.fake_hub import running_hub, use
from convert.tiny_checkpoints import TINY_BERT
from huggingface_hub import constants


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Empty caches, ours and that of huggingface_hub."""
    monkeypatch.setenv("KERAS_ATTENTION_CACHE", str(tmp_path / "ours"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "theirs"))
    return tmp_path


@pytest.fixture
def server(caches, monkeypatch):
    """A FakeHub that huggingface_hub asks."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # before it tries again
    with running_hub() as fake:
        fake.publish(
            TINY_BERT, files={"pytorch_model.bin": b"\x80", "README.md": b"# Tiny", "modeling.py": b"import os"}
        )
        use(fake.endpoint, monkeypatch)
        yield fake
