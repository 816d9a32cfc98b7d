"""Middleware before the routes: accepts only complete, timely JSON within the size limit, and counts all answers."""

import asyncio
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

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


CONTENT_TYPE = CONTENT_TYPE_LATEST  # of the metrics
SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)


class ServerMetrics:
    """Metrics for Prometheus: counts requests and token sequences.

    Args:
        paths: collection of str, routes with their own label; all others count as "other".
    """

    def __init__(self, paths):
        self._paths = frozenset(paths)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter("requests", "Requests answered", ["path", "status"], registry=self._registry)
        self._seconds = Histogram(
            "request_seconds", "Time from headers to answer", ["path"], buckets=SECONDS, registry=self._registry
        )
        self._open = Gauge("requests_in_progress", "Requests being answered", registry=self._registry)
        self._rows = Histogram(
            "rows_together", "Batch size of each sequence", ["model"], buckets=BATCH_SIZES, registry=self._registry
        )

    def accepted(self):
        """A context in which a request counts as in progress."""
        return self._open.track_inprogress()

    def answered(self, path, status, seconds):
        """Counts an answer."""
        path = path if path in self._paths else "other"
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def computed(self, model, rows_together):
        """Counts a sequence of a model with the size of its batch."""
        self._rows.labels(model).observe(rows_together)

    def answers_by_path(self):
        """Dict from path to the number of answered requests."""
        counts = {}
        for sample in next(iter(self._requests.collect())).samples:
            if sample.name == "requests_total":
                path = sample.labels["path"]
                counts[path] = counts.get(path, 0) + int(sample.value)
        return counts

    def text(self):
        """All metrics in the Prometheus format, bytes."""
        return generate_latest(self._registry)
