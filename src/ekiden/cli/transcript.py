"""A session's events as lines that people read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ekiden.cli.routing_view import is_news, route_line
from ekiden.core.events import Event
from ekiden.core.items import Item, is_message, refusal_of, text_of
from ekiden.core.jsonio import dumps, loads
from ekiden.sessions import is_rewind, is_transfer, said, standing

_LONGEST_OUTPUT = 600
"""Characters of a tool's output that are shown."""


class TranscriptLine(NamedTuple):
    """Something said or done: by whom, and what."""

    who: str
    what: str


def transcript(events: Sequence[Event]) -> list[TranscriptLine]:
    """The conversation as it stands, with calls, handoffs and failures where they happened."""
    spoken = {event.seq for event in said(events)}
    transfers = _transfer_calls(events)
    tools = _tool_names(events)
    lines: list[TranscriptLine] = []
    for event in standing(events):
        if is_rewind(event):
            lines.append(
                TranscriptLine("rewind", f"back to after event {(event.details or {})['rewound']}")
            )
        elif event.type == "handoff":
            if _is_news(event):
                lines.append(_handoff(event))
        elif event.type == "route" and is_news(event.details or {}):
            lines.append(TranscriptLine("route", route_line(event.details or {})))
        elif event.type == "guardrail":
            lines.append(TranscriptLine("guardrail", event.error or _warning(event)))
        elif event.seq in spoken:
            lines.extend(_said(event, transfers, tools))
        elif event.type == "agent_error":
            lines.append(TranscriptLine("!", event.error or "failed"))
    return lines


def _warning(event: Event) -> str:
    details = event.details or {}
    return f"{details.get('guardrail')} ({details.get('result')})"


def _transfer_calls(events: Iterable[Event]) -> set[str]:
    return {
        item["call_id"]
        for event in events
        if event.type == "handoff"
        for item in event.items
        if "call_id" in item
    }


def _is_news(event: Event) -> bool:
    """Whether the conversation moved, did not move though somebody wanted it to, or moved back."""
    status = (event.details or {}).get("status")
    return is_transfer(event) or status in ("failed", "rolled_back")


def _handoff(event: Event) -> TranscriptLine:
    details = event.details or {}
    route = f"{details.get('from')} → {details.get('to')}"
    status = details.get("status")
    if status in ("failed", "rolled_back"):
        route = f"{route} ({status})"
    return TranscriptLine("handoff", f"{route}: {why}" if (why := _why(event, details)) else route)


def _why(event: Event, details: dict[str, Any]) -> str:
    return event.error or details.get("reason") or ""


def _tool_names(events: Iterable[Event]) -> dict[str, str]:
    return {
        item["call_id"]: str(item.get("name"))
        for event in events
        for item in event.items
        if item.get("type") == "function_call" and "call_id" in item
    }


def _said(event: Event, transfers: set[str], tools: Mapping[str, str]) -> Iterable[TranscriptLine]:
    speaker = event.agent or "agent"
    for item in event.items:
        if item.get("call_id") in transfers:
            continue
        line = _line(item, speaker, tools)
        if line is not None:
            yield line


def _line(item: Item, speaker: str, tools: Mapping[str, str]) -> TranscriptLine | None:
    kind = item.get("type")
    if is_message(item):
        who = speaker if item.get("role") == "assistant" else str(item.get("role"))
        return TranscriptLine(who, refusal_of(item) or text_of(item))
    if kind == "function_call":
        return TranscriptLine(speaker, f"{item.get('name')}({_arguments(item.get('arguments'))})")
    if kind == "function_call_output":
        tool = tools.get(item.get("call_id", ""), "tool")
        return TranscriptLine(tool, shorten(_output(item.get("output"))))
    return None


def _arguments(text: Any) -> str:
    try:
        values = loads(text or "{}")
    except (TypeError, ValueError):
        return str(text)
    if not isinstance(values, dict):
        return str(text)
    return ", ".join(f"{name}={dumps(value)}" for name, value in values.items())


def _output(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def shorten(text: str, longest: int = _LONGEST_OUTPUT) -> str:
    """`text`, or its beginning with how much was left out."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"
