"""The console's cookie: the token of a login, which no script can read.

A browser sends a cookie with every request, whoever caused it, so a cookie alone changes nothing.
Requests that change something need a second token in a header, which only a page of this server can
know. It is derived from the cookie's token, so that nothing has to be stored for it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response

from ekiden.core.checks.addresses import PageOrigin, parse_host, parse_origin
from ekiden.core.errors.server import BadOrigin, CsrfFailed
from ekiden.project.keys import MAX_AGE_S

COOKIE: Final = "ekiden_login"
CSRF_HEADER: Final = "X-CSRF-Token"
MOST_COOKIES: Final = 4
"""The maximum number of cookies of one name that are checked."""

_LABEL: Final = b"ekiden.console.csrf.v1"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def csrf_token(login: str) -> str:
    """The CSRF token that requests with this login cookie must also send."""
    return hmac.new(login.encode(), _LABEL, hashlib.sha256).hexdigest()


def cookie_name(headers: Headers) -> str:
    """The name of the cookie. Browsers send cookies to all ports of a host, so several servers on
    one host need different names."""
    host = parse_host(headers.get("host", ""))
    return COOKIE if host is None or host.port is None else f"{COOKIE}_{host.port}"


def kept_logins(headers: Headers) -> list[str]:
    """The values of this server's cookies, without duplicates. There can be several: pages of a
    parent domain can set cookies of the same name."""
    own = cookie_name(headers)
    pairs = (
        pair.strip(" \t").partition("=")
        for value in headers.getlist("cookie")
        for pair in value.split(";")
    )
    return list(dict.fromkeys(value for name, _, value in pairs if name == own))[:MOST_COOKIES]


def check_own_page(connection: HTTPConnection, login: str) -> None:
    """Check that a page of this server sent a request that has a login cookie.

    `CsrfFailed` for a request that changes something without the CSRF token; `BadOrigin` for a
    WebSocket of another page, which could read its messages.
    """
    if connection.scope["type"] == "websocket":
        if own_origin(connection.headers) is None:
            raise BadOrigin(
                "with the console's cookie only pages of this server open a WebSocket: send a key"
            )
    elif connection.scope["method"] not in _READING:
        given = connection.headers.getlist(CSRF_HEADER)
        if len(given) != 1 or not _is_same(given[0], csrf_token(login)):
            raise CsrfFailed(CSRF_HEADER)


def own_origin(headers: Headers) -> PageOrigin | None:
    """The origin of the calling page, if it is a page of this server."""
    host = parse_host(headers.get("host", ""))
    origin = parse_origin(headers.get("origin", ""))
    return origin if host is not None and origin is not None and origin.is_at(host) else None


def keep_login(response: Response, login: str, connection: HTTPConnection) -> None:
    """Set the cookie with the token; the browser sends it to this server only.

    Behind a proxy that terminates TLS, only the page's origin shows that the connection is secure.
    """
    origin = own_origin(connection.headers)
    is_secure = connection.url.scheme == "https" or (
        origin is not None and origin.scheme == "https"
    )
    response.set_cookie(
        cookie_name(connection.headers),
        login,
        max_age=MAX_AGE_S,
        path="/",
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )


def forget_login(response: Response, headers: Headers) -> None:
    """Delete the cookie."""
    response.delete_cookie(cookie_name(headers), path="/", httponly=True, samesite="strict")


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("latin-1", "replace"), token.encode())
