"""What a mirror gets of an event: what was said, and the session's variables that changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.core.conversation.model import Item
from ekiden.core.events import Event
from ekiden.core.privacy.redaction import redact_json, redact_text
from ekiden.core.values import dumps, loads
from ekiden.sessions.conversation import is_draft
from ekiden.sessions.replica.base import ReplicatedEvent
from ekiden.sessions.scopes import is_run_name
from ekiden.sessions.state import told_state

_COVERED = ("content", "arguments", "output", "summary")
"""The fields of an item that hold what was said."""


def is_news(event: Event) -> bool:
    """Whether a mirror has to hear of the event at all."""
    return bool(event.session_id) and (bool(_said(event)) or bool(state_delta(event)))


def _said(event: Event) -> tuple[Item, ...]:
    """What the event says; an answer that a guardrail did not let through was never said."""
    return () if is_draft(event) else event.items


def state_delta(event: Event) -> dict[str, Any]:
    """Variables of the session with their new values; `None` for those that were removed.

    Variables of a run are gone soon, and those of users and apps are not the session's.
    """
    told = told_state(event)
    if told is None:
        return {}
    values = {**told.get("base", {}), **told.get("set", {})}
    values.update(dict.fromkeys(told.get("deleted", ())))
    return {name: value for name, value in values.items() if not is_run_name(name)}


def calls_of(event: Event) -> dict[str, str]:
    """The names of the tools that the event calls, by the call's id."""
    return {
        str(item.get("call_id")): str(item.get("name"))
        for item in event.items
        if item.get("type") == "function_call"
    }


def answered(event: Event) -> list[str]:
    """The ids of the calls that the event answers."""
    return [
        str(item.get("call_id"))
        for item in event.items
        if item.get("type") == "function_call_output"
    ]


def replicated_event(
    event: Event, *, at_us: int, tools: Mapping[str, str], include_sensitive_data: bool
) -> ReplicatedEvent:
    """The event for a mirror; without sensitive data, what looks like a card number, a telephone,
    an e-mail address or a key is covered in all that was said and in all values."""
    items, state = _said(event), state_delta(event)
    if not include_sensitive_data:
        items = tuple(map(_covered_item, items))
        state = {name: _covered(value) for name, value in state.items()}
    return ReplicatedEvent(
        id=event.event_id,
        seq=event.seq,
        at_us=at_us,
        agent=event.agent or "agent",
        items=items,
        tools=tools,
        state=state,
    )


def _covered_item(item: Item) -> Item:
    return {name: _covered(value) if name in _COVERED else value for name, value in item.items()}


def _covered(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if value is None or isinstance(value, bool):
        return value
    return loads(redact_json(dumps(value)))
