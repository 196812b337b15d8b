"""The inbox as runs use it: new items are stored with the steps of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ekiden.core.questions import DEFAULT_ROLE, InboxItem
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import DocumentWrite, Store

if TYPE_CHECKING:
    from ekiden.inbox import Inbox

SEEN = "seen"
"""The answer to an item that only informs."""
_OWN_FIELDS = ("kind", "from", "subject", "reason", "role")
_MAX_SUBJECT = 500


def inbox_of(run: RunState) -> Inbox:
    """The inbox of the run's store, with the run's settings."""
    from ekiden.inbox import Inbox, InboxSettings

    settings = InboxSettings(role=run.config.operator, escalation=tuple(run.config.escalation))
    return Inbox(run.store, settings=settings)


def item_writes(run: RunState, item: InboxItem) -> list[DocumentWrite]:
    """The writes of a new item, for the commit of a step."""
    about = replace(item, task_id=run.task_id, correlation_id=run.correlation_id)
    return inbox_of(run).item_writes(about)


async def tell_people(run: RunState, case: dict[str, Any]) -> None:
    """Inform people with an item that no run waits for; the caller commits it.

    `case` has the item's kind, sender, subject, and the further details of the event.
    """
    if run.is_reachable:
        context = {name: value for name, value in case.items() if name not in _OWN_FIELDS}
        item = InboxItem(
            kind=case["kind"],
            from_agent=case["from"] or run.agent.name,
            subject=case["subject"][:_MAX_SUBJECT],
            body=case.get("reason", ""),
            options=(SEEN,),
            context={**context, "session": run.session_id},
            priority=run.priority,
            created_at_us=await run.store.now_us(),
            role=case.get("role") or DEFAULT_ROLE,
            notice=True,
        )
        for document in item_writes(run, item):
            run.write(document)
        case["item"] = item.id
    run.record("inbox", details=case)


async def read_item(store: Store, item_id: str) -> InboxItem | None:
    """The current item; `None` if it does not exist."""
    from ekiden.core.errors.messages import InboxItemNotFound
    from ekiden.inbox import Inbox

    try:
        return await Inbox(store).get(item_id)
    except InboxItemNotFound:
        return None
