"""The events of an imported session."""

from __future__ import annotations

import re
from typing import Any, get_args

from ekiden.core.events import Event, EventType
from ekiden.core.jsonio import loads
from ekiden.core.session_errors import SessionImportInvalid
from ekiden.runtime.import_items import check_items
from ekiden.runtime.import_values import (
    MAX_NAME,
    amount,
    amounts,
    finding,
    findings,
    mapping,
    micros,
    objects,
    text,
    text_or_none,
    texts,
    usage,
    whole,
)
from ekiden.sessions import is_rewind, is_transfer
from ekiden.sessions.state import STATE

_TYPES = frozenset(get_args(EventType))
_CALL_OF_CODE = re.compile(r"[0-9]+\.[0-9]+\.c")
_TEXTS = (
    "id", "from", "to", "status", "model", "outcome", "published", "filter", "hash", "reason",
    "summary", "code", "phase", "task", "correlation", "tool", "call_id", "item", "kind", "role",
    "subject", "method", "type", "result", "behavior", "guardrail",
)  # fmt: skip
"""In details: what is text wherever it stands."""
_ENDS = {
    "refused": ("reason",),
    "waiting": ("reason",),
    "out_of_budget": ("limit", "allowed", "used"),
    "failed": ("code",),
}
"""By outcome: what the event of the end tells beside it."""


def read_events(data: Any, session_id: str) -> list[Event]:
    """The events, numbered from 1 on; `SessionImportInvalid`, with the place."""
    if not isinstance(data, list):
        raise SessionImportInvalid("events", "it is not a list")
    events, keys = [], set[str]()
    for number, each in enumerate(data):
        place = f"events[{number}]"
        event = _event(mapping(each, place), place, session_id)
        if event.seq != number + 1:
            raise SessionImportInvalid(
                f"{place}.seq", f"it is {event.seq}, where {number + 1} is due"
            )
        # What a document says that people allowed is asked again, and told under the same key.
        if event.step is not None and event.type != "tool_confirmation":
            if event.step in keys:
                raise SessionImportInvalid(f"{place}.step", "another event has it, too")
            keys.add(event.step)
        _check_event(event, place)
        events.append(event)
    return events


