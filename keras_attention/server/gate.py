"""The gate that reads and checks the body of each request, and the refusals that answer the others."""

import asyncio
import contextvars
import time

from starlette.responses import JSONResponse

RETRY_SECONDS = 1


# seconds that a connection stays open after a refusal, so that a client that is still sending can read it
LINGER_SECONDS = 0.5


CLIENT_GONE = 499  # the status counted when the client has disconnected


# Of the request that the current task answers: callable() -> bool, whether its client has disconnected.
client_is_gone: contextvars.ContextVar = contextvars.ContextVar("client_is_gone", default=bool)


CLIENT_IS_GONE = "keras_attention.client_is_gone"  # extension of the scope: callable() -> bool


# Their errors are objects, as in OpenAI's API, whether the server has the route or not.
OPENAI_ROUTES = ("/v1/completions", "/v1/embeddings", "/v1/models", "/v1/chat/completions", "/v1/responses")


CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


class Refusal(Exception):
    """An error response.

    Args:
        status: int, HTTP status.
        message: str.
        close: bool, whether to close the connection.
        retry: int, the seconds of the header Retry-After, which every answer with status 429 or 503 has.
    """

    def __init__(self, status, message, close=False, retry=RETRY_SECONDS):
        super().__init__(message)
        self.status, self.message, self.close, self.retry = status, message, close, retry

    def response(self, path=""):
        """The response to a request for this path as JSON."""
        headers = {"retry-after": str(self.retry)} if self.status in (429, 503) else {}
        headers |= {"www-authenticate": "Bearer"} if self.status == 401 else {}
        headers |= {"connection": "close"} if self.close else {}
        return JSONResponse({"error": self.as_json(path)}, self.status, headers)

    def as_json(self, path):
        """The value of "error": a text, or on the routes of OpenAI's API an object that its clients read."""
        message = self.message.encode("utf-8", "replace").decode()  # the message may quote half a surrogate pair
        if not any(path == route or path.startswith(f"{route}/") for route in OPENAI_ROUTES):
            return message
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        code = "model_not_found" if self.status == 404 and path in OPENAI_ROUTES else CODES.get(self.status)
        return {"message": message, "type": kind, "param": None, "code": code}


class Gate:
    """ASGI middleware that reads and checks the body of a request, and measures the time of the answer.

    Args:
        app: ASGI application.
        settings: ServerSettings.
        metrics: ServerMetrics.
        workers: Workers. When all of them are busy, requests for models are refused here, where it is cheapest.
        body_bytes: callable(path) -> int, the limit of a body; None: that of the settings.
        check_access: callable(scope) that raises Refusal for a request that may not be answered.
    """

    def __init__(self, app, settings, metrics, workers, body_bytes=None, check_access=lambda scope: None):
        self.app = app
        self.settings = settings
        self.metrics = metrics
        self.workers = workers
        self.body_bytes = body_bytes or (lambda path: settings.body_bytes)
        self.check_access = check_access

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), CLIENT_GONE
        is_gone = scope.get("extensions", {}).get(CLIENT_IS_GONE, bool)
        client_is_gone.set(is_gone)

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
            self.check_access(scope)
            if scope["method"] == "POST":
                self.workers.check_room()
                _check_type(headers)
            body = await self._read(headers, receive, self.body_bytes(scope["path"]))
        except Refusal as refusal:
            await refusal.response(scope["path"])(scope, receive, _lingering(send) if refusal.close else send)
            return
        except ConnectionError:
            return  # the client disconnected
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay():
            return waiting.pop() if waiting else await receive()

        await self.app(scope, replay, send)

    async def _read(self, headers, receive, most):
        """The body; raises Refusal if it is too long or too late, ConnectionError if the client disconnects."""
        seconds = self.settings.seconds
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
