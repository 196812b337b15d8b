"""Who calls, what that one may do, and the desk that the request works with.

A route takes one of `Reads`, `Starts` and `Administers` as a parameter: the desk of the
caller's tenant, if the caller has the scope. There is no other way to a desk, so a route cannot
forget to ask; a route without one is in the list of those that are open to all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final, Protocol, TypeAlias

from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.types import Scope as AsgiScope

from ekiden.core.current_agent import AGENT_HEADER
from ekiden.core.errors.inbox import InboxForbidden
from ekiden.core.errors.server import Forbidden
from ekiden.project.keys import SCOPES as SCOPES
from ekiden.project.keys import Scope as Scope
from ekiden.project.service import Service, TenantService
from ekiden.project.tenants import DEFAULT_TENANT

OPEN: Final = frozenset(
    {
        "/",
        "/favicon.ico",
        "/favicon.svg",
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/.well-known/agent-card.json",
    }
)
"""What is open to all, to look at: nothing in it tells of anybody's work. Every other path needs a
caller, whether or not there is anything at it, and so does every other method."""
ASSETS: Final = "/assets/"
"""What is below it is open as well: the parts of the console's page."""
LOGIN: Final = "/api/v1/login"
"""The one that is open to be posted to: who calls stands in the body."""
EACH_TIME: Final = frozenset({LOGIN, "/api/v1/logout"})
"""What takes no `Idempotency-Key`: it changes nothing but the browser's login, and an answer that
was kept would hold a token."""


def is_open(scope: AsgiScope) -> bool:
    """Whether nobody is asked who calls."""
    if scope["type"] != "http":
        return False
    path: str = scope["path"]
    if path == LOGIN:
        return bool(scope["method"] == "POST")
    return (path in OPEN or path.startswith(ASSETS)) and scope["method"] in ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever sent the request."""

    name: str
    """For people: written into what they answer and hand over."""
    tenant: str = DEFAULT_TENANT
    scopes: frozenset[Scope] = frozenset()
    key_id: str | None = None
    """`None`: somebody on this machine, without a key."""
    login: str | None = None
    """The login of the console, if the key is not in the request."""
    is_agent: bool = False
    """Whether an agent of an Ekiden uses the key, as the request says: agents do not decide what
    people are asked, whatever door they try and whatever scopes the key has."""

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope; `admin` has all. No agent has `answer`."""
        if self.is_agent and scope == "answer":
            return False
        return scope in self.scopes or "admin" in self.scopes

    def check(self, scope: Scope) -> None:
        """`Forbidden` without the scope, `InboxForbidden` for an agent that would decide."""
        if self.is_agent and scope == "answer":
            raise InboxForbidden(
                "an agent tried to decide what people are asked: only people do that"
            )
        if not self.may(scope):
            raise Forbidden(scope)

    @property
    def id(self) -> str:
        """The same for all requests of one caller, and for no other's of the tenant."""
        return self.key_id or "local"


LOCAL: Final = Caller(name="local", scopes=frozenset({"admin"}))


class Gate(Protocol):
    """Tells who calls."""

    async def caller(self, connection: HTTPConnection) -> Caller:
        """Whoever sent the request: `Unauthenticated`, `KeyExpired`, `TooManyRequests`."""
        ...

    async def recheck(self, caller: Caller) -> None:
        """`KeyExpired` if the caller's key is good no more: asked again and again while a stream
        is open."""
        ...


def service_of(connection: HTTPConnection) -> Service:
    """The service of the application."""
    service: Service = connection.app.state.service
    return service


async def caller_of(connection: HTTPConnection) -> Caller:
    """Who calls; asked once for each request."""
    known: Caller | None = getattr(connection.state, "caller", None)
    if known is None:
        gate: Gate = connection.app.state.gate
        known = await gate.caller(connection)
        if AGENT_HEADER in connection.headers:
            known = replace(known, is_agent=True)
        connection.state.caller = known
    return known


class needs:
    """A dependency: the caller has the scope, and gets the desk of its tenant."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, connection: HTTPConnection) -> TenantService:
        """`Unauthenticated`, `Forbidden`."""
        caller = await caller_of(connection)
        caller.check(self.scope)
        return await service_of(connection).desk(caller.tenant)


Reads: TypeAlias = Annotated[TenantService, Depends(needs("read"))]
Starts: TypeAlias = Annotated[TenantService, Depends(needs("run"))]
Administers: TypeAlias = Annotated[TenantService, Depends(needs("admin"))]
TheCaller: TypeAlias = Annotated[Caller, Depends(caller_of)]
"""Beside one of the above, for the caller's name."""


def may_answer(caller: Caller, connection: HTTPConnection) -> bool:
    """Whether the caller has the scope `answer`, and is no agent of an Ekiden that uses it.

    The clients with which our agents call others say so in a header that models and tools cannot
    leave out. Whoever has a key with the scope and writes requests of their own can: do not give
    such a key to what an agent runs.
    """
    return caller.may("answer") and not caller.is_agent and AGENT_HEADER not in connection.headers
