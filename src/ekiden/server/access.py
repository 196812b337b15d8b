"""The caller, its scopes, the tenant's service for the request, and the console's cookie.

A route takes one of `Reads`, `Starts` and `Administers` as a parameter. The parameter checks the
scope of the caller, and gives the service of the caller's tenant. There is no other way to get the
service, so a route cannot forget the check. A route without such a parameter must be in the list of
public routes.

A browser sends a cookie with every request, even if a foreign page caused the request. So a cookie
alone does not permit changes. Requests that change something need a second token in a header, which
only a page of this server can know. This token is derived from the cookie's token, so it need not
be stored.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import Final, Protocol

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Scope as AsgiScope

from ekiden.core.checks.addresses import PageOrigin, parse_host, parse_origin
from ekiden.core.current_agent import AGENT_HEADER
from ekiden.core.errors.messages import InboxForbidden
from ekiden.core.errors.server import BadOrigin, CsrfFailed, Forbidden
from ekiden.project.keys import MAX_AGE_S, SCOPES as SCOPES, Scope as Scope
from ekiden.project.service import Service, TenantService
from ekiden.project.stores import DEFAULT_TENANT

OPEN: Final = frozenset({
    "/", "/favicon.ico", "/favicon.svg", "/healthz", "/readyz", "/openapi.json", "/docs",
    "/.well-known/agent-card.json",
})  # fmt: skip
"""Public paths for reading, which show no data of users. All other paths and methods need a caller,
even if they do not exist."""
ASSETS: Final = "/assets/"
"""Paths below this prefix are also public. They are the files of the console's page."""
LOGIN: Final = "/api/v1/login"
"""The only public path for POST, because the body identifies the caller."""
EACH_TIME: Final = frozenset({LOGIN, "/api/v1/logout"})
"""Paths that ignore `Idempotency-Key`. They change only the browser's login, and a stored response
would contain a token."""


def is_open(scope: AsgiScope) -> bool:
    """Whether the path needs no caller."""
    if scope["type"] != "http":
        return False
    path: str = scope["path"]
    if path == LOGIN:
        return bool(scope["method"] == "POST")
    return (path in OPEN or path.startswith(ASSETS)) and scope["method"] in ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of the request."""

    name: str
    """The name for people. It is recorded with answers and handoffs of the caller."""
    tenant: str = DEFAULT_TENANT
    scopes: frozenset[Scope] = frozenset()
    key_id: str | None = None
    """The id of the caller's API key. `None` means a local caller without a key."""
    login: str | None = None
    """The id of the console's login, if the caller is known by its cookie."""
    is_agent: bool = False
    """Whether the request says that an Ekiden agent uses the key. Agents may not answer inbox
    items, regardless of interface and scopes."""

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope. The scope `admin` includes all scopes. No agent has the
        scope `answer`."""
        if self.is_agent and scope == "answer":
            return False
        return scope in self.scopes or "admin" in self.scopes

    def check(self, scope: Scope) -> None:
        """Raise `Forbidden` if the caller lacks the scope. Raise `InboxForbidden` for an agent that
        tries to answer."""
        if self.is_agent and scope == "answer":
            raise InboxForbidden("an agent tried to answer an inbox item: only people can")
        if not self.may(scope):
            raise Forbidden(scope)

    @property
    def id(self) -> str:
        """The id of the caller. It is the same for all requests of one caller, and different from
        the ids of other callers of the tenant."""
        return self.key_id or "local"


LOCAL: Final = Caller(name="local", scopes=frozenset({"admin"}))
"""A person on this machine who needs no key."""
LOCAL_PROGRAM: Final = Caller(name="local", scopes=frozenset({"read", "run", "history"}))
"""A caller on this machine that needs no key and did not prove to be a person: perhaps a tool."""


class Authorizer(Protocol):
    """Identifies the caller."""

    async def caller(self, connection: HTTPConnection) -> Caller:
        """Return the sender of the request. Raises `Unauthenticated`, `KeyExpired` or
        `TooManyRequests`."""
        ...

    async def recheck(self, caller: Caller) -> None:
        """Raise `KeyExpired` if the caller's key is no longer valid. The server calls this method
        repeatedly while a stream is open."""
        ...


def service_of(connection: HTTPConnection) -> Service:
    """The service of the application."""
    service: Service = connection.app.state.service
    return service


async def caller_of(connection: HTTPConnection) -> Caller:
    """The caller of the request. It is determined once for each request."""
    known: Caller | None = getattr(connection.state, "caller", None)
    if known is None:
        gate: Authorizer = connection.app.state.gate
        known = await gate.caller(connection)
        if AGENT_HEADER in connection.headers:
            known = replace(known, is_agent=True)
        connection.state.caller = known
    return known


class needs:
    """A FastAPI dependency, which checks that the caller has the scope, and gives the service of
    the caller's tenant."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, connection: HTTPConnection) -> TenantService:
        """Return the service. Raises `Unauthenticated` or `Forbidden`."""
        caller = await caller_of(connection)
        caller.check(self.scope)
        return await service_of(connection).tenant_service(caller.tenant)


def may_answer(caller: Caller, connection: HTTPConnection) -> bool:
    """Whether the caller has the scope `answer`, and is not an Ekiden agent.

    Clients that Ekiden agents use send a header, which models and tools cannot remove. Other
    programs with the key can omit this header. So do not give a key with the scope `answer` to code
    that an agent runs.
    """
    return caller.may("answer") and not caller.is_agent and AGENT_HEADER not in connection.headers


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
    """The values of this server's cookies, without duplicates. There can be several values, because
    pages of a parent domain can set cookies of the same name."""
    own = cookie_name(headers)
    pairs = (
        pair.strip(" \t").partition("=")
        for value in headers.getlist("cookie")
        for pair in value.split(";")
    )
    return list(dict.fromkeys(value for name, _, value in pairs if name == own))[:MOST_COOKIES]


def check_own_page(connection: HTTPConnection, login: str) -> None:
    """Check that a page of this server sent a request that has a login cookie.

    Raises `CsrfFailed` for a request that changes something and has no CSRF token. Raises
    `BadOrigin` for a WebSocket of another page, because that page could read the messages.
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
    """Set the cookie with the token. The browser sends the cookie only to this server.

    If a proxy terminates TLS, only the page's origin shows that the connection is secure.
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
