"""Live events of a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ekiden.api import events as api
from ekiden.api.events import Live, LiveEvent, Position
from ekiden.api.local.context import LocalContext
from ekiden.api.methods.called import AsyncStream
from ekiden.core.errors import EkidenError
from ekiden.core.events import EventType
from ekiden.hub import EventHub, HubEvent, Subscription
from ekiden.inbox import NEW_ITEM, Inbox, new_item_notice


class LocalEvents(api.EventsApi):
    """`EventsApi` on a store in this process. While the store is unreachable, subscriptions
    wait."""

    def __init__(self, context: LocalContext) -> None:
        self._context = context

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
        return AsyncStream(self._stream(where, after, follow=follow))

    async def _stream(
        self, where: Subscription, after: str | None, *, follow: bool
    ) -> AsyncGenerator[Live, None]:
        inbox = Inbox(self._context.store, settings=self._context.settings.inbox)
        hub = EventHub(self._context.store, on_outage=self._context.on_outage)
        async with hub, hub.subscribe(after=after, where=where, follow=follow) as stream:
            yield Position(after=stream.position or "")
            async for found in stream:
                yield await live_event(found, inbox)
            if not follow:
                yield Position(after=stream.position or "")


async def live_event(found: HubEvent, inbox: Inbox) -> LiveEvent:
    """Convert an event to the form that subscribers receive. The event of a new inbox item includes
    the item."""
    event = found.event
    details = event.details or {}
    # The session records that it took the answer. The inbox has published its own event before.
    takes_answer = "status" in details and "change" not in details
    if event.type != "inbox" or takes_answer:
        return LiveEvent(id=found.id, type="event", event=event, data=event.to_json())
    change = details.get("change") or "posted"
    if change != "posted":
        return LiveEvent(id=found.id, type=f"inbox.{change}", event=event, data=dict(details))
    data: Mapping[str, Any] = dict(details)
    if "item" in details:
        with suppress(EkidenError):  # The item was removed, or the store is unreachable now.
            data = new_item_notice(await inbox.get(str(details["item"])))
    return LiveEvent(id=found.id, type=NEW_ITEM, event=event, data=data)
