"""Events of all sessions, as they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeAlias

from ekiden.api.called import Called, streams
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.streams import AsyncStream
from ekiden.core.events import Event, EventType


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far everything was told: at the beginning, and at the end of what does not follow.

    From the first one on nothing is missed.
    """

    after: str
    """An id to subscribe with; empty before the first event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvent:
    """Something that happened just now."""

    id: str
    """Whoever subscribes after it gets exactly what came later."""
    type: str
    """``event``, or of the inbox ``inbox.new_item``, ``inbox.answered`` and so on."""
    event: Event
    data: Mapping[str, Any]
    """Of the inbox: what is told of the question; else the event as JSON."""


Live: TypeAlias = Position | LiveEvent


class Events(Protocol):
    """What happens in all sessions, in the one order in which everybody gets it."""

    @endpoint("GET", "/events", scope="read")
    def subscribe(
        self,
        *,
        sessions: Annotated[
            Sequence[str] | None, Told("Only those of these sessions.", max_length=1000)
        ] = None,
        agents: Annotated[
            Sequence[str] | None,
            Told("Only those of these agents, and between them.", max_length=1000),
        ] = None,
        types: Annotated[Sequence[EventType] | None, Told("Only those of these types.")] = None,
        inbox: Annotated[bool, Told("Only questions to people, and their answers.")] = False,
        after: Annotated[str | None, Told("Begin after the event with this id.")] = None,
        follow: Annotated[bool, Told("Wait for what comes.")] = True,
    ) -> AsyncStream[Live]:
        """A `Position`, then the events, across cut connections: no gap, no repeat.

        What is not given does not restrict; `inbox`: only questions to people and what becomes of
        them. `after` is the id of the last event that was received, or empty for all; without it
        there is only what comes from now on. Without `follow` it ends with what is there.
        """
        ...


class CalledEvents(Called):
    """`Events`, called."""

    subscribe = streams(Events.subscribe)
