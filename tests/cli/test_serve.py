"""What `keras-attention serve` refuses before it loads anything; tests/serving has servers that run."""

import importlib.util
import socket


def test_what_cannot_be_served(complains, monkeypatch):
    assert "no model 'tyni'" in complains("serve", "--model", "tyni")
    assert "power of two. Received: max_batch=3" in complains("serve", "--max-batch", "3")
    assert "concurrency=0" in complains("serve", "--concurrency", "0")
    assert "Received: 70000" in complains("serve", "--port", "70000")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use. Choose others" in complains("serve", "--port", taken.getsockname()[1])
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else find(name))
    assert "needs fastapi: pip install 'keras-attention[serve]'" in complains("serve")
