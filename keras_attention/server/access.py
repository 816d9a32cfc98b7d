"""Who may use the models, and how often: keys, a quota for each key, and pages of other sites that are allowed.

Keys are compared by their SHA-256 in constant time, and stored only as SHA-256; no message and no log has them.
"""

import hmac
import math
import re
import secrets
import time
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.responses import Response

from keras_attention.server.gate import Refusal
from keras_attention.support.errors import UserError, quoted

KEY = re.compile(rb"[A-Za-z0-9._~+/-]{16,512}=*")  # what an Authorization header may hold
BEARER = re.compile(rb"bearer +(\S+)", re.IGNORECASE)
MAX_KEY_FILE_BYTES, MAX_KEYS = 1 << 20, 10_000
# What works without a key: the page that asks for it, the description of the API, and what a supervisor polls.
OPEN_PATHS = ("/", "/health", "/ready", "/docs", "/redoc", "/openapi.json")
OPEN_FOLDERS = ("/demo/", "/static-offline-docs/")
COMPUTING_GETS = ("/attention",)
TICKET_PATHS = ("/attention",)  # of pages in a frame, for which a browser sends no header
TICKET_SECONDS, MAX_TICKETS = 60, 10_000
ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:[0-9]{1,5})?")
EVERY = "*"
PREFLIGHT_SECONDS = 600  # that a browser remembers the answer
MINUTE = 60.0


def read_keys(path):
    """The keys of a file, one a line; empty lines and lines that begin with # are skipped.

    Args:
        path: str or Path.

    Returns:
        Tuple of bytes, the SHA-256 of each key.

    Raises:
        UserError: if the file cannot be read, or names a line that is not a key, but not its text.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Expected: a file with one key a line.") from None
    if len(content) > MAX_KEY_FILE_BYTES:
        raise UserError(f"{path} has more than {MAX_KEY_FILE_BYTES:,} bytes. Expected: a file with one key a line.")
    lines = [line.strip() for line in content.removeprefix(b"\xef\xbb\xbf").splitlines()]
    keys = {}
    for number, line in enumerate(lines, 1):
        if line and not line.startswith(b"#"):
            if not KEY.fullmatch(line):
                raise UserError(
                    f"{path}, line {number}, is not a key. Expected: at least 16 letters, digits or signs of "
                    "-._~+/ without spaces; `openssl rand -hex 32` prints one."
                )
            keys[sha256(line).digest()] = None
    if not 0 < len(keys) <= MAX_KEYS:
        raise UserError(f"{path} has {len(keys):,} keys. Expected: 1 to {MAX_KEYS:,}, one a line.")
    return tuple(keys)


def is_readable_by_others(path):
    """Whether other users of the machine may read a file."""
    return bool(Path(path).stat().st_mode & 0o004)


def checked_origins(origins, has_keys):
    """The origins of pages of other sites, in lower case.

    Args:
        origins: sequence of str, such as "https://site.example", or "*" for all.
        has_keys: bool. Whether requests need a key; without one, "*" would open the models to every page.

    Raises:
        UserError: for one that is no origin.
    """
    origins = tuple(origin.lower().rstrip("/") for origin in origins)
    for origin in origins:
        if origin == EVERY and not has_keys:
            raise UserError("`--allow-origin '*'` opens the models to every web page. Use it with --api-key-file.")
        if origin != EVERY and not ORIGIN.fullmatch(origin):
            raise UserError(
                f"`--allow-origin` must be an origin such as https://site.example, without path, or *. "
                f"Received: {quoted(origin)}"
            )
    return origins


class Bucket(NamedTuple):
    """What is left of a quota at a time: requests, float; seconds of the clock."""

    left: float
    time: float


class Access:
    """Checks the key of each request, and counts requests that compute against the quota of their key.

    A quota is a bucket that holds `quota` requests and is filled again evenly within a minute.

    Args:
        keys: tuple of bytes, see `read_keys`; empty lets everyone in.
        quota: int > 0, requests per minute and key; None for no limit.
        clock: callable() -> float, seconds.
    """

    def __init__(self, keys=(), quota=None, clock=time.monotonic):
        self._keys, self._quota, self._clock = tuple(keys), quota, clock
        self._buckets: dict = {}  # key -> Bucket
        self._tickets: dict = {}  # ticket -> (key, time of its end)

    def check(self, scope):
        """Raises Refusal unless the request of an ASGI scope may be answered."""
        path = scope["path"]
        if not self._keys or path in OPEN_PATHS or path.startswith(OPEN_FOLDERS):
            return
        key = self._key_of(scope)
        if self._quota and (scope["method"] == "POST" or path in COMPUTING_GETS):
            self._count(key)

    def ticket(self, scope):
        """A text that stands in for the key of a request, once and within a minute, in the address of a page."""
        if not self._keys:
            return ""
        now = self._clock()
        self._tickets = {ticket: facts for ticket, facts in self._tickets.items() if facts[1] > now}
        if len(self._tickets) >= MAX_TICKETS:
            raise Refusal(429, "Too many pages were asked for. Try again later.", retry=TICKET_SECONDS)
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = self._key_of(scope), now + TICKET_SECONDS
        return ticket

    def _key_of(self, scope):
        """The SHA-256 of the key of a request; raises Refusal if there is none, or it is not known."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        match = BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
        if match:
            digest, known = sha256(match[1]).digest(), None
            for key in self._keys:  # all of them, whichever it is
                if hmac.compare_digest(key, digest):
                    known = key
            if known is not None:
                return known
            raise Refusal(401, "This key is not known. Ask the operator of this server for one.", close=True)
        if scope["path"] in TICKET_PATHS:
            tickets = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("ticket", [""])
            key, end = self._tickets.pop(tickets[0], (None, 0.0))
            if key is not None and end > self._clock():
                return key
        raise Refusal(401, "This server needs a key. Send it in the header Authorization: Bearer KEY.", close=True)

    def _count(self, key):
        now, rate = self._clock(), self._quota / MINUTE
        bucket = self._buckets.get(key, Bucket(self._quota, now))
        left = min(self._quota, bucket.left + rate * (now - bucket.time))
        if left < 1:
            self._buckets[key] = Bucket(left, now)
            raise Refusal(
                429,
                f"This key has used its {self._quota:,} requests per minute. Try again later.",
                retry=math.ceil((1 - left) / rate),
            )
        self._buckets[key] = Bucket(left - 1, now)


class CrossOrigin:
    """ASGI middleware that lets pages of allowed origins use the API (CORS), and answers their preflight requests.

    Args:
        app: ASGI application.
        origins: tuple of str, see `checked_origins`.
    """

    def __init__(self, app, origins=()):
        self.app, self._origins = app, frozenset(origins)

    async def __call__(self, scope, receive, send):
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not origin or not is_allowed_origin(origin, self._origins):
            await self.app(scope, receive, send)
            return
        allowed = {"access-control-allow-origin": origin, "vary": "Origin"}
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            allowed |= {
                "access-control-allow-methods": "GET, POST",
                "access-control-allow-headers": "authorization, content-type",
                "access-control-max-age": str(PREFLIGHT_SECONDS),
            }
            await Response(status_code=204, headers=allowed)(scope, receive, send)
            return
        allowed["access-control-expose-headers"] = "retry-after"
        raw = [(name.encode(), value.encode("latin-1")) for name, value in allowed.items()]

        async def sending(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *raw]}
            await send(message)

        await self.app(scope, receive, sending)


def is_allowed_origin(origin, origins):
    """Whether the value of a header Origin is among the allowed ones."""
    return EVERY in origins or origin.lower() in origins
