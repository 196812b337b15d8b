"""How many MCP sessions each key has: each costs memory until it is closed or nobody uses it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Message, Send

from ekiden.core.errors.server import TooManyRequests
from ekiden.server.access.access import Caller

IDLE_S: Final = 600.0
"""After so long without a request a session is closed."""
MOST_SESSIONS: Final = 5000
"""Of all keys together."""
MOST_OF_A_KEY: Final = 200

_ID: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"

Noting: TypeAlias = Callable[[Send], Send]


@dataclass(slots=True)
class _Stay:
    """One session of a key."""

    requests: int = 0
    """Under way now."""
    at: float = 0.0
    """When the last one was over."""


class Guests:
    """Knows the sessions of each key by what is asked and answered."""

    def __init__(
        self, *, most: int = MOST_OF_A_KEY, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._monotonic = monotonic
        self._stays: dict[str, dict[str, _Stay]] = {}
        """By caller, then by the session's id."""

    @contextmanager
    def visit(self, caller: Caller, request: Request) -> Iterator[Noting]:
        """One request; `TooManyRequests` if it would open a session too many. What is given
        wraps the answer, to see which session was opened."""
        who = f"{caller.tenant}/{caller.id}"
        named = request.headers.get(_ID)
        if named is None and _opens(request):
            self._check(who)
        stay = self._stays.get(who, {}).get(named) if named is not None else None
        if stay is not None:
            stay.requests += 1
        try:
            yield lambda send: self._noting(who, request, send)
        finally:
            if stay is not None:
                stay.requests -= 1
                stay.at = self._monotonic()

    def _check(self, who: str) -> None:
        now = self._monotonic()
        left = {
            name: stay
            for name, stay in self._stays.get(who, {}).items()
            if stay.requests or now - stay.at < IDLE_S
        }
        if left:
            self._stays[who] = left
        else:
            self._stays.pop(who, None)
        if len(left) >= self._most:
            raise TooManyRequests(
                f"this key has {self._most} MCP sessions open: close some with DELETE",
                retry_after_s=60,
            )

    def _noting(self, who: str, request: Request, send: Send) -> Send:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(who, request, message)
            await send(message)

        return noted

    def _note(self, who: str, request: Request, start: Message) -> None:
        named = request.headers.get(_ID)
        if named is not None:
            ended = request.method == "DELETE" and start["status"] < 300
            if ended or start["status"] == 404:
                self._stays.get(who, {}).pop(named, None)
            return
        for name, value in start.get("headers") or ():
            if name.lower() == _ID.encode():
                opened = self._stays.setdefault(who, {})
                opened[value.decode("latin-1")] = _Stay(at=self._monotonic())


def _opens(request: Request) -> bool:
    """Whether the SDK opens a session for a request that names none: newer versions have none."""
    version = request.headers.get(_VERSION)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
