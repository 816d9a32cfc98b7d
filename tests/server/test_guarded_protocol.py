"""Versions of uvicorn that the guarded protocol does not know; tests/server/test_gate.py tests the protocol itself."""

import importlib.util
import sys
import threading
import time
from urllib.request import urlopen

import pytest
import uvicorn

from keras_attention.server import guarded_protocol as own_file
from keras_attention.server.http_server import bind


def imported_again():
    spec = importlib.util.spec_from_file_location("guarded_protocol_again", own_file.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["another version", "no such module"])
def module(request, monkeypatch):
    if request.param == "another version":
        monkeypatch.setattr(uvicorn, "__version__", "0.61.3")
        return own_file
    monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
    return imported_again()


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_this_version_is_guarded():
    messages = []
    protocol = own_file.guarded_protocol(0.7, messages.append)
    assert issubclass(protocol, own_file.GuardedProtocol)
    assert (protocol.seconds, messages) == (0.7, [])


def test_an_unknown_uvicorn_serves_without_limits_and_warns(module):
    messages = []
    protocol = module.guarded_protocol(0.3, messages.append)
    (warning,) = messages
    assert f"uvicorn {uvicorn.__version__} is not known here" in warning
    assert "pip install 'uvicorn==0.54.*'" in warning
    bound = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, http=protocol, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        assert urlopen("http://{}:{}".format(*bound.getsockname()), timeout=30).read() == b"ok"
    finally:
        server.should_exit = True
        thread.join()
