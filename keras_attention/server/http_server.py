"""Runs the HTTP server until it is stopped; slow or oversized request lines are refused."""

import json
import signal
import socket
import sys
import warnings

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from keras_attention.errors import UserError
from keras_attention.server.app import PATHS, make_app
from keras_attention.server.served_models import load_models
from keras_attention.server.server import Server
from keras_attention.server.server_metrics import ServerMetrics

MAX_HEAD_BYTES = 65_536


def guarded_protocol(seconds):
    """uvicorn's protocol with a limit on the time and the size of request line and headers; its errors are JSON.

    Args:
        seconds: float, for the headers.

    Returns:
        A class for uvicorn's option `http`.
    """

    class GuardedProtocol(HttpToolsProtocol):
        _timer, _head_bytes = None, 0

        def connection_made(self, transport):
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc):
            self._head_is_here()
            super().connection_lost(exc)

        def data_received(self, data):
            super().data_received(data)
            self._head_bytes += len(data)
            if self._timer and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(431, f"The headers have more than {MAX_HEAD_BYTES:,} bytes.")

        def on_message_begin(self):
            super().on_message_begin()
            self._expect_head()

        def on_headers_complete(self):
            self._head_is_here()
            super().on_headers_complete()

        def send_400_response(self, msg):
            self._refuse(400, msg)

        def _expect_head(self):
            self._head_is_here()
            self._head_bytes = 0
            self._timer = self.loop.call_later(seconds, self._too_late)

        def _head_is_here(self):
            if self._timer:
                self._timer.cancel()
                self._timer = None

        def _too_late(self):
            if not self.transport.is_closing():
                self._refuse(408, f"The headers did not arrive within {seconds:g} seconds.")

        def _refuse(self, status, message):
            body = json.dumps({"error": message}).encode()
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
            self.transport.close()

    return GuardedProtocol


BACKLOG = 2048
# How long a connection stays open between requests: longer than clients keep one, or a request meets its closing.
KEEP_ALIVE_SECONDS = 75
# How long a thread may keep Python to itself while others want it: /health must not wait behind dozens of answers.
SWITCH_SECONDS = 0.0005


def bind(host, port):
    """A socket at that address, not listening yet.

    Args:
        host: str, a name or an address of this machine.
        port: int; 0 takes any that is free.

    Raises:
        UserError: if the address cannot be had.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"A port is a number from 0 to 65535. Received: {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise UserError(f"{host}, port {port} cannot be used: {error}. Choose others with --host and --port.") from None
    return bound


def serve(names, settings, bound, say):
    """Loads models and answers requests until SIGTERM or SIGINT; what was accepted by then is finished.

    Args:
        names: list of str, models by name or folder.
        settings: ServerSettings.
        bound: socket, see `bind`.
        say: callable (list of str, str), told the names of the models and the URL as soon as one can connect.

    Returns:
        Dict from path to int, the requests that were answered.

    Raises:
        UserError: see `load_models`.
    """
    metrics = ServerMetrics(PATHS)
    models = load_models(names, settings, metrics.computed)
    warnings.simplefilter("ignore", UserWarning)  # of texts that were cut: the answers tell it
    server = Server(models, settings, metrics)
    config = uvicorn.Config(
        make_app(server),
        http=guarded_protocol(settings.seconds),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(2 * settings.seconds) + 1,
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    bound.listen(BACKLOG)
    host, port = bound.getsockname()[:2]
    say(list(models), f"http://{f'[{host}]' if ':' in host else host}:{port}")
    # uvicorn stops at the signal, and raises it once more when all is done.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.Server(config).run(sockets=[bound])
    return metrics.answers_by_path()
