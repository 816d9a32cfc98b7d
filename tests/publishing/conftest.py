"""A hub on this machine to push to, with empty caches and a token that may write."""

import pytest
from convert.fake_hub import running_hub, use
from huggingface_hub import constants

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A FakeHub that takes uploads with TOKEN, which is in HF_TOKEN."""
    monkeypatch.setenv("KERAS_ATTENTION_CACHE", str(tmp_path / "ours"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "theirs"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # a store of its own, which the fake hub lacks
    monkeypatch.setattr("time.sleep", lambda _: None)  # before it tries again
    with running_hub() as fake:
        fake.writers.add(TOKEN)
        use(fake.endpoint, monkeypatch)
        yield fake
