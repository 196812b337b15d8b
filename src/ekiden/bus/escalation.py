"""Bringing a message before people."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from ekiden.bus.settings import BusSettings
from ekiden.core.errors import UserError
from ekiden.core.ids import check_id
from ekiden.core.inbox_item import InboxItem, Option, option_texts
from ekiden.core.messages import AgentMessage
from ekiden.storage.base import Store

_MAX_OPTIONS = 50
_MAX_OPTION = 200


async def escalation_item(
    message: AgentMessage,
    options: Sequence[Option],
    *,
    blocking: bool,
    settings: BusSettings,
    store: Store,
) -> InboxItem:
    """The question that people get; `UserError`."""
    if message.type != "escalate":
        raise UserError(
            f"a message that people get has the type 'escalate', not {message.type!r:.40}"
        )
    texts = option_texts(options)
    if len(texts) > _MAX_OPTIONS or any(len(text) > _MAX_OPTION for text in texts):
        raise UserError(
            f"`options` has at most {_MAX_OPTIONS} texts of at most {_MAX_OPTION} characters"
        )
    now_us = await store.now_us()
    payload = message.payload
    return InboxItem(
        id=item_id(message.id),
        kind="escalation",
        from_agent=message.from_agent,
        subject=message.subject,
        body=payload if isinstance(payload, str) else "",
        context=None if isinstance(payload, str) else payload,
        options=texts,
        priority=message.priority,
        created_at_us=now_us,
        deadline_us=None if message.ttl is None else now_us + int(message.ttl * 1e6),
        role=message.to_agent or settings.role,
        task_id=message.task,
        correlation_id=message.correlation_id,
        notice=not blocking,
    )


def item_id(message_id: str) -> str:
    """The id of the item of a message: whoever escalates it again finds the same item."""
    name = f"{message_id}.item"
    try:
        return check_id(name, what="id of an inbox item")
    except UserError:
        return f"{sha256(name.encode()).hexdigest()}.item"
