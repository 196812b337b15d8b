"""Reports a change of an item: the event, waiters on the bus and observers."""

from __future__ import annotations

from typing import Any

from ekiden.core.conversation.messages import answer_json, error_json
from ekiden.core.documents import to_json
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.events import Event
from ekiden.core.privacy.masking import masked_keys
from ekiden.core.questions import NOBODY, InboxItem
from ekiden.inbox.items import Change
from ekiden.storage.base import MessageSettle
from ekiden.storage.chain import ITEM_DIGEST, json_digest

NEW_ITEM = "inbox.new_item"
"""The name of the event of a new item for observers."""
_MAX_TEXT = 2_000


def new_item_notice(item: InboxItem) -> dict[str, Any]:
    """The content of the notification `inbox.new_item`."""
    return {
        "id": item.id,
        "from": item.from_agent,
        "subject": item.subject,
        "payload": {
            "kind": item.kind,
            "body": item.body,
            "options": list(item.options),
            "context": item.context,
            "role": item.role,
            "assignee": item.assignee,
            "deadline_us": item.deadline_us,
            "tool": item.tool,
            "arguments": item.arguments,
            "session_id": item.session_id,
        },
        "priority": item.priority,
        "created_at": item.created_at_us / 1e6,
    }


def change_details(change: Change) -> dict[str, Any]:
    """The details of the event of a change, with keys masked; `by` is its author, and `nobody` is
    the clock."""
    item, answer = change.item, change.item.answer
    details: dict[str, Any] = {
        "change": change.name,
        "item": item.id,
        "kind": item.kind,
        "from": item.from_agent,
        "role": item.role,
        "subject": masked_keys(item.subject),
        "priority": item.priority,
        "by": change.by or {"kind": "agent", "name": item.from_agent},
        "via": change.via,
        "at_us": change.at_us,
    }
    if item.status != "open":
        details[ITEM_DIGEST] = json_digest(item.to_json())
    if answer is not None:
        details |= {"choice": answer.choice, "text": masked_keys(answer.text)[:_MAX_TEXT]}
        details |= {"always": answer.always, "edited": change.edited}
        if answer.arguments is not None:
            details["arguments"] = masked_keys(answer.arguments)[:_MAX_TEXT]
    optional = {
        "task": item.task_id or item.session_id,
        "correlation": item.correlation_id or item.session_id,
        "tool": item.tool,
        "assignee": item.assignee,
        "snoozed_until_us": item.snoozed_until_us,
        "deadline_us": item.deadline_us,
        "reason": masked_keys(item.reason) or None,
    }
    return details | {name: value for name, value in optional.items() if value is not None}


def change_event(change: Change, *, now_us: int) -> Event:
    """The event of a change that belongs to no session's own commit."""
    return Event(
        session_id="",
        seq=0,
        type="inbox",
        at_us=now_us,
        agent=change.item.from_agent,
        details=change_details(change),
    )


def settle_of(item: InboxItem) -> MessageSettle | None:
    """How the end of an item settles the message that waits for it; `None` if none does."""
    if item.message_id is None or item.status == "open":
        return None
    if item.answer is not None:
        answer = answer_json(to_json(item.answer))
        return MessageSettle(key=item.message_id, state="answered", answer=answer)
    error = error_json(str(closed_error(item)), code=InboxItemClosed.code)
    return MessageSettle(key=item.message_id, state="failed", answer=error)


def closed_error(item: InboxItem) -> InboxItemClosed:
    """Says who was first, and when."""
    by = "" if item.closed_by == NOBODY and item.status == "expired" else item.closed_by
    return InboxItemClosed(item.id, status=item.status, by=by, at=time_text(item.closed_at_us))


def time_text(at_us: int | None) -> str:
    """A time as it stands in messages."""
    if at_us is None:
        return ""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="milliseconds")
