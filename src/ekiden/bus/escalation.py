"""Bringing a message before people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.bus.settings import BusSettings
from ekiden.core.errors import UserError
from ekiden.core.inbox_item import InboxItem
from ekiden.core.messages import AgentMessage
from ekiden.storage.base import Store

_MAX_OPTIONS = 50
_MAX_OPTION = 200


async def escalation_item(
    message: AgentMessage,
    options: Sequence[str],
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
    if isinstance(options, str) or len(options) > _MAX_OPTIONS:
        raise UserError(f"`options` is a list of at most {_MAX_OPTIONS} texts to choose from")
    for option in options:
        if not isinstance(option, str) or not option.strip() or len(option) > _MAX_OPTION:
            raise UserError(
                f"an option is a text of 1 to {_MAX_OPTION} characters, not {option!r:.60}"
            )
    now_us = await store.now_us()
    payload = message.payload
    return InboxItem(
        kind="escalation",
        from_agent=message.from_agent,
        subject=message.subject,
        body=payload if isinstance(payload, str) else "",
        context=None if isinstance(payload, str) else payload,
        options=tuple(options),
        priority=message.priority,
        created_at_us=now_us,
        deadline_us=None if message.ttl is None else now_us + int(message.ttl * 1e6),
        role=message.to_agent or settings.role,
        notice=not blocking,
    )
