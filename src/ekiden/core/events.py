"""Events, the one stream that history, audit, trace and live view read, and who observes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias

from ekiden.core.conversation.items import Item

EventType: TypeAlias = Literal[
    "route",
    "llm_call",
    "tool_call",
    "handoff",
    "guardrail",
    "tool_confirmation",
    "agent_start",
    "agent_complete",
    "agent_error",
    "message",
    "task",
    "inbox",
]

AUDITED: frozenset[EventType] = frozenset(
    {"handoff", "route", "tool_confirmation", "inbox", "guardrail"}
)
"""Who got the work, what was allowed and who was asked: the types that the audit consists of.

Each of these events carries the hash of the one before in its session, and stores keep an index
of them over all sessions, so a type that is added here needs a migration.
"""

QUESTIONS = frozenset({"asks", "tells", "answer"})
"""The details of `message` events with which agents ask, tell and answer each other."""

PRIVATE = "private"
"""A detail of events of runs with `trace_include_sensitive_data=False`: no trace shows what was
said in such a run."""


class Event:
    """Something that happened in a session, stored in the transaction that made it true.

    Treat it as read-only. `items` are the conversation items that this event said: an item belongs
    to exactly one event, so the conversation is the items of the events in order::

        for event in await session.events():
            print(event.seq, event.type, event.agent)
    """

    __slots__ = (
        "agent",
        "at_us",
        "details",
        "duration_us",
        "error",
        "items",
        "seq",
        "session_id",
        "step",
        "type",
    )

    def __init__(
        self,
        *,
        session_id: str,
        seq: int,
        type: EventType,
        at_us: int,
        agent: str | None = None,
        step: str | None = None,
        duration_us: int | None = None,
        details: dict[str, Any] | None = None,
        items: tuple[Item, ...] = (),
        error: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.seq = seq
        """1, 2, 3 … in its session, without gaps."""
        self.type = type
        self.at_us = at_us
        """Microseconds since 1970."""
        self.agent = agent
        self.step = step
        """The key of the effect that this event records; a key is recorded once."""
        self.duration_us = duration_us
        self.details = details
        self.items = items
        self.error = error

    @property
    def event_id(self) -> str:
        """Unique, and ordered within the session."""
        return f"{self.session_id}/{self.seq}"

    @property
    def speaks(self) -> bool:
        """Whether the conversation needs it: it says something, or takes back what was said."""
        return bool(self.items) or (self.details is not None and "undoes" in self.details)

    @property
    def is_private(self) -> bool:
        """Whether it is of a run of which nothing that was said is to be shown."""
        return self.details is not None and PRIVATE in self.details

    def to_json(self) -> dict[str, Any]:
        """The event as people and programs read it; empty fields are left out."""
        data: dict[str, Any] = {
            "event_id": self.event_id,
            "event_type": self.type,
            "timestamp": self.at_us / 1e6,
            "session_id": self.session_id,
            "seq": self.seq,
        }
        if self.agent is not None:
            data["agent_name"] = self.agent
        if self.step is not None:
            data["step"] = self.step
        if self.duration_us is not None:
            data["duration_ms"] = self.duration_us / 1e3
        if self.details:
            data["details"] = self.details
        if self.items:
            data["items"] = list(self.items)
        if self.error is not None:
            data["error"] = self.error
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        duration_ms = data.get("duration_ms")
        return cls(
            session_id=data["session_id"],
            seq=data["seq"],
            type=data["event_type"],
            at_us=round(data["timestamp"] * 1e6),
            agent=data.get("agent_name"),
            step=data.get("step"),
            duration_us=None if duration_ms is None else round(duration_ms * 1e3),
            details=data.get("details"),
            items=tuple(data.get("items") or ()),
            error=data.get("error"),
        )

    def __repr__(self) -> str:
        return f"<Event {self.event_id} {self.type} agent={self.agent!r}>"


class SeenRun(Protocol):
    """What an onlooker is told of a run."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the session's row says of it."""
        ...

    @property
    def created_at_us(self) -> int:
        """When the store made the session."""
        ...

    @property
    def number(self) -> int:
        """Which run of the session it is."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """All stored events of the run, also those of earlier processes."""
        ...

    @property
    def store(self) -> Any:
        """Where the session is."""
        ...


class RunObserver(Protocol):
    """Somebody who is shown what becomes of every run of this process."""

    async def see(self, run: SeenRun, events: Sequence[Event]) -> None:
        """Take the events that were just stored; the run goes on when this returns."""
        ...


ONLOOKERS: list[RunObserver] = []
"""Who looks on now; with nobody in it a run costs nothing more."""
