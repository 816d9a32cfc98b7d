"""Which names of the server and which web pages are answered: a page of another site must not use the models.

A page can reach a server on the same machine or in the same network through the visitor's browser. It can even appear
to be of the same site: its own name first has the address of its site, then 127.0.0.1 (DNS rebinding). The name stays
in the header Host, so only known names are answered. Programs such as curl send the address that they were given.
"""

import ipaddress
import re
import socket

from keras_attention.server.access import COMPUTING_GETS, is_allowed_origin
from keras_attention.server.gate import Refusal
from keras_attention.support.errors import UserError, quoted

EVERY = "*"
NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?")
ELSEWHERE = (b"cross-site", b"same-site")  # values of Sec-Fetch-Site; another port of this machine is the same site


def checked_names(names):
    """The names of hosts in lower case; raises UserError for one that is no name and no address."""
    names = [name.lower().rstrip(".") for name in names]
    for name in names:
        if name != EVERY and not NAME.fullmatch(name) and _address(name) is None:
            raise UserError(
                f"`--allow-host` must be the name or address of a host, without port, or *. Received: {quoted(name)}"
            )
    return names


def _address(name):
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class Origins:
    """ASGI middleware that refuses requests to unknown host names, and those of web pages of other sites.

    A server at a loopback address is known as localhost, *.localhost, 127.* and [::1]. A server at another address is
    also known by every IP address, which needs no DNS, and by the name of the machine.

    Args:
        app: ASGI application.
        address: str, the IP address of the server.
        more: list of str, further names; "*" stands for all names and pages.
        origins: tuple of str, origins of pages that are allowed, see `access.checked_origins`.
    """

    def __init__(self, app, address="127.0.0.1", more=(), origins=()):
        self.app = app
        self._more, self._origins = set(more), frozenset(origins)
        bound = _address(address.partition("%")[0])
        self._is_open = bound is not None and not bound.is_loopback
        self._own = {address}
        if self._is_open:
            machine = socket.gethostname().lower()
            self._own |= {machine, f"{machine}.local"}

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and EVERY not in self._more:
            try:
                self._check(scope)
            except Refusal as refusal:
                await refusal.response(scope["path"])(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, scope):
        headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value.lower())
        hosts = headers.get(b"host", [])  # none in HTTP/1.0; every browser sends one
        for host in hosts:
            match = HOST.fullmatch(host.decode("latin-1"))
            if match is None or len(hosts) > 1 or not self._is_known(match[1].strip("[]")):
                name = quoted(host.decode("latin-1"))
                raise Refusal(403, f"This server does not know the host {name}. Start it with --allow-host NAME.")
        for origin in headers.get(b"origin", []):
            if not self._is_own_page(origin.decode("latin-1"), b"".join(hosts).decode("latin-1")):
                raise Refusal(403, "Pages of other sites may not use this server. See --allow-host and --allow-origin.")
        computes = scope["method"] == "POST" or scope["path"] in COMPUTING_GETS
        is_elsewhere = any(site in ELSEWHERE for site in headers.get(b"sec-fetch-site", []))
        if computes and is_elsewhere and not self._is_allowed_page(headers):
            raise Refusal(403, "Pages of other sites may not use this server. See --allow-host and --allow-origin.")

    def _is_known(self, name):
        name = name.rstrip(".")
        if name in self._more | self._own or name == "localhost" or name.endswith(".localhost"):
            return True
        address = _address(name)
        return address is not None and (self._is_open or address.is_loopback)

    def _is_own_page(self, origin, host):
        if is_allowed_origin(origin, self._origins):
            return True
        scheme, _, place = origin.partition("://")
        match = HOST.fullmatch(place)
        if scheme not in ("http", "https") or match is None:
            return False  # such as "null"
        return place == host or match[1].strip("[]") in self._more

    def _is_allowed_page(self, headers):
        """Whether the page was allowed explicitly; see `_is_own_page`, which checked the origin."""
        origins = [origin.decode("latin-1") for origin in headers.get(b"origin", [])]
        if any(is_allowed_origin(origin, self._origins) for origin in origins):
            return True
        origins = [origin.partition("://")[2] for origin in origins]
        matches = [match for origin in origins if (match := HOST.fullmatch(origin))]
        return any(match[1].strip("[]") in self._more for match in matches)
