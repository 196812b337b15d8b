"""Events, routing decisions and tasks as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ekiden.core.conversation.model import Item, is_message, refusal_of, text_of
from ekiden.core.events import Event
from ekiden.core.values import dumps, loads

_LABELS = {"rule": "rule-match", "sticky": "kept"}
_CERTAIN = frozenset({"named", "sticky", "default"})
"""Methods that do not estimate, so that a confidence means nothing."""
_CAUSES = {"gave_up": "the previous agent gave up", "switched": "the subject changed"}
_LONGEST_OUTPUT = 600
"""Characters of a tool's output that are shown."""
_LONGEST_REASON = 300


def route_line(details: Mapping[str, Any]) -> str:
    """A decision as a line, from `RouteDecision.to_json` or the details of `route` events.

    For example ``rule-match → debugger, 90 %``, ``named → billing``, ``kept → orders`` or ``no
    match: no keyword was found``. Missing fields are left out.
    """
    agent, method = details.get("agent"), str(details.get("method") or "route")
    if not agent:
        reason = details.get("reason")
        return f"no match: {reason}" if reason else "no match"
    line = f"{_LABELS.get(method, method)} → {agent}"
    confidence = details.get("confidence")
    if method not in _CERTAIN and isinstance(confidence, int | float):
        line = f"{line}, {confidence:.0f} %"
    cause = _CAUSES.get(str(details.get("cause")))
    return f"{line} ({cause})" if cause else line


def is_news(details: Mapping[str, Any]) -> bool:
    """Whether a decision is worth showing: not if the agent stays the same."""
    return details.get("method") != "sticky"


class TranscriptLine(NamedTuple):
    """A message or an action: by whom, and what."""

    who: str
    what: str


def transcript(events: Sequence[Event]) -> list[TranscriptLine]:
    """The conversation, with calls, handoffs and failures where they happened."""
    from ekiden.sessions import current_events, is_rewind, said

    spoken = {event.seq for event in said(events)}
    transfers = _transfer_calls(events)
    tools = _tool_names(events)
    lines: list[TranscriptLine] = []
    for event in current_events(events):
        if is_rewind(event):
            lines.append(
                TranscriptLine(
                    "rewind", f"rewound to after event {(event.details or {})['rewound']}"
                )
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
    """Whether the handoff was made, failed, or was rolled back."""
    from ekiden.sessions import is_transfer

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


def task_line(event: Event) -> str | None:
    """The line when a task of a plan, or the plan itself, starts or ends."""
    details = event.details or {}
    agent = details.get("agent")
    match details.get("phase"):
        case "decomposed":
            agents = ", ".join(str(task.get("agent")) for task in details.get("tasks", ()))
            return f"▸ plan: {agents}"
        case "started" if "attempt" in details:
            return f"▸ {agent}  attempt {details['attempt']}"
        case "started":
            return f"▸ {agent}"
        case "finished" if details.get("success"):
            return f"✓ {agent}  {duration(event.duration_us or 0)}"
        case "finished":
            return f"✗ {agent}  failed: {short(event.error)}"
    return None


def duration(microseconds: int) -> str:
    """A duration, for people."""
    if microseconds < 1_000_000:
        return f"{microseconds / 1e3:.0f} ms"
    return f"{microseconds / 1e6:.1f} s"


def short(value: object) -> str:
    """A reason or an error on one line, cut."""
    return shorten(" ".join(str(value).split()), _LONGEST_REASON)
