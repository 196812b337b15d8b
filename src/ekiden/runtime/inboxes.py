"""The inbox as runs use it: what they ask people is stored with their own steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.core.inbox_item import InboxItem
from ekiden.runtime.state import RunState
from ekiden.storage.base import DocumentWrite, Store

if TYPE_CHECKING:
    from ekiden.inbox import Inbox


def inbox_of(run: RunState) -> Inbox:
    """The inbox of the run's store, with the run's settings."""
    from ekiden.inbox import Inbox, InboxSettings

    settings = InboxSettings(role=run.config.operator, escalation=tuple(run.config.escalation))
    return Inbox(run.store, settings=settings)


def item_writes(run: RunState, item: InboxItem) -> list[DocumentWrite]:
    """What stores a new item, to be written with a step."""
    return inbox_of(run).item_writes(item)


async def read_item(store: Store, item_id: str) -> InboxItem | None:
    """The item as it is now; `None` if there is none."""
    from ekiden.core.inbox_errors import InboxItemNotFound
    from ekiden.inbox import Inbox

    try:
        return await Inbox(store).get(item_id)
    except InboxItemNotFound:
        return None
