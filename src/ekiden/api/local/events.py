"""Events of a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ekiden.api import events as api
from ekiden.api.events import Live, LiveEvent, Position
from ekiden.api.local.place import Here
from ekiden.api.methods.called import AsyncStream
from ekiden.core.errors import EkidenError
from ekiden.core.events import EventType
from ekiden.hub import EventHub, HubEvent, Subscription
from ekiden.inbox import NEW_ITEM, Inbox, new_item_notice


class LocalEvents(api.EventsApi):
    """See `Events`; an unreachable store is retried until it is back."""

    def __init__(self, here: Here) -> None:
        self._here = here

    def subscribe(
        self,
        *,
        sessions: Sequence[str] | None = None,
        agents: Sequence[str] | None = None,
        types: Sequence[EventType] | None = None,
        inbox: bool = False,
        after: str | None = None,
        follow: bool = True,
    ) -> AsyncStream[Live]:
        where = Subscription(sessions=sessions, agents=agents, types=types, inbox=inbox)
        return AsyncStream(self._told(where, after, follow=follow))

    async def _told(
        self, where: Subscription, after: str | None, *, follow: bool
    ) -> AsyncGenerator[Live, None]:
        inbox = Inbox(self._here.store, settings=self._here.settings.inbox)
        hub = EventHub(self._here.store, on_outage=self._here.on_outage)
        async with hub, hub.subscribe(after=after, where=where, follow=follow) as stream:
            yield Position(after=stream.position or "")
            async for found in stream:
                yield await live_event(found, inbox)
            if not follow:
                yield Position(after=stream.position or "")


async def live_event(found: HubEvent, inbox: Inbox) -> LiveEvent:
    """The event for observers; for a new inbox item, its question."""
    event = found.event
    details = event.details or {}
    # A session that took its answer is no news of the inbox, which has told of that itself.
    takes_answer = "status" in details and "change" not in details
    if event.type != "inbox" or takes_answer:
        return LiveEvent(id=found.id, type="event", event=event, data=event.to_json())
    change = details.get("change") or "posted"
    if change != "posted":
        return LiveEvent(id=found.id, type=f"inbox.{change}", event=event, data=dict(details))
    data: Mapping[str, Any] = dict(details)
    if "item" in details:
        with suppress(EkidenError):  # It is gone, or the store is for a moment.
            data = new_item_notice(await inbox.get(str(details["item"])))
    return LiveEvent(id=found.id, type=NEW_ITEM, event=event, data=data)
