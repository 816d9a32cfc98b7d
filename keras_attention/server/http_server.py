"""Runs the HTTP server until it is stopped, with limits on time and size of the request headers."""

import json
import signal
import socket
import sys
import warnings

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from keras_attention.errors import UserError
from keras_attention.server.app import make_app, paths
from keras_attention.server.gate import CLIENT_IS_GONE, ServerMetrics
from keras_attention.server.server import Server, load_models

MAX_HEAD_BYTES = 65_536


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the time and the size of request line and headers, and on unread answers.

    Its errors are JSON. A client that disconnects is not an error: the application can check for it with the function
    `CLIENT_IS_GONE` in `scope["extensions"]`.
    """

    seconds = 10.0
    _timer, _head_bytes = None, 0
    _write_timer, _unread_bytes = None, 0
    _answering = None  # the first of the pipelined requests; uvicorn's `cycle` is the last

    def connection_made(self, transport):
        super().connection_made(transport)
        self._expect_head()
        self._write_timer = self.loop.call_later(self.seconds, self._look_at_writing)

    def connection_lost(self, exc):
        self._head_is_here()
        self._write_timer.cancel()
        if self._answering and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle, app):
        self._answering = cycle
        cycle.scope["extensions"] = {CLIENT_IS_GONE: lambda: cycle.disconnected}
        super()._start_asgi_task(cycle, app)

    def resume_writing(self):
        self._unread_bytes = 0  # the client has read
        super().resume_writing()

    def _look_at_writing(self):
        """Disconnects a client that has read nothing of its pending answer since the last check."""
        unread = self.transport.get_write_buffer_size()
        if 0 < self._unread_bytes <= unread:
            self.transport.abort()
            return
        self._unread_bytes = unread
        self._write_timer = self.loop.call_later(self.seconds, self._look_at_writing)

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
        self._timer = self.loop.call_later(self.seconds, self._too_late)

    def _head_is_here(self):
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _too_late(self):
        if not self.transport.is_closing():
            self._refuse(408, f"The headers did not arrive within {self.seconds:g} seconds.")

    def _refuse(self, status, message):
        body = json.dumps({"error": message}).encode()
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


def guarded_protocol(seconds):
    """The GuardedProtocol, for uvicorn's option `http`.

    Args:
        seconds: float, time limit for receiving the headers, and for the client to read a part of a pending answer.
    """
    return type("GuardedProtocol", (GuardedProtocol,), {"seconds": seconds})


BACKLOG = 2048
# Seconds that an idle connection stays open: longer than clients keep theirs, so that none is closed during a request.
KEEP_ALIVE_SECONDS = 75
# Seconds after which Python switches threads: /health must not wait for dozens of answers.
SWITCH_SECONDS = 0.0005


def bind(host, port):
    """A socket bound to the address, not yet listening.

    Args:
        host: str, a name or an address of this machine.
        port: int; 0 chooses a free port.

    Raises:
        UserError: if the address is not available.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"A port is a number from 0 to 65535. Received: {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:  # UnicodeError: no valid host name
        raise UserError(f"{host}, port {port} cannot be used: {error}. Choose others with --host and --port.") from None
    return bound


def serve(names, settings, bound, say, tell):
    """Loads models and answers requests until SIGTERM or SIGINT, then finishes the accepted requests.

    Args:
        names: list of str, models by name or folder.
        settings: ServerSettings.
        bound: socket, see `bind`.
        say: callable (list of str, str), called with the model names and the URL as soon as clients can connect.
        tell: callable (str), called with a message for each model that becomes ready.

    Returns:
        Dict from path to int, the requests that were answered.

    Raises:
        UserError: see `load_models`.
    """
    metrics = ServerMetrics(paths())
    models = load_models(names, settings, metrics.computed)
    warnings.simplefilter("ignore", UserWarning)  # about truncated texts: the answers report them
    server = Server(models, settings, metrics, tell)
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
    # uvicorn stops at the signal and raises it again afterwards.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.Server(config).run(sockets=[bound])
    return metrics.answers_by_path()
