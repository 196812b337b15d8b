"""Which agent has which sessions, and waits for whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ekiden.core.messages import BlockingContext, BlockingStatus
from ekiden.storage.base import SessionFilter, SessionRow, SessionStatus, Store

_PAGE = 500
_AT_WORK: Final[tuple[SessionStatus, ...]] = ("ready", "waiting")


@dataclass(slots=True, kw_only=True)
class Presence:
    """The sessions that one agent has, and its waits."""

    agent: str
    known: bool
    """Whether the team has such an agent."""
    is_router: bool = False
    """Whether these sessions wait for a message that can be routed."""
    idle: int = 0
    ready: int = 0
    waiting: int = 0
    running: dict[str, str] = field(default_factory=dict)
    """Who has the lease, by session; these sessions are counted by their status too."""
    waits: list[BlockingContext] = field(default_factory=list)
    """For whom it waits, the longest wait first."""

    @property
    def status(self) -> BlockingStatus:
        """``internal`` if it waits for an agent, ``user`` if only for people, else ``none``."""
        statuses = {wait.status for wait in self.waits}
        return "internal" if "internal" in statuses else "user" if statuses else "none"

    def count(self, row: SessionRow) -> None:
        """Add a session."""
        match row.status:
            case "idle":
                self.idle += 1
            case "ready":
                self.ready += 1
            case "waiting":
                self.waiting += 1
        if row.owner is not None:
            self.running[row.id] = row.owner

    def to_json(self) -> dict[str, Any]:
        """As `ekiden agents ps --json` prints it."""
        return {
            "agent": self.agent,
            "known": self.known,
            "router": self.is_router,
            "sessions": self.idle + self.ready + self.waiting,
            "idle": self.idle,
            "ready": self.ready,
            "waiting": self.waiting,
            "running": [
                {"session_id": session, "owner": owner}
                for session, owner in sorted(self.running.items())
            ],
            "status": self.status,
            "waits": [wait.to_json() for wait in self.waits],
        }


async def presences(
    store: Store | None,
    names: Iterable[str],
    *,
    router: str | None = None,
    waits: Iterable[BlockingContext] = (),
    idle: bool = True,
) -> list[Presence]:
    """One for each of `names`, and behind them one for everybody else who has a session or waits.

    Those may be the `router`'s, too. Without a store nobody has any. Without `idle` only sessions
    are looked at that somebody works on, or will: in a large store those are few.
    """
    found = {name: Presence(agent=name, known=True) for name in names}
    strangers: dict[str, Presence] = {}

    def of(agent: str) -> Presence:
        here = found.get(agent) or strangers.get(agent)
        if here is None:
            routes = agent == router
            here = strangers[agent] = Presence(agent=agent, known=routes, is_router=routes)
        return here

    for wait in waits:
        of(wait.agent).waits.append(wait)
    if store is not None:
        async for row in _sessions(store, idle=idle):
            of(row.agent).count(row)
    return [*found.values(), *(strangers[name] for name in sorted(strangers))]


async def _sessions(store: Store, *, idle: bool) -> AsyncIterator[SessionRow]:
    filters = [SessionFilter()] if idle else [SessionFilter(status=each) for each in _AT_WORK]
    for where in filters:
        cursor: str | None = None
        while True:
            page = await store.list(where, limit=_PAGE, cursor=cursor)
            for row in page.sessions:
                yield row
            cursor = page.next_cursor
            if cursor is None:
                break
