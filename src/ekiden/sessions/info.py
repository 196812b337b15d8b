"""What is told of a session beside what was said in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Usage
from ekiden.core.events import Event
from ekiden.sessions.conversation import chain_of
from ekiden.storage.base import SessionRow
from ekiden.storage.records import is_copied as is_copied

_MADE = ("transferring", "completed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """Facts about a session; times are seconds since 1970.

    For example::

        info = await Session("customer-42", store=store).info()
        print(info.agent_chain, info.total_tokens)
    """

    session_id: str
    user_id: str | None
    agent: str
    """The agent that has it."""
    title: str | None
    created_at: float
    updated_at: float
    agent_chain: tuple[str, ...]
    """All agents that had it, starting with ``user``, without rolled-back transfers."""
    handoff_count: int
    """Handoffs that were not rolled back."""
    total_tokens: int
    """The tokens of its model calls, including its router and rolled-back work; without those
    before a fork."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts from its events, as JSON."""
        return {
            "agent_chain": list(self.agent_chain),
            "handoff_count": self.handoff_count,
            "total_tokens": self.total_tokens,
        }


def session_info(row: SessionRow, events: Sequence[Event]) -> SessionInfo:
    """What is told of the session; `events` are all of its events."""
    handoffs = chain_of(events)
    title = row.meta.get("title")
    return SessionInfo(
        session_id=row.id,
        user_id=row.user_id,
        agent=row.agent,
        title=None if title is None else str(title),
        created_at=row.created_at_us / 1e6,
        updated_at=row.updated_at_us / 1e6,
        agent_chain=tuple(names_of(row, handoffs)),
        handoff_count=sum(each.get("status") in _MADE for each in handoffs),
        total_tokens=sum(_tokens(event) for event in events if not is_copied(row, event)),
    )


def session_record(row: SessionRow) -> dict[str, Any]:
    """One session as JSON, without what was said."""
    return {
        "session_id": row.id,
        "agent": row.agent,
        "status": row.status,
        "outcome": row.outcome,
        "user_id": row.user_id,
        "priority": row.priority,
        "meta": dict(row.meta),
        "events": row.seq,
        "owner": row.owner,
        "created_at": row.created_at_us / 1e6,
        "updated_at": row.updated_at_us / 1e6,
    }


def names_of(row: SessionRow, handoffs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Everyone who had the session, beginning with ``user``; a transfer undone is left out."""
    made = [each for each in handoffs if each.get("status") in _MADE]
    first = made[0]["from"] if made else row.agent
    return ["user", first, *(each["to"] for each in made)]


def is_model_call(event: Event) -> bool:
    """Whether the event tells what a model used: for an agent, or for the router."""
    if event.type == "route":
        return isinstance((event.details or {}).get("usage"), Mapping)
    return event.type == "llm_call"


def _tokens(event: Event) -> int:
    usage = (event.details or {}).get("usage") if is_model_call(event) else None
    return Usage.from_json(usage).tokens if isinstance(usage, Mapping) else 0
