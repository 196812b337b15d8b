"""Gates for tests: everybody is let in, or the token says who calls."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from ekiden.core.errors.server import Unauthenticated
from ekiden.server.access import LOCAL, Caller


class TokenGate:
    """Accepts a caller with one of the tokens."""

    def __init__(self, **callers: Caller) -> None:
        self._callers = callers

    async def caller(self, connection: HTTPConnection) -> Caller:
        """By `Authorization: Bearer`."""
        token = connection.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self._callers:
            raise Unauthenticated("no such key")
        return self._callers[token]

    async def recheck(self, caller: Caller) -> None:
        """Always good."""


def caller(name: str, *scopes: str, tenant: str = "default") -> Caller:
    """A caller with a key."""
    return Caller(name=name, tenant=tenant, scopes=frozenset(scopes), key_id=f"key-{name}")


class OpenGate:
    """Accepts every caller as a user of this machine."""

    async def caller(self, connection: HTTPConnection) -> Caller:
        """Always the same."""
        return LOCAL

    async def recheck(self, caller: Caller) -> None:
        """Always good."""
