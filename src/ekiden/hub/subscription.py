"""What the hub reads, what subscribers get, and what they want to see."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ekiden.core.errors import UserError
from ekiden.core.events import Event, EventType
from ekiden.storage.base import EventPage

_PARTIES = ("from", "to", "from_agent", "to_agent")
"""What an event's details call the agents that it is between."""


class EventFeed(Protocol):
    """The part of a `Store` that the hub needs."""

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        """As `Journal.feed`."""
        ...

    async def feed_end(self) -> str:
        """As `Journal.feed_end`."""
        ...

    async def wait_for_change(self, timeout_s: float) -> None:
        """As `LeaseStore.wait_for_change`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HubEvent:
    """An event, with its position among all events of the store."""

    id: str
    """A subscription after this id gets exactly the later events; opaque, and valid in every
    process that uses the store."""
    event: Event

    def to_json(self) -> dict[str, Any]:
        """The event as JSON, with its `id`."""
        return {"id": self.id, **self.event.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A filter for events: all parts must match; `None` matches all.

    For example::

        Subscription(agents=["billing"], types=["handoff", "agent_error"])
    """

    sessions: Collection[str] | None = None
    """Events of these sessions, and events about one of them."""
    agents: Collection[str] | None = None
    """Events of these agents, and handoffs and messages from and to them."""
    types: Collection[EventType] | None = None
    inbox: bool = False
    """Only inbox items and their changes."""

    def __post_init__(self) -> None:
        for name in ("sessions", "agents", "types"):
            given = getattr(self, name)
            if given is None:
                continue
            if isinstance(given, str | bytes):
                raise UserError(f"`{name}` of a subscription is a list of texts, not {given!r:.40}")
            object.__setattr__(self, name, frozenset(given))

    def matches(self, event: Event) -> bool:
        """Whether the event matches."""
        return (
            (self.types is None or event.type in self.types)
            and (not self.inbox or event.type == "inbox")
            and (self.sessions is None or _session(event) in self.sessions)
            and (self.agents is None or any(name in self.agents for name in _agents(event)))
        )


EVERYTHING = Subscription()


def _session(event: Event) -> str:
    if event.session_id or not event.details:
        return event.session_id
    about = event.details.get("session_id") or event.details.get("task")
    return about if isinstance(about, str) else ""


def _agents(event: Event) -> Iterator[str]:
    if event.agent is not None:
        yield event.agent
    details = event.details or {}
    for party in _PARTIES:
        name = details.get(party)
        if isinstance(name, str):
            yield name
