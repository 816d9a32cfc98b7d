"""uvicorn's HTTP protocol with limits on time and size of request headers, and on unread answers.

It extends a private class of uvicorn, the only one that this package uses, and only in the versions it was tested with.
"""

import json
import warnings

import uvicorn

from keras_attention.server.gate import CLIENT_IS_GONE

try:
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ImportError:  # in a later version; `guarded_protocol` then returns uvicorn's own protocol
    STATUS_LINE, HttpToolsProtocol = {}, object

TESTED_VERSIONS = ("0.54",)  # of uvicorn
MAX_HEAD_BYTES = 65_536
TOO_LONG = f"The headers have more than {MAX_HEAD_BYTES:,} bytes."
PART_BYTES = 4096  # of the received data that are parsed at a time


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the time and the size of request line and headers, and on unread answers.

    Its errors are JSON. A client that disconnects is not an error: the application can check for it with the function
    `CLIENT_IS_GONE` in `scope["extensions"]`.
    """

    seconds = 10.0
    _timer, _head_bytes, _begins_here = None, 0, False
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
        """Parses in parts, so that a head is never much longer than its limit, whatever else the data contains."""
        for start in range(0, len(data), PART_BYTES):
            if self.transport.is_closing():
                return
            part, self._begins_here = data[start : start + PART_BYTES], False
            super().data_received(part)
            if self._timer and not self._begins_here:
                self._head_bytes += len(part)
                if self._head_bytes > MAX_HEAD_BYTES:
                    self._refuse(431, TOO_LONG)

    def on_message_begin(self):
        super().on_message_begin()
        self._begins_here = True
        self._expect_head()

    def on_headers_complete(self):
        self._head_is_here()
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD_BYTES:
            self._refuse(431, TOO_LONG)
            raise ValueError(TOO_LONG)  # ends the parser
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
        self._refuse(408, f"The headers did not arrive within {self.seconds:g} seconds.")

    def _refuse(self, status, message):
        if self.transport.is_closing():
            return
        body = json.dumps({"error": message}).encode()
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


def guarded_protocol(seconds, notify=warnings.warn):
    """The GuardedProtocol, for uvicorn's option `http`. With a version of uvicorn that is not known, uvicorn's own.

    Args:
        seconds: float, time limit for receiving the headers, and for the client to read a part of a pending answer.
        notify: callable (str), called with a warning if the protocol is uvicorn's own.
    """
    known = uvicorn.__version__.rpartition(".")[0] in TESTED_VERSIONS and HttpToolsProtocol is not object
    if known:
        return type("GuardedProtocol", (GuardedProtocol,), {"seconds": seconds})
    notify(
        f"Warning: uvicorn {uvicorn.__version__} is not known here, so slow or long request headers and unread answers "
        f"have no limits. To limit them: pip install 'uvicorn=={TESTED_VERSIONS[-1]}.*'"
    )
    return "auto"
