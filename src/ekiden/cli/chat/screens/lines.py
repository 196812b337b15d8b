"""Events in a chat: one line for people, one object for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.cli.transcript import duration, route_line, short, task_line
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.events import Event
from ekiden.core.questions import UNANSWERED
from ekiden.sessions import is_transfer


def event_line(event: Event) -> str | None:
    """The line for a route, a handoff, a tool call, a person's decision or a task; else `None`.

    A route that keeps the agent has no line.
    """
    details = event.details or {}
    match event.type:
        case "route":
            return None if details.get("method") == "sticky" else route_line(details)
        case "handoff":
            return _handoff(event, details)
        case "tool_call":
            return _tool(event, details)
        case "tool_confirmation":
            return _confirmation(details)
        case "task":
            return task_line(event)
    return None


def beside_line(event: Event) -> str | None:
    """The line for an event in a session that answers the watched one."""
    line = event_line(event)
    return None if line is None else f"  {event.agent}  {line}"


def said_by_agent(event: Event) -> str:
    """What an agent says to the person in this event; empty if nothing.

    An answer that a guardrail sent back to the model is not shown.
    """
    if event.type == "guardrail":
        return ""
    texts = (
        text_of(item)
        for item in event.items
        if is_message(item) and item.get("role") == "assistant"
    )
    return "\n\n".join(text for text in texts if text)


def event_record(event: Event) -> dict[str, Any] | None:
    """The event as a chat's JSON line; `None` for internal events."""
    details = event.details or {}
    record: dict[str, Any] | None = None
    match event.type:
        case "route":
            record = {"type": "route", **details}
        case "handoff" if _handoff(event, details) is not None:
            shown = {name: value for name, value in details.items() if name not in _INTERNAL}
            record = {"type": "handoff", **shown}
        case "tool_call":
            record = {"type": "tool", "tool": details.get("tool"), "agent": event.agent}
        case "tool_confirmation":
            record = {"type": "confirmation", **details, "agent": event.agent}
        case "task":
            record = {"type": "task", **details}
        case "agent_start":
            record = {"type": "agent", "agent": event.agent}
        case _ if text := said_by_agent(event):
            record = {"type": "message", "agent": event.agent, "text": text}
    if record is None:
        return None
    if event.duration_us is not None and event.type in ("tool_call", "route", "task"):
        record["duration_ms"] = event.duration_us / 1e3
    if event.error is not None:
        record["error"] = event.error
    return {**record, "session_id": event.session_id, "seq": event.seq}


_INTERNAL = ("undoes", "keeps", "hash")


def _handoff(event: Event, details: Mapping[str, Any]) -> str | None:
    """The line when the conversation moves, fails to move, or moves back; none for its
    confirmation."""
    line = f"⇢ {details.get('from')} → {details.get('to')}"
    status = details.get("status")
    if "compensation" in details:
        line = f"{line} undoing {details['compensation']}"
    elif status == "rolled_back":
        line = f"{line} taken back"
    elif status == "failed":
        line = f"{line} failed"
    elif not is_transfer(event):
        return None
    if event.error:
        return f"{line}: {short(event.error)}"
    reason = details.get("reason")
    return f'{line}: "{short(reason)}"' if reason else line


def _tool(event: Event, details: Mapping[str, Any]) -> str:
    line = f"· {details.get('tool')}"
    if details.get("not_run"):
        return f"{line}  not run: {short(event.error or '')}"
    if event.duration_us is not None:
        line = f"{line}  {duration(event.duration_us)}"
    return f"{line}  failed: {short(event.error)}" if event.error else line


def _confirmation(details: Mapping[str, Any]) -> str | None:
    if not details.get("approved"):
        reason = details.get("reason")
        told = UNANSWERED.get(str(details.get("status")), "not allowed")
        return f"· {details.get('tool')}  {told}" + (f": {short(reason)}" if reason else "")
    if details.get("edited"):
        return f"· {details.get('tool')}  allowed with other arguments"
    return None
