"""Which agent has which sessions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ekiden.storage.base import SessionRow, Store

_PAGE = 500


@dataclass(slots=True, kw_only=True)
class Presence:
    """The sessions that one agent has."""

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
        }


async def presences(
    store: Store | None, names: Iterable[str], *, router: str | None = None
) -> list[Presence]:
    """One for each of `names`, and behind them one for everybody else who has a session.

    Those may be the `router`'s, too. Without a store nobody has any.
    """
    found = {name: Presence(agent=name, known=True) for name in names}
    strangers: dict[str, Presence] = {}
    cursor: str | None = None
    while store is not None:
        page = await store.list(limit=_PAGE, cursor=cursor)
        for row in page.sessions:
            here = found.get(row.agent)
            if here is None:
                routes = row.agent == router
                other = Presence(agent=row.agent, known=routes, is_router=routes)
                here = strangers.setdefault(row.agent, other)
            here.count(row)
        cursor = page.next_cursor
        if cursor is None:
            break
    return [*found.values(), *(strangers[name] for name in sorted(strangers))]
