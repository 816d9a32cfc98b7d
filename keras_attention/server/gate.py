"""Reads request bodies before the routes do: only complete, timely JSON within the size limit is accepted."""

import asyncio
import time

from keras_attention.server.messages import Refusal

# seconds that a connection stays open after a refusal, so that a client that is still sending can read it
LINGER_SECONDS = 0.5
CLIENT_GONE = 499  # the status counted when the client has disconnected
CLIENT_IS_GONE = "keras_attention.client_is_gone"  # extension of the scope: callable() -> bool


class Gate:
    """ASGI middleware that reads and checks the body of a request, and measures the time of the answer.

    Args:
        app: ASGI application.
        settings: ServerSettings.
        metrics: ServerMetrics.
        workers: Workers. When all of them are busy, requests for models are refused here, where it is cheapest.
    """

    def __init__(self, app, settings, metrics, workers):
        self.app = app
        self.settings = settings
        self.metrics = metrics
        self.workers = workers

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), CLIENT_GONE
        is_gone = scope.get("extensions", {}).get(CLIENT_IS_GONE, bool)

        async def watched(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self.metrics.accepted():
                await self._answer(scope, receive, watched)
        except Exception:
            status = 500
            if not is_gone():
                raise
        finally:
            if is_gone():
                status = CLIENT_GONE
            self.metrics.answered(scope["path"], status, time.perf_counter() - began)

    async def _answer(self, scope, receive, send):
        try:
            headers = dict(scope["headers"])
            if scope["method"] == "POST":
                self.workers.check_room()
                _check_type(headers)
            body = await self._read(headers, receive)
        except Refusal as refusal:
            await refusal.response()(scope, receive, _lingering(send) if refusal.close else send)
            return
        except ConnectionError:
            return  # the client disconnected
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay():
            return waiting.pop() if waiting else await receive()

        await self.app(scope, replay, send)

    async def _read(self, headers, receive):
        """The body; raises Refusal if it is too long or too late, ConnectionError if the client disconnects."""
        most, seconds = self.settings.body_bytes, self.settings.seconds
        too_long = Refusal(413, f"A request has at most {most:,} bytes.", close=True)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionError
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_long
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal(408, f"The request did not arrive within {seconds:g} seconds.", close=True) from None
        return bytes(body)


def _lingering(send):
    """A `send` that ends a response some time after its content."""

    async def sending(message):
        if message["type"] == "http.response.body":
            await send({**message, "more_body": True})
            await asyncio.sleep(LINGER_SECONDS)
            message = {"type": "http.response.body"}
        await send(message)

    return sending


def _check_type(headers):
    """Raises Refusal unless the body is plain JSON."""
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Refusal(415, "Send application/json.", close=True)
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refusal(415, "Send the JSON itself, not compressed.", close=True)
