"""Events of sessions, and observers of runs. History, audit, trace and live view read these
events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias

from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass, maker

EventType: TypeAlias = Literal[
    "route", "llm_call", "tool_call", "handoff", "guardrail", "tool_confirmation", "agent_start",
    "agent_complete", "agent_error", "message", "task", "inbox",
]  # fmt: skip

AUDITED: frozenset[EventType] = frozenset(
    {"handoff", "route", "tool_confirmation", "inbox", "guardrail"}
)
"""The event types of the audit: handoffs, routing, approvals, inbox items and guardrails.

Each of these events contains the hash of the previous audited event in its session. Stores keep an
index of these events over all sessions, so a new type needs a migration.
"""

QUESTIONS = frozenset({"asks", "tells", "answer"})
"""Keys in the details of `message` events. They mark queries, notices and answers between
agents."""

PRIVATE = "private"
"""The key in the details that marks events of runs with `trace_include_sensitive_data=False`.
Traces do not show the content of these events."""


VERSIONED: frozenset[EventType] = frozenset(
    {"llm_call", "tool_call", "handoff", "tool_confirmation", "route"}
)
"""The types of events that say by which version of an agent they were made."""
MADE_BY = "made_by"
"""The key in the details with the version of the event's agent. An event without it was made by the
same version as the agent's event before."""


class VersionReader:
    """Reads by which versions of agents events were made. Pass all events of a session, in order.

    For example::

        reader = VersionReader()
        versions = [reader.made_by(event) for event in await session.events()]
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str | None, str] = {}

    def made_by(self, event: Event) -> str | None:
        """The version of the agent that made the event. A model call also has ``/`` and the digest
        of the shared parts of its request. `None` for other events, and if no version is known."""
        if event.type not in VERSIONED:
            return None
        found = (event.details or {}).get(MADE_BY)
        if isinstance(found, str):
            self._known[event.agent] = found
        known = self._known.get(event.agent)
        return known.partition("/")[0] if known and event.type != "llm_call" else known


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Event:
    """An event of a session. It is stored in the same transaction as the change that it records.

    Treat it as read-only. `items` are the conversation items that this event adds. The conversation
    consists of the items of all events, in order, without the items that a later event removes::

        for event in await session.events():
            print(event.seq, event.type, event.agent)
    """

    session_id: str
    seq: int
    """The number of the event in its session: 1, 2, 3 …, without gaps."""
    type: EventType
    at_us: int
    """The time of the event, in microseconds since 1970."""
    agent: str | None = None
    step: str | None = None
    """The step key of the effect that this event records; unique in the session."""
    duration_us: int | None = None
    details: dict[str, Any] | None = None
    items: tuple[Item, ...] = ()
    error: str | None = None

    @property
    def event_id(self) -> str:
        """The unique id of the event: the session id, ``/`` and `seq`."""
        return f"{self.session_id}/{self.seq}"

    @property
    def speaks(self) -> bool:
        """Whether the event changes the conversation by adding or removing items."""
        return bool(self.items) or (self.details is not None and "undoes" in self.details)

    @property
    def is_private(self) -> bool:
        """Whether traces must hide the content of the event."""
        return self.details is not None and PRIVATE in self.details

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON. Empty fields are left out."""
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
        """Create the event from the JSON that `to_json` returns."""
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


new_event = maker(Event)
"""Creates an `Event` in half the time of the constructor."""


class SeenRun(Protocol):
    """A run, as observers see it."""

    @property
    def session_id(self) -> str:
        """The id of the session."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The metadata of the session."""
        ...

    @property
    def created_at_us(self) -> int:
        """When the session was created, in microseconds since 1970."""
        ...

    @property
    def number(self) -> int:
        """The number of the run in its session."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """All stored events of the run, including those of earlier processes."""
        ...

    @property
    def store(self) -> Any:
        """The store of the session."""
        ...


class RunObserver(Protocol):
    """Observes every run of this process."""

    async def see(self, run: SeenRun, events: Sequence[Event]) -> None:
        """Called with newly stored events. The run waits until this method returns."""
        ...


OBSERVERS: list[RunObserver] = []
"""The registered observers. Without an observer, a run has no overhead."""
