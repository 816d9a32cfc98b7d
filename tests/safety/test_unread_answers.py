"""Clients that do not read their answers: no traceback, no error of the server, and no place taken for long."""

import asyncio
import logging
import socket
import threading
import time

import pytest
import uvicorn

from keras_attention.server import ServerSettings
from keras_attention.server.gate import Gate
from keras_attention.server.guarded_protocol import guarded_protocol
from keras_attention.server.http_server import bind
from keras_attention.server.metrics import ServerMetrics
from keras_attention.server.workers import Workers

SECONDS = 0.3
ANSWER = b"x" * 1_000_003
REQUEST = b"GET /%s HTTP/1.1\r\nhost: x\r\n\r\n"


class ServerInThread:
    def __init__(self, loop):
        self.metrics, self.log = ServerMetrics(["/big", "/late"]), []
        self.bound = bind("127.0.0.1", 0)
        gate = Gate(self._app, ServerSettings(seconds=SECONDS), self.metrics, Workers(3, SECONDS))
        config = uvicorn.Config(gate, http=guarded_protocol(SECONDS), lifespan="off", log_level="warning", loop=loop)
        handler = logging.Handler()
        handler.emit = lambda record: self.log.append(record.getMessage())
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).addHandler(handler)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.bound]})
        self.address = self.bound.getsockname()
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    async def _app(self, scope, receive, send):
        await receive()
        if scope["path"] == "/late":
            await asyncio.sleep(SECONDS)
        length = [(b"content-length", b"%d" % len(ANSWER))]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": ANSWER})

    def connections(self):
        return len(self.server.server_state.connections)

    def count(self, status):
        samples = self.metrics.text().decode().splitlines()
        return sum(
            float(line.split()[-1])
            for line in samples
            if line.startswith("requests_total") and f'status="{status}"' in line
        )


@pytest.fixture(params=["asyncio", "uvloop"])
def served(request):
    pytest.importorskip(request.param)
    served = ServerInThread(request.param)
    yield served
    served.server.should_exit = True
    served.thread.join(timeout=20)
    assert not served.thread.is_alive()
    assert served.log == []


def wait_for(condition, seconds=20):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds
        time.sleep(0.01)
    return time.monotonic() - began


@pytest.mark.parametrize("path", [b"big", b"late"])
def test_twenty_pipelined_requests_and_a_close(served, path):
    with socket.create_connection(served.address) as client:
        client.sendall((REQUEST % path) * 20)
        time.sleep(SECONDS / 3)
    wait_for(lambda: not served.connections())
    wait_for(lambda: served.count(499))
    assert served.count(500) == 0
    assert "requests_in_progress 0.0" in served.metrics.text().decode()


def test_answers_of_disconnected_clients_are_abandoned(served):
    clients = [socket.create_connection(served.address) for _ in range(5)]
    for client in clients:
        client.sendall((REQUEST % b"big") * 20)
    wait_for(lambda: served.connections() == 5)
    assert wait_for(lambda: not served.connections()) < 10 * SECONDS + 1
    assert served.count(500) == 0
    for client in clients:
        client.close()


def test_a_client_that_reads_slowly_gets_all(served):
    with socket.create_connection(served.address) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.sendall((REQUEST % b"big") * 2)
        received = 0
        while received < 2 * len(ANSWER):
            part = client.recv(200_000)
            assert part
            received += len(part)
            time.sleep(SECONDS / 6)
    wait_for(lambda: not served.connections())
    assert served.count(200) == 2