def _event(data: dict[str, Any], place: str, session_id: str) -> Event:
    kind = data.get("event_type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise SessionImportInvalid(f"{place}.event_type", f"there is no {str(kind)[:40]!r}")
    items = check_items(data.get("items", []), f"{place}.items")
    details = data.get("details")
    took = data.get("duration_ms")
    event_type: Any = kind
    return Event(
        session_id=session_id,
        seq=whole(data.get("seq"), f"{place}.seq"),
        type=event_type,
        at_us=micros(data.get("timestamp"), 1e6, f"{place}.timestamp"),
        agent=text_or_none(data.get("agent_name"), f"{place}.agent_name", longest=MAX_NAME),
        step=text_or_none(data.get("step"), f"{place}.step", longest=MAX_NAME),
        duration_us=None if took is None else micros(took, 1e3, f"{place}.duration_ms"),
        details=None if details is None else mapping(details, f"{place}.details"),
        items=tuple(items),
        error=text_or_none(data.get("error"), f"{place}.error"),
    )


def _check_event(event: Event, place: str) -> None:
    details, inside = event.details or {}, f"{place}.details"
    for name in _TEXTS:
        text_or_none(details.get(name), f"{inside}.{name}")
    _check_told(details, inside)
    _check_range(details, f"{inside}.undoes")
    if is_rewind(event):
        whole(details.get("rewound"), f"{inside}.rewound")
        if "undoes" not in details:
            raise SessionImportInvalid(f"{inside}.undoes", "it is missing")
    if _CALL_OF_CODE.match(event.step or ""):
        _check_call_of_code(event, place)
    match event.type:
        case "message":
            _check_letters(details, inside)
        case "handoff":
            _check_handoff(event, details, place)
        case "guardrail":
            finding(details, inside)
        case "task":
            objects(details.get("tasks", []), f"{inside}.tasks")
        case "route":
            text_or_none(details.get("agent"), f"{inside}.agent")
        case "agent_complete" | "agent_error":
            _check_end(details, inside)
        case _:
            pass


def _check_told(details: dict[str, Any], place: str) -> None:
    """What events of several types tell."""
    if STATE in details:
        _check_state(mapping(details[STATE], f"{place}.{STATE}"), f"{place}.{STATE}")
    if details.get("usage") is not None:
        usage(details["usage"], f"{place}.usage")
    if "guardrails" in details:
        findings(details["guardrails"], f"{place}.guardrails")


def _check_letters(details: dict[str, Any], place: str) -> None:
    """What was asked and told between sessions."""
    for name in ("message", "asks", "tells"):
        if name in details:
            told = mapping(details[name], f"{place}.{name}")
            for part in ("id", "to", "session", "subject", "from_agent"):
                text_or_none(told.get(part), f"{place}.{name}.{part}")


def _check_state(told: dict[str, Any], place: str) -> None:
    for name in ("set", "base"):
        mapping(told.get(name, {}), f"{place}.{name}")
    for name in ("deleted", "user", "app"):
        texts(told.get(name, []), f"{place}.{name}")


def _check_handoff(event: Event, details: dict[str, Any], place: str) -> None:
    inside = f"{place}.details"
    for name in ("id", "from", "to"):
        text(details.get(name), f"{inside}.{name}")
    texts(details.get("moves", []), f"{inside}.moves")
    if details.get("tools") is not None:
        texts(details["tools"], f"{inside}.tools")
    texts(details.get("chain", []), f"{inside}.chain")
    amounts(details.get("budget", {}), f"{inside}.budget")
    if "place" in details:
        whole(details["place"], f"{inside}.place")
    if "received" in details:
        check_received(details["received"], f"{inside}.received")
    if is_transfer(event):
        mapping(details.get("by", {}), f"{inside}.by")
        for number, item in enumerate(event.items):
            text(item.get("call_id"), f"{place}.items[{number}].call_id")


def check_received(value: Any, place: str) -> None:
    """What an agent was handed."""
    words = mapping(value, place)
    text(words.get("from"), f"{place}.from")
    for name in ("reason", "summary"):
        text_or_none(words.get(name), f"{place}.{name}")


def _check_end(details: dict[str, Any], place: str) -> None:
    for name in _ENDS.get(details.get("outcome") or "", ()):
        if name in ("allowed", "used"):
            amount(details.get(name), f"{place}.{name}")
        elif not isinstance(details.get(name), str):
            raise SessionImportInvalid(f"{place}.{name}", "it is not a text")


def _check_call_of_code(event: Event, place: str) -> None:
    """What the code of an agent called, which is read again when the code is run again."""
    kinds = [item.get("type") for item in event.items]
    if kinds != ["function_call", "function_call_output"]:
        raise SessionImportInvalid(f"{place}.items", "it is not a call and its output")
    call, output = event.items
    _check_json(call.get("arguments"), f"{place}.items[0].arguments")
    if output.get("output") is None:
        raise SessionImportInvalid(f"{place}.items[1].output", "it is missing")
    if (event.details or {}).get("json"):
        _check_json(output["output"], f"{place}.items[1].output")


def _check_json(value: Any, place: str) -> None:
    try:
        loads(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise SessionImportInvalid(place, "it is not JSON") from exc


def _check_range(details: dict[str, Any], place: str) -> None:
    if "undoes" not in details:
        return
    for numbers in (details["undoes"], details.get("keeps", [])):
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise SessionImportInvalid(place, "it is not a range of event numbers")
    if len(details["undoes"]) != 2:
        raise SessionImportInvalid(place, "it is not a range of event numbers")
