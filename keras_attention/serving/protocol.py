"""HTTP/1.1 whose first lines, too, must come in time and be short."""

import json

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

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
