"""The caller, its scopes, and the tenant's service for the request.

A route takes one of `Reads`, `Starts` and `Administers` as a parameter: the service of the caller's
tenant, if the caller has the scope. There is no other way to get it, so a route cannot forget the
check; a route without one must be in the list of public routes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from starlette.requests import HTTPConnection
from starlette.types import Scope as AsgiScope

from ekiden.core.current_agent import AGENT_HEADER
from ekiden.core.errors.messages import InboxForbidden
from ekiden.core.errors.server import Forbidden
from ekiden.project.keys import SCOPES as SCOPES, Scope as Scope
from ekiden.project.service import Service, TenantService
from ekiden.project.stores import DEFAULT_TENANT

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
"""Public paths, for reading: they reveal nothing about anyone's work. Every other path and method
needs a caller, whether or not it exists."""
ASSETS: Final = "/assets/"
"""Paths below it are public as well: the files of the console's page."""
LOGIN: Final = "/api/v1/login"
"""The only public path for POST: the body names the caller."""
EACH_TIME: Final = frozenset({LOGIN, "/api/v1/logout"})
"""Paths without `Idempotency-Key`: they change only the browser's login, and a stored response
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
    """For people: recorded with their answers and handoffs."""
    tenant: str = DEFAULT_TENANT
    scopes: frozenset[Scope] = frozenset()
    key_id: str | None = None
    """`None`: a local caller without a key."""
    login: str | None = None
    """The login of the console, if the key is not in the request."""
    is_agent: bool = False
    """Whether an Ekiden agent uses the key, as the request says: agents never answer inbox items,
    through any interface and with any scope."""

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope; `admin` has all. No agent has `answer`."""
        if self.is_agent and scope == "answer":
            return False
        return scope in self.scopes or "admin" in self.scopes

    def check(self, scope: Scope) -> None:
        """`Forbidden` without the scope, `InboxForbidden` for an agent that tries to answer."""
        if self.is_agent and scope == "answer":
            raise InboxForbidden("an agent tried to answer an inbox item: only people can")
        if not self.may(scope):
            raise Forbidden(scope)

    @property
    def id(self) -> str:
        """The same for all requests of one caller, and different from other callers of the
        tenant."""
        return self.key_id or "local"


LOCAL: Final = Caller(name="local", scopes=frozenset({"admin"}))


class Authorizer(Protocol):
    """Identifies the caller."""

    async def caller(self, connection: HTTPConnection) -> Caller:
        """The sender of the request: `Unauthenticated`, `KeyExpired`, `TooManyRequests`."""
        ...

    async def recheck(self, caller: Caller) -> None:
        """`KeyExpired` if the caller's key is no longer valid; called repeatedly while a stream is
        open."""
        ...


def service_of(connection: HTTPConnection) -> Service:
    """The service of the application."""
    service: Service = connection.app.state.service
    return service


async def caller_of(connection: HTTPConnection) -> Caller:
    """The caller; determined once for each request."""
    known: Caller | None = getattr(connection.state, "caller", None)
    if known is None:
        gate: Authorizer = connection.app.state.gate
        known = await gate.caller(connection)
        if AGENT_HEADER in connection.headers:
            known = replace(known, is_agent=True)
        connection.state.caller = known
    return known


class needs:
    """A dependency: the caller has the scope, and gets the service of its tenant."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, connection: HTTPConnection) -> TenantService:
        """`Unauthenticated`, `Forbidden`."""
        caller = await caller_of(connection)
        caller.check(self.scope)
        return await service_of(connection).tenant_service(caller.tenant)


def may_answer(caller: Caller, connection: HTTPConnection) -> bool:
    """Whether the caller has the scope `answer`, and is not an Ekiden agent.

    The clients of Ekiden agents say so in a header that models and tools cannot remove. Other
    programs with the key can omit it: do not give a key with this scope to code that an agent runs.
    """
    return caller.may("answer") and not caller.is_agent and AGENT_HEADER not in connection.headers
