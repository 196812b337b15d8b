"""Live events of all sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeAlias

from ekiden.api.methods.called import AsyncStream, Called, streams
from ekiden.api.methods.endpoint import Param, endpoint
from ekiden.core.events import Event, EventType


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in the sequence of events.

    A subscription first yields the position at which it starts, then the events after it. A
    subscription without `follow` also yields the position at which it ends.
    """

    after: str
    """The id to pass as `after`, to subscribe to all later events. It is empty if there is no event
    before this position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvent:
    """An event, or a change of an inbox item, in the form that subscribers receive."""

    id: str
    """The position of the event. A subscription with this id as `after` gets exactly the later
    events."""
    type: str
    """``event``, or the type of an inbox event, such as ``inbox.new_item`` or
    ``inbox.answered``."""
    event: Event
    data: Mapping[str, Any]
    """The event as JSON. For an inbox event, the inbox item."""


Live: TypeAlias = Position | LiveEvent


class EventsApi(Protocol):
    """The events of all sessions, in one order for all subscribers."""

    @endpoint("GET", "/events", scope="read")
    def subscribe(
        self,
        *,
        sessions: Annotated[
            Sequence[str] | None, Param("Only events of these sessions.", max_length=1000)
        ] = None,
        agents: Annotated[
            Sequence[str] | None,
            Param("Only events of these agents, and between them.", max_length=1000),
        ] = None,
        types: Annotated[Sequence[EventType] | None, Param("Only events of these types.")] = None,
        inbox: Annotated[bool, Param("Only inbox items, and their changes.")] = False,
        after: Annotated[str | None, Param("Start after the event with this id.")] = None,
        follow: Annotated[bool, Param("Wait for new events.")] = True,
    ) -> AsyncStream[Live]:
        """Subscribe to events. The stream has a `Position` first, and then each event exactly once,
        even if the client reconnects.

        A missing filter matches all events. `after` is the id of the last event that the client
        received. If `after` is empty, all stored events are sent. Without `after`, only new events
        are sent. Without `follow`, the stream ends after the stored events.
        """
        ...


class CalledEvents(Called):
    """`EventsApi` for synchronous code."""

    subscribe = streams(EventsApi.subscribe)
